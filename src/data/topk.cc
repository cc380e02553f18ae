// SPDX-License-Identifier: Apache-2.0
#include "data/topk.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace temper {
namespace {

// Is class a ahead of class b?
bool ahead(std::span<const float> row, int64_t a, int64_t b) {
  const float x = row[size_t(a)], y = row[size_t(b)];
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) == std::isnan(y) ? a < b : std::isnan(y);
  return x != y ? x > y : a < b;
}

}  // namespace

Tensor class_rows(const Tensor& output, std::string_view output_name) {
  bool flat = is_float(output.dtype()) && output.rank() >= 1 && output.count() > 0;
  for (int64_t axis = 2; axis < output.rank(); ++axis) flat = flat && output.dims()[size_t(axis)] == 1;
  if (!flat)
    fail(ErrorKind::usage, "output '", output_name, "' ", output.type(),
         " is not that of a classifier: [batch, classes] of floats is needed");
  const Dims dims = output.rank() == 1 ? Dims{1, output.dims()[0]} : Dims{output.dims()[0], output.dims()[1]};
  return output.reshaped(dims).converted(DType::f32);
}

bool is_distribution(std::span<const float> row) {
  double sum = 0;
  for (float value : row) {
    if (!(value >= 0 && value <= 1)) return false;
    sum += value;
  }
  return std::abs(sum - 1) <= 1e-3;
}

std::vector<RankedClass> top_k(std::span<const float> row, int64_t k) {
  std::vector<int64_t> order(row.size());
  std::iota(order.begin(), order.end(), int64_t(0));
  k = std::clamp<int64_t>(k, 0, int64_t(row.size()));
  std::partial_sort(order.begin(), order.begin() + k, order.end(),
                    [&](int64_t a, int64_t b) { return ahead(row, a, b); });
  const bool distribution = is_distribution(row);
  double largest = -INFINITY, sum = 0;
  for (float value : row) largest = value > largest ? value : largest;
  for (float value : row)
    sum += std::exp(double(value) - largest);  // NaN makes every probability NaN, which is the truth
  std::vector<RankedClass> result;
  for (int64_t i = 0; i < k; ++i) {
    const double value = row[size_t(order[size_t(i)])];
    result.push_back({order[size_t(i)], value, distribution ? value : std::exp(value - largest) / sum});
  }
  return result;
}

int64_t rank_of(std::span<const float> row, int64_t index) {
  int64_t rank = 0;
  for (int64_t i = 0; i < int64_t(row.size()); ++i) rank += i != index && ahead(row, i, index);
  return rank;
}

std::vector<bool> Accuracy::add(const Tensor& rows, std::span<const int64_t> labels, std::span<const int64_t> samples) {
  if (rows.rank() != 2 || rows.dims()[0] != int64_t(labels.size()))
    fail(ErrorKind::usage, labels.size(), " labels for an output of ", rows.type());
  classes = rows.dims()[1];
  std::vector<bool> right(labels.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || labels[i] >= classes)
      fail(ErrorKind::usage, "sample ", samples[i], " has the label ", labels[i],
           ", and the model has the classes 0 to ", classes - 1);
    const std::span<const float> row(rows.data<float>() + int64_t(i) * classes, size_t(classes));
    ++n;
    if (std::any_of(row.begin(), row.end(), [](float value) { return std::isnan(value); })) continue;
    const int64_t rank = rank_of(row, labels[i]);
    top1 += rank < 1;
    top5 += rank < 5;
    right[i] = rank < 1;
  }
  return right;
}

}  // namespace temper
