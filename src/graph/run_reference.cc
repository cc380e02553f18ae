// SPDX-License-Identifier: Apache-2.0
// Runs a graph by the references of its ops, branches and loops too.
#include <algorithm>

#include "graph/control.h"
#include "graph/data_sizes.h"
#include "graph/ops/choose.h"
#include "graph/ops/loop.h"

namespace temper {

namespace {

// Runs what the outputs need: of a choose, the side that its condition names once it is known.
class ReferenceRun {
 public:
  // `outer`: symbols that are bound around the body of a loop.
  ReferenceRun(const Graph& source, const std::vector<Tensor>& inputs, const Bindings& outer)
      : source_(source), sizes_(source), values_(size_t(source.value_count())), done_(size_t(source.node_count()), 0) {
    std::vector<Dims> shapes;
    shapes.reserve(inputs.size());
    for (const Tensor& input : inputs) shapes.push_back(input.dims());
    bindings_ = bind_shapes(source, shapes);
    bindings_.insert(outer.begin(), outer.end());
    for (size_t i = 0; i < inputs.size(); ++i) values_[size_t(source.inputs()[i].index)] = inputs[i];
  }

  std::vector<Tensor> run() {
    bool waits = true;
    while (waits) {
      const std::vector<char> needed = needed_nodes(source_, [&](ValueId id) { return condition(id); });
      bool ran = false;
      waits = false;
      for (int32_t n = 0; n < source_.node_count(); ++n) {
        if (!needed[size_t(n)] || done_[size_t(n)]) continue;
        const bool ready = is_ready({n});
        if (ready) run_one({n});
        (ready ? ran : waits) = true;
      }
      if (waits && !ran) fail(ErrorKind::bad_file, "no node of the graph can run next");
    }
    std::vector<Tensor> outputs;
    for (const GraphOutput& output : source_.outputs()) outputs.push_back(get(output.value));
    return outputs;
  }

 private:
  const Graph& source_;
  const DataSizes sizes_;
  std::vector<Tensor> values_;
  std::vector<char> done_;
  Bindings bindings_;

  Tensor get(ValueId id) const {
    if (!id.valid()) return {};
    const Tensor* constant = source_.constant(id);
    return constant ? *constant : values_[size_t(id.index)];
  }
  bool has(ValueId id) const { return !id.valid() || get(id).defined(); }
  std::optional<bool> condition(ValueId id) const {
    const Tensor tensor = get(id);
    return tensor.defined() ? std::optional(tensor.to_ints().at(0) != 0) : std::nullopt;
  }

  bool is_ready(NodeId id) const {
    const Node& node = source_.node(id);
    std::span<const ValueId> inputs = node.inputs;
    const auto all = [&](std::span<const ValueId> values) {
      return std::all_of(values.begin(), values.end(), [&](ValueId value) { return has(value); });
    };
    const auto all_done = [&](const std::vector<NodeId>& nodes) {
      return std::all_of(nodes.begin(), nodes.end(), [&](NodeId each) { return done_[size_t(each.index)] != 0; });
    };
    if (node.op.is<ops::LoopEnd>()) {
      const Loop loop = loop_of(source_, id);
      return all(source_.node(loop.begin).inputs) && all(loop.captured) && all_done(loop.deciders);
    }
    if (!all_done(sizes_.deciders(id))) return false;
    if (!node.op.is<ops::Choose>()) return all(inputs);
    const auto side = condition(inputs[0]);
    return side && all(inputs.subspan(ops::first_of_side(*side, node.outputs.size()), node.outputs.size()));
  }

  void run_one(NodeId id) {
    const Node& node = source_.node(id);
    std::vector<Tensor> results;
    if (node.op.is<ops::LoopEnd>()) {
      results = run_loop_of(id);
    } else {
      std::vector<Tensor> tensors;
      for (ValueId input : node.inputs) tensors.push_back(get(input));
      Op op = node.op;
      substitute(op, bindings_);
      if (const auto* choose = op.get_if<ops::Choose>()) {
        // The other side may not have been computed.
        std::vector<TensorType> types(node.outputs.size());
        results = with_context([&] { return concat("choose '", node.name, "'"); },
                               [&] { return choose->reference(tensors, types); });
      } else {
        results = run_node(op, tensors, node.name);
      }
    }
    for (size_t i = 0; i < results.size(); ++i) {
      values_[size_t(node.outputs[i].index)] = results[i];
      bind_unknown(source_.type(node.outputs[i]), results[i].dims(), bindings_);
    }
    done_[size_t(id.index)] = 1;
  }

  std::vector<Tensor> run_loop_of(NodeId id) {
    const Node& end = source_.node(id);
    const Loop loop = loop_of(source_, id);
    const Graph body = body_of(source_, loop);
    const std::vector<ValueId>& from = source_.node(loop.begin).inputs;
    std::vector<Tensor> initial;
    for (int64_t i = 0; i < end.op.get<ops::LoopEnd>().carried; ++i) initial.push_back(get(from[2 + size_t(i)]));
    std::vector<TensorType> types;
    for (ValueId output : end.outputs) {
      types.push_back(source_.type(output));
      for (Dim& dim : types.back().shape) dim = dim.substitute(bindings_);
    }
    return run_loop(end, types, get(from[0]), get(from[1]), std::move(initial), [&](std::vector<Tensor> inputs) {
      for (ValueId captured : loop.captured) inputs.push_back(get(captured));
      return ReferenceRun(body, inputs, bindings_).run();
    });
  }
};

}  // namespace

std::vector<Tensor> run_reference(const Graph& source, const std::vector<Tensor>& inputs) {
  return ReferenceRun(source, inputs, {}).run();
}

}  // namespace temper
