// SPDX-License-Identifier: Apache-2.0
#include "plan/work.h"

#include <algorithm>

#include "graph/ops/conv.h"
#include "graph/ops/conv_transpose.h"
#include "graph/ops/fused.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/pool.h"

namespace temper {

namespace {

// Steps of a program that compute: constants and casts are free, or nearly so.
int64_t computing_steps(const Program& program) {
  return std::count_if(program.steps.begin(), program.steps.end(),
                       [](const Step& step) { return step.op != Scalar::constant && step.op != Scalar::cast; });
}

int64_t elements(const Port& port) { return element_count(port.dims()); }

}  // namespace

int64_t bytes_of(const Plan& plan, const Segment& segment, const PlanStep& step) {
  int64_t once = step.packed >= 0 ? plan.constants[size_t(step.packed)]->bytes() : 0, each = 0;
  auto add = [&](const std::vector<Port>& ports, const std::vector<Layout>& layouts,
                 const std::vector<BufferRef>& refs) {
    for (size_t i = 0; i < ports.size(); ++i) {
      if (refs[i].kind == BufferRef::Kind::none) continue;
      (refs[i].kind == BufferRef::Kind::constant ? once : each) +=
          layout_bytes(ports[i].type.dtype, ports[i].dims(), layouts[i]);
    }
  };
  add(step.problem.inputs, step.config.inputs, step.inputs);
  add(step.problem.outputs, step.config.outputs, step.outputs);
  // What is in place is neither read nor written.
  for (size_t i = 0; i < step.inputs.size(); ++i)
    if (step.problem.inputs[i].in_place)
      each -= 2 * layout_bytes(step.problem.inputs[i].type.dtype, step.problem.inputs[i].dims(), step.config.inputs[i]);
  return once + each * segment.slices;
}

int64_t product_operations_of(const Segment& segment, const PlanStep& step) {
  if (step.is_reorder()) return 0;
  const Problem& problem = step.problem;
  if (const ops::Conv* conv = conv_of(problem.op)) {
    const Dims weights = problem.inputs[1].dims();  // [out, in / group, window...]
    const auto* fused = problem.op.get_if<ops::FusedConv>();
    const bool pools = fused && fused->pools();  // which makes the output smaller
    const Dims out = pools ? conv->output_dims(problem.inputs[0].dims(), weights) : problem.outputs[0].dims();
    return segment.slices * 2 * element_count(out) * (element_count(weights) / std::max<int64_t>(1, weights[0]));
  }
  if (const auto* chain = problem.op.get_if<ops::ConvChain>()) {
    const Dims first = problem.inputs[1].dims(), second = problem.inputs[size_t(chain->first_inputs)].dims();
    const int64_t pixels = elements(problem.outputs[0]) / std::max<int64_t>(1, second[0]);
    return segment.slices * 2 * pixels * (element_count(first) + element_count(second));
  }
  if (problem.op.is<ops::ConvTranspose>()) {
    const Dims weights = problem.inputs[1].dims();  // [in, out / group, window...]
    return segment.slices * 2 * elements(problem.inputs[0]) *
           (element_count(weights) / std::max<int64_t>(1, weights[0]));
  }
  if (const auto* matmul = problem.op.get_if<ops::MatMul>()) {
    const Dims a = problem.inputs[0].dims();
    const int64_t inner = a.empty() ? 1 : a.size() == 1 || !matmul->transpose_a ? a.back() : a[a.size() - 2];
    return segment.slices * 2 * elements(problem.outputs[0]) * inner;
  }
  return 0;
}

std::optional<int64_t> operations_of(const Segment& segment, const PlanStep& step) {
  if (step.is_reorder()) return 0;
  const Problem& problem = step.problem;
  const int64_t products = product_operations_of(segment, step);
  if (reduce_of(problem.op)) return segment.slices * elements(problem.inputs[0]);
  if (const Program* epilogue = epilogue_of(problem.op))
    return products + segment.slices * computing_steps(*epilogue) * elements(problem.outputs[0]);
  if (const auto* chain = problem.op.get_if<ops::ConvChain>()) {
    const Dims second = problem.inputs[size_t(chain->first_inputs)].dims();
    const int64_t pixels = elements(problem.outputs[0]) / std::max<int64_t>(1, second[0]);
    return products +
           segment.slices * pixels *
               (second[0] * computing_steps(chain->then) + second[1] * computing_steps(chain->first.epilogue));
  }
  if (products) return products;
  if (const auto* pointwise = problem.op.get_if<ops::Pointwise>())
    return segment.slices * computing_steps(pointwise->program) * elements(problem.outputs[0]);
  if (const auto* pool = problem.op.get_if<ops::Pool>())
    return segment.slices * elements(problem.outputs[0]) * element_count(pool->kernel);
  return std::nullopt;
}

std::string op_of(const PlanStep& step) {
  return step.is_reorder() ? "reorder" : std::string(name_of(step.problem.op));
}

}  // namespace temper
