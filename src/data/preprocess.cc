// SPDX-License-Identifier: Apache-2.0
#include "data/preprocess.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/parse.h"
#include "data/place.h"

namespace temper {
namespace {

std::array<double, 3> per_channel(const std::vector<double>& values, std::string_view what) {
  if (values.size() == 1) return {values[0], values[0], values[0]};
  if (values.size() != 3)
    fail(ErrorKind::usage, what, " takes one value, or three for red, green and blue; ", values.size(), " were given");
  return {values[0], values[1], values[2]};
}

template <class T>
void write_sample(const Image& image, const Preprocess& p, T* out) {
  const int64_t pixels = image.width * image.height;
  if constexpr (std::is_same_v<T, uint8_t>)
    if (p.layout == PixelLayout::nhwc && (p.order == ChannelOrder::rgb || p.channels == 1)) {
      std::copy(image.pixels.begin(), image.pixels.end(), out);  // as they are
      return;
    }
  for (int64_t c = 0; c < p.channels; ++c) {
    const int64_t source = p.order == ChannelOrder::bgr ? p.channels - 1 - c : c;  // where this channel is in R, G, B
    T table[256];  // an 8-bit picture has no more values than these
    for (int i = 0; i < 256; ++i) {
      if constexpr (std::is_same_v<T, uint8_t>) table[i] = uint8_t(i);
      else table[i] = T((i * p.scale - p.mean[size_t(source)]) / p.std[size_t(source)]);
    }
    const uint8_t* in = image.pixels.data() + source;
    T* to = p.layout == PixelLayout::nchw ? out + c * pixels : out + c;
    const int64_t step = p.layout == PixelLayout::nchw ? 1 : p.channels;
    for (int64_t i = 0; i < pixels; ++i) to[i * step] = table[in[i * p.channels]];
  }
}

bool is_channels(const Dim& dim) { return dim == Dim(1) || dim == Dim(3); }

// The shortest text that reads back as the same number.
std::string exact(double value) {
  if (value == 1.0 / 255) return "1/255";
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}
std::string exact(const std::vector<double>& values) {
  std::string out;
  for (const double value : values) out += concat(out.empty() ? "" : ",", exact(value));
  return out;
}

[[noreturn]] void refuse_word(std::string_view word) {
  fail(ErrorKind::usage, "'", word,
       "' says nothing of pictures; words are fit=crop|stretch|letterbox, resize=N, crop=N|HEIGHTxWIDTH, crop_share=S, "
       "mean=V|R,G,B, std=V|R,G,B, scale=S, order=rgb|bgr, layout=nchw|nhwc, filter=bilinear|bicubic and pad=N");
}
double number_of(std::string_view text, std::string_view word) {
  const auto slash = text.find('/');
  const auto whole = parse_number<double>(text.substr(0, slash));
  const auto by = slash == text.npos ? std::optional(1.0) : parse_number<double>(text.substr(slash + 1));
  if (!whole || !by || !std::isfinite(*whole / *by)) refuse_word(word);
  return *whole / *by;
}
std::vector<double> numbers_of(std::string_view text, std::string_view word) {
  std::vector<double> values;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    values.push_back(number_of(text.substr(at, comma - at), word));
    at = comma + 1;
  }
  if (values.size() != 1 && values.size() != 3) refuse_word(word);
  return values;
}
int64_t pixels_of(std::string_view text, std::string_view word, int64_t least) {
  constexpr int64_t kMost = int64_t(1) << 20;
  const auto value = parse_number<int64_t>(text);
  if (!value || *value < least || *value > kMost) refuse_word(word);
  return *value;
}
template <class T>
T one_of(std::string_view text, std::string_view word, std::initializer_list<std::pair<std::string_view, T>> names) {
  for (const auto& [name, value] : names)
    if (name == text) return value;
  refuse_word(word);
}

}  // namespace

PreprocessOptions over(const PreprocessOptions& base, const PreprocessOptions& asked) {
  PreprocessOptions all = base;
  // A way to fit and a length of the short side belong together.
  if (asked.fit != PictureFit::automatic || asked.resize >= 0 || asked.crop_share > 0) {
    if (asked.fit != PictureFit::automatic || asked.resize == 0) all.resize = -1, all.crop_share = 0;
    if (asked.resize >= 0 || asked.crop_share > 0) all.fit = PictureFit::automatic;
    if (asked.fit != PictureFit::automatic) all.fit = asked.fit;
    if (all.fit != PictureFit::letterbox) all.pad = -1;  // which goes with the letterbox
    if (asked.resize >= 0) all.resize = asked.resize, all.crop_share = 0;
    if (asked.crop_share > 0) all.crop_share = asked.crop_share, all.resize = -1;
  }
  if (asked.crop_height > 0) all.crop_height = asked.crop_height, all.crop_width = asked.crop_width;
  if (!asked.mean.empty()) all.mean = asked.mean;
  if (!asked.std.empty()) all.std = asked.std;
  if (asked.scale) all.scale = asked.scale;
  if (asked.channels) all.channels = asked.channels;
  if (asked.layout != PixelLayout::automatic) all.layout = asked.layout;
  if (asked.filter) all.filter = asked.filter;
  if (asked.pad >= 0) all.pad = asked.pad;
  return all;
}

std::string text_of(const PreprocessOptions& options) {
  std::string out;
  const auto word = [&](std::string_view name, const std::string& value) {
    out += concat(out.empty() ? "" : " ", name, "=", value);
  };
  if (options.fit != PictureFit::automatic)
    word("fit", options.fit == PictureFit::crop      ? "crop"
                : options.fit == PictureFit::stretch ? "stretch"
                                                     : "letterbox");
  if (options.resize >= 0) word("resize", concat(options.resize));
  if (options.crop_share > 0) word("crop_share", exact(options.crop_share));
  if (options.crop_height > 0) word("crop", concat(options.crop_height, "x", options.crop_width));
  if (!options.mean.empty()) word("mean", exact(options.mean));
  if (!options.std.empty()) word("std", exact(options.std));
  if (options.scale) word("scale", exact(*options.scale));
  if (options.channels) word("order", *options.channels == ChannelOrder::rgb ? "rgb" : "bgr");
  if (options.layout != PixelLayout::automatic) word("layout", options.layout == PixelLayout::nchw ? "nchw" : "nhwc");
  if (options.filter) word("filter", *options.filter == ResizeFilter::bilinear ? "bilinear" : "bicubic");
  if (options.pad >= 0) word("pad", concat(options.pad));
  return out;
}

PreprocessOptions parse_preprocess(std::string_view text) {
  PreprocessOptions options;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    const size_t equals = word.find('=');
    if (equals == word.npos) refuse_word(word);
    const std::string_view name = word.substr(0, equals), value = word.substr(equals + 1);
    if (name == "fit") {
      options.fit = one_of<PictureFit>(
          value, word,
          {{"crop", PictureFit::crop}, {"stretch", PictureFit::stretch}, {"letterbox", PictureFit::letterbox}});
    } else if (name == "resize") {
      options.resize = pixels_of(value, word, 0);
    } else if (name == "crop_share") {
      options.crop_share = number_of(value, word);
      if (!(options.crop_share > 0 && options.crop_share <= 1)) refuse_word(word);
    } else if (name == "crop") {
      const size_t x = value.find('x');
      options.crop_height = pixels_of(value.substr(0, x), word, 1);
      options.crop_width = x == value.npos ? options.crop_height : pixels_of(value.substr(x + 1), word, 1);
    } else if (name == "mean") {
      options.mean = numbers_of(value, word);
    } else if (name == "std") {
      options.std = numbers_of(value, word);
    } else if (name == "scale") {
      options.scale = number_of(value, word);
      if (*options.scale == 0) refuse_word(word);
    } else if (name == "order") {
      options.channels = one_of<ChannelOrder>(value, word, {{"rgb", ChannelOrder::rgb}, {"bgr", ChannelOrder::bgr}});
    } else if (name == "layout") {
      options.layout = one_of<PixelLayout>(value, word, {{"nchw", PixelLayout::nchw}, {"nhwc", PixelLayout::nhwc}});
    } else if (name == "filter") {
      options.filter =
          one_of<ResizeFilter>(value, word, {{"bilinear", ResizeFilter::bilinear}, {"bicubic", ResizeFilter::bicubic}});
    } else if (name == "pad") {
      options.pad = int(pixels_of(value, word, 0));
      if (options.pad > 255) refuse_word(word);
    } else {
      refuse_word(word);
    }
  }
  return options;
}

PreprocessOptions Preprocess::options() const {
  PreprocessOptions said;
  said.fit = letterbox ? PictureFit::letterbox : resize > 0 ? PictureFit::crop : PictureFit::stretch;
  if (resize > 0) said.resize = resize;
  said.crop_height = height;
  said.crop_width = width;
  if (dtype != DType::u8) {
    said.mean.assign(mean.begin(), mean.end());
    said.std.assign(std.begin(), std.end());
    said.scale = scale;
  }
  said.channels = order;
  said.layout = layout;
  said.filter = filter;
  if (letterbox) said.pad = pad;
  return said;
}

Dims Preprocess::sample_dims() const {
  return layout == PixelLayout::nchw ? Dims{channels, height, width} : Dims{height, width, channels};
}

std::string Preprocess::text() const {
  const std::string_view name = filter == ResizeFilter::bilinear ? "bilinear" : "bicubic";
  std::string out = letterbox
                        ? concat("letterboxed to ", height, "x", width, " (", name, ", filled with ", int(pad), ")")
                    : resize > 0 ? concat("short side to ", resize, " (", name, "), centre crop ", height, "x", width)
                                 : concat("stretched to ", height, "x", width, " (", name, ")");
  append(out, channels == 1 ? ", grey" : order == ChannelOrder::rgb ? ", RGB" : ", BGR");
  append(out, layout == PixelLayout::nchw ? ", NCHW" : ", NHWC");
  if (dtype == DType::u8) return out + ", pixels 0 to 255";
  const std::string value = scale == 1.0 / 255 ? "pixel/255" : concat("pixel*", scale);
  if (mean == std::array<double, 3>{0, 0, 0} && std == std::array<double, 3>{1, 1, 1}) return concat(out, ", ", value);
  const auto list = [&](const std::array<double, 3>& v) {
    return std::vector<double>(v.begin(), v.begin() + channels);
  };
  return concat(out, ", (", value, " - ", list(mean), ") / ", list(std));
}

Preprocess complete_values(const PreprocessOptions& options, const TensorType& type, std::string_view input) {
  const auto refuse = [&](const auto&... why) { fail(ErrorKind::usage, "input '", input, "' ", type, " ", why...); };
  if (type.rank() != 4)
    refuse("takes no pictures: they need [batch, channels, height, width] or [batch, height, width, channels]");
  Preprocess result;
  result.dtype = type.dtype;
  if (!is_float(type.dtype) && type.dtype != DType::u8) refuse("takes no pictures: they are given as floats or as u8");
  result.layout = options.layout;
  if (result.layout == PixelLayout::automatic) {
    if (!is_channels(type.shape[1]) && !is_channels(type.shape[3]))
      refuse("takes no pictures: neither axis 1 nor axis 3 has 1 or 3 channels");
    result.layout = is_channels(type.shape[1]) ? PixelLayout::nchw : PixelLayout::nhwc;
  }
  const Dim& channels = type.shape[result.layout == PixelLayout::nchw ? 1 : 3];
  if (!is_channels(channels))
    refuse("does not have 1 or 3 channels on axis ", result.layout == PixelLayout::nchw ? 1 : 3,
           "; choose the other layout");
  result.channels = channels.value();
  if (type.dtype == DType::u8 && (!options.mean.empty() || !options.std.empty() || options.scale))
    refuse("takes the pixels as they are: mean, std and scale do not apply");
  if (result.channels == 3) result.mean = kImageNetMean, result.std = kImageNetStd;
  if (!options.mean.empty()) result.mean = per_channel(options.mean, "--mean");
  if (!options.std.empty()) result.std = per_channel(options.std, "--std");
  for (double value : result.std)
    if (!(std::isfinite(value) && value != 0)) fail(ErrorKind::usage, "--std must not be zero or infinite: ", value);
  result.scale = options.scale.value_or(1.0 / 255);
  result.order = options.channels.value_or(ChannelOrder::rgb);
  return result;
}

Preprocess complete_preprocess(const PreprocessOptions& options, const TensorType& type, std::string_view input) {
  const auto refuse = [&](const auto&... why) { fail(ErrorKind::usage, "input '", input, "' ", type, " ", why...); };
  Preprocess result = complete_values(options, type, input);
  const bool nchw = result.layout == PixelLayout::nchw;
  const Dim &height = type.shape[nchw ? 2 : 1], &width = type.shape[nchw ? 3 : 2];
  const auto side = [&](const Dim& own, int64_t asked, std::string_view name) {
    if (own.is_constant() && asked > 0 && own.value() != asked)
      refuse("has the ", name, " ", own, ", the crop ", asked);
    if (!own.is_constant() && asked <= 0)
      refuse("leaves its ", name, " open: say which size the pictures shall have with --crop HEIGHTxWIDTH");
    return own.is_constant() ? own.value() : asked;
  };
  result.height = side(height, options.crop_height, "height");
  result.width = side(width, options.crop_width, "width");
  if (result.height < 1 || result.width < 1) refuse("has no pixels");

  const bool imagenet = result.channels == 3 && result.height == result.width && result.height >= 128;
  result.letterbox = options.fit == PictureFit::letterbox;
  if (result.letterbox && options.resize >= 0) refuse("is letterboxed, so no short side is resized");
  if (options.fit == PictureFit::stretch && options.resize > 0)
    refuse("is stretched, so no short side is resized; say either --fit stretch or --resize ", options.resize);
  if (options.fit == PictureFit::crop && options.resize == 0)
    refuse("is cropped, and --resize 0 stretches; say either --fit crop or --resize 0");
  if (options.pad >= 0 && !result.letterbox)
    refuse("is not letterboxed, so nothing is padded; say --fit letterbox, or leave --pad out");
  if (options.pad >= 0) result.pad = uint8_t(std::min(options.pad, 255));
  const int64_t side_of_crop = std::min(result.height, result.width);
  if (result.letterbox || options.fit == PictureFit::stretch || options.resize == 0) result.resize = 0;
  else if (options.resize > 0) result.resize = options.resize;
  else if (options.crop_share > 0)
    result.resize = int64_t(std::floor(double(side_of_crop) / options.crop_share + 1e-9));
  else if (imagenet) result.resize = int64_t(std::lround(double(result.height) * 256 / 224));
  else if (options.fit == PictureFit::crop) result.resize = side_of_crop;
  if (result.resize > 0 && result.resize < std::max(result.height, result.width) && result.height == result.width)
    refuse("needs ", result.height, "x", result.width, " pixels; a short side of ", result.resize,
           " is too little for that crop");

  result.filter = options.filter.value_or(ResizeFilter::bilinear);
  return result;
}

// A letterbox's sizes are rounded, and its larger margin is on the right and below, as Ultralytics' detectors were
// trained.
Placed place_picture(int64_t width, int64_t height, const Preprocess& p) {
  if (p.letterbox) {
    const double share = std::min(double(p.width) / double(width), double(p.height) / double(height));
    const auto side = [&](int64_t own, int64_t most) {
      return std::clamp<int64_t>(std::llround(double(own) * share), 1, most);
    };
    const int64_t inner_width = side(width, p.width), inner_height = side(height, p.height);
    return {inner_width, inner_height, (p.width - inner_width) / 2, (p.height - inner_height) / 2};
  }
  if (p.resize == 0) return {p.width, p.height, 0, 0};
  const Size whole = size_of_short_side(width, height, p.resize), corner = corner_of_crop(whole, {p.width, p.height});
  return {whole.width, whole.height, -corner.width, -corner.height};
}

void preprocess_image(const Image& image, const Preprocess& p, std::byte* out) {
  const Image grey = p.channels == 1 ? to_grey(image) : Image();
  const Image* ready = p.channels == 1 ? &grey : &image;
  const Placed placed = place_picture(image.width, image.height, p);
  Image scaled, cut;
  if (placed.width != image.width || placed.height != image.height) {
    scaled = resize(*ready, placed.width, placed.height, p.filter);
    ready = &scaled;
  }
  if (p.letterbox) {
    cut = make_image(p.width, p.height, ready->channels);
    std::fill(cut.pixels.begin(), cut.pixels.end(), p.pad);
    for (int64_t y = 0; y < placed.height; ++y)
      std::copy_n(ready->at(0, y), placed.width * ready->channels, cut.at(placed.left, placed.top + y));
    ready = &cut;
  } else if (p.resize > 0) {
    cut = centre_crop(*ready, p.width, p.height);
    ready = &cut;
  }
  visit_dtype(p.dtype, [&]<class T>() {
    if constexpr (is_float(dtype_of<T>) || std::is_same_v<T, uint8_t>)
      write_sample(*ready, p, reinterpret_cast<T*>(out));
    else fail(ErrorKind::usage, "pictures cannot be given as ", dtype_of<T>);
  });
}

}  // namespace temper
