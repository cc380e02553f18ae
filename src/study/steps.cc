// SPDX-License-Identifier: Apache-2.0
#include "study/steps.h"

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/strict_json.h"

namespace temper {

using Json = nlohmann::ordered_json;

namespace {
constexpr const char* kSchema = "temper.step/2";
std::string hash_of(const Json& json) { return hex(xxh3(strict::dump(json))); }
// Whether a member is there and equal.
bool has(const Json& object, const char* name, const std::string& value) {
  return object.contains(name) && object[name] == value;
}
}  // namespace

Steps::Steps(std::string folder, const Json& key, bool force)
    : folder_(std::move(folder)), key_(hash_of(key)), force_(force) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  const bool misnamed = error == std::errc::not_a_directory;  // a file is in the way
  if (error)
    fail(misnamed ? ErrorKind::usage : ErrorKind::machine, "cannot create the folder '", folder_,
         "': ", error.message(), misnamed ? "; name another one to write" : "");
}

Json Steps::run(const std::string& name, const std::function<Json()>& work,
                const std::function<bool(const Json&)>& holds) {
  const std::string path = folder_ + "/" + name + ".json";
  if (std::filesystem::exists(path)) {
    // A file that is damaged is a step that has to be done again, as one that is missing. Whoever reads the result
    // relies on its shape: the hash says that it is what was saved.
    const Json saved = Json::parse(read_file(path), nullptr, false);
    if (saved.is_object() && has(saved, "schema", kSchema) && has(saved, "key", key_) && saved.contains("result") &&
        has(saved, "hash", hash_of(saved["result"])) && (!holds || holds(saved["result"]))) {
      log(LogLevel::info, name, ": done before, taken from ", path);
      return saved["result"];
    }
  }
  const Output output{path, FileKind::step, force_};
  check_outputs({}, {output});  // before the work, not after it
  Json result = work();
  write_file_atomically(
      output,
      strict::dump(Json{{"schema", kSchema}, {"key", key_}, {"hash", hash_of(result)}, {"result", result}}, 1) + "\n");
  return result;
}

Json json_of(const Table& table) {
  Json columns = Json::array();
  for (const Table::Column& column : table.columns) columns.push_back({column.name, column.right});
  return {{"columns", columns}, {"rows", table.rows}};
}

Table table_of_json(const Json& json) {
  Table table;
  for (const Json& column : json.at("columns")) table.columns.push_back({column.at(0), column.at(1)});
  table.rows = json.at("rows").get<std::vector<std::vector<std::string>>>();
  return table;
}

}  // namespace temper
