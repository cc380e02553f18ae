// SPDX-License-Identifier: Apache-2.0
#include "graph/op.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

#include "graph/ops/softmax.h"
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

}  // namespace
}  // namespace temper
