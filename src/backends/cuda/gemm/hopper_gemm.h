// SPDX-License-Identifier: Apache-2.0
// The GEMM kernel for Hopper (hopper_gemm.cu) as recipes use it: convolutions, fused pairs of convolutions
// (conv/conv_hopper.cc) and matrix products (matmul/matmul_hopper.cc) are GEMMs to it.
#pragma once
#include <algorithm>
#include <array>
#include <optional>

#include "backends/cuda/recipe.h"
#include "base/checked.h"

namespace temper::cuda {

// A convolution or product as the GEMM that the kernel computes.
struct HopperGemm {
  DType a, b, result;
  int64_t rows = 0, columns = 0, channels = 0;
  std::array<int64_t, 2> kernel{1, 1}, stride{1, 1}, pad{0, 0}, dilation{1, 1}, in{1, 1}, out{1, 1};  // h, w
  int64_t images = 1;
  int64_t a_ld = 0, out_ld = 0, extra_ld = 0, image_ld = 0;  // leading dimensions, in elements
  bool im2col = false;
  // Products of `matrices` pairs where B is computed; `rows` are those of one. `shared_a`: A is the same for all of
  // them. `b_by_rows`: B has rows of columns.
  bool computed_b = false, shared_a = false, b_by_rows = false;
  int64_t matrices = 1;
  bool prologue = false;  // a program makes its operand A (gemm/image_prologue.h)
  // Its operand A is what the kernel holds in registers of the product before: 16 bytes of each row a thread, which are
  // the depth of two steps of wgmma.
  bool of_results = false;
  // For ops::GatedMatMul: `columns` are the product's, and the output has half as many.
  bool gated = false;
  // A shortcut is multiplied in K slices of the convolution that it joins, and its columns are in that one's order.
  int64_t given_slice = 0, given_v = 0;
  int extra = -1;  // the epilogue input of the output's shape and element size (a residual), if there is just one
  int arrays = 0;  // number of inputs that are is_channel_array

  int64_t element() const { return size_of(a); }
  // Neighbouring columns of a thread: prepacked columns are ordered so that it stores 16 bytes.
  int64_t v() const { return given_v ? given_v : computed_b ? 2 : 16 / size_of(result); }
  // Bytes of a K slice. Those of several taps have the least padding. Of a single tap padding is of few products, and
  // each slice takes time of its own, about as much as so many bytes.
  int64_t slice() const {
    if (given_slice) return given_slice;
    if (b_by_rows) return 128;
    const int64_t bytes = channels * element(), each = kernel[0] * kernel[1] > 1 ? 0 : prologue ? 32 : 12;
    int64_t best = 128;
    for (int64_t slice : {64, 32}) {
      const bool fewer = ceil_div(bytes, slice) * (slice + each) < ceil_div(bytes, best) * (best + each);
      if (fewer && !(of_results && slice < 64)) best = slice;
    }
    return best;
  }
  int64_t channel_slices() const { return ceil_div(channels * element(), slice()); }
  int64_t slices() const { return kernel[0] * kernel[1] * channel_slices(); }
  // Whether its rows have no whole groups of v() columns, and mostly begin at no multiple of 16 bytes.
  bool ragged() const { return columns % v() != 0; }
  // Columns of the prepacked weights, padded to whole groups.
  int64_t packed_columns() const { return round_up(columns, 4 * v()); }
  // The column of the weights that is column `c` of the kernel's product: of a gated one, every 4 * v() of the first
  // half are beside those that gate them.
  int64_t column_of(int64_t c) const {
    if (!gated) return c;
    const int64_t group = c / (4 * v());
    return group % 2 * (columns / 2) + group / 2 * (4 * v()) + c % (4 * v());
  }
  // The place of channel `c` of a tap in the depth. Of results, thread `quad` of four has bytes quad * 16 and on of
  // each 64; wgmma reads bytes quad * 4 and on of each 16 (PTX ISA, "Register Fragments for wgmma.mma_async").
  int64_t place_of_channel(int64_t c) const {
    if (!of_results) return c;
    const int64_t byte = c * element(), at = byte % 64;
    return (byte - at + at % 16 / 4 * 16 + at / 16 * 4 + at % 4) / element();
  }
  int64_t packed_depth() const { return slices() * slice() / element(); }
  // Padding behind the end of an axis, h or w, of a convolution of stride 1.
  int64_t pad_behind(size_t i) const { return out[i] - in[i] - pad[i] + (kernel[i] - 1) * dilation[i]; }
  // Positions of the axis where what pads one row of an image, or one image, pads the next one, too.
  int64_t padded(size_t i) const { return in[i] + std::max(pad[i], pad_behind(i)); }
  int64_t padded_rows() const { return images * padded(0) * padded(1); }
  // How many of those positions behind a result its last tap is.
  int64_t reach() const { return (kernel[0] - 1) * dilation[0] * padded(1) + (kernel[1] - 1) * dilation[1]; }
};
HopperGemm hopper_gemm_of(const Problem& problem);

// The product of a gated one, before its columns become half as many; nothing if the problem is not one.
std::optional<Problem> product_of_gated(const Problem& problem);

// A convolution whose result is input `at` of the one that it joins.
struct Shortcut {
  Problem conv;
  int at;
};
// The two convolutions of a fused pair, as problems of their own, and those that may be there, too: a third one that
// follows, a shortcut that joins the second.
struct ConvPair {
  Problem first, second;
  std::optional<Problem> third;
  std::optional<Shortcut> shortcut;
};
// Nothing if the problem is not a fused pair.
std::optional<ConvPair> conv_pair_of(const Problem& problem);
// Whether some tile of a fused pair fits into shared memory.
bool pair_fits(const ConvPair& pair);

// A convolution and the shortcut that joins it, as problems of their own.
struct WithShortcut {
  Problem conv;
  Shortcut shortcut;
};
// Nothing if the problem is no convolution with a shortcut.
std::optional<WithShortcut> with_shortcut_of(const Problem& problem);
// Whether some tile of it fits into shared memory and registers.
bool shortcut_fits(const WithShortcut& both);

// Checks what is asked of convolutions and matrix products alike: dtypes, weights (constant, or of a product of 16
// bits), alignment, the epilogue. The problem is a convolution or product, and none with a prologue; the limits of
// im2col and of matmul's operands are for the caller to check. `per_image`: whether its epilogue may read one value for
// each channel of each image.
Support hopper_gemm_supports(const Problem& problem, bool per_image = false);
// Checks what is asked of a convolution with a prologue in addition (conv_behind_prologue).
Support hopper_prologue_supports(const Problem& problem);

// For recipes of such problems and of fused pairs.
std::vector<Config> hopper_gemm_configs(const Problem& problem, const GpuProperties& gpu);
double hopper_gemm_expected_clocks(const Problem& problem, const Config& config, const GpuProperties& gpu);
Recipe::Work hopper_gemm_work(const Problem& problem, const Config& config, const GpuProperties& gpu);
bool hopper_gemm_takes_parts(const Problem& problem, const Config& config);

}  // namespace temper::cuda
