// SPDX-License-Identifier: Apache-2.0
// Chooses a range from what was observed of a tensor.
#pragma once
#include <string>
#include <string_view>

#include "quantize/histogram.h"

namespace temper {

struct Method {
  enum class Kind { minmax, percentile, mse, entropy };
  Kind kind = Kind::mse;
  double percent = 99.99;  // of percentile

  std::string text() const;                    // "entropy", "percentile:99.99"
  static Method parse(std::string_view text);  // throws Error{usage} with what there is
};

// The observation of one tensor. All values are finite.
struct Observed {
  float min = 0, max = 0;
  Histogram histogram;          // of the same values; empty where only min and max are known
  std::vector<float> channels;  // the largest |x| of each entry of the last axis, where they are observed apart
  float amax() const { return std::max(std::max(-min, max), 0.0f); }
};

// The largest |x| that is kept, 0 < result <= amax; 0 where the tensor is all zero.
//   minmax:     amax.
//   percentile: the upper edge of the bin that holds the p-th percentile (nearest rank) of all |x|, zeros included.
//               Where that percentile is itself zero it would clip everything that is not: then amax.
//   mse:        the bin edge a that minimises the sum over the bins of count * (x - q(x))^2 with x the middle of the
//               bin and q(x) = min(round(x / s), 127) * s, s = a / 127 (what pytorch-quantization calls "mse").
//   entropy:    S. Migacz, "8-bit inference with TensorRT", GTC 2017: for each width i from 128 bins up, P is the first
//               i bins with all beyond added to the last one, Q the first i bins joined into 128 levels of equal width
//               and spread again evenly over their bins that are not empty; the i with the least KL(P || Q) is taken,
//               the widest of equals. A width at which P has mass where Q has none is no candidate. The first bin is
//               left out of it: "discarding the first bin in the histogram (which typically contains a huge number of
//               noise activations)" is what TensorRT does by NVIDIA's description of its calibration (calibration.md of
//               the MLPerf Inference submissions from v0.5 on); NVIDIA's pytorch-quantization gives it the count of the
//               second. Zeros are in no bin at all. And a width beyond which lie more than 1 % of what is left is no
//               candidate, which the source does not say: where channels are constant (dead ones behind a relu,
//               borders), a window that ends in such a spike looks like its own remainder, and would clip most of the
//               tensor.
// Fewer than 128 bins in use (only where there is no histogram at all, see Histogram) means amax.
double choose_amax(const Method& method, const Observed& observed);

// scale = amax / 127 in float, the same division as everywhere else (TensorRT's caches hold it). An all-zero tensor
// gets 1 / 127, the scale of a tensor that reaches 1; a scale too small for a normal float becomes the least normal
// one.
float scale_of(double amax);

// The share of all values in bins that begin at or beyond `amax`; 0 where nothing was larger.
double clipped_share(const Observed& observed, double amax);
// A share above this is worth a warning.
constexpr double kMostClipped = 0.01;
// The warning, where `method` clips more than that of the tensor `name`, by more than half a step: what it keeps and
// clips, and what the other methods would have. Empty otherwise.
std::string clipping_text(const std::string& name, const Method& method, const Observed& observed, double amax);

}  // namespace temper
