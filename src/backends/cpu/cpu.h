// SPDX-License-Identifier: Apache-2.0
// Helpers that the CPU's tactics share.
#pragma once
#include <optional>

#include "backends/backend.h"

namespace temper {

Device cpu_device();
std::unique_ptr<Kernel> make_cpu_reorder(const TensorType& type, Layout from, Layout to, int threads);

// out = program(inputs...), element by element. Inputs of the output's full shape are in `layout`, as the output is;
// inputs that broadcast are plain. The output may be the same memory as a full-shape input. A second, in-place step for
// epilogues that a library kernel cannot absorb, and the kernel behind the pointwise op.
// Padded channels of blocked layouts stay zero.
std::unique_ptr<Kernel> make_pointwise_kernel(const Program& program, const std::vector<TensorType>& inputs,
                                              const TensorType& output, Layout layout, int threads);
// Why it cannot; null = it can.
Support pointwise_supported(const Program& program, const std::vector<TensorType>& inputs, const TensorType& output,
                            Layout layout);

// Layouts worth offering for a tensor of these dims on this CPU: plain always; channels_last and the block that the
// CPU's vectors fill where there are channels.
std::vector<Layout> useful_layouts(const Dims& dims, const Device& device);

// Most tactics: one config per layout, the same layout for every port of rank >= 3 with the output's rank.
inline Config uniform_config(const Problem& problem, Layout layout, std::string text = "") {
  return {std::move(text), std::vector<Layout>(problem.inputs.size(), layout),
          std::vector<Layout>(problem.outputs.size(), layout)};
}
template <class T>
Support needs_op(const Problem& problem) {
  return problem.op.is<T>() ? supported() : refused("not a ", T::name);
}

}  // namespace temper
