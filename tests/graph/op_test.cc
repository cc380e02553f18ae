// SPDX-License-Identifier: Apache-2.0
#include "graph/op.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

#include "graph/batched_node.h"
#include "graph/ops/reshape.h"
#include "graph/ops/softmax.h"
#include "graph/ops/topk.h"
#include "graph/ops/transpose.h"
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

TEST(AllOps, AreWrittenAsOnnxOrRefusedByTheirOwnFunction) {
  for (const Op& op : all_ops()) EXPECT_TRUE(knows_op(op)) << name_of(op) << " is missing in onnx/write_ops.cc";
}

// One batched input of four axes, and an output like it.
struct OneInput final : BatchedNode {
  Shape all{2, 3, 4, 4};
  size_t inputs() const override { return 1; }
  size_t outputs() const override { return 1; }
  bool is_batched(size_t input) const override { return input == 0; }
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
  Op softmax = ops::Softmax{.axis = 1};
  take_slice(softmax, 1);
  EXPECT_EQ(softmax, Op(ops::Softmax{.axis = 1}));
}

TEST(AllOps, NameTheFamilyThatTheyCountAs) {
  EXPECT_EQ(kind_of(ops::Softmax{}), OpKind::softmax);
  EXPECT_EQ(kind_of(ops::Transpose{}), OpKind::movement);
  EXPECT_EQ(kind_of(ops::TopK{}), OpKind::other);
}

}  // namespace
}  // namespace temper
