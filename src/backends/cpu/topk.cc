// SPDX-License-Identifier: Apache-2.0
// topk on CPUs. An element is a number whose order is that of the result: its value as an ordered integer, and its
// place behind that. Only those that come before the k-th of what was seen so far are kept, in a buffer that is cut
// down to k when it is full; so a small k costs little more than one comparison for each element.
#include "graph/ops/topk.h"

#include <algorithm>
#include <bit>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/rows.h"
#include "base/threads.h"

namespace temper {

namespace {

constexpr int64_t kParallel = 16384;  // elements worth a thread
constexpr int64_t kRoom = 256;        // of the buffer beyond k, at least

// Ascending; NaN is the largest, and both zeros are equal.
template <class T>
auto ascending(T x) {
  if constexpr (std::is_integral_v<T>) {
    using Key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    using Held = std::conditional_t<sizeof(T) == 8, T, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>>;
    return Key(Key(Held(x)) ^ (std::is_signed_v<T> ? Key(1) << (sizeof(Key) * 8 - 1) : Key(0)));
  } else {
    using Float = std::conditional_t<sizeof(T) == 8, double, float>;
    using Key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    const Float held = static_cast<Float>(x) + Float(0);  // -0 becomes 0
    const Key bits = std::bit_cast<Key>(held), sign = Key(0) - (bits >> (sizeof(Key) * 8 - 1));
    return held != held ? ~Key(0) : Key(bits ^ (sign | Key(1) << (sizeof(Key) * 8 - 1)));
  }
}

// Sorts by key, then by place. Elements of 4 bytes and less make one number of both.
struct Wider {
  uint64_t key = 0;
  int64_t place = 0;
  bool operator<(const Wider& other) const { return key != other.key ? key < other.key : place < other.place; }
};
template <class T>
using Entry = std::conditional_t<sizeof(T) == 8, Wider, uint64_t>;
int64_t place_of(uint64_t entry) { return int64_t(entry & 0xffffffff); }
int64_t place_of(const Wider& entry) { return entry.place; }

class TopKKernel final : public Kernel {
 public:
  TopKKernel(const Problem& problem, const ops::TopK& op)
      : dtype_(problem.inputs[0].type.dtype),
        largest_(op.largest),
        view_(*row_view(problem.inputs[0].dims(), Layout::plain, {op.axis})),
        k_(problem.outputs[0].dims()[size_t(op.axis)]),
        room_(std::min(view_.n, k_ + std::max(k_, kRoom))),
        threads_(problem.threads) {
    scratch_.resize(size_t(std::max(1, threads_)) * size_t(room_ * entry_bytes()));
  }

  void launch(const Buffers& buffers) override {
    if (k_ == 0) return;
    visit_dtype(dtype_, [&]<class T>() {
      const T* x = static_cast<const T*>(buffers.inputs[0]);
      T* values = static_cast<T*>(buffers.outputs[0]);
      int64_t* indices = static_cast<int64_t*>(buffers.outputs[1]);
      parallel_for_threads(
          threads_, view_.outer * view_.inner, std::max<int64_t>(1, kParallel / view_.n),
          [&](int member, int64_t begin, int64_t end) {
            auto* entries =
                reinterpret_cast<Entry<T>*>(scratch_.data() + size_t(member) * size_t(room_ * entry_bytes()));
            for (int64_t row = begin; row < end; ++row) {
              const int64_t outer = row / view_.inner, beside = row % view_.inner;
              const T* from = x + outer * view_.n * view_.inner + beside;
              if (k_ == 1) entries[0] = best(from);
              else choose(from, entries);
              for (int64_t i = 0, to = outer * k_ * view_.inner + beside; i < k_; ++i, to += view_.inner) {
                const int64_t place = place_of(entries[i]);
                values[to] = from[place * view_.inner];
                indices[to] = place;
              }
            }
          });
    });
  }

 private:
  int64_t entry_bytes() const { return size_of(dtype_) == 8 ? int64_t(sizeof(Wider)) : 8; }

  template <class T>
  Entry<T> entry_of(const T* from, int64_t i) const {
    using Key = decltype(ascending(T()));
    const Key key = Key(ascending(from[i * view_.inner]) ^ (largest_ ? ~Key(0) : Key(0)));
    if constexpr (sizeof(T) == 8) return {key, i};
    else return uint64_t(key) << 32 | uint64_t(i);
  }

  // The first of a row.
  template <class T>
  Entry<T> best(const T* from) const {
    Entry<T> found = entry_of(from, 0);
    Entry<T>* const result = &found;
    const auto search = [=, this] {
      Entry<T> least = *result;
      for (int64_t i = 1; i < view_.n; ++i) least = std::min(least, entry_of(from, i));
      *result = least;
    };
    if constexpr (std::is_same_v<T, float>) vectorised(search);
    else search();
    return found;
  }

  // The first k of a row, in order.
  template <class T>
  void choose(const T* from, Entry<T>* entries) const {
    int64_t count = 0;
    bool full = false;
    Entry<T> last{};
    for (int64_t i = 0; i < view_.n; ++i) {
      const Entry<T> entry = entry_of(from, i);
      if (full && !(entry < last)) continue;
      entries[count++] = entry;
      if (count < room_ || i + 1 == view_.n) continue;
      std::nth_element(entries, entries + (k_ - 1), entries + count);
      last = entries[k_ - 1];
      full = true;
      count = k_;
    }
    if (count > k_) std::nth_element(entries, entries + (k_ - 1), entries + count);
    std::sort(entries, entries + k_);
  }

  DType dtype_;
  bool largest_;
  RowView view_;
  int64_t k_, room_;
  int threads_;
  AlignedBytes scratch_;
};

Support supports(const Problem& problem, const Device&) {
  if (Support needs = needs_op<ops::TopK>(problem); !needs.yes()) return needs;
  if (problem.inputs.size() > 1 && problem.inputs[1].present) return refused("its k is data");
  if (element_count(problem.inputs[0].dims()) > int64_t(0xffffffff)) return refused("more than 4294967295 elements");
  return supported();
}
std::vector<Config> configs(const Problem& problem, const Device&) { return {uniform_config(problem, Layout::plain)}; }
std::unique_ptr<Kernel> load(const Problem& problem, const Config&, const PackedView&, const Device&) {
  return std::make_unique<TopKKernel>(problem, problem.op.get<ops::TopK>());
}

}  // namespace

extern const Tactic cpu_topk;
const Tactic cpu_topk{"cpu.topk", 2, supports, configs, nullptr, load};

}  // namespace temper
