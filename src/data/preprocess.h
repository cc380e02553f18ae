// SPDX-License-Identifier: Apache-2.0
// Turns a picture into a model's input. What the options leave open follows from the input's type:
//   three channels, square, at least 128 pixels: the usual ImageNet evaluation: short side to round(size * 256 / 224),
//     centre crop to size x size, (pixel / 255 - mean) / std with ImageNet's mean and std. For 224 that is 256 and 224;
//   three channels otherwise: stretched to height x width, same mean and std;
//   one channel: grey, stretched to height x width, pixel / 255;
//   u8 inputs: the same geometry, the pixels themselves.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/resize.h"
#include "graph/tensor.h"

namespace temper {

constexpr std::array<double, 3> kImageNetMean = {0.485, 0.456, 0.406}, kImageNetStd = {0.229, 0.224, 0.225};

enum class ChannelOrder { rgb, bgr };
enum class PixelLayout {
  automatic,
  nchw,
  nhwc
};  // automatic: the axis (1 or 3) that has 1 or 3 channels; NCHW where both have

// How a picture comes to the size that the model sees. automatic: as above.
enum class PictureFit {
  automatic,
  crop,       // its short side gets a length, and the middle is cut out
  stretch,    // its sides are scaled by different factors
  letterbox,  // it is scaled as a whole and lies in the middle of a plain picture, as detectors want it
};

// A request for the preprocessing; what is not said is left to what a plan or model remembers, then to the above.
struct PreprocessOptions {
  PictureFit fit = PictureFit::automatic;
  int64_t resize = -1;  // short side in pixels; 0: stretch to the crop's size; -1: not said
  double crop_share =
      0;  // of the crop, instead of `resize`: the side of the crop over that of the picture; 0: not said
  int64_t crop_height = 0, crop_width = 0;  // pixels that the model sees; 0: the model's own height and width
  std::vector<double> mean, std;  // empty: not said; one value for all channels, or three for red, green, blue
  std::optional<double> scale;    // (pixel * scale - mean) / std; 1/255 where nothing says it
  std::optional<ChannelOrder>
      channels;  // the order in which the model takes them, RGB first; mean and std stay red, green, blue
  PixelLayout layout = PixelLayout::automatic;
  std::optional<ResizeFilter> filter;  // bilinear where nothing says it
  int pad = -1;                        // of a letterbox: the value of the pixels around, 0 to 255; -1: 114

  bool operator==(const PreprocessOptions&) const = default;
};
// Joins what `asked` says and the rest of `base`.
PreprocessOptions over(const PreprocessOptions& base, const PreprocessOptions& asked);

// Words that files and command lines hold: "fit=letterbox crop=640x640 scale=1/255 mean=0 std=1 order=rgb layout=nchw
// filter=bilinear pad=114". parse_preprocess reads what text_of writes, in any order, and throws Error{usage} for
// anything else.
std::string text_of(const PreprocessOptions& options);
PreprocessOptions parse_preprocess(std::string_view text);

// The options completed for one model input.
struct Preprocess {
  DType dtype = DType::f32;
  int64_t channels = 3, height = 0, width = 0;
  int64_t resize = 0;      // short side; 0: stretch, or letterbox
  bool letterbox = false;  // and `pad` around it
  uint8_t pad = 114;
  std::array<double, 3> mean = {0, 0, 0}, std = {1, 1, 1};
  double scale = 1.0 / 255;
  ChannelOrder order = ChannelOrder::rgb;
  PixelLayout layout = PixelLayout::nchw;  // never automatic
  ResizeFilter filter = ResizeFilter::bilinear;

  Dims sample_dims() const;           // without the batch axis
  PreprocessOptions options() const;  // that say all of it
  std::string text()
      const;  // "short side to 256 (bilinear), centre crop 224x224, RGB, NCHW, (pixel/255 - mean) / std with ..."
};

// `type` is [batch, C, H, W] or [batch, H, W, C] with 1 or 3 channels and f32, f16, bf16, f64 or u8 elements. Throws
// Error{usage}, naming `input`, for a type that takes no pictures, options that contradict it, and a height or width
// that neither of them fixes.
Preprocess complete_preprocess(const PreprocessOptions& options, const TensorType& type, std::string_view input);

// The part of it that needs no sizes: dtype, layout, channels and their order, scale, mean and std. Throws as above.
Preprocess complete_values(const PreprocessOptions& options, const TensorType& type, std::string_view input);

// One sample: sample_dims() elements of preprocess.dtype, written to `out`. Throws as centre_crop does.
void preprocess_image(const Image& image, const Preprocess& preprocess, std::byte* out);

}  // namespace temper
