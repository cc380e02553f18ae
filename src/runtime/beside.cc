// SPDX-License-Identifier: Apache-2.0
#include "runtime/beside.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/ops/reshape.h"
#include "graph/ops/slice.h"
#include "plan/choose.h"

namespace temper {

Difference compare(const Tensor& got, const Tensor& want, const Tolerance& tolerance, double floor) {
  if (got.dtype() != want.dtype() || got.dims() != want.dims())
    fail(ErrorKind::check_failed, "it is ", got.type(), "; the reference gives ", want.type());
  Difference d;
  if (got.dtype() == DType::string) {
    const Tensor a = got.with_bits_as(DType::u64), b = want.with_bits_as(DType::u64);
    for (int64_t i = 0; i < a.count(); ++i) d.beyond += a.data<uint64_t>()[i] != b.data<uint64_t>()[i];
    if (d.beyond) d.largest = INFINITY;
    return d;
  }
  const auto a = got.to_doubles(), b = want.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;  // equal infinities too
    double error = std::fabs(a[i] - b[i]);
    if (std::isnan(error)) error = INFINITY;
    const double size = std::isfinite(b[i]) ? std::fabs(b[i]) : 0;  // near infinity there is nothing
    if (!(error <= floor + tolerance.absolute + tolerance.relative * size)) ++d.beyond;
    d.largest = std::max(d.largest, error);
    if (b[i] != 0) d.largest_relative = std::max(d.largest_relative, size > 0 ? error / size : INFINITY);
  }
  return d;
}

namespace {

// A copy in plain order of what a step reads or writes.
Tensor plain_copy(const Port& port, Layout layout, const void* data) {
  const TensorType& type = port.type;
  Tensor result(type.dtype, type.dims());
  const Dims& dims = result.dims();
  if (port.pitch && layout == Layout::plain) {
    const int64_t row = dims.back() * size_of(type.dtype);
    for (int64_t r = 0; r * row < result.bytes(); ++r)
      std::memcpy(result.raw_mutable() + r * row,
                  static_cast<const std::byte*>(data) + r * port.pitch * size_of(type.dtype), size_t(row));
    return result;
  }
  if (!port.pitch && same_memory(dims, layout, Layout::plain)) {
    if (result.bytes()) std::memcpy(result.raw_mutable(), data, size_t(result.bytes()));
    return result;
  }
  const int64_t size = size_of(type.dtype), block = block_of(layout), channels = dims[1];
  int64_t spatial = 1;
  for (size_t axis = 2; axis < dims.size(); ++axis) spatial *= dims[axis];
  const auto* from = static_cast<const std::byte*>(data);
  for (int64_t n = 0; n < dims[0]; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t s = 0; s < spatial; ++s) {
        const int64_t blocks = (channels + block - 1) / block;
        const int64_t at = layout == Layout::channels_last
                               ? (n * spatial + s) * (port.pitch ? port.pitch : channels) + c
                               : ((n * blocks + c / block) * spatial + s) * block + c % block;
        std::memcpy(result.raw_mutable() + ((n * channels + c) * spatial + s) * size, from + at * size, size_t(size));
      }
  return result;
}

double largest_finite(const Tensor& tensor) {
  double largest = 0;
  for (double value : tensor.to_doubles())
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  return largest;
}

}  // namespace

std::vector<StepDifference> run_beside_reference(Session& session, const Graph& graph,
                                                 const std::vector<Tensor>& inputs, const Tolerance& tolerance) {
  std::vector<const void*> in;
  std::vector<Tensor> results;
  std::vector<void*> out;
  in.reserve(inputs.size());
  for (const Tensor& input : inputs) in.push_back(input.raw().data());
  for (const PortInfo& output : session.current_plan().outputs)
    results.emplace_back(output.type.dtype, output.type.dims());
  out.reserve(results.size());
  for (Tensor& result : results) out.push_back(result.raw_mutable());
  // Steps stand in the order of the nodes; only the nodes hold constants that were packed.
  std::map<const PlanStep*, size_t> index;
  std::vector<StepDifference> differences;
  std::vector<const Node*> nodes;
  int32_t next = 0;
  for (const Segment& segment : session.current_plan().segments)
    for (const PlanStep& step : segment.steps)
      if (!step.is_reorder()) {
        // Views have no step, nor have slices that are read where they lie, transposes whose layouts hold the same
        // bytes, and the like.
        const auto is_its = [&](const Node& node) {
          return node.name == step.node && name_of(node.op) == name_of(step.problem.op);
        };
        while (next < graph.node_count() && !is_its(graph.node({next}))) ++next;
        if (next == graph.node_count())
          fail(ErrorKind::usage, "the plan was not made from this graph: it has no node '", step.node,
               "' at that place");
        nodes.push_back(&graph.node({next++}));
        index[&step] = differences.size();
        differences.push_back({step.node, std::string(name_of(step.problem.op)), step.tactic, {}, {}});
      }
  std::vector<Tensor> want;  // of the step that runs now
  const auto before = [&](const PlanStep& step, const Buffers& buffers) {
    if (step.is_reorder()) return;
    const size_t at = index.at(&step);
    std::vector<Tensor> arguments;
    std::vector<TensorType> types;
    for (size_t i = 0; i < step.problem.inputs.size(); ++i) {
      const Port& port = step.problem.inputs[i];
      if (!port.present) arguments.emplace_back();
      else if (port.is_constant) arguments.push_back(*graph.constant(nodes[at]->inputs[i]));
      else arguments.push_back(plain_copy(port, step.config.inputs[i], buffers.inputs[i]));
    }
    for (const Port& output : step.problem.outputs) types.push_back(output.type);
    want = reference(step.problem.op, arguments, types);
  };
  const auto after = [&](const PlanStep& step, const Buffers& buffers) {
    if (step.is_reorder()) return;
    StepDifference& total = differences[index.at(&step)];
    for (size_t o = 0; o < want.size(); ++o) {
      const TensorType& type = step.problem.outputs[o].type;
      const Tensor got = plain_copy(step.problem.outputs[o], step.config.outputs[o], buffers.outputs[o]);
      const double floor = is_float(got.dtype()) ? 1e-5 * largest_finite(want[o]) : 0;
      const Difference d = compare(got, want[o], tolerance, floor);
      if (total.type.shape.empty() || d.largest > total.difference.largest) total.type = type;
      total.difference = {std::max(total.difference.largest, d.largest),
                          std::max(total.difference.largest_relative, d.largest_relative),
                          total.difference.beyond + d.beyond};
    }
  };
  session.run_observed(in, out, {before, after});
  return differences;
}

}  // namespace temper
