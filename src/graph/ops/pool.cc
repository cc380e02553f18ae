// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace temper::ops {

std::vector<TensorType> Pool::infer(const InferContext& context) const {
  context.expect_inputs(1, 1);
  context.expect_rank(0, 3);
  const TensorType& x = context.type(0);
  const Window win = window();
  check_window(win, x.rank() - 2);
  if (kind != PoolKind::max && !is_float(x.dtype)) fail(ErrorKind::unsupported, "this pool on ", x.dtype);
  for (size_t i = 0; i < kernel.size(); ++i)
    if (pad_mode == PadMode::explicit_pads &&
        std::max(pads[i], pads[i + kernel.size()]) > (kernel[i] - 1) * dilations[i] + 1)
      fail(ErrorKind::bad_file, "pads ", pads, " exceed the kernel ", kernel);
  Shape shape{x.shape[0], x.shape[1]};
  for (int64_t i = 0; i < x.rank() - 2; ++i) shape.push_back(window_output(win, i, x.shape[size_t(i + 2)]));
  std::vector<TensorType> types{{x.dtype, shape}};
  if (with_indices) types.push_back({DType::i64, shape});
  return types;
}

std::vector<Tensor> Pool::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const Tensor& x = inputs[0];
  const Dims out_dims = outputs[0].dims(), &xd = x.dims();
  const Window win = window();
  const size_t spatial = xd.size() - 2;
  const Dims xs = row_major_strides(xd);
  std::vector<std::pair<int64_t, int64_t>> padding;
  for (size_t i = 0; i < spatial; ++i) padding.push_back(window_pads(win, int64_t(i), xd[i + 2]));
  Tensor out(x.dtype(), out_dims), where = with_indices ? Tensor(DType::i64, out_dims) : Tensor();
  visit_dtype(x.dtype(), [&]<class T>() {
    for_each_index(out_dims, [&](const Dims& o, int64_t at) {
      Wide<T> sum = 0, best = std::numeric_limits<Wide<T>>::lowest();
      if constexpr (std::is_same_v<Wide<T>, double>) best = -std::numeric_limits<double>::infinity();
      int64_t valid = 0, counted = 0, best_at = -1;
      for_each_index(kernel, [&](const Dims& k, int64_t) {
        int64_t offset = o[0] * xs[0] + o[1] * xs[1], column = 0, column_stride = 1;
        bool inside = true, in_padding = true;
        for (size_t i = 0; i < spatial; ++i) {
          const int64_t position = o[i + 2] * strides[i] - padding[i].first + k[i] * dilations[i];
          inside &= position >= 0 && position < xd[i + 2];
          in_padding &= position < xd[i + 2] + padding[i].second;  // ceil_mode may reach beyond the padding
          offset += position * xs[i + 2];
          column += position * column_stride;
          column_stride *= xd[i + 2];
        }
        counted += in_padding;
        if (!inside) return;
        ++valid;
        const auto v = static_cast<Wide<T>>(x.data<T>()[offset]);
        bool wins = v > best || best_at < 0;
        if (kind == PoolKind::average) sum += v;
        if constexpr (std::is_same_v<Wide<T>, double>) {
          if (kind == PoolKind::lp) sum += std::pow(std::fabs(v), double(p));
          wins |= std::isnan(v) && !std::isnan(best);
        }
        if (wins) {
          best = v;
          best_at = column_major ? (o[0] * xd[1] + o[1]) * xs[1] + column : offset;
        }
      });
      if (kind == PoolKind::max) {
        out.data<T>()[at] = static_cast<T>(best);
        if (with_indices) where.data<int64_t>()[at] = best_at;
      } else if constexpr (std::is_same_v<Wide<T>, double>) {
        if (kind == PoolKind::lp) out.data<T>()[at] = static_cast<T>(std::pow(sum, 1.0 / double(p)));
        else out.data<T>()[at] = static_cast<T>(sum / double(count_include_pad ? counted : valid));
      }
    });
  });
  if (with_indices) return {out, where};
  return {out};
}

NarrowForm Pool::narrow_form(const NarrowNode&) const {
  if (with_indices) return NarrowForm::stays_f32("rounding could move the largest element");
  if (kind == PoolKind::lp) return NarrowForm::stays_f32("its sums stay in fp32");
  return NarrowRole::carrier;
}

OnnxForm Pool::onnx_form() const {
  const char* types[] = {"MaxPool", "AveragePool", "LpPool"};
  OnnxForm form{types[int(kind)], onnx_attributes(window())};
  form.attributes.push_back({"ceil_mode", ceil_mode});
  if (kind == PoolKind::max) form.attributes.push_back({"storage_order", column_major});
  if (kind == PoolKind::average) form.attributes.push_back({"count_include_pad", count_include_pad});
  if (kind == PoolKind::lp) form.attributes.push_back({"p", p});
  return form;
}

Operations Pool::operations(std::span<const TensorType>, std::span<const TensorType> outputs) const {
  return {0, element_count(outputs[0]) * element_count(kernel)};
}

Flow Pool::flow(size_t) const {
  switch (kind) {
    case PoolKind::max: return Flow::chosen;
    case PoolKind::average: return Flow::averaged;
    default: return Flow::computed;
  }
}

bool Pool::is_no_op(const TensorType&, size_t) const {
  const auto all_are = [](const std::vector<int64_t>& values, int64_t wanted) {
    return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == wanted; });
  };
  return kind != PoolKind::lp && !with_indices && all_are(kernel, 1) && all_are(strides, 1) && all_are(pads, 0);
}

double Pool::reference_cost(std::span<const TensorType>, std::span<const TensorType> outputs) const {
  double window = 1;
  for (int64_t size : kernel) window *= double(size);
  return window * double(element_count(outputs[0]));
}

}  // namespace temper::ops
