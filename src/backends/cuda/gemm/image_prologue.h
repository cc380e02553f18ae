// SPDX-License-Identifier: Apache-2.0
// Programs before convolutions (ops::FusedConv): what a kernel computes of an image's elements as it reads them.
#pragma once
#include "backends/cuda/recipe.h"
#include "backends/cuda/support/program_code.h"

namespace temper::cuda {

// The program; null: there is none.
const Program* prologue_of(const Problem& problem);
// The dtype that is multiplied by the weights.
DType conv_operand(const Problem& problem);
// How many of the problem's inputs the convolution reads: what the prologue reads besides input 0 is behind them.
size_t inputs_of_conv(const Problem& problem);
// The problem with those inputs alone.
Problem without_prologue(const Problem& problem);
// Dtypes of all that the prologue reads.
std::vector<DType> read_by_prologue(const Problem& problem);
// The convolution alone, whose input is what the prologue gives; nothing if the problem is no convolution with a
// prologue, or if a pool is behind it.
std::optional<Problem> conv_behind_prologue(const Problem& problem);

// Whether one of those has values for each image of several.
bool prologue_by_image(const Problem& problem);

// Whether the text of image_prologue computes the problem's program: besides the image it reads numbers, or one for
// each channel, perhaps of each image, and its results have the size of the image's elements.
Support image_prologue_supports(const Problem& problem);

struct ImagePrologue {
  // The text defines the types In and Operand, of an element as it is read and as it is multiplied, and InputExtras (V
  // values of each other input, of neighbouring channels); the macros INPUT_EXTRAS(to, image, c), which loads them for
  // channels from c on of an image, and PREPARED(x, extras, v), which computes element v of a vector. V is the `v` of
  // image_prologue, and p.channels the number of channels.
  std::string text;
  std::string parameters, names;  // of the kernel: "const f16* o3, ", "o3, "
  std::vector<Slot> slots;        // of the parameters
};
// Numbers that go with the launch are added to `numbers`.
ImagePrologue image_prologue(const Problem& problem, int64_t v, ProgramNumbers& numbers);

}  // namespace temper::cuda
