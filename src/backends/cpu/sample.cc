// SPDX-License-Identifier: Apache-2.0
// sample on CPUs: of the order of all tokens only as much is made as is drawn from.
#include "graph/ops/sample.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "backends/cpu/arg_reduce.h"
#include "backends/cpu/cpu.h"
#include "base/threads.h"

namespace temper {

namespace {

namespace sampling = ops::sampling;

constexpr int64_t kParallel = 4096;  // weights worth a thread
constexpr int64_t kFirst = 256;      // tokens that are ordered at first

class SampleKernel final : public Kernel {
 public:
  explicit SampleKernel(const Problem& problem)
      : batch_(problem.inputs[0].dims()[0]),
        vocabulary_(problem.inputs[0].dims()[1]),
        positions_(problem.inputs[1].dims()[1]),
        threads_(problem.threads),
        bits_(sampling::weight_bits(vocabulary_)) {}

  // For each token a number of 8 bytes, and a logit; for each thread a sum.
  int64_t workspace() const override { return 8 * vocabulary_ + 8 * std::max(1, threads_) + 4 * vocabulary_; }

  void launch(const Buffers& buffers) override {
    const auto* logits = static_cast<const float*>(buffers.inputs[0]);
    const auto *tokens = static_cast<const int64_t*>(buffers.inputs[1]),
               *lengths = static_cast<const int64_t*>(buffers.inputs[2]);
    const auto *settings = static_cast<const double*>(buffers.inputs[3]),
               *draws = static_cast<const double*>(buffers.inputs[4]);
    numbers_ = static_cast<uint64_t*>(buffers.workspace), sums_ = numbers_ + vocabulary_;
    auto* penalised = reinterpret_cast<float*>(sums_ + std::max(1, threads_));
    for (int64_t b = 0; b < batch_; ++b) {
      const double* set = settings + b * sampling::kSettings;
      x_ = logits + b * vocabulary_;
      const int64_t *seen = tokens + b * positions_, count = std::clamp<int64_t>(lengths[b], 0, positions_);
      if (sampling::penalises(set[3]) && count > 0) {
        std::copy_n(x_, vocabulary_, penalised);
        for (int64_t i = 0; i < count; ++i)
          if (seen[i] >= 0 && seen[i] < vocabulary_) penalised[seen[i]] = sampling::penalised(x_[seen[i]], set[3]);
        x_ = penalised;
      }
      const int64_t best = arg_of_row(x_, vocabulary_, true, false);
      const float most = x_[best];
      const auto flaw = most != most ? sampling::kNan : most - most != 0.0f ? sampling::kInfinite : sampling::kNone;
      const int64_t kept = sampling::kept_of(set[1], vocabulary_);
      static_cast<int64_t*>(buffers.outputs[1])[b] = flaw;
      static_cast<int64_t*>(buffers.outputs[0])[b] =
          flaw != sampling::kNone || !(set[0] > 0) || kept == 1
              ? best
              : draw(best, sampling::scale_of(set[0]), kept, set[2],
                     sampling::draw_of(draws[b * positions_ + sampling::draw_at(lengths[b], positions_)]));
    }
  }

 private:
  // Of the row in launch().
  int64_t draw(int64_t best, double scale, int64_t kept, double top_p, double drawn) {
    const double most = x_[best];
    const auto weight = [&](int64_t token) { return sampling::weight_of((double(x_[token]) - most) * scale, bits_); };
    if (kept == vocabulary_ && !(top_p < 1)) {
      const double at = drawn * double(sum_of_all(weight, true));
      uint64_t sum = 0;
      for (int64_t i = 0; i < vocabulary_; ++i)
        if (sum += numbers_[i]; double(sum) > at) return i;
      return best;
    }
    uint64_t all = kept == vocabulary_ ? sum_of_all(weight, false) : 0;
    // The largest come first, as many as are needed.
    int64_t sorted = kept < vocabulary_ ? kept : std::min(kFirst, vocabulary_);
    sort_first(sorted);
    const auto sort_more = [&] { sort_first(sorted = std::min(4 * sorted, vocabulary_)); };
    const auto weight_at = [&](int64_t i) { return weight(sampling::token_of(numbers_[i])); };
    if (kept < vocabulary_)
      for (int64_t i = 0; i < kept; ++i) all += weight_at(i);
    if (top_p < 1) {
      uint64_t sum = 0;
      for (int64_t i = 0; i < kept; ++i) {
        if (i == sorted) sort_more();
        if (sum += weight_at(i); double(sum) >= top_p * double(all)) break;
      }
      all = sum;
    }
    const double at = drawn * double(all);
    uint64_t sum = 0;
    for (int64_t i = 0; i < kept; ++i) {
      if (i == sorted) sort_more();
      if (sum += weight_at(i); double(sum) > at) return sampling::token_of(numbers_[i]);
    }
    return best;
  }

  // The ranks of so many of the largest to numbers_, in order. Few are found without the others being moved: only what
  // comes before the last of them so far is kept, in a buffer that is cut down when it is full.
  void sort_first(int64_t count) {
    const int64_t room = 2 * count + kFirst;
    if (room > vocabulary_) {
      for (int64_t i = 0; i < vocabulary_; ++i) numbers_[i] = sampling::rank_of(x_[i], i);
      if (count < vocabulary_) std::nth_element(numbers_, numbers_ + count, numbers_ + vocabulary_, std::greater<>());
    } else {
      int64_t held = 0;
      float least = -std::numeric_limits<float>::infinity();
      for (int64_t i = 0; i < vocabulary_; ++i) {
        if (x_[i] < least) continue;
        numbers_[held++] = sampling::rank_of(x_[i], i);
        if (held < room && i + 1 < vocabulary_) continue;
        std::nth_element(numbers_, numbers_ + count - 1, numbers_ + held, std::greater<>());
        held = count;
        least = x_[sampling::token_of(numbers_[count - 1])];
      }
      if (held > count) std::nth_element(numbers_, numbers_ + count - 1, numbers_ + held, std::greater<>());
    }
    std::sort(numbers_, numbers_ + count, std::greater<>());
  }

  template <class Weight>
  uint64_t sum_of_all(const Weight& weight, bool keeps) {
    std::fill_n(sums_, std::max(1, threads_), 0);
    parallel_for_threads(threads_, vocabulary_, kParallel, [&](int member, int64_t begin, int64_t end) {
      uint64_t sum = 0;
      for (int64_t i = begin; i < end; ++i) {
        const uint64_t w = weight(i);
        if (keeps) numbers_[i] = w;
        sum += w;
      }
      sums_[member] = sum;
    });
    uint64_t all = 0;
    for (int i = 0; i < std::max(1, threads_); ++i) all += sums_[i];
    return all;
  }

  int64_t batch_, vocabulary_, positions_;
  int threads_, bits_;
  uint64_t *numbers_ = nullptr, *sums_ = nullptr;  // in the workspace
  const float* x_ = nullptr;
};

Support supports(const Problem& problem, const Device&) { return needs_op<ops::Sample>(problem); }
std::vector<Config> configs(const Problem& problem, const Device&) { return {uniform_config(problem, Layout::plain)}; }
std::unique_ptr<Kernel> load(const Problem& problem, const Config&, const PackedView&, const Device&) {
  return std::make_unique<SampleKernel>(problem);
}

}  // namespace

extern const Tactic cpu_sample;
const Tactic cpu_sample{"cpu.sample", 1, supports, configs, nullptr, load};

}  // namespace temper
