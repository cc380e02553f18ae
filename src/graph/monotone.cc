// SPDX-License-Identifier: Apache-2.0
#include "graph/monotone.h"

#include <algorithm>
#include <cmath>

namespace temper {

namespace {

// The facts known of a value of the program.
struct Known {
  enum class Kind { rises, finite, nothing } kind = Kind::nothing;  // with input 0; a constant without infinity and NaN
  bool positive = false;                                            // of a constant: all of it
};

Known constant(std::span<const double> numbers) {
  if (!std::all_of(numbers.begin(), numbers.end(), [](double x) { return std::isfinite(x); })) return {};
  return {Known::Kind::finite, std::all_of(numbers.begin(), numbers.end(), [](double x) { return x > 0; })};
}

}  // namespace

bool never_decreases(const Program& program, DType accumulator, std::span<const Tensor* const> others) {
  std::vector<Known> known{{Known::Kind::rises, false}};
  std::vector<DType> dtypes{accumulator};
  for (const Tensor* other : others) {
    known.push_back(other ? constant(other->to_doubles()) : Known{});
    dtypes.push_back(other ? other->dtype() : DType::f32);
  }
  if (int(known.size()) != program.inputs) return false;
  for (const Step& step : program.steps) {
    const auto arg = [&](int a) { return known[size_t(step.args[size_t(a)])]; };
    const auto rises = [&](int a) { return arg(a).kind == Known::Kind::rises; };
    const auto finite = [&](int a) { return arg(a).kind == Known::Kind::finite; };
    const DType from = step.op == Scalar::constant ? step.dtype : dtypes[size_t(step.args[0])];
    // Sums of integers wrap around.
    const bool computes = is_float(step.dtype);
    Known result;
    switch (step.op) {
      case Scalar::constant: result = constant(std::span(&step.number, 1)); break;
      case Scalar::cast:
        if (finite(0)) {  // to a wider type, where it stays what it is
          if (is_float(from) && is_float(step.dtype) && size_of(step.dtype) > size_of(from)) result = arg(0);
          break;
        }
        // From integers to narrower ones it wraps; NaN becomes a number, which only integer sums cannot hold.
        if (rises(0) && (is_float(step.dtype) || (is_float(from) && !is_float(accumulator)) || step.dtype == from))
          result = arg(0);
        break;
      case Scalar::relu:
      case Scalar::round:
      case Scalar::floor:
      case Scalar::ceil:
        if (rises(0) && computes) result = arg(0);
        break;
      case Scalar::add:
        if (computes && ((rises(0) && finite(1)) || (finite(0) && rises(1)))) result.kind = Known::Kind::rises;
        break;
      case Scalar::sub:
        if (computes && rises(0) && finite(1)) result.kind = Known::Kind::rises;
        break;
      case Scalar::mul:
        if (computes && ((rises(0) && finite(1) && arg(1).positive) || (finite(0) && arg(0).positive && rises(1))))
          result.kind = Known::Kind::rises;
        break;
      case Scalar::div:
        if (computes && rises(0) && finite(1) && arg(1).positive) result.kind = Known::Kind::rises;
        break;
      case Scalar::max:
      case Scalar::min:
        if ((rises(0) && finite(1)) || (finite(0) && rises(1))) result.kind = Known::Kind::rises;
        break;
      case Scalar::fma:
        if (computes && finite(2) &&
            ((rises(0) && finite(1) && arg(1).positive) || (finite(0) && arg(0).positive && rises(1))))
          result.kind = Known::Kind::rises;
        break;
      default: break;
    }
    known.push_back(result);
    dtypes.push_back(step.dtype);
  }
  return known[size_t(program.result())].kind == Known::Kind::rises;
}

}  // namespace temper
