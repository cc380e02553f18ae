// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/conv.h"

#include "graph/ops/pointwise.h"

namespace temper::ops {

Window Conv::window(const Dims& w) const {
  return {Dims(w.begin() + 2, w.end()), strides, dilations, pads, pad_mode, false};
}

Dims Conv::output_dims(const Dims& x, const Dims& weights) const {
  Dims out{x.at(0), weights.at(0)};
  for (size_t axis = 0; axis + 2 < x.size(); ++axis)
    out.push_back(window_output(window(weights), int64_t(axis), x[axis + 2]).value());
  return out;
}

std::vector<TensorType> Conv::infer(const InferContext& context) const {
  context.expect_inputs(2, 1026);
  context.expect_rank(0, 3, 5);
  context.expect_rank(1, context.type(0).rank(), context.type(0).rank());
  const TensorType &x = context.type(0), &w = context.type(1);
  if (is_stored_only(x.dtype)) fail(ErrorKind::unsupported, "a convolution of ", x.dtype);
  if (!w.is_concrete()) fail(ErrorKind::unsupported, "a convolution whose weights have the symbolic shape ", w);
  const Dims wd = w.dims();
  const Window win = window(wd);
  check_window(win, x.rank() - 2);
  if (group < 1 || wd[0] % group != 0)
    fail(ErrorKind::bad_file, "group ", group, " does not divide the ", wd[0], " output channels");
  if (x.shape[1].is_constant() && x.shape[1].value() != wd[1] * group)
    fail(ErrorKind::bad_file, "the input ", x, " does not have the ", wd[1] * group, " channels that weights ", w,
         " with group ", group, " need");
  Shape shape{x.shape[0], Dim(wd[0])};
  for (int64_t i = 0; i < x.rank() - 2; ++i) shape.push_back(window_output(win, i, x.shape[size_t(i + 2)]));
  return {{infer_epilogue(epilogue, accumulator_of(x.dtype, w.dtype), shape, context, 2), shape}};
}

std::vector<Tensor> Conv::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const Tensor &x = inputs[0], &w = inputs[1];
  const Dims out_dims = outputs[0].dims(), &xd = x.dims(), &wd = w.dims();
  const Window win = window(wd);
  const size_t spatial = xd.size() - 2;
  Tensor acc(accumulator_of(x.dtype(), w.dtype()), out_dims);
  std::vector<int64_t> begin;
  for (size_t i = 0; i < spatial; ++i) begin.push_back(window_pads(win, int64_t(i), xd[i + 2]).first);
  const Dims xs = row_major_strides(xd), ws = row_major_strides(wd);
  const int64_t channels = wd[1], per_group = wd[0] / group;
  const Dims kernel(wd.begin() + 2, wd.end());
  visit_dtype(x.dtype(), [&]<class T>() {
    // Sums of 8-bit operands are exact and kept as i32, those of fp16 and bf16 as f32.
    constexpr bool narrow = std::is_same_v<T, int8_t> || std::is_same_v<T, uint8_t>;
    using W = std::conditional_t<narrow, int8_t, T>;
    using A = std::conditional_t<narrow, int32_t,
                                 std::conditional_t<std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>, float, T>>;
    const T* px = x.data<T>();
    const W* pw = w.data<W>();
    A* out = acc.data<A>();
    for_each_index(out_dims, [&](const Dims& o, int64_t at) {
      Wide<T> sum = 0;
      const int64_t first_channel = o[1] / per_group * channels;
      for_each_index(kernel, [&](const Dims& k, int64_t) {
        int64_t x_offset = o[0] * xs[0] + first_channel * xs[1], w_offset = o[1] * ws[0];
        for (size_t i = 0; i < spatial; ++i) {
          const int64_t position = o[i + 2] * strides[i] - begin[i] + k[i] * dilations[i];
          if (position < 0 || position >= xd[i + 2]) return;
          x_offset += position * xs[i + 2];
          w_offset += k[i] * ws[i + 2];
        }
        for (int64_t c = 0; c < channels; ++c)
          sum += static_cast<Wide<T>>(px[x_offset + c * xs[1]]) * static_cast<Wide<W>>(pw[w_offset + c * ws[1]]);
      });
      out[at] = static_cast<A>(sum);
    });
  });
  std::vector<Tensor> operands{acc};
  operands.insert(operands.end(), inputs.begin() + 2, inputs.end());
  return {run_program(epilogue, operands, out_dims)};
}

NarrowForm Conv::narrow_form(const NarrowNode& node) const {
  if (node.is_constant(1)) return NarrowRole::product;
  return NarrowForm::stays_f32("its weights are not constant");
}

Operations Conv::operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  const Dims weights = inputs[1].dims();  // [out, in / group, window...]
  const int64_t out = element_count(outputs[0]);
  return {2 * out * (element_count(weights) / std::max<int64_t>(1, weights[0])), computing_steps(epilogue) * out};
}

double Conv::reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  return contraction_cost(inputs[1], outputs[0]);
}

}  // namespace temper::ops
