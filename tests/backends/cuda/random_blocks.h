// SPDX-License-Identifier: Apache-2.0
// Lines of products of few rows by weights of 8 and 4 bits in blocks, of random shapes: any number of rows and columns,
// depth and block that cuda.matmul.rows takes, in either form of the weights.
#pragma once
#include <random>
#include <string>

#include "base/concat.h"

namespace temper::testing {

inline std::string random_blocked_products(int count) {
  std::mt19937 random(20261125);
  const auto draw = [&](int64_t least, int64_t most) { return std::uniform_int_distribution(least, most)(random); };
  std::string lines;
  for (int i = 0; i < count; ++i) {
    const int64_t rows = draw(1, 8), depth = 8 * draw(1, 160), columns = draw(1, 40), along = draw(0, 3);
    const int64_t block = along ? 8 * draw(1, 8) : depth, across = draw(0, 3) ? 1 : draw(1, 5);
    const auto blocks = [](int64_t size, int64_t each) { return (size + each - 1) / each; };
    const bool turned = draw(0, 1), is_signed = draw(0, 1), few = draw(0, 1);
    const auto matrix = [&](int64_t k, int64_t n) { return turned ? concat(n, ',', k) : concat(k, ',', n); };
    const std::string numbers = concat("f32[", matrix(blocks(depth, block), blocks(columns, across)), "]*");
    lines += concat("reference blocked_matmul(", draw(0, 1) ? "f16[" : "bf16[", rows, ',', depth, "], ",
                    is_signed ? "i8[" : "u8[", matrix(depth, columns), "]*{",
                    is_signed ? (few ? "-8..8" : "-128..128") : (few ? "0..16" : "0..256"), "}, ", numbers, ", ",
                    draw(0, 1) ? "_" : numbers,
                    turned ? ") transpose_b=true block_rows=" : ") block_rows=", turned ? across : block,
                    " block_columns=", turned ? block : across, " epilogue=\"(1) 1=cast.f16(0)\"\n");
  }
  return lines;
}

}  // namespace temper::testing
