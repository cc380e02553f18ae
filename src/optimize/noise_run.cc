// SPDX-License-Identifier: Apache-2.0
#include "optimize/noise_run.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/hash.h"
#include "graph/control.h"
#include "graph/operations.h"
#include "graph/product.h"
#include "graph/random.h"
#include "optimize/trial.h"
#include "quantize/observe.h"

namespace temper {

namespace {

// A CPU does as much in seconds.
constexpr double kMostOperations = 2e11;
constexpr int64_t kMostElements = int64_t(1) << 28;  // of all values, which are kept at a time

std::string key_of(const Graph& graph) {
  const std::string text = print(graph);
  std::vector<std::span<const std::byte>> parts{std::as_bytes(std::span(text))};
  for (int32_t v = 0; v < graph.value_count(); ++v)
    if (const Tensor* constant = graph.constant({v})) parts.push_back(constant->raw());
  std::string hashes;
  for (uint64_t hash : xxh3_of_each(parts)) hashes += hex(hash);
  return hex(xxh3(hashes));
}

double operations_of(const Graph& graph) {
  double all = 0;
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node({n});
    if (!is_product(node.op)) continue;
    std::vector<TensorType> inputs;  // a product's are all there
    for (ValueId id : node.inputs) inputs.push_back(graph.type(id));
    if (const auto made = operations_of(node.op, inputs, std::span(&graph.type(node.outputs[0]), 1)))
      all += double(made->products);
  }
  return all;
}

double largest_element(const Tensor& tensor) {
  float largest = 0;
  bool finite = true;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const float x = tensor.data<float>()[i];
    largest = std::max(largest, std::fabs(x));
    finite &= x - x == 0;
  }
  return finite ? double(largest) : std::numeric_limits<double>::infinity();
}

}  // namespace

std::optional<Largest> largest_on_noise(const Graph& graph, const EngineInfo& info, const BuildOptions& options,
                                        TimingCache& cache, std::string& why_not) {
  const std::string key = key_of(graph);
  if (const NoiseRun* known = cache.noise_runs.find(key)) return *known;
  std::vector<Dims> dims;
  std::vector<Tensor> inputs;
  for (ValueId id : graph.inputs()) {
    const ShapeRange& range = info.shapes.at(graph.value(id).name);
    dims.push_back(range.opt);
    if (!dims.back().empty()) dims.back()[0] = range.min[0];
    inputs.push_back(random_tensor(graph.type(id).dtype, dims.back(), inputs.size() + 1));
  }
  try {
    Graph all = specialize(graph, bind_shapes(graph, dims));
    if (has_control_flow(all)) {
      why_not = "data decide which branches or iterations run";
      return std::nullopt;
    }
    if (const double operations = operations_of(all); operations > kMostOperations) {
      why_not = concat("a run takes ", operations / 1e9, " thousand million operations");
      return std::nullopt;
    }
    Largest largest;
    std::vector<std::string> names(all.outputs().size());
    int64_t elements = 0;
    for (ValueId id : observed_values(all)) {
      const std::string name = all.value(id).name;
      elements += element_count(all.type(id).dims());
      names.push_back(name);
      all.add_output(concat(name, " seen"), id);
    }
    if (elements > kMostElements) {
      why_not = concat("its values have ", elements, " elements");
      return std::nullopt;
    }
    BuildOptions quick;
    quick.threads = options.threads;
    const auto engine = trial_engine(std::move(all), quick);
    const std::vector<Tensor> outputs = Session(engine).run(inputs);
    for (size_t i = 0; i < names.size(); ++i)
      if (!names[i].empty()) largest[names[i]] = largest_element(outputs.at(i));
    NoiseRun unfit;
    for (const auto& [name, value] : largest)
      if (is_unfit_for_f16(value)) unfit[name] = std::min(value, double(std::numeric_limits<float>::max()));
    cache.noise_runs.add(key, std::move(unfit));
    return largest;
  } catch (const Error& error) {
    why_not = error.what();
    return std::nullopt;
  }
}

}  // namespace temper
