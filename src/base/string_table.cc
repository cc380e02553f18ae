// SPDX-License-Identifier: Apache-2.0
#include "base/string_table.h"

#include "base/bytes.h"
#include "base/error.h"

namespace temper {

StringTable::StringTable() { clear(); }

uint64_t StringTable::code_of(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (const auto found = codes_.find(text); found != codes_.end()) return found->second;
  constexpr int64_t kEntry = 96;  // of the two containers, beside the text
  bytes_ += int64_t(text.size()) + kEntry;
  if (bytes_ > kMostStringBytes)
    fail(ErrorKind::machine, "the strings of one run take more than ", format_bytes(double(kMostStringBytes)));
  const uint64_t code = strings_.size();
  codes_.emplace(strings_.emplace_back(text), code);
  return code;
}

std::string_view StringTable::at(uint64_t code) const {
  const std::lock_guard lock(mutex_);
  if (code >= strings_.size()) fail(ErrorKind::bad_file, "an element of type string holds no string of this run");
  return strings_[size_t(code)];
}

void StringTable::clear() {
  const std::lock_guard lock(mutex_);
  codes_.clear();
  strings_.clear();
  bytes_ = 0;
  codes_.emplace(strings_.emplace_back(), 0);
}

static thread_local StringTable* used = nullptr;

StringTable& current_strings() {
  static StringTable of_process;
  return used ? *used : of_process;
}

UseStrings::UseStrings(StringTable& texts) : before_(used) { used = &texts; }
UseStrings::~UseStrings() { used = before_; }

}  // namespace temper
