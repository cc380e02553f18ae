// SPDX-License-Identifier: Apache-2.0
// Weights put into the order that kernels read, on the host: done for each candidate of a build, so it must be quick.
#pragma once
#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace temper::cuda {

// to[column * stride + row] = from[row * columns + column] for elements of `size` bytes (1, 2, 4 or 8). The stride is
// in elements and at least `rows`.
inline void transpose_on_host(const std::byte* from, int64_t rows, int64_t columns, int64_t size, std::byte* to,
                              int64_t stride) {
  if (columns == 1) {
    std::memcpy(to, from, size_t(rows * size));
    return;
  }
  auto move = [&]<class T>(T) {
    for (int64_t column = 0; column < columns; ++column)
      for (int64_t row = 0; row < rows; ++row)
        std::memcpy(to + (column * stride + row) * int64_t(sizeof(T)),
                    from + (row * columns + column) * int64_t(sizeof(T)), sizeof(T));
  };
  switch (size) {
    case 1: return move(uint8_t());
    case 2: return move(uint16_t());
    case 4: return move(uint32_t());
    case 8: return move(uint64_t());
    default: fail(ErrorKind::usage, "elements of ", size, " bytes are not moved");
  }
}

}  // namespace temper::cuda
