// SPDX-License-Identifier: Apache-2.0
// The first elements of rows in their order, for every kernel that sorts.
#pragma once
#include "backends/cuda/recipe.h"

namespace temper::cuda {

struct RowSort {
  std::string_view element;  // its type in texts
  int64_t bytes = 4;         // of an element
  bool largest = false;      // first
  int64_t rows = 1, n = 0;   // rows of n elements
  int64_t k = 0;             // wanted of each
  int64_t inner = 1;         // neighbours of rows: what lies between the elements of one
  Slot input, values, indices;
  int64_t workspace = 0;  // where its own begins
};

// NaN counts as larger than any number, both zeros are equal, and of equal elements the earlier one comes first.
// Returns the bytes of workspace that it takes. k and 2 * rows * n must be small positions, and neither of them 0.
int64_t add_sort(const RowSort& sort, std::vector<Job>& jobs);

}  // namespace temper::cuda
