// SPDX-License-Identifier: Apache-2.0
// constant_strings() -> string of `shape`: the strings of a model. They are fields of an op, and no constant tensor, as
// the elements of such a tensor mean something beside their table alone (base/string_table.h).
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct ConstantStrings {
  static constexpr std::string_view name = "constant_strings";
  static constexpr OpKind op_kind = OpKind::string;
  std::vector<int64_t> shape;
  std::vector<std::string> values;  // row-major

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("shape", op.shape);
    f("values", op.values);
  }
  bool operator==(const ConstantStrings&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
};

// The op of a tensor's strings.
ConstantStrings constant_strings(const Tensor& tensor);

}  // namespace temper::ops
