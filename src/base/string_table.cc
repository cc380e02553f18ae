// SPDX-License-Identifier: Apache-2.0
#include "base/string_table.h"

#include <atomic>

#include "base/bytes.h"
#include "base/error.h"

namespace temper {

namespace {

constexpr int64_t kEntry = 128;  // bytes that a string takes in the containers, beside its text

uint64_t next_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

StringTable::StringTable() : id_(next_id()) {
  entries_.push_back({"", true, true});
  codes_.emplace(entries_.front().text, 0);
}

uint64_t StringTable::find_or_add(std::string_view text) {
  if (const auto found = codes_.find(text); found != codes_.end()) return found->second;
  const int64_t bytes = int64_t(text.size()) + kEntry;
  if (bytes_ + bytes > kMostStringBytes)
    fail(ErrorKind::machine, "the strings of one run take more than ", format_bytes(double(kMostStringBytes)));
  bytes_ += bytes;
  uint64_t code = entries_.size();
  if (free_.empty()) {
    entries_.emplace_back();
  } else {
    code = free_.back();
    free_.pop_back();
  }
  Entry& entry = entries_[size_t(code)];
  entry.text = text;
  entry.used = true;
  codes_.emplace(entry.text, code);
  loose_.push_back(code);
  return code;
}

uint64_t StringTable::code_of(std::string_view text) {
  const std::lock_guard lock(mutex_);
  return find_or_add(text);
}

uint64_t StringTable::kept_code_of(std::string_view text) {
  const std::lock_guard lock(mutex_);
  const uint64_t code = find_or_add(text);
  entries_[size_t(code)].kept = true;
  return code;
}

std::string_view StringTable::at(uint64_t code) const {
  const std::lock_guard lock(mutex_);
  if (code >= entries_.size() || !entries_[size_t(code)].used)
    fail(ErrorKind::bad_file, "an element of type string holds no string of this run");
  return entries_[size_t(code)].text;
}

void StringTable::clear() {
  const std::lock_guard lock(mutex_);
  for (uint64_t code : loose_) {
    Entry& entry = entries_[size_t(code)];
    if (entry.kept) continue;
    codes_.erase(entry.text);
    bytes_ -= int64_t(entry.text.size()) + kEntry;
    entry = {};
    free_.push_back(code);
  }
  loose_.clear();
}

static thread_local StringTable* of_thread = nullptr;

StringTable& current_strings() {
  static StringTable of_process;
  return of_thread ? *of_thread : of_process;
}

UseStrings::UseStrings(StringTable& texts) : before_(of_thread) { of_thread = &texts; }
UseStrings::~UseStrings() { of_thread = before_; }

}  // namespace temper
