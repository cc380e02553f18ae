// SPDX-License-Identifier: Apache-2.0
// A map by the shapes of inputs that knows which of them was not used for longest.
#pragma once
#include <list>
#include <map>
#include <optional>
#include <vector>

#include "graph/tensor.h"

namespace temper {

template <class Value>
class RecentShapes {
 public:
  using Shapes = std::vector<Dims>;

  // Null where there is nothing for these shapes. What is found counts as used now. Allocates nothing.
  Value* find(const Shapes& shapes) {
    const auto it = items_.find(shapes);
    if (it == items_.end()) return nullptr;
    if (!it->second.always) order_.splice(order_.begin(), order_, it->second.at);
    return &it->second.value;
  }
  // In the place of what was there. `always`: take_oldest() leaves it.
  Value& put(const Shapes& shapes, Value value, bool always = false) {
    auto [it, fresh] = items_.try_emplace(shapes);
    if (!fresh && !it->second.always) order_.erase(it->second.at);
    it->second.value = std::move(value);
    it->second.always = always;
    if (!always) it->second.at = order_.insert(order_.begin(), it);
    return it->second.value;
  }
  // Takes out the one that was not used for longest; nothing where only one is left, the one in use.
  std::optional<Value> take_oldest() {
    if (order_.size() < 2) return std::nullopt;
    Value value = std::move(order_.back()->second.value);
    items_.erase(order_.back());
    order_.pop_back();
    return value;
  }
  size_t size() const { return items_.size(); }
  size_t removable() const { return order_.size(); }
  // Calls f(value) in the order of the shapes.
  template <class F>
  void each(F&& f) const {
    for (const auto& [shapes, item] : items_) f(item.value);
  }

 private:
  struct Item;
  using Items = std::map<Shapes, Item>;
  struct Item {
    Value value;
    bool always = false;
    typename std::list<typename Items::iterator>::iterator at;
  };
  Items items_;
  std::list<typename Items::iterator> order_;  // the latest first
};

}  // namespace temper
