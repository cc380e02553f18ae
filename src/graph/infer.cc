// SPDX-License-Identifier: Apache-2.0
#include "graph/infer.h"

namespace temper {

// Symbols are letters, digits, '_', '.', '$' and start with no digit; everything else becomes '_'.
Dim InferContext::unknown(int output, int64_t axis) const {
  std::string symbol = "$";
  for (char c : name_)
    symbol += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ? c : '_';
  return Dim::symbol(concat(symbol, ".", output, ".", axis));
}

void InferContext::expect_inputs(size_t least, size_t most) const {
  if (size() < least || size() > most)
    fail(ErrorKind::bad_file, size(), " inputs were given; ", least, least == most ? "" : concat(" to ", most), " are needed");
}

void InferContext::expect_rank(size_t i, int64_t least, int64_t most) const {
  if (type(i).rank() < least || type(i).rank() > most)
    fail(ErrorKind::bad_file, "input ", i, " has type ", type(i), "; its rank must be ", least,
         most == least ? "" : most == kMaxRank ? " or more" : concat(" to ", most));
}

void InferContext::expect_same_dtype(size_t i, size_t j) const {
  if (type(i).dtype != type(j).dtype)
    fail(ErrorKind::bad_file, "inputs ", i, " (", type(i), ") and ", j, " (", type(j), ") must have one dtype");
}

}  // namespace temper
