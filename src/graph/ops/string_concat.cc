// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/string_concat.h"

#include "base/string_table.h"
#include "graph/strings.h"

namespace temper::ops {

std::vector<TensorType> StringConcat::infer(const InferContext& context) const {
  context.expect_inputs(2, 2);
  expect_strings(context, 0);
  expect_strings(context, 1);
  return {{DType::string, broadcast_shapes(context.type(0).shape, context.type(1).shape)}};
}

std::vector<Tensor> StringConcat::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  StringTable& table = current_strings();
  Tensor out(DType::u64, outputs[0].dims());
  const auto strides_of = [&](const Tensor& x) { return broadcast_strides(x.dims(), out.dims()); };
  const Dims strides[] = {strides_of(inputs[0]), strides_of(inputs[1])};
  const std::span<const uint64_t> codes[] = {codes_of(inputs[0]), codes_of(inputs[1])};
  for_each_index(out.dims(), [&](const Dims& index, int64_t i) {
    std::string text;
    for (size_t side = 0; side < 2; ++side) {
      int64_t at = 0;
      for (size_t axis = 0; axis < index.size(); ++axis) at += index[axis] * strides[side][axis];
      text += table.at(codes[side][size_t(at)]);
    }
    out.data<uint64_t>()[i] = table.code_of(text);
  });
  return {out.with_bits_as(DType::string)};
}

}  // namespace temper::ops
