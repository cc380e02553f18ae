// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/append.h"

#include <cstring>

namespace temper::ops {

void expect_room(int64_t length, int64_t rows, int64_t positions, int64_t batch) {
  if (length < 0) fail(ErrorKind::usage, "row ", batch, " of the batch has the length ", length);
  if (length > positions - rows)
    fail(ErrorKind::usage, "row ", batch, " of the batch holds ", length, " positions: ", rows,
         " more do not fit into a cache of ", positions);
}

std::vector<TensorType> Append::infer(const InferContext& context) const {
  context.expect_inputs(3, 3);
  context.expect_rank(0, 3, 3);
  context.expect_rank(1, 3, 3);
  context.expect_rank(2, 1, 1);
  context.expect_same_dtype(0, 1);
  const TensorType &x = context.type(0), &rows = context.type(1), &lengths = context.type(2);
  if (lengths.dtype != DType::i64) fail(ErrorKind::bad_file, "lengths of type ", lengths);
  auto agree = [](const Dim& a, const Dim& b) { return !a.is_constant() || !b.is_constant() || a == b; };
  if (!agree(x.shape[0], rows.shape[0]) || !agree(x.shape[2], rows.shape[2]) || !agree(x.shape[0], lengths.shape[0]))
    fail(ErrorKind::bad_file, "rows ", rows, " and lengths ", lengths, " do not fit ", x);
  if (rows.shape[1].is_constant() && x.shape[1].is_constant() && rows.shape[1].value() > x.shape[1].value())
    fail(ErrorKind::bad_file, "rows ", rows, " are more than ", x, " has place for");
  return {x};
}

std::vector<Tensor> Append::reference(std::span<const Tensor> inputs, std::span<const TensorType>) const {
  const Tensor &x = inputs[0], &rows = inputs[1];
  Tensor out(x.dtype(), x.dims());
  std::memcpy(out.raw_mutable(), x.raw().data(), size_t(x.bytes()));
  const int64_t batch = x.dims()[0], positions = x.dims()[1], count = rows.dims()[1],
                row = x.dims()[2] * size_of(x.dtype());
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = inputs[2].data<int64_t>()[b];
    expect_room(length, count, positions, b);
    std::memcpy(out.raw_mutable() + (b * positions + length) * row, rows.raw().data() + b * count * row,
                size_t(count * row));
  }
  return {out};
}

bool Append::sliceable(const BatchedNode& node) const {
  return node.is_batched(0) && node.is_batched(1) && node.is_batched(2);
}

}  // namespace temper::ops
