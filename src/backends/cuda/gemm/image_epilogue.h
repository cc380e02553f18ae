// SPDX-License-Identifier: Apache-2.0
// Text of epilogues for kernels that write channels_last (or matrices) and compute V neighbouring channels (columns) at
// a time. The epilogue's inputs have the output's shape, or one value per channel.
#pragma once
#include "backends/cuda/recipe.h"

namespace temper::cuda {

// The epilogue of a convolution or product. Its inputs are the problem's from the third on.
const Program& epilogue_of(const Problem& problem);
Support image_epilogue_supports(const Problem& problem);
// Layouts of the problem's inputs: channels_last for those of the epilogue that have the output's shape.
std::vector<Layout> image_epilogue_layouts(const Problem& problem);

// Whether input `i` has one 4-byte number per channel.
bool is_channel_array(const Problem& problem, size_t i);

struct ImageEpilogue {
  // The text defines the types Output and Acc (held); ColumnExtras (values per channel) and RowExtras (V values of each
  // other input); the macros COLUMN_EXTRAS(to, c) and ROW_EXTRAS(to, at), which load them for channel c and position
  // `at` of the output; and EPILOGUE(sum, columns, row, v), which computes element v. V is the kernel's `v`.
  std::string text;
  std::string parameters;           // of the kernel: "const float* e2, const i8* e3, "
  std::string names;                // "e2, e3, "
  std::vector<std::string> arrays;  // of those, is_channel_array: "f32, e2"
  std::vector<Slot> slots;          // of the parameters
};
// A fused pair has two epilogues: the `first` one is in namespace first, and its macros begin with FIRST_. Input i of
// the problem, but for its first, is input i + `input` of the kernel.
ImageEpilogue image_epilogue(const Problem& problem, DType accumulator, int64_t v, bool first = false, int input = 0);

}  // namespace temper::cuda
