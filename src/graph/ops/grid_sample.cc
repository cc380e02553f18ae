// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/grid_sample.h"

#include <algorithm>
#include <cmath>

namespace temper::ops {

std::vector<TensorType> GridSample::infer(const InferContext& context) const {
  context.expect_inputs(2, 2);
  context.expect_rank(0, 3, 8);
  const TensorType &x = context.type(0), &grid = context.type(1);
  context.expect_rank(1, x.rank(), x.rank());
  if (!is_float(grid.dtype)) fail(ErrorKind::bad_file, "the grid is ", grid);
  if (kind != SampleKind::nearest && !is_float(x.dtype)) fail(ErrorKind::unsupported, "interpolation of ", x);
  const Dim &batch = grid.shape[0], &last = grid.shape.back();
  if ((last.is_constant() && last.value() != x.rank() - 2) ||
      (batch.is_constant() && x.shape[0].is_constant() && batch != x.shape[0]))
    fail(ErrorKind::bad_file, "a grid ", grid, " for ", x);
  Shape shape{x.shape[0], x.shape[1]};
  shape.insert(shape.end(), grid.shape.begin() + 1, grid.shape.end() - 1);
  for (int64_t i = 2; i < x.rank(); ++i)
    if (x.shape[size_t(i)] == Dim(0)) fail(ErrorKind::bad_file, "an empty axis of ", x, " cannot be sampled");
  return {{x.dtype, shape}};
}

namespace {

double reflect(double at, double low, double high) {
  const double range = high - low;
  if (at >= low && at <= high) return at;
  if (!(range > 0)) return low;
  const double beyond = at < low ? low - at : at - high, turns = std::floor(beyond / range),
               rest = beyond - turns * range;
  const bool from_low = (at < low) == (std::fmod(turns, 2) == 0);
  return from_low ? low + rest : high - rest;
}

void cubic_weights(double t, double* weight) {
  constexpr double a = -0.75;
  auto outer = [&](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  auto inner = [&](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  weight[0] = outer(t + 1);
  weight[1] = inner(t);
  weight[2] = inner(1 - t);
  weight[3] = outer(2 - t);
}

}  // namespace

SampleTaps sample_taps(const GridSample& op, double place, int64_t elements) {
  const double size = double(elements), low = op.align_corners ? 0 : -0.5,
               high = op.align_corners ? size - 1 : size - 0.5;
  double at = op.align_corners ? (place + 1) / 2 * (size - 1) : ((place + 1) * size - 1) / 2;
  at = std::isnan(at) ? -1 : std::clamp(at, -1e15, 1e15);
  if (op.kind == SampleKind::nearest) at = std::nearbyint(at);
  if (at < low || at > high) {
    if (op.padding == SamplePadding::border) at = std::clamp(at, 0.0, size - 1);
    if (op.padding == SamplePadding::reflection) at = reflect(at, low, high);
  }
  SampleTaps taps;
  double first = op.kind == SampleKind::nearest ? at : std::floor(at);
  switch (op.kind) {
    case SampleKind::nearest: taps.weight[0] = 1; break;
    case SampleKind::linear:
      taps.count = 2;
      taps.weight[0] = 1 - (at - first), taps.weight[1] = at - first;
      break;
    case SampleKind::cubic:
      taps.count = 4;
      cubic_weights(at - first, taps.weight.data());
      first -= 1;
      break;
  }
  for (int t = 0; t < taps.count; ++t) {
    double tap = first + double(t);
    if (op.padding == SamplePadding::border) tap = std::clamp(tap, 0.0, size - 1);
    if (op.padding == SamplePadding::reflection) tap = std::clamp(std::trunc(reflect(tap, low, high)), 0.0, size - 1);
    taps.index[size_t(t)] = tap >= 0 && tap < size ? int64_t(tap) : -1;
  }
  return taps;
}

std::vector<Tensor> GridSample::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const Tensor& x = inputs[0];
  const std::vector<double> grid = inputs[1].to_doubles();
  Tensor out(x.dtype(), outputs[0].dims());
  if (out.count() == 0) return {out};
  const Dims &xd = x.dims(), strides = row_major_strides(xd);
  const size_t axes = xd.size() - 2;
  const int64_t points = out.count() / (xd[0] * xd[1]);
  visit_dtype(x.dtype(), [&]<class T>() {
    std::vector<SampleTaps> taps(axes);
    for (int64_t n = 0; n < xd[0]; ++n)
      for (int64_t p = 0; p < points; ++p) {
        Dims window;
        for (size_t k = 0; k < axes; ++k) {
          taps[k] = sample_taps(*this, grid[size_t(n * points + p) * axes + (axes - 1 - k)], xd[k + 2]);
          window.push_back(taps[k].count);
        }
        for (int64_t c = 0; c < xd[1]; ++c) {
          const T* from = x.data<T>() + n * strides[0] + c * strides[1];
          Wide<T> sum = 0;
          for_each_index(window, [&](const Dims& t, int64_t) {
            double factor = 1;
            int64_t offset = 0;
            for (size_t k = 0; k < axes; ++k) {
              const int64_t i = taps[k].index[size_t(t[k])];
              if (i < 0) return;
              offset += i * strides[k + 2];
              factor *= taps[k].weight[size_t(t[k])];
            }
            if constexpr (std::is_same_v<Wide<T>, double>) sum += factor * double(from[offset]);
            else sum += static_cast<Wide<T>>(from[offset]);  // nearest alone
          });
          out.data<T>()[(n * xd[1] + c) * points + p] = static_cast<T>(sum);
        }
      }
  });
  return {out};
}

OnnxForm GridSample::onnx_form() const {
  return {"GridSample",
          {{"mode", enum_names(kind)[size_t(kind)]},
           {"padding_mode", enum_names(padding)[size_t(padding)]},
           {"align_corners", align_corners}}};
}

}  // namespace temper::ops
