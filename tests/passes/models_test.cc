// SPDX-License-Identifier: Apache-2.0
// What the passes leave of whole models.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "onnx/import.h"
#include "passes/pass.h"
#include "zoo/zoo.h"

namespace temper {
namespace {

constexpr std::string_view kBias = "(2) 2=add.f32(0,1)";
constexpr std::string_view kBiasRelu = "(2) 2=add.f32(0,1) 3=relu.f32(2)";
constexpr std::string_view kBiasResidual = "(3) 3=add.f32(0,1) 4=add.f32(3,2)";
constexpr std::string_view kBiasResidualRelu = "(3) 3=add.f32(0,1) 4=add.f32(3,2) 5=relu.f32(4)";
constexpr std::string_view kBiasRelu6 = "(2) 2=add.f32(0,1) 3=relu.f32(2) 4=constant.f32[6] 5=min.f32(3,4)";

// How many nodes of each op, with their epilogues: "conv (2) 2=add.f32(0,1)".
std::map<std::string, int> census(const Graph& graph) {
  std::map<std::string, int> result;
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node({n});
    const Program* epilogue = epilogue_of(node.op);
    ++result[epilogue ? concat(name_of(node.op), ' ', epilogue->text()) : std::string(name_of(node.op))];
  }
  return result;
}

Graph optimised(std::string_view model) {
  Graph graph = import_onnx_bytes(zoo_model(model), ".").graph;
  run_passes(graph);
  return graph;
}

using Census = std::map<std::string, int>;

TEST(PassesOnModels, ResNet50IsConvolutionsWithEpiloguesAndFourNodesMore) {
  EXPECT_EQ(census(optimised("resnet50")), (Census{{concat("conv ", kBiasRelu), 33},
                                                   {concat("conv ", kBiasResidualRelu), 16},
                                                   {concat("conv ", kBias), 4},
                                                   {"pool", 1},
                                                   {"reduce", 1},
                                                   {"reshape", 1},
                                                   {concat("matmul ", kBias), 1}}));
}

TEST(PassesOnModels, MobileNetV2HasItsClipsAndResidualsInEpilogues) {
  EXPECT_EQ(census(optimised("mobilenet_v2")), (Census{{concat("conv ", kBiasRelu6), 35},
                                                       {concat("conv ", kBias), 7},
                                                       {concat("conv ", kBiasResidual), 10},
                                                       {"reduce", 1},
                                                       {"reshape", 1},
                                                       {concat("matmul ", kBias), 1}}));
}

TEST(PassesOnModels, ATrainedModelGivesTheSameLogits) {
  const Graph before = import_onnx_bytes(zoo_model("digits_cnn"), ".").graph;
  Graph after = before;
  run_passes(after);
  EXPECT_LT(after.node_count(), before.node_count());
  Tensor image(DType::f32, {3, 1, 8, 8});
  for (int64_t i = 0; i < image.count(); ++i) image.data<float>()[i] = float((i * 7919) % 17) / 16;
  const auto wanted = run_reference(before, {image})[0].to_doubles(),
             got = run_reference(after, {image})[0].to_doubles();
  ASSERT_EQ(wanted.size(), got.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(wanted[i], got[i], 1e-4 * (1 + std::fabs(wanted[i])));
}

}  // namespace
}  // namespace temper
