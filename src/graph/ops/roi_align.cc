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

std::vector<Tensor> RoiAlign::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const Tensor& x = inputs[0];
  const std::vector<double> rois = inputs[1].to_doubles();
  const std::vector<int64_t> batches = inputs[2].to_ints();
  Tensor out(x.dtype(), outputs[0].dims());
  if (out.count() == 0) return {out};
  const int64_t channels = x.dims()[1], rows = x.dims()[2], columns = x.dims()[3];
  if (rows == 0 || columns == 0) fail(ErrorKind::usage, "regions of an empty picture ", x.type());
  struct Sample {
    int64_t low[2], high[2];
    double weight[2];  // of the high ones
    bool inside;
  };
  visit_dtype(x.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<Wide<T>, double>) {
      std::vector<Sample> samples;
      for (size_t r = 0; r < batches.size(); ++r) {
        const int64_t batch = resolve_index(batches[r], x.dims()[0]);
        double start[2], bin[2];
        int64_t grid[2];
        const int64_t bins[2] = {height, width}, sizes[2] = {rows, columns};
        for (int i = 0; i < 2; ++i) {  // rows, then columns
          const double shift = half_pixel ? 0.5 : 0;
          start[i] = rois[r * 4 + size_t(1 - i)] * spatial_scale - shift;
          double extent = rois[r * 4 + size_t(3 - i)] * spatial_scale - shift - start[i];
          if (!half_pixel) extent = std::max(extent, 1.0);
          bin[i] = extent / double(bins[i]);
          if (!(bin[i] < 1e6)) fail(ErrorKind::usage, "region ", int64_t(r), " is out of all proportion");
          grid[i] = sampling_ratio > 0 ? sampling_ratio : std::max<int64_t>(0, int64_t(std::ceil(bin[i])));
        }
        for (int64_t ph = 0; ph < height; ++ph)
          for (int64_t pw = 0; pw < width; ++pw) {
            samples.clear();
            for (int64_t iy = 0; iy < grid[0]; ++iy)
              for (int64_t ix = 0; ix < grid[1]; ++ix) {
                Sample s{};
                const double at[2] = {start[0] + double(ph) * bin[0] + (double(iy) + 0.5) * bin[0] / double(grid[0]),
                                      start[1] + double(pw) * bin[1] + (double(ix) + 0.5) * bin[1] / double(grid[1])};
                s.inside = at[0] >= -1 && at[0] <= double(rows) && at[1] >= -1 && at[1] <= double(columns);
                for (int i = 0; i < 2 && s.inside; ++i) {
                  const double place = std::max(at[i], 0.0);
                  s.low[i] = std::min(int64_t(place), sizes[i] - 1);
                  s.high[i] = std::min(s.low[i] + 1, sizes[i] - 1);
                  s.weight[i] = s.low[i] == sizes[i] - 1 ? 0 : place - double(s.low[i]);
                }
                samples.push_back(s);
              }
            for (int64_t c = 0; c < channels; ++c) {
              const T* from = x.data<T>() + (batch * channels + c) * rows * columns;
              double sum = 0, best = 0;
              for (size_t i = 0; i < samples.size(); ++i) {
                const Sample& s = samples[i];
                double part[4] = {0, 0, 0, 0};
                if (s.inside) {
                  part[0] = (1 - s.weight[0]) * (1 - s.weight[1]) * double(from[s.low[0] * columns + s.low[1]]);
                  part[1] = (1 - s.weight[0]) * s.weight[1] * double(from[s.low[0] * columns + s.high[1]]);
                  part[2] = s.weight[0] * (1 - s.weight[1]) * double(from[s.high[0] * columns + s.low[1]]);
                  part[3] = s.weight[0] * s.weight[1] * double(from[s.high[0] * columns + s.high[1]]);
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
