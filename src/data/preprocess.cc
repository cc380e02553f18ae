// SPDX-License-Identifier: Apache-2.0
#include "data/preprocess.h"

#include <algorithm>
#include <cmath>

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

}  // namespace

Dims Preprocess::sample_dims() const {
  return layout == PixelLayout::nchw ? Dims{channels, height, width} : Dims{height, width, channels};
}

std::string Preprocess::text() const {
  const std::string_view name = filter == ResizeFilter::bilinear ? "bilinear" : "bicubic";
  std::string out = resize > 0 ? concat("short side to ", resize, " (", name, "), centre crop ", height, "x", width)
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

Preprocess complete_preprocess(const PreprocessOptions& options, const TensorType& type, std::string_view input) {
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
  const bool nchw = result.layout == PixelLayout::nchw;
  const Dim &channels = type.shape[nchw ? 1 : 3], &height = type.shape[nchw ? 2 : 1], &width = type.shape[nchw ? 3 : 2];
  if (!is_channels(channels))
    refuse("does not have 1 or 3 channels on axis ", nchw ? 1 : 3, "; choose the other layout");
  result.channels = channels.value();
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
  result.resize = options.resize >= 0 ? options.resize
                  : imagenet          ? int64_t(std::lround(double(result.height) * 256 / 224))
                                      : 0;
  if (result.resize > 0 && result.resize < std::max(result.height, result.width) && result.height == result.width)
    refuse("needs ", result.height, "x", result.width, " pixels; a short side of ", result.resize,
           " is too little for that crop");

  if (type.dtype == DType::u8 && (!options.mean.empty() || !options.std.empty() || options.scale != 1.0 / 255))
    refuse("takes the pixels as they are: mean, std and scale do not apply");
  if (result.channels == 3) result.mean = kImageNetMean, result.std = kImageNetStd;
  if (!options.mean.empty()) result.mean = per_channel(options.mean, "--mean");
  if (!options.std.empty()) result.std = per_channel(options.std, "--std");
  for (double value : result.std)
    if (!(std::isfinite(value) && value != 0)) fail(ErrorKind::usage, "--std must not be zero or infinite: ", value);
  result.scale = options.scale;
  result.order = options.channels;
  result.filter = options.filter;
  return result;
}

void preprocess_image(const Image& image, const Preprocess& p, std::byte* out) {
  const Image seen = p.channels == 1 ? to_grey(image) : image;
  const Image ready = p.resize > 0 ? centre_crop(resize_short_side(seen, p.resize, p.filter), p.width, p.height)
                                   : resize(seen, p.width, p.height, p.filter);
  visit_dtype(p.dtype, [&]<class T>() {
    if constexpr (is_float(dtype_of<T>) || std::is_same_v<T, uint8_t>)
      write_sample(ready, p, reinterpret_cast<T*>(out));
    else fail(ErrorKind::usage, "pictures cannot be given as ", dtype_of<T>);
  });
}

}  // namespace temper
