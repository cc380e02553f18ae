// SPDX-License-Identifier: Apache-2.0
// A convolution problem as a graph of cuDNN's. Needs neither a GPU nor cuDNN.
#pragma once
#include "backends/cuda/support/cudnn.h"
#include "backends/tactic.h"

namespace temper::cuda {

// Activations are channels_last, weights [M, kernel..., C/group]. Steps on fp16 are computed in float and not rounded
// in between; only the result is, and to the dtype of those steps. Sums of three are taken in the order that cuDNN has
// fused kernels for: the input of the output's size first.
struct CudnnConv {
  static constexpr int kNone = -2, kOutput = -1;
  std::string reason;  // why cuDNN cannot be asked; empty: it can
  CudnnGraph graph;
  std::vector<int> ports;  // by value of the graph: the problem's input, kOutput or kNone
};
CudnnConv cudnn_conv(const Problem& problem);

// [M, C, kernel...] as [M, kernel..., C].
AlignedBytes channels_last_weights(const Tensor& weights);

}  // namespace temper::cuda
