// SPDX-License-Identifier: Apache-2.0
#include "cli/config.h"

#include <algorithm>
#include <filesystem>

#define TOML_ENABLE_FORMATTERS 0
#define TOML_ENABLE_WINDOWS_COMPAT 0
#include <toml++/toml.h>

#include "base/concat.h"
#include "base/error.h"
#include "base/file.h"
#include "base/quote.h"
#include "cli/suggest.h"

namespace temper::cli {

namespace {

constexpr size_t kMostBytes = size_t(1) << 20;

// One table. Every key that may be there is asked for; what is left is refused.
class Reader {
 public:
  Reader(const toml::table& table, const std::string& file, std::string where)
      : table_(table), file_(file), where_(std::move(where)) {}

  void text(const char* key, std::string& value) { take(key, "a string", value); }
  void flag(const char* key, bool& value) { take(key, "true or false", value); }
  void whole(const char* key, int64_t& value) {
    take(key, "a whole number", value);
    if (const toml::node* node = table_.get(key); node && value < 1) refuse(*node, key, " must be above 0");
  }
  void path(const char* key, std::string& value) {
    text(key, value);
    if (table_.contains(key)) value = beside(value);
  }
  // A string, or a list of them, which is joined by commas as flags are.
  void words(const char* key, std::string& value) {
    const toml::node* node = find(key);
    if (!node) return;
    const toml::array* list = node->as_array();
    if (!list) return text(key, value);
    value.clear();
    for (const toml::node& one : *list) {
      if (!one.is_string()) refuse(one, key, " must be a list of strings");
      value += concat(value.empty() ? "" : ",", one.as_string()->get());
    }
  }
  // Of a share, as flags have it: a number would not say whether it is percent.
  void share(const char* key, std::string& value) {
    const toml::node* node = find(key);
    if (node && !node->is_string()) refuse(*node, key, " must be a string with its unit, like \"1%\"");
    text(key, value);
  }
  // { image = "1x3x224x224" } or { image = [1, 3, 224, 224] }
  void shapes(const char* key, std::vector<std::string>& value) {
    const toml::table* table = this->table(key);
    if (!table) return;
    value.clear();
    for (const auto& [name, node] : *table) {
      std::string dims;
      if (const auto* said = node.as_string()) dims = said->get();
      else if (const toml::array* list = node.as_array()) {
        for (const toml::node& dim : *list) {
          if (!dim.is_integer()) refuse(dim, key, " must be whole numbers");
          dims += concat(dims.empty() ? "" : "x", dim.as_integer()->get());
        }
      } else {
        refuse(node, key, " must be strings like \"1x3x224x224\", or lists of whole numbers");
      }
      value.push_back(concat(std::string(name.str()), "=", dims));
    }
  }
  const toml::table* table(const char* key) {
    const toml::node* node = find(key);
    if (node && !node->is_table()) refuse(*node, key, " must be a table");
    return node ? node->as_table() : nullptr;
  }
  void finish() const {
    for (const auto& [name, node] : table_) {
      const std::string key(name.str());
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      std::string all;
      for (const std::string& one : known_) all += concat(all.empty() ? "" : ", ", one);
      const std::string meant = suggestion(key, known_);
      fail_at(name.source().begin, "there is no key '", quoted(key), "' in ", where_,
              meant.empty() ? concat("; there are: ", all) : meant);
    }
  }
  template <class... Why>
  [[noreturn]] void refuse(const toml::node& node, const char* key, const Why&... why) const {
    fail_at(node.source().begin, "'", key, "' in ", where_, why...);
  }

 private:
  static std::string quoted(const std::string& text) { return printable(text); }
  template <class... Why>
  [[noreturn]] void fail_at(const toml::source_position& at, const Why&... why) const {
    fail(ErrorKind::bad_file, file_, ":", at.line, ":", at.column, ": ", why...);
  }
  const toml::node* find(const char* key) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
    return table_.get(key);
  }
  template <class T>
  void take(const char* key, const char* kind, T& value) {
    const toml::node* node = find(key);
    if (!node) return;
    const auto found = node->value_exact<T>();
    if (!found) refuse(*node, key, " must be ", kind);
    value = *found;
  }
  std::string beside(const std::string& path) const {
    if (path.empty() || std::filesystem::path(path).is_absolute()) return path;
    const std::string folder = folder_of(file_);
    return folder == "." ? path : folder + "/" + path;
  }

  const toml::table& table_;
  const std::string& file_;
  std::string where_;
  std::vector<std::string> known_;
};

// What [defaults] may say, too.
void read_common(Reader& reader, ConfiguredModel& model) {
  reader.words("precision", model.precision);
  reader.share("max_drop", model.max_drop);
  reader.text("metric", model.metric);
  reader.text("method", model.method);
  reader.text("raise_to", model.raise_to);
  reader.text("device", model.device);
  reader.text("duration", model.duration);
  reader.text("preprocess", model.preprocess);
  reader.whole("threads", model.threads);
  reader.whole("batch", model.batch);
  reader.whole("samples", model.samples);
  reader.whole("calibration_samples", model.calibration_samples);
}

ConfiguredGate gate_of(const toml::table& table, const std::string& file, const std::string& where,
                       ConfiguredGate gate) {
  Reader reader(table, file, where);
  reader.path("baseline", gate.baseline);
  reader.path("result", gate.result);
  reader.share("max_slowdown", gate.max_slowdown);
  reader.flag("strict", gate.strict);
  reader.finish();
  return gate;
}

}  // namespace

std::vector<ConfiguredModel> read_config(const std::string& path) {
  const std::string text = read_file(path, kMostBytes);
  toml::table whole;
  try {
    whole = toml::parse(std::string_view(text));
  } catch (const toml::parse_error& error) {
    fail(ErrorKind::bad_file, path, ":", error.source().begin.line, ":", error.source().begin.column, ": ",
         std::string_view(error.description()));
  }
  ConfiguredModel defaults;
  ConfiguredGate gate_defaults;
  Reader top(whole, path, "the file");
  if (const toml::table* table = top.table("defaults")) {
    Reader reader(*table, path, "[defaults]");
    read_common(reader, defaults);
    if (const toml::table* gate = reader.table("gate"))
      gate_defaults = gate_of(*gate, path, "[defaults.gate]", gate_defaults);
    reader.finish();
  }
  const toml::table* models = top.table("models");
  top.finish();
  if (!models || models->empty()) fail(ErrorKind::bad_file, path, ": there is no table [models.NAME]");
  std::vector<ConfiguredModel> list;
  for (const auto& [key, node] : *models) {
    ConfiguredModel model = defaults;
    model.name = std::string(key.str());
    if (!node.is_table())
      fail(ErrorKind::bad_file, path, ":", node.source().begin.line, ": 'models.", printable(model.name),
           "' must be a table");
    const std::string where = concat("[models.", printable(model.name), "]");
    Reader reader(*node.as_table(), path, where);
    reader.path("model", model.model);
    reader.path("data", model.data);
    reader.path("output", model.output);
    reader.path("class_names", model.class_names);
    reader.text("output_name", model.output_name);
    reader.shapes("shapes", model.shapes);
    read_common(reader, model);
    if (const toml::table* gate = reader.table("gate"))
      model.gate = gate_of(*gate, path, concat("[models.", printable(model.name), ".gate]"), gate_defaults);
    reader.finish();
    if (model.model.empty()) fail(ErrorKind::bad_file, path, ": ", where, " names no model: model = \"FILE.onnx\"");
    if (model.output.empty()) {
      const std::string folder = folder_of(path);
      model.output = concat(folder == "." ? "" : folder + "/", "study/", model.name);
    }
    list.push_back(std::move(model));
  }
  std::stable_sort(list.begin(), list.end(), [&](const ConfiguredModel& a, const ConfiguredModel& b) {
    return models->get(a.name)->source().begin.line < models->get(b.name)->source().begin.line;
  });
  return list;
}

void ConfigFlags::add_to(Command& verb) {
  verb.add_option("--config", path, "file of models and budgets that is read where no files are named")
      .capture_default_str();
  verb.add_option("--only", only, "names of the models in that file, separated by commas; by default all of them")
      .delimiter(',');
}

std::vector<ConfiguredModel> ConfigFlags::models(const std::string& verb, const std::string& needs) const {
  if (!file_exists(path))
    fail(ErrorKind::usage, verb, " needs ", needs, ", or a file '", path, "' that names models (docs/config.md)");
  std::vector<ConfiguredModel> list = read_config(path);
  for (const std::string& name : only)
    if (std::none_of(list.begin(), list.end(), [&](const ConfiguredModel& model) { return model.name == name; })) {
      std::vector<std::string> names;
      std::string all;
      for (const ConfiguredModel& model : list) {
        names.push_back(model.name);
        all += concat(all.empty() ? "" : ", ", model.name);
      }
      fail(ErrorKind::usage, "--only ", name, ": '", path, "' names ", all, suggestion(name, names));
    }
  if (!only.empty())
    std::erase_if(list, [&](const ConfiguredModel& model) {
      return std::find(only.begin(), only.end(), model.name) == only.end();
    });
  return list;
}

}  // namespace temper::cli
