// SPDX-License-Identifier: Apache-2.0
// gather(x, indices): picks elements of x. Indices are i32 or i64 and count from the end where negative; one that does
// not exist is an error.
//   axis:     out[o..., i..., k...] = x[o..., indices[i...], k...], the indices' axes stand in the place of `axis`
//   elements: out[i...] = x[i... with i[axis] replaced by indices[i...]]; out has the shape of the indices
//   nd:       the last axis of the indices is a position in the axes of x after the first `batch_dims`
#pragma once
#include "graph/fields.h"
#include "graph/flow.h"
#include "graph/infer.h"
#include "graph/narrow.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

enum class GatherKind { axis, elements, nd };
constexpr std::array<std::string_view, 3> enum_names(GatherKind) { return {"axis", "elements", "nd"}; }

struct Gather {
  static constexpr std::string_view name = "gather";
  static constexpr OpKind op_kind = OpKind::movement;
  GatherKind kind = GatherKind::axis;
  int64_t axis = 0;        // axis and elements: 0 <= axis < rank
  int64_t batch_dims = 0;  // nd

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("kind", op.kind);
    f("axis", op.axis);
    f("batch_dims", op.batch_dims);
  }
  bool operator==(const Gather&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  NarrowForm narrow_form(const NarrowNode&) const { return NarrowRole::carrier; }
  OnnxForm onnx_form() const;
  Flow flow(size_t input) const { return input == 0 ? Flow::moved : Flow::computed; }
};

// The element that index `index` of an axis of `size` elements means; throws Error{usage} where there is none.
int64_t resolve_index(int64_t index, int64_t size);
void expect_indices(const InferContext& context, size_t input);  // i32 or i64

}  // namespace temper::ops
