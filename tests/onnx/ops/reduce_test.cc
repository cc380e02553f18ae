// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "../run_node.h"

namespace temper {
namespace {

using Values = std::vector<double>;
const Tensor kMatrix = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});

TEST(ImportReduce, AxesMayBeDataThatIsKnownOnlyAtRunTime) {
  NodeCase test{"ReduceSum", 13, {kMatrix, Tensor::of<int64_t>({1}, {-1})}};
  EXPECT_EQ(run_node(test)[0].to_doubles(), (Values{6, 15}));
  EXPECT_EQ(run_node(test)[0].dims(), (Dims{2, 1}));
  test.attributes = [](onnx::NodeProto& node) { set_attribute(node, "keepdims", int64_t(0)); };
  EXPECT_EQ(run_node(test)[0].dims(), (Dims{2}));
}

TEST(ImportReduce, NoAxesMeansAllUnlessItMeansNone) {
  NodeCase test{"ReduceSum", 13, {kMatrix, Tensor::of<int64_t>({0}, {})}};
  for (int constant = 0; constant < 2; ++constant) {
    if (constant) test.constants = {1};
    test.attributes = {};
    EXPECT_EQ(run_node(test)[0].to_doubles(), (Values{21}));
    test.attributes = [](onnx::NodeProto& node) { set_attribute(node, "noop_with_empty_axes", int64_t(1)); };
    EXPECT_EQ(run_node(test)[0].to_doubles(), kMatrix.to_doubles());
  }
}

TEST(ImportReduce, AnAxisThatIsTwiceThereIsABadFile) {
  NodeCase test{"ReduceMax", 13, {kMatrix}};
  test.attributes = [](onnx::NodeProto& node) { set_attribute(node, "axes", std::vector<int64_t>{1, -1}); };
  EXPECT_EQ(import_error(test), ErrorKind::bad_file);
}

TEST(ImportReduce, ProductsAndSumsOfIntegersWrap) {
  const int64_t large = int64_t(1) << 62;
  const Tensor values = Tensor::of<int64_t>({3}, {large, 2, 3});
  EXPECT_EQ(run_node({"ReduceProd", 13, {values}})[0].to_ints(), (std::vector<int64_t>{int64_t(uint64_t(large) * 6)}));
  const Tensor sums = Tensor::of<int64_t>({2}, {std::numeric_limits<int64_t>::max(), 1});
  EXPECT_EQ(run_node({"ReduceSum", 13, {sums}})[0].to_ints(),
            (std::vector<int64_t>{std::numeric_limits<int64_t>::lowest()}));
}

// The logarithm of nothing is minus infinity and that of a negative sum NaN: integers have neither.
TEST(ImportReduce, LogarithmsThatNoIntegerIsSaturate) {
  const std::vector<int64_t> lowest{std::numeric_limits<int64_t>::lowest()};
  const Tensor nothing(DType::i64, {1, 0}), negative = Tensor::of<int64_t>({2}, {-3, 1});
  EXPECT_EQ(run_node({"ReduceLogSumExp", 18, {nothing}})[0].to_ints(), lowest);
  EXPECT_EQ(run_node({"ReduceLogSum", 18, {nothing}})[0].to_ints(), lowest);
  EXPECT_EQ(run_node({"ReduceLogSum", 18, {negative}})[0].to_ints(), std::vector<int64_t>{0});
}

TEST(ImportHardmax, OnlyTheFirstMaximumIsOne) {
  EXPECT_EQ(run_node({"Hardmax", 13, {Tensor::of<float>({1, 3}, {2, 5, 5})}})[0].to_doubles(), (Values{0, 1, 0}));
}

TEST(ImportArgMax, TheLastWinnerOnDemandAndNaNWins) {
  NodeCase test{"ArgMax", 13, {Tensor::of<float>({4}, {5, 1, 5, 0})}};
  EXPECT_EQ(run_node(test)[0].to_doubles(), (Values{0}));
  test.attributes = [](onnx::NodeProto& node) { set_attribute(node, "select_last_index", int64_t(1)); };
  EXPECT_EQ(run_node(test)[0].to_doubles(), (Values{2}));
  test.inputs = {Tensor::of<float>({4}, {5, __builtin_nanf(""), 9, 0})};
  EXPECT_EQ(run_node(test)[0].to_doubles(), (Values{1}));
}

TEST(ImportCumSum, ExclusiveAndReverseWithTheAxisAsData) {
  NodeCase test{"CumSum", 14, {Tensor::of<int32_t>({3}, {1, 2, 3}), Tensor::of<int64_t>({}, {-1})}};
  EXPECT_EQ(run_node(test)[0].to_doubles(), (Values{1, 3, 6}));
  test.attributes = [](onnx::NodeProto& node) {
    set_attribute(node, "exclusive", int64_t(1)), set_attribute(node, "reverse", int64_t(1));
  };
  EXPECT_EQ(run_node(test)[0].to_doubles(), (Values{5, 3, 0}));
}

}  // namespace
}  // namespace temper
