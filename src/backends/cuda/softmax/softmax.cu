// SPDX-License-Identifier: Apache-2.0
// Three passes over a row: the largest element, the sum of exponentials, the results. Generated before this text: LOG,
// and what rows.cuh needs.
#include "backends/cuda/rows/rows.cuh"

extern "C" __global__ void __launch_bounds__(256) softmax(const Input* in, Output* out, const RowParameters p) {
  using H = Held<Input>;
  const Row row = this_row(p);
  H peak = H(-__longlong_as_double(0x7ff0000000000000ll));
  each_element(p, row, [&](i64 at, i64) {
    const H v = hold(in[at]);
    peak = v > peak ? v : peak;  // NaN shows in the sum
  });
  peak = max_across_row(peak);
  typename SumOf<H>::type sum;
  each_element(p, row, [&](i64 at, i64) { sum.add(op::exp(hold(in[at]) - peak)); });
  const auto total = sum_across_row(sum).value();
  const H divisor = H(total), logarithm = H(::log(double(total)));
  each_element(p, row, [&](i64 at, i64 to) {
    const H shifted = hold(in[at]) - peak;
    out[to] = store_as<Output>(LOG ? shifted - logarithm : op::exp(shifted) / divisor);
  });
}
