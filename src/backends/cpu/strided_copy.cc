// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/isa.h"
#include "backends/cpu/transpose_tiles.h"
#include "base/threads.h"

namespace temper {

namespace {

constexpr int64_t kParallelBytes = 1 << 17;
constexpr size_t kMaxAxes = 64;

int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

template <class T>
void copy_strided(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride, int64_t n) {
  if (from_stride == 0 && to_stride == int64_t(sizeof(T))) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    T* out = reinterpret_cast<T*>(to);
    for (int64_t i = 0; i < n; ++i) out[i] = value;
    return;
  }
  for (int64_t i = 0; i < n; ++i)
    *reinterpret_cast<T*>(to + i * to_stride) = *reinterpret_cast<const T*>(from + i * from_stride);
}

void copy_runs(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride, int64_t n, int64_t run) {
  auto fixed = [&]<int64_t bytes>() {
    for (int64_t i = 0; i < n; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, bytes);
  };
  switch (run) {
    case 2: return fixed.template operator()<2>();
    case 4: return fixed.template operator()<4>();
    case 8: return fixed.template operator()<8>();
    case 16: return fixed.template operator()<16>();
    case 32: return fixed.template operator()<32>();
    case 64: return fixed.template operator()<64>();
    default:
      for (int64_t i = 0; i < n; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, size_t(run));
  }
}

// rows x columns: `from` is contiguous along columns and `from_stride` bytes from row to row; `to` contiguous along
// rows.
template <class T>
void transpose(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride, int64_t rows,
               int64_t columns) {
  constexpr int64_t tile = sizeof(T) == 1 ? 32 : 16;
  for (int64_t r = 0; r < rows; r += tile)
    for (int64_t c = 0; c < columns; c += tile) {
      const int64_t h = std::min(tile, rows - r), w = std::min(tile, columns - c);
      for (int64_t j = 0; j < w; ++j) {
        T* out = reinterpret_cast<T*>(to + (c + j) * to_stride) + r;
        const std::byte* in = from + r * from_stride + (c + j) * int64_t(sizeof(T));
        for (int64_t i = 0; i < h; ++i) out[i] = *reinterpret_cast<const T*>(in + i * from_stride);
      }
    }
}

void transpose_words(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride, int64_t rows,
                     int64_t columns) {
  const int64_t whole_rows = rows / 8 * 8, whole_columns = columns / 8 * 8;
  vectorised([=] {
    // Panels of 64 columns: a panel of the output stays in the cache while its rows are filled.
    for (int64_t panel = 0; panel < whole_columns; panel += 64)
      for (int64_t r = 0; r < whole_rows; r += 8)
        for (int64_t c = panel; c < std::min(panel + 64, whole_columns); c += 8)
          transpose_8x8(from + r * from_stride + c * 4, from_stride, to + c * to_stride + r * 4, to_stride);
  });
  if (whole_columns < columns)
    transpose<uint32_t>(from + whole_columns * 4, from_stride, to + whole_columns * to_stride, to_stride, rows,
                        columns - whole_columns);
  if (whole_rows < rows)
    transpose<uint32_t>(from + whole_rows * from_stride, from_stride, to + whole_rows * 4, to_stride, rows - whole_rows,
                        whole_columns);
}

}  // namespace

StridedCopy::StridedCopy(const Dims& sizes, const Dims& from, const Dims& to, int64_t size)
    : size_(size), count_(element_count(sizes)) {
  std::vector<Axis> axes;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] != 1) axes.push_back({sizes[i], from[i] * size, to[i] * size});
  // In the order of the output's memory; neighbours that both sides walk as one become one.
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& a, const Axis& b) { return magnitude(a.to) > magnitude(b.to); });
  std::vector<Axis> merged;
  for (const Axis& axis : axes) {
    if (!merged.empty() && merged.back().from == axis.from * axis.size && merged.back().to == axis.to * axis.size) {
      merged.back() = {merged.back().size * axis.size, axis.from, axis.to};
    } else merged.push_back(axis);
  }
  if (count_ == 0) return;
  if (merged.empty()) merged.push_back({1, size, size});
  const Axis last = merged.back();
  if (last.from == size && last.to == size) {
    run_ = last.size * size;
    merged.pop_back();
    if (merged.empty()) {  // one long run: cut so that threads can share it
      const int64_t piece = 1 << 16, pieces = run_ / piece;
      if (pieces > 1 && run_ % piece == 0) {
        merged.push_back({pieces, piece, piece});
        run_ = piece;
      } else merged.push_back({1, run_, run_});
    }
    inner_.push_back(merged.back());
    merged.pop_back();
  } else {
    merged.pop_back();
    inner_.push_back(last);
    const auto across = std::find_if(merged.begin(), merged.end(), [&](const Axis& a) { return a.from == size; });
    if (last.to == size && last.from != 0 && across != merged.end()) {
      inner_.push_back(*across);
      merged.erase(across);
    }
  }
  if (merged.size() >= kMaxAxes) fail(ErrorKind::unsupported, "a copy over ", merged.size(), " axes");
  outer_ = std::move(merged);
  // Long inner loops are cut, so that threads can share them and panels stay in the cache.
  Axis& longest = inner_.size() > 1 && inner_[1].size >= inner_[0].size ? inner_[1] : inner_[0];
  int64_t outer = 1;
  for (const Axis& axis : outer_) outer *= axis.size;
  for (int64_t piece : {int64_t(512), int64_t(64), int64_t(49), int64_t(56), int64_t(16)})
    if (outer < 16 && count_ * size_ > kParallelBytes && longest.size > piece && longest.size % piece == 0) {
      outer_.push_back({longest.size / piece, longest.from * piece, longest.to * piece});
      longest.size = piece;
      break;
    }
  for (const Axis& axis : outer_) outer_count_ *= axis.size;
}

void StridedCopy::run_inner(const std::byte* from, std::byte* to) const {
  const Axis& a = inner_[0];
  if (run_) return copy_runs(from, a.from, to, a.to, a.size, run_);
  if (inner_.size() == 2) {
    const Axis& across = inner_[1];
    switch (size_) {
      case 1: return transpose<uint8_t>(from, a.from, to, across.to, a.size, across.size);
      case 2: return transpose<uint16_t>(from, a.from, to, across.to, a.size, across.size);
      case 4: return transpose_words(from, a.from, to, across.to, a.size, across.size);
      default: return transpose<uint64_t>(from, a.from, to, across.to, a.size, across.size);
    }
  }
  switch (size_) {
    case 1: return copy_strided<uint8_t>(from, a.from, to, a.to, a.size);
    case 2: return copy_strided<uint16_t>(from, a.from, to, a.to, a.size);
    case 4: return copy_strided<uint32_t>(from, a.from, to, a.to, a.size);
    default: return copy_strided<uint64_t>(from, a.from, to, a.to, a.size);
  }
}

void StridedCopy::run_outer(const std::byte* from, std::byte* to, int64_t begin, int64_t end) const {
  int64_t index[kMaxAxes] = {};
  int64_t rest = begin;
  for (size_t axis = outer_.size(); axis-- > 0; rest /= outer_[axis].size) {
    index[axis] = rest % outer_[axis].size;
    from += index[axis] * outer_[axis].from;
    to += index[axis] * outer_[axis].to;
  }
  for (int64_t i = begin; i < end; ++i) {
    run_inner(from, to);
    for (size_t axis = outer_.size(); axis-- > 0;) {
      from += outer_[axis].from;
      to += outer_[axis].to;
      if (++index[axis] < outer_[axis].size) break;
      from -= outer_[axis].size * outer_[axis].from;
      to -= outer_[axis].size * outer_[axis].to;
      index[axis] = 0;
    }
  }
}

void StridedCopy::run(const std::byte* from, std::byte* to, int threads) const {
  if (count_ == 0) return;
  const int64_t each = std::max<int64_t>(1, count_ * size_ / outer_count_);
  parallel_for_threads(threads, outer_count_, std::max<int64_t>(1, kParallelBytes / each),
                       [&](int, int64_t begin, int64_t end) { run_outer(from, to, begin, end); });
}

}  // namespace temper
