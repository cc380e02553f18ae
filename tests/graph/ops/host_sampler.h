// SPDX-License-Identifier: Apache-2.0
// Chooses a token in doubles, in the words of transformers: a judge of ops::Sample that shares nothing with it.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include "runtime/sample.h"

namespace temper::testing {

inline int64_t sample_on_host(std::vector<float> logits, const std::vector<int64_t>& seen, const SampleOptions& options,
                              double draw) {
  for (const int64_t token : std::set<int64_t>(seen.begin(), seen.end())) {
    float& logit = logits.at(size_t(token));
    const auto penalty = float(options.repetition_penalty);
    logit = logit > 0 ? logit / penalty : logit * penalty;
  }
  const auto best = std::max_element(logits.begin(), logits.end());
  if (options.temperature == 0) return best - logits.begin();
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const bool cuts = (options.top_k > 0 && options.top_k < int64_t(logits.size())) || options.top_p < 1;
  if (cuts)
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return logits[size_t(a)] > logits[size_t(b)]; });
  if (options.top_k > 0) order.resize(std::min(order.size(), size_t(options.top_k)));
  std::vector<double> weights;
  for (const int64_t token : order)
    weights.push_back(std::exp((double(logits[size_t(token)]) - double(*best)) / options.temperature));
  double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (options.top_p < 1) {
    double sum = 0;
    size_t end = 0;
    while (end < weights.size() && sum < options.top_p * all) sum += weights[end++];
    all = sum;
  }
  double sum = 0;
  for (size_t i = 0; i < order.size(); ++i)
    if (sum += weights[i]; sum > draw * all) return order[i];
  return order[0];
}

}  // namespace temper::testing
