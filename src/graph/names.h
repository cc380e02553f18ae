// SPDX-License-Identifier: Apache-2.0
// The names of a graph's values, each once. They lie in the values alone: this finds the value that has one.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace temper {

class Names {
 public:
  static constexpr int32_t kNone = -1;

  // The value that has the name; kNone where none has. `name_of(v)` is the name of value v.
  template <class NameOf>
  int32_t find(std::string_view name, const NameOf& name_of) const {
    const uint32_t hash = hash_of(name);
    for (size_t at = first_place(hash); !places_.empty() && places_[at].value != kNone; at = next_place(at))
      if (places_[at].hash == hash && name_of(places_[at].value) == name) return places_[at].value;
    return kNone;
  }
  // `value` has a name that no other value has.
  void add(std::string_view name, int32_t value);
  // Two values exchange their names, which are `a_name` and `b_name`.
  void swap(std::string_view a_name, int32_t a, std::string_view b_name, int32_t b);
  // Values become others: value v is to_new(v) from now on, or gone where that is kNone.
  template <class ToNew>
  void renumber(const ToNew& to_new) {
    // As many places as before: those come in the order of their hashes, and would fill the beginning of fewer.
    std::vector<Place> before(places_.size());
    before.swap(places_);
    count_ = 0;
    for (const Place& place : before)
      if (const int32_t value = place.value == kNone ? kNone : to_new(place.value); value != kNone)
        insert({place.hash, value});
  }

  // The number to try next where the name is wanted again ("x.1", "x.2", ...). Every number below is taken.
  int32_t& next_number(const std::string& name) { return next_numbers_.try_emplace(name, 1).first->second; }
  // A name is free again, and so is its number where it is "x.3": who wants "x" next gets it.
  void free_number(const std::string& name);

 private:
  struct Place {
    uint32_t hash = 0;
    int32_t value = kNone;
  };
  std::vector<Place> places_;  // a power of two of them, at least a third of which is free
  size_t count_ = 0;
  std::unordered_map<std::string, int32_t> next_numbers_;  // where it is not 1

  static uint32_t hash_of(std::string_view name) {
    const size_t hash = std::hash<std::string_view>()(name);
    return uint32_t(hash ^ hash >> 32);
  }
  size_t first_place(uint32_t hash) const { return hash & (places_.size() - 1); }
  size_t next_place(size_t at) const { return (at + 1) & (places_.size() - 1); }
  void insert(Place place);
  size_t place_of(std::string_view name, int32_t value) const;
};

}  // namespace temper
