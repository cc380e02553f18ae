// SPDX-License-Identifier: Apache-2.0
#include "quantize/search.h"

#include <algorithm>

namespace temper {

LayerSearch search_layers(const std::vector<std::string>& layers, double max_drop, const std::function<Loss(const std::set<std::string>&)>& try_keeping) {
  LayerSearch search;
  const auto tried = [&](const std::set<std::string>& keep) {
    ++search.trials;
    return try_keeping(keep);
  };
  search.all = search.loss = tried({});
  search.holds = search.all.drop <= max_drop;
  for (const std::string& layer : layers) search.layers.push_back({layer, {}, false});
  if (search.holds) return search;

  for (LayerLoss& row : search.layers) {
    std::set<std::string> others(layers.begin(), layers.end());
    others.erase(row.layer);
    row.alone = tried(others);
  }
  std::stable_sort(search.layers.begin(), search.layers.end(), [](const LayerLoss& a, const LayerLoss& b) {
    return a.alone.noise != b.alone.noise ? a.alone.noise > b.alone.noise : a.alone.drop > b.alone.drop;
  });
  const auto worst = [&](size_t count) {
    std::set<std::string> keep;
    for (size_t i = 0; i < count; ++i) keep.insert(search.layers[i].layer);
    return keep;
  };
  // Raising `low` of them does not hold, raising `high` does (or is all of them).
  size_t low = 0, high = layers.size();
  Loss best = tried(worst(high));
  search.holds = best.drop <= max_drop;
  while (search.holds && high - low > 1) {
    const size_t middle = (low + high) / 2;
    const Loss loss = tried(worst(middle));
    if (loss.drop <= max_drop) high = middle, best = loss;
    else low = middle;
  }
  search.loss = best;
  search.keep = worst(high);
  for (size_t i = 0; i < high; ++i) search.layers[i].raised = true;
  return search;
}

}  // namespace temper
