// SPDX-License-Identifier: Apache-2.0
// The C++17 API: load a plan or build one from ONNX, and run it. Header-only over temper_c.h, so that only C crosses
// the border of the library, whatever compilers are on its two sides.
#pragma once
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "temper/temper_c.h"

namespace temper {
inline namespace api {  // keeps these names apart from the library's own classes

// The exception that functions of Temper throw; what() says what failed, where, and what to do next.
class Error : public std::runtime_error {
 public:
  Error(temper_status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  temper_status status() const { return status_; }

 private:
  temper_status status_;
};

namespace detail {
inline void check(temper_status status) {
  if (status != TEMPER_OK) throw Error(status, temper_last_error());
}
// The bytes that a function gives.
template <class Give>
std::string taken(Give&& give) {
  temper_bytes* bytes = nullptr;
  check(give(&bytes));
  const std::unique_ptr<temper_bytes, void (*)(temper_bytes*)> owned(bytes, temper_bytes_free);
  return std::string(static_cast<const char*>(temper_bytes_data(bytes)), temper_bytes_size(bytes));
}
template <class T>
constexpr bool holds(temper_dtype dtype) {
  switch (dtype) {
    case TEMPER_F32: return std::is_same_v<T, float>;
    case TEMPER_F64: return std::is_same_v<T, double>;
    case TEMPER_I8: return std::is_same_v<T, int8_t>;
    case TEMPER_U8: return std::is_same_v<T, uint8_t>;
    case TEMPER_I16: return std::is_same_v<T, int16_t>;
    case TEMPER_U16:
    case TEMPER_F16:
    case TEMPER_BF16: return std::is_same_v<T, uint16_t>;
    case TEMPER_I32: return std::is_same_v<T, int32_t>;
    case TEMPER_U32: return std::is_same_v<T, uint32_t>;
    case TEMPER_I64: return std::is_same_v<T, int64_t>;
    case TEMPER_U64: return std::is_same_v<T, uint64_t>;
    case TEMPER_BOOL: return std::is_same_v<T, bool>;
    case TEMPER_F8E4M3FN:
    case TEMPER_F8E4M3FNUZ:
    case TEMPER_F8E5M2:
    case TEMPER_F8E5M2FNUZ:
    case TEMPER_F8E8M0:
    case TEMPER_F4E2M1:
    case TEMPER_U4:
    case TEMPER_U2: return std::is_same_v<T, uint8_t>;
    case TEMPER_I4:
    case TEMPER_I2: return std::is_same_v<T, int8_t>;
    case TEMPER_STRING: return std::is_same_v<T, const char*>;
  }
  return false;
}
}  // namespace detail

inline std::string version() { return temper_version(); }

// Row-major elements, owned.
class Tensor {
 public:
  Tensor() = default;
  // Zeros. Throws Error{TEMPER_USAGE} for a shape or dtype that cannot be.
  Tensor(temper_dtype dtype, std::vector<int64_t> dims) : dtype_(dtype), dims_(std::move(dims)) {
    size_t bytes = temper_dtype_size(dtype_);
    if (!bytes) throw Error(TEMPER_USAGE, "there is no such dtype");
    for (int64_t dim : dims_) {
      if (dim < 0 || (dim && bytes > size_t(std::numeric_limits<int64_t>::max() / dim)))
        throw Error(TEMPER_USAGE, "a tensor cannot have the dimension " + std::to_string(dim));
      bytes *= size_t(dim);
    }
    bytes_.resize(bytes);
  }

  // A tensor of TEMPER_STRING with copies of these.
  static Tensor of_strings(std::vector<int64_t> dims, std::vector<std::string> values) {
    Tensor tensor(TEMPER_STRING, std::move(dims));
    if (values.size() != tensor.count()) throw Error(TEMPER_USAGE, "a tensor was given another number of strings");
    auto owned = std::make_shared<const std::vector<std::string>>(std::move(values));
    for (size_t i = 0; i < owned->size(); ++i) tensor.data<const char*>()[i] = (*owned)[i].c_str();
    tensor.strings_ = std::move(owned);
    return tensor;
  }

  temper_dtype dtype() const { return dtype_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  size_t count() const { return bytes_.empty() ? 0 : bytes_.size() / temper_dtype_size(dtype_); }
  size_t bytes() const { return bytes_.size(); }
  void* raw() { return bytes_.data(); }
  const void* raw() const { return bytes_.data(); }
  // count() elements. T is the type of the dtype (uint16_t for the 16-bit floats); throws Error{TEMPER_USAGE} for
  // another.
  template <class T>
  T* data() {
    require<T>();
    return reinterpret_cast<T*>(bytes_.data());
  }
  template <class T>
  const T* data() const {
    require<T>();
    return reinterpret_cast<const T*>(bytes_.data());
  }
  // Its data is null of a default-constructed tensor alone, which stands for a session's state.
  temper_tensor view() const {
    const void* empty = dims_.data();  // some address, where there is no element
    return {dtype_, dims_.size(), dims_.data(), bytes_.empty() ? empty : bytes_.data()};
  }

 private:
  template <class T>
  void require() const {
    if (!detail::holds<T>(dtype_)) throw Error(TEMPER_USAGE, "the elements of this tensor are of another type");
  }
  temper_dtype dtype_ = TEMPER_F32;
  std::vector<int64_t> dims_;
  std::vector<unsigned char> bytes_;
  std::shared_ptr<const std::vector<std::string>> strings_;  // what the elements of TEMPER_STRING are addresses of
};

struct Port {
  std::string name;
  temper_dtype dtype;
  std::vector<int64_t> dims;  // -1: may vary
};

// Any shape from min to max; speed is measured for opt. All three equal for a fixed shape.
struct ShapeRange {
  std::string input;
  std::vector<int64_t> min, opt, max;
};

// Measured times in memory, which several builds may read and extend; copies share them.
class Timings {
 public:
  Timings() : Timings(std::string()) {}
  // The bytes of bytes(), or of a timing cache file; none: no times.
  explicit Timings(const std::string& bytes) {
    temper_timings* timings = nullptr;
    detail::check(temper_timings_create(bytes.data(), bytes.size(), &timings));
    handle_.reset(timings, temper_timings_free);
  }
  // Takes what `other` holds.
  void add(const Timings& other) { detail::check(temper_timings_add(handle(), other.handle())); }
  std::string bytes() const {
    return detail::taken([&](temper_bytes** bytes) { return temper_timings_save_bytes(handle(), bytes); });
  }
  temper_timings* handle() const { return handle_.get(); }

 private:
  std::shared_ptr<temper_timings> handle_;
};

struct BuildOptions {
  std::string device = "cpu";
  std::string precision = "fp32";
  std::string calibration;   // file of ranges, for int8 (alone or with 16 bits) and fp16; "": none
  std::string timing_cache;  // file of measured times, read and extended; "": none
  int threads = 0;           // 0: all that the process may use
  int64_t memory_limit = 0;  // bytes that the model may take; 0: by its size
  double time_limit = 0;     // seconds that the search for one shape's plan may take; 0: 120
  std::vector<ShapeRange> shapes;
  std::vector<std::vector<ShapeRange>> profiles;     // instead of shapes: several sets of them, any of which may be run
  std::shared_ptr<const Timings> timings;            // instead of timing_cache: read and extended
  std::function<bool(const std::string&)> progress;  // told now and then; false ends the build (TEMPER_CANCELLED)
  void* cuda_context = nullptr;                      // see temper_load_options
  bool measure = true;     // false: each step takes the first kernel that can compute it, and none is timed
  std::string preprocess;  // how pictures become the input, as --preprocess says it; "": as ranges or model have it
  bool input_pictures = false;  // the plan takes u8 [batch, height, width, channels]; see temper_build_options
  int64_t node_limit = 0, depth_limit = 0, loop_limit = 0;  // as temper_build_options has them
  double build_limit = 0;  // seconds that the whole build may take (TEMPER_CHECK_FAILED); 0: as long as it takes
};

struct LoadOptions {
  bool map_file = false;         // see temper_load_options: nobody may write to the file while the engine lives
  void* cuda_context = nullptr;  // see temper_load_options
  std::string device;            // see temper_load_options; "": the one that the plan names
};

// Limits of what is kept for shapes that come at run time: what was used last; see temper_shape_limits. 0: the default.
struct ShapeLimits {
  int64_t plans = 0, plan_bytes = 0;         // of the engine
  int64_t prepared = 0, prepared_bytes = 0;  // of each session
};

// Immutable; copies share it, and threads may too.
class Engine {
 public:
  static Engine load(const std::string& plan_path, const LoadOptions& options = {}) {
    const temper_load_options plain = plain_of(options);
    temper_engine* engine = nullptr;
    detail::check(temper_engine_load_with(plan_path.c_str(), &plain, &engine));
    return Engine(engine);
  }
  // The same of the bytes that save_bytes() gave, or of a plan file; they are copied.
  static Engine load_bytes(const void* plan, size_t size, const LoadOptions& options = {}) {
    const temper_load_options plain = plain_of(options);
    temper_engine* engine = nullptr;
    detail::check(temper_engine_load_bytes(plan, size, &plain, &engine));
    return Engine(engine);
  }
  // Imports, optimises and measures: seconds to minutes. Needs the library temper_build. What `progress` throws ends
  // the build and comes back as it is.
  static Engine build(const std::string& onnx_path, const BuildOptions& options = {}) {
    return build_with(options, [&](const temper_build_options* plain, temper_engine** engine) {
      return temper_engine_build(onnx_path.c_str(), plain, engine);
    });
  }
  // The same of an ONNX model's bytes, with all its weights in them.
  static Engine build_bytes(const void* onnx, size_t size, const BuildOptions& options = {}) {
    return build_with(options, [&](const temper_build_options* plain, temper_engine** engine) {
      return temper_engine_build_bytes(onnx, size, plain, engine);
    });
  }

  // A file that was there stays if writing fails, and unless it is a plan; `force` replaces files of other kinds, too.
  // Throws Error{TEMPER_USAGE} for a file that the engine was loaded or built from, even then.
  void save(const std::string& plan_path, bool force = false) const {
    detail::check((force ? temper_engine_save_over : temper_engine_save)(handle(), plan_path.c_str()));
  }
  // The bytes of that file.
  std::string save_bytes() const {
    return detail::taken([&](temper_bytes** bytes) { return temper_engine_save_bytes(handle(), bytes); });
  }
  // Describes what it holds, every step with its kernel, as JSON.
  std::string describe() const {
    return detail::taken([&](temper_bytes** bytes) { return temper_engine_describe(handle(), bytes); });
  }
  // The dimensions of each output for inputs of these shapes (in the engine's order), without planning: -1 for one that
  // depends on data.
  std::vector<std::vector<int64_t>> output_dims(const std::vector<std::vector<int64_t>>& input_dims) const {
    const std::vector<Port> takes = inputs();
    std::vector<temper_tensor> list;
    for (size_t i = 0; i < input_dims.size(); ++i)
      list.push_back(
          {i < takes.size() ? takes[i].dtype : TEMPER_F32, input_dims[i].size(), input_dims[i].data(), nullptr});
    std::vector<std::vector<int64_t>> all;
    for (const Port& port : outputs()) {
      std::vector<int64_t> dims(port.dims.size());
      detail::check(temper_engine_output_dims(handle(), list.data(), list.size(), all.size(), dims.data()));
      all.push_back(std::move(dims));
    }
    return all;
  }
  // Whether requests may be joined to one batch, as far as that is known.
  bool samples_are_independent() const {
    int independent = 0;
    detail::check(temper_engine_samples_are_independent(handle(), &independent));
    return independent != 0;
  }
  // Its texts are valid as long as the engine or a copy of it.
  temper_engine_info info() const {
    temper_engine_info now = {};
    detail::check(temper_engine_read_info(handle(), &now));
    return now;
  }
  // By profile and input: see temper_engine_profile.
  std::vector<std::vector<ShapeRange>> profiles() const {
    std::vector<std::vector<ShapeRange>> all(info().profile_count);
    for (size_t p = 0; p < all.size(); ++p)
      for (size_t i = 0; i < temper_engine_input_count(handle()); ++i) {
        temper_shape_range range;
        detail::check(temper_engine_profile(handle(), p, i, &range));
        const auto dims = [&](const int64_t* from) { return std::vector<int64_t>(from, from + range.rank); };
        all[p].push_back({range.input, dims(range.min), dims(range.opt), dims(range.max)});
      }
    return all;
  }
  // By bucket the inputs of a shape that the engine was tuned for.
  std::vector<std::vector<Port>> buckets() const {
    std::vector<std::vector<Port>> all(info().bucket_count);
    for (size_t b = 0; b < all.size(); ++b)
      all[b] =
          ports(temper_engine_input_count(handle()), [&](const temper_engine* engine, size_t i, temper_port* port) {
            return temper_engine_bucket(engine, b, i, port);
          });
    return all;
  }
  std::vector<Port> inputs() const { return ports(temper_engine_input_count(handle()), temper_engine_input); }
  std::vector<Port> outputs() const { return ports(temper_engine_output_count(handle()), temper_engine_output); }
  const temper_engine* handle() const { return handle_.get(); }
  // The limits hold from now on, for all copies and sessions.
  void set_limits(const ShapeLimits& limits) {
    temper_shape_limits plain = {};
    plain.plans = limits.plans;
    plain.plan_bytes = limits.plan_bytes;
    plain.prepared = limits.prepared;
    plain.prepared_bytes = limits.prepared_bytes;
    detail::check(temper_engine_set_limits(handle_.get(), &plain));
  }
  temper_engine_statistics statistics() const {
    temper_engine_statistics now = {};
    detail::check(temper_engine_read_statistics(handle(), &now));
    return now;
  }

 private:
  static temper_load_options plain_of(const LoadOptions& options) {
    temper_load_options plain = {};
    plain.map_file = options.map_file;
    plain.cuda_context = options.cuda_context;
    plain.device = options.device.empty() ? nullptr : options.device.c_str();
    return plain;
  }
  static std::vector<temper_shape_range> plain_of(const std::vector<ShapeRange>& ranges) {
    std::vector<temper_shape_range> shapes;
    for (const ShapeRange& range : ranges) {
      if (range.min.size() != range.opt.size() || range.max.size() != range.opt.size())
        throw Error(TEMPER_USAGE, "min, opt and max of '" + range.input + "' differ in their number of dimensions");
      shapes.push_back({range.input.c_str(), range.opt.size(), range.min.data(), range.opt.data(), range.max.data()});
    }
    return shapes;
  }
  // An exception of the caller's progress function does not cross the library.
  struct Told {
    const std::function<bool(const std::string&)>& progress;
    std::exception_ptr thrown;
  };
  template <class Build>
  static Engine build_with(const BuildOptions& options, Build&& build) {
    const auto or_null = [](const std::string& text) { return text.empty() ? nullptr : text.c_str(); };
    temper_build_options plain = {};
    plain.device = or_null(options.device);
    plain.precision = or_null(options.precision);
    plain.calibration = or_null(options.calibration);
    plain.timing_cache = or_null(options.timing_cache);
    plain.threads = options.threads;
    plain.memory_limit = options.memory_limit;
    plain.time_limit = options.time_limit;
    plain.node_limit = options.node_limit;
    plain.depth_limit = options.depth_limit;
    plain.loop_limit = options.loop_limit;
    plain.build_limit = options.build_limit;
    const std::vector<temper_shape_range> shapes = plain_of(options.shapes);
    plain.shapes = shapes.data();
    plain.shape_count = shapes.size();
    std::vector<std::vector<temper_shape_range>> ranges;
    std::vector<temper_shape_profile> profiles;
    for (const std::vector<ShapeRange>& profile : options.profiles) ranges.push_back(plain_of(profile));
    for (const std::vector<temper_shape_range>& profile : ranges) profiles.push_back({profile.data(), profile.size()});
    plain.profiles = profiles.data();
    plain.profile_count = profiles.size();
    if (options.timings) plain.timings = options.timings->handle();
    plain.cuda_context = options.cuda_context;
    plain.no_measure = !options.measure;
    plain.preprocess = or_null(options.preprocess);
    plain.input_pictures = options.input_pictures;
    Told told{options.progress, nullptr};
    if (options.progress) {
      plain.progress = [](const char* text, void* context) -> int {
        Told& its = *static_cast<Told*>(context);
        try {
          return !its.progress(text);
        } catch (...) { its.thrown = std::current_exception(); }
        return 1;
      };
      plain.progress_context = &told;
    }
    temper_engine* engine = nullptr;
    const temper_status status = build(&plain, &engine);
    if (told.thrown) std::rethrow_exception(told.thrown);
    detail::check(status);
    return Engine(engine);
  }
  explicit Engine(temper_engine* engine) : handle_(engine, temper_engine_free) {}
  template <class Get>
  std::vector<Port> ports(size_t count, Get get) const {
    std::vector<Port> list;
    for (size_t i = 0; i < count; ++i) {
      temper_port port;
      detail::check(get(handle(), i, &port));
      list.push_back({port.name, port.dtype, {port.dims, port.dims + port.rank}});
    }
    return list;
  }
  std::shared_ptr<temper_engine> handle_;
};

namespace detail {

// `prepare(i, to, bytes)` writes one sample.
template <class Prepare>
Tensor batch_of_pictures(const Engine& engine, size_t count, size_t input, const temper_preprocessing& preprocessing,
                         Prepare&& prepare) {
  std::vector<int64_t> dims(4);
  dims[0] = int64_t(count);
  check(temper_picture_dims(engine.handle(), input, &preprocessing, dims.data() + 1));
  Tensor batch(engine.inputs().at(input).dtype, dims);
  const size_t bytes = count ? batch.bytes() / count : 0;
  for (size_t i = 0; i < count; ++i) check(prepare(i, static_cast<unsigned char*>(batch.raw()) + i * bytes, bytes));
  return batch;
}

}  // namespace detail

// Files of JPEG, PNG, WebP, BMP, TIFF or PNM as a batch for input `input`: [count, then one sample's axes].
// `preprocessing`: see temper_c.h.
inline Tensor read_pictures(const Engine& engine, const std::vector<std::string>& paths, size_t input = 0,
                            const temper_preprocessing& preprocessing = {}) {
  return detail::batch_of_pictures(engine, paths.size(), input, preprocessing, [&](size_t i, void* to, size_t bytes) {
    return temper_picture_read(engine.handle(), input, &preprocessing, paths[i].c_str(), to, bytes);
  });
}

// The same of such files' bytes.
inline Tensor decode_pictures(const Engine& engine, const std::vector<std::string>& pictures, size_t input = 0,
                              const temper_preprocessing& preprocessing = {}) {
  return detail::batch_of_pictures(engine, pictures.size(), input, preprocessing,
                                   [&](size_t i, void* to, size_t bytes) {
                                     return temper_picture_decode(engine.handle(), input, &preprocessing,
                                                                  pictures[i].data(), pictures[i].size(), to, bytes);
                                   });
}

// One thread at a time; it keeps what it needs of the engine.
class Session {
 public:
  explicit Session(const Engine& engine) : outputs_(temper_engine_output_count(engine.handle())), kept_(outputs_) {
    for (const Port& port : engine.outputs()) names_.push_back(port.name);
    temper_session* session = nullptr;
    detail::check(temper_session_create(engine.handle(), &session));
    handle_.reset(session);
  }

  // Outputs of a run that are inputs of the next, as pairs of input and output; see temper_session_keep_state. Then
  // Tensor() as such an input takes what the last run left, at first zeros, and run() gives Tensor() for such an
  // output.
  void keep_state(const std::vector<std::pair<std::string, std::string>>& states) {
    std::vector<temper_state> list;
    for (const auto& [input, output] : states) list.push_back({input.c_str(), output.c_str()});
    detail::check(temper_session_keep_state(handle_.get(), list.data(), list.size()));
    kept_.assign(outputs_, false);
    for (size_t i = 0; i < outputs_; ++i)
      for (const auto& state : states)
        if (names_[i] == state.second) kept_[i] = true;
  }
  void reset() { detail::check(temper_session_reset_state(handle_.get())); }  // states begin again, with zeros
  void reset_state() { reset(); }                                             // its name in C
  // A session of the same engine that goes on from copies of the states.
  Session fork() const {
    Session other(*this, nullptr);
    temper_session* session = nullptr;
    detail::check(temper_session_fork(handle_.get(), &session));
    other.handle_.reset(session);
    return other;
  }
  // A copy of one output of the last run, a state too.
  Tensor output(size_t index) const {
    temper_tensor view;
    detail::check(temper_session_output(handle_.get(), index, &view));
    if (view.dtype == TEMPER_STRING) {
      size_t count = 1;
      for (size_t i = 0; i < view.rank; ++i) count *= size_t(view.dims[i]);
      const auto* const strings = static_cast<const char* const*>(view.data);
      return Tensor::of_strings({view.dims, view.dims + view.rank}, {strings, strings + count});
    }
    Tensor result(view.dtype, std::vector<int64_t>(view.dims, view.dims + view.rank));
    if (result.bytes()) std::memcpy(result.raw(), view.data, result.bytes());
    return result;
  }

  // Makes everything ready for the shapes of these inputs, so that a run only runs; their elements are not read.
  void prepare(const std::vector<Tensor>& inputs) {
    const auto list = views(inputs);
    detail::check(temper_session_prepare(handle_.get(), list.data(), list.size()));
  }
  // Inputs and outputs in the engine's order. Prepares first where the shapes are new.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) {
    const auto list = views(inputs);
    detail::check(temper_session_run(handle_.get(), list.data(), list.size()));
    std::vector<Tensor> results;
    for (size_t i = 0; i < outputs_; ++i) results.push_back(kept_[i] ? Tensor() : output(i));
    return results;
  }

  // Memory of the session's own for an input of the shapes that were prepared last; see temper_session_input.
  void* input(size_t index) {
    void* data = nullptr;
    detail::check(temper_session_input(handle_.get(), index, &data));
    return data;
  }
  // Begins a run that writes its outputs to `outputs`, or, without them, to memory that output() reads; wait() must
  // follow. See temper_session_enqueue.
  void enqueue(const std::vector<temper_tensor>& inputs, const std::vector<temper_tensor>& outputs = {}) {
    detail::check(temper_session_enqueue(handle_.get(), inputs.data(), inputs.size(), outputs.data(), outputs.size()));
  }
  void wait() { detail::check(temper_session_wait(handle_.get())); }

  // For an engine of a GPU, with inputs in its memory; see temper_session_run_on_device. The results are addresses of
  // the GPU, valid until the session's next call, or those of `outputs`, which are written where they are given.
  std::vector<temper_tensor> run_on_device(const std::vector<temper_tensor>& inputs,
                                           const std::vector<temper_tensor>& outputs = {}) {
    return run_on_device(inputs, outputs, temper_device_run{});
  }
  // The same in a CUstream of the caller's, without waiting; see temper_device_run.
  std::vector<temper_tensor> run_in_stream(const std::vector<temper_tensor>& inputs,
                                           const std::vector<temper_tensor>& outputs, void* stream) {
    temper_device_run how = {};
    how.in_stream = 1;
    how.stream = stream;
    return run_on_device(inputs, outputs, how);
  }
  temper_session_statistics statistics() const {
    temper_session_statistics now = {};
    detail::check(temper_session_read_statistics(handle_.get(), &now));
    return now;
  }
  // Between the host's memory and the GPU's; see temper_session_copy.
  void copy(void* to, const void* from, size_t bytes, temper_copy_direction direction) {
    detail::check(temper_session_copy(handle_.get(), to, from, bytes, direction));
  }
  // The CUstream that the runs of this session are put into.
  void* stream() {
    void* stream = nullptr;
    detail::check(temper_session_stream(handle_.get(), &stream));
    return stream;
  }

 private:
  Session(const Session& other, std::nullptr_t) : outputs_(other.outputs_), kept_(other.kept_), names_(other.names_) {}

  std::vector<temper_tensor> run_on_device(const std::vector<temper_tensor>& inputs,
                                           const std::vector<temper_tensor>& outputs, temper_device_run how) {
    how.outputs = outputs.data();
    how.output_count = outputs.size();
    detail::check(temper_session_run_on_device_with(handle_.get(), inputs.data(), inputs.size(), &how));
    std::vector<temper_tensor> results(outputs_);
    for (size_t i = 0; i < outputs_; ++i) detail::check(temper_session_output(handle_.get(), i, &results[i]));
    return results;
  }
  static std::vector<temper_tensor> views(const std::vector<Tensor>& tensors) {
    std::vector<temper_tensor> list;
    for (const Tensor& tensor : tensors) list.push_back(tensor.view());
    return list;
  }
  struct Free {
    void operator()(temper_session* session) const { temper_session_free(session); }
  };
  std::unique_ptr<temper_session, Free> handle_;
  size_t outputs_;
  std::vector<bool> kept_;  // by output: it is state
  std::vector<std::string> names_;
};

// Several devices that run batches of one model; see temper_pool_create and temper_pool_run. One thread at a time.
class Pool {
 public:
  struct Device {
    std::string name;  // "cuda:1"
    int64_t batches;   // that it has run, in all
    std::string loss;  // why it gets no more work; "": it works
  };

  // `devices`: "cuda:0,1", "cuda:*", "cpu,cpu". It keeps what it needs of the engine.
  Pool(const Engine& engine, const std::string& devices) : inputs_(temper_engine_input_count(engine.handle())) {
    temper_pool* pool = nullptr;
    detail::check(temper_pool_create(engine.handle(), devices.c_str(), &pool));
    handle_.reset(pool);
  }

  // Calls `use` with the outputs of each batch, in the order of the batches and by this thread. Inputs and outputs are
  // in the engine's order. What `use` throws ends the run and comes back as it is.
  void run(const std::vector<std::vector<Tensor>>& batches,
           const std::function<void(size_t batch, std::vector<Tensor> outputs)>& use) {
    std::vector<temper_tensor> list;
    for (const std::vector<Tensor>& batch : batches) {
      if (batch.size() != inputs_)
        throw Error(TEMPER_USAGE, "batch " + std::to_string(&batch - batches.data()) + " has " +
                                      std::to_string(batch.size()) + " inputs; the engine has " +
                                      std::to_string(inputs_));
      for (const Tensor& input : batch) list.push_back(input.view());
    }
    // An exception of the caller's function does not cross the library.
    struct Used {
      const std::function<void(size_t, std::vector<Tensor>)>& use;
      std::exception_ptr thrown;
    } used{use, nullptr};
    const temper_status status = temper_pool_run(
        handle_.get(), list.data(), batches.size(),
        [](size_t batch, const temper_tensor* outputs, size_t count, void* context) -> int {
          Used& its = *static_cast<Used*>(context);
          try {
            std::vector<Tensor> results;
            for (size_t i = 0; i < count; ++i) {
              results.emplace_back(outputs[i].dtype,
                                   std::vector<int64_t>(outputs[i].dims, outputs[i].dims + outputs[i].rank));
              if (results[i].bytes()) std::memcpy(results[i].raw(), outputs[i].data, results[i].bytes());
            }
            its.use(batch, std::move(results));
            return 0;
          } catch (...) { its.thrown = std::current_exception(); }
          return 1;
        },
        &used);
    if (used.thrown) std::rethrow_exception(used.thrown);
    detail::check(status);
  }
  // The outputs of all batches.
  std::vector<std::vector<Tensor>> run(const std::vector<std::vector<Tensor>>& batches) {
    std::vector<std::vector<Tensor>> all(batches.size());
    run(batches, [&](size_t batch, std::vector<Tensor> outputs) { all[batch] = std::move(outputs); });
    return all;
  }

  std::vector<Device> devices() const {
    std::vector<Device> list;
    for (size_t i = 0; i < temper_pool_device_count(handle_.get()); ++i) {
      temper_pool_device_info info;
      detail::check(temper_pool_device(handle_.get(), i, &info));
      list.push_back({info.device, info.batches, info.loss ? info.loss : ""});
    }
    return list;
  }

 private:
  struct Free {
    void operator()(temper_pool* pool) const { temper_pool_free(pool); }
  };
  std::unique_ptr<temper_pool, Free> handle_;
  size_t inputs_;
};

}  // namespace api
}  // namespace temper
