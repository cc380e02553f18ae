// SPDX-License-Identifier: Apache-2.0
// Calibration caches, and programs for TensorRT, name the tensors of a model as the model does.
#include <gtest/gtest.h>
#include <onnx/defs/parser.h>

#include "onnx/import.h"

namespace temper {
namespace {

// As PyTorch writes names: a node's is not that of what it gives. The third has the name of another's tensor, and
// HardSwish becomes several nodes.
constexpr const char* kModel = R"(
<ir_version: 10, opset_import: ["" : 21]>
net (float[1, 4] x) => (float[1, 4] y)
{
  [/first/Relu] /first/Relu_output_0 = Relu (x)
  [/act/HardSwish] swished = HardSwish (/first/Relu_output_0)
  [/last/tanh] soft = Softplus (swished)
  [soft] /third/Neg_output_0 = Neg (soft)
  [/last/Tanh] y = Tanh (/third/Neg_output_0)
}
)";

TEST(OnnxNames, ATensorHasTheModelsNameAndNotItsNodes) {
  std::string text = kModel;
  for (size_t at; (at = text.find("/")) != text.npos;) text[at] = '_';  // the parser's names have no slashes
  onnx::ModelProto model;
  const auto status = onnx::OnnxParser::Parse(model, text.c_str());
  ASSERT_TRUE(status.IsOK()) << status.ErrorMessage();
  const Graph graph = import_onnx_bytes(model.SerializeAsString(), "", {}).graph;
  for (const char* name : {"_first_Relu_output_0", "swished", "soft", "_third_Neg_output_0", "y"}) {
    const ValueId value = graph.find(name);
    ASSERT_TRUE(value.valid()) << name;
    EXPECT_TRUE(graph.producer(value)) << name;
  }
  EXPECT_EQ(graph.producer(graph.find("_third_Neg_output_0"))->name, "soft");
  EXPECT_EQ(graph.producer(graph.find("soft"))->name, "_last_tanh");
  for (int32_t v = 0; v < graph.value_count(); ++v)  // nothing is left of what held a name
    EXPECT_TRUE(graph.value({v}).users.size() > 0 || graph.is_output({v})) << graph.value({v}).name;
}

}  // namespace
}  // namespace temper
