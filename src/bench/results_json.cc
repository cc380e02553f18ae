// SPDX-License-Identifier: Apache-2.0
// Reads and writes results as JSON.
#include "base/error.h"
#include "base/file.h"
#include "base/file_kind.h"
#include "bench/results_fields.h"

namespace temper {

namespace {

using Json = nlohmann::ordered_json;  // as it is written: fields stay in the order of the schema

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

std::string to_json(const Environment& environment) {
  Json json;
  write_json(json, environment);
  return dump(json);
}

std::string to_json(const BenchResult& result) {
  check(result);
  Json json = Json::object();
  json["schema"] = kResultSchema;
  write_json(json["environment"], result.environment);
  write_json(json["runs"], result.runs);
  return dump(json) + "\n";
}

BenchResult result_from_json(std::string_view text) {
  const strict::Json json = strict::parse(text, "the result");
  const JsonInput root(json, json.is_object() ? "" : "result", kResultSchema);
  JsonReader reader(root);
  reader.expect_schema("temper bench --json FILE");
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
  const FileKind kind = kind_of_file(path);
  if (kind != FileKind::result && kind != FileKind::other && kind != FileKind::nothing)
    fail(ErrorKind::bad_file, path, ": it is ", words_of(kind), ", no result (temper bench --json FILE writes one)");
  const std::string text = read_file(path);
  return with_context([&] { return path; }, [&] { return result_from_json(text); });
}

}  // namespace temper
