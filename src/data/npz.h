// SPDX-License-Identifier: Apache-2.0
// Reads NumPy's archives: a zip file of .npy files, stored or deflated.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "graph/tensor.h"

namespace temper {

// All arrays of an archive together, unpacked. A deflated file of a few MB can claim terabytes, so the limit is checked
// against what the archive says before anything is unpacked; larger data belongs in .npy files, which are
// memory-mapped.
// `limit` -1: so many times the archive, and so much beside. What fits neither that nor the free memory is refused.
constexpr int64_t kNpzPerByte = 16, kNpzBeside = int64_t(256) << 20;
constexpr int64_t kMaxNpzArrays = 65536;

// Array name (without ".npy") -> tensor. Throws Error{bad_file} that names the array (and the file): damaged, over a
// limit, not .npy inside, two arrays of one name; Error{machine} where the memory is not there; Error{unsupported} for
// encryption and compression methods other than deflate.
std::map<std::string, Tensor> parse_npz(std::span<const std::byte> archive, int64_t limit = -1);
std::map<std::string, Tensor> read_npz(const std::string& path, int64_t limit = -1);

}  // namespace temper
