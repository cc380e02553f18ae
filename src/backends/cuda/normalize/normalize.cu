// SPDX-License-Identifier: Apache-2.0
// Mean, then the mean square of what is left, then the results. The mean is kept as a sum of two numbers, so that
// subtracting it loses nothing where it is large. Generated before this text: CENTER, and what rows.cuh needs. `number`
// is epsilon.
#include "backends/cuda/rows/rows.cuh"

extern "C" __global__ void __launch_bounds__(256) normalize(const Input* in, Output* out, const RowParameters p) {
  using H = Held<Input>;
  const Row row = this_row(p);
  H mean = 0, rest = 0;
  if (CENTER) {
    typename SumOf<H>::type sum;
    each_element(p, row, [&](i64 at, i64) { sum.add(hold(in[at])); });
    const double exact = double(sum_across_row(sum).value()) * p.inverse;
    mean = H(exact);
    rest = H(exact - double(mean));
  }
  typename SumOf<H>::type squares;
  each_element(p, row, [&](i64 at, i64) {
    const H v = (hold(in[at]) - mean) - rest;
    squares.add(v * v);
  });
  const H divisor = op::sqrt(H(double(sum_across_row(squares).value()) * p.inverse + p.number));
  each_element(p, row, [&](i64 at, i64 to) { out[to] = store_as<Output>(((hold(in[at]) - mean) - rest) / divisor); });
}
