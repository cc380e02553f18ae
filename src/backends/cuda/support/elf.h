// SPDX-License-Identifier: Apache-2.0
// Compiled kernels are ELF files, and the driver is given their address alone: how far it reads is what the file says
// itself.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace temper::cuda {

// Why not all that the file's headers point to lies inside of its bytes: its tables, the content of its sections and
// segments, the names of sections and symbols. Empty where it does. What the code in it does is not looked at.
std::string outside_of_elf(std::span<const std::byte> file);

}  // namespace temper::cuda
