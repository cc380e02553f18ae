// SPDX-License-Identifier: Apache-2.0
#include "quantize/overflow.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/product.h"

namespace temper {

namespace {

constexpr double kLargest = 65504, kSafe = kLargest / 2;
// Where the largest is at 2^-15, it has ten bits, and what is a thousandth of it none.
constexpr double kSmall = 0x1p-15;

// The largest magnitude of the finite elements that are no padding with "minus infinity"; NaN counts as nothing.
double largest_element(const Tensor& tensor) {
  float largest = 0;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const float magnitude = std::fabs(tensor.data<float>()[i]);
    if (magnitude > largest && magnitude <= std::numeric_limits<float>::max()) largest = magnitude;
  }
  return largest;
}

std::string reason_of(double largest, std::string_view where) {
  const std::string seen = std::isfinite(largest) ? concat(float(largest)) : "infinity";
  return largest > kSafe ? concat("reaches ", seen, ' ', where, ": too near to the end of fp16 at 65504, or beyond")
                         : concat("reaches no more than ", seen, ' ', where, ": fp16 has few digits left there");
}

}  // namespace

Largest largest_of(const Ranges& ranges) {
  Largest largest;
  for (const auto& [name, range] : ranges.values)
    largest[name] = std::max(std::fabs(double(range.min)), std::fabs(double(range.max)));
  return largest;
}

bool is_unfit_for_f16(double largest) { return largest > kSafe || (largest > 0 && largest < kSmall); }

UnfitForF16 unfit_for_f16(const Graph& graph, const Largest& seen, std::string_view where) {
  UnfitForF16 unfit;
  for (int32_t v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value({v});
    const auto largest = seen.find(value.name);
    if (value.type.dtype == DType::f32 && !value.constant && largest != seen.end() && is_unfit_for_f16(largest->second))
      unfit.values[value.name] = concat('\'', value.name, "' ", reason_of(largest->second, where));
  }
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node({n});
    const auto name = product_name(node.op, node.name);
    if (!name) continue;
    for (size_t i : {0, 1})
      if (const Tensor* constant = graph.constant(node.inputs[i]); constant && constant->dtype() == DType::f32)
        if (const double largest = largest_element(*constant); largest > kLargest || (largest > 0 && largest < kSmall))
          unfit.products[*name] =
              concat("its operand '", graph.value(node.inputs[i]).name, "' ", reason_of(largest, "in the model"));
  }
  return unfit;
}

}  // namespace temper
