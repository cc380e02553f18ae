// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/conv_transpose.h"

#include "graph/ops/pointwise.h"
#include "graph/ops/window.h"

namespace temper::ops {

std::vector<TensorType> ConvTranspose::infer(const InferContext& context) const {
  context.expect_inputs(2, 1026);
  context.expect_rank(0, 3, 5);
  context.expect_rank(1, context.type(0).rank(), context.type(0).rank());
  context.expect_same_dtype(0, 1);
  const TensorType &x = context.type(0), &w = context.type(1);
  if (!is_float(x.dtype)) fail(ErrorKind::bad_file, "a transposed convolution of ", x);
  if (!w.is_concrete())
    fail(ErrorKind::unsupported, "a transposed convolution whose weights have the symbolic shape ", w);
  const Dims wd = w.dims();
  check_window({Dims(wd.begin() + 2, wd.end()), strides, dilations, pads, PadMode::explicit_pads, false}, x.rank() - 2);
  if (output_padding.size() != wd.size() - 2)
    fail(ErrorKind::bad_file, "output_padding ", output_padding, " for weights ", w);
  if (group < 1 || wd[0] % group != 0)
    fail(ErrorKind::bad_file, "group ", group, " does not divide the ", wd[0], " input channels");
  if (x.shape[1].is_constant() && x.shape[1].value() != wd[0])
    fail(ErrorKind::bad_file, "the input ", x, " does not have the ", wd[0], " channels that weights ", w, " need");
  Shape shape{x.shape[0], Dim(wd[1]) * Dim(group)};
  for (size_t i = 0; i < strides.size(); ++i) {
    if (output_padding[i] < 0 || output_padding[i] > (int64_t(1) << 31))
      fail(ErrorKind::bad_file, "output_padding ", output_padding);
    const Dim& in = x.shape[i + 2];
    const Dim out = (in - Dim(1)) * Dim(strides[i]) + Dim(dilations[i]) * Dim(wd[i + 2] - 1) +
                    Dim(1 + output_padding[i] - pads[i] - pads[i + strides.size()]);
    if (out.is_constant() && out.value() < 0)
      fail(ErrorKind::bad_file, "the output would have ", out, " elements along axis ", i + 2);
    shape.push_back(out);
  }
  if (is_stored_only(x.dtype)) fail(ErrorKind::unsupported, "a transposed convolution of ", x.dtype);
  return {{infer_epilogue(epilogue, x.dtype, shape, context, 2), shape}};
}

std::vector<Tensor> ConvTranspose::reference(std::span<const Tensor> inputs,
                                             std::span<const TensorType> outputs) const {
  const Tensor &x = inputs[0], &w = inputs[1];
  const Dims out_dims = outputs[0].dims(), &xd = x.dims(), &wd = w.dims();
  const size_t spatial = xd.size() - 2;
  const Dims xs = row_major_strides(xd), ws = row_major_strides(wd), kernel(wd.begin() + 2, wd.end());
  const int64_t in_per_group = wd[0] / group, out_per_group = wd[1];
  Tensor acc(x.dtype(), out_dims);
  visit_dtype(x.dtype(), [&]<class T>() {
    const T *px = x.data<T>(), *pw = w.data<T>();
    T* out = acc.data<T>();
    // Gathers instead of scattering, so that each output is one sum in full precision.
    for_each_index(out_dims, [&](const Dims& o, int64_t at) {
      Wide<T> sum = 0;
      const int64_t g = o[1] / out_per_group;
      for_each_index(kernel, [&](const Dims& k, int64_t) {
        int64_t x_offset = o[0] * xs[0] + g * in_per_group * xs[1],
                w_offset = g * in_per_group * ws[0] + o[1] % out_per_group * ws[1];
        for (size_t i = 0; i < spatial; ++i) {
          const int64_t scaled = o[i + 2] + pads[i] - k[i] * dilations[i];
          if (scaled < 0 || scaled % strides[i] != 0 || scaled / strides[i] >= xd[i + 2]) return;
          x_offset += scaled / strides[i] * xs[i + 2];
          w_offset += k[i] * ws[i + 2];
        }
        for (int64_t c = 0; c < in_per_group; ++c)
          sum += static_cast<Wide<T>>(px[x_offset + c * xs[1]]) * static_cast<Wide<T>>(pw[w_offset + c * ws[0]]);
      });
      out[at] = static_cast<T>(sum);
    });
  });
  std::vector<Tensor> operands{acc};
  operands.insert(operands.end(), inputs.begin() + 2, inputs.end());
  return {run_program(epilogue, operands, out_dims)};
}

Operations ConvTranspose::operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  const Dims weights = inputs[1].dims();  // [in, out / group, window...]
  return {2 * element_count(inputs[0]) * (element_count(weights) / std::max<int64_t>(1, weights[0])),
          computing_steps(epilogue) * element_count(outputs[0])};
}

double ConvTranspose::reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  return contraction_cost(inputs[1], outputs[0]);
}

}  // namespace temper::ops
