// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/unique.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/string_table.h"
#include "graph/strings.h"

namespace temper::ops {

namespace {

struct Groups {
  std::vector<int64_t> first, inverse, counts;
};

Groups group(const Unique& op, const Tensor& x) {
  const int64_t n = op.axis < 0 ? x.count() : x.dims()[size_t(op.axis)];
  const int64_t inner = op.axis < 0 ? 1 : row_major_strides(x.dims())[size_t(op.axis)];
  const int64_t outer = n == 0 || op.axis < 0 ? 1 : x.count() / (n * std::max<int64_t>(inner, 1));
  Groups groups;
  // `at` gives an element as what is compared.
  const auto find = [&](const auto& at) {
    // -1, 0, 1 by the first element in which the slices differ.
    auto compare = [&](int64_t a, int64_t b) {
      for (int64_t o = 0; o < outer && x.count(); ++o)
        for (int64_t i = 0; i < inner; ++i) {
          const auto left = at((o * n + a) * inner + i), right = at((o * n + b) * inner + i);
          if (left < right) return -1;
          if (right < left) return 1;
          if ((left != left) != (right != right)) return left != left ? 1 : -1;  // NaN comes last
        }
      return 0;
    };
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return compare(a, b) < 0; });
    groups.inverse.resize(size_t(n));
    for (size_t i = 0; i < order.size(); ++i) {
      if (i == 0 || compare(order[i - 1], order[i]) != 0) {
        groups.first.push_back(order[i]);
        groups.counts.push_back(0);
      }
      ++groups.counts.back();
      groups.inverse[size_t(order[i])] = int64_t(groups.first.size()) - 1;
    }
  };
  if (x.dtype() == DType::string) {
    // By their bytes, which is the order of Unicode's letters.
    const std::span<const uint64_t> codes = codes_of(x);
    find([&](int64_t i) { return current_strings().at(codes[size_t(i)]); });
  } else {
    visit_dtype(x.dtype(),
                [&]<class T>() { find([data = x.data<T>()](int64_t i) { return static_cast<Wide<T>>(data[i]); }); });
  }
  if (op.sorted) return groups;
  std::vector<int64_t> order(groups.first.size()), place(groups.first.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return groups.first[size_t(a)] < groups.first[size_t(b)]; });
  Groups result;
  for (size_t i = 0; i < order.size(); ++i) {
    result.first.push_back(groups.first[size_t(order[i])]);
    result.counts.push_back(groups.counts[size_t(order[i])]);
    place[size_t(order[i])] = int64_t(i);
  }
  for (int64_t k : groups.inverse) result.inverse.push_back(place[size_t(k)]);
  return result;
}

}  // namespace

std::vector<TensorType> Unique::infer(const InferContext& context) const {
  context.expect_inputs(1, 1);
  const TensorType& x = context.type(0);
  if (axis < -1 || axis >= x.rank()) fail(ErrorKind::bad_file, "axis ", axis, " of ", x);
  const Dim found = context.constant(0) ? Dim(int64_t(group(*this, *context.constant(0)).first.size()))
                                        : context.unknown(0, std::max<int64_t>(axis, 0));
  TensorType values = x;
  Dim all = 1;
  for (const Dim& dim : x.shape) all = all * dim;
  if (axis < 0) values.shape = {found};
  else all = x.shape[size_t(axis)], values.shape[size_t(axis)] = found;
  return {values, {DType::i64, {found}}, {DType::i64, {all}}, {DType::i64, {found}}};
}

std::vector<Tensor> Unique::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const Tensor& x = inputs[0];
  const Groups groups = group(*this, x);
  Tensor values(x.dtype(), outputs[0].dims());
  const int64_t n = axis < 0 ? x.count() : x.dims()[size_t(axis)], count = int64_t(groups.first.size());
  const int64_t inner = (axis < 0 ? 1 : row_major_strides(x.dims())[size_t(axis)]) * size_of(x.dtype());
  const int64_t outer = values.count() == 0 ? 0 : values.bytes() / (count * inner);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(values.raw_mutable() + (o * count + i) * inner,
                  x.raw().data() + (o * n + groups.first[size_t(i)]) * inner, size_t(inner));
  return {values, Tensor::of<int64_t>({count}, groups.first), Tensor::of<int64_t>({n}, groups.inverse),
          Tensor::of<int64_t>({count}, groups.counts)};
}

OnnxForm Unique::onnx_form() const {
  OnnxForm form{"Unique", {}};
  if (axis >= 0) form.attributes.push_back({"axis", axis});
  form.attributes.push_back({"sorted", sorted});
  return form;
}

}  // namespace temper::ops
