// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/untranspose.h"

namespace temper::ops {

namespace {

// floor(dim * scale). The scale is a binary fraction, so the product is exact for symbols too.
Dim scaled(const Dim& dim, double scale) {
  if (!(scale > 0) || !(scale < 1e9)) fail(ErrorKind::bad_file, "a resize by the factor ", scale);
  if (dim.is_constant()) {
    const double size = std::floor(double(dim.value()) * scale);
    if (!(size < 1e15)) fail(ErrorKind::bad_file, "a resize of ", dim, " by the factor ", scale);
    return Dim(int64_t(size));
  }
  int exponent = 0;
  double mantissa = std::frexp(scale, &exponent);
  int64_t divisor = 1;
  for (; exponent > 0; --exponent) mantissa *= 2;
  for (; exponent < 0; ++exponent) {
    if (divisor >= int64_t(1) << 40)
      fail(ErrorKind::unsupported, "a resize of '", dim, "' by the factor ", scale,
           "; give a fixed shape with --shapes");
    divisor *= 2;
  }
  for (; mantissa != std::floor(mantissa); mantissa *= 2) {
    if (divisor >= int64_t(1) << 40)
      fail(ErrorKind::unsupported, "a resize of '", dim, "' by the factor ", scale,
           "; give a fixed shape with --shapes");
    divisor *= 2;
  }
  return floor_div(dim * Dim(int64_t(mantissa)), Dim(divisor));
}

double cubic_weight(double distance, double a) {
  const double x = std::fabs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

}  // namespace

bool Resize::absorb(const InferContext& context) {
  const TensorType& x = context.type(0);
  const size_t rank = x.shape.size();
  std::vector<int64_t> which = axes;
  if (which.empty())
    for (size_t i = 0; i < rank; ++i) which.push_back(int64_t(i));
  std::vector<double> region;
  if (coordinate == ResizeCoordinate::tf_crop_and_resize) {
    if (!context.constant(1)) return false;
    const std::vector<double> given = context.constant(1)->to_doubles();
    if (given.size() != 2 * which.size())
      fail(ErrorKind::bad_file, "roi has ", given.size(), " values for ", which.size(), " axes");
    region.assign(2 * rank, 0);
    std::fill(region.begin() + int64_t(rank), region.end(), 1);
    for (size_t i = 0; i < which.size(); ++i) {
      region[size_t(which[i])] = given[i];
      region[rank + size_t(which[i])] = given[i + which.size()];
    }
  }
  Resize result = *this;
  result.sizes = x.shape;
  result.scales.clear();
  result.roi = region;
  result.axes.clear();
  result.policy = ResizePolicy::stretch;
  if (context.has(2)) {
    if (!context.constant(2)) return false;
    const std::vector<double> given = context.constant(2)->to_doubles();
    if (given.size() != which.size()) fail(ErrorKind::bad_file, given.size(), " scales for ", which.size(), " axes");
    result.scales.assign(rank, 1);
    for (size_t i = 0; i < which.size(); ++i) {
      result.scales[size_t(which[i])] = given[i];
      result.sizes[size_t(which[i])] = scaled(x.shape[size_t(which[i])], given[i]);
    }
  } else {
    const Contents* given = context.contents(3);
    if (!given) return false;
    if (given->size() != which.size()) fail(ErrorKind::bad_file, given->size(), " sizes for ", which.size(), " axes");
    for (size_t i = 0; i < which.size(); ++i) result.sizes[size_t(which[i])] = (*given)[i];
    if (policy != ResizePolicy::stretch) {
      // The smallest (largest) of the ratios is the scale of all axes; sizes round half up.
      size_t best = size_t(which[0]);
      for (int64_t axis : which) {
        const Dim &in = x.shape[size_t(axis)], &out = result.sizes[size_t(axis)];
        if (!in.is_constant() || !out.is_constant()) return false;
        if (in.value() < 1) fail(ErrorKind::bad_file, "an empty axis cannot be resized");
        const double ratio = double(out.value()) / double(in.value());
        const double so_far = double(result.sizes[best].value()) / double(x.shape[best].value());
        if (policy == ResizePolicy::not_larger ? ratio < so_far : ratio > so_far) best = size_t(axis);
      }
      const double out = double(result.sizes[best].value()), in = double(x.shape[best].value());
      result.scales.assign(rank, 1);
      for (int64_t axis : which) {
        result.scales[size_t(axis)] = out / in;
        result.sizes[size_t(axis)] = int64_t(std::floor(out * double(x.shape[size_t(axis)].value()) / in + 0.5));
      }
    }
  }
  *this = result;
  return true;
}

std::vector<TensorType> Resize::infer(const InferContext& context) const {
  context.expect_inputs(1, 4);
  TensorType out = context.type(0);
  if (antialias && kind == ResizeKind::nearest) fail(ErrorKind::bad_file, "antialias with mode nearest");
  if (context.size() > 1) {
    for (int64_t i = 0; i < out.rank(); ++i)
      if (axes.empty() || std::count(axes.begin(), axes.end(), i)) out.shape[size_t(i)] = context.unknown(0, i);
    return {out};
  }
  const size_t rank = out.shape.size();
  if (sizes.size() != rank || (!scales.empty() && scales.size() != rank) || (!roi.empty() && roi.size() != 2 * rank))
    fail(ErrorKind::bad_file, "sizes ", sizes, ", scales ", scales, " and roi ", roi, " do not fit ", out);
  for (double scale : scales)
    if (!(scale > 0)) fail(ErrorKind::bad_file, "a resize by ", scales);
  if (coordinate == ResizeCoordinate::tf_crop_and_resize && roi.empty())
    fail(ErrorKind::bad_file, "tf_crop_and_resize without roi");
  for (size_t i = 0; i < rank; ++i)
    if (sizes[i].is_constant() && (sizes[i].value() < 0 || (sizes[i].value() > 0 && out.shape[i] == Dim(0))))
      fail(ErrorKind::bad_file, "a tensor ", out, " cannot be resized to ", sizes);
  out.shape = sizes;
  return {out};
}

bool Resize::is_identity_along(size_t axis, int64_t in, int64_t out) const {
  return in == out && (scales.empty() || std::fabs(scales[axis] - 1) <= 1e-9) &&
         (roi.empty() || (roi[axis] == 0 && roi[axis + sizes.size()] == 1));
}

ResizeTable Resize::table(size_t axis, int64_t in, int64_t out) const {
  const double size = double(in), scale = scales.empty() ? double(out) / size : scales[axis];
  // Dividing by in/out instead of multiplying keeps positions exact where they are whole numbers.
  auto unscale = [&](double x) { return scales.empty() ? x * size / double(out) : x / scale; };
  const double length = scales.empty() ? double(out) : scale * size;
  const double shrink = antialias ? std::min(scale, 1.0) : 1.0;
  const double support = kind == ResizeKind::cubic ? 2 : 1;
  const int64_t first =
      int64_t(std::floor(-support / shrink)) + 1;  // of the taps, counted from the element left of the position
  ResizeTable table;
  table.taps = kind == ResizeKind::nearest ? 1 : 2 - 2 * first;
  table.index.reserve(size_t(out * table.taps));
  for (int64_t o = 0; o < out; ++o) {
    const double x = double(o);
    double at = 0;
    switch (coordinate) {
      case ResizeCoordinate::half_pixel: at = unscale(x + 0.5) - 0.5; break;
      case ResizeCoordinate::half_pixel_symmetric:
        at = size / 2 * (1 - double(out) / length) + unscale(x + 0.5) - 0.5;
        break;
      case ResizeCoordinate::pytorch_half_pixel: at = out > 1 ? unscale(x + 0.5) - 0.5 : 0; break;
      case ResizeCoordinate::align_corners: at = length == 1 ? 0 : x * (size - 1) / (length - 1); break;
      case ResizeCoordinate::asymmetric: at = unscale(x); break;
      case ResizeCoordinate::tf_half_pixel_for_nn: at = unscale(x + 0.5); break;
      case ResizeCoordinate::tf_crop_and_resize: {
        const double from = roi[axis], to = roi[axis + sizes.size()];
        at = length == 1 ? (to - from) * (size - 1) / 2 : x * (to - from) * (size - 1) / (length - 1);
        at += from * (size - 1);
        break;
      }
    }
    if (coordinate == ResizeCoordinate::tf_crop_and_resize && !(at >= 0 && at <= size - 1)) {
      table.index.insert(table.index.end(), size_t(table.taps), -1);
      table.weight.insert(table.weight.end(), size_t(table.taps), 0.0);
      continue;
    }
    at = std::clamp(at, -1e15, 1e15);
    // The left neighbour; a position on an element has it as its right neighbour at ratio 1.
    const double left = at == std::floor(at) ? at - 1 : std::floor(at), ratio = at - left;
    auto inside = [&](double index) { return int64_t(std::clamp(index, 0.0, size - 1)); };
    if (kind == ResizeKind::nearest) {
      bool right = ratio == 1;
      if (!right) switch (nearest) {
          case ResizeNearest::round_prefer_floor: right = ratio > 0.5; break;
          case ResizeNearest::round_prefer_ceil: right = ratio >= 0.5; break;
          case ResizeNearest::floor: right = false; break;
          case ResizeNearest::ceil: right = true; break;
        }
      table.index.push_back(inside(right ? left + 1 : left));
      table.weight.push_back(1);
      continue;
    }
    double sum = 0;
    const size_t start = table.weight.size();
    for (int64_t t = first; t < first + table.taps; ++t) {
      const double distance = (double(t) - ratio) * shrink, index = left + double(t);
      double weight =
          kind == ResizeKind::linear ? std::max(0.0, 1 - std::fabs(distance)) : cubic_weight(distance, cubic_a);
      if (exclude_outside && (index < 0 || index >= size)) weight = 0;
      sum += weight;
      table.index.push_back(inside(index));
      table.weight.push_back(weight);
    }
    if ((antialias || exclude_outside) && sum != 0)
      for (size_t i = start; i < table.weight.size(); ++i) table.weight[i] /= sum;
  }
  return table;
}

std::vector<Tensor> Resize::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const Tensor& x = inputs[0];
  const Dims to = outputs[0].dims();
  Tensor out(x.dtype(), to);
  if (out.count() == 0) return {out};
  Dims dims = x.dims();
  if (kind == ResizeKind::nearest && coordinate != ResizeCoordinate::tf_crop_and_resize) {  // elements move unchanged
    std::vector<ResizeTable> tables(dims.size());
    for (size_t axis = 0; axis < dims.size(); ++axis)
      if (!is_identity_along(axis, dims[axis], to[axis])) tables[axis] = table(axis, dims[axis], to[axis]);
    const Dims strides = row_major_strides(dims);
    const size_t size = size_t(size_of(x.dtype()));
    for_each_index(to, [&](const Dims& o, int64_t at) {
      int64_t offset = 0;
      for (size_t axis = 0; axis < o.size(); ++axis)
        offset += (tables[axis].index.empty() ? o[axis] : tables[axis].index[size_t(o[axis])]) * strides[axis];
      std::memcpy(out.raw_mutable() + size_t(at) * size, x.raw().data() + size_t(offset) * size, size);
    });
    return {out};
  }
  std::vector<double> values = x.to_doubles();
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (is_identity_along(axis, dims[axis], to[axis])) continue;
    const ResizeTable taps = table(axis, dims[axis], to[axis]);
    int64_t inner = 1, outer = 1;
    for (size_t i = 0; i < axis; ++i) outer *= dims[i];
    for (size_t i = axis + 1; i < dims.size(); ++i) inner *= dims[i];
    const int64_t in = dims[axis], n = to[axis];
    std::vector<double> next(size_t(outer * n * inner));
    for (int64_t row = 0; row < outer; ++row)
      for (int64_t o = 0; o < n; ++o)
        for (int64_t i = 0; i < inner; ++i) {
          double sum = 0;
          for (int64_t t = o * taps.taps; t < (o + 1) * taps.taps; ++t)
            if (taps.index[size_t(t)] >= 0)
              sum += taps.weight[size_t(t)] * values[size_t((row * in + taps.index[size_t(t)]) * inner + i)];
          next[size_t((row * n + o) * inner + i)] = taps.index[size_t(o * taps.taps)] < 0 ? extrapolation : sum;
        }
    values = std::move(next);
    dims[axis] = n;
  }
  visit_dtype(x.dtype(), [&]<class T>() {
    for (int64_t i = 0; i < out.count(); ++i) {
      if constexpr (std::is_same_v<Wide<T>, double>) out.data<T>()[i] = static_cast<T>(values[size_t(i)]);
      else
        out.data<T>()[i] = static_cast<T>(std::clamp<double>(std::nearbyint(values[size_t(i)]),
                                                             double(std::numeric_limits<T>::lowest()),
                                                             double(std::numeric_limits<T>::max())));
    }
  });
  return {out};
}

NarrowForm Resize::narrow_form(const NarrowNode& node) const {
  // Between two numbers, as linear interpolation gives them, the narrower dtype is as good as at them.
  const bool between = kind == ResizeKind::linear && coordinate != ResizeCoordinate::tf_crop_and_resize;
  if ((flow(0) == Flow::moved || between) && node.inputs() == 1) return NarrowRole::carrier;
  return NarrowForm::stays_f32("interpolates in fp32");
}

Flow Resize::flow(size_t input) const {
  const bool moves = kind == ResizeKind::nearest && coordinate != ResizeCoordinate::tf_crop_and_resize;
  return input == 0 && moves ? Flow::moved : Flow::computed;
}

// Where sizes and scales change nothing, all ways to compute a position give the element's own, but for these two.
bool Resize::is_no_op(const TensorType& x, size_t inputs) const {
  return inputs == 1 && sizes == x.shape &&
         std::all_of(scales.begin(), scales.end(), [](double s) { return s == 1; }) &&
         coordinate != ResizeCoordinate::tf_crop_and_resize && coordinate != ResizeCoordinate::tf_half_pixel_for_nn;
}

std::optional<std::vector<int64_t>> Resize::take_untransposed(std::span<const int64_t> perm, size_t inputs) {
  if (inputs != 1 || !roi.empty() || !axes.empty()) return std::nullopt;
  sizes = untransposed(sizes, perm), scales = untransposed(scales, perm);
  return same_transpose(perm);
}

}  // namespace temper::ops
