// SPDX-License-Identifier: Apache-2.0
#include "quantize/overflow.h"

#include <algorithm>
#include <cmath>

#include "graph/product.h"

namespace temper {

namespace {

constexpr double kLargest = 65504, kSafe = kLargest / 2;

double largest_of(const Tensor& tensor) {
  double largest = 0;
  for (double value : tensor.to_doubles())
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  return largest;
}

}  // namespace

std::map<std::string, std::string> overflows_of_f16(const Graph& graph, const Ranges& ranges) {
  std::map<std::string, std::string> kept;
  // By value: the name of one that is too large and flows into it; empty: none does.
  std::vector<std::string> from(size_t(graph.value_count()));
  auto look = [&](ValueId id) {
    const Value& value = graph.value(id);
    const auto range = ranges.values.find(value.name);
    if (value.type.dtype != DType::f32 || range == ranges.values.end()) return;
    const double seen = std::max(std::fabs(double(range->second.min)), std::fabs(double(range->second.max)));
    if (seen > kSafe) from[size_t(id.index)] = concat("'", value.name, "', which reached ", seen, " in calibration");
  };
  for (ValueId id : graph.inputs()) look(id);
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node({n});
    const bool product = is_product(node.op);
    std::string cause;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (!id.valid()) continue;
      if (const Tensor* constant = graph.constant(id)) {
        if (product && i < 2 && constant->dtype() == DType::f32 && largest_of(*constant) > kLargest)
          cause = concat("its operand '", graph.value(id).name, "', which fp16 does not hold");
      } else if ((!product || i < 2) && !from[size_t(id.index)].empty()) {
        cause = from[size_t(id.index)];
      }
    }
    for (ValueId output : node.outputs) {
      if (!product) from[size_t(output.index)] = cause;
      look(output);
      if (product && !from[size_t(output.index)].empty()) cause = from[size_t(output.index)];
    }
    if (product && !cause.empty()) kept[node.name] = concat("fp16 would overflow: ", cause);
  }
  return kept;
}

}  // namespace temper
