// SPDX-License-Identifier: Apache-2.0
#include "base/json_struct.h"

#include <algorithm>
#include <cmath>

namespace temper {

namespace {

constexpr size_t kLongestKey = 80;  // of a file that may be hostile, in a message

}  // namespace

std::string JsonInput::place() const {
  if (!in_) return std::string(key_);
  const std::string before = in_->place();
  if (is_item_) return concat(before, "[", index_, "]");
  return concat(before, before.empty() ? "" : ".", key_.substr(0, kLongestKey));
}

void JsonInput::expected(std::string_view what) const {
  refuse(what, " expected, found ", std::string_view(json_.type_name()));
}

bool JsonInput::flag() const {
  if (!json_.is_boolean()) expected("true or false");
  return json_.get<bool>();
}
double JsonInput::number() const {
  if (!json_.is_number()) expected("a number");
  return json_.get<double>();  // finite: the parser refuses larger ones
}
int64_t JsonInput::integer() const {
  if (!json_.is_number_integer() ||
      (json_.is_number_unsigned() && json_.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max())))
    expected("an integer of 64 bits");
  return json_.get<int64_t>();
}
int64_t JsonInput::integer(int64_t least, int64_t most) const {
  const int64_t value = integer();
  if (value < least || value > most) refuse("an integer from ", least, " to ", most, " expected, found ", value);
  return value;
}
uint64_t JsonInput::unsigned_integer() const {
  if (!json_.is_number_unsigned()) expected("an integer that is not negative");
  return json_.get<uint64_t>();
}
const std::string& JsonInput::text() const {
  if (!json_.is_string()) expected("a string");
  return json_.get_ref<const std::string&>();
}
const std::vector<strict::Json>& JsonInput::list() const {
  if (!json_.is_array()) expected("an array");
  return json_.get_ref<const strict::Json::array_t&>();
}
const strict::Json::object_t& JsonInput::members() const {
  if (!json_.is_object()) expected("an object");
  return json_.get_ref<const strict::Json::object_t&>();
}

JsonReader::JsonReader(const JsonInput& in) : in_(in) { in.members(); }

bool JsonReader::has(const char* name) const {
  const auto found = in_.json().find(name);
  return found != in_.json().end() && !found->is_null();
}

JsonInput JsonReader::operator[](const char* name) {
  const auto found = in_.json().find(name);
  if (found == in_.json().end()) refuse(name, "this field is missing");
  known_.push_back(name);
  return JsonInput(*found, in_, name);
}

void JsonReader::expect_schema(std::string_view remedy) {
  const std::string_view read = in_.schema();
  const JsonInput member = (*this)["schema"];
  const std::string& found = member.text();
  if (found == read) return;
  const bool is_another_version = std::string_view(found).starts_with(read.substr(0, read.find('/') + 1));
  fail(is_another_version ? ErrorKind::unsupported : ErrorKind::bad_file, "the schema is '",
       std::string_view(found).substr(0, kLongestKey), "', this version of Temper reads '", read, "': ",
       is_another_version ? "read the file with the version that wrote it, or write it again with this one: "
                          : "it is a file of another kind; one of this kind is written by ",
       remedy);
}

void JsonReader::finish() const {
  if (in_.schema().empty()) return;
  for (const auto& [key, value] : in_.members())
    if (std::find(known_.begin(), known_.end(), key) == known_.end())
      JsonInput(value, in_, key).refuse("unknown field in ", in_.schema());
}

void read_json(const JsonInput& in, int& value) {
  const int64_t wide = in.integer();
  if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max())
    in.refuse(wide, " is too large");
  value = int(wide);
}

}  // namespace temper
