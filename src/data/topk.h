// SPDX-License-Identifier: Apache-2.0
// Reads a classifier's output: the best classes of a row, and how often they are right.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/tensor.h"
#include "measure/proportion.h"

namespace temper {

// A classifier's output [batch, classes, 1...] of any float dtype as f32 [batch, classes]; a vector [classes] is one
// row. Throws Error{usage}, naming `output`, for anything else.
Tensor class_rows(const Tensor& output, std::string_view output_name);

// All values in [0, 1] and a sum within 1e-3 of 1: softmax has been applied already.
bool is_distribution(std::span<const float> row);

struct RankedClass {
  int64_t index = 0;
  double value = 0;        // as the model gives it
  double probability = 0;  // softmax of the row, or the value itself where the row is a distribution
};
// The k largest, largest first; among equal values the lower index is first, NaN comes last. Fewer where the row is
// shorter.
std::vector<RankedClass> top_k(std::span<const float> row, int64_t k);

// 0 for the best class, in the order of top_k.
int64_t rank_of(std::span<const float> row, int64_t index);

struct Accuracy {
  int64_t n = 0, classes = 0, top1 = 0, top5 = 0;  // samples, classes of the output, right answers

  // `rows` [batch, classes] f32, one label a row. Throws Error{usage} for a label that is no class; `samples`
  // are their numbers, for that message. A row that holds NaN is counted as wrong. Returns which rows were right.
  std::vector<bool> add(const Tensor& rows, std::span<const int64_t> labels, std::span<const int64_t> samples);
  double top1_rate() const { return n ? double(top1) / double(n) : 0; }
  double top5_rate() const { return n ? double(top5) / double(n) : 0; }
  Interval top1_interval() const { return wilson_interval(top1, n); }
  Interval top5_interval() const { return wilson_interval(top5, n); }
};

}  // namespace temper
