// SPDX-License-Identifier: Apache-2.0
// Functions that the recipes of first convolutions share: for the program that turns an image's elements into operands,
// and a max pool of the sums.
#pragma once
#include <vector>

#include "backends/cuda/recipe.h"
#include "backends/cuda/support/program_code.h"

namespace temper::cuda {

Support first_conv_supports(const Problem& problem);
// Whether a kernel may read pixels, in channels_last, as words of four bytes.
bool may_take_pixels(const Problem& problem);
// Whether there is a pool.
bool first_conv_pools(const Problem& problem);

// The kernel's text of the image's elements and their prologue: In, A, PROLOGUE, IN_WORDS, AS_FLOATS, prologue(),
// Others, OTHERS, OTHER_INPUTS, LOAD_OTHERS and PREPARED (conv_first.cu). `words`: whether bytes are read four at once.
// Slots of what the prologue reads are added to `slots`.
std::string first_conv_input(const Problem& problem, bool words, std::vector<Slot>& slots);
// The struct Parameters of those kernels: of tiles `across` and `down` an image, of which a block has `block_tiles`.
std::vector<std::byte> first_conv_parameters(const Problem& problem, int64_t tiles, int64_t block_tiles, int64_t across,
                                             int64_t down, const ProgramNumbers& numbers);

}  // namespace temper::cuda
