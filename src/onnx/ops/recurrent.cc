// SPDX-License-Identifier: Apache-2.0
// Imports LSTM, GRU and RNN.
#include "graph/ops/recurrent.h"

#include <algorithm>

#include "graph/ops/transpose.h"
#include "onnx/node.h"

namespace temper {

namespace {

struct Known {
  const char* name;
  ops::Activation activation;
  double alpha, beta;  // ONNX's defaults; NaN where the attribute must be given
};
constexpr double kNone = 0;
constexpr Known kActivations[] = {
    {"tanh", ops::Activation::tanh, kNone, kNone},
    {"sigmoid", ops::Activation::sigmoid, kNone, kNone},
    {"relu", ops::Activation::relu, kNone, kNone},
    {"softsign", ops::Activation::softsign, kNone, kNone},
    {"softplus", ops::Activation::softplus, kNone, kNone},
    {"affine", ops::Activation::affine, 1, 0},
    {"leakyrelu", ops::Activation::leaky_relu, 0.01f, kNone},
    {"thresholdedrelu", ops::Activation::thresholded_relu, 1, kNone},
    {"scaledtanh", ops::Activation::scaled_tanh, 1, 1},
    {"hardsigmoid", ops::Activation::hard_sigmoid, 0.2f, 0.5},
    {"elu", ops::Activation::elu, 1, kNone},
};

const Known& find_activation(OnnxNode& node, std::string name) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  for (const Known& known : kActivations)
    if (lower == known.name) return known;
  node.bad("the activation '", name, "' does not exist");
}

ValueId reordered(OnnxNode& node, ValueId x, std::vector<int64_t> perm) {
  ops::Transpose op;
  op.perm = std::move(perm);
  return x.valid() ? node.add(op, {x}) : x;
}

void import_recurrent(OnnxNode& node, ops::RecurrentKind kind) {
  ops::Recurrent op;
  op.kind = kind;
  const std::string direction = node.string_attribute("direction", "forward");
  const auto names = enum_names(ops::RecurrentDirection{});
  const auto found = std::find(names.begin(), names.end(), direction);
  if (found == names.end()) node.bad("direction is '", direction, "'");
  op.direction = ops::RecurrentDirection(found - names.begin());

  const size_t count = kind == ops::RecurrentKind::lstm ? 3 : kind == ops::RecurrentKind::gru ? 2 : 1;
  std::vector<std::string> standard{kind == ops::RecurrentKind::rnn ? "Tanh" : "Sigmoid", "Tanh", "Tanh"};
  standard.resize(count);
  std::vector<std::string> activations = node.strings_attribute("activations", standard);
  if (op.directions() == 2 && !node.has_attribute("activations"))
    activations.insert(activations.end(), standard.begin(), standard.end());
  if (activations.size() != count * size_t(op.directions()))
    node.bad(int64_t(activations.size()), " activations for ", op.directions(), " directions");
  const std::vector<double> alphas = node.floats_attribute("activation_alpha", {}),
                            betas = node.floats_attribute("activation_beta", {});
  for (const auto* given : {&alphas, &betas})
    if (!given->empty() && given->size() != activations.size())
      node.unsupported("activation_alpha or activation_beta with ", given->size(), " values for ", activations.size(),
                       " activations");
  ops::Activation* functions[3] = {&op.f, &op.g, &op.h};
  std::vector<double> alpha(3, 0.0), beta(3, 0.0);
  for (size_t i = 0; i < activations.size(); ++i) {
    const Known& known = find_activation(node, activations[i]);
    const double a = alphas.empty() ? known.alpha : alphas[i], b = betas.empty() ? known.beta : betas[i];
    if (i >= count && (*functions[i % count] != known.activation || alpha[i % count] != a || beta[i % count] != b))
      node.unsupported("directions with different activations");
    *functions[i % count] = known.activation;
    alpha[i % count] = a;
    beta[i % count] = b;
  }
  if (alpha != std::vector<double>(3, 0.0)) op.alpha = alpha;
  if (beta != std::vector<double>(3, 0.0)) op.beta = beta;
  op.clip = node.float_attribute("clip", 0);
  if (kind == ops::RecurrentKind::lstm) op.couple_input_forget = node.int_attribute("input_forget", 0) != 0;
  if (kind == ops::RecurrentKind::gru) op.linear_before_reset = node.int_attribute("linear_before_reset", 0) != 0;
  if (node.has_attribute("hidden_size") && node.type(2).rank() == 3 && node.type(2).shape[2].is_constant() &&
      node.type(2).shape[2].value() != node.int_attribute("hidden_size"))
    node.bad("hidden_size is ", node.int_attribute("hidden_size"), " but R is ", node.type(2));
  const bool batch_first = node.int_attribute("layout", 0) != 0;
  if (node.opset() < 7) node.ignore_attribute("output_sequence");  // outputs are wanted where they are named

  std::vector<ValueId> inputs;
  for (size_t i = 0; i < (kind == ops::RecurrentKind::lstm ? 8 : 6); ++i)
    inputs.push_back(i < 3 ? node.input(i) : node.optional_input(i));
  if (batch_first)
    for (size_t i : {0, 5, 6})
      if (i < inputs.size()) inputs[i] = reordered(node, inputs[i], {1, 0, 2});
  while (!inputs.back().valid()) inputs.pop_back();
  auto outputs = node.add_many(op, inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!node.wants_output(i)) continue;
    if (batch_first)
      outputs[i] =
          reordered(node, outputs[i], i == 0 ? std::vector<int64_t>{2, 0, 1, 3} : std::vector<int64_t>{1, 0, 2});
    node.set_output(i, outputs[i]);
  }
}

}  // namespace

void import_LSTM(OnnxNode& node) { import_recurrent(node, ops::RecurrentKind::lstm); }
void import_GRU(OnnxNode& node) { import_recurrent(node, ops::RecurrentKind::gru); }
void import_RNN(OnnxNode& node) { import_recurrent(node, ops::RecurrentKind::rnn); }

}  // namespace temper
