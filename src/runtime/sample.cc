// SPDX-License-Identifier: Apache-2.0
#include "runtime/sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace temper {

void check(const SampleOptions& options) {
  if (!(options.temperature >= 0 && std::isfinite(options.temperature)))
    fail(ErrorKind::usage, "the temperature is ", options.temperature, "; it is a number from 0 on");
  if (options.top_k < 0) fail(ErrorKind::usage, "top-k is ", options.top_k, "; it is a number of tokens, or 0 for all");
  if (!(options.top_p > 0 && options.top_p <= 1))
    fail(ErrorKind::usage, "top-p is ", options.top_p, "; it is above 0 and at most 1");
  if (!(options.repetition_penalty > 0 && std::isfinite(options.repetition_penalty)))
    fail(ErrorKind::usage, "the repetition penalty is ", options.repetition_penalty, "; it is a number above 0");
}

void expect_number(std::span<const float> logits, int64_t best) {
  const float logit = logits[size_t(best)];
  if (std::isnan(logit)) fail(ErrorKind::bad_file, "the model's logit of token ", best, " is NaN");
  if (std::isinf(logit)) fail(ErrorKind::bad_file, "the largest of the model's ", logits.size(), " logits is infinite");
}

Sampler::Sampler(const SampleOptions& options, int64_t row)
    : options_(options), random_(options.seed + 0x9e3779b97f4a7c15u * uint64_t(row)) {
  check(options);
}

int64_t Sampler::choose(std::span<const float> logits, std::span<const int64_t> seen) {
  if (options_.repetition_penalty != 1 && !seen.empty()) {
    logits_.assign(logits.begin(), logits.end());
    const auto penalty = float(options_.repetition_penalty);
    std::vector<int64_t> each(seen.begin(), seen.end());
    std::sort(each.begin(), each.end());
    each.erase(std::unique(each.begin(), each.end()), each.end());
    for (const int64_t token : each) {
      float& logit = logits_.at(size_t(token));
      logit = logit > 0 ? logit / penalty : logit * penalty;
    }
    logits = logits_;
  }
  const auto count = int64_t(logits.size());
  if (count == 0) fail(ErrorKind::bad_file, "the model gives no logits");
  int64_t best = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (std::isnan(logits[size_t(i)])) {
      best = i;
      break;
    }
    if (logits[size_t(i)] > logits[size_t(best)]) best = i;
  }
  expect_number(logits, best);
  if (options_.temperature == 0 || options_.top_k == 1) return best;

  // The largest come first, as many as are needed.
  order_.resize(size_t(count));
  std::iota(order_.begin(), order_.end(), 0);
  const auto larger = [&](int64_t a, int64_t b) {
    const float x = logits[size_t(a)], y = logits[size_t(b)];
    return x > y || (x == y && a < b);
  };
  const int64_t kept = options_.top_k > 0 ? std::min(options_.top_k, count) : count;
  int64_t sorted = 0;
  const auto sort_to = [&](int64_t end) {
    end = std::min(end, count);
    if (end < count) std::nth_element(order_.begin() + sorted, order_.begin() + end, order_.end(), larger);
    std::sort(order_.begin() + sorted, order_.begin() + end, larger);
    sorted = end;
  };
  const bool orders = options_.top_p < 1 || kept < count;  // all tokens by themselves need no order
  if (orders) sort_to(kept < count ? kept : 256);
  const double most = logits[size_t(best)];
  const auto weight = [&](int64_t i) {
    return std::exp((double(logits[size_t(order_[size_t(i)])]) - most) / options_.temperature);
  };
  weights_.resize(size_t(kept));
  double all = 0;
  if (!orders || kept < count) {
    for (int64_t i = 0; i < kept; ++i) all += weights_[size_t(i)] = weight(i);
  } else {
    for (const float logit : logits) all += std::exp((double(logit) - most) / options_.temperature);
  }
  int64_t end = kept;
  if (options_.top_p < 1) {
    double sum = 0;
    for (end = 0; end < kept && sum < options_.top_p * all; ++end) {
      if (end == sorted) sort_to(4 * sorted);
      sum += weights_[size_t(end)] = weight(end);
    }
    all = sum;
  }
  const double drawn = double(random_() >> 11) * 0x1p-53 * all;
  double sum = 0;
  for (int64_t i = 0; i < end; ++i)
    if (sum += weights_[size_t(i)]; drawn < sum) return order_[size_t(i)];
  // What rounding left over belongs to the last that has a weight.
  while (end > 1 && weights_[size_t(end - 1)] == 0) --end;
  return order_[size_t(end - 1)];
}

}  // namespace temper
