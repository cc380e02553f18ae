// SPDX-License-Identifier: Apache-2.0
// The state behind programs for TensorRT: what is refused goes to the logger, and nothing is thrown.
#include <gtest/gtest.h>

#include "../paths.h"
#include "base/file.h"
#include "nvinfer/build.h"
#include "nvinfer/context.h"
#include "nvinfer/flags.h"
#include "nvinfer/host_memory.h"
#include "nvinfer/inspect.h"
#include "nvinfer/load.h"
#include "nvinfer/monitor.h"

namespace temper::nvinfer {
namespace {

class Nvinfer : public ::testing::Test {
 protected:
  Logger logger = [this](Severity severity, const std::string& text) {
    lines.push_back(concat(int(severity), " ", text));
  };
  bool said(std::string_view part) const {
    for (const std::string& line : lines)
      if (line.find(part) != line.npos) return true;
    return false;
  }
  static Network digits() {
    Network network;
    std::vector<std::string> errors;
    EXPECT_TRUE(network.parse("", paths::source_folder() + "/models/digits_cnn.onnx", errors));
    EXPECT_TRUE(errors.empty());
    return network;
  }
  static Config config(std::vector<Profile> profiles) {
    Config config;
    config.device = "cpu";
    config.profiles = std::move(profiles);
    return config;
  }
  std::vector<std::string> lines;
};

const ShapeRange kOne{{1, 1, 8, 8}, {1, 1, 8, 8}, {1, 1, 8, 8}}, kFour{{4, 1, 8, 8}, {4, 1, 8, 8}, {4, 1, 8, 8}};

TEST_F(Nvinfer, ANetworkKnowsItsTensorsAndStaysAsItWasWhereParsingFails) {
  Network network = digits();
  ASSERT_EQ(network.inputs().size(), 1u);
  EXPECT_TRUE(is_open(network.inputs()[0].type));
  EXPECT_FALSE(network.is_quantized());
  std::vector<std::string> errors;
  EXPECT_FALSE(network.parse("no model", "", errors));
  EXPECT_FALSE(network.parse("", "no_such.onnx", errors));
  EXPECT_FALSE(network.parse("", "", errors));
  EXPECT_EQ(errors.size(), 3u);
  EXPECT_TRUE(network.is_filled());
  EXPECT_EQ(network.outputs()[0].name, "logits");
}

// x [N, 4] through a product with a constant; returns the product's tensor.
int add_product(Network& network) {
  const int x = network.add_input("x", DType::f32, {-1, 4});
  const int w = network.add_layer("CONSTANT", {});
  network.set(w, "dims", std::vector<int64_t>{3, 4});
  network.set(w, "weights", Tensor::of<float>({12}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}));
  const int product = network.add_layer("MATRIX_MULTIPLY", {x, network.layer(w).outputs[0]});
  network.set(product, "operation0", std::vector<int64_t>{0});
  network.set(product, "operation1", std::vector<int64_t>{1});
  network.rename_layer(product, "product");
  return network.layer(product).outputs[0];
}

TEST_F(Nvinfer, LayersInAnyOrderBecomeAGraph) {
  Network network;
  const int y = add_product(network);
  EXPECT_EQ(network.tensor(y).dims, (Dims{-1, 3}));
  const int sum = network.add_layer("ELEMENTWISE", {y, -1});
  network.set(sum, "operation", std::vector<int64_t>{0});
  EXPECT_THROW(network.tensor(network.layer(sum).outputs[0]), Error);  // an input is missing
  const int b = network.add_layer("CONSTANT", {});
  network.set(b, "dims", std::vector<int64_t>{1, 3});
  network.set(b, "weights", Tensor::of<float>({3}, {1, 2, 3}));
  network.set_input(sum, 1, network.layer(b).outputs[0]);  // of a layer that came later
  const int out = network.layer(sum).outputs[0];
  network.rename(out, "out");
  network.set_type(out, DType::i32);
  network.mark_output(out);
  EXPECT_EQ(network.tensor(out).dtype, DType::i32);
  const Graph graph = *network.source().graph;
  EXPECT_EQ(graph.outputs().size(), 1u);
  EXPECT_EQ(network.outputs()[0].name, "out");
  const auto got = run_reference(graph, {Tensor::of<float>({1, 4}, {10, 20, 30, 40})});
  EXPECT_EQ(got.at(0).to_ints(), (std::vector<int64_t>{11, 22, 33}));
  network.unmark_output(out);
  EXPECT_FALSE(network.is_filled());
  network.set_input(b, 0, out);  // a circle
  EXPECT_THROW(network.tensor(out), Error);
}

// What the graph of a network gives for these inputs.
std::vector<Tensor> results(const Network& network, const std::vector<Tensor>& inputs) {
  const ModelSource source = network.source();
  return run_reference(source.graph ? *source.graph : source.import().graph, inputs);
}

int add_constant(Network& network, const Tensor& tensor) {
  const int layer = network.add_layer("CONSTANT", {});
  network.set(layer, "dims", tensor.dims());
  network.set(layer, "weights", tensor.reshaped({tensor.count()}));
  return network.layer(layer).outputs[0];
}

TEST(NvinferNetwork, ASuppressionTakesItsThresholdsFromInputs) {
  // Two boxes that share a third of what they cover together, and one far away; one class.
  const Tensor boxes = Tensor::of<float>({1, 3, 4}, {0, 0, 2, 1, 1, 0, 3, 1, 5, 5, 6, 6});
  const Tensor scores = Tensor::of<float>({1, 3, 1}, {0.9f, 0.8f, 0.3f});
  const auto kept = [&](float iou, float score) {
    Network network;
    const int b = network.add_input("boxes", DType::f32, {1, 3, 4});
    const int s = network.add_input("scores", DType::f32, {1, 3, 1});
    const int nms = network.add_layer("NMS", {b, s, add_constant(network, Tensor::of<int32_t>({}, {3}))});
    network.set_input(nms, 3, add_constant(network, Tensor::of<float>({}, {iou})));
    network.set_input(nms, 4, add_constant(network, Tensor::of<float>({}, {score})));
    network.mark_output(network.layer(nms).outputs[1]);
    return results(network, {boxes, scores}).at(0).to_ints();
  };
  EXPECT_EQ(kept(0.5f, 0), std::vector<int64_t>{3});
  EXPECT_EQ(kept(0.2f, 0), std::vector<int64_t>{2});
  EXPECT_EQ(kept(0.5f, 0.5f), std::vector<int64_t>{2});
}

TEST(NvinferNetwork, AnInputThatALayerDoesNotReadIsRefused) {
  for (const char* type : {"ACTIVATION", "SOFTMAX", "UNARY"}) {
    Network network;
    const int x = network.add_input("x", DType::f32, {2, 3});
    const int layer = network.add_layer(type, {x, x});
    network.set(layer, "operation", std::vector<int64_t>{1});
    network.set(layer, "axes", std::vector<int64_t>{2});
    try {
      network.tensor(network.layer(layer).outputs[0]);
      ADD_FAILURE() << type;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("input 1 of the layer"), std::string::npos);
    }
  }
}

TEST(NvinferNetwork, AReductionHasAnAxisAndATopKAtLeastOne) {
  Network network;
  const int x = network.add_input("x", DType::f32, {2, 3});
  for (const char* type : {"REDUCE", "TOPK"}) {
    const int layer = network.add_layer(type, {x});
    const bool reduces = std::string_view(type) == "REDUCE";
    network.set(layer, "operation", std::vector<int64_t>{0});
    network.set(layer, "axes", std::vector<int64_t>{reduces ? 0 : 2});
    network.set(layer, "k", std::vector<int64_t>{0});
    EXPECT_THROW(network.tensor(network.layer(layer).outputs[0]), Error) << type;
    network.set(layer, "axes", std::vector<int64_t>{2});
    network.set(layer, "k", std::vector<int64_t>{1});
    EXPECT_NO_THROW(network.tensor(network.layer(layer).outputs[0])) << type;
  }
}

TEST(NvinferNetwork, AZeroPointIsZero) {
  for (const int8_t zero : {int8_t(0), int8_t(3)}) {
    Network network;
    const int x = network.add_input("x", DType::f32, {2});
    const int scale = add_constant(network, Tensor::of<float>({}, {0.5f}));
    const int layer = network.add_layer("QUANTIZE", {x, scale, add_constant(network, Tensor::of<int8_t>({}, {zero}))});
    if (zero) EXPECT_THROW(network.tensor(network.layer(layer).outputs[0]), Error);
    else EXPECT_EQ(network.tensor(network.layer(layer).outputs[0]).dims, Dims{2});
  }
}

TEST_F(Nvinfer, AnInputOfTheModelGetsOtherDimensions) {
  Network network = digits();
  const int image = network.input_tensors()[0];
  const Tensor x = Tensor::of<float>({2, 1, 8, 8}, std::vector<float>(128, 0.5f));
  const Tensor want = results(network, {x}).at(0);
  network.set_dims(image, {2, 1, 8, 8});
  EXPECT_EQ(network.tensor(image).dims, (Dims{2, 1, 8, 8}));
  EXPECT_EQ(network.tensor(network.output_tensors()[0]).dims, (Dims{2, 10}));
  EXPECT_TRUE(results(network, {x}).at(0).same_bits(want));
  EXPECT_TRUE(results(Network::restored(network.saved()), {x}).at(0).same_bits(want));
  EXPECT_NE(build_serialized(network, config({}), logger), "") << "it is static now";
  network.set_dims(image, {-1, 1, 8, 8});  // and back
  EXPECT_EQ(network.tensor(network.output_tensors()[0]).dims, (Dims{-1, 10}));
  EXPECT_TRUE(results(network, {x}).at(0).same_bits(want));
  network.set_dims(image, {2, 3, 8, 8});  // which the model's weights do not fit
  EXPECT_EQ(build_serialized(network, config({}), logger), "");
}

TEST_F(Nvinfer, LayersArePutInFrontOfTheModel) {
  Network network = digits();
  const Tensor x = Tensor::of<float>({1, 1, 8, 8}, std::vector<float>(64, 0.25f));
  const Tensor twice = Tensor::of<float>({1, 1, 8, 8}, std::vector<float>(64, 0.5f));
  const Tensor want = results(network, {twice}).at(0);
  const int image = network.input_tensors()[0];
  int first = 0, input = -1;
  for (; input < 0; ++first)
    for (size_t i = 0; i < network.layer(first).inputs.size(); ++i)
      if (network.layer(first).inputs[i] == image) input = int(i);
  --first;
  const int two = add_constant(network, Tensor::of<float>({1, 1, 1, 1}, {2}));
  const int product = network.add_layer("ELEMENTWISE", {image, two});
  network.set(product, "operation", std::vector<int64_t>{1});
  network.set_input(first, input, network.layer(product).outputs[0]);
  EXPECT_TRUE(results(network, {x}).at(0).same_bits(want));
  EXPECT_TRUE(results(Network::restored(network.saved()), {x}).at(0).same_bits(want));
  network.set_dims(image, {1, 1, 8, 8});
  EXPECT_TRUE(results(network, {x}).at(0).same_bits(want));
  Network other = digits();
  other.set_input(first, input, other.output_tensors()[0]);
  EXPECT_THROW(other.source(), Error) << "another shape than the model was read for";
  Network circle = digits();
  const int out = circle.layer(first).outputs[0];
  const int identity = circle.add_layer("IDENTITY", {out});
  for (int next = first + 1; next < circle.layers(); ++next)
    for (size_t i = 0; i < circle.layer(next).inputs.size(); ++i)
      if (circle.is_parsed(next) && circle.layer(next).inputs[i] == out)
        circle.set_input(next, int(i), circle.layer(identity).outputs[0]);
  EXPECT_TRUE(results(circle, {twice}).at(0).same_bits(want)) << "behind a layer and before the next";
}

TEST_F(Nvinfer, ARefusedEditEndsEveryBuild) {
  Network typed = digits();
  EXPECT_THROW(typed.take([](Network& network) { network.set_type(network.input_tensors()[0], DType::i8); }), Error);
  EXPECT_EQ(build_serialized(typed, config({{{"image", kOne}}}), logger), "");
  EXPECT_TRUE(said("the network was edited by what was refused: INT8 for 'image'"));
  Network twice = digits();
  std::vector<std::string> errors;
  EXPECT_FALSE(twice.parse("", paths::source_folder() + "/models/digits_cnn.onnx", errors));
  lines.clear();
  EXPECT_EQ(build_serialized(twice, config({{{"image", kOne}}}), logger), "");
  EXPECT_TRUE(said("a model was parsed into a network that had inputs or layers"));
}

TEST_F(Nvinfer, NodesOfOneFunctionAreActivationsAndUnaryLayers) {
  const Network network = digits();
  std::set<std::string> types;
  for (int layer = 0; layer < network.layers(); ++layer) types.insert(network.layer(layer).type);
  EXPECT_TRUE(types.contains("CONVOLUTION") && types.contains("ACTIVATION"));
}

TEST(NvinferNetwork, AnInputIsNoOutputAndNamesAreThereOnce) {
  Network network;
  const int x = network.add_input("x", DType::f32, {2});
  EXPECT_THROW(network.mark_output(x), Error);
  const int y = network.layer(network.add_layer("IDENTITY", {x})).outputs[0];
  network.mark_output(y);
  network.rename(y, "x");
  EXPECT_THROW(network.source(), Error);
}

TEST_F(Nvinfer, ALayerThatDoesNotHoldEndsTheBuildByItsName) {
  Network network;
  const int y = add_product(network);
  network.set(network.add_layer("CONSTANT", {}), "dims",
              std::vector<int64_t>{2});  // without weights, and needed by none
  network.rename_layer(2, "nothing");
  network.mark_output(y);
  EXPECT_EQ(network.tensor(y).dims, (Dims{-1, 3}));
  EXPECT_EQ(build_serialized(network, config({{{"x", {{1, 4}, {1, 4}, {2, 4}}}}}), logger), "");
  EXPECT_TRUE(said("layer 'nothing' (CONSTANT): the weights of weights are missing"));
  EXPECT_THROW(network.add_layer("LOOP", {}), Error);
  EXPECT_THROW(network.add_layer("IDENTITY", {99}), Error);
}

TEST_F(Nvinfer, WhatTensorRTDoesNotBuildGivesNoBytesAndAnError) {
  const Network network = digits();
  EXPECT_EQ(build_serialized(Network(), config({}), logger), "");
  EXPECT_TRUE(said("1 Network must have at least one output"));
  EXPECT_EQ(build_serialized(network, config({}), logger), "");
  EXPECT_TRUE(said("no optimization profile has been defined"));
  EXPECT_EQ(build_serialized(network, config({{{"image", kOne}}, {}}), logger), "");
  EXPECT_TRUE(said("missing dimensions in profile 1"));
  EXPECT_EQ(build_serialized(network, config({{{"image", kOne}, {"picture", kOne}}}), logger), "");
  EXPECT_TRUE(said("'picture', which is no input"));
}

TEST_F(Nvinfer, Int8WithoutRangesIsBuiltInTheNextPrecisionWithAWarning) {
  const Network network = digits();
  Config int8 = config({{{"image", kOne}}});
  int8.int8 = int8.bf16 = true;
  const auto precision_of = [&](const Config& asked) {
    lines.clear();
    const std::string plan = build_serialized(network, asked, logger);
    return plan.empty() ? std::string() : Engine::from_bytes(std::as_bytes(std::span(plan)))->info().precision;
  };
  const auto precision = [&] { return precision_of(int8); };
  Config plain = int8;
  plain.int8 = false;
  const std::string next = precision_of(plain);
  EXPECT_NE(next, "");
  EXPECT_EQ(precision(), next);
  EXPECT_TRUE(said("2 Calibrator is not being used. INT8: there are no ranges, so layers are in the next precision"));
  for (const auto& [cache, why] : {std::pair("garbage", "this is not a TensorRT calibration cache"),
                                   {"TRT-8601-EntropyCalibration2\n", "a header and no entries"},
                                   {"TRT-8601-EntropyCalibration2\nfoo: 3c010a14\n", "no value of the model"}}) {
    const Calibrator calibrator{"entropy", [text = std::string(cache)] { return text; }, [](const std::string&) {},
                                [](const std::vector<std::string>&) { return std::nullopt; }, nullptr};
    int8.calibrator = std::make_shared<const Calibrator>(calibrator);
    EXPECT_EQ(precision(), next) << cache;
    EXPECT_TRUE(said(why) && said("2 INT8: there are no ranges")) << cache;
  }
}

TEST_F(Nvinfer, AContextRunsWhenEverythingIsSetAndSaysWhatIsMissing) {
  Config half = config({{{"image", kOne}}, {{"image", kFour}}});
  half.fp16 = true;
  const std::string plan = build_serialized(digits(), half, logger);
  ASSERT_NE(plan, "");
  EXPECT_TRUE(said("2 FP16: layers stay in FP32"));
  lines.clear();
  const auto engine = Engine::from_bytes(std::as_bytes(std::span(plan)));
  Context context(engine, logger);
  EXPECT_EQ(context.inputs_without_shape(), std::vector<std::string>{"image"});
  EXPECT_EQ(context.shape("logits"), (Dims{-1, 10}));
  EXPECT_EQ(context.shape("none"), std::nullopt);
  EXPECT_FALSE(context.run(std::nullopt));
  EXPECT_TRUE(said("1 the shape of the input 'image' is not set"));
  EXPECT_FALSE(context.set_input_shape("image", {4, 1, 8, 8}));
  EXPECT_TRUE(
      said("1 'image' is given the shape [4,1,8,8], which is not in optimization profile 0: it takes [1,1,8,8]"));
  EXPECT_FALSE(context.set_profile(2));
  EXPECT_FALSE(context.set_profile(-1));
  EXPECT_TRUE(said("1 there is no optimization profile 2: the engine has 2"));
  EXPECT_TRUE(context.set_input_shape("image", {1, 1, 8, 8}));
  EXPECT_EQ(context.max_output_bytes("logits"), 40);
  EXPECT_TRUE(context.set_profile(1));
  EXPECT_EQ(context.inputs_without_shape(), std::vector<std::string>{"image"});
  EXPECT_EQ(context.max_output_bytes("logits"), 160);
  EXPECT_FALSE(context.set_input_shape("image", {1, 1, 8, 8}));
  EXPECT_FALSE(context.set_input_shape("image", {-1, 1, 8, 8}));
  EXPECT_FALSE(context.set_input_shape("logits", {4, 10}));
  EXPECT_TRUE(context.set_input_shape("image", {4, 1, 8, 8}));
  EXPECT_EQ(context.shape("logits"), (Dims{4, 10}));
  EXPECT_FALSE(context.run(std::nullopt));
  EXPECT_TRUE(said("the address of 'image' is not set"));
  const Tensor x = Tensor::of<float>({4, 1, 8, 8}, std::vector<float>(256, 0.5f));
  std::vector<float> y(40);
  EXPECT_TRUE(context.set_address("image", reinterpret_cast<uintptr_t>(x.raw().data())));
  EXPECT_FALSE(context.set_address("logits", 0));
  EXPECT_FALSE(context.set_address("none", 1));
  EXPECT_TRUE(context.set_address("logits", reinterpret_cast<uintptr_t>(y.data())));
  lines.clear();
  EXPECT_TRUE(context.run(std::nullopt));
  const Tensor want = Session(engine).run({x})[0];
  EXPECT_EQ(y, std::vector<float>(want.data<float>(), want.data<float>() + 40));
  EXPECT_TRUE(lines.empty());
}

TEST(NvinferFlags, EveryReleaseHasItsOwnNumbers) {
  const auto names = [](Release release) {
    std::map<std::string, int> numbers;
    for (const auto& [name, number] : builder_flags(release)) numbers[name] = number;
    return numbers;
  };
  EXPECT_EQ(names(Release::v8_6).at("REFIT"), 5);
  EXPECT_EQ(names(Release::v10_13).at("REFIT"), 4);
  EXPECT_EQ(names(Release::v11_1).at("VERSION_COMPATIBLE"), 12);
  EXPECT_FALSE(names(Release::v11_1).contains("FP16"));
  EXPECT_TRUE(flags_of(1 << 5, Release::v8_6).has(Flag::refit));
  EXPECT_TRUE(flags_of(1 << 5, Release::v10_13).has(Flag::disable_timing_cache));
  EXPECT_TRUE(flags_of(1 << 4, Release::v8_6).has(Flag::strict_types));
  EXPECT_TRUE(flags_of(1 << 7 | 1 << 15, Release::v8_6).has(Flag::version_compatible));
  EXPECT_TRUE(flags_of(1 << 7, Release::v8_6).has(Flag::tf32));
  EXPECT_TRUE(flags_of(1 << 12, Release::v11_1).has(Flag::version_compatible));
  EXPECT_FALSE(flags_of(1 << 12, Release::v10_13).has(Flag::version_compatible));
  EXPECT_THROW(flags_of(1 << 0, Release::v11_1), Error);
  EXPECT_THROW(flags_of(1 << 29, Release::v10_13), Error);
  EXPECT_THROW(flags_of(1 << 19, Release::v8_6), Error);
  EXPECT_EQ(release_of(806), Release::v8_6);
  EXPECT_EQ(release_of(1013), Release::v10_13);
  EXPECT_EQ(release_of(1101), Release::v11_1);
  EXPECT_FALSE(rules_of(1 << 1, Release::v8_6).keeps_float_types) << "EXPLICIT_PRECISION";
  EXPECT_TRUE(rules_of(1 << 2, Release::v8_6).keeps_float_types);
  EXPECT_TRUE(rules_of(1 << 1, Release::v10_13).keeps_float_types);
  EXPECT_FALSE(rules_of(1 << 0, Release::v10_13).keeps_float_types);
  EXPECT_TRUE(rules_of(0, Release::v11_1).keeps_float_types);
}

TEST_F(Nvinfer, AStronglyTypedNetworkTakesNoPrecisionsButTF32) {
  Network network(rules_of(0, Release::v11_1));
  std::vector<std::string> errors;
  ASSERT_TRUE(network.parse("", paths::source_folder() + "/models/digits_cnn.onnx", errors));
  for (bool Config::* permitted : {&Config::fp16, &Config::bf16, &Config::int8, &Config::fp8}) {
    Config asked = config({{{"image", kOne}}});
    asked.*permitted = true;
    lines.clear();
    EXPECT_EQ(build_serialized(network, asked, logger), "");
    EXPECT_TRUE(said("is set, and the network is strongly typed"));
  }
  // What TensorRT rejects leaves the network as it is.
  EXPECT_THROW(network.take([](Network& of) { of.set(0, "precision", std::vector<int64_t>{1}); }), Rejected);
  const int logits = network.output_tensors()[0];
  EXPECT_THROW(network.take([&](Network& of) { of.set_type(logits, DType::f16); }), Rejected);
  EXPECT_NO_THROW(network.set_type(logits, DType::f32));
  EXPECT_EQ(network.setting(0, "precision"), std::nullopt);
  EXPECT_NO_THROW(network.set_type(network.input_tensors()[0], DType::f16));
  lines.clear();
  const std::string plan = build_serialized(network, config({{{"image", kOne}}}), logger);
  EXPECT_NE(plan, "");
  EXPECT_EQ(Engine::from_bytes(std::as_bytes(std::span(plan)))->outputs()[0].type.dtype, DType::f32);
  EXPECT_TRUE(lines.empty());
}

class NvinferEngine : public Nvinfer {
 protected:
  NvinferEngine() {
    const std::string plan =
        build_serialized(digits(), config({{{"image", {{1, 1, 8, 8}, {2, 1, 8, 8}, {4, 1, 8, 8}}}}}), logger);
    engine = Engine::from_bytes(std::as_bytes(std::span(plan)));
    lines.clear();
  }
  std::shared_ptr<const Engine> engine;
  const Tensor x = Tensor::of<float>({4, 1, 8, 8}, std::vector<float>(256, 0.5f));
};

TEST_F(NvinferEngine, AnOutputAllocatorGivesTheMemoryAndIsToldTheShape) {
  Context context(engine, logger);
  EXPECT_EQ(context.max_output_bytes("logits"), 4 * 10 * 4);
  EXPECT_EQ(context.max_output_bytes("image"), -1);
  ASSERT_TRUE(context.set_input_shape("image", {3, 1, 8, 8}));
  EXPECT_EQ(context.max_output_bytes("logits"), 3 * 10 * 4);
  context.set_address("image", reinterpret_cast<uintptr_t>(x.raw().data()));
  std::vector<float> y;
  std::vector<std::string> told;
  OutputAllocator allocator;
  bool gives = true;
  allocator.reallocate = [&](const std::string& name, uintptr_t current, int64_t bytes, int64_t alignment,
                             std::optional<void*> stream) {
    told.push_back(concat(name, " ", bytes, " ", alignment, current ? " again" : " first", stream ? " stream" : ""));
    y.resize(size_t(bytes) / 4);
    return gives ? reinterpret_cast<uintptr_t>(y.data()) : uintptr_t(0);
  };
  allocator.notify_shape = [&](const std::string& name, const Dims& dims) { told.push_back(concat(name, " ", dims)); };
  EXPECT_FALSE(context.set_output_allocator("image", std::make_shared<OutputAllocator>(allocator)));
  ASSERT_TRUE(context.set_output_allocator("logits", std::make_shared<OutputAllocator>(allocator)));
  EXPECT_TRUE(context.run(std::nullopt));
  const Tensor three = Tensor::of<float>({3, 1, 8, 8}, std::vector<float>(192, 0.5f));
  const Tensor want = Session(engine).run({three})[0];
  EXPECT_EQ(y, std::vector<float>(want.data<float>(), want.data<float>() + 30));
  EXPECT_EQ(context.address("logits"), reinterpret_cast<uintptr_t>(y.data()));
  EXPECT_TRUE(context.run(nullptr));
  EXPECT_EQ(told, (std::vector<std::string>{"logits 120 256 first", "logits [3,10]", "logits 120 256 again stream",
                                            "logits [3,10]"}));
  gives = false;
  EXPECT_FALSE(context.run(std::nullopt));
  EXPECT_TRUE(said("gave no memory for 'logits'"));
  EXPECT_TRUE(context.set_output_allocator("logits", nullptr));
  EXPECT_TRUE(context.run(std::nullopt));
}

TEST_F(NvinferEngine, LayersAreTimedAndNamedAsTheInspectorNamesThem) {
  Context context(engine, logger);
  ASSERT_TRUE(context.set_input_shape("image", {4, 1, 8, 8}));
  std::vector<float> y(40);
  context.set_address("image", reinterpret_cast<uintptr_t>(x.raw().data()));
  context.set_address("logits", reinterpret_cast<uintptr_t>(y.data()));
  EXPECT_FALSE(context.report_layers());
  std::vector<std::string> told;
  context.set_layer_times(std::make_shared<const LayerTimes>([&](const std::string& layer, double ms) {
    EXPECT_GE(ms, 0);
    told.push_back(layer);
  }));
  EXPECT_FALSE(context.report_layers());
  EXPECT_TRUE(context.run(std::nullopt));
  const Tensor want = Session(engine).run({x})[0];
  EXPECT_EQ(y, std::vector<float>(want.data<float>(), want.data<float>() + 40));
  const Inspector inspector(engine);
  std::string names;
  for (const std::string& name : told) names += concat(name, "\n");
  EXPECT_EQ(inspector.engine_information({{4, 1, 8, 8}}, InformationFormat::oneline, logger), names);
  context.set_layers_told_at_once(false);
  told.clear();
  EXPECT_TRUE(context.run(std::nullopt));
  EXPECT_TRUE(told.empty());
  EXPECT_TRUE(context.report_layers());
  EXPECT_FALSE(told.empty());
  context.set_layer_times(nullptr);
  told.clear();
  EXPECT_TRUE(context.run(std::nullopt));
  EXPECT_TRUE(told.empty());
}

TEST_F(NvinferEngine, AnInspectorShowsEveryLayerInTensorRTsForm) {
  const Inspector inspector(engine);
  ASSERT_GT(inspector.layers(), 0);
  const std::string all = inspector.engine_information({}, InformationFormat::json, logger);
  for (const char* part : {"\"Layers\"", "\"LayerType\"", "\"TacticName\"", "\"Bindings\"", "\"logits\""})
    EXPECT_NE(all.find(part), all.npos) << part;
  EXPECT_NE(inspector.layer_information(0, {}, InformationFormat::json, logger).find("\"Inputs\""), std::string::npos);
  EXPECT_NE(inspector.layer_information(0, {{1, 1, 8, 8}}, InformationFormat::oneline, logger), "");
  EXPECT_TRUE(lines.empty());
  EXPECT_EQ(inspector.layer_information(inspector.layers(), {}, InformationFormat::json, logger), "");
  EXPECT_TRUE(said("there is no layer"));
}

// softmax(transpose(softmax(x))) of x [4, N]: where x has one column, the transpose moves nothing and is no step.
TEST_F(Nvinfer, AnEngineHasAsManyLayersAsItsLongestPlan) {
  Network network;
  const int x = network.add_input("x", DType::f32, {4, -1});
  const int first = network.add_layer("SOFTMAX", {x});
  network.set(first, "axes", std::vector<int64_t>{1});
  const int turned = network.add_layer("SHUFFLE", {network.layer(first).outputs[0]});
  network.set(turned, "first_transpose", std::vector<int64_t>{1, 0});
  const int second = network.add_layer("SOFTMAX", {network.layer(turned).outputs[0]});
  network.set(second, "axes", std::vector<int64_t>{2});
  network.mark_output(network.layer(second).outputs[0]);
  const std::string plan = build_serialized(network, config({{{"x", {{4, 1}, {4, 1}, {4, 2}}}}}), logger);
  ASSERT_NE(plan, "") << (lines.empty() ? "" : lines.back());
  const std::shared_ptr<const Engine> engine = Engine::from_bytes(std::as_bytes(std::span(plan)));
  lines.clear();
  const Inspector inspector(engine);
  int empty = 0;
  for (int layer = 0; layer < inspector.layers(); ++layer) {
    EXPECT_NE(inspector.layer_information(layer, {{4, 2}}, InformationFormat::json, logger), "");
    empty += inspector.layer_information(layer, {{4, 1}}, InformationFormat::json, logger).empty();
  }
  EXPECT_GT(empty, 0);
  EXPECT_TRUE(lines.empty());
  for (const Dims& shape : {Dims{4, 1}, Dims{4, 2}})
    EXPECT_EQ(inspector.layer_information(inspector.layers(), {shape}, InformationFormat::json, logger), "");
  EXPECT_EQ(lines.size(), 2u);
}

TEST_F(Nvinfer, AMonitorSeesPhasesInsidePhasesAndEndsTheBuild) {
  std::vector<std::string> open, seen;
  int left = 1000;
  auto monitor = std::make_shared<ProgressMonitor>();
  monitor->phase_start = [&](const std::string& phase, const std::string& parent, int steps) {
    EXPECT_EQ(parent, open.empty() ? "" : open.back());
    EXPECT_GE(steps, 1);
    open.push_back(phase);
    seen.push_back(phase);
  };
  monitor->step_complete = [&](const std::string& phase, int) {
    EXPECT_EQ(phase, open.back());
    return --left >= 0;
  };
  monitor->phase_finish = [&](const std::string& phase) {
    ASSERT_EQ(phase, open.back());
    open.pop_back();
  };
  Config watched = config({{{"image", kOne}}});
  watched.monitor = monitor;
  EXPECT_NE(build_serialized(digits(), watched, logger), "");
  EXPECT_TRUE(open.empty());
  ASSERT_GT(seen.size(), 1u);
  EXPECT_EQ(seen[0], "Building an engine");
  left = 0;
  open.clear();
  EXPECT_EQ(build_serialized(digits(), watched, logger), "");
  EXPECT_TRUE(said("ended by the progress monitor"));
}

TEST(NvinferMonitor, WhatCountsAreStepsOfOnePhase) {
  std::vector<std::string> seen;
  ProgressMonitor monitor;
  monitor.phase_start = [&](const std::string& phase, const std::string&, int steps) {
    seen.push_back(concat(phase, " of ", steps));
  };
  monitor.step_complete = [&](const std::string&, int step) {
    seen.push_back(std::to_string(step));
    return true;
  };
  monitor.phase_finish = [&](const std::string&) { seen.emplace_back("end"); };
  MonitoredBuild build(monitor);
  const Progress progress = build.progress();
  for (const ProgressStep& step : {ProgressStep{"optimising the graph"},
                                   {"calibrating", 0, 2},
                                   {"calibrating", 1, 2},
                                   {"calibrating", 2, 2},
                                   {"shape 4: timing whole plans", 1, 3}})
    progress(step);
  build.finish();
  EXPECT_EQ(seen, (std::vector<std::string>{"Building an engine of 1", "optimising the graph of 1", "0", "end",
                                            "calibrating of 2", "0", "1", "end", "calibrating from 3 of 100", "0",
                                            "end", "shape 4: timing whole plans of 3", "0", "end", "0", "end"}));
}

TEST_F(Nvinfer, AnEngineFileThatIsStaleOrNotTempersIsRefusedWithWhatToDo) {
  const std::string plan = build_serialized(digits(), config({{{"image", kOne}}}), logger);
  const auto engine = load(std::as_bytes(std::span(plan)), {}, logger);
  ASSERT_TRUE(engine);
  EXPECT_EQ(profiles_of(*engine), std::vector<Profile>{engine->info().shapes});
  PlanFile file = plan_file_of(*engine);
  file.info.version = "0.0.1";
  std::string stale;
  write_plan(file, [&](std::span<const std::byte> bytes) {
    stale.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  EXPECT_FALSE(load(std::as_bytes(std::span(stale)), {}, logger));
  EXPECT_TRUE(said("1 the plan was built by temper 0.0.1"));
  const std::string theirs = "ftrt and what follows";
  EXPECT_FALSE(load(std::as_bytes(std::span(theirs)), {}, logger));
  EXPECT_TRUE(said("an engine of TensorRT, which runs in TensorRT alone: build it again from its ONNX model"));
  EXPECT_FALSE(load({}, {}, logger));
}

TEST_F(Nvinfer, CalibrationHasTheShapesOfItsProfileAndReadsNothingThatMayNotBeRead) {
  const ShapeRange range{{1, 1, 8, 8}, {1, 1, 8, 8}, {2, 1, 8, 8}};
  Config int8 = config({{{"image", range}}});
  int8.int8 = true;
  int8.calibration = {{"image", kFour}};
  const std::vector<float> batch(256, 0.5f);
  int64_t asked = 0;
  int batches = 0;
  Calibrator calibrator{"minmax", [] { return std::string(); }, [](const std::string&) {},
                        [&](const std::vector<std::string>&) {
                          return batches++ ? std::nullopt
                                           : std::optional(std::vector{reinterpret_cast<uintptr_t>(batch.data())});
                        },
                        [&](const void*, int64_t bytes, const std::string& input) {
                          EXPECT_EQ(input, "image");
                          asked = bytes;
                        }};
  int8.calibrator = std::make_shared<const Calibrator>(calibrator);
  EXPECT_NE(build_serialized(digits(), int8, logger), "");
  EXPECT_EQ(asked, 4 * 64 * 4);
  batches = 0;
  calibrator.check = [](const void*, int64_t, const std::string&) { fail(ErrorKind::usage, "not there"); };
  int8.calibrator = std::make_shared<const Calibrator>(calibrator);
  EXPECT_EQ(build_serialized(digits(), int8, logger), "");
  EXPECT_TRUE(said("1 not there"));
  int8.calibration = {{"image", {{1}, {1}, {1}}}};
  EXPECT_EQ(build_serialized(digits(), int8, logger), "");
  EXPECT_TRUE(said("the calibration profile gives 'image' 1 dimensions; it has 4"));
}

TEST(HostMemory, EveryAddressIsLookedUpAndWritesBehindABufferAreCounted) {
  auto* const device = static_cast<char*>(allocate_host(100, false));
  auto* const pinned = static_cast<char*>(allocate_host(100, true));
  EXPECT_TRUE(is_host_device(device, 100));
  EXPECT_TRUE(is_host_device(device + 50, 51)) << "a GPU lets it be written, so it is counted instead";
  EXPECT_FALSE(is_host_device(device, 100 + kHostPad + 1));
  EXPECT_FALSE(is_host_device(device + 100, 1));
  EXPECT_FALSE(is_host_device(device - 1, 1));
  EXPECT_FALSE(is_host_device(pinned, 1));
  EXPECT_FALSE(is_host_device(nullptr, 1));
  EXPECT_THROW(check_host_device(pinned, 1, "x"), Error);
  EXPECT_EQ(free_host(device, true), std::nullopt);
  EXPECT_EQ(free_host(device + 1, false), std::nullopt);
  device[99] = 0;
  EXPECT_EQ(free_host(device, false), 0u);
  EXPECT_EQ(free_host(device, false), std::nullopt);
  pinned[107] = 0;
  EXPECT_EQ(free_host(pinned, true), 8u);
  EXPECT_EQ(allocate_host(SIZE_MAX, false), nullptr);
}

TEST(HostMemory, ACopyEndsWhereAnAllocationDoesAndIsNoneWhereThereIsNoMemory) {
  std::vector<char> mine(200, 7);
  for (const size_t size : {size_t(100), size_t(1) << 24}) {
    auto* const device = static_cast<char*>(allocate_host(size, false));
    copy_host(device, CopyEnd::device, mine.data(), CopyEnd::host, 100);
    copy_host(device + size - 1, CopyEnd::either, mine.data(), CopyEnd::either, 1);
    EXPECT_EQ(device[99], 7);
    EXPECT_THROW(copy_host(device + size - 1, CopyEnd::device, mine.data(), CopyEnd::host, 2), Error);
    EXPECT_THROW(copy_host(device + size - 1, CopyEnd::either, mine.data(), CopyEnd::either, 2), Error);
    EXPECT_THROW(copy_host(device, CopyEnd::device, at_address(64), CopyEnd::host, 4), Error);
    EXPECT_THROW(set_host(device, 0, size + 1), Error);
    set_host(device, 0, size);
    EXPECT_EQ(device[99], 0);
    EXPECT_EQ(free_host(device, false), 0u);
    for (const CopyEnd end : {CopyEnd::host, CopyEnd::device, CopyEnd::either}) {
      EXPECT_THROW(copy_host(device, end, mine.data(), CopyEnd::host, 1), Error);
      EXPECT_THROW(copy_host(mine.data(), CopyEnd::host, device, end, 1), Error);
    }
    EXPECT_THROW(set_host(device, 0, 1), Error);
  }
  copy_host(at_address(64), CopyEnd::device, mine.data(), CopyEnd::host, 0);
}

TEST(HostMemory, AllocationsShareNoAddressAndOneThatIsFreeIsTakenAgainLate) {
  std::vector<std::pair<char*, size_t>> all;
  for (size_t i = 0; i < 50; ++i) all.emplace_back(static_cast<char*>(allocate_host(i * 5000, false)), i * 5000);
  const auto freed = all[7];
  free_host(freed.first, false);
  all.erase(all.begin() + 7);
  all.emplace_back(static_cast<char*>(allocate_host(freed.second, false)), freed.second);
  EXPECT_NE(all.back().first, freed.first);
  std::sort(all.begin(), all.end());
  for (size_t i = 1; i < all.size(); ++i) EXPECT_GE(all[i].first, all[i - 1].first + all[i - 1].second + kHostPad);
  for (const auto& [at, size] : all) EXPECT_EQ(free_host(at, false), 0u);
}

}  // namespace
}  // namespace temper::nvinfer
