// SPDX-License-Identifier: Apache-2.0
// The largest element of a row, the sum of exponentials, the results; the row stays in registers where it fits.
// Generated before this text: LOG; EXACT, which is false where the results have 16 bits; and what row_programs.cuh
// needs.
//
// Memory: each element is read and written once. 128 of fp16 take 8 threads with two loads of 16 bytes each.
#include "backends/cuda/rows/row_walk.cuh"

// e^(v - peak), in two instructions where few digits are wanted. The rounding of peak * log2 e is the same factor in
// all elements of a row.
DEVICE Value exponential(Value v, Value peak) {
  if constexpr (EXACT) return op::exp(v - peak);
  else return exp2_flushed(__fmaf_rn(v, op::kLog2E, -peak * op::kLog2E));
}

// Of numbers; NaN shows in the sum.
DEVICE Value larger(Value a, Value b) {
  if constexpr (is_same<Value, float>) return ::fmaxf(a, b);
  else return a > b ? a : b;
}

extern "C" __global__ void __launch_bounds__(BLOCK, LEAST) softmax(PARAMETERS const RowParameters p) {
  each_row(p, ROW_TENSORS, [&](Part& part, const RowTensors& row) {
    constexpr int WAYS = 4;  // which do not wait for each other
    Value peaks[WAYS];
#pragma unroll
    for (int i = 0; i < WAYS; ++i) peaks[i] = Value(-__longlong_as_double(0x7ff0000000000000ll));
    each_value(p, row, part, [&](Value& v, int k) { peaks[k % WAYS] = larger(v, peaks[k % WAYS]); });
    const Value peak = max_across<THREADS, 0>(larger(larger(peaks[0], peaks[1]), larger(peaks[2], peaks[3])));
    Sums<Value, EXACT> sums;
    constexpr bool KEEP = HELD && !LOG;  // the exponentials, in the place of the values
    each_value(p, row, part, [&](Value& v, int k) {
      const Value e = exponential(v, peak);
      sums.add(e, k);
      if (KEEP) v = e;
    });
    const auto total = sum_across<THREADS, 1>(sums.all()).value();
    if constexpr (LOG) {
      const Value logarithm = Value(::log(double(total)));
      write_part(p, row, part, [&](Value v) { return (v - peak) - logarithm; });
    } else if constexpr (EXACT) {
      const Value divisor = Value(total);
      write_part(p, row, part, [&](Value v) { return (KEEP ? v : exponential(v, peak)) / divisor; });
    } else {
      const Value factor = 1 / Value(total);
      write_part(p, row, part, [&](Value v) { return (KEEP ? v : exponential(v, peak)) * factor; });
    }
  });
}
