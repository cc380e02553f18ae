// SPDX-License-Identifier: Apache-2.0
// Epilogues of kernels that write channels_last (or matrices) and compute V neighbouring channels (columns) at a time:
// their inputs are of the output's shape, or values of channels.
#pragma once
#include "backends/cuda/recipe.h"

namespace temper::cuda {

// Of a convolution or product, whose epilogue's inputs are the problem's from the third on.
const Program& epilogue_of(const Problem& problem);
Support image_epilogue_supports(const Problem& problem);
// Layouts of the problem's inputs: channels_last for those of the epilogue that have the output's shape.
std::vector<Layout> image_epilogue_layouts(const Problem& problem);

// Whether input `i` has a number of 4 bytes for each channel.
bool is_channel_array(const Problem& problem, size_t i);

struct ImageEpilogue {
  // Output and Acc (held), ColumnExtras (values of channels) and RowExtras (V values each), COLUMN_EXTRAS(to, c) and
  // ROW_EXTRAS(to, at) that load them for channel c and position `at` of the output, and EPILOGUE(sum, columns, row, v)
  // with element v of both. V is the kernel's `v`.
  std::string text;
  std::string parameters;           // of the kernel: "const float* e2, const i8* e3, "
  std::string names;                // "e2, e3, "
  std::vector<std::string> arrays;  // of those, is_channel_array: "f32, e2"
  std::vector<Slot> slots;          // of the parameters
};
// Where a kernel has two, the `first` one is in namespace first, and its macros begin with FIRST_. The problem's inputs
// are the kernel's from `input` on, but for its first.
ImageEpilogue image_epilogue(const Problem& problem, DType accumulator, int64_t v, bool first = false, int input = 0);

}  // namespace temper::cuda
