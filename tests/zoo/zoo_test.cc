// SPDX-License-Identifier: Apache-2.0
#include "zoo/zoo.h"

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <cstring>
#include <map>

#include "base/hash.h"
#include "onnx/import.h"
#include "onnx/read.h"
#include "passes/keep_caches.h"
#include "passes/pass.h"
#include "zoo/networks.h"

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

// The networks of text and diffusion in their published sizes are compared with PyTorch's by
// python/tests/zoo_networks.py; they have hundreds of millions of parameters.
bool is_large(std::string_view name) { return name == "gpt2" || name == "bert" || name == "sd15-unet"; }

std::string small_network(std::string_view name, int opset, bool half = false) {
  zoo::Builder builder(name, 1, opset);
  if (half) builder.store_in_half();
  if (name == "gpt2") return gpt2(builder, {.layers = 2, .heads = 2, .head = 4, .words = 31, .positions = 16});
  if (name == "bert") return bert(builder, {.layers = 2, .heads = 2, .head = 4, .words = 31, .positions = 16});
  return sd15_unet(builder, {.channels = {8, 16, 16}, .heads = 2, .groups = 4, .context = 12, .layers = 1});
}

TEST(Zoo, NetworksOfTextAndDiffusionPassTheCheckerInEveryOpsetThatHasTheirOps) {
  for (const char* name : {"gpt2", "bert", "sd15-unet"}) {
    for (int opset = 17; opset <= 22; ++opset) EXPECT_NO_THROW(parse_onnx(small_network(name, opset), ".")) << opset;
    EXPECT_NO_THROW(import_onnx_bytes(small_network(name, 17, true), ".")) << name;
    try {
      small_network(name, 16);
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_NE(std::string_view(error.what()).find("17 to 22"), std::string_view::npos) << error.what();
    }
  }
}

// The answers of a graph whose weights are stored in f16 are those of the graph with the weights that f16 has.
TEST(Zoo, WeightsInHalfAreTheNearestOnesAndTheArithmeticIsF32) {
  const auto whole = proto_of(small_network("bert", 17)), half = proto_of(small_network("bert", 17, true));
  int compared = 0;
  for (const auto& tensor : half.graph().initializer()) {
    if (tensor.data_type() != onnx::TensorProto::FLOAT16) continue;
    for (const auto& other : whole.graph().initializer()) {
      if (other.name() != tensor.name()) continue;
      ASSERT_EQ(2 * tensor.raw_data().size(), other.raw_data().size());
      for (size_t i = 0; i < tensor.raw_data().size() / 2; ++i) {
        float value;
        uint16_t bits;
        std::memcpy(&value, other.raw_data().data() + 4 * i, 4);
        std::memcpy(&bits, tensor.raw_data().data() + 2 * i, 2);
        ASSERT_EQ(bits, float_to_half_bits(value)) << tensor.name();
      }
      ++compared;
    }
  }
  EXPECT_EQ(compared, 39);  // embeddings 5, 16 of each layer, 2 of the pooler
  EXPECT_EQ(half.graph().output(0).type().tensor_type().elem_type(), onnx::TensorProto::FLOAT);
}

TEST(Zoo, Gpt2TakesACache) {
  const Graph graph = import_onnx_bytes(small_network("gpt2", 17), ".").graph;
  const Graph kept = keep_caches(graph, {.positions = 8});
  EXPECT_EQ(kept.inputs().size(), 10u);  // tokens, lengths, counts, past tokens, settings, draws, caches of two layers
}

TEST(Zoo, EveryModelOfPicturesPassesTheCheckerAndHasASymbolicBatch) {
  for (const ZooEntry& entry : zoo_entries()) {
    if (is_large(entry.name)) continue;
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
