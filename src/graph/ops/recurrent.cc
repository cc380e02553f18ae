// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/recurrent.h"

#include <algorithm>
#include <cmath>

namespace temper::ops {

std::vector<TensorType> Recurrent::infer(const InferContext& context) const {
  context.expect_inputs(3, 8);
  context.expect_rank(0, 3, 3);
  context.expect_rank(2, 3, 3);
  if (projected == context.has(1))
    fail(ErrorKind::bad_file, "a recurrent net with ", projected ? "products and weights of its inputs" : "no weights");
  const TensorType &x = context.type(0), &r = context.type(2);
  if (!is_float(x.dtype)) fail(ErrorKind::bad_file, "a recurrent net on ", x);
  const Dim hidden = r.shape[2], wide = hidden * Dim(gates()), d(directions());
  const Shape state{d, x.shape[1], hidden};
  const Shape wanted[8] = {{x.shape[0], x.shape[1], projected ? d * wide : x.shape[2]},
                           {d, wide, x.shape[2]},
                           {d, wide, hidden},
                           {d, projected ? wide : wide * Dim(2)},
                           {x.shape[1]},
                           state,
                           state,
                           {d, hidden * Dim(3)}};
  for (size_t i = 0; i < context.size(); ++i) {
    if (!context.has(i)) continue;
    if (i == 4 ? context.type(i).dtype != DType::i32 : context.type(i).dtype != x.dtype)
      fail(ErrorKind::bad_file, "input ", i, " is ", context.type(i));
    context.expect_rank(i, int64_t(wanted[i].size()), int64_t(wanted[i].size()));
    for (size_t k = 0; k < wanted[i].size(); ++k) {
      const Dim &a = wanted[i][k], &b = context.type(i).shape[k];
      if (a.is_constant() && b.is_constant() && a != b)
        fail(ErrorKind::bad_file, "input ", i, " is ", context.type(i), ", expected the shape ", wanted[i]);
    }
  }
  if (kind != RecurrentKind::lstm && (context.has(6) || context.has(7)))
    fail(ErrorKind::bad_file, "only an lstm has a cell state");
  if ((!alpha.empty() && alpha.size() != 3) || (!beta.empty() && beta.size() != 3))
    fail(ErrorKind::bad_file, "alpha ", alpha, ", beta ", beta);
  std::vector<TensorType> types{{x.dtype, {x.shape[0], d, x.shape[1], hidden}}, {x.dtype, state}};
  if (kind == RecurrentKind::lstm) types.push_back({x.dtype, state});
  return types;
}

namespace {
double activate(Activation kind, double x, double alpha, double beta) {
  switch (kind) {
    case Activation::tanh: return std::tanh(x);
    case Activation::sigmoid: return 1 / (1 + std::exp(-x));
    case Activation::relu: return std::max(0.0, x);
    case Activation::softsign: return x / (1 + std::fabs(x));
    case Activation::softplus: return x > 30 ? x : std::log1p(std::exp(x));
    case Activation::affine: return alpha * x + beta;
    case Activation::leaky_relu: return x >= 0 ? x : alpha * x;
    case Activation::thresholded_relu: return x >= alpha ? x : 0;
    case Activation::scaled_tanh: return alpha * std::tanh(beta * x);
    case Activation::hard_sigmoid: return std::clamp(alpha * x + beta, 0.0, 1.0);
    case Activation::elu: return x >= 0 ? x : alpha * std::expm1(x);
  }
  return 0;
}
}  // namespace

std::vector<Tensor> Recurrent::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  auto doubles = [&](size_t i, int64_t count) {
    return i < inputs.size() && inputs[i].defined() ? inputs[i].to_doubles() : std::vector<double>(size_t(count), 0.0);
  };
  const Dims &xd = inputs[0].dims(), &rd = inputs[2].dims();
  const int64_t steps = xd[0], batch = xd[1], in = xd[2], hidden = rd[2], n = gates(), dirs = directions(),
                wide = n * hidden;
  const int64_t biases = (projected ? 1 : 2) * wide;
  const std::vector<double> x = doubles(0, 0), w = doubles(1, 0), r = doubles(2, 0), bias = doubles(3, dirs * biases),
                            peep = doubles(7, dirs * 3 * hidden);
  std::vector<double> state_h = doubles(5, dirs * batch * hidden), state_c = doubles(6, dirs * batch * hidden);
  std::vector<double> y(size_t(steps * dirs * batch * hidden), 0.0), gate(static_cast<size_t>(wide)),
      recur(static_cast<size_t>(wide)), next(static_cast<size_t>(hidden));
  std::vector<int64_t> lengths(size_t(batch), steps);
  if (inputs.size() > 4 && inputs[4].defined()) lengths = inputs[4].to_ints();
  auto apply = [&](int which, double value) {
    if (clip > 0) value = std::clamp(value, -clip, clip);
    return activate(which == 0   ? f
                    : which == 1 ? g
                                 : h,
                    value, alpha.empty() ? 0 : alpha[size_t(which)], beta.empty() ? 0 : beta[size_t(which)]);
  };
  for (int64_t d = 0; d < dirs; ++d) {
    const bool backwards = direction == RecurrentDirection::reverse || d == 1;
    const double *wp = w.data() + (projected ? 0 : d * wide * in), *rp = &r[size_t(d * wide * hidden)],
                 *bp = &bias[size_t(d * biases)], *back_bias = bp + biases - wide, *pp = &peep[size_t(d * 3 * hidden)];
    for (int64_t b = 0; b < batch; ++b) {
      if (lengths[size_t(b)] < 0 || lengths[size_t(b)] > steps)
        fail(ErrorKind::usage, "a sequence of length ", lengths[size_t(b)], " in ", steps, " steps");
      double *hp = &state_h[size_t((d * batch + b) * hidden)], *cp = &state_c[size_t((d * batch + b) * hidden)];
      for (int64_t s = 0; s < lengths[size_t(b)]; ++s) {
        const int64_t t = backwards ? lengths[size_t(b)] - 1 - s : s;
        const double* xp = &x[size_t((t * batch + b) * in)];
        for (int64_t j = 0; j < wide; ++j) {
          double sum = projected ? xp[d * wide + j] : bp[j], back = back_bias[j];
          if (!projected)
            for (int64_t i = 0; i < in; ++i) sum += wp[j * in + i] * xp[i];
          for (int64_t i = 0; i < hidden; ++i) back += rp[j * hidden + i] * hp[i];
          gate[size_t(j)] = sum;
          recur[size_t(j)] = back;
        }
        auto at = [&](int64_t k, int64_t j) { return gate[size_t(k * hidden + j)] + recur[size_t(k * hidden + j)]; };
        if (kind == RecurrentKind::lstm) {
          for (int64_t j = 0; j < hidden; ++j) {
            const double i = apply(0, at(0, j) + pp[j] * cp[j]);
            const double forget = couple_input_forget ? 1 - i : apply(0, at(2, j) + pp[2 * hidden + j] * cp[j]);
            const double cell = forget * cp[j] + i * apply(1, at(3, j));
            next[size_t(j)] = apply(0, at(1, j) + pp[hidden + j] * cell) * apply(2, cell);
            cp[j] = cell;
          }
        } else if (kind == RecurrentKind::gru) {
          std::vector<double> reset(static_cast<size_t>(hidden));
          for (int64_t j = 0; j < hidden; ++j) reset[size_t(j)] = apply(0, at(1, j));
          for (int64_t j = 0; j < hidden; ++j) {
            const int64_t row = 2 * hidden + j;
            double back = recur[size_t(row)] * reset[size_t(j)];
            if (!linear_before_reset) {
              back = back_bias[row];
              for (int64_t i = 0; i < hidden; ++i) back += rp[row * hidden + i] * reset[size_t(i)] * hp[i];
            }
            const double z = apply(0, at(0, j));
            next[size_t(j)] = (1 - z) * apply(1, gate[size_t(row)] + back) + z * hp[j];
          }
        } else {
          for (int64_t j = 0; j < hidden; ++j) next[size_t(j)] = apply(0, at(0, j));
        }
        std::copy(next.begin(), next.end(), hp);
        std::copy(next.begin(), next.end(), &y[size_t(((t * dirs + d) * batch + b) * hidden)]);
      }
    }
  }
  std::vector<Tensor> results;
  const std::vector<double>* values[3] = {&y, &state_h, &state_c};
  for (size_t i = 0; i < outputs.size(); ++i)
    results.push_back(Tensor::of<double>(outputs[i].dims(), *values[i]).converted(outputs[i].dtype));
  return results;
}

double Recurrent::reference_cost(std::span<const TensorType> inputs, std::span<const TensorType>) const {
  const Dims x = inputs[0].dims();  // each step in time reads all weights for each sample
  return double(x[0]) * double(x[1]) *
         ((projected ? 0 : double(element_count(inputs[1]))) + double(element_count(inputs[2])));
}

}  // namespace temper::ops
