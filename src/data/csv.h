// SPDX-License-Identifier: Apache-2.0
// Reads samples as text: one a row, flattened in row-major order, fields separated by commas, quoted fields as RFC 4180
// has them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace temper {

struct CsvTable {
  int64_t rows = 0, columns = 0;  // of `values`, the label column not counted
  std::vector<double> values;     // rows x columns
  std::vector<int64_t> labels;    // empty: there is no label column
};

// The first line is a header when none of its fields is a number, or when one of them is the label column's name.
// `label_column`: "" takes the column that the header calls "label", if there is one; "first", "last" and "none" need
// no header; anything else must be in the header. Throws Error{bad_file} that names row and column (both from 1, the
// header counted as a row) for what is no finite number, a label that is no integer >= 0, rows of different lengths, a
// quote that does not end and an empty table; Error{usage} for a label column that is not there.
// A row of more than `most_fields` is refused while it is read.
constexpr int64_t kMostFields = int64_t(1) << 24;
CsvTable parse_csv(std::string_view text, const std::string& label_column = "", int64_t most_fields = kMostFields);
CsvTable read_csv(const std::string& path, const std::string& label_column = "",
                  int64_t most_fields = kMostFields);  // errors name the path

}  // namespace temper
