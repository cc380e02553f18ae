// SPDX-License-Identifier: Apache-2.0
// recurrent(x [T,B,I], w [D,G*H,I], r [D,G*H,H], b [D,2*G*H], lengths i32 [B], h0 [D,B,H], c0 [D,B,H], peepholes
// [D,3*H])
// -> y [T,D,B,H], last h [D,B,H], for lstm last c [D,B,H]: ONNX's LSTM (gates i,o,f,c), GRU (z,r,h) and RNN with D = 1
// or 2 directions. Inputs from b on may be absent. Past its length a sequence gives zeros and keeps its state; the
// reverse direction starts at a sequence's own end.
//
// `projected`: the products of the inputs are there already, x is [T,B,D*G*H], w absent, and b [D,G*H] is added to
// those of the state alone (passes/project_recurrent.cc). ONNX has no such form.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/op_kind.h"

namespace temper::ops {

enum class RecurrentKind { lstm, gru, rnn };
constexpr std::array<std::string_view, 3> enum_names(RecurrentKind) { return {"lstm", "gru", "rnn"}; }
enum class RecurrentDirection { forward, reverse, bidirectional };
constexpr std::array<std::string_view, 3> enum_names(RecurrentDirection) {
  return {"forward", "reverse", "bidirectional"};
}
enum class Activation {
  tanh,
  sigmoid,
  relu,
  softsign,
  softplus,
  affine,
  leaky_relu,
  thresholded_relu,
  scaled_tanh,
  hard_sigmoid,
  elu
};
constexpr std::array<std::string_view, 11> enum_names(Activation) {
  return {"tanh",       "sigmoid",          "relu",        "softsign",     "softplus", "affine",
          "leaky_relu", "thresholded_relu", "scaled_tanh", "hard_sigmoid", "elu"};
}

struct Recurrent {
  static constexpr std::string_view name = "recurrent";
  static constexpr OpKind op_kind = OpKind::recurrent;
  RecurrentKind kind = RecurrentKind::lstm;
  RecurrentDirection direction = RecurrentDirection::forward;
  // The functions of ONNX's equations: f for the gates, g for the candidate, h for the lstm's output. rnn has f alone.
  Activation f = Activation::sigmoid, g = Activation::tanh, h = Activation::tanh;
  std::vector<double> alpha, beta;   // of f, g, h; empty where none of them needs one
  double clip = 0;                   // > 0: arguments of f, g and h are kept within [-clip, clip]
  bool couple_input_forget = false;  // lstm: f = 1 - i
  bool linear_before_reset = false;  // gru
  bool projected = false;

  template <class Self, class F>
  static void fields(Self& op, F&& field) {
    field("kind", op.kind);
    field("direction", op.direction);
    field("f", op.f);
    field("g", op.g);
    field("h", op.h);
    field("alpha", op.alpha);
    field("beta", op.beta);
    field("clip", op.clip);
    field("couple_input_forget", op.couple_input_forget);
    field("linear_before_reset", op.linear_before_reset);
    field("projected", op.projected);
  }
  bool operator==(const Recurrent&) const = default;
  int64_t gates() const { return kind == RecurrentKind::lstm ? 4 : kind == RecurrentKind::gru ? 3 : 1; }
  int64_t directions() const { return direction == RecurrentDirection::bidirectional ? 2 : 1; }
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  double reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
};

}  // namespace temper::ops
