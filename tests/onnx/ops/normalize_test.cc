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

TEST(ImportBatchNormalization, TrainingNormalisesByTheBatch) {
  NodeCase test = batch_norm({});
  test.attributes = [](onnx::NodeProto& node) { set_attribute(node, "training_mode", int64_t(1)); };
  test.outputs = 3;
  const auto outputs = run_node(test);
  const auto y = outputs[0].to_doubles(), mean = outputs[1].to_doubles(), variance = outputs[2].to_doubles();
  // Channels {1, 2} and {3, 4}: means 1.5 and 3.5, variances 0.25.
  const std::vector<double> wanted = {-2 - 1, 2 - 1, -3 + 1, 3 + 1};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(y[i], wanted[i], 1e-3);
  EXPECT_NEAR(mean[0], 0.9 * 0.5 + 0.1 * 1.5, 1e-6);
  EXPECT_NEAR(variance[1], 0.9 * 0.25 + 0.1 * 0.25, 1e-6);
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

TEST(ImportNormalize, MeanAndVarianceNormalizeEveryFloat) {
  NodeCase test{"MeanVarianceNormalization", 13, {Tensor::of<float>({1, 1, 1, 4}, {1, 2, 3, 6})}};
  const std::vector<double> want = run_node(test)[0].to_doubles();
  for (const auto& [dtype, tolerance] :
       {std::pair(DType::f64, 1e-6), std::pair(DType::f16, 1e-3), std::pair(DType::bf16, 1e-2)}) {
    NodeCase other = test;
    other.inputs[0] = test.inputs[0].converted(dtype);
    const Tensor y = run_node(other)[0];
    EXPECT_EQ(y.dtype(), dtype);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(y.to_doubles()[i], want[i], tolerance);
  }
}

}  // namespace
}  // namespace temper
