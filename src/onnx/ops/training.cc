// SPDX-License-Identifier: Apache-2.0
// Imports the optimizers of ai.onnx.preview.training: one step for any number of tensors, by the formulas of ONNX's
// documentation.
#include "onnx/node.h"

namespace temper::training {

namespace {

// Inputs R, T, then `groups` groups of as many tensors; outputs are groups of tensors, too. `text` is the body of one
// tensor with inputs (r, t, x, g, state...) and the constants in `numbers` behind them, of the dtype of x.
void optimize(OnnxNode& node, size_t groups, size_t results, const std::string& text,
              const std::vector<double>& numbers) {
  if (node.input_count() < 2 + groups || (node.input_count() - 2) % groups != 0)
    node.bad(node.input_count(), " inputs; rate, count and ", groups, " for each tensor are needed");
  const size_t tensors = (node.input_count() - 2) / groups;
  if (node.output_count() != tensors * results) node.bad(node.output_count(), " outputs for ", tensors, " tensors");
  for (size_t k = 0; k < tensors; ++k) {
    const DType dtype = node.type(2 + k).dtype;
    if (!is_float(dtype)) node.bad("a tensor ", node.type(2 + k));
    std::vector<ValueId> inputs{node.cast(node.input(0), dtype), node.cast(node.input(1), dtype)};
    for (size_t g = 0; g < groups; ++g) inputs.push_back(node.input(2 + g * tensors + k));
    for (double number : numbers) inputs.push_back(node.scalar(dtype, number));
    const auto outputs = node.body(text, inputs);
    for (size_t r = 0; r < results; ++r) node.set_output(r * tensors + k, outputs[r]);
  }
}

}  // namespace

void import_Adagrad(OnnxNode& node) {
  optimize(node, 3, 2, R"((r, t, x, g, h, norm, decay, epsilon, one) => (x_new, h_new) {
    slowed = Mul(t, decay)  slower = Add(slowed, one)  rate = Div(r, slower)
    pull = Mul(norm, x)  step = Add(pull, g)
    square = Mul(step, step)  h_new = Add(h, square)
    root = Sqrt(h_new)  divisor = Add(root, epsilon)
    scaled = Mul(rate, step)  change = Div(scaled, divisor)  x_new = Sub(x, change)
  })",
           {node.float_attribute("norm_coefficient", 0), node.float_attribute("decay_factor", 0),
            node.float_attribute("epsilon", 0), 1});
}

void import_Adam(OnnxNode& node) {
  const double alpha = node.float_attribute("alpha", 0.9f), beta = node.float_attribute("beta", 0.999f);
  optimize(
      node, 4, 3,
      R"((r, t, x, g, v, h, norm, alpha, not_alpha, beta, not_beta, epsilon, kept, one, zero) => (x_new, v_new, h_new) {
    pull = Mul(norm, x)  step = Add(pull, g)
    old_v = Mul(alpha, v)  more_v = Mul(not_alpha, step)  v_new = Add(old_v, more_v)
    square = Mul(step, step)  old_h = Mul(beta, h)  more_h = Mul(not_beta, square)  h_new = Add(old_h, more_h)
    root = Sqrt(h_new)  divisor = Add(root, epsilon)
    alpha_t = Pow(alpha, t)  beta_t = Pow(beta, t)  rest_a = Sub(one, alpha_t)  rest_b = Sub(one, beta_t)
    root_b = Sqrt(rest_b)  raised = Mul(r, root_b)  corrected = Div(raised, rest_a)
    begun = Greater(t, zero)  rate = Where(begun, corrected, r)
    scaled = Mul(rate, v_new)  change = Div(scaled, divisor)  moved = Sub(x, change)  x_new = Mul(kept, moved)
  })",
      {node.float_attribute("norm_coefficient", 0), alpha, 1 - alpha, beta, 1 - beta,
       node.float_attribute("epsilon", 0), 1 - node.float_attribute("norm_coefficient_post", 0), 1, 0});
}

void import_Momentum(OnnxNode& node) {
  const std::string mode = node.string_attribute("mode", "");
  if (mode != "standard" && mode != "nesterov") node.bad("mode is '", mode, "'; it is standard or nesterov");
  const std::string follow =
      mode == "nesterov" ? "ahead = Mul(alpha, v_new)  way = Add(step, ahead)" : "way = Identity(v_new)";
  optimize(node, 3, 2,
           concat(R"((r, t, x, g, v, norm, alpha, beta, one, zero) => (x_new, v_new) {
    pull = Mul(norm, x)  step = Add(pull, g)
    begun = Greater(t, zero)  weight = Where(begun, beta, one)
    old = Mul(alpha, v)  more = Mul(weight, step)  v_new = Add(old, more)
    )",
                  follow, "  change = Mul(r, way)  x_new = Sub(x, change) }"),
           {node.float_attribute("norm_coefficient", 0), node.float_attribute("alpha", 0),
            node.float_attribute("beta", 0), 1, 0});
}

}  // namespace temper::training
