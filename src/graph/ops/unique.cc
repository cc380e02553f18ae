// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/unique.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "base/string_table.h"
#include "graph/strings.h"

namespace temper::ops {

namespace {

struct Groups {
  std::vector<int64_t> first, inverse, counts;
};

// A number for each element, in the order of the elements: equal ones have one, 0 and -0 too, and NaN, of which all
// are equal, the largest.
std::vector<uint64_t> keys_of(const Tensor& x) {
  constexpr uint64_t kSign = uint64_t(1) << 63;
  std::vector<uint64_t> keys(static_cast<size_t>(x.count()));
  if (x.dtype() == DType::string) {  // by their bytes, which is the order of Unicode's letters
    const std::span<const uint64_t> codes = codes_of(x);
    std::vector<std::string_view> sorted;
    sorted.reserve(codes.size());
    for (const uint64_t code : codes) sorted.push_back(current_strings().at(code));
    std::ranges::sort(sorted);
    for (size_t i = 0; i < keys.size(); ++i)
      keys[i] = uint64_t(std::ranges::lower_bound(sorted, current_strings().at(codes[i])) - sorted.begin());
    return keys;
  }
  visit_dtype(x.dtype(), [&]<class T>() {
    const T* data = x.data<T>();
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto value = static_cast<Wide<T>>(data[i]);
      if constexpr (std::is_same_v<Wide<T>, double>) {
        const uint64_t bits = std::bit_cast<uint64_t>(value == 0 ? 0. : value);
        keys[i] = value != value ? ~uint64_t(0) : bits & kSign ? ~bits : bits | kSign;
      } else {
        keys[i] = uint64_t(value) ^ (std::is_signed_v<Wide<T>> ? kSign : 0);
      }
    }
  });
  return keys;
}

// The slices of `width` keys in their order, of equal ones the first first: by digits of 8 bits, the lowest of the last
// key first, without those that all slices share.
std::vector<int64_t> order_of(const std::vector<uint64_t>& keys, int64_t width) {
  struct Entry {
    uint64_t key;
    int64_t at;
  };
  constexpr int kDigits = 8, kValues = 256;
  const size_t n = keys.size() / size_t(width);
  std::vector<Entry> entries(n), sorted(n);
  std::vector<std::array<int64_t, kValues>> counts(kDigits);
  for (size_t i = 0; i < n; ++i) entries[i].at = int64_t(i);
  for (int64_t column = width - 1; column >= 0; --column) {
    for (auto& places : counts) places.fill(0);
    for (Entry& entry : entries) {
      entry.key = keys[size_t(entry.at * width + column)];
      for (int d = 0; d < kDigits; ++d) ++counts[size_t(d)][entry.key >> (8 * d) & 0xff];
    }
    for (int d = 0; d < kDigits; ++d) {
      std::array<int64_t, kValues>& places = counts[size_t(d)];
      if (std::ranges::find(places, int64_t(n)) != places.end()) continue;
      int64_t place = 0;
      for (int64_t& count : places) place += std::exchange(count, place);
      for (const Entry& entry : entries) sorted[size_t(places[entry.key >> (8 * d) & 0xff]++)] = entry;
      entries.swap(sorted);
    }
  }
  std::vector<int64_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = entries[i].at;
  return order;
}

Groups group(const Unique& op, const Tensor& x) {
  const int64_t n = op.axis < 0 ? x.count() : x.dims()[size_t(op.axis)];
  const int64_t inner = op.axis < 0 ? 1 : row_major_strides(x.dims())[size_t(op.axis)];
  const int64_t outer = n == 0 || op.axis < 0 ? 1 : x.count() / (n * std::max<int64_t>(inner, 1));
  const int64_t width = outer * inner;
  std::vector<uint64_t> keys = keys_of(x);
  if (outer > 1) {  // the elements of a slice side by side
    std::vector<uint64_t> together(keys.size());
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t k = 0; k < n; ++k)
        std::copy_n(&keys[size_t((o * n + k) * inner)], inner, &together[size_t(k * width + o * inner)]);
    keys.swap(together);
  }
  const auto slice = [&](int64_t k) { return std::span(keys).subspan(size_t(k * width), size_t(width)); };
  // Of fewer the counts cost more than comparing, and of wider ones all digits do.
  constexpr int64_t kWorthDigits = 1024, kWide = 32;
  std::vector<int64_t> order;
  if (n >= kWorthDigits && width > 0 && width <= kWide) {
    order = order_of(keys, width);
  } else {
    order.resize(size_t(n));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return std::ranges::lexicographical_compare(slice(a), slice(b)); });
  }
  Groups groups;
  groups.inverse.resize(size_t(n));
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || !std::ranges::equal(slice(order[i - 1]), slice(order[i]))) {
      groups.first.push_back(order[i]);
      groups.counts.push_back(0);
    }
    ++groups.counts.back();
    groups.inverse[size_t(order[i])] = int64_t(groups.first.size()) - 1;
  }
  if (op.sorted) return groups;
  std::vector<int64_t> by_first(groups.first.size()), place(groups.first.size());
  std::iota(by_first.begin(), by_first.end(), 0);
  std::sort(by_first.begin(), by_first.end(),
            [&](int64_t a, int64_t b) { return groups.first[size_t(a)] < groups.first[size_t(b)]; });
  Groups result;
  for (size_t i = 0; i < by_first.size(); ++i) {
    result.first.push_back(groups.first[size_t(by_first[i])]);
    result.counts.push_back(groups.counts[size_t(by_first[i])]);
    place[size_t(by_first[i])] = int64_t(i);
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

std::vector<Tensor> Unique::reference(std::span<const Tensor> inputs, std::span<const TensorType>) const {
  const Tensor& x = inputs[0];
  const Groups groups = group(*this, x);
  const int64_t n = axis < 0 ? x.count() : x.dims()[size_t(axis)], count = int64_t(groups.first.size());
  Dims dims{count};
  if (axis >= 0) dims = x.dims(), dims[size_t(axis)] = count;
  Tensor values(x.dtype(), dims);
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
