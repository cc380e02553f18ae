// SPDX-License-Identifier: Apache-2.0
#include "graph/signs.h"

#include <algorithm>

#include "graph/ops/blocked_matmul.h"
#include "graph/ops/fused.h"
#include "graph/ops/pad.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/pool.h"
#include "graph/ops/window.h"

namespace temper {

namespace {

bool is_non_negative(const Program& program, std::vector<char> known) {
  for (const Step& step : program.steps) {
    const auto arg = [&](int a) { return known[size_t(step.args[size_t(a)])] != 0; };
    bool ok = false;
    switch (step.op) {
      case Scalar::constant: ok = is_float(step.dtype) ? step.number >= 0 : step.integer >= 0; break;
      case Scalar::cast: ok = arg(0); break;
      case Scalar::add:
      case Scalar::mul: ok = is_float(step.dtype) && arg(0) && arg(1); break;
      case Scalar::max: ok = arg(0) || arg(1); break;
      case Scalar::min: ok = arg(0) && arg(1); break;
      case Scalar::fma: ok = arg(0) && arg(1) && arg(2); break;
      case Scalar::where: ok = arg(1) && arg(2); break;
      case Scalar::floor:
      case Scalar::ceil:
      case Scalar::round: ok = arg(0); break;
      case Scalar::relu:
      case Scalar::sqrt:
      case Scalar::exp:
      case Scalar::sigmoid: ok = true; break;
      default: break;
    }
    known.push_back(ok);
  }
  return known[size_t(program.result())] != 0;
}

// A cast from integer to integer wraps, one from a float saturates.
bool casts_keep_signs(const Program& program, std::vector<DType> dtypes) {
  for (const Step& step : program.steps) {
    if (step.op == Scalar::cast) {
      const DType from = dtypes[size_t(step.args[0])];
      if (!is_float(from) && !is_float(step.dtype)) return false;
    }
    dtypes.push_back(step.dtype);
  }
  return true;
}

// A window that sees nothing but padding gives the lowest number there is.
bool windows_meet_data(const ops::Pool& pool) {
  if (pool.ceil_mode || std::any_of(pool.dilations.begin(), pool.dilations.end(), [](int64_t d) { return d != 1; }))
    return false;
  if (pool.pad_mode != ops::PadMode::explicit_pads) return true;
  for (size_t i = 0; i < pool.kernel.size(); ++i)
    if (pool.pads[i] >= pool.kernel[i] || pool.pads[i + pool.kernel.size()] >= pool.kernel[i]) return false;
  return true;
}

class Signs {
 public:
  explicit Signs(const Graph& graph) : graph_(graph), known_(size_t(graph.value_count()), 0) {
    for (int32_t v = 0; v < graph.value_count(); ++v) known_[size_t(v)] = is_unsigned(graph.type({v}).dtype);
    for (int32_t n = 0; n < graph.node_count(); ++n) {
      const Node& node = graph.node({n});
      if (node.outputs.size() == 1 && follows(node)) known_[size_t(node.outputs[0].index)] = 1;
    }
  }
  std::vector<char> run() { return std::move(known_); }

 private:
  const Graph& graph_;
  std::vector<char> known_;

  static bool is_unsigned(DType dtype) {
    return dtype == DType::u8 || dtype == DType::u16 || dtype == DType::u32 || dtype == DType::u64 ||
           dtype == DType::boolean;
  }
  bool known(ValueId id) const {
    if (!id.valid()) return false;
    if (const Tensor* constant = graph_.constant(id); constant && constant->count() <= 4096) {
      const auto numbers = constant->to_doubles();
      return std::none_of(numbers.begin(), numbers.end(), [](double x) { return x < 0; });
    }
    return known_[size_t(id.index)] != 0;
  }
  DType row_dtype(const Node& node, const Program& prologue) const {
    std::vector<DType> dtypes;
    for (size_t i = 0; i < size_t(prologue.inputs); ++i) dtypes.push_back(graph_.type(node.inputs[i]).dtype);
    return ops::row_dtype(prologue.infer(dtypes));
  }
  // In which dtype a node's epilogue begins.
  DType accumulator_of(const Node& node) const {
    DType x = graph_.type(node.inputs[0]).dtype;
    if (node.op.is<ops::BlockedMatMul>()) return DType::f32;
    if (const auto* fused = node.op.get_if<ops::FusedReduce>()) return fused->prologue.infer(std::span(&x, 1));
    if (const auto* fused = node.op.get_if<ops::FusedNormalize>()) return row_dtype(node, fused->prologue);
    if (const auto* fused = node.op.get_if<ops::FusedSoftmax>()) return row_dtype(node, fused->prologue);
    if (const auto* fused = node.op.get_if<ops::FusedConv>()) {
      std::vector<DType> dtypes{x};
      for (size_t i = fused->own_inputs(node.inputs.size()); i < node.inputs.size(); ++i)
        dtypes.push_back(graph_.type(node.inputs[i]).dtype);
      x = fused->prologue.infer(dtypes);
    }
    return ops::accumulator_of(x, graph_.type(node.inputs[1]).dtype);
  }
  bool follows(const Node& node) const {
    const auto program = [&](const Program& steps, size_t first, bool accumulator) {
      std::vector<char> inputs;
      std::vector<DType> dtypes;
      if (accumulator) inputs.push_back(0), dtypes.push_back(accumulator_of(node));
      for (size_t i = first; i < node.inputs.size(); ++i)
        inputs.push_back(known(node.inputs[i])), dtypes.push_back(graph_.type(node.inputs[i]).dtype);
      return int(inputs.size()) == steps.inputs && casts_keep_signs(steps, std::move(dtypes)) &&
             is_non_negative(steps, std::move(inputs));
    };
    if (const auto* op = node.op.get_if<ops::Pointwise>()) return program(op->program, 0, false);
    if (const Program* epilogue = epilogue_of(node.op))
      return program(*epilogue, node.inputs.size() - size_t(epilogue->inputs - 1), true);
    if (const auto* op = node.op.get_if<ops::Pool>())
      return op->kind == ops::PoolKind::lp || (known(node.inputs[0]) && windows_meet_data(*op));
    if (const auto* op = node.op.get_if<ops::Pad>())
      return known(node.inputs[0]) && (op->kind != ops::PadKind::constant || node.inputs.size() < 2 ||
                                       !node.inputs[1].valid() || known(node.inputs[1]));
    bool moved = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (flow_of(node.op, i) != Flow::moved) continue;
      if (!known(node.inputs[i])) return false;
      moved = true;
    }
    return moved;
  }
};

}  // namespace

std::vector<char> values_without_negatives(const Graph& graph) { return Signs(graph).run(); }

}  // namespace temper
