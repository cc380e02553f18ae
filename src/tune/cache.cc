// SPDX-License-Identifier: Apache-2.0
#include "tune/cache.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <type_traits>

#include "base/file.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/strict_json.h"

namespace temper {

namespace {

// A time of schemas 2 and 3 is [ms, load, when]; one of schema 1 was ms alone. Until schema 3 all records were times,
// and their keys told them apart (take_old).
constexpr std::string_view kSchemaStart = "temper.timings/";
constexpr int kSchema = 3;
constexpr size_t kMostBytes = size_t(256) << 20;

[[noreturn]] void damaged(std::string_view why) { fail(ErrorKind::bad_file, why); }

double number_of(const nlohmann::json& json) {
  if (!json.is_number() || !std::isfinite(json.get<double>()) || json.get<double>() < 0)
    damaged("a time is not a number");
  return json.get<double>();
}

const std::string& text_of(const nlohmann::json& json, std::string_view what) {
  if (!json.is_string()) damaged(concat(what, " is not a text"));
  return json.get_ref<const std::string&>();
}

void take(const nlohmann::json& json, TimedEntry& entry) {
  if (!json.is_array() || json.size() != 3 || !json[2].is_number_integer()) damaged("a time is not [ms, load, when]");
  entry.ms = number_of(json[0]);
  if (!json[1].is_null()) entry.load = number_of(json[1]);
  entry.when = json[2].get<int64_t>();
}
void take(const nlohmann::json& json, Decision& decision) {
  if (!json.is_object() || json.size() != 3 || !json.contains("candidate") || !json.contains("threads") ||
      !json.contains("time") || !json["threads"].is_number_unsigned() || json["threads"] > (1 << 16))
    damaged("a decision is not a candidate, its threads and its time");
  decision.candidate = text_of(json["candidate"], "a candidate");
  decision.threads = json["threads"].get<int>();
  take(json["time"], decision.time);
}
void take(const nlohmann::json& json, PairDecisions& pairs) {
  if (!json.is_object()) damaged("fused pairs are no object");
  for (const auto& [name, faster] : json.items()) {
    if (!faster.is_boolean()) damaged("a fused pair is neither true nor false");
    pairs[name] = faster.get<bool>();
  }
}
void take(const nlohmann::json& json, NoiseRun& run) {
  if (!json.is_object()) damaged("a run on noise is no object");
  for (const auto& [name, largest] : json.items()) run[name] = number_of(largest);
}
void take(const nlohmann::json& json, std::string& fault) { fault = text_of(json, "a fault"); }

nlohmann::json json_of(const TimedEntry& entry) {
  return {entry.ms, entry.load ? nlohmann::json(*entry.load) : nlohmann::json(nullptr), entry.when};
}
nlohmann::json json_of(const Decision& decision) {
  return {{"candidate", decision.candidate}, {"threads", decision.threads}, {"time", json_of(decision.time)}};
}
template <class Record>
nlohmann::json json_of(const std::map<std::string, Record>& named) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, value] : named) json[name] = value;
  return json;
}
nlohmann::json json_of(const std::string& fault) { return fault; }

// Whether what this process added replaces what another one wrote meanwhile.
template <class Record>
bool replaces(const Record& mine, const Record& theirs) {
  if constexpr (requires { mine.better_than(theirs); }) return mine.better_than(theirs);
  else return true;
}

}  // namespace

void TimingCache::read(const std::string& path) {
  read_text(read_trusted_file(path, kMostBytes), concat("the timing cache '", path, "'"));
}

// `what`: "the timing cache ...", for messages.
void TimingCache::read_text(const std::string& text, const std::string& what) {
  const strict::Json json = strict::parse(text, what);
  const auto read_json = [&] {
    if (!json.is_object()) damaged("it is not an object");
    int schema = 0;
    if (json.contains("schema") && json["schema"].is_string())
      if (const std::string name = json["schema"]; name.starts_with(kSchemaStart))
        schema = parse_number<int>(std::string_view(name).substr(kSchemaStart.size())).value_or(0);
    if (schema > kSchema) fail(ErrorKind::unsupported, "it is of a later version of Temper");
    if (schema < 1) damaged(concat("its schema is not ", kSchemaStart, kSchema));
    if (!json.contains("entries")) damaged("it has no entries");
    for_each_table(
        [&]<class Record>(const char* name, Records<Record>& table) {
          const auto found = json.find(name);
          if (found == json.end()) return;  // of programs that knew none
          if (!found->is_object()) damaged(concat("its ", name, " are no object"));
          for (const auto& [key, item] : found->items()) {
            Record record{};
            if constexpr (std::is_same_v<Record, TimedEntry>)
              if (schema == 1) {
                record.ms = number_of(item);
                take_old(key, record);
                continue;
              }
            take(item, record);
            if constexpr (std::is_same_v<Record, TimedEntry>)
              if (schema == 2) {
                take_old(key, record);
                continue;
              }
            table.all_[key] = std::move(record);
          }
        },
        *this);
  };
  try {
    read_json();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::unsupported) fail(error.kind(), what, " is of a later version of Temper");
    fail(error.kind(), what, " is damaged: ", error.what());
  }
}

// Until schema 3 a decision was a time of 1 or 0 ms, and each kind of record had a grammar of keys.
void TimingCache::take_old(const std::string& key, const TimedEntry& entry) {
  const auto behind = [&](std::string_view start) {
    return key.starts_with(start) ? std::optional(key.substr(start.size())) : std::nullopt;
  };
  constexpr std::string_view kThreads = " on threads", kBar = " | ";
  if (const auto timed = behind("in context, ")) in_plans.all_[*timed] = entry;
  else if (const auto decided = behind("decided for ")) {
    const size_t graph = decided->find(", "), candidate = decided->rfind(kBar);
    if (graph == decided->npos || candidate == decided->npos || candidate < graph) return;
    const auto record = [&](size_t end) -> Decision& {
      return decisions.all_[decision_key(decided->substr(0, graph), decided->substr(graph + 2, end - graph - 2))];
    };
    if (decided->ends_with(kThreads)) {
      record(decided->size() - kThreads.size()).threads = int(entry.ms);
      return;
    }
    Decision& decision = record(candidate);
    if (!decision.candidate.empty() && !entry.better_than(decision.time)) return;
    decision.candidate = decided->substr(candidate + kBar.size());
    decision.time = entry;
  } else if (const auto pair = behind("chains of ")) {
    const size_t machine = pair->find(", "), name = pair->find(": ");
    if (machine == pair->npos || name == pair->npos || name < machine) return;
    const std::string graph = pair->substr(0, machine), device = pair->substr(machine + 2, name - machine - 2);
    fused_pairs.all_[decision_key(graph, device)][pair->substr(name + 2)] = entry.ms > 0;
  } else if (const auto value = behind("largest on noise in ")) {
    const size_t end = value->find(kBar);
    NoiseRun& run = noise_runs.all_[value->substr(0, end)];
    if (end != value->npos) run[value->substr(end + kBar.size())] = entry.ms;
  } else if (key.find(" | peak ") != key.npos && key.find(" chains=") == key.npos) peaks.all_[key] = entry;
  else times_.all_[key] = entry;
}

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
    read(path_);
  } catch (const Error& error) {
    for_each_table([](const char*, auto& table) { table = {}; }, *this);
    if (error.kind() == ErrorKind::unsupported) {
      log(LogLevel::warning, std::string_view(error.what()),
          ": it is left as it is; --timing-cache FILE names another");
      path_.clear();
    } else if (std::rename(path_.c_str(), (path_ + ".bad").c_str()) == 0)
      log(LogLevel::warning, std::string_view(error.what()), "; it was set aside as '", path_, ".bad' and is rebuilt");
    else log(LogLevel::warning, std::string_view(error.what()), "; the timing cache '", path_, "' is not used");
  }
}

TimedEntry taken_now(double ms, double load) { return {ms, load, int64_t(std::time(nullptr))}; }

std::string decision_key(const std::string& graph, const std::string& group) { return concat(graph, " | ", group); }

std::optional<TimedEntry> TimingCache::entry(const std::string& key) const {
  const TimedEntry* found = times_.find(key);
  return found ? std::optional(*found) : std::nullopt;
}

std::optional<double> TimingCache::find(const std::string& key) const {
  const TimedEntry* found = times_.find(key);
  return found ? std::optional(found->ms) : std::nullopt;
}

void TimingCache::add(const std::string& key, double ms, double load) { add(key, taken_now(ms, load)); }

std::map<std::string, double> TimingCache::times() const {
  std::map<std::string, double> times;
  for (const auto& [key, entry] : times_.all()) times.emplace_hint(times.end(), key, entry.ms);
  return times;
}

std::optional<std::string> TimingCache::fault(const std::string& key) const {
  const std::string* found = faults_.find(key);
  return found ? std::optional(*found) : std::nullopt;
}

void TimingCache::add_fault(const std::string& key, std::string what) { faults_.add(key, std::move(what)); }

void TimingCache::save() {
  bool any = false;
  for_each_table([&](const char*, const auto& table) { any |= !table.added_.empty(); }, *this);
  if (path_.empty() || !any) return;
  try {
    merge();
    for_each_table([](const char*, auto& table) { table.added_.clear(); }, *this);
  } catch (const Error& error) {  // a full disk, or a folder that must not be written to
    log(LogLevel::warning, std::string_view(error.what()), "; what was measured is not kept in the timing cache '",
        path_, "'");
  }
}

std::string TimingCache::text() const {
  nlohmann::json json{{"schema", concat(kSchemaStart, kSchema)}};
  for_each_table(
      [&](const char* name, const auto& table) {
        nlohmann::json all = nlohmann::json::object();
        for (const auto& [key, record] : table.all_) all[key] = json_of(record);
        if (!all.empty() || std::string_view(name) == "entries") json[name] = std::move(all);
      },
      *this);
  return strict::dump(json, 1) + "\n";
}

TimingCache TimingCache::of_text(std::string_view text) {
  constexpr const char* kName = "the timing cache in memory";
  if (text.size() > kMostBytes)
    fail(ErrorKind::bad_file, kName, " has ", text.size(), " bytes; the limit is ", kMostBytes);
  TimingCache cache;
  cache.read_text(std::string(text), kName);
  return cache;
}

void TimingCache::add_all(const TimingCache& other) {
  for_each_table(
      [](const char*, auto& mine, const auto& theirs) {
        for (const auto& [key, record] : theirs.all_)
          if (const auto* known = mine.find(key); !known || replaces(record, *known)) mine.add(key, record);
      },
      *this, other);
}

void TimingCache::merge() const {
  const FileLock lock(path_);
  TimingCache now;
  if (file_exists(path_)) {
    try {
      now.read(path_);
    } catch (const Error&) {  // damaged meanwhile: what we have replaces it
      now = {};
    }
  }
  TimingCache merged;
  for_each_table(
      [](const char*, const auto& mine, const auto& theirs, auto& both) {
        both.all_ = mine.all_;
        for (const auto& [key, record] : theirs.all_) {
          const auto added = mine.added_.find(key);
          if (added == mine.added_.end() || !replaces(added->second, record)) both.all_[key] = record;
        }
      },
      *this, now, merged);
  write_file_atomically({path_, FileKind::timings}, merged.text());
}

}  // namespace temper
