// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/string_split.h"

#include <algorithm>

#include "base/string_table.h"
#include "graph/strings.h"

namespace temper::ops {

namespace {

constexpr std::string_view kBlanks = " \t\n\v\f\r";

std::vector<std::string_view> split(std::string_view text, const StringSplit& op) {
  std::vector<std::string_view> parts;
  const bool blanks = op.delimiter.empty();
  const auto skip = [&] {
    if (blanks) text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  };
  skip();
  if (blanks && text.empty()) return parts;
  while (op.most < 0 || int64_t(parts.size()) < op.most) {
    const size_t end = blanks ? text.find_first_of(kBlanks) : text.find(op.delimiter);
    if (end == text.npos) break;
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + (blanks ? 1 : op.delimiter.size()));
    skip();
    if (blanks && text.empty()) return parts;
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::vector<std::string_view>> split_all(const Tensor& x, const StringSplit& op) {
  std::vector<std::vector<std::string_view>> all;
  for (uint64_t code : codes_of(x)) all.push_back(split(current_strings().at(code), op));
  return all;
}

int64_t most_parts(const std::vector<std::vector<std::string_view>>& all) {
  size_t most = 0;
  for (const auto& parts : all) most = std::max(most, parts.size());
  return int64_t(most);
}

}  // namespace

std::vector<TensorType> StringSplit::infer(const InferContext& context) const {
  context.expect_inputs(1, 1);
  context.expect_rank(0, 0, kMaxRank - 1);
  expect_strings(context, 0);
  TensorType parts = context.type(0);
  const Tensor* known = context.constant(0);  // of a run, just before it
  parts.shape.push_back(known ? Dim(most_parts(split_all(*known, *this))) : context.unknown(0, parts.rank()));
  return {parts, {DType::i64, context.type(0).shape}};
}

std::vector<Tensor> StringSplit::reference(std::span<const Tensor> inputs, std::span<const TensorType>) const {
  const std::vector<std::vector<std::string_view>> all = split_all(inputs[0], *this);
  Dims dims = inputs[0].dims();
  const int64_t width = most_parts(all);
  dims.push_back(width);
  Tensor parts(DType::u64, dims);  // zeros: empty strings
  Tensor counts(DType::i64, inputs[0].dims());
  for (size_t i = 0; i < all.size(); ++i) {
    counts.data<int64_t>()[i] = int64_t(all[i].size());
    for (size_t p = 0; p < all[i].size(); ++p)
      parts.data<uint64_t>()[int64_t(i) * width + int64_t(p)] = current_strings().code_of(all[i][p]);
  }
  return {parts.with_bits_as(DType::string), counts};
}

OnnxForm StringSplit::onnx_form() const {
  OnnxForm form{"StringSplit", {}};
  if (!delimiter.empty()) form.attributes.push_back({"delimiter", delimiter});
  if (most >= 0) form.attributes.push_back({"maxsplit", most});
  return form;
}

}  // namespace temper::ops
