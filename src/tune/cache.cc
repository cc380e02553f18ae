// SPDX-License-Identifier: Apache-2.0
#include "tune/cache.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/file.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/strict_json.h"

namespace temper {

namespace {

// An entry of schema 2 is [ms, load, when]; one of schema 1 was ms alone.
constexpr std::string_view kSchemaStart = "temper.timings/";
constexpr int kSchema = 2;

TimedEntry entry_of(const nlohmann::json& json, int schema) {
  auto damaged = [] { fail(ErrorKind::bad_file, "a time is not a number"); };
  auto number = [&](const nlohmann::json& item) {
    if (!item.is_number() || !std::isfinite(item.get<double>()) || item.get<double>() < 0) damaged();
    return item.get<double>();
  };
  TimedEntry entry;
  if (schema == 1) {
    entry.ms = number(json);
    return entry;
  }
  if (!json.is_array() || json.size() != 3 || !json[2].is_number_integer()) damaged();
  entry.ms = number(json[0]);
  if (!json[1].is_null()) entry.load = number(json[1]);
  entry.when = json[2].get<int64_t>();
  return entry;
}

struct Contents {
  std::map<std::string, TimedEntry> entries;
  std::map<std::string, std::string> faults;  // absent in files of programs that knew none
};

Contents read(const std::string& path) {
  Contents contents;
  const std::string text = read_trusted_file(path, size_t(256) << 20);
  const strict::Json json = strict::parse(text, concat("the timing cache '", path, "'"));
  auto damaged = [&](std::string_view why) {
    fail(ErrorKind::bad_file, "the timing cache '", path, "' is damaged: ", why);
  };
  if (!json.is_object()) damaged("it is not an object");
  int schema = 0;
  if (json.contains("schema") && json["schema"].is_string())
    if (const std::string name = json["schema"]; name.starts_with(kSchemaStart))
      schema = parse_number<int>(std::string_view(name).substr(kSchemaStart.size())).value_or(0);
  if (schema > kSchema) fail(ErrorKind::unsupported, "the timing cache '", path, "' is of a later version of Temper");
  if (schema < 1) damaged("its schema is not temper.timings/2");
  if (!json.contains("entries") || !json["entries"].is_object()) damaged("it has no entries");
  for (const auto& [key, item] : json["entries"].items()) try {
      contents.entries[key] = entry_of(item, schema);
    } catch (const Error& error) { damaged(error.what()); }
  if (const auto faults = json.find("faults"); faults != json.end()) {
    if (!faults->is_object()) damaged("its faults are no object");
    for (const auto& [key, what] : faults->items()) {
      if (!what.is_string()) damaged("a fault is not a text");
      contents.faults[key] = what.get<std::string>();
    }
  }
  return contents;
}

}  // namespace

bool TimedEntry::better_than(const TimedEntry& other) const {
  constexpr double unknown = 1e9;
  const double mine = load.value_or(unknown), others = other.load.value_or(unknown);
  return suspect() != other.suspect() ? !suspect() : suspect() && mine != others ? mine < others : when >= other.when;
}

TimingCache::TimingCache(std::string path) : path_(std::move(path)) {
  if (path_.empty() || !file_exists(path_)) return;
  if (const std::string why = distrust(path_); !why.empty()) {
    log(LogLevel::warning, "the timing cache '", path_, "' is not used: ", why,
        "; --timing-cache FILE names another one");
    path_.clear();
    return;
  }
  if (access(path_.c_str(), R_OK) != 0) {
    log(LogLevel::warning, "the timing cache '", path_, "' is not used: ", std::strerror(errno));
    path_.clear();
    return;
  }
  const FileKind kind = kind_of_file(path_);
  if (kind != FileKind::timings && kind != FileKind::nothing)
    fail(ErrorKind::usage, "'", path_, "' is ", words_of(kind),
         ", no timing cache; name another file (--timing-cache)");
  try {
    Contents contents = read(path_);
    entries_ = std::move(contents.entries);
    faults_ = std::move(contents.faults);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::unsupported) {
      log(LogLevel::warning, std::string_view(error.what()),
          ": it is left as it is; --timing-cache FILE names another");
      path_.clear();
    } else if (std::rename(path_.c_str(), (path_ + ".bad").c_str()) == 0)
      log(LogLevel::warning, std::string_view(error.what()), "; it was set aside as '", path_, ".bad' and is rebuilt");
    else log(LogLevel::warning, std::string_view(error.what()), "; the timing cache '", path_, "' is not used");
  }
}

std::optional<TimedEntry> TimingCache::entry(const std::string& key) const {
  auto it = entries_.find(key);
  return it == entries_.end() ? std::nullopt : std::optional(it->second);
}

std::optional<double> TimingCache::find(const std::string& key) const {
  auto it = entries_.find(key);
  return it == entries_.end() ? std::nullopt : std::optional(it->second.ms);
}

void TimingCache::add(const std::string& key, const TimedEntry& entry) { entries_[key] = added_[key] = entry; }

void TimingCache::add(const std::string& key, double ms, double load) {
  add(key, {ms, load, int64_t(std::time(nullptr))});
}

std::map<std::string, double> TimingCache::times() const {
  std::map<std::string, double> times;
  for (const auto& [key, entry] : entries_) times.emplace_hint(times.end(), key, entry.ms);
  return times;
}

std::optional<std::string> TimingCache::fault(const std::string& key) const {
  auto it = faults_.find(key);
  return it == faults_.end() ? std::nullopt : std::optional(it->second);
}

void TimingCache::add_fault(const std::string& key, std::string what) {
  faults_[key] = std::move(what);
  fault_added_ = true;
}

void TimingCache::save() {
  if (path_.empty() || (added_.empty() && !fault_added_)) return;
  try {
    merge();
    added_.clear();
    fault_added_ = false;
  } catch (const Error& error) {  // a full disk, or a folder that must not be written to
    log(LogLevel::warning, std::string_view(error.what()), "; what was measured is not kept in the timing cache '",
        path_, "'");
  }
}

void TimingCache::merge() const {
  const FileLock lock(path_);
  auto entries = entries_;
  auto faults = faults_;
  if (file_exists(path_)) {
    try {
      Contents now = read(path_);
      for (const auto& [key, theirs] : now.entries) {
        const auto mine = added_.find(key);
        if (mine == added_.end() || !mine->second.better_than(theirs)) entries[key] = theirs;
      }
      faults.merge(now.faults);
    } catch (const Error&) {  // damaged meanwhile: what we have replaces it
    }
  }
  nlohmann::json all = nlohmann::json::object();
  for (const auto& [key, entry] : entries)
    all[key] = {entry.ms, entry.load ? nlohmann::json(*entry.load) : nlohmann::json(nullptr), entry.when};
  nlohmann::json json{{"schema", concat(kSchemaStart, kSchema)}, {"entries", std::move(all)}};
  if (!faults.empty()) json["faults"] = std::move(faults);
  write_file_atomically({path_, FileKind::timings}, strict::dump(json, 1) + "\n");
}

}  // namespace temper
