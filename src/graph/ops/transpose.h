// SPDX-License-Identifier: Apache-2.0
// transpose(x): output axis i is input axis perm[i].
#pragma once
#include <algorithm>

#include "graph/batched_node.h"
#include "graph/fields.h"
#include "graph/flow.h"
#include "graph/infer.h"
#include "graph/narrow.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct Transpose {
  static constexpr std::string_view name = "transpose";
  static constexpr OpKind op_kind = OpKind::movement;
  std::vector<int64_t> perm;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("perm", op.perm);
  }
  bool operator==(const Transpose&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  bool sliceable(const BatchedNode&) const { return perm[0] == 0; }
  NarrowForm narrow_form(const NarrowNode&) const { return NarrowRole::carrier; }
  OnnxForm onnx_form() const { return {"Transpose", {{"perm", perm}}}; }
  Flow flow(size_t input) const { return input == 0 ? Flow::moved : Flow::computed; }
  bool is_no_op(const TensorType&, size_t) const { return std::is_sorted(perm.begin(), perm.end()); }
};

}  // namespace temper::ops
