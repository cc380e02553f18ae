// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/support/half_steps.h"

#include <cmath>

#include "base/concat.h"

namespace temper::cuda {

const Step* step_of(const Program& program, int value, Scalar op) {
  const Step* step = value >= program.inputs ? &program.steps[size_t(value - program.inputs)] : nullptr;
  return step && step->op == op && step->dtype == DType::f32 ? step : nullptr;
}

namespace {

// Whether a result is off by the same part as argument `a`, or by less.
bool keeps_relative_error(Scalar op, int a) {
  switch (op) {
    case Scalar::mul:
    case Scalar::div:
    case Scalar::min:
    case Scalar::max:
    case Scalar::neg:
    case Scalar::abs:
    case Scalar::relu:
    case Scalar::reciprocal: return true;
    case Scalar::where: return a > 0;
    default: return false;
  }
}

bool is_number(const Program& program, int value, double number) {
  const Step* step = step_of(program, value, Scalar::constant);
  return step && std::fabs(step->number - number) < 1e-6;
}

// Value `v` at x = `at`; nothing where it is no polynomial of x alone.
std::optional<double> polynomial_at(const Program& program, int v, int x, double at, int depth = 8) {
  if (v == x) return at;
  if (v < program.inputs || depth == 0) return std::nullopt;
  const Step& step = program.steps[size_t(v - program.inputs)];
  if (step.dtype != DType::f32) return std::nullopt;
  if (step.op == Scalar::constant) return step.number;
  if (step.op != Scalar::add && step.op != Scalar::mul) return std::nullopt;
  const auto a = polynomial_at(program, step.args[0], x, at, depth - 1);
  const auto b = polynomial_at(program, step.args[1], x, at, depth - 1);
  if (!a || !b) return std::nullopt;
  return step.op == Scalar::add ? *a + *b : *a * *b;
}

// Whether `v` is sqrt(2/pi) (x + 0.044715 x^3). Two polynomials of so few steps that agree in so many places are one.
bool is_argument_of_tanh(const Program& program, int v, int x) {
  for (const double at : {-4.0, -2.5, -1.0, -0.25, 0.5, 1.5, 2.0, 3.0, 5.0}) {
    const double want = std::sqrt(2 / M_PI) * (at + 0.044715 * at * at * at);
    const auto got = polynomial_at(program, v, x, at);
    if (!got || std::fabs(*got - want) > 1e-5 * std::fabs(want)) return false;
  }
  return true;
}

// mul(mul(x, 0.5), add(erf(mul(x, sqrt(1/2))), 1)); with tanh likewise.
std::optional<std::string> gelu_text(const Program& program, const Step& step, std::string_view half) {
  for (const int first : {0, 1}) {
    const Step* part = step_of(program, step.args[size_t(first)], Scalar::mul);
    const Step* gate = step_of(program, step.args[size_t(1 - first)], Scalar::add);
    if (!part || !gate || !is_number(program, part->args[1], 0.5) || !is_number(program, gate->args[1], 1)) continue;
    const int x = part->args[0];
    if (const Step* erf = step_of(program, gate->args[0], Scalar::erf)) {
      const Step* scaled = step_of(program, erf->args[0], Scalar::mul);
      if (scaled && scaled->args[0] == x && is_number(program, scaled->args[1], std::sqrt(0.5)))
        return concat("op::gelu_for<", half, ">(v", x, ')');
    }
    if (const Step* tanh = step_of(program, gate->args[0], Scalar::tanh))
      if (is_argument_of_tanh(program, tanh->args[0], x)) return concat("op::gelu_tanh_for<", half, ">(v", x, ')');
  }
  return std::nullopt;
}

}  // namespace

// Whether an error of argument `a` of this step grows by a constant factor of at most 2^12: f32's of 2e-7 then stays
// below a thousandth.
static bool keeps_error_small(const Program& program, const Step& step, int a) {
  const auto factor = [&](int arg) {
    const Step* constant = step_of(program, step.args[size_t(arg)], Scalar::constant);
    return constant ? std::fabs(constant->number) : std::nan("");
  };
  switch (step.op) {
    case Scalar::round:
    case Scalar::relu: return true;
    case Scalar::mul: return factor(1 - a) <= 0x1p12;
    case Scalar::div: return a == 0 && factor(1) >= 0x1p-12;
    case Scalar::add: return step_of(program, step.args[size_t(a)], Scalar::round) && factor(1 - a) <= 255;
    default: return false;
  }
}

std::vector<DType> wanted_digits(const Program& program, std::span<const DType> inputs) {
  const size_t values = size_t(program.inputs) + program.steps.size();
  std::vector<DType> out(values, DType::f32);
  std::vector<bool> used(values, false);
  if (!program.steps.empty()) used.back() = true;  // the result
  for (size_t v = 0; v < values; ++v)
    if (const DType dtype = program.dtype_of_value(int(v), inputs); is_half(dtype)) out[v] = dtype;
  for (size_t s = program.steps.size(); s-- > 0;) {
    const Step& step = program.steps[s];
    const size_t v = size_t(program.inputs) + s;
    for (int a = 0; a < arity_of(step.op); ++a) {
      const size_t from = size_t(step.args[size_t(a)]);
      if (program.dtype_of_value(int(from), inputs) != DType::f32) continue;
      DType wants = DType::f32;
      if (step.op == Scalar::cast && is_half(step.dtype)) wants = step.dtype;
      else if (step.op == Scalar::cast && step.dtype == DType::f8e4m3fn) wants = DType::f16;
      else if (step.op == Scalar::cast && (step.dtype == DType::i8 || step.dtype == DType::u8) &&
               (step_of(program, int(from), Scalar::round) || step_of(program, int(from), Scalar::add)))
        wants = DType::i8;
      else if (step.dtype == DType::f32 && out[v] == DType::i8)
        wants = keeps_error_small(program, step, a) ? DType::i8 : DType::f32;
      else if (step.dtype == DType::f32 && keeps_relative_error(step.op, a)) wants = out[v];
      out[from] = !used[from] || out[from] == wants ? wants : DType::f32;
      used[from] = true;
    }
  }
  return out;
}

std::optional<std::string> half_text(const Program& program, size_t step, std::span<const DType> digits) {
  const Step& s = program.steps[step];
  const DType dtype = digits[size_t(program.inputs) + step];
  if (dtype == DType::i8 && s.dtype == DType::f32 && s.op == Scalar::mul) {
    const auto text = gelu_text(program, s, "i8");
    return text && text->starts_with("op::gelu_for") ? text : std::nullopt;  // there is no other of them
  }
  if (!is_half(dtype)) return std::nullopt;
  const std::string_view half = name_of(dtype);
  switch (s.op) {
    case Scalar::exp:
    case Scalar::sigmoid:
    case Scalar::tanh:
    case Scalar::erf: return concat("op::", name_of(s.op), "_for<", half, ">(v", s.args[0], ')');
    case Scalar::mul: return s.dtype == DType::f32 ? gelu_text(program, s, half) : std::nullopt;
    case Scalar::div: {  // by a constant: a product with its reciprocal is two roundings of f32 off
      const Step* divisor = step_of(program, s.args[1], Scalar::constant);
      const double size = divisor ? std::fabs(divisor->number) : 0;
      if (s.dtype != DType::f32 || !(size > 0x1p-100 && size < 0x1p100)) return std::nullopt;
      return concat('v', s.args[0], " * (1.0f / v", s.args[1], ')');
    }
    default: return std::nullopt;
  }
}

}  // namespace temper::cuda
