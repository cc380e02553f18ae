// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/bit_cast.h"

#include <cstring>

namespace temper::ops {

std::vector<TensorType> BitCast::infer(const InferContext& context) const {
  context.expect_inputs(1, 1);
  const TensorType& x = context.type(0);
  if (size_of(dtype) != size_of(x.dtype)) fail(ErrorKind::bad_file, "the bits of ", x, " as ", dtype);
  // A byte that is neither 0 nor 1 is no bool.
  if (dtype == DType::boolean && x.dtype != DType::boolean) fail(ErrorKind::unsupported, "the bits of ", x, " as bool");
  return {{dtype, x.shape}};
}

std::vector<Tensor> BitCast::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  Tensor out(dtype, outputs[0].dims());
  std::memcpy(out.raw_mutable(), inputs[0].raw().data(), inputs[0].raw().size());
  return {out};
}

}  // namespace temper::ops
