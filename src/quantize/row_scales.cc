// SPDX-License-Identifier: Apache-2.0
#include "quantize/row_scales.h"

#include <limits>

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
  const auto f32 = [](Scalar op, int a, int b = -1) { return Step{op, DType::f32, {a, b, -1}}; };
  Program scale{2, {}};  // max and min pass NaN on
  const int most = scale.push(f32(Scalar::max, 0, scale.push(f32(Scalar::neg, 1))));
  const int levels = scale.push(constant_step(DType::f32, 127));
  const int step = scale.push(f32(Scalar::div, most, levels));
  const int normal = scale.push(constant_step(DType::f32, std::numeric_limits<float>::min()));
  scale.push(f32(Scalar::max, step, normal));
  QuantizedRows rows;
  rows.scales =
      graph.add(ops::Pointwise{scale}, {largest, least}, concat(name, kRowSteps[2]), {concat(name, kRowSteps[2])})
          .at(0);
  Program quantize{2, {}};
  // One quotient for each row, where kernels see that it is the same for all of it.
  const int inverse = quantize.push(f32(Scalar::reciprocal, 1));
  const int whole = quantize.push(f32(Scalar::round, quantize.push(f32(Scalar::mul, 0, inverse))));
  quantize.push({Scalar::cast, DType::i8, {whole, -1, -1}});  // of at most 127, as the scale was made
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
  Program floats{3, {}};
  const int sum = floats.push({Scalar::cast, DType::f32, {0, -1, -1}});
  const int columns = floats.push({Scalar::mul, DType::f32, {sum, 1, -1}});
  floats.push({Scalar::mul, DType::f32, {columns, 2, -1}});
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
