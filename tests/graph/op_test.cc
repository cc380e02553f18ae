// SPDX-License-Identifier: Apache-2.0
#include "graph/op.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "graph/batched_node.h"
#include "graph/narrow.h"
#include "graph/onnx_form.h"
#include "graph/operations.h"
#include "graph/ops/concat.h"
#include "graph/ops/conv.h"
#include "graph/ops/conv_transpose.h"
#include "graph/ops/pad.h"
#include "graph/ops/pool.h"
#include "graph/ops/reduce.h"
#include "graph/ops/reshape.h"
#include "graph/ops/resize.h"
#include "graph/ops/slice.h"
#include "graph/ops/softmax.h"
#include "graph/ops/topk.h"
#include "graph/ops/transpose.h"
#include "graph/product.h"
#include "onnx/writer.h"

namespace temper {
namespace {

TEST(Op, ACopyIsDeep) {
  Op first = ops::Transpose{{1, 0}};
  const Op second = first;
  EXPECT_EQ(first, second);
  first.get<ops::Transpose>().perm = {0, 1};
  EXPECT_EQ(second.get<ops::Transpose>().perm, (std::vector<int64_t>{1, 0}));
  EXPECT_NE(first, second);
}

TEST(Op, IsOfOneKind) {
  const Op op = ops::Softmax{.axis = 2};
  EXPECT_TRUE(op.is<ops::Softmax>());
  EXPECT_TRUE((op.is<ops::Transpose, ops::Softmax>()));
  EXPECT_FALSE(op.is<ops::Transpose>());
  EXPECT_EQ(op.get_if<ops::Transpose>(), nullptr);
  EXPECT_EQ(op.get_if<ops::Softmax>()->axis, 2);
  EXPECT_THROW(op.get<ops::Transpose>(), std::logic_error);
  EXPECT_NE(op, Op(ops::Transpose{}));
}

TEST(Op, ThatWasMovedFromIsEmpty) {
  Op from = ops::Softmax{};
  const Op to = std::move(from);
  EXPECT_TRUE(to.is<ops::Softmax>());
  EXPECT_EQ(from, Op());  // NOLINT: the state after a move is what this checks
  EXPECT_FALSE(from.is<ops::Softmax>());
  EXPECT_THROW(name_of(from), std::logic_error);
}

TEST(AllOps, HaveNamesOfTheirOwnAndAreReadBack) {
  std::set<std::string_view> names;
  for (const Op& op : all_ops()) {
    EXPECT_TRUE(names.insert(name_of(op)).second) << name_of(op);
    EXPECT_EQ(parse_op(name_of(op), fields_text(op)), op) << name_of(op);
  }
  EXPECT_GE(names.size(), 35u);
}

TEST(AllOps, SayTheirOnnxFormBesideThemOrHaveAFunctionThatWritesThem) {
  for (const Op& op : all_ops())
    EXPECT_NE(onnx_form(op).has_value(), has_write_function(op))
        << name_of(op) << " needs either onnx_form() in its header or a function in onnx/write_ops.cc";
}

TEST(AllOps, HaveAnOnnxFormWithATypeOrWithTheReasonWhyThereIsNone) {
  for (const Op& op : all_ops())
    if (const auto form = onnx_form(op)) { EXPECT_NE(form->type.empty(), form->refusal.empty()) << name_of(op); }
  const OnnxForm softmax = *onnx_form(ops::Softmax{.axis = 2, .log = true});
  EXPECT_EQ(softmax.type, "LogSoftmax");
  ASSERT_EQ(softmax.attributes.size(), 1u);
  EXPECT_EQ(std::get<int64_t>(softmax.attributes[0].value), 2);
}

// One batched input of four axes, and an output like it.
struct OneInput final : BatchedNode {
  Shape all{2, 3, 4, 4};
  size_t inputs() const override { return 1; }
  size_t outputs() const override { return 1; }
  bool has(size_t input) const override { return input == 0; }
  bool is_batched(size_t input) const override { return input == 0; }
  const Shape& shape(size_t) const override { return all; }
  const Shape& out() const override { return all; }
};

// The same with weights.
struct Filtered final : BatchedNode {
  explicit Filtered(bool weights_are_batched) : both(weights_are_batched) {}
  bool both;
  Shape all{2, 3, 4, 4};
  size_t inputs() const override { return 2; }
  size_t outputs() const override { return 1; }
  bool has(size_t input) const override { return input < 2; }
  bool is_batched(size_t input) const override { return input == 0 || both; }
  const Shape& shape(size_t) const override { return all; }
  const Shape& out() const override { return all; }
};

TEST(AllOps, RunOnTheWholeBatchUnlessTheySayThatASliceMayBeComputed) {
  const OneInput node;
  EXPECT_TRUE(sliceable(ops::Softmax{.axis = 1}, node));
  EXPECT_FALSE(sliceable(ops::Softmax{.axis = 0}, node));
  EXPECT_FALSE(sliceable(ops::TopK{}, node));
  Op reshape = ops::Reshape{.shape = {2, 48}};
  EXPECT_TRUE(sliceable(reshape, node));
  take_slice(reshape, 1);
  EXPECT_EQ(fields_text(reshape), "shape=[1,48]");
  Op slice = ops::Slice{.starts = {0, 1, 0, 0}, .sizes = {2, 2, 4, 4}, .steps = {1, 1, 1, 1}};
  EXPECT_TRUE(sliceable(slice, node));
  take_slice(slice, 1);
  EXPECT_EQ(fields_text(slice), "starts=[0,1,0,0] sizes=[1,2,4,4] steps=[1,1,1,1]");
  EXPECT_FALSE(sliceable(ops::Slice{.starts = {1, 0, 0, 0}, .sizes = {1, 3, 4, 4}, .steps = {1, 1, 1, 1}}, node));
  EXPECT_FALSE(sliceable(ops::Slice{.starts = {1, 0, 0, 0}, .sizes = {2, 3, 4, 4}, .steps = {-1, 1, 1, 1}}, node));
  Op resize = ops::Resize{.sizes = {2, 3, 8, 8}, .scales = {1, 1, 2, 2}};
  EXPECT_TRUE(sliceable(resize, node));
  take_slice(resize, 1);
  EXPECT_EQ(resize.get<ops::Resize>().sizes, (Shape{1, 3, 8, 8}));
  EXPECT_FALSE(sliceable(ops::Resize{.sizes = {2, 3, 8, 8}, .scales = {1.2, 1, 2, 2}}, node)) << "along the batch, too";
  EXPECT_TRUE(sliceable(ops::ConvTranspose{}, Filtered(false)));
  EXPECT_FALSE(sliceable(ops::ConvTranspose{}, Filtered(true))) << "the weights carry the batch";
  Op softmax = ops::Softmax{.axis = 1};
  take_slice(softmax, 1);
  EXPECT_EQ(softmax, Op(ops::Softmax{.axis = 1}));
}

// A node of two inputs; the second is a constant that bf16 holds.
struct TwoInputs : NarrowNode {
  DType dtype() const override { return DType::bf16; }
  size_t inputs() const override { return 2; }
  bool has(size_t input) const override { return input < 2; }
  bool is_constant(size_t input) const override { return input == 1; }
  bool survives(size_t input) const override { return input == 1; }
};

TEST(AllOps, ComputeOnF32UnlessTheySayThatANarrowerFloatWillDo) {
  const TwoInputs node;
  for (const Op& op : all_ops()) {
    const NarrowForm form = narrow_form(op, node);
    EXPECT_EQ(form.role == NarrowRole::f32, !form.reason.empty()) << name_of(op);
    if (form.role == NarrowRole::product) { EXPECT_TRUE(is_product(op) && epilogue_of(op)) << name_of(op); }
  }
  EXPECT_EQ(narrow_form(ops::TopK{}, node).reason, "there is no bf16 form of it");
  EXPECT_EQ(narrow_form(ops::Softmax{}, node).reason, "its sums stay in fp32");
  EXPECT_EQ(narrow_form(ops::Transpose{}, node).role, NarrowRole::carrier);
  EXPECT_EQ(narrow_form(ops::Pad{}, node).role, NarrowRole::carrier);
  EXPECT_EQ(narrow_form(ops::Conv{}, node).role, NarrowRole::product);
  struct NoConstants final : TwoInputs {
    bool is_constant(size_t) const override { return false; }
    bool survives(size_t) const override { return false; }
  };
  EXPECT_EQ(narrow_form(ops::Pad{}, NoConstants()).reason, "bf16 does not hold what it fills in");
  EXPECT_EQ(narrow_form(ops::Conv{}, NoConstants()).reason, "its weights are not constant");
}

TEST(AllOps, ThatCarryANarrowerFloatSayWhereTheirElementsComeFrom) {
  // Otherwise squares before them would not be followed to a root behind them (passes/support/squares.h).
  const TwoInputs node;
  for (const Op& op : all_ops())
    if (const NarrowForm form = narrow_form(op, node); form.role == NarrowRole::carrier) {
      bool known = false;
      for (size_t i = 0; i < std::min<size_t>(form.carried, 8); ++i) known |= flow_of(op, i) != Flow::computed;
      EXPECT_TRUE(known) << name_of(op);
    }
}

TEST(AllOps, AreTakenForArithmeticUnlessTheySayMore) {
  Op op = ops::TopK{};
  EXPECT_EQ(flow_of(op, 0), Flow::computed);
  EXPECT_FALSE(is_no_op(op, TensorType::parse("f32[2,1]"), 1));
  EXPECT_EQ(take_untransposed(op, std::vector<int64_t>{1, 0}, 1), std::nullopt);
  EXPECT_EQ(op, Op(ops::TopK{}));
  EXPECT_EQ(bound_of(op), std::nullopt);
}

TEST(AllOps, SayWhatPassesMayDoAroundThem) {
  EXPECT_EQ(flow_of(ops::Concat{}, 1), Flow::moved);
  EXPECT_EQ(flow_of(ops::Transpose{}, 1), Flow::computed);
  EXPECT_EQ(flow_of(ops::Reduce{.kind = ops::ReduceKind::mean}, 0), Flow::averaged);
  EXPECT_EQ(flow_of(ops::Reduce{.kind = ops::ReduceKind::sum_square}, 0), Flow::computed);
  EXPECT_TRUE(is_no_op(ops::Reduce{.axes = {1}}, TensorType::parse("f32[2,1]"), 1));
  EXPECT_FALSE(is_no_op(ops::Reduce{.axes = {1}}, TensorType::parse("f32[2,3]"), 1));
  EXPECT_EQ(bound_of(ops::Softmax{}), 1);
  EXPECT_EQ(bound_of(ops::Softmax{.log = true}), std::nullopt);
  // y[i,j,k] = x[k,i,j] and the sum over j: over axis 2 of x, and what is left is x's axes 1 and 0.
  Op reduce = ops::Reduce{.axes = {1}, .keepdims = false};
  EXPECT_EQ(take_untransposed(reduce, std::vector<int64_t>{1, 2, 0}, 1), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(reduce.get<ops::Reduce>().axes, (std::vector<int64_t>{2}));
  EXPECT_EQ(take_untransposed(reduce, std::vector<int64_t>{1, 2, 0}, 2), std::nullopt);
}

TEST(AllOps, CostWhatTheirTensorsHoldUnlessTheySayMore) {
  const TensorType x = TensorType::parse("f32[1,1,2,8]"), y = TensorType::parse("f32[1,1,1,1]");
  EXPECT_EQ(reference_cost(ops::TopK{}, std::span(&x, 1), std::span(&y, 1)), 17);
  EXPECT_EQ(reference_cost(ops::Pool{.kernel = {1 << 20, 1 << 20}}, std::span(&x, 1), std::span(&y, 1)), 0x1p40);
}

TEST(AllOps, CountNoOperationsUnlessTheySayHowMany) {
  const TensorType x = TensorType::parse("f32[2,8]"), y = TensorType::parse("f32[2,1]");
  EXPECT_FALSE(operations_of(ops::Softmax{}, std::span(&x, 1), std::span(&x, 1)));
  const auto sums = operations_of(ops::Reduce{.axes = {1}}, std::span(&x, 1), std::span(&y, 1));
  ASSERT_TRUE(sums);
  EXPECT_EQ(sums->others, 16);
  EXPECT_EQ(sums->products, 0);
}

TEST(AllOps, NameTheFamilyThatTheyCountAs) {
  EXPECT_EQ(kind_of(ops::Softmax{}), OpKind::softmax);
  EXPECT_EQ(kind_of(ops::Transpose{}), OpKind::movement);
  EXPECT_EQ(kind_of(ops::TopK{}), OpKind::other);
}

}  // namespace
}  // namespace temper
