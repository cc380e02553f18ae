// SPDX-License-Identifier: Apache-2.0
#include "data/csv.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/quote.h"

namespace temper {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Reads record after record. A line break inside quotes belongs to the field, so a row can span lines.
class Reader {
 public:
  Reader(std::string_view text, int64_t most_fields) : text_(text), most_fields_(size_t(most_fields)) {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;  // the byte order mark that spreadsheets write
  }
  // False at the end of the text. Line breaks at the very end are no rows. The fields are good until the next row is
  // read.
  bool next(std::vector<std::string_view>& fields) {
    if (text_.find_first_not_of("\r\n", at_) == text_.npos) return false;
    fields.clear();
    unquoted_.clear();
    ++row_;
    for (;;) {
      if (fields.size() == most_fields_)
        fail(ErrorKind::bad_file, "row ", row_, " has more than ", most_fields_,
             " fields, far more than a sample has values");
      fields.push_back(field());
      if (at_ < text_.size() && text_[at_] == ',') {
        ++at_;
        continue;
      }
      if (at_ < text_.size() && text_[at_] == '\r') ++at_;
      if (at_ < text_.size() && text_[at_] != '\n')
        fail(ErrorKind::bad_file, "row ", row_, ", column ", fields.size(), ": text after a closing quote");
      if (at_ < text_.size()) ++at_;
      return true;
    }
  }
  int64_t row() const { return row_; }  // of the record read last, from 1

 private:
  std::string_view field() {
    const size_t start = text_.find_first_not_of(" \t", at_);
    if (start == text_.npos || text_[start] != '"') {
      const size_t end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
      const std::string_view value = trimmed(text_.substr(at_, end - at_));
      at_ = end;
      return value;
    }
    std::string& value = unquoted_.emplace_back();
    for (at_ = start + 1;; ++at_) {
      if (at_ >= text_.size()) fail(ErrorKind::bad_file, "row ", row_, ": a quote that does not end");
      if (text_[at_] == '"') {
        ++at_;
        if (at_ >= text_.size() || text_[at_] != '"') break;  // a doubled quote stands for one
      }
      value += text_[at_];
    }
    at_ = std::min(text_.find_first_not_of(" \t", at_), text_.size());
    return value;
  }

  std::string_view text_;
  size_t most_fields_;
  std::deque<std::string> unquoted_;  // fields that stand in quotes, of this row
  size_t at_ = 0;
  int64_t row_ = 0;
};

std::string shown(std::string_view field) { return printable(field.substr(0, 40)); }  // for a message

// Which column holds the label, or -1. Sets `is_header`.
int64_t find_label(const std::vector<std::string_view>& first, const std::string& label_column, bool& is_header) {
  const bool positional = label_column == "first" || label_column == "last" || label_column == "none";
  const std::string name = label_column.empty() || positional ? "label" : label_column;
  const auto found = std::find(first.begin(), first.end(), name);
  is_header = found != first.end() || std::none_of(first.begin(), first.end(),
                                                   [](const auto& f) { return parse_number<double>(f).has_value(); });
  if (label_column == "none") return -1;
  if (label_column == "first") return 0;
  if (label_column == "last") return int64_t(first.size()) - 1;
  if (found != first.end()) return found - first.begin();
  if (!label_column.empty())
    fail(ErrorKind::usage, "the header has no column '", label_column,
         "'; a label column is named by its header or is one of first, last, none");
  return -1;
}

}  // namespace

CsvTable parse_csv(std::string_view text, const std::string& label_column, int64_t most_fields) {
  Reader reader(text, most_fields);
  CsvTable table;
  std::vector<std::string_view> fields;
  if (!reader.next(fields)) fail(ErrorKind::bad_file, "an empty table");
  bool is_header = false;
  const size_t width = fields.size();
  const int64_t label = find_label(fields, label_column, is_header);
  table.columns = int64_t(width) - (label >= 0);
  if (table.columns == 0) fail(ErrorKind::bad_file, "a table with labels and no values");
  bool more = true;
  if (is_header) more = reader.next(fields);
  for (; more; more = reader.next(fields)) {
    if (fields.size() != width)
      fail(ErrorKind::bad_file, "row ", reader.row(), " has ", fields.size(), " fields; row 1 has ", width);
    for (size_t c = 0; c < width; ++c) {
      const auto value = parse_number<double>(fields[c]);
      if (!value || !std::isfinite(*value)) {
        const bool semicolons = fields[c].find(';') != std::string_view::npos;
        fail(ErrorKind::bad_file, "row ", reader.row(), ", column ", c + 1, ": '", shown(fields[c]),
             "' is not a finite number", semicolons ? "; fields are separated by commas" : "");
      }
      if (int64_t(c) != label) {
        table.values.push_back(*value);
      } else {
        if (*value != std::floor(*value) || *value < 0 || *value > 1e9)
          fail(ErrorKind::bad_file, "row ", reader.row(), ", column ", c + 1, ": the label '", shown(fields[c]),
               "' is not the number of a class (0, 1, ...)");
        table.labels.push_back(int64_t(*value));
      }
    }
    ++table.rows;
  }
  if (table.rows == 0) fail(ErrorKind::bad_file, "a table with a header and no rows");
  return table;
}

CsvTable read_csv(const std::string& path, const std::string& label_column, int64_t most_fields) {
  MappedFile file(path);
  const auto bytes = file.bytes();
  return with_context([&] { return concat("'", path, "'"); },
                      [&] {
                        return parse_csv({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, label_column,
                                         most_fields);
                      });
}

}  // namespace temper
