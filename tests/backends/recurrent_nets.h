// SPDX-License-Identifier: Apache-2.0
// Random recurrent nets whose inputs are multiplied already, for the tests of their kernels.
#pragma once
#include <cmath>

#include "../draw.h"
#include "backends/tactic.h"
#include "graph/ops/recurrent.h"

namespace temper::testing {

inline Tensor random_tensor(Draw& draw, const Dims& dims, double largest) {
  Tensor tensor(DType::f32, dims);
  for (int64_t i = 0; i < tensor.count(); ++i)
    tensor.data<float>()[i] = float(largest * double(draw(-1000, 1000)) / 1000);
  return tensor;
}

struct Net {
  ops::Recurrent op;
  std::vector<Tensor> inputs;
};

// Weights let no error grow.
inline Net random_net(Draw& draw, int64_t batch, int64_t hidden, int64_t steps) {
  ops::Recurrent op;
  op.kind = ops::RecurrentKind(draw(0, 2));
  op.direction = ops::RecurrentDirection(draw(0, 2));
  op.f = op.kind == ops::RecurrentKind::rnn ? ops::Activation::tanh : ops::Activation::sigmoid;
  if (draw.chance(20)) op.f = ops::Activation::hard_sigmoid, op.alpha = {0.2, 0, 0}, op.beta = {0.5, 0, 0};
  if (draw.chance(20)) op.clip = 0.7;
  op.couple_input_forget = op.kind == ops::RecurrentKind::lstm && draw.chance(25);
  op.linear_before_reset = op.kind == ops::RecurrentKind::gru && draw.chance(50);
  op.projected = true;
  const int64_t d = op.directions(), wide = op.gates() * hidden;
  const Dims state{d, batch, hidden};
  Net net{op, {}};
  net.inputs.push_back(random_tensor(draw, {steps, batch, d * wide}, 2));
  net.inputs.push_back({});
  net.inputs.push_back(random_tensor(draw, {d, wide, hidden}, 1 / std::sqrt(double(hidden))));
  net.inputs.push_back(draw.chance(50) ? random_tensor(draw, {d, wide}, 1) : Tensor{});
  Tensor lengths;
  if (draw.chance(50)) {
    lengths = Tensor(DType::i32, {batch});
    for (int64_t b = 0; b < batch; ++b) lengths.data<int32_t>()[b] = int32_t(draw(0, steps));
  }
  net.inputs.push_back(lengths);
  net.inputs.push_back(draw.chance(50) ? random_tensor(draw, state, 1) : Tensor{});
  if (op.kind == ops::RecurrentKind::lstm) {
    net.inputs.push_back(draw.chance(50) ? random_tensor(draw, state, 1) : Tensor{});
    net.inputs.push_back(draw.chance(30) ? random_tensor(draw, {d, 3 * hidden}, 0.5) : Tensor{});
  }
  return net;
}

// The problem of a net, whose weights are constant. It points into the net.
inline Problem problem_of(const Net& net, int threads) {
  Problem problem{Op(net.op), {}, {}, threads};
  std::vector<Operand> operands;
  for (const Tensor& input : net.inputs) {
    Port port;
    port.present = input.defined();
    if (input.defined()) port.type = input.type();
    problem.inputs.push_back(port);
  }
  problem.inputs[2].is_constant = true;
  problem.inputs[2].constant = &net.inputs[2];
  for (const Port& port : problem.inputs) operands.push_back({port.present ? &port.type : nullptr});
  for (const TensorType& type : net.op.infer(InferContext(operands, ops::Recurrent::name)))
    problem.outputs.push_back({type});
  return problem;
}
inline std::vector<Tensor> answer_of(const Net& net, const Problem& problem) {
  std::vector<TensorType> types;
  for (const Port& port : problem.outputs) types.push_back(port.type);
  return net.op.reference(net.inputs, types);
}

}  // namespace temper::testing
