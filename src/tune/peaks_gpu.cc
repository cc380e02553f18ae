// SPDX-License-Identifier: Apache-2.0
// A GPU's ceilings: the quickest that any of its tactics multiplies large matrices, and copies memory.
#include <algorithm>

#include "base/half.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "tune/peaks.h"
#include "tune/tuner.h"

namespace temper {

namespace {

Port port(DType dtype, Dims dims) {
  Port port;
  port.type = {dtype, Shape(dims.begin(), dims.end())};
  return port;
}

// The least time of all that the device has for the problem; 0 where it has nothing.
double least_ms(const Problem& problem, const Device& device, Tuner& tuner) {
  double least = 0;
  for (const Tactic* tactic : find_backend(device.backend).tactics()) {
    if (tactic->last_resort || !tactic->supports(problem, device).yes()) continue;
    for (const Config& config : tactic->configs(problem, device))
      if (const double ms = tuner.time(problem, *tactic, config, 1).ms; ms > 0 && (least == 0 || ms < least))
        least = ms;
  }
  return least;
}

double product_rate(DType dtype, int64_t size, const Device& device, Tuner& tuner) {
  const DType out = dtype == DType::i8 ? DType::i32 : DType::f32;
  ops::MatMul matmul;
  matmul.transpose_b = true;  // what is summed lies side by side, as in packed weights
  if (is_half(dtype)) matmul.epilogue.push({Scalar::cast, dtype, {0, -1, -1}});
  Problem problem;
  problem.op = matmul;
  problem.inputs = {port(dtype, {size, size}), port(dtype, {size, size})};
  problem.outputs = {port(matmul.epilogue.is_identity() ? out : dtype, {size, size})};
  const double ms = least_ms(problem, device, tuner), operations = 2.0 * double(size) * double(size) * double(size);
  return ms > 0 ? operations / (ms / 1e3) : 0;
}

}  // namespace

Peaks measure_gpu_peaks(const Device& device) {
  TimingCache cache;
  Tuner tuner(device, cache);
  Peaks peaks;
  // Several times what the caches of a GPU hold; read and written.
  const int64_t elements = int64_t(256) << 20;
  Problem copy;
  ops::Pointwise neg;
  neg.program.push({Scalar::neg, DType::f32, {0, -1, -1}});
  copy.op = neg;
  copy.inputs = {port(DType::f32, {elements})};
  copy.outputs = {port(DType::f32, {elements})};
  if (const double ms = least_ms(copy, device, tuner); ms > 0) peaks.bytes_per_s = 8.0 * double(elements) / (ms / 1e3);
  peaks.f32_per_s = product_rate(DType::f32, 4096, device, tuner);
  peaks.f16_per_s = product_rate(DType::f16, 8192, device, tuner);
  peaks.bf16_per_s = product_rate(DType::bf16, 8192, device, tuner);
  peaks.i8_per_s = product_rate(DType::i8, 8192, device, tuner);
  return peaks;
}

}  // namespace temper
