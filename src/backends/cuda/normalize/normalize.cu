// SPDX-License-Identifier: Apache-2.0
// Mean, then the mean square of what is left, then the results; the row stays in registers where it fits. Of f32 the
// sums are compensated and the mean is kept as a sum of two numbers, so that subtracting it loses nothing where it is
// large; what has 16 bits needs neither. Generated before this text: CENTER, and what row_programs.cuh needs. `number`
// is epsilon.
//
// Memory: each element is read and written once. 768 of fp16 take 32 threads, three loads of 16 bytes each, all in
// flight at once; with 40 to 64 registers an SM has 32 to 48 such rows at work, 48 to 72 KB, where 4.2 TB/s take 25 KB.
#include "backends/cuda/rows/row_programs.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK) normalize(PARAMETERS const RowParameters p) {
  using Sum = SumOf<Value, EXACT>::type;
  i64 at[OPERANDS];
  Part part = this_part(p, at);
  const RowTensors row = ROW_TENSORS;
  hold_part(p, row, part);
  Value mean = 0, rest = 0;
  if (CENTER) {
    Sum sum;
    each_value(p, row, part, [&](Value& v) { sum.add(v); });
    const auto total = sum_across<THREADS>(sum).value();
    if constexpr (EXACT) {
      const double exact = double(total) * p.inverse;
      mean = Value(exact);
      rest = Value(exact - double(mean));
    } else {
      mean = total * Value(p.inverse);
    }
  }
  Sum squares;
  each_value(p, row, part, [&](Value& v) {
    const Value d = EXACT ? (v - mean) - rest : v - mean;
    squares.add(d * d);
  });
  const auto total = sum_across<THREADS>(squares).value();
  if constexpr (EXACT) {
    const Value divisor = op::sqrt(Value(double(total) * p.inverse + p.number));
    write_part(p, row, part, [&](Value v) { return ((v - mean) - rest) / divisor; });
  } else {
    const Value factor = 1 / op::sqrt(total * Value(p.inverse) + Value(p.number));
    write_part(p, row, part, [&](Value v) { return (v - mean) * factor; });
  }
}
