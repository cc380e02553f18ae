// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "../run_node.h"

namespace temper {
namespace {

NodeCase batch_norm(std::set<size_t> constants) {
  NodeCase test{
      "BatchNormalization",
      15,
      {Tensor::of<float>({1, 2, 2}, {1, 2, 3, 4}), Tensor::of<float>({2}, {2, 3}), Tensor::of<float>({2}, {-1, 1}),
       Tensor::of<float>({2}, {0.5f, -2}), Tensor::of<float>({2}, {4, 0.25f})}};
  test.constants = std::move(constants);
  return test;
}

TEST(ImportBatchNormalization, ConstantParametersBecomeOneScaleAndOneShift) {
  const Graph graph = import_node(batch_norm({1, 2, 3, 4}));
  EXPECT_EQ(graph.node_count(), 2) << print(graph);  // multiply, add
  const auto folded = run_node(batch_norm({1, 2, 3, 4}))[0].to_doubles(),
             spelled = run_node(batch_norm({}))[0].to_doubles();
  for (size_t i = 0; i < folded.size(); ++i) EXPECT_NEAR(folded[i], spelled[i], 1e-5);
  EXPECT_NEAR(folded[0], (1 - 0.5) / 2 * 2 - 1, 1e-5);
}

TEST(ImportBatchNormalization, TrainingIsRefused) {
  NodeCase test = batch_norm({});
  test.attributes = [](onnx::NodeProto& node) { set_attribute(node, "training_mode", int64_t(1)); };
  EXPECT_EQ(import_error(test), ErrorKind::unsupported);
}

TEST(ImportGroupNormalization, GroupsAreNormalisedTogetherAndScaledByChannel) {
  const Tensor x = Tensor::of<float>({1, 4, 1}, {1, 3, 10, 30});
  NodeCase test{
      "GroupNormalization", 21, {x, Tensor::of<float>({4}, {1, 2, 3, 4}), Tensor::of<float>({4}, {0, 0, 0, 5})}};
  test.attributes = [](onnx::NodeProto& node) { set_attribute(node, "num_groups", int64_t(2)); };
  const auto y = run_node(test)[0].to_doubles();
  const std::vector<double> wanted = {-1, 2, -3, 9};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(y[i], wanted[i], 1e-4);
}

TEST(ImportLpNormalization, AVectorOfZerosStaysZero) {
  NodeCase test{"LpNormalization", 22, {Tensor::of<float>({2, 2}, {0, 0, 3, 4})}};
  const auto y = run_node(test)[0].to_doubles();
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 0);
  EXPECT_FLOAT_EQ(y[2], 0.6f);
}

}  // namespace
}  // namespace temper
