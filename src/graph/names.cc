// SPDX-License-Identifier: Apache-2.0
#include "graph/names.h"

#include <algorithm>

#include "base/parse.h"

namespace temper {

void Names::insert(Place place) {
  if (3 * (count_ + 1) > 2 * places_.size()) {
    std::vector<Place> before(std::max<size_t>(16, 2 * places_.size()));
    before.swap(places_);
    for (const Place& old : before) {
      if (old.value == kNone) continue;
      size_t at = first_place(old.hash);
      while (places_[at].value != kNone) at = next_place(at);
      places_[at] = old;
    }
  }
  size_t at = first_place(place.hash);
  while (places_[at].value != kNone) at = next_place(at);
  places_[at] = place;
  ++count_;
}

size_t Names::place_of(std::string_view name, int32_t value) const {
  size_t at = first_place(hash_of(name));
  while (places_[at].value != value) at = next_place(at);
  return at;
}

void Names::add(std::string_view name, int32_t value) { insert({hash_of(name), value}); }

void Names::swap(std::string_view a_name, int32_t a, std::string_view b_name, int32_t b) {
  const size_t place_a = place_of(a_name, a), place_b = place_of(b_name, b);
  std::swap(places_[place_a].value, places_[place_b].value);
}

void Names::free_number(const std::string& name) {
  if (next_numbers_.empty()) return;
  next_numbers_.erase(name);
  const size_t dot = name.rfind('.');
  if (dot == name.npos) return;
  const int32_t number = parse_number<int32_t>(std::string_view(name).substr(dot + 1)).value_or(0);
  if (number < 1) return;
  if (const auto base = next_numbers_.find(name.substr(0, dot)); base != next_numbers_.end())
    base->second = std::min(base->second, number);
}

}  // namespace temper
