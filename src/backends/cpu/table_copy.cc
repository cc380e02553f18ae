// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/table_copy.h"

#include <cstring>

#include "base/threads.h"

namespace temper {

namespace {
constexpr int64_t kParallelBytes = 1 << 17;
}

TableCopy::TableCopy(const Dims& from, std::vector<Dims> tables, int64_t size) {
  Dims to = from;
  for (size_t axis = 0; axis < from.size(); ++axis)
    if (!tables[axis].empty()) to[axis] = int64_t(tables[axis].size());
  if (element_count(to) == 0) {
    outer_count_ = 0;
    return;
  }
  const Dims from_strides = row_major_strides(from), to_strides = row_major_strides(to);
  size_t last = from.size();  // one past the innermost axis with a table
  while (last > 0 && tables[last - 1].empty()) --last;
  if (last == 0) {
    runs_.push_back({0, 0, element_count(to) * size});
    return;
  }
  element_ = (last < from.size() ? to_strides[last - 1] : 1) * size;
  for (size_t axis = 0; axis + 1 < last; ++axis) {
    Axis a{to[axis], to_strides[axis] * size, {}};
    for (int64_t i = 0; i < to[axis]; ++i)
      a.from.push_back((tables[axis].empty() ? i : tables[axis][size_t(i)]) * from_strides[axis] * size);
    outer_count_ *= a.size;
    outer_.push_back(std::move(a));
  }
  const Dims& table = tables[last - 1];
  for (int64_t i = 0; i < int64_t(table.size()); ++i) {
    const int64_t at = table[size_t(i)] * element_;
    if (!runs_.empty() && runs_.back().from + runs_.back().bytes == at) runs_.back().bytes += element_;
    else runs_.push_back({at, i * element_, element_});
  }
  row_bytes_ = int64_t(table.size()) * element_;
}

void TableCopy::run(const void* from_base, void* to_base, int threads) const {
  auto copy_row = [&](const std::byte* from, std::byte* to) {
    auto fixed = [&]<class T>() {
      for (const Run& run : runs_) {
        if (run.bytes == int64_t(sizeof(T)))
          *reinterpret_cast<T*>(to + run.to) = *reinterpret_cast<const T*>(from + run.from);
        else std::memcpy(to + run.to, from + run.from, size_t(run.bytes));
      }
    };
    if (element_ == 4) fixed.template operator()<uint32_t>();
    else if (element_ == 1) fixed.template operator()<uint8_t>();
    else
      for (const Run& run : runs_) std::memcpy(to + run.to, from + run.from, size_t(run.bytes));
  };
  const int64_t grain = std::max<int64_t>(1, kParallelBytes / std::max<int64_t>(1, row_bytes_));
  parallel_for_threads(threads, outer_count_, grain, [&](int, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const std::byte* from = static_cast<const std::byte*>(from_base);
      std::byte* to = static_cast<std::byte*>(to_base);
      int64_t rest = i;
      for (size_t axis = outer_.size(); axis-- > 0; rest /= outer_[axis].size) {
        const int64_t index = rest % outer_[axis].size;
        from += outer_[axis].from[size_t(index)];
        to += index * outer_[axis].to;
      }
      copy_row(from, to);
    }
  });
}

}  // namespace temper
