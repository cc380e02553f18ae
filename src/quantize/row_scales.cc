// SPDX-License-Identifier: Apache-2.0
#include "quantize/row_scales.h"

#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reduce.h"

namespace temper {

QuantizedRows quantize_rows(Graph& graph, ValueId x, const std::string& name) {
  // Two reductions and no |x|, which would be written and read again.
  const auto reduced = [&](ops::ReduceKind kind, std::string_view what) {
    const ops::Reduce reduce{.kind = kind, .axes = {graph.type(x).rank() - 1}, .keepdims = true};
    return graph.add(reduce, {x}, concat(name, what), {concat(name, what)}).at(0);
  };
  const ValueId largest = reduced(ops::ReduceKind::max, kRowSteps[0]),
                least = reduced(ops::ReduceKind::min, kRowSteps[1]);
  // max and min pass NaN on; the last number is the smallest normal one.
  const Program scale = Program::parse(
      "(2) 2=neg.f32(1) 3=max.f32(0,2) 4=constant.f32[127] 5=div.f32(3,4) 6=constant.f32[1.1754943508222875e-38] "
      "7=max.f32(5,6)");
  // One quotient for each row, where kernels see that it is the same for all of it; of 127 at most, as the scale is
  // made.
  const Program quantize = Program::parse("(2) 2=reciprocal.f32(1) 3=mul.f32(0,2) 4=round.f32(3) 5=cast.i8(4)");
  QuantizedRows rows;
  rows.scales =
      graph.add(ops::Pointwise{scale}, {largest, least}, concat(name, kRowSteps[2]), {concat(name, kRowSteps[2])})
          .at(0);
  rows.integers =
      graph
          .add(ops::Pointwise{quantize}, {x, rows.scales}, concat(name, kRowSteps[3]), {concat(name, "/row_quantized")})
          .at(0);
  return rows;
}

std::vector<ValueId> add_row_product(Graph& graph, const Node& product, const QuantizedRows& rows, ValueId weights,
                                     ValueId weight_scales, const std::vector<ValueId>& inputs,
                                     const std::vector<std::string>& names) {
  ops::MatMul op = product.op.get<ops::MatMul>();
  // The columns' scales come first: integer kernels of libraries take them in.
  const Program floats = Program::parse("(3) 3=cast.f32(0) 4=mul.f32(3,1) 5=mul.f32(4,2)");
  const Program joined = splice(floats, op.epilogue, 0);  // its inputs: the epilogue's others, then these three
  const int others = op.epilogue.inputs - 1;
  std::vector<int> order;
  order.reserve(size_t(joined.inputs));
  for (int i = 0; i < others; ++i) order.push_back(floats.inputs + i);
  for (int i = 0; i < floats.inputs; ++i) order.push_back(i);
  op.epilogue = remap_inputs(joined, order, joined.inputs);
  op.tf32 = false;
  std::vector<ValueId> all{rows.integers, weights, weight_scales, rows.scales};
  all.insert(all.end(), inputs.begin(), inputs.end());
  return graph.add(std::move(op), std::move(all), product.name, names);
}

}  // namespace temper
