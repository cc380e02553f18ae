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
#include <vector>

namespace temper {

// Threads may share a table.
class StringTable {
 public:
  StringTable();
  // Throws Error{machine} where the table would take more than kMostStringBytes.
  uint64_t code_of(std::string_view text);
  // The same of a string that stays, as those of a model do.
  uint64_t kept_code_of(std::string_view text);
  // Zero-terminated, and valid as long as the code is. Throws Error{bad_file} for a code that the table did not give.
  std::string_view at(uint64_t code) const;
  void clear();                        // every code becomes invalid, but 0 and those that are kept
  uint64_t id() const { return id_; }  // no other table of the process has it; never 0

 private:
  struct Entry {
    std::string text;
    bool used = false, kept = false;
  };
  const uint64_t id_;
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;  // by code; these do not move
  std::unordered_map<std::string_view, uint64_t> codes_;
  std::vector<uint64_t> loose_, free_;  // codes that clear() looks at, and those that stand for nothing
  int64_t bytes_ = 0;

  uint64_t find_or_add(std::string_view text);
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
