// SPDX-License-Identifier: Apache-2.0
// How kernels whose results have the size that the data give find their places: each block counts what it has, the
// counts are summed up, and each block writes behind what those before it have.
#pragma once
#include "backends/cuda/recipe.h"

namespace temper::cuda {

constexpr int64_t kScanTile = 2048;  // elements of a block of 256 threads

// In front of a text that includes tiles.cuh: its elements are words of so many bytes, floats or others.
std::string tiles_head(int64_t bytes, bool is_float);
// A launch of a block for each tile of n elements.
Job tiles_job(std::string entry, std::string text, std::vector<Slot> slots, std::vector<std::byte> parameters,
              int64_t n);
// Adds what writes to `counts`, a word for each tile, how many of the n elements of `x` before the tile are not 0, and
// to `total`, an i64, how many are not 0 at all.
void add_count(const Slot& x, const std::string& head, int64_t n, const Slot& counts, const Slot& total,
               std::vector<Job>& jobs);
// `counts`, n words, become the sums of those before them; `total`, an i64, the sum of all.
Job scan_job(const Slot& counts, const Slot& total, int64_t n);

}  // namespace temper::cuda
