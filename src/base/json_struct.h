// SPDX-License-Identifier: Apache-2.0
// Maps structs to JSON and back: `json_fields` names each field of a struct once, and writing and strict reading both
// follow it. Included by .cc files only.
#pragma once
#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/strict_json.h"

namespace temper {

// A struct says how it stands in JSON by one of two functions beside it, in its own namespace (not in an unnamed one):
//   template <class V, Is<WholeTime> T> void json_fields(V& v, T& t) { v.field("ms", t.ms); ... }       an object
//   template <class V, Is<Interval> T> void json_items(V& v, T& t) { v.item("low", t.low); ... }        a list
// A field may take a form behind it, which says how it is read and written. Other types have functions write_json and
// read_json.
template <class T, class U>
concept Is = std::same_as<std::remove_const_t<T>, U>;

// A value that is read, and where it stands in its document. What it is read from must outlive it.
class JsonInput {
 public:
  // A document. `name` begins the places that messages name ("study.rows[0]"). Members of objects that are not known
  // are refused as those of `schema`; "": they may be there.
  JsonInput(const strict::Json& json, std::string_view name, std::string_view schema)
      : json_(json), key_(name), schema_(schema) {}
  JsonInput(const strict::Json& json, const JsonInput& in, std::string_view key)
      : json_(json), in_(&in), key_(key), schema_(in.schema_) {}
  JsonInput(const strict::Json& json, const JsonInput& in, size_t index)
      : json_(json), in_(&in), index_(index), is_item_(true), schema_(in.schema_) {}

  const strict::Json& json() const { return json_; }
  std::string_view schema() const { return schema_; }
  bool is_null() const { return json_.is_null(); }
  std::string place() const;  // "runs[0].latency_ms.median"; "" for a document without a name

  // Each throws Error{bad_file} that names the place where the value is of another kind, or outside of the range.
  bool flag() const;
  double number() const;
  int64_t integer() const;
  int64_t integer(int64_t least, int64_t most) const;
  uint64_t unsigned_integer() const;
  const std::string& text() const;
  const std::vector<strict::Json>& list() const;
  const strict::Json::object_t& members() const;

  [[noreturn]] void expected(std::string_view what) const;  // "PLACE: WHAT expected, found string"
  template <class... Why>
  [[noreturn]] void refuse(const Why&... why) const {  // "PLACE: WHY"
    const std::string at = place();
    fail(ErrorKind::bad_file, at, at.empty() ? "" : ": ", why...);
  }

 private:
  const strict::Json& json_;
  const JsonInput* in_ = nullptr;
  std::string_view key_;
  size_t index_ = 0;
  bool is_item_ = false;
  std::string_view schema_;
};

// Visits an object that is read. `finish` refuses members that nobody asked for.
class JsonReader {
 public:
  static constexpr bool kReads = true;
  explicit JsonReader(const JsonInput& in);
  explicit JsonReader(const JsonInput&&) = delete;

  template <class T, class... Form>
  void field(const char* name, T& value, const Form&... form);
  // The same for a member that may be absent or null: the value stays as it is.
  template <class T, class... Form>
  void may_lack(const char* name, T& value, const Form&... form) {
    if (has(name)) field(name, value, form...);
    else known_.push_back(name);
  }
  // Fields that stand in the same object, or all of them do not; `mark` is one of them.
  template <class T>
  bool has_part(const char* mark, std::optional<T>& part) const {
    part.reset();
    if (!in_.json().contains(mark)) return false;
    part.emplace();
    return true;
  }
  bool has(const char* name) const;        // and is not null
  JsonInput operator[](const char* name);  // which must be there
  // Reads the member "schema", which must be the one that the document is read as: "temper.KIND/VERSION". Throws
  // Error{unsupported} for another version of that kind and Error{bad_file} for any other text; `remedy` says what
  // writes such a file.
  void expect_schema(std::string_view remedy);
  template <class... Why>
  [[noreturn]] void refuse(const char* name, const Why&... why) const {
    JsonInput(in_.json(), in_, name).refuse(why...);
  }
  void finish() const;

 private:
  const JsonInput& in_;
  std::vector<std::string_view> known_;
};

// Visits an object that is written.
template <class Json>
struct JsonWriter {
  static constexpr bool kReads = false;
  Json object = Json::object();

  template <class T, class... Form>
  void field(const char* name, const T& value, const Form&... form);
  template <class T>
  bool has_part(const char*, const std::optional<T>& part) const {
    return part.has_value();
  }
};

// Visit the items of a list that stands for a struct.
struct JsonItemNames {
  std::string text;
  size_t count = 0;
  template <class T, class... Form>
  void item(const char* name, T&, const Form&...) {
    text += concat(count++ ? ", " : "", name);
  }
};
struct JsonItemCount {
  size_t count = 0;
  template <class T, class... Form>
  void item(const char*, T&, const Form&...) {
    ++count;
  }
};
class JsonItemReader {
 public:
  explicit JsonItemReader(const JsonInput& in) : in_(in), items_(in.list()) {}
  template <class T, class... Form>
  void item(const char* name, T& value, const Form&... form);

 private:
  const JsonInput& in_;
  const std::vector<strict::Json>& items_;
  size_t next_ = 0;
};
template <class Json>
struct JsonItemWriter {
  Json list = Json::array();
  template <class T, class... Form>
  void item(const char* name, const T& value, const Form&... form);
};

template <class V, class T>
concept HasJsonFields = requires(V& v, T& value) { json_fields(v, value); };
template <class V, class T>
concept HasJsonItems = requires(V& v, T& value) { json_items(v, value); };

// ---- writing; declared ahead, since each may hold the others ----

template <class Json, class T>
void write_json(Json& out, const T& value);
template <class Json, class T>
void write_json(Json& out, const std::optional<T>& value);
template <class Json, class T>
void write_json(Json& out, const std::vector<T>& values);
template <class Json, class T>
void write_json(Json& out, const std::map<std::string, T>& values);

template <class Json, class T, class... Form>
void write_json_as(Json& out, const T& value, const Form&... form) {
  if constexpr ((requires { form.write(out, value); } && ...) && sizeof...(Form) > 0) (form.write(out, value), ...);
  else write_json(out, value);
}

template <class Json, class T>
void write_json(Json& out, const T& value) {
  if constexpr (HasJsonFields<JsonWriter<Json>, const T>) {
    JsonWriter<Json> writer;
    json_fields(writer, value);
    out = std::move(writer.object);
  } else if constexpr (HasJsonItems<JsonItemWriter<Json>, const T>) {
    JsonItemWriter<Json> writer;
    json_items(writer, value);
    out = std::move(writer.list);
  } else {
    out = value;
  }
}
template <class Json, class T>
void write_json(Json& out, const std::optional<T>& value) {
  if (value) write_json(out, *value);
  else out = nullptr;
}
template <class Json, class T>
void write_json(Json& out, const std::vector<T>& values) {
  out = Json::array();
  for (const T& value : values) {
    out.push_back(nullptr);
    write_json(out.back(), value);
  }
}
template <class Json, class T>
void write_json(Json& out, const std::map<std::string, T>& values) {
  out = Json::object();
  for (const auto& [key, value] : values) write_json(out[key], value);
}

// ---- reading ----

inline void read_json(const JsonInput& in, bool& value) { value = in.flag(); }
inline void read_json(const JsonInput& in, double& value) { value = in.number(); }
inline void read_json(const JsonInput& in, int64_t& value) { value = in.integer(); }
inline void read_json(const JsonInput& in, uint64_t& value) { value = in.unsigned_integer(); }
inline void read_json(const JsonInput& in, std::string& value) { value = in.text(); }
void read_json(const JsonInput& in, int& value);
template <class T>
  requires HasJsonFields<JsonReader, T>
void read_json(const JsonInput& in, T& value);
template <class T>
  requires HasJsonItems<JsonItemReader, T>
void read_json(const JsonInput& in, T& value);

template <class T>
void read_json(const JsonInput& in, std::optional<T>& value) {
  value.reset();
  if (in.is_null()) return;
  T item{};
  read_json(in, item);
  value = std::move(item);
}
template <class T>
void read_json(const JsonInput& in, std::vector<T>& values) {
  const auto& list = in.list();
  values.clear();
  values.resize(list.size());
  for (size_t i = 0; i < list.size(); ++i) read_json(JsonInput(list[i], in, i), values[i]);
}
template <class T>
void read_json(const JsonInput& in, std::map<std::string, T>& values) {
  values.clear();
  for (const auto& [key, item] : in.members())
    read_json(JsonInput(item, in, key), values.emplace_hint(values.end(), key, T())->second);
}
template <class T>
  requires HasJsonFields<JsonReader, T>
void read_json(const JsonInput& in, T& value) {
  JsonReader reader(in);
  json_fields(reader, value);
  reader.finish();
}
template <class T>
  requires HasJsonItems<JsonItemReader, T>
void read_json(const JsonInput& in, T& value) {
  JsonItemCount items;
  json_items(items, value);
  if (!in.json().is_array() || in.json().size() != items.count) {
    JsonItemNames names;
    json_items(names, value);
    in.expected(concat("[", names.text, "]"));
  }
  JsonItemReader reader(in);
  json_items(reader, value);
}

template <class T, class... Form>
void read_json_as(const JsonInput& in, T& value, const Form&... form) {
  if constexpr (sizeof...(Form) > 0) (form.read(in, value), ...);
  else read_json(in, value);
}

template <class T, class... Form>
void JsonReader::field(const char* name, T& value, const Form&... form) {
  read_json_as((*this)[name], value, form...);
}
template <class Json>
template <class T, class... Form>
void JsonWriter<Json>::field(const char* name, const T& value, const Form&... form) {
  write_json_as(object[name], value, form...);
}
template <class T, class... Form>
void JsonItemReader::item(const char*, T& value, const Form&... form) {
  read_json_as(JsonInput(items_[next_], in_, next_), value, form...);
  ++next_;
}
template <class Json>
template <class T, class... Form>
void JsonItemWriter<Json>::item(const char*, const T& value, const Form&... form) {
  list.push_back(nullptr);
  write_json_as(list.back(), value, form...);
}

// ---- forms ----

// An integer that is read within bounds.
struct Within {
  int64_t least = 0, most = std::numeric_limits<int64_t>::max();
  template <class T>
  void read(const JsonInput& in, T& value) const {
    value = T(in.integer(least, most));
  }
};
// A list whose items have a form.
template <class Form>
struct Each {
  Form form;
  template <class T>
  void read(const JsonInput& in, std::vector<T>& values) const {
    const auto& list = in.list();
    values.resize(list.size());
    for (size_t i = 0; i < list.size(); ++i) form.read(JsonInput(list[i], in, i), values[i]);
  }
  template <class Json, class T>
  void write(Json& out, const std::vector<T>& values) const {
    out = Json::array();
    for (const T& value : values) {
      out.push_back(nullptr);
      write_json_as(out.back(), value, form);
    }
  }
};
template <class Form>
Each(Form) -> Each<Form>;

}  // namespace temper
