// SPDX-License-Identifier: Apache-2.0
// Text of epilogues for kernels that write channels_last (or matrices) and compute V neighbouring channels (columns) at
// a time. The epilogue's inputs have the output's shape, or one value per channel, perhaps of each image, or per row of
// a product.
#pragma once
#include "backends/cuda/recipe.h"
#include "backends/cuda/support/program_code.h"

namespace temper::cuda {

// The epilogue of a convolution or product. Its inputs are the problem's from the third on.
const Program& epilogue_of(const Problem& problem);
// `per_image`: whether an input may have one value for each channel of each image.
Support image_epilogue_supports(const Problem& problem, bool per_image = false);
// Layouts of the problem's inputs: channels_last for those of the epilogue that have the output's shape, or one value
// for each channel of each image, whose channels are then a row.
std::vector<Layout> image_epilogue_layouts(const Problem& problem);

// Whether input `i` has one number per channel, whether it has them for each image of several, and whether it has 4
// bytes for each channel of all images.
bool along_channels(const Problem& problem, size_t i);
bool along_images(const Problem& problem, size_t i);
bool is_channel_array(const Problem& problem, size_t i);

struct ImageEpilogue {
  // The text defines the types Output and Acc (held); ColumnExtras (values per channel, those of its base ImageExtras
  // for one image), RowExtras (V values of each input of the output's shape) and LineExtras (one value for a row of a
  // matrix; behind constant weights all rows are those of one); the macros COLUMN_EXTRAS(to, c), IMAGE_EXTRAS(to,
  // image, c), ROW_EXTRAS(to, at) and LINE_EXTRAS(to, r), which load them for channel c, that of an image, position
  // `at` of the output and row r of its matrix; and EPILOGUE(sum, columns, row, line, v), which computes element v. V
  // is the kernel's `v`, and p.image_ld the distance of the channels of one image from those of the next.
  std::string text;
  std::string parameters;           // of the kernel: "const float* e2, const i8* e3, "
  std::string names;                // "e2, e3, "
  std::vector<std::string> arrays;  // of those, is_channel_array: "f32, e2"
  std::vector<Slot> slots;          // of the parameters
};
// Which epilogue of a kernel of several convolutions it is: that of the first or third one or of a shortcut is in a
// namespace of that name, and its macros begin with FIRST_, THIRD_ or SHORTCUT_.
enum class EpiloguePart { only, first, third, shortcut };
// The places of an epilogue's inputs in the kernel: input i of the problem, but for its first, is input i + `shift` of
// the kernel. Input `joined`, of the output's shape, is none of these: the kernel makes it, and ROW_EXTRAS reads it
// from the name kJoined. Those behind it are counted without it.
struct EpilogueInputs {
  int shift = 0, joined = -1;
};
constexpr std::string_view kJoined = "joined";
// Numbers that go with the launch are added to `numbers`.
ImageEpilogue image_epilogue(const Problem& problem, DType accumulator, int64_t v, ProgramNumbers& numbers,
                             EpiloguePart part = EpiloguePart::only, const EpilogueInputs& inputs = {});
// The text for a product whose columns in pairs become the `output` of `gate`: in the place of EPILOGUE there is
// GATED_EPILOGUE(sum, columns, other, behind, v), of the sums and ColumnExtras of both.
ImageEpilogue gated_epilogue(const Problem& problem, const Program& gate, DType output, DType accumulator, int64_t v,
                             ProgramNumbers& numbers);

}  // namespace temper::cuda
