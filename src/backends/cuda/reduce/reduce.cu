// SPDX-License-Identifier: Apache-2.0
// Generated before this text (reduce.cc): KIND, the number of the kind in ops::ReduceKind, Value (the type of what is
// reduced), prologue() (from an element of the input to a value), epilogue() (from a result to the output), and what
// rows.cuh needs.
#include "backends/cuda/rows/rows.cuh"

constexpr int kSum = 0, kMean = 1, kMax = 2, kMin = 3, kProd = 4, kL1 = 5, kL2 = 6, kLogSum = 7, kLogSumExp = 8,
              kSumSquare = 9;

template <class T>
struct Wider {
  using type = i64;
};
template <>
struct Wider<u64> {
  using type = u64;
};
template <>
struct Wider<float> {
  using type = float;
};
template <>
struct Wider<double> {
  using type = double;
};
using H = Held<Value>;
using W = typename Wider<H>::type;

// The first value of a maximum or minimum.
template <class T>
DEVICE T lowest() {
  if constexpr (is_float<T>) return T(-__longlong_as_double(0x7ff0000000000000ll));
  else if constexpr (sizeof(T) == 1 && !is_signed<T>) return T(0);
  else return is_signed<T> ? T(u64(1) << (sizeof(T) * 8 - 1)) : T(0);
}
template <class T>
DEVICE T highest() {
  if constexpr (is_float<T>) return T(__longlong_as_double(0x7ff0000000000000ll));
  else return T(~lowest<T>());
}
template <>
__device__ __forceinline__ bool lowest<bool>() {
  return false;
}
template <>
__device__ __forceinline__ bool highest<bool>() {
  return true;
}

// A result computed in double or in 64-bit integers, as values are held.
template <class T>
DEVICE H finished(T x) {
  return H(x);
}

extern "C" __global__ void __launch_bounds__(256) reduce(const Input* in, Output* out, const RowParameters p) {
  const Row row = this_row(p);
  H result;
  if constexpr (KIND == kMax || KIND == kMin) {
    W r = KIND == kMax ? W(lowest<H>()) : W(highest<H>());
    each_element(p, row, [&](i64 at, i64) {
      const W v = W(prologue(hold(in[at])));
      r = KIND == kMax ? op::max(r, v) : op::min(r, v);
    });
    r = across_row(r, [](W a, W b) { return KIND == kMax ? op::max(a, b) : op::min(a, b); });
    result = H(r);
  } else if constexpr (KIND == kProd) {
    using P = typename Wider<H>::type;
    using Wide = decltype([] {
      if constexpr (is_float<P>) return double();
      else return P();
    }());
    Wide r = 1;
    each_element(p, row, [&](i64 at, i64) { r = op::mul(r, Wide(prologue(hold(in[at])))); });
    r = across_row(r, [](Wide a, Wide b) { return op::mul(a, b); });
    result = finished(r);
  } else if constexpr (KIND == kLogSumExp) {
    using F = decltype([] {
      if constexpr (is_float<H> && sizeof(H) == 4) return float();
      else return double();
    }());
    const F infinity = F(__longlong_as_double(0x7ff0000000000000ll));
    F peak = -infinity;
    each_element(p, row, [&](i64 at, i64) {
      const F v = F(prologue(hold(in[at])));
      peak = v > peak ? v : peak;  // NaN shows in the sum
    });
    peak = max_across_row(peak);
    typename SumOf<F>::type sum;
    if (op::abs(peak) != infinity)
      each_element(p, row, [&](i64 at, i64) { sum.add(op::exp(F(prologue(hold(in[at]))) - peak)); });
    sum = sum_across_row(sum);
    const double r = op::abs(peak) == infinity ? double(peak) : double(peak) + ::log(double(sum.value()));
    if constexpr (is_float<H>) result = finished(r);
    else result = finished(i64(r));
  } else {
    typename SumOf<W>::type sum;
    each_element(p, row, [&](i64 at, i64) {
      const W v = W(prologue(hold(in[at])));
      sum.add(KIND == kL1 ? (v < 0 ? op::neg(v) : v) : KIND == kL2 || KIND == kSumSquare ? op::mul(v, v) : v);
    });
    sum = sum_across_row(sum);
    const auto total = sum.value();
    if constexpr (KIND == kMean) {
      if constexpr (is_float<W>) result = finished(total / double(p.n));
      else result = finished(p.n ? total / W(p.n) : total);
    } else if constexpr (KIND == kL2 || KIND == kLogSum) {
      const double r = KIND == kL2 ? ::sqrt(double(total)) : ::log(double(total));
      if constexpr (is_float<W>) result = finished(r);
      else result = finished(W(r));
    } else {
      result = finished(total);
    }
  }
  if (row.active && row.lane == 0) out[row.out] = store_as<Output>(epilogue(result));
}
