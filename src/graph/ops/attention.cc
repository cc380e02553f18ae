// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/attention.h"

#include <cmath>
#include <limits>

namespace temper::ops {

namespace {

constexpr int64_t kMostHeads = 1 << 20;

// The last axis of an input as `heads` heads of one size.
int64_t head_size(const InferContext& context, size_t input, int64_t heads) {
  const TensorType& type = context.type(input);
  if (!type.shape[2].is_constant() || type.shape[2].value() % heads != 0)
    fail(ErrorKind::bad_file, "input ", input, " has type ", type, ", whose last axis is not ", heads,
         " heads of one size");
  return type.shape[2].value() / heads;
}

void agree(const Dim& a, const Dim& b, const TensorType& type, std::string_view what) {
  if (a.is_constant() && b.is_constant() && a != b)
    fail(ErrorKind::bad_file, type, " has another ", what, " than q or k");
}

void check_mask(const TensorType& mask, const Shape& scores) {
  if (!is_float(mask.dtype) && mask.dtype != DType::boolean) fail(ErrorKind::bad_file, "a mask of type ", mask);
  if (mask.rank() > 4) fail(ErrorKind::bad_file, "the mask ", mask, " has more than four axes");
  for (size_t i = 0; i < mask.shape.size(); ++i) {
    const size_t axis = i + 4 - mask.shape.size();
    const Dim &have = mask.shape[i], &want = scores[axis];
    if (!have.is_constant() || !want.is_constant() || have == Dim(1) || have == want) continue;
    if (axis == 0 && have.value() > 0 && want.value() % have.value() == 0) continue;
    fail(ErrorKind::bad_file, "the mask ", mask, " does not fit scores of shape ", scores);
  }
}

}  // namespace

std::vector<TensorType> Attention::infer(const InferContext& context) const {
  context.expect_inputs(3, 5);
  if (heads < 1 || heads > kMostHeads || kv_heads < 1 || heads % kv_heads != 0)
    fail(ErrorKind::bad_file, heads, " heads of queries and ", kv_heads, " of keys");
  if (!std::isfinite(scale)) fail(ErrorKind::bad_file, "the scale ", scale);
  if (!(softcap >= 0 && std::isfinite(softcap))) fail(ErrorKind::bad_file, "the softcap ", softcap);
  if (left < -1 || right < -1 || left > kMaxTensorBytes || right > kMaxTensorBytes)
    fail(ErrorKind::bad_file, "a window of ", left, " keys to the left and ", right, " to the right");
  for (size_t i = 0; i < 3; ++i) {
    context.expect_rank(i, 3, 3);
    context.expect_same_dtype(0, i);
  }
  const TensorType &q = context.type(0), &k = context.type(1), &v = context.type(2);
  if (!is_float(q.dtype)) fail(ErrorKind::bad_file, "attention of ", q);
  const int64_t size = head_size(context, 0, heads);
  if (head_size(context, 1, kv_heads) != size)
    fail(ErrorKind::bad_file, "the heads of ", k, " have another size than those of ", q);
  const int64_t value_size = head_size(context, 2, kv_heads);
  agree(q.shape[0], k.shape[0], k, "batch");
  agree(q.shape[0], v.shape[0], v, "batch");
  agree(k.shape[1], v.shape[1], v, "number of keys");
  if (context.has(3)) check_mask(context.type(3), {q.shape[0], heads, q.shape[1], k.shape[1]});
  if (context.has(4)) {
    const TensorType& lengths = context.type(4);
    if (lengths.dtype != DType::i64 || lengths.rank() != 1) fail(ErrorKind::bad_file, "lengths of type ", lengths);
    agree(q.shape[0], lengths.shape[0], lengths, "batch");
  }
  return {{q.dtype, {q.shape[0], q.shape[1], heads * value_size}}};
}

AttentionSizes sizes_of(const Attention& op, const Dims& q, const Dims& k, const Dims& v) {
  return {q[0], q[1], k[1], op.heads, op.kv_heads, q[2] / op.heads, v[2] / op.kv_heads};
}

MaskStrides mask_strides(const Dims& mask) {
  Dims full(4 - mask.size(), 1);
  full.insert(full.end(), mask.begin(), mask.end());
  const Dims strides = row_major_strides(full);
  auto stride = [&](size_t axis) { return full[axis] == 1 ? 0 : strides[axis]; };
  return {stride(0), stride(1), stride(2), stride(3), full[0]};
}

std::vector<Tensor> Attention::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const Tensor &q = inputs[0], &k = inputs[1], &v = inputs[2];
  const AttentionSizes s = sizes_of(*this, q.dims(), k.dims(), v.dims());
  const bool masked = inputs.size() > 3 && inputs[3].defined(), bounded = inputs.size() > 4 && inputs[4].defined();
  const bool chosen = masked && inputs[3].dtype() == DType::boolean;
  const MaskStrides strides = masked ? mask_strides(inputs[3].dims()) : MaskStrides{};
  const std::vector<double> mask = masked ? inputs[3].to_doubles() : std::vector<double>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Tensor y(q.dtype(), outputs[0].dims());
  visit_dtype(q.dtype(), [&]<class T>() {
    if constexpr (is_float(dtype_of<T>)) {
      std::vector<double> scores(static_cast<size_t>(s.keys)), sums(static_cast<size_t>(s.value_size));
      for_each_index({s.batch, s.heads, s.queries}, [&](const Dims& index, int64_t) {
        const int64_t b = index[0], h = index[1], i = index[2], group = h / (heads / kv_heads);
        const T* query = q.data<T>() + ((b * s.queries + i) * heads + h) * s.key_size;
        const KeyRange range =
            keys_of_query(*this, i, s.queries, s.keys, bounded ? inputs[4].data<int64_t>()[b] : s.keys);
        double peak = -kInfinity, sum = 0;
        for (int64_t j = 0; j < s.keys; ++j) {
          double& score = scores[size_t(j)];
          score = -kInfinity;
          if (j < range.first || j >= range.end) continue;
          const double bias = masked ? mask[size_t(b % strides.batches * strides.batch + h * strides.head +
                                                   i * strides.query + j * strides.key)]
                                     : 0;
          if (chosen && bias == 0) continue;
          const T* key = k.data<T>() + ((b * s.keys + j) * kv_heads + group) * s.key_size;
          double dot = 0;
          for (int64_t d = 0; d < s.key_size; ++d) dot += double(query[d]) * double(key[d]);
          dot *= scale;
          if (softcap > 0) dot = softcap * std::tanh(dot / softcap);
          score = chosen ? dot : dot + bias;
          peak = score > peak ? score : peak;
        }
        for (double& score : scores) sum += score = std::exp(score - peak);
        std::fill(sums.begin(), sums.end(), 0);
        if (!(zero_nan && std::isnan(sum)))
          for (int64_t j = 0; j < s.keys; ++j) {
            const double weight = scores[size_t(j)] / sum;
            const T* value = v.data<T>() + ((b * s.keys + j) * kv_heads + group) * s.value_size;
            for (int64_t d = 0; d < s.value_size; ++d) sums[size_t(d)] += weight * double(value[d]);
          }
        T* to = y.data<T>() + ((b * s.queries + i) * heads + h) * s.value_size;
        for (int64_t d = 0; d < s.value_size; ++d) to[d] = static_cast<T>(sums[size_t(d)]);
      });
    }
  });
  return {y};
}

// All keys count, also those that a mask or a window keeps from taking part.
Operations Attention::operations(std::span<const TensorType> inputs, std::span<const TensorType>) const {
  const AttentionSizes s = sizes_of(*this, inputs[0].dims(), inputs[1].dims(), inputs[2].dims());
  const int64_t scores = s.batch * s.heads * s.queries * s.keys;
  return {2 * scores * (s.key_size + s.value_size), 0};
}

double Attention::reference_cost(std::span<const TensorType> inputs, std::span<const TensorType>) const {
  const AttentionSizes s = sizes_of(*this, inputs[0].dims(), inputs[1].dims(), inputs[2].dims());
  return double(s.batch * s.heads) * double(s.queries) * double(s.keys) * double(s.key_size + s.value_size);
}

bool Attention::sliceable(const BatchedNode& node) const {
  for (size_t i = 0; i < 3; ++i)
    if (!node.is_batched(i)) return false;
  if (node.has(4) && !node.is_batched(4)) return false;
  if (!node.has(3)) return true;
  const Shape& mask = node.shape(3);
  return node.is_batched(3) ? mask.size() == 4 : mask.size() < 4 || mask[0] == Dim(1);
}

}  // namespace temper::ops
