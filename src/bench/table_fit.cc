// SPDX-License-Identifier: Apache-2.0
#include "bench/table_fit.h"

#include <algorithm>
#include <map>

#include "base/concat.h"

namespace temper {

namespace {

constexpr size_t kGap = 2, kLeastWords = 16;

size_t sum_of(const std::vector<size_t>& widths) {
  size_t sum = widths.empty() ? 0 : kGap * (widths.size() - 1);
  for (const size_t width : widths) sum += width;
  return sum;
}

// What is left when words lose all that they may; numbers stay whole.
size_t least_width(const Table& table) {
  std::vector<size_t> widths = widths_of(table);
  for (size_t c = 0; c < widths.size(); ++c)
    if (!table.columns[c].right) widths[c] = std::min(widths[c], kLeastWords);
  return sum_of(widths);
}

void erase_column(Table& table, size_t column) {
  table.columns.erase(table.columns.begin() + int64_t(column));
  for (auto& row : table.rows) row.erase(row.begin() + int64_t(column));
}

// The text without its middle, of `width` code points.
std::string shortened(const std::string& text, size_t width) {
  const size_t all = width_of(text);
  if (all <= width) return text;
  const size_t head = (width - 1) - (width - 1) / 2, tail = (width - 1) / 2;
  std::string out;
  size_t at = 0;
  bool cut = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool starts = (uint8_t(text[i]) & 0xc0) != 0x80;
    if (starts) ++at;  // the number of this code point, from 1
    if (at <= head || at > all - tail) out += text[i];
    else if (!cut) {
      out += "…";
      cut = true;
    }
  }
  return out;
}

void take_reasons(FittedTable& fit) {
  std::map<std::string, size_t> numbers;
  for (auto& row : fit.table.rows)
    for (std::string& cell : row) {
      if (!cell.starts_with("n/a (") && !cell.starts_with("n/a: ")) continue;
      std::string why = cell.substr(5);
      if (cell[3] == ' ' && why.ends_with(')')) why.pop_back();
      const auto [found, is_new] = numbers.emplace(why, numbers.size() + 1);
      if (is_new) fit.below.push_back(concat("[", found->second, "] ", why));
      cell = concat("n/a [", found->second, "]");
    }
}

void take_notes(FittedTable& fit) {
  for (size_t c = 0; c < fit.table.columns.size(); ++c) {
    if (!fit.table.columns[c].notes) continue;
    std::map<std::string, size_t> numbers;
    for (auto& row : fit.table.rows) {
      if (row[c].empty()) continue;
      const auto [found, is_new] = numbers.emplace(row[c], fit.below.size() + 1);
      if (is_new) fit.below.push_back(concat("[", found->second, "] ", row[c]));
      row[c] = concat("[", found->second, "]");
    }
  }
}

void lift_constant_columns(FittedTable& fit) {
  std::string shared;
  for (size_t c = fit.table.columns.size(); c-- > 1;) {
    const std::string& first = fit.table.rows[0][c];
    if (!std::all_of(fit.table.rows.begin(), fit.table.rows.end(), [&](const auto& row) { return row[c] == first; }))
      continue;
    if (!first.empty()) shared = concat(fit.table.columns[c].name, " ", first, shared.empty() ? "" : ", ", shared);
    erase_column(fit.table, c);
  }
  if (!shared.empty()) fit.above.push_back(shared);
}

void turn(Table& table) {
  Table turned{{{"", false}, {"", false}}, {}};
  for (size_t c = 0; c < table.columns.size(); ++c) turned.rows.push_back({table.columns[c].name, table.rows[0][c]});
  table = std::move(turned);
}

// The last of those of the least weight, but for the first column.
void drop_columns(FittedTable& fit, size_t width) {
  std::string dropped;
  while (least_width(fit.table) > width && fit.table.columns.size() > 1) {
    size_t lightest = fit.table.columns.size() - 1;
    for (size_t c = lightest; c-- > 1;)
      if (fit.table.columns[c].weight < fit.table.columns[lightest].weight) lightest = c;
    const std::string& name = fit.table.columns[lightest].name;
    if (!name.empty()) dropped += concat(dropped.empty() ? "" : ", ", name);
    erase_column(fit.table, lightest);
  }
  if (!dropped.empty()) fit.below.push_back(concat("left out for want of width: ", dropped));
}

void shorten_words(Table& table, size_t width) {
  std::vector<size_t> widths = widths_of(table);
  while (sum_of(widths) > width) {
    size_t widest = widths.size();
    for (size_t c = 0; c < widths.size(); ++c)
      if (!table.columns[c].right && (widest == widths.size() || widths[c] > widths[widest])) widest = c;
    if (widest == widths.size() || widths[widest] <= kLeastWords)  // numbers alone, and one column: cut it as well
      widest = size_t(std::max_element(widths.begin(), widths.end()) - widths.begin());
    if (widths[widest] <= 2) return;
    --widths[widest];
  }
  for (size_t c = 0; c < widths.size(); ++c) {
    table.columns[c].name = shortened(table.columns[c].name, widths[c]);
    for (auto& row : table.rows) row[c] = shortened(row[c], widths[c]);
  }
}

}  // namespace

std::vector<size_t> widths_of(const Table& table) {
  std::vector<size_t> widths;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    size_t width = width_of(table.columns[c].name);
    for (const auto& row : table.rows) width = std::max(width, width_of(row[c]));
    widths.push_back(width);
  }
  return widths;
}

size_t width_of(const std::string& text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (uint8_t(c) & 0xc0) != 0x80; }));
}

FittedTable fitted(const Table& table, size_t width) {
  FittedTable fit{table, {}, {}};
  width = std::max<size_t>(width, 20);
  const auto fits = [&] { return sum_of(widths_of(fit.table)) <= width; };
  take_reasons(fit);
  if (fits()) return fit;
  if (fit.table.rows.size() > 1) lift_constant_columns(fit);
  else if (fit.table.rows.size() == 1 && fit.table.columns.size() > 2) turn(fit.table);
  if (fits()) return fit;
  take_notes(fit);
  if (fits()) return fit;
  drop_columns(fit, width);
  shorten_words(fit.table, width);
  return fit;
}

std::string wrapped(const std::string& text, size_t indent, const std::string& name, size_t width) {
  std::string out = name;
  size_t at = width_of(name);
  const auto to_indent = [&] {
    out.append(indent - std::min(at, indent), ' ');
    at = std::max(at, indent);
  };
  to_indent();
  bool first = true;  // of its line
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    if (!first && width && at + 1 + width_of(word) > width) {
      out += '\n';
      at = 0;
      to_indent();
      first = true;
    }
    if (!first) out += ' ';
    out += word;
    at += width_of(word) + !first;
    first = false;
  }
  return out + "\n";
}

}  // namespace temper
