// SPDX-License-Identifier: Apache-2.0
#include "quantize/observe.h"

#include <algorithm>
#include <cmath>

#include "graph/ops/matmul.h"

namespace temper {

std::vector<ValueId> observed_values(const Graph& graph) {
  std::vector<ValueId> ids;
  for (int32_t i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value({i});
    if (value.type.dtype == DType::f32 && !value.constant) ids.push_back({i});
  }
  return ids;
}

int64_t observed_channels(const Graph& graph, ValueId id) {
  const Shape& shape = graph.type(id).shape;
  if (shape.size() < 2 || !shape.back().is_constant()) return 0;
  for (NodeId user : graph.value(id).users) {
    const Node& node = graph.node(user);
    const auto* product = node.op.get_if<ops::MatMul>();
    if (!product || product->transpose_a || node.inputs[0] != id) continue;
    if (const Tensor* weights = graph.constant(node.inputs[1]); weights && weights->rank() == 2)
      return shape.back().value();
  }
  return 0;
}

void observe(Observed& observed, const Tensor& tensor, const std::string& name, std::span<const std::string> samples) {
  const std::span<const float> values(tensor.data<float>(), size_t(tensor.count()));
  float least = observed.min, largest = observed.max;
  if (observed.histogram.total() == 0 && !values.empty()) least = largest = values[0];
  // x - x is 0 for every finite x and NaN otherwise: one sum finds either, without a branch for each element.
  float broken = 0;
  for (float x : values) {
    least = std::min(least, x);
    largest = std::max(largest, x);
    broken += x - x;
  }
  if (!(broken == 0)) {
    const auto at = std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
    const auto count = int64_t(samples.size());
    const bool by_sample = tensor.rank() > 0 && tensor.dims()[0] == count;
    const std::string& sample = samples[by_sample ? size_t((at - values.begin()) / (tensor.count() / count)) : 0];
    fail(ErrorKind::check_failed, "the tensor '", name, "' holds ", std::isnan(*at) ? "a NaN" : "an infinity",
         " for sample ", sample, by_sample || count == 1 ? "" : concat(" or one of the ", count - 1, " after it"),
         ": a range cannot be taken from it. Look at that sample and at the preprocessing; temper run shows the "
         "outputs for it");
  }
  observed.min = least + 0.0f;  // not -0: which zero comes first must not matter when parts are joined
  observed.max = largest + 0.0f;
  observed.histogram.add(values);
  std::vector<float>& channels = observed.channels;
  for (size_t row = 0; !channels.empty() && row < values.size(); row += channels.size())
    for (size_t c = 0; c < channels.size(); ++c) channels[c] = std::max(channels[c], std::fabs(values[row + c]));
}

}  // namespace temper
