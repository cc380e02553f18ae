// SPDX-License-Identifier: Apache-2.0
#include "data/carried.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/log.h"
#include "base/strict_json.h"

namespace temper {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostBytes = size_t(1) << 20;  // of a configuration

struct Preset {
  std::string_view name, words;
};
// imagenet: torchvision's; tf: MobileNet's and EfficientNet's of Keras; caffe: VGG's and ResNet's of Keras, means of
// BGR pixels in the order red, green, blue; clip: OpenAI's; yolo: Ultralytics' detectors.
constexpr Preset kPresetList[] = {
    {"imagenet", "crop_share=0.875 mean=0.485,0.456,0.406 std=0.229,0.224,0.225 scale=1/255 order=rgb filter=bilinear"},
    {"unit", "mean=0 std=1 scale=1/255"},
    {"none", "mean=0 std=1 scale=1"},
    {"tf", "mean=1 std=1 scale=2/255"},
    {"caffe", "crop_share=0.875 mean=123.68,116.779,103.939 std=1 scale=1 order=bgr"},
    {"clip",
     "crop_share=1 mean=0.48145466,0.4578275,0.40821073 std=0.26862954,0.26130258,0.27577711 scale=1/255 order=rgb "
     "filter=bicubic"},
    {"yolo", "fit=letterbox pad=114 mean=0 std=1 scale=1/255 order=rgb"},
};

using Json = strict::Json;

// A member, or null where it is absent or null.
const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}
bool says(const Json& object, const char* name, bool otherwise) {
  const Json* value = member(object, name);
  return value && value->is_boolean() ? value->get<bool>() : otherwise;
}

class Configuration {
 public:
  Configuration(const Json& json, const std::string& name) : json_(json), name_(name) {}

  PreprocessOptions read() {
    if (const Json* nested = member(json_, "pretrained_cfg")) return Configuration(*nested, name_).timm();
    if (member(json_, "input_size") || member(json_, "crop_pct")) return timm();
    if (member(json_, "image_mean") || member(json_, "image_processor_type") || member(json_, "feature_extractor_type"))
      return transformers();
    fail(ErrorKind::usage, "'", name_,
         "' is no configuration of transformers (preprocessor_config.json) or timm (config.json)");
  }

 private:
  [[noreturn]] void refuse(const char* key) const {
    fail(ErrorKind::bad_file, "'", name_, "': '", key, "' is not what such a file holds there");
  }
  [[noreturn]] void unsupported(const char* key, const Json& value) const {
    fail(ErrorKind::unsupported, "'", name_, "' asks for ", key, " ", strict::dump(value),
         ", which Temper does not do; say what comes nearest by --preprocess and the flags beside it");
  }
  double number(const char* key, double otherwise) const {
    const Json* value = member(json_, key);
    if (!value) return otherwise;
    if (!value->is_number() || !std::isfinite(value->get<double>())) refuse(key);
    return value->get<double>();
  }
  std::vector<double> channels(const char* key) const {
    std::vector<double> values;
    const Json* list = member(json_, key);
    if (!list) return values;
    if (!list->is_array() || (list->size() != 1 && list->size() != 3)) refuse(key);
    for (const Json& value : *list) {
      if (!value.is_number() || !std::isfinite(value.get<double>())) refuse(key);
      values.push_back(value.get<double>());
    }
    return values;
  }
  int64_t pixels(const Json& value, const char* key) const {
    if (!value.is_number_integer() || value.get<double>() < 1 || value.get<double>() > 65536) refuse(key);
    return value.get<int64_t>();
  }
  // {"height", "width"} or one number for both. False for {"shortest_edge"}, which is then in `shortest`.
  bool size(const char* key, int64_t& height, int64_t& width, int64_t& shortest) const {
    const Json* value = member(json_, key);
    if (!value) return false;
    if (value->is_object()) {
      if (const Json* edge = member(*value, "shortest_edge")) return shortest = pixels(*edge, key), false;
      const Json *h = member(*value, "height"), *w = member(*value, "width");
      if (!h || !w) unsupported(key, *value);
      height = pixels(*h, key);
      width = pixels(*w, key);
    } else {
      height = width = pixels(*value, key);
    }
    return true;
  }

  PreprocessOptions transformers() const {
    PreprocessOptions options;
    int64_t height = 0, width = 0, shortest = 0;
    const bool crops = says(json_, "do_center_crop", false), resizes = says(json_, "do_resize", true);
    if (const Json* pad = member(json_, "do_pad"); pad && pad->is_boolean() && pad->get<bool>())
      unsupported("do_pad", *pad);
    if (resizes && size("size", height, width, shortest)) options.fit = PictureFit::stretch;
    if (shortest) options.resize = shortest;
    if (crops) {
      // A picture that was stretched to a larger size first is not one that Temper makes.
      int64_t crop_height = 0, crop_width = 0, none = 0;
      if (!size("crop_size", crop_height, crop_width, none)) refuse("crop_size");
      if (height && (height != crop_height || width != crop_width)) unsupported("size", *member(json_, "size"));
      height = crop_height;
      width = crop_width;
      if (!shortest && !resizes) unsupported("do_resize", json_.at("do_resize"));
    } else if (shortest) {
      height = width = shortest;
      options.resize = -1;
      options.fit = PictureFit::crop;
    }
    options.crop_height = height;
    options.crop_width = width;
    if (const Json* filter = member(json_, "resample")) {
      if (!filter->is_number_integer()) refuse("resample");
      const auto code = filter->get<int64_t>();  // PIL's
      if (code != 2 && code != 3) unsupported("resample", *filter);
      options.filter = code == 2 ? ResizeFilter::bilinear : ResizeFilter::bicubic;
    }
    options.scale = says(json_, "do_rescale", true) ? number("rescale_factor", 1.0 / 255) : 1.0;
    // 1/255 as transformers writes it.
    if (std::abs(*options.scale * 255 - 1) < 1e-12) options.scale = 1.0 / 255;
    const bool normalizes = says(json_, "do_normalize", true);
    options.mean = normalizes ? channels("image_mean") : std::vector<double>{0};
    options.std = normalizes ? channels("image_std") : std::vector<double>{1};
    options.channels = says(json_, "do_flip_channel_order", false) ? ChannelOrder::bgr : ChannelOrder::rgb;
    return options;
  }

  PreprocessOptions timm() const {
    PreprocessOptions options;
    if (const Json* shape = member(json_, "input_size")) {
      if (!shape->is_array() || shape->size() != 3) refuse("input_size");
      options.crop_height = pixels((*shape)[1], "input_size");
      options.crop_width = pixels((*shape)[2], "input_size");
    }
    const Json* mode = member(json_, "crop_mode");
    const std::string crop = mode && mode->is_string() ? mode->get<std::string>() : "center";
    if (crop == "squash") options.fit = PictureFit::stretch;
    else if (crop == "center") options.crop_share = number("crop_pct", 0.875);
    else unsupported("crop_mode", *mode);
    if (options.crop_share < 0 || options.crop_share > 1) refuse("crop_pct");
    if (const Json* filter = member(json_, "interpolation")) {
      const std::string name = filter->is_string() ? filter->get<std::string>() : "";
      if (name != "bilinear" && name != "bicubic") unsupported("interpolation", *filter);
      options.filter = name == "bilinear" ? ResizeFilter::bilinear : ResizeFilter::bicubic;
    }
    options.mean = channels("mean");
    options.std = channels("std");
    options.scale = 1.0 / 255;
    options.channels = ChannelOrder::rgb;
    return options;
  }

  const Json& json_;
  const std::string& name_;
};

std::string at(const std::map<std::string, std::string>& map, const std::string& key) {
  const auto found = map.find(key);
  return found == map.end() ? "" : found->second;
}

// Of Ultralytics' exporter: detectors letterbox, classifiers crop.
std::string of_ultralytics(const std::map<std::string, std::string>& metadata) {
  if (at(metadata, "author") != "Ultralytics") return "";
  return at(metadata, "task") == "classify" ? "fit=crop crop_share=1 mean=0 std=1 scale=1/255 order=rgb"
                                            : std::string(kPresetList[std::size(kPresetList) - 1].words);
}

// ONNX's own keys for models that take pictures (docs/MetadataProps.md of ONNX).
std::string of_onnx(const std::map<std::string, std::string>& metadata) {
  const std::string format = at(metadata, "Image.BitmapPixelFormat"), range = at(metadata, "Image.NominalPixelRange");
  std::string words;
  const auto word = [&](const char* text) { words += concat(words.empty() ? "" : " ", text); };
  if (format == "Bgr8") word("order=bgr");
  else if (format == "Rgb8") word("order=rgb");
  if (range == "NominalRange_0_255") word("mean=0 std=1 scale=1");
  else if (range == "Normalized_0_1") word("mean=0 std=1 scale=1/255");
  else if (range == "Normalized_1_1") word("mean=1 std=1 scale=2/255");
  return words;
}

std::string beside(const std::string& path) {
  std::error_code error;
  const fs::path folder = fs::absolute(path, error).parent_path();
  if (error || folder.empty()) return "";
  std::vector<fs::path> folders{folder};
  if (folder.filename() == "onnx") folders.push_back(folder.parent_path());
  for (const fs::path& one : folders)
    for (const char* name : {"preprocessor_config.json", "config.json"}) {
      const std::string file = (one / name).string();
      if (!fs::is_regular_file(file, error)) continue;
      const std::string text = read_file(file, kMostBytes);
      // The configuration of a model of transformers has the same name as timm's, and says nothing of pictures.
      if (std::string_view(name) == "config.json" && text.find("\"crop_pct\"") == text.npos) continue;
      const PreprocessOptions options = preprocess_from_json(text, file);
      log(LogLevel::info, "pictures are prepared as '", file, "' says");
      return text_of(options);
    }
  return "";
}

}  // namespace

PreprocessOptions preprocess_from_json(std::string_view text, const std::string& name) {
  const Json json =
      with_context([&] { return concat("'", name, "'"); }, [&] { return strict::parse(text, "the file"); });
  return Configuration(json, name).read();
}

std::vector<std::string_view> preset_names() {
  std::vector<std::string_view> names;
  for (const Preset& preset : kPresetList) names.push_back(preset.name);
  return names;
}

PreprocessOptions named_preprocess(const std::string& what) {
  for (const Preset& preset : kPresetList)
    if (preset.name == what) return parse_preprocess(preset.words);
  if (file_exists(what)) return preprocess_from_json(read_file(what, kMostBytes), what);
  if (what.find('=') != what.npos) return parse_preprocess(what);
  fail(ErrorKind::usage, "'", what, "' is no preset (", kPresets,
       "), no file, and no words like \"fit=letterbox scale=1/255\"");
}

bool takes_pictures(const TensorType& type) {
  if (type.rank() != 4 || (!is_float(type.dtype) && type.dtype != DType::u8)) return false;
  const auto is_channels = [](const Dim& dim) { return dim == Dim(1) || dim == Dim(3); };
  return is_channels(type.shape[1]) || is_channels(type.shape[3]);
}

std::string picture_input(const Graph& graph) {
  std::string input;
  for (const ValueId id : graph.inputs()) {
    if (!takes_pictures(graph.type(id))) continue;
    if (!input.empty()) return "";
    input = graph.value(id).name;
  }
  return input;
}

std::map<std::string, std::string> carried_preprocess(const ImportedModel& model, const std::string& path) {
  const std::string input = picture_input(model.graph);
  if (input.empty()) return {};
  try {
    std::string words = at(model.metadata, std::string(kPreprocessKey));
    if (words.empty()) words = of_ultralytics(model.metadata);
    if (words.empty()) words = of_onnx(model.metadata);
    if (words.empty() && !path.empty() && path[0] != '<') words = beside(path);
    PreprocessOptions options = parse_preprocess(words);
    for (const ValueId id : model.graph.inputs())
      if (model.graph.value(id).name == input && model.graph.type(id).dtype == DType::u8)
        options.mean.clear(), options.std.clear(), options.scale.reset();  // the model does it itself
    if (words = text_of(options); !words.empty()) return {{input, words}};
  } catch (const Error& error) {
    log(LogLevel::warning, "what the model says of its pictures is not used: ", std::string_view(error.what()));
  }
  return {};
}

std::vector<InputSpec> input_specs(const ImportedModel& model, const std::string& path) {
  std::vector<InputSpec> specs = input_specs(model.graph);
  remember(specs, carried_preprocess(model, path), "the model");
  return specs;
}

void remember(std::vector<InputSpec>& inputs, const std::map<std::string, std::string>& preprocess,
              const std::string& from) {
  for (InputSpec& input : inputs)
    if (const auto found = preprocess.find(input.name); found != preprocess.end()) {
      input.preprocess = found->second;
      input.remembered_by = from;
    }
}

void fix_sizes(std::vector<InputSpec>& inputs, const std::map<std::string, ShapeRange>& shapes) {
  for (InputSpec& input : inputs) {
    auto found = shapes.find(input.name);
    if (found == shapes.end() && inputs.size() == 1) found = shapes.find("");
    if (found == shapes.end() || found->second.min.size() != input.type.shape.size()) continue;
    const ShapeRange& range = found->second;
    for (size_t axis = 1; axis < range.min.size(); ++axis)
      if (!input.type.shape[axis].is_constant() && range.min[axis] == range.max[axis])
        input.type.shape[axis] = Dim(range.min[axis]);
  }
}

}  // namespace temper
