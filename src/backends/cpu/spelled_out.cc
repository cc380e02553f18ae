// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/spelled_out.h"

#include <algorithm>
#include <cmath>

namespace temper {

namespace {

// Reads the steps of a program one after another, past constants.
class StepReader {
 public:
  StepReader(const Program& program, size_t at) : program_(program), at_(at) {}
  size_t at() const { return at_; }
  int value() const { return program_.inputs + int(at_) - 1; }  // of the last step that was read

  bool read(Scalar op, int a, int b = -1, int c = -1) {
    while (at_ < program_.steps.size() && program_.steps[at_].op == Scalar::constant) ++at_;
    if (at_ == program_.steps.size() || program_.steps[at_].op != op) return false;
    const auto& args = program_.steps[at_].args;
    const bool same = arity_of(op) == 1 ? args[0] == a
                      : arity_of(op) == 2
                          ? (args[0] == a && args[1] == b) || (commutes(op) && args[0] == b && args[1] == a)
                          : args[0] == a && args[1] == b && args[2] == c;
    at_ += same;
    return same;
  }
  // The constant that the step combines `a` with; nothing for another step.
  std::optional<double> read_with_constant(Scalar op, int a) {
    while (at_ < program_.steps.size() && program_.steps[at_].op == Scalar::constant) ++at_;
    if (at_ == program_.steps.size()) return std::nullopt;
    for (const int other : {program_.steps[at_].args[1], program_.steps[at_].args[0]}) {
      if (other < program_.inputs || program_.steps[size_t(other - program_.inputs)].op != Scalar::constant) continue;
      if (read(op, a, other)) return program_.steps[size_t(other - program_.inputs)].number;
    }
    return std::nullopt;
  }
  // The factor of a step that multiplies or divides by a constant.
  std::optional<double> read_factor(int a) {
    if (const auto by = read_with_constant(Scalar::div, a)) return 1 / *by;
    return read_with_constant(Scalar::mul, a);
  }

 private:
  static bool commutes(Scalar op) { return op == Scalar::add || op == Scalar::mul || op == Scalar::min; }
  const Program& program_;
  size_t at_;
};

bool is_near(double a, double b) { return std::abs(a - b) < 1e-6; }

// x * clip(x / 6 + 1/2, 0, 1), or x * clip(x + 3, 0, 6) / 6
std::optional<SpelledOut> hard_swish(StepReader steps, int x) {
  const double slope = steps.read_factor(x).value_or(1);
  const auto offset = steps.read_with_constant(Scalar::add, slope == 1 ? x : steps.value());
  if (!offset || !steps.read(Scalar::relu, steps.value())) return std::nullopt;
  const auto top = steps.read_with_constant(Scalar::min, steps.value());
  if (!top || !steps.read(Scalar::mul, x, steps.value())) return std::nullopt;
  double factor = 1;
  if (!is_near(*top, 1)) factor = steps.read_factor(steps.value()).value_or(1);
  if (!is_near(*top * factor, 1) || !is_near(slope * factor, 1. / 6) || !is_near(*offset * factor, 0.5))
    return std::nullopt;
  return SpelledOut{SpelledOut::Kind::hard_swish, 0, steps.at()};
}

// x < 0 ? x * slope : x
std::optional<SpelledOut> leaky_relu(StepReader steps, int x) {
  const auto zero = steps.read_with_constant(Scalar::less, x);
  if (!zero || *zero != 0) return std::nullopt;
  const int negative = steps.value();
  const auto slope = steps.read_with_constant(Scalar::mul, x);
  if (!slope || !steps.read(Scalar::where, negative, steps.value(), x)) return std::nullopt;
  return SpelledOut{SpelledOut::Kind::leaky_relu, float(*slope), steps.at()};
}

// x / 2 * (erf(x / sqrt(2)) + 1), halved before or behind
std::optional<SpelledOut> gelu(StepReader steps, int x) {
  auto factor = steps.read_factor(x);
  const bool halved = factor && is_near(*factor, 0.5);
  const int outer = halved ? steps.value() : x;
  if (halved) factor = steps.read_factor(x);
  if (!factor || !is_near(*factor, std::sqrt(0.5)) || !steps.read(Scalar::erf, steps.value())) return std::nullopt;
  const auto one = steps.read_with_constant(Scalar::add, steps.value());
  if (!one || *one != 1 || !steps.read(Scalar::mul, outer, steps.value())) return std::nullopt;
  if (!halved) {
    const auto half = steps.read_factor(steps.value());
    if (!half || !is_near(*half, 0.5)) return std::nullopt;
  }
  return SpelledOut{SpelledOut::Kind::gelu, 0, steps.at()};
}

}  // namespace

std::optional<SpelledOut> spelled_out(const Program& program, size_t at, int x) {
  for (const auto form : {hard_swish, leaky_relu, gelu})
    if (const auto found = form({program, at}, x))
      return std::all_of(program.steps.begin() + int64_t(at), program.steps.begin() + int64_t(found->end),
                         [](const Step& step) { return step.dtype == DType::f32 || step.dtype == DType::boolean; })
                 ? found
                 : std::nullopt;
  return std::nullopt;
}

std::optional<Quantization> spelled_out_quantization(const Program& program, size_t at, int x) {
  StepReader steps(program, at);
  Quantization found{true, 1, 0, DType::i8, at};
  auto scale = steps.read_with_constant(Scalar::div, x);
  found.divides = scale.has_value();
  if (!scale) scale = steps.read_with_constant(Scalar::mul, x);
  if (!scale || !steps.read(Scalar::round, steps.value())) return std::nullopt;
  found.scale = float(*scale);
  const int rounded = steps.value();
  if (const auto zero = steps.read_with_constant(Scalar::add, rounded)) {
    if (std::abs(*zero) > 255 || *zero != std::nearbyint(*zero)) return std::nullopt;
    found.zero = int32_t(*zero);
  }
  for (size_t i = at; i < steps.at(); ++i)
    if (program.steps[i].dtype != DType::f32) return std::nullopt;
  if (!steps.read(Scalar::cast, steps.value())) return std::nullopt;
  found.end = steps.at();
  found.to = program.steps[found.end - 1].dtype;
  return found.to == DType::i8 || found.to == DType::u8 ? std::optional(found) : std::nullopt;
}

}  // namespace temper
