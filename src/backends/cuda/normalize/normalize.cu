// SPDX-License-Identifier: Apache-2.0
// Mean, then the mean square of what is left, then the results; the row stays in registers where it fits. Of f32 the
// sums are compensated and the mean is kept as a sum of two numbers, so that subtracting it loses nothing where it is
// large; inputs of 16 bits need neither, and results of 16 bits no compensation. Generated before this text: CENTER,
// MAY_REFINE (inputs of f32, results of 16 bits), and what row_programs.cuh needs. `number`
// is epsilon.
//
// Memory: each element is read and written once. 768 of fp16 take 32 threads, three loads of 16 bytes each, all in
// flight at once, and those of the next row while this one is computed. With a scale and a shift of f32 in registers an
// SM has 16 such rows under way, 24 KB, as 4.2 TB/s take.
#include "backends/cuda/rows/row_walk.cuh"

constexpr bool REFINED = MAY_REFINE && CENTER && !EXACT;

// The mean, and what f32 has no room for of it.
struct Mean {
  Value value, rest;
};
DEVICE Mean mean_of(const RowParameters& p, const RowTensors& row, Part& part) {
  Sums<Value, EXACT> sums;
  each_value(p, row, part, [&](Value& v, int k) { sums.add(v, k); });
  const auto total = sum_across<THREADS, 0>(sums.all()).value();
  if constexpr (EXACT) {
    const double exact = double(total) * p.inverse;
    return {Value(exact), Value(exact - double(Value(exact)))};
  } else {
    return {total * p.inverse_f32, 0};
  }
}

// The sum of squares of what is left. Numbers of f32 may have a mean that is much larger than their spread: it is
// improved (REFINED) by the mean of what is left of them.
DEVICE auto squares_of(const RowParameters& p, const RowTensors& row, Part& part, Mean& mean) {
  constexpr int TURN = CENTER ? 1 : kAnyTurn;
  Sums<Value, EXACT> sums, squares;
  each_value(p, row, part, [&](Value& v, int k) {
    const Value left = EXACT ? (v - mean.value) - mean.rest : v - mean.value;
    if (REFINED) sums.add(left, k);
    squares.add_square(left, k);
  });
  if constexpr (!REFINED) return sum_across<THREADS, TURN>(squares.all()).value();
  else {
    struct Both {
      Value sum, squares;
    };
    const Both all = across_threads<THREADS, TURN>(
        Both{sums.all().value(), squares.all().value()},
        [](const Both& a, const Both& b) { return Both{a.sum + b.sum, a.squares + b.squares}; });
    mean.rest = all.sum * p.inverse_f32;
    return all.squares - all.sum * mean.rest;
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK, LEAST) normalize(PARAMETERS const RowParameters p) {
  each_row(p, ROW_TENSORS, [&](Part& part, const RowTensors& row) {
    Mean mean = CENTER ? mean_of(p, row, part) : Mean{0, 0};
    const auto total = squares_of(p, row, part, mean);
    if constexpr (EXACT) {
      const Value divisor = op::sqrt(Value(double(total) * p.inverse + p.number));
      write_part(p, row, part, [&](Value v) { return ((v - mean.value) - mean.rest) / divisor; });
    } else {
      const Value factor = reciprocal_root_fast(__fmaf_rn(total, p.inverse_f32, p.number_f32));
      write_part(p, row, part,
                 [&](Value v) { return (REFINED ? (v - mean.value) - mean.rest : v - mean.value) * factor; });
    }
  });
}
