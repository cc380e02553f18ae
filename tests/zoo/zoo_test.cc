// SPDX-License-Identifier: Apache-2.0
#include "zoo/zoo.h"

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <map>

#include "base/hash.h"
#include "onnx/read.h"

namespace temper {
namespace {

onnx::ModelProto proto_of(const std::string& bytes) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(bytes));
  return model;
}

// Elements of what training learns; running statistics are none of it.
int64_t parameters(const onnx::ModelProto& model) {
  int64_t total = 0;
  for (const auto& tensor : model.graph().initializer()) {
    if (tensor.name().find(".running_") != std::string::npos || tensor.dims_size() == 0) continue;
    int64_t count = 1;
    for (int64_t dim : tensor.dims()) count *= dim;
    total += count;
  }
  return total;
}

TEST(Zoo, ResNetsAndMobileNetHaveTheParametersOfTorchvision) {
  EXPECT_EQ(parameters(proto_of(zoo_model("resnet18"))), 11'689'512);
  EXPECT_EQ(parameters(proto_of(zoo_model("resnet50"))), 25'557'032);
  EXPECT_EQ(parameters(proto_of(zoo_model("mobilenet_v2"))), 3'504'872);
}

TEST(Zoo, TheStrideOfResNet50SitsInThe3x3Convolution) {
  const auto model = proto_of(zoo_model("resnet50"));
  std::map<std::string, int64_t> strides;
  for (const auto& node : model.graph().node())
    for (const auto& attribute : node.attribute())
      if (node.op_type() == "Conv" && attribute.name() == "strides") strides[node.name()] = attribute.ints(0);
  EXPECT_EQ(strides.size(), 53u);
  EXPECT_EQ(strides.at("layer2.0.conv1"), 1);
  EXPECT_EQ(strides.at("layer2.0.conv2"), 2);
  EXPECT_EQ(strides.at("layer2.0.downsample.0"), 2);
  EXPECT_EQ(strides.at("layer1.0.downsample.0"), 1);
}

TEST(Zoo, ParameterNamesAreThoseOfTorchvision) {
  std::map<std::string, int> names;
  const auto resnet = proto_of(zoo_model("resnet50")), mobilenet = proto_of(zoo_model("mobilenet_v2"));
  for (const auto* model : {&resnet, &mobilenet})
    for (const auto& tensor : model->graph().initializer()) ++names[tensor.name()];
  for (const char* name :
       {"conv1.weight", "bn1.running_var", "layer1.0.downsample.1.bias", "layer4.2.bn3.weight", "fc.bias",
        "features.0.0.weight", "features.1.conv.0.1.running_mean", "features.1.conv.1.weight", "features.1.conv.2.bias",
        "features.17.conv.3.weight", "features.18.1.weight", "classifier.1.weight"})
    EXPECT_EQ(names[name], 1) << name;
}

TEST(Zoo, EveryModelPassesTheCheckerAndHasASymbolicBatch) {
  for (const ZooEntry& entry : zoo_entries()) {
    const OnnxModel model = parse_onnx(zoo_model(entry.name), ".");
    const auto& graph = model.proto->graph();
    ASSERT_EQ(graph.input_size(), 1);
    EXPECT_EQ(graph.input(0).name(), "image");
    EXPECT_EQ(graph.input(0).type().tensor_type().shape().dim(0).dim_param(), "batch");
    EXPECT_EQ(graph.output(0).name(), "logits");
  }
}

TEST(Zoo, TheSeedAloneDecidesTheBytes) {
  const std::string first = zoo_model("cifar_cnn", {.seed = 5});
  EXPECT_EQ(first, zoo_model("cifar_cnn", {.seed = 5}));
  EXPECT_NE(first, zoo_model("cifar_cnn", {.seed = 6}));
  const auto model = proto_of(zoo_model("cifar_cnn"));
  const std::string& raw = model.graph().initializer(0).raw_data();
  EXPECT_EQ(hex(xxh3(raw)), "7cba33dc46bd3623");  // of conv1.weight for seed 1
}

TEST(Zoo, EveryOpsetInRangePassesTheChecker) {
  for (int opset = 13; opset <= 22; ++opset)
    for (const char* name : {"cifar_cnn", "mobilenet_v2"})
      EXPECT_NO_THROW(parse_onnx(zoo_model(name, {.opset = opset}), ".")) << opset;
}

TEST(Zoo, WrongRequestsAreRefused) {
  auto kind_of = [](std::string_view name, const ZooOptions& options) {
    try {
      zoo_model(name, options);
    } catch (const Error& error) { return int(error.kind()); }
    return 0;
  };
  EXPECT_EQ(kind_of("resnet51", {}), int(ErrorKind::usage));
  EXPECT_EQ(kind_of("cifar_cnn", {.opset = 12}), int(ErrorKind::usage));
  EXPECT_EQ(kind_of("cifar_cnn", {.opset = 23}), int(ErrorKind::usage));
  EXPECT_EQ(kind_of("digits_cnn", {.seed = 1}), int(ErrorKind::usage));
}

}  // namespace
}  // namespace temper
