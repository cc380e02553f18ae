// SPDX-License-Identifier: Apache-2.0
#include "quantize/search.h"

#include <algorithm>
#include <bit>

namespace temper {

LayerSearch search_layers(const std::vector<std::string>& layers, std::optional<DType> half,
                          const std::function<Loss(const KeptNodes&)>& try_keeping) {
  LayerSearch search;
  const auto tried = [&](const KeptNodes& keep) {
    ++search.trials;
    return try_keeping(keep);
  };
  search.all = search.loss = tried({});
  search.holds = search.all.holds;
  for (const std::string& layer : layers) search.layers.push_back({layer, {}, DType::i8});
  if (search.holds) return search;

  KeptNodes others;
  for (const std::string& layer : layers) others[layer] = DType::f32;
  search.keep = others;
  for (LayerLoss& row : search.layers) {
    others.erase(row.layer);
    row.alone = tried(others);
    others[row.layer] = DType::f32;
  }
  std::stable_sort(search.layers.begin(), search.layers.end(), [](const LayerLoss& a, const LayerLoss& b) {
    return a.alone.noise != b.alone.noise ? a.alone.noise > b.alone.noise : a.alone.drop > b.alone.drop;
  });
  // The first `wide` layers in f32, those up to `raised` in 16 bits.
  const auto kept = [&](size_t wide, size_t raised) {
    KeptNodes keep;
    for (size_t i = 0; i < raised; ++i)
      keep[search.layers[i].layer] = i < wide ? DType::f32 : half.value_or(DType::f32);
    return keep;
  };
  // The smallest count above `low` that holds, by bisection; `high` is known to.
  const auto fewest = [&](size_t low, size_t high, const std::function<KeptNodes(size_t)>& candidate) {
    while (high - low > 1) {
      const size_t middle = (low + high) / 2;
      const KeptNodes keep = candidate(middle);
      if (const Loss loss = tried(keep); loss.holds) high = middle, search.loss = loss, search.keep = keep;
      else low = middle;
    }
    return high;
  };
  search.loss = tried(search.keep);
  search.holds = search.loss.holds;
  if (search.holds) {
    const size_t raised = fewest(0, layers.size(), [&](size_t count) { return kept(count, count); });
    if (half) {
      const KeptNodes none_wide = kept(0, raised);
      if (const Loss loss = tried(none_wide); loss.holds) search.loss = loss, search.keep = none_wide;
      else fewest(0, raised, [&](size_t wide) { return kept(wide, raised); });
    }
  }
  for (LayerLoss& row : search.layers)
    if (const auto it = search.keep.find(row.layer); it != search.keep.end()) row.decision = it->second;
  return search;
}

int64_t most_trials(size_t layers, bool half) {
  const int64_t bisection = int64_t(std::bit_width(layers));  // at least log2, rounded up
  // All of them, each alone, none, how many; then all that are raised in 16 bits, how many of those not.
  return 1 + int64_t(layers) + 1 + bisection + (half ? 1 + bisection : 0);
}

}  // namespace temper
