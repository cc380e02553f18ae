// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/lrn.h"

#include <algorithm>
#include <cmath>

namespace temper::ops {

std::vector<TensorType> Lrn::infer(const InferContext& context) const {
  context.expect_inputs(1, 1);
  context.expect_rank(0, 2);
  const TensorType& x = context.type(0);
  if (!is_float(x.dtype)) fail(ErrorKind::bad_file, "lrn of ", x);
  if (size < 1 || size > (int64_t(1) << 31)) fail(ErrorKind::bad_file, "size ", size, " is out of range");
  return {x};
}

std::vector<Tensor> Lrn::reference(std::span<const Tensor> inputs, std::span<const TensorType>) const {
  const Tensor& x = inputs[0];
  Tensor out(x.dtype(), x.dims());
  const int64_t channels = x.dims()[1], inner = row_major_strides(x.dims())[1];
  const int64_t before = (size - 1) / 2, after = size - 1 - before;
  visit_dtype(x.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<Wide<T>, double>) {
      for (int64_t i = 0; i < x.count(); ++i) {
        const int64_t c = i / inner % channels;
        double squares = 0;
        for (int64_t k = std::max<int64_t>(0, c - before); k <= std::min(channels - 1, c + after); ++k) {
          const double v = double(x.data<T>()[i + (k - c) * inner]);
          squares += v * v;
        }
        out.data<T>()[i] =
            static_cast<T>(double(x.data<T>()[i]) / std::pow(bias + alpha / double(size) * squares, beta));
      }
    }
  });
  return {out};
}

double Lrn::reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  const Dims dims = inputs[0].dims();
  return double(std::min(size, dims[1])) * double(element_count(outputs[0]));
}

}  // namespace temper::ops
