// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/roi_align.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/ops/gather.h"

namespace temper::ops {

std::vector<TensorType> RoiAlign::infer(const InferContext& context) const {
  context.expect_inputs(3, 3);
  context.expect_rank(0, 4, 4);
  context.expect_rank(1, 2, 2);
  context.expect_rank(2, 1, 1);
  context.expect_same_dtype(0, 1);
  expect_indices(context, 2);
  const TensorType &x = context.type(0), &rois = context.type(1);
  if (!is_float(x.dtype)) fail(ErrorKind::bad_file, "roi_align of ", x);
  if (rois.shape[1].is_constant() && rois.shape[1].value() != 4) fail(ErrorKind::bad_file, "regions ", rois);
  const Dim& batches = context.type(2).shape[0];
  if (batches.is_constant() && rois.shape[0].is_constant() && batches != rois.shape[0])
    fail(ErrorKind::bad_file, "regions ", rois, " with batch indices ", context.type(2));
  constexpr int64_t most = 1 << 20;
  if (height < 1 || width < 1 || height > most || width > most || sampling_ratio < 0 || sampling_ratio > most)
    fail(ErrorKind::bad_file, height, " x ", width, " bins of ", sampling_ratio, " samples");
  return {{x.dtype, {rois.shape[0], x.shape[1], Dim(height), Dim(width)}}};
}

RoiAxis roi_axis(const RoiAlign& op, double first, double last, int64_t bins, int64_t number) {
  const double shift = op.half_pixel ? 0.5 : 0, start = first * op.spatial_scale - shift;
  double extent = last * op.spatial_scale - shift - start;
  if (!op.half_pixel) extent = std::max(extent, 1.0);
  const double bin = extent / double(bins);
  if (!(bin < 1e6)) fail(ErrorKind::usage, "region ", number, " is out of all proportion");
  return {start, bin, op.sampling_ratio > 0 ? op.sampling_ratio : std::max<int64_t>(0, int64_t(std::ceil(bin)))};
}

RoiSample roi_sample(const RoiAxis& axis, int64_t bin, int64_t i, int64_t size) {
  const double at = axis.start + double(bin) * axis.bin + (double(i) + 0.5) * axis.bin / double(axis.samples);
  if (!(at >= -1 && at <= double(size))) return {0, 0, 0, false};
  const double place = std::max(at, 0.0);
  RoiSample sample{std::min(int64_t(place), size - 1), 0, 0, true};
  sample.high = std::min(sample.low + 1, size - 1);
  if (sample.low < size - 1) sample.weight = place - double(sample.low);
  return sample;
}

std::vector<Tensor> RoiAlign::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const Tensor& x = inputs[0];
  const std::vector<double> rois = inputs[1].to_doubles();
  const std::vector<int64_t> batches = inputs[2].to_ints();
  Tensor out(x.dtype(), outputs[0].dims());
  if (out.count() == 0) return {out};
  const int64_t channels = x.dims()[1], rows = x.dims()[2], columns = x.dims()[3];
  if (rows == 0 || columns == 0) fail(ErrorKind::usage, "regions of an empty picture ", x.type());
  visit_dtype(x.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<Wide<T>, double>) {
      std::vector<std::pair<RoiSample, RoiSample>> samples;
      for (size_t r = 0; r < batches.size(); ++r) {
        const int64_t batch = resolve_index(batches[r], x.dims()[0]);
        const RoiAxis across = roi_axis(*this, rois[r * 4], rois[r * 4 + 2], width, int64_t(r)),
                      down = roi_axis(*this, rois[r * 4 + 1], rois[r * 4 + 3], height, int64_t(r));
        for (int64_t ph = 0; ph < height; ++ph)
          for (int64_t pw = 0; pw < width; ++pw) {
            samples.clear();
            for (int64_t iy = 0; iy < down.samples; ++iy)
              for (int64_t ix = 0; ix < across.samples; ++ix)
                samples.push_back({roi_sample(down, ph, iy, rows), roi_sample(across, pw, ix, columns)});
            for (int64_t c = 0; c < channels; ++c) {
              const T* from = x.data<T>() + (batch * channels + c) * rows * columns;
              double sum = 0, best = 0;
              for (size_t i = 0; i < samples.size(); ++i) {
                const auto& [h, w] = samples[i];
                double part[4] = {0, 0, 0, 0};
                if (h.inside && w.inside) {
                  part[0] = (1 - h.weight) * (1 - w.weight) * double(from[h.low * columns + w.low]);
                  part[1] = (1 - h.weight) * w.weight * double(from[h.low * columns + w.high]);
                  part[2] = h.weight * (1 - w.weight) * double(from[h.high * columns + w.low]);
                  part[3] = h.weight * w.weight * double(from[h.high * columns + w.high]);
                }
                sum += part[0] + part[1] + part[2] + part[3];
                const double peak = *std::max_element(part, part + 4);  // ONNX's max is over the weighted neighbours
                best = i == 0 ? peak : std::max(best, peak);
              }
              const double value = kind == RoiKind::max ? best : sum / double(std::max<size_t>(samples.size(), 1));
              out.data<T>()[((int64_t(r) * channels + c) * height + ph) * width + pw] = static_cast<T>(value);
            }
          }
      }
    }
  });
  return {out};
}

OnnxForm RoiAlign::onnx_form() const {
  return {"RoiAlign",
          {{"mode", enum_names(kind)[size_t(kind)]},
           {"output_height", height},
           {"output_width", width},
           {"sampling_ratio", sampling_ratio},
           {"spatial_scale", spatial_scale},
           {"coordinate_transformation_mode", half_pixel ? "half_pixel" : "output_half_pixel"}}};
}

double RoiAlign::reference_cost(std::span<const TensorType>, std::span<const TensorType> outputs) const {
  // Without a number of samples the regions decide, which may be of any size.
  if (sampling_ratio == 0) return std::numeric_limits<double>::infinity();
  return double(sampling_ratio) * double(sampling_ratio) * double(element_count(outputs[0]));
}

}  // namespace temper::ops
