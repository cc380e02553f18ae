// SPDX-License-Identifier: Apache-2.0
#include "interop/layer_json.h"

#include "base/quote.h"

namespace temper {

namespace {

constexpr size_t kLongestKey = 64;

class Escaper {
 public:
  explicit Escaper(std::string_view text) : text_(text) {}
  std::string run() {
    for (size_t i = 0; i < text_.size();) {
      const char c = text_[i];
      if (c == '"') {
        const bool key = in_object() && expects_key_;
        const size_t end = key ? text_.find('"', i + 1) : end_of_value(i + 1);
        if (end == text_.npos) return out_.append(text_.substr(i));  // whoever parses it says so
        out_ += '"';
        escape(text_.substr(i + 1, end - i - 1));
        out_ += '"';
        i = end + 1;
        continue;
      }
      if (c == '{' || c == '[') nesting_ += c;
      if ((c == '}' || c == ']') && !nesting_.empty()) nesting_.pop_back();
      if (c == '{' || c == ',') expects_key_ = true;
      if (c == ':' || c == '[') expects_key_ = false;
      out_ += c;
      ++i;
    }
    return std::move(out_);
  }

 private:
  std::string_view text_;
  std::string out_, nesting_;
  bool expects_key_ = false;

  bool in_object() const { return !nesting_.empty() && nesting_.back() == '{'; }
  size_t skip(size_t i) const {
    while (i < text_.size() && (text_[i] == ' ' || text_[i] == '\n' || text_[i] == '\r' || text_[i] == '\t')) ++i;
    return i;
  }
  bool is(size_t i, std::string_view any) const { return i < text_.size() && any.find(text_[i]) != any.npos; }

  size_t end_of_value(size_t from) const {
    for (size_t quote = text_.find('"', from); quote != text_.npos; quote = text_.find('"', quote + 1))
      if (ends_value(quote)) return quote;
    return text_.npos;
  }
  bool ends_value(size_t quote) const {
    size_t next = skip(quote + 1);
    if (next == text_.size()) return true;
    if (is(next, in_object() ? "}" : "]")) {
      const size_t after = skip(next + 1);
      return after == text_.size() || is(after, ",]}");
    }
    if (!is(next, ",")) return false;
    next = skip(next + 1);
    if (!in_object()) return is(next, "\"{[0123456789-tfn");
    if (!is(next, "\"")) return false;
    const size_t key_end = text_.substr(0, std::min(text_.size(), next + kLongestKey)).find('"', next + 1);
    return key_end != text_.npos && is(skip(key_end + 1), ":");
  }

  static bool is_escape(std::string_view text) {  // at a backslash
    if (text.size() < 2) return false;
    if (text[1] == '"' || text[1] == '\\' || text[1] == '/') return true;
    if (text[1] != 'u' || text.size() < 6) return false;
    // The halves of a pair are left alone only together; one alone would be an error.
    return text.substr(2, 4).find_first_not_of("0123456789abcdefABCDEF") == text.npos && (text[2] | 0x20) != 'd';
  }

  void escape(std::string_view name) {
    constexpr std::string_view digits = "0123456789abcdef";
    for (size_t i = 0; i < name.size();) {
      const std::string_view rest = name.substr(i);
      const auto c = static_cast<unsigned char>(name[i]);
      if (c == '\\') {
        const size_t length = !is_escape(rest) ? 0 : rest[1] == 'u' ? 6 : 2;
        if (length) out_ += rest.substr(0, length);
        else out_ += "\\\\";
        i += std::max<size_t>(1, length);
      } else if (c == '"') {
        out_ += "\\\"";
        ++i;
      } else if (c < 0x20) {
        out_ += concat("\\u00", digits[c >> 4], digits[c & 15]);
        ++i;
      } else if (const size_t length = utf8_length(name, i)) {
        out_ += rest.substr(0, length);
        i += length;
      } else {
        out_ += '?';
        ++i;
      }
    }
  }
};

}  // namespace

std::string with_escaped_names(std::string_view text) { return Escaper(text).run(); }

strict::Json parse_layer_json(std::string_view text, std::string_view what) {
  try {
    return strict::parse(text, what);
  } catch (const Error& first) {
    try {
      return strict::parse(with_escaped_names(text), what);
    } catch (const Error&) {
      throw first;  // its place is one of the file
    }
  }
}

}  // namespace temper
