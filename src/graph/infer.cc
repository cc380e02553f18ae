// SPDX-License-Identifier: Apache-2.0
#include "graph/infer.h"

namespace temper {

// Symbols are letters, digits, '_', '.', '$' and start with no digit; everything else becomes '_'.
std::string symbol_of(std::string_view node_name) {
  std::string symbol = "$";
  for (char c : node_name)
    symbol += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ? c : '_';
  return symbol;
}

Dim InferContext::unknown(int output, int64_t axis) const {
  has_unknown_ = true;
  return Dim::symbol(concat(symbol_of(name_), ".", output, ".", axis));
}

TensorOperands::TensorOperands(std::span<const Tensor> tensors)
    : types_(tensors.size()), contents_(tensors.size()), operands_(tensors.size()) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    if (!tensor.defined()) continue;
    types_[i] = tensor.type();
    operands_[i] = {&types_[i], &tensor, nullptr};
    if (!has_contents(tensor.dtype()) || tensor.count() > kMaxContents) continue;
    const auto ints = tensor.to_ints();
    contents_[i].assign(ints.begin(), ints.end());
    operands_[i].contents = &contents_[i];
  }
}

void bind_unknown(const TensorType& type, const Dims& dims, Bindings& bindings) {
  for (size_t i = 0; i < type.shape.size() && type.shape.size() == dims.size(); ++i)
    if (type.shape[i].is_symbol()) bindings.try_emplace(type.shape[i].text(), dims[i]);
}

void InferContext::expect_inputs(size_t least, size_t most) const {
  if (size() < least || size() > most)
    fail(ErrorKind::bad_file, size(), " inputs were given; ", least, least == most ? "" : concat(" to ", most),
         " are needed");
}

void InferContext::expect_rank(size_t i, int64_t least, int64_t most) const {
  if (type(i).rank() < least || type(i).rank() > most)
    fail(ErrorKind::bad_file, "input ", i, " has type ", type(i), "; its rank must be ", least,
         most == least      ? ""
         : most == kMaxRank ? " or more"
                            : concat(" to ", most));
}

void InferContext::expect_same_dtype(size_t i, size_t j) const {
  if (type(i).dtype != type(j).dtype)
    fail(ErrorKind::bad_file, "inputs ", i, " (", type(i), ") and ", j, " (", type(j), ") must have one dtype");
}

}  // namespace temper
