// SPDX-License-Identifier: Apache-2.0
// Reads and writes results as JSON. `describe` names every field once; writing and strict reading both follow it.
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/strict_json.h"
#include "bench/results.h"

namespace temper {

namespace {

using Json = nlohmann::ordered_json;  // as it is written: fields stay in the order of the schema
using Given = strict::Json;           // as it is read

template <class T>
concept Described = std::same_as<T, Environment> || std::same_as<T, Latency> || std::same_as<T, BenchRun>;
// Declared ahead: argument-dependent lookup does not see into the unnamed namespace.
template <Described T>
Json encode(const T& value);
template <Described T>
void decode(const Given& json, const std::string& where, T& value);

template <class T>
  requires(!Described<T>)
Json encode(const T& value) {
  return value;
}
Json encode(const Interval& value) { return Json::array({value.low, value.high}); }
template <class T>
Json encode(const std::optional<T>& value) {
  return value ? encode(*value) : Json(nullptr);
}

[[noreturn]] void mistyped(const std::string& where, std::string_view expected, const Given& found) {
  fail(ErrorKind::bad_file, where, ": ", expected, " expected, found ", std::string_view(found.type_name()));
}

void decode(const Given& json, const std::string& where, std::string& value) {
  if (!json.is_string()) mistyped(where, "a string", json);
  value = json.get<std::string>();
}
void decode(const Given& json, const std::string& where, bool& value) {
  if (!json.is_boolean()) mistyped(where, "true or false", json);
  value = json.get<bool>();
}
void decode(const Given& json, const std::string& where, double& value) {
  if (!json.is_number()) mistyped(where, "a number", json);
  value = json.get<double>();
}
void decode(const Given& json, const std::string& where, int64_t& value) {
  if (!json.is_number_integer() || (json.is_number_unsigned() && json.get<uint64_t>() > uint64_t(INT64_MAX)))
    mistyped(where, "an integer of 64 bits", json);
  value = json.get<int64_t>();
}
void decode(const Given& json, const std::string& where, int& value) {
  int64_t wide = 0;
  decode(json, where, wide);
  if (wide < INT32_MIN || wide > INT32_MAX) fail(ErrorKind::bad_file, where, ": ", wide, " is too large");
  value = int(wide);
}
void decode(const Given& json, const std::string& where, Interval& value) {
  if (!json.is_array() || json.size() != 2) mistyped(where, "[low, high]", json);
  decode(json[0], where + "[0]", value.low);
  decode(json[1], where + "[1]", value.high);
}
template <class T>
void decode(const Given& json, const std::string& where, std::vector<T>& value) {
  if (!json.is_array()) mistyped(where, "an array", json);
  value.resize(json.size());
  for (size_t i = 0; i < json.size(); ++i) decode(json[i], concat(where, "[", i, "]"), value[i]);
}
template <class T>
void decode(const Given& json, const std::string& where, std::map<std::string, T>& value) {
  if (!json.is_object()) mistyped(where, "an object", json);
  value.clear();
  for (const auto& [key, item] : json.items()) decode(item, concat(where, ".", key), value[key]);
}
template <class T>
void decode(const Given& json, const std::string& where, std::optional<T>& value) {
  value.reset();
  if (!json.is_null()) decode(json, where, value.emplace());
}

struct Writer {
  Json object = Json::object();
  template <class T>
  void field(const char* name, const T& value) {
    object[name] = encode(value);
  }
  // Whether a part that only some objects have is there; `mark` is one of its fields.
  template <class T>
  bool has(const char* mark, const std::optional<T>& part) const {
    return part.has_value();
  }
};

class Reader {
 public:
  Reader(const Given& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) mistyped(where_, "an object", object);
  }
  template <class T>
  void field(const char* name, T& value) {
    known_.insert(name);
    const auto found = object_.find(name);
    if (found == object_.end()) fail(ErrorKind::bad_file, path(name), ": this field is missing");
    decode(*found, path(name), value);
  }
  template <class T>
  bool has(const char* mark, std::optional<T>& part) const {
    part.reset();
    if (!object_.contains(mark)) return false;
    part.emplace();
    return true;
  }
  void finish() const {
    for (const auto& item : object_.items())
      if (!known_.contains(item.key()))
        fail(ErrorKind::bad_file, path(item.key()), ": unknown field in ", kResultSchema);
  }
  std::string path(std::string_view name) const {
    return where_.empty() ? std::string(name) : concat(where_, ".", name);
  }

 private:
  const Given& object_;
  std::string where_;
  std::set<std::string> known_;
};

template <class Archive, class E>
void describe(Archive& a, E& e)
  requires std::same_as<std::remove_const_t<E>, Environment>
{
  a.field("time", e.time);
  a.field("version", e.version);
  a.field("revision", e.revision);
  a.field("compiler", e.compiler);
  a.field("onednn_version", e.onednn_version);
  a.field("onednn_isa", e.onednn_isa);
  a.field("os", e.os);
  a.field("kernel", e.kernel);
  a.field("cpu_model", e.cpu_model);
  a.field("cpu_features", e.cpu_features);
  a.field("logical_cores", e.logical_cores);
  a.field("allowed_cores", e.allowed_cores);
  a.field("physical_cores", e.physical_cores);
  a.field("cgroup_cores", e.cgroup_cores);
  a.field("l2_bytes", e.l2_bytes);
  a.field("l3_bytes", e.l3_bytes);
  a.field("memory_bytes", e.memory_bytes);
  a.field("memory_available_bytes", e.memory_available_bytes);
  a.field("cgroup_memory_bytes", e.cgroup_memory_bytes);
  a.field("governor", e.governor);
  a.field("threads", e.threads);
  a.field("clock_mhz_before", e.clock_mhz_before);
  a.field("clock_mhz_after", e.clock_mhz_after);
  a.field("temperature_before_c", e.temperature_before_c);
  a.field("temperature_after_c", e.temperature_after_c);
  a.field("throttle_events", e.throttle_events);
  a.field("load_by_others", e.load_by_others);
}

template <class Archive, class L>
void describe(Archive& a, L& l)
  requires std::same_as<std::remove_const_t<L>, Latency>
{
  a.field("median", l.median);
  a.field("mean", l.mean);
  a.field("min", l.min);
  a.field("max", l.max);
  a.field("stddev", l.stddev);
  a.field("p90", l.p90);
  a.field("p95", l.p95);
  a.field("p99", l.p99);
  a.field("median_ci95", l.median_ci95);
  a.field("mean_ci95", l.mean_ci95);
  a.field("p90_ci95", l.p90_ci95);
  a.field("p95_ci95", l.p95_ci95);
  a.field("p99_ci95", l.p99_ci95);
}

// Objects inside objects.
template <Described T>
Json encode(const T& value) {
  Writer writer;
  describe(writer, value);
  return std::move(writer.object);
}
template <Described T>
void decode(const Given& json, const std::string& where, T& value) {
  Reader reader(json, where);
  describe(reader, value);
  reader.finish();
}

template <class Archive, class R>
void describe(Archive& a, R& r)
  requires std::same_as<std::remove_const_t<R>, BenchRun>
{
  a.field("model", r.model);
  a.field("model_sha256", r.model_sha256);
  a.field("source_sha256", r.source_sha256);
  a.field("command", r.command);
  a.field("device", r.device);
  a.field("backend", r.backend);
  a.field("precision", r.precision);
  a.field("batch", r.batch);
  a.field("shapes", r.shapes);
  a.field("threads", r.threads);
  a.field("streams", r.streams);
  a.field("load", r.load);
  a.field("request_rate_per_s", r.request_rate_per_s);
  a.field("samples", r.samples);
  a.field("warmup_runs", r.warmup_runs);
  a.field("transfers", r.transfers);
  a.field("cuda_graph", r.cuda_graph);
  a.field("first_run_ms", r.first_run_ms);
  a.field("latency_ms", r.latency);
  a.field("outliers", r.outliers);
  a.field("drift", r.drift);
  a.field("throughput_per_s", r.throughput_per_s);
  a.field("load_by_others", r.load_by_others);
  a.field("workspace_bytes", r.workspace_bytes);
  a.field("peak_host_bytes", r.peak_host_bytes);
  a.field("peak_device_bytes", r.peak_device_bytes);
  a.field("plan_bytes", r.plan_bytes);
  a.field("build_s", r.build_s);
  a.field("samples_ms", r.samples_ms);
  a.field("notes", r.notes);
  if (a.has("gpu_name", r.gpu)) {
    auto& gpu = *r.gpu;
    a.field("gpu_name", gpu.name);
    a.field("gpu_clock_mhz_median", gpu.clock_mhz_median);
    a.field("gpu_clock_mhz_min", gpu.clock_mhz_min);
    a.field("gpu_highest_clock_mhz", gpu.highest_clock_mhz);
    a.field("gpu_memory_clock_mhz", gpu.memory_clock_mhz);
    a.field("gpu_watts_median", gpu.watts_median);
    a.field("gpu_watts_limit", gpu.watts_limit);
    a.field("gpu_celsius_max", gpu.celsius_max);
    a.field("gpu_throttled", gpu.throttled);
  }
  if (!a.has("source", r.imported)) return;
  auto& from = *r.imported;
  a.field("source", from.source);
  a.field("tensorrt_version", from.tensorrt_version);
  a.field("device_name", from.device_name);
  a.field("throughput_qps", from.throughput_qps);
  a.field("walltime_s", from.walltime_s);
  a.field("gpu_ms", from.gpu);
  a.field("h2d_ms", from.h2d);
  a.field("d2h_ms", from.d2h);
  a.field("enqueue_ms", from.enqueue);
  a.field("end_to_end_ms", from.end_to_end);
  a.field("spin_wait", from.spin_wait);
  a.field("consistent", from.consistent);
  a.field("warnings", from.warnings);
}

// Samples fill one line, not one line each.
std::string dump(const Json& json, int indent = 0) {
  const std::string inner(size_t(indent) + 2, ' ');
  auto flat = [](const Json& j) { return strict::dump(j); };
  const bool array_of_objects = json.is_array() && !json.empty() && json[0].is_object();
  if (!json.is_object() && !array_of_objects) return flat(json);
  if (json.empty()) return flat(json);
  std::string out = json.is_object() ? "{" : "[";
  bool first = true;
  for (const auto& item : json.items()) {
    out += concat(first ? "" : ",", "\n", inner);
    if (json.is_object()) out += concat(flat(Json(item.key())), ": ");
    out += dump(item.value(), indent + 2);
    first = false;
  }
  return concat(out, "\n", std::string(size_t(indent), ' '), json.is_object() ? "}" : "]");
}

}  // namespace

std::string to_json(const Environment& environment) { return dump(encode(environment)); }

std::string to_json(const BenchResult& result) {
  check(result);
  Json json = Json::object();
  json["schema"] = kResultSchema;
  json["environment"] = encode(result.environment);
  json["runs"] = Json::array();
  for (const BenchRun& run : result.runs) json["runs"].push_back(encode(run));
  return dump(json) + "\n";
}

BenchResult result_from_json(std::string_view text) {
  const Given json = strict::parse(text, "the result");
  Reader reader(json, json.is_object() ? "" : "result");
  std::string schema;
  reader.field("schema", schema);
  if (schema != kResultSchema)
    fail(ErrorKind::bad_file, "schema is '", std::string_view(schema).substr(0, 80), "', this version reads '",
         kResultSchema, "'");
  BenchResult result;
  reader.field("environment", result.environment);
  reader.field("runs", result.runs);
  reader.finish();
  check(result);
  return result;
}

void save_result(const std::string& path, const BenchResult& result, bool force) {
  write_file_atomically({path, FileKind::result, force}, to_json(result));
}

BenchResult load_result(const std::string& path) {
  const std::string text = read_file(path);
  return with_context([&] { return path; }, [&] { return result_from_json(text); });
}

}  // namespace temper
