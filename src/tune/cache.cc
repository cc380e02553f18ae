// SPDX-License-Identifier: Apache-2.0
#include "tune/cache.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"

namespace temper {

namespace {

constexpr const char* kSchema = "temper.timings/1";

std::map<std::string, double> read(const std::string& path) {
  std::map<std::string, double> entries;
  const std::string text = read_file(path, size_t(256) << 20);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  auto damaged = [&](std::string_view why) { fail(ErrorKind::bad_file, "the timing cache '", path, "' is damaged: ", why); };
  if (json.is_discarded() || !json.is_object()) damaged("it is not JSON");
  if (!json.contains("schema") || json["schema"] != kSchema) damaged("its schema is not temper.timings/1");
  if (!json.contains("entries") || !json["entries"].is_object()) damaged("it has no entries");
  for (const auto& [key, ms] : json["entries"].items()) {
    if (!ms.is_number() || !std::isfinite(ms.get<double>()) || ms.get<double>() < 0) damaged("a time is not a number");
    entries[key] = ms.get<double>();
  }
  return entries;
}

}  // namespace

TimingCache::TimingCache(std::string path) : path_(std::move(path)) {
  if (path_.empty() || !file_exists(path_)) return;
  try {
    entries_ = read(path_);
  } catch (const Error& error) {
    if (std::rename(path_.c_str(), (path_ + ".bad").c_str()) == 0)
      log(LogLevel::warning, std::string_view(error.what()), "; it was set aside as '", path_, ".bad' and is rebuilt");
    else log(LogLevel::warning, std::string_view(error.what()), "; the timing cache '", path_, "' is not used");
  }
}

std::optional<double> TimingCache::find(const std::string& key) const {
  auto it = entries_.find(key);
  return it == entries_.end() ? std::nullopt : std::optional(it->second);
}

void TimingCache::add(const std::string& key, double ms) { entries_[key] = added_[key] = ms; }

void TimingCache::save() {
  if (path_.empty() || added_.empty()) return;
  try {
    merge();
    added_.clear();
  } catch (const Error& error) {  // a full disk, or a folder that must not be written to
    log(LogLevel::warning, std::string_view(error.what()), "; what was measured is not kept in the timing cache '", path_, "'");
  }
}

void TimingCache::merge() const {
  const FileLock lock(path_);
  auto entries = entries_;
  if (file_exists(path_)) {
    try {
      for (const auto& [key, ms] : read(path_)) entries.try_emplace(key, ms);
    } catch (const Error&) {  // damaged meanwhile: what we have replaces it
    }
  }
  nlohmann::json json{{"schema", kSchema}, {"entries", std::move(entries)}};
  write_file_atomically(path_, json.dump(1) + "\n");
}

}  // namespace temper
