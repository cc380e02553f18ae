// SPDX-License-Identifier: Apache-2.0
#include "base/strict_json.h"

#include <cstdio>

#include "base/quote.h"

namespace temper::strict {

namespace {

constexpr size_t kMaxDepth = 16;

// Builds the value; stops at the first thing that is not allowed.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Json root;
  std::string problem;

  bool null() override { return place(nullptr); }
  bool boolean(bool value) override { return place(value); }
  bool number_integer(int64_t value) override { return place(value); }
  bool number_unsigned(uint64_t value) override { return place(value); }
  bool number_float(double value, const std::string&) override { return place(value); }
  bool string(std::string& value) override { return place(std::move(value)); }
  bool binary(Json::binary_t&) override { return stop("binary data"); }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    auto [it, fresh] = stack_.back()->get_ref<Json::object_t&>().emplace(name, nullptr);
    member_ = &it->second;
    return fresh || stop(concat("the key '", name.substr(0, 80), "' is there twice"));
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return stop(concat("it is not JSON at byte ", position));
  }

 private:
  std::vector<Json*> stack_;
  Json* member_ = nullptr;

  bool stop(std::string why) {
    problem = std::move(why);
    return false;
  }
  Json* put(Json value) {
    if (stack_.empty()) return &(root = std::move(value));
    if (stack_.back()->is_object()) return &(*member_ = std::move(value));
    auto& list = stack_.back()->get_ref<Json::array_t&>();
    list.push_back(std::move(value));
    return &list.back();
  }
  bool place(Json value) {
    put(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (stack_.size() >= kMaxDepth) return stop("it is nested too deeply");
    stack_.push_back(put(std::move(value)));
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }
};

}  // namespace

Json parse(std::string_view text, std::string_view what) {
  Builder builder;
  if (!Json::sax_parse(text, &builder)) fail(ErrorKind::bad_file, what, " is damaged: ", builder.problem);
  return std::move(builder.root);
}

namespace {

// Such characters stand inside strings alone, where \u says them. The text is UTF-8 by now.
std::string escaped(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    if (const char c = text[at]; c == '\n' || (c >= ' ' && c < 0x7f)) {  // nearly always
      out += c;
      ++at;
      continue;
    }
    const size_t length = std::max<size_t>(utf8_length(text, at), 1);
    const std::string_view c = std::string_view(text).substr(at, length);
    if (printable(c) == c) {
      out += c;
    } else {
      const auto byte = [&](size_t i) { return uint32_t(uint8_t(c[i])); };
      const uint32_t code = length == 1   ? byte(0)
                            : length == 2 ? (byte(0) & 0x1f) << 6 | (byte(1) & 0x3f)
                                          : (byte(0) & 0xf) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", code);
      out += escape;
    }
    at += length;
  }
  return out;
}

}  // namespace

std::string dump(const Json& json, int indent) {
  return escaped(json.dump(indent, ' ', false, Json::error_handler_t::replace));
}
std::string dump_ordered(const nlohmann::ordered_json& json, int indent) {
  return escaped(json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace temper::strict
