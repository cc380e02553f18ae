// SPDX-License-Identifier: Apache-2.0
// The table of strings that elements of type string are numbers in, so that tensors of strings have elements of one
// size, and whatever moves elements moves them. Equal strings of a table have equal codes; the code of the empty one is
// 0, so that memory filled with zeros holds empty strings.
#pragma once
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace temper {

// Threads may share a table.
class StringTable {
 public:
  StringTable();
  // Throws Error{machine} where the table would take more than kMostStringBytes.
  uint64_t code_of(std::string_view text);
  // Zero-terminated, and valid until clear(). Throws Error{bad_file} for a code that the table did not give.
  std::string_view at(uint64_t code) const;
  void clear();  // every code but 0 becomes invalid

 private:
  mutable std::mutex mutex_;
  std::deque<std::string> strings_;  // these do not move
  std::unordered_map<std::string_view, uint64_t> codes_;
  int64_t bytes_ = 0;
};
constexpr int64_t kMostStringBytes = int64_t(128) << 20;

// The table that codes on this thread are of: that of the innermost UseStrings, or one of the whole process, which
// keeps what it was given until the process ends.
StringTable& current_strings();

// On this thread, while it lives. A session that is given strings has a table of its own, which holds those of one run:
// of inputs, and what the model makes of them.
class UseStrings {
 public:
  explicit UseStrings(StringTable& texts);
  ~UseStrings();
  UseStrings(const UseStrings&) = delete;
  UseStrings& operator=(const UseStrings&) = delete;

 private:
  StringTable* before_;
};

}  // namespace temper
