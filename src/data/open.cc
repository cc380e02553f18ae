// SPDX-License-Identifier: Apache-2.0
// Opens a path as a Dataset: what is in the file, whether it fits the model, how many samples there are.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <numeric>

#include "base/checked.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/csv.h"
#include "data/dataset.h"
#include "data/npy.h"
#include "data/npz.h"
#include "data/tokens.h"
#include "graph/random.h"
#include "onnx/tensor_proto.h"

namespace temper {
namespace fs = std::filesystem;

namespace {

std::string extension_of(const std::string& path) {
  std::string extension = fs::path(path).extension().string();
  for (char& c : extension) c = char(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return extension;
}

// The entries of a folder by name, hidden ones left out.
std::vector<fs::path> entries_of(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (!it->path().filename().string().starts_with(".")) entries.push_back(it->path());
  if (error) fail(ErrorKind::bad_file, "cannot read the folder '", folder, "': ", error.message());
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// The number of fields that a row may have before it is refused for too many: enough for a message with both numbers.
int64_t most_fields(const TensorType& type) {
  int64_t values = 1;
  for (size_t axis = 1; axis < type.shape.size(); ++axis)
    if (type.shape[axis].is_constant()) values = checked_mul(values, std::max<int64_t>(1, type.shape[axis].value()));
  return checked_add<int64_t>(checked_mul<int64_t>(2, values), 65536);
}

// Rows of a table as [rows, sample...] of `type`. Integers must be integers that fit.
Tensor tensor_from_csv(const CsvTable& table, const InputSpec& spec) {
  Dims dims = {table.rows};
  for (size_t axis = 1; axis < spec.type.shape.size(); ++axis) {
    if (!spec.type.shape[axis].is_constant())
      fail(ErrorKind::usage, "input '", spec.name, "' ", spec.type,
           " leaves its shape open; a row of CSV does not say it. Give an .npy file");
    dims.push_back(spec.type.shape[axis].value());
  }
  const int64_t needed = element_count(Dims(dims.begin() + 1, dims.end()));
  if (spec.type.rank() == 0 || needed != table.columns)
    fail(ErrorKind::usage, "a row has ", table.columns, " values", table.labels.empty() ? "" : " beside the label",
         "; input '", spec.name, "' ", spec.type, " needs ", needed,
         needed + 1 == table.columns && table.labels.empty()
             ? ". If one column is the label, say which: --label-column first or last"
             : "");
  if (spec.type.dtype == DType::string)
    fail(ErrorKind::usage, "input '", spec.name,
         "' takes strings, and a table of CSV is read as numbers: give an .npy file");
  Tensor tensor(spec.type.dtype, dims);
  visit_dtype(spec.type.dtype, [&]<class T>() {
    T* out = tensor.data<T>();
    for (size_t i = 0; i < table.values.size(); ++i) {
      const double value = table.values[i];
      if constexpr (is_float(dtype_of<T>)) {
        out[i] = T(value);
      } else {
        constexpr double kExact = 9007199254740992.0;  // 2^53: beyond it a double skips integers
        const double low = std::is_same_v<T, bool> ? 0 : std::max(double(std::numeric_limits<T>::min()), -kExact);
        const double high = std::is_same_v<T, bool> ? 1 : std::min(double(std::numeric_limits<T>::max()), kExact);
        if (value != std::floor(value) || value < low || value > high)
          fail(ErrorKind::usage, "sample ", i / size_t(table.columns), ", value ", i % size_t(table.columns), ": ",
               value, " is no ", spec.type.dtype);
        out[i] = T(value);
      }
    }
  });
  return tensor;
}

}  // namespace

// Collects columns, then settles how many samples there are.
class DatasetOpener {
 public:
  DatasetOpener(const std::vector<InputSpec>& inputs, const DatasetOptions& options)
      : inputs_(inputs), options_(options) {
    for (const InputSpec& input : inputs) {
      data_.columns_.emplace_back();
      data_.columns_.back().spec = input;
      data_.columns_.back().random = true;  // until a file covers it
    }
    data_.class_names_ = options.class_names;
    text_ = text_inputs(inputs);
  }

  // Reads `path` into the columns `which`.
  void add(const std::string& path, std::vector<size_t> which) {
    path_ = path;
    std::error_code error;
    const bool folder = fs::is_directory(path, error);
    if (!folder && !fs::exists(path, error)) fail(ErrorKind::bad_file, "'", path, "' does not exist");
    const std::string extension = extension_of(path);
    if (folder) named([&] { add_folder(single(which, "a folder of pictures")); });
    else if (extension == ".npz") add_npz(which);
    else if (extension == ".npy") add_npy(which);
    else if (extension == ".pb") add_pb(which);
    else if (extension == ".csv") add_csv(which);
    else if (extension == ".txt") add_token_lines(which);
    else if (has_image_extension(path)) named([&] { add_picture(single(which, "a picture")); });
    else
      fail(ErrorKind::usage, "'", path, "' is not a kind of data that is read: a folder of pictures, one picture (",
           std::string_view(kImageExtensions), "), .npy, .npz, .csv, .pb, or .txt of token ids");
  }

  // The columns of all inputs.
  void add(std::map<std::string, Tensor> arrays) {
    path_ = "<arrays>";
    std::vector<size_t> all(inputs_.size());
    std::iota(all.begin(), all.end(), size_t(0));
    named([&] {
      add_arrays(all, arrays);
      if (!arrays.empty())
        fail(ErrorKind::usage, "the array '", arrays.begin()->first,
             "' is no input of the model. It takes: ", list_inputs(inputs_));
    });
  }

  Dataset finish() {
    refuse_unused();
    settle_text();
    for (const auto& column : data_.columns_)
      if (column.random && !column.spec.whole) {
        if (!options_.fill_missing)
          fail(ErrorKind::usage, "no data for input '", column.spec.name, "'. The model takes: ", list_inputs(inputs_));
        data_.filled_.push_back(column.spec.name);
      }
    settle_size();
    if (!data_.labels_.empty() && int64_t(data_.labels_.size()) != data_.size_)
      fail(ErrorKind::usage, "'", path_, "': ", data_.labels_.size(), " labels for ", data_.size_, " samples");
    data_.seed_ = options_.seed;
    if (data_.text_.empty()) data_.text_ = concat(data_.size_, data_.size_ == 1 ? " sample" : " samples");
    return std::move(data_);
  }

 private:
  using Column = Dataset::Column;

  // What was said of pictures or of tables, where the data are neither.
  void refuse_unused() const {
    const bool pictures =
        std::ranges::any_of(data_.columns_, [](const Column& column) { return !column.pictures.empty(); });
    if (const std::string said = text_of(options_.preprocess); !said.empty() && !pictures && !path_.empty())
      fail(ErrorKind::usage, "it was said how pictures are prepared (", said, "), and '", path_,
           "' has none: arrays are taken as they are");
    if (!options_.label_column.empty() && !is_table_ && !path_.empty())
      fail(ErrorKind::usage, "the label's column '", options_.label_column, "' is of CSV files, and '", path_,
           "' is none");
  }

  // The readers put the path in front of their own messages; this does it for the rest.
  template <class Body>
  void named(Body&& body) {
    with_context([&] { return concat("'", path_, "'"); }, body);
  }

  size_t single(const std::vector<size_t>& which, std::string_view what) const {
    if (which.size() != 1)
      fail(ErrorKind::usage, what, " is data for one input, and the model takes: ", list_inputs(inputs_),
           ". Give one file per input (--input NAME=FILE) or an .npz");
    return which[0];
  }

  void claim(Column& column) {
    if (!column.random) fail(ErrorKind::usage, "input '", column.spec.name, "' is given twice");
    column.random = false;
  }

  void add_array(size_t index, Tensor array) {
    Column& column = data_.columns_[index];
    claim(column);
    const TensorType& type = column.spec.type;
    bool fits = array.dtype() == type.dtype && array.rank() == type.rank();
    for (size_t axis = column.spec.whole ? 0 : 1; fits && axis < type.shape.size(); ++axis)
      fits = !type.shape[axis].is_constant() || type.shape[axis].value() == array.dims()[axis];
    if (!fits)
      fail(ErrorKind::usage, "an array ", array.type(), " does not fit input '", column.spec.name,
           "'. The model takes: ", list_inputs(inputs_), type.rank() > 0 ? "; the first axis counts samples" : "",
           array.dtype() != type.dtype && is_float(array.dtype()) && is_float(type.dtype)
               ? concat(". Save it as ", type.dtype, " (NumPy: array.astype)")
               : "");
    column.array = std::move(array);
  }

  void add_labels(std::vector<int64_t> labels) {
    if (!data_.labels_.empty()) fail(ErrorKind::usage, "labels are given twice");
    for (int64_t label : labels)
      if (label < 0) fail(ErrorKind::usage, "the label ", label, " is not the number of a class (0, 1, ...)");
    data_.labels_ = std::move(labels);
  }

  // Token ids are data for all inputs that follow from them.
  std::optional<size_t> token_input(const std::vector<size_t>& which) const {
    if (text_.tokens < 0 || std::ranges::find(which, size_t(text_.tokens)) == which.end()) return std::nullopt;
    return size_t(text_.tokens);
  }

  void add_token_lines(const std::vector<size_t>& which) {
    named([&] {
      const auto index = token_input(which);
      if (!index)
        fail(ErrorKind::usage,
             "a text file holds token ids, and no input of the model takes them ([batch, positions] of integers, named "
             "input_ids). It takes: ",
             list_inputs(inputs_));
      const std::vector<std::vector<int64_t>> samples = parse_token_lines(read_file(path_));
      for (const auto& sample : samples) lengths_.push_back(int64_t(sample.size()));
      const TensorType& type = inputs_[*index].type;
      add_array(*index, padded_tokens(samples, type.shape[1].is_constant() ? type.shape[1].value() : 0, 0, type.dtype));
      data_.text_ = concat(samples.size(), samples.size() == 1 ? " sample" : " samples", " of up to ",
                           *std::ranges::max_element(lengths_), " tokens");
    });
  }

  void add_npy(const std::vector<size_t>& which) {
    Tensor array = read_npy(path_);
    named([&] {
      const auto tokens = which.size() > 1 && is_int(array.dtype()) ? token_input(which) : std::nullopt;
      add_array(tokens ? *tokens : single(which, "an .npy file"), std::move(array));
    });
  }

  // Of a model of text: what is not given and follows from the token ids.
  void settle_text() {
    if (text_.tokens < 0) return;
    const Tensor& tokens = data_.columns_[size_t(text_.tokens)].array;
    if (!tokens.defined() || tokens.rank() != 2) return;
    const int64_t samples = tokens.dims()[0], length = tokens.dims()[1];
    const auto derive = [&](int place, auto&& make) {
      if (place < 0) return;
      Column& column = data_.columns_[size_t(place)];
      if (!column.random) return;
      column.random = false;
      column.array = make(column.spec.type.dtype);
    };
    derive(text_.mask, [&](DType dtype) {
      return mask_of(lengths_.empty() ? std::vector<int64_t>(size_t(samples), length) : lengths_, length, dtype);
    });
    derive(text_.positions, [&](DType dtype) { return positions_of(samples, length, dtype); });
    derive(text_.types, [&](DType dtype) { return Tensor(dtype, {samples, length}); });
    data_.token_input_ = text_.tokens;
    data_.is_token_.assign(size_t(samples * length), 1);
    const Tensor mask = text_.mask >= 0     ? data_.columns_[size_t(text_.mask)].array
                        : !lengths_.empty() ? mask_of(lengths_, length, DType::i64)
                                            : Tensor();
    if (mask.defined() && mask.dims() == tokens.dims())
      std::ranges::transform(mask.to_doubles(), data_.is_token_.begin(), [](double x) { return char(x != 0); });
  }

  void add_npz(const std::vector<size_t>& which) {
    auto arrays = read_npz(path_, options_.memory_limit);
    named([&] { add_arrays(which, arrays); });
    for (const auto& [name, array] : arrays)
      log(LogLevel::warning, "'", path_, "': the array '", name, "' is no input of the model and is not used");
  }

  // Takes out of `arrays` what belongs to an input or is the truth.
  void add_arrays(const std::vector<size_t>& which, std::map<std::string, Tensor>& arrays) {
    const auto is_input = [&](const std::string& name) {
      return std::any_of(which.begin(), which.end(), [&](size_t i) { return inputs_[i].name == name; });
    };
    if (!is_input("labels"))
      if (const auto found = arrays.find("labels"); found != arrays.end()) {
        if (!is_int(found->second.dtype()) || found->second.rank() != 1)
          fail(ErrorKind::usage, "the array 'labels' is ", found->second.type(), "; one integer per sample is needed");
        add_labels(found->second.to_ints());
        arrays.erase(found);
      }
    if (which.size() == 1 && arrays.size() == 1) {
      add_array(which[0], std::move(arrays.begin()->second));
      return arrays.clear();
    }
    if (arrays.empty())
      fail(ErrorKind::usage, "it holds no arrays", data_.labels_.empty() ? "" : " but the labels",
           ". The model takes: ", list_inputs(inputs_));
    std::string names;
    for (const auto& [name, array] : arrays) names += concat(names.empty() ? "" : ", ", name, " ", array.type());
    int64_t used = 0;
    for (size_t index : which)
      if (const auto found = arrays.find(inputs_[index].name); found != arrays.end()) {
        add_array(index, std::move(found->second));
        arrays.erase(found);
        ++used;
      } else if (!options_.fill_missing && !follows_from_tokens(index)) {
        fail(ErrorKind::usage, "no array for input '", inputs_[index].name, "'; it holds: ", names,
             ". The model takes: ", list_inputs(inputs_));
      }
    if (used == 0)
      fail(ErrorKind::usage, "no array is named after an input; it holds: ", names,
           ". The model takes: ", list_inputs(inputs_));
  }

  bool follows_from_tokens(size_t index) const {
    const auto place = int(index);
    return text_.tokens >= 0 && (place == text_.mask || place == text_.positions || place == text_.types);
  }

  void add_pb(const std::vector<size_t>& which) {
    std::string name;
    Tensor tensor = read_tensor_proto_file(path_, &name);
    named([&] {
      const auto found = std::find_if(which.begin(), which.end(), [&](size_t i) { return inputs_[i].name == name; });
      add_array(found != which.end() ? *found : single(which, "a .pb file"), std::move(tensor));
    });
  }

  void add_csv(const std::vector<size_t>& which) {
    const size_t index =
        with_context([&] { return concat("'", path_, "'"); }, [&] { return single(which, "a CSV file"); });
    is_table_ = true;
    CsvTable table = read_csv(path_, options_.label_column, most_fields(inputs_[index].type));
    named([&] {
      add_array(index, tensor_from_csv(table, inputs_[index]));
      if (!table.labels.empty()) add_labels(std::move(table.labels));
    });
  }

  void add_pictures(size_t index, std::vector<std::string> paths, std::vector<std::string> names) {
    Column& column = data_.columns_[index];
    claim(column);
    column.preprocess = complete_remembered(options_.preprocess, column.spec);
    data_.text_ = concat(paths.size(), paths.size() == 1 ? " picture, " : " pictures, ", column.preprocess.text());
    column.pictures = std::move(paths);
    data_.names_ = std::move(names);
  }

  void add_picture(size_t index) { add_pictures(index, {path_}, {fs::path(path_).filename().string()}); }

  void add_folder(size_t index) {
    std::vector<fs::path> folders;
    std::vector<std::string> pictures, names;
    std::vector<std::string> others;
    auto take = [&](const fs::path& file, const std::string& name) {
      if (!has_image_extension(name)) return others.push_back(name);
      pictures.push_back(file.string());
      names.push_back(name);
    };
    for (const fs::path& entry : entries_of(path_))
      if (is_folder(entry)) folders.push_back(entry);
      else take(entry, entry.filename().string());
    if (!pictures.empty())  // a sub-folder beside them is another matter, unless it holds pictures too
      for (; !folders.empty(); others.push_back(folders.back().filename().string()), folders.pop_back())
        for (const fs::path& entry : entries_of(folders.back().string()))
          if (has_image_extension(entry.string()))
            fail(ErrorKind::usage,
                 "both pictures and sub-folders with pictures: either all lie in it, or each sub-folder is a class");

    std::vector<std::string> classes;
    classes.reserve(folders.size());
    for (const fs::path& folder : folders) classes.push_back(folder.filename().string());
    const std::vector<int64_t> numbers = number_classes(classes);
    std::vector<int64_t> labels;
    for (size_t i = 0; i < folders.size(); ++i) {
      for (const fs::path& entry : entries_of(folders[i].string())) {
        if (is_folder(entry))
          fail(ErrorKind::usage, "'", entry.string(),
               "' is a folder inside a class folder; the pictures of a class lie in it directly");
        take(entry, classes[i] + "/" + entry.filename().string());
      }
      if (pictures.size() == labels.size())
        log(LogLevel::warning, "'", folders[i].string(), "': a class without pictures");
      labels.resize(pictures.size(), numbers[i]);
    }
    if (pictures.empty())
      fail(ErrorKind::bad_file, "an empty folder: no ", std::string_view(kImageExtensions), " in it",
           folders.empty() ? "" : " or its sub-folders");
    if (!others.empty())
      log(LogLevel::warning, "'", path_, "': ", others.size(),
          others.size() == 1 ? " entry that is" : " entries that are", " no ", std::string_view(kImageExtensions),
          others.size() == 1 ? " is" : " are", " left out: ", first_of(others));
    add_pictures(index, std::move(pictures), std::move(names));
    if (folders.empty()) return;
    add_labels(std::move(labels));
    data_.text_ = concat(folders.size(), folders.size() == 1 ? " class, " : " classes, ", data_.text_);
    if (data_.class_names_.empty()) data_.class_names_ = std::move(classes);
  }

  // A folder that bears a class name has its number. Where none does and there are as many folders as names (folders
  // named after WordNet ids beside a list of English names), and where there is no list, the folders are counted in the
  // order of their names.
  std::vector<int64_t> number_classes(const std::vector<std::string>& folders) const {
    const auto& names = options_.class_names;
    std::vector<int64_t> numbers;
    const std::string* unknown = nullptr;
    for (const std::string& folder : folders) {
      const auto found = std::find(names.begin(), names.end(), folder);
      if (found == names.end()) unknown = &folder;
      else numbers.push_back(found - names.begin());
    }
    if (!unknown) return numbers;
    if (!names.empty() && !(numbers.empty() && names.size() == folders.size()))
      fail(ErrorKind::usage, "the class folder '", *unknown, "' is not among the ", names.size(), " class names");
    numbers.resize(folders.size());
    std::iota(numbers.begin(), numbers.end(), int64_t(0));
    return numbers;
  }

  // How many samples there are, and which inputs have no sample axis (a threshold, a list of sizes). An array whose
  // first axis the model leaves open or wants otherwise counts samples. One that meets a fixed first axis exactly has
  // samples only if it has as many as the counting ones; where there are none, if all have the same number; otherwise
  // they are together one sample.
  void settle_size() {
    std::vector<Column*> counting, exact;
    for (Column& column : data_.columns_) {
      if (column.spec.whole) settle_whole(column);
      if (column.random || column.spec.whole) continue;
      const Shape& shape = column.spec.type.shape;
      const bool met = column.array.defined() && (shape.empty() || shape[0] == Dim(column.array.dims()[0]));
      (met ? exact : counting).push_back(&column);
    }
    const auto samples = [](const Column& column) -> int64_t {
      if (!column.array.defined()) return int64_t(column.pictures.size());
      return column.array.rank() == 0 ? -1 : column.array.dims()[0];
    };
    bool counted = true;
    if (!counting.empty()) {
      data_.size_ = samples(*counting[0]);
      for (const Column* column : counting)
        if (samples(*column) != data_.size_)
          fail(ErrorKind::usage, "input '", counting[0]->spec.name, "' has ", data_.size_, " samples and input '",
               column->spec.name, "' has ", samples(*column));
    } else if (!exact.empty()) {
      data_.size_ = samples(*exact[0]);
      for (const Column* column : exact) counted = counted && samples(*column) == data_.size_ && data_.size_ >= 0;
      if (!counted) data_.size_ = 1;
    }
    for (Column* column : exact) column->per_sample = counted && samples(*column) == data_.size_;
    settle_random(counting.empty() && exact.empty());
  }

  static void settle_whole(Column& column) {
    column.per_sample = false;
    if (!column.random) return;
    Dims dims;
    for (const Dim& dim : column.spec.type.shape) dims.push_back(dim.is_constant() ? dim.value() : 1);
    column.array = Tensor(column.spec.type.dtype, dims);
  }

  // Random inputs have samples where their batch axis is that of an input that has; `alone`: there is no data at all.
  void settle_random(bool alone) {
    const Dim* batch = nullptr;
    for (const Column& column : data_.columns_)
      if (!batch && (alone || !column.random) && !column.spec.whole && column.per_sample && column.spec.type.rank() > 0)
        batch = &column.spec.type.shape[0];
    if (alone) data_.size_ = batch && batch->is_constant() ? batch->value() : 1;
    for (Column& column : data_.columns_) {
      if (!column.random || column.spec.whole) continue;
      const TensorType& type = column.spec.type;
      for (size_t axis = 1; axis < type.shape.size(); ++axis)
        if (!type.shape[axis].is_constant())
          fail(ErrorKind::usage, "input '", column.spec.name, "' ", type,
               " leaves its shape open, so random numbers cannot fill it. Give a file: --input ", column.spec.name,
               "=FILE");
      column.per_sample = type.rank() > 0 && (!type.shape[0].is_constant() || (batch && *batch == type.shape[0]));
      if (!column.per_sample)
        column.array = random_tensor(type.dtype, type.dims(), options_.seed ^ xxh3(column.spec.name));
    }
  }

  const std::vector<InputSpec>& inputs_;
  const DatasetOptions& options_;
  TextInputs text_;
  std::vector<int64_t> lengths_;  // of samples of token ids; empty: not told
  std::string path_;              // of the data being added
  bool is_table_ = false;         // some of them are CSV
  Dataset data_;
};

Dataset open_dataset(const std::string& path, const std::vector<InputSpec>& inputs, const DatasetOptions& options) {
  DatasetOpener opener(inputs, options);
  std::vector<size_t> all(inputs.size());
  std::iota(all.begin(), all.end(), size_t(0));
  opener.add(path, all);
  return opener.finish();
}

Dataset open_arrays(std::map<std::string, Tensor> arrays, const std::vector<InputSpec>& inputs,
                    const DatasetOptions& options) {
  DatasetOpener opener(inputs, options);
  opener.add(std::move(arrays));
  return opener.finish();
}

InputFiles parse_input_files(const std::vector<std::string>& arguments, const std::vector<InputSpec>& inputs) {
  InputFiles files;
  for (const std::string& argument : arguments) {
    std::string name;
    for (const InputSpec& input : inputs)
      if (argument.starts_with(input.name + "=") && input.name.size() > name.size()) name = input.name;
    const auto equals = argument.find('=');
    if (name.empty() && equals != std::string::npos && !file_exists(argument)) name = argument.substr(0, equals);
    files.emplace_back(name, name.empty() ? argument : argument.substr(name.size() + 1));
    if (files.back().second.empty()) fail(ErrorKind::usage, "--input needs NAME=FILE, not '", argument, "'");
  }
  return files;
}

Dataset open_input_files(const InputFiles& files, const std::vector<InputSpec>& inputs, const DatasetOptions& options) {
  DatasetOpener opener(inputs, options);
  for (const auto& [name, path] : files) {
    size_t index = 0;
    while (index < inputs.size() && inputs[index].name != name) ++index;
    if (name.empty() && inputs.size() == 1) index = 0;
    if (index == inputs.size()) {
      if (name.empty())
        fail(ErrorKind::usage, "'", path,
             "' does not say for which input it is; write NAME=FILE. The model takes: ", list_inputs(inputs));
      fail(ErrorKind::usage, "the model has no input '", name, "'. It takes: ", list_inputs(inputs));
    }
    opener.add(path, {index});
  }
  return opener.finish();
}

}  // namespace temper
