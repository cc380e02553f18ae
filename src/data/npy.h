// SPDX-License-Identifier: Apache-2.0
// Reads and writes NumPy's array files, format versions 1, 2 and 3. The header is read by a small strict grammar, never
// evaluated.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "graph/tensor.h"

namespace temper {

// A checked .npy header: the dtype is one that Temper has and the sizes do not overflow.
struct NpyHeader {
  DType dtype = DType::f32;
  Dims dims;
  bool fortran_order = false;
  bool swap_bytes = false;  // big-endian in the file
  int64_t characters = 0;   // of an element that is a string, shorter ones filled up with zeros
  bool wide = false;        // of which each is UTF-32, and not a byte
  size_t data_offset = 0;   // bytes from the start of the file to the first element
};
constexpr size_t kMaxNpyHeader = size_t(1) << 16;  // bytes, magic included; a longer header is refused

// Parses the first bytes of a file (all of its header, possibly more). Throws Error{bad_file} for what is no .npy
// header or is cut off; Error{unsupported} for objects, records, complex numbers, dates and floats of more
// than 64 bits.
NpyHeader parse_npy_header(std::span<const std::byte> bytes);

// A whole .npy file in memory. The tensor is a view of the bytes where that is possible (an `owner` that keeps them
// alive is given, little-endian, C order, aligned) and otherwise a copy in C order and native byte order. Bytes missing
// or left over are Error{bad_file}.
Tensor parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr);
Tensor read_npy(const std::string& path);  // memory-mapped, so a large file is read as it is used; errors name the path

// Version 1.0, C order, little-endian, data 64-byte aligned; written atomically. bf16, which NumPy has not, is written
// as f32, which holds it exactly; strings as UTF-32. Throws what AtomicFile throws (base/file.h).
void write_npy(const std::string& path, const Tensor& tensor, bool force = false);

}  // namespace temper
