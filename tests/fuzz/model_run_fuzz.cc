// SPDX-License-Identifier: Apache-2.0
// What is imported of any bytes goes the whole way, if it is small: the passes leave a graph that passes verification,
// and a plan of it, by the reference's kernels, runs and gives outputs of the types that the graph has. Values are
// compared elsewhere, on models that mean something: here a sum that overflows may come out as two kinds of infinity.
#include <cstdlib>

#include "graph/control.h"
#include "graph/random.h"
#include "onnx/import.h"
#include "onnx_mutator.h"
#include "passes/pass.h"
#include "plan/execute_host.h"
#include "plan/planner.h"
#include "runtime/engine.h"

namespace {

using namespace temper;

constexpr int32_t kMostNodes = 100;
constexpr int64_t kMostElements = 1 << 14;
constexpr double kMostWork = 1e5;

// All types concrete, and little to do.
bool is_small(const Graph& graph) {
  int64_t elements = 0;
  for (int32_t v = 0; v < graph.value_count(); ++v) {
    const TensorType& type = graph.type({v});
    if (!type.is_concrete()) return false;
    elements += std::min(element_count(type.dims()), kMostElements);
  }
  double work = 0;
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node({n});
    std::vector<TensorType> inputs, outputs;
    for (ValueId id : node.inputs) inputs.push_back(id.valid() ? graph.type(id) : TensorType());
    for (ValueId id : node.outputs) outputs.push_back(graph.type(id));
    work += reference_cost(node.op, inputs, outputs);
  }
  return elements < kMostElements && work < kMostWork;
}

void go_through(Graph graph) {
  if (graph.node_count() > kMostNodes || has_control_flow(graph)) return;
  Bindings two;
  std::vector<std::string> symbols;
  for (ValueId id : graph.inputs())
    for (const Dim& dim : graph.type(id).shape) dim.collect_symbols(symbols);
  for (const std::string& symbol : symbols) two[symbol] = 2;
  graph = specialize(graph, two);
  if (!is_small(graph)) return;
  Graph optimised = graph;
  run_passes(optimised);
  verify(optimised);
  if (optimised.inputs().size() != graph.inputs().size() || optimised.outputs().size() != graph.outputs().size())
    abort();
  if (!is_small(optimised)) return;
  static const Device device = open_device("reference");
  const Plan plan = build_plan(optimised, find_backend("reference"), device, {});
  std::vector<Tensor> tensors;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  tensors.reserve(plan.inputs.size() + plan.outputs.size());
  for (const PortInfo& port : plan.inputs)
    inputs.push_back(tensors.emplace_back(random_tensor(port.type.dtype, port.type.dims(), 1)).raw().data());
  for (size_t o = 0; o < plan.outputs.size(); ++o) {
    const TensorType& type = plan.outputs[o].type;
    if (type != graph.type(graph.outputs()[o].value)) abort();
    outputs.push_back(tensors.emplace_back(type.dtype, type.dims()).raw_mutable());
  }
  Arena arena(device);
  HostExecutor(plan, device, arena).run(inputs, outputs);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    ImportOptions options;
    options.limits.memory = 64 << 20;
    go_through(import_onnx_bytes({reinterpret_cast<const char*>(data), size}, "/nonexistent", options).graph);
  } catch (const Error&) {}
  return 0;
}
