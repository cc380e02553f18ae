// SPDX-License-Identifier: Apache-2.0
// What cuDNN is asked for, without a GPU: graphs of convolution problems, texts of choices, and, where cuDNN is
// installed, the engines that it has for an H100.
#include <algorithm>

#include "../../data/helpers.h"
#include "backends/cuda/conv/cudnn_conv.h"
#include "bench/cases.h"
#include "cuda_test_helpers.h"

namespace temper {
namespace {

using cuda::Cudnn;
using cuda::CudnnChoice;
using cuda::CudnnConv;
using cuda::CudnnPointwiseMode;
using cuda::CudnnRules;
using Where = cuda::CudnnValue::Where;

struct Asked {
  std::vector<Tensor> inputs;
  Problem problem;
  CudnnConv conv;
};
Asked described(const std::string& text) {
  Asked asked;
  const KernelCase line = parse_cases(text).at(0);
  asked.inputs = make_case_inputs(line, 1);
  asked.problem = make_case_problem(line, asked.inputs, 1);
  asked.conv = cuda::cudnn_conv(asked.problem);
  return asked;
}
std::string conv_text(std::string_view dtype, std::string_view extras, std::string_view epilogue) {
  return concat("conv(", dtype, "[2,16,9,9], ", dtype, "[32,16,3,3]*", extras,
                ") strides=[1,1] pads=[1,1,1,1] dilations=[1,1] epilogue=\"", epilogue, "\"");
}

TEST(CudnnConv, AddsTheResidualBeforeTheBias) {
  const auto asked =
      described(conv_text("f16", ", f16[32,1,1]*, f16[2,32,9,9]",
                          "(3) 3=cast.f32(1) 4=add.f32(0,3) 5=cast.f32(2) 6=add.f32(4,5) 7=relu.f32(6) 8=cast.f16(7)"));
  const auto& graph = asked.conv.graph;
  EXPECT_EQ(asked.conv.reason, "");
  ASSERT_EQ(graph.steps.size(), 3u);
  EXPECT_EQ(graph.values[size_t(graph.steps[0].b)].dims, (Dims{2, 32, 9, 9}));
  EXPECT_EQ(graph.values[size_t(graph.steps[0].b)].strides, (Dims{2592, 1, 288, 32}));
  EXPECT_EQ(graph.values[size_t(graph.steps[1].b)].dims, (Dims{1, 32, 1, 1}));
  EXPECT_EQ(graph.steps[2].mode, CudnnPointwiseMode::relu);
  EXPECT_EQ(asked.conv.ports, (std::vector<int>{0, 1, -2, 2, -2, 3, -2, -1}));
  EXPECT_EQ(graph.values.back().type, cuda::CudnnData::f16);
  EXPECT_EQ(graph.values[size_t(graph.sum)].where, Where::inside);
  EXPECT_EQ(graph.values[size_t(graph.w)].strides, (Dims{144, 1, 48, 16}));
}

TEST(CudnnConv, KeepsTheOrderOfSumsThatAreUsedTwice) {
  const auto asked =
      described(conv_text("f32", ", f32[32,1,1]*, f32[2,32,9,9]", "(3) 3=add.f32(0,1) 4=add.f32(3,2) 5=add.f32(4,3)"));
  EXPECT_CONTAINS(asked.conv.reason, "more than a residual, a bias and relu");
  EXPECT_EQ(asked.conv.graph.values[size_t(asked.conv.graph.steps[0].b)].dims, (Dims{1, 32, 1, 1}));
}

// YOLOv8n and a ResNet-50 without biases took minutes to build, since cuDNN compiled an engine for each proposal.
TEST(CudnnConv, RefusesEpiloguesForWhichEnginesWouldBeCompiled) {
  const std::pair<std::string, const char*> asked[] = {
      {conv_text("f32", "", "(1)"), ""},
      {conv_text("f32", ", f32[32,1,1]*", "(2) 2=add.f32(0,1)"), ""},
      {conv_text("f32", ", f32[32,1,1]*", "(2) 2=add.f32(1,0) 3=relu.f32(2)"), ""},
      {conv_text("f32", ", f32[32,1,1]*, f32[2,32,9,9]", "(3) 3=add.f32(0,1) 4=add.f32(2,3) 5=relu.f32(4)"), ""},
      {conv_text("f32", "", "(1) 1=relu.f32(0)"), "adds no bias"},
      {conv_text("f32", ", f32[2,32,9,9]", "(2) 2=add.f32(0,1) 3=relu.f32(2)"), "adds no bias"},
      {conv_text("f32", ", f32[9]*", "(2) 2=add.f32(0,1)"), "adds no bias"},
      {conv_text("f32", ", f32[32,1,1]*", "(2) 2=add.f32(0,1) 3=sigmoid.f32(2) 4=mul.f32(2,3)"), "has sigmoid"},
      {conv_text("f32", ", f32[32,1,1]*", "(2) 2=add.f32(0,1) 3=constant.f32[6] 4=min.f32(2,3)"), "has constant"},
      {conv_text("f32", ", f32[32,1,1]*, f32[2,32,9,9]", "(3) 3=add.f32(0,1) 4=relu.f32(3) 5=add.f32(4,2)"),
       "more than a residual, a bias and relu"},
  };
  for (const auto& [text, reason] : asked) {
    const std::string got = described(text).conv.reason;
    if (*reason) EXPECT_CONTAINS(got, reason) << text;
    else EXPECT_EQ(got, "") << text;
  }
}

TEST(CudnnConv, LeavesTheLastRoundingToTheResult) {
  const auto asked =
      described(conv_text("bf16", ", bf16[32,1,1]*", "(2) 2=cast.f32(1) 3=add.f32(0,2) 4=relu.f32(3) 5=cast.bf16(4)"));
  ASSERT_EQ(asked.conv.reason, "");
  EXPECT_EQ(asked.conv.graph.steps.size(), 2u);
  EXPECT_EQ(asked.conv.graph.values.back().type, cuda::CudnnData::bf16);
  EXPECT_EQ(asked.conv.graph.values[size_t(asked.conv.graph.steps[0].b)].type, cuda::CudnnData::bf16);
}

TEST(CudnnConv, SeesOneSpatialAxisAsTwo) {
  const auto asked = described("conv(f32[2,5,31], f32[7,5,4]*) strides=[3] pads=[2,1] dilations=[1] epilogue=\"(1)\"");
  ASSERT_EQ(asked.conv.reason, "");
  EXPECT_EQ(asked.conv.graph.values[size_t(asked.conv.graph.x)].dims, (Dims{2, 5, 1, 31}));
  EXPECT_EQ(asked.conv.graph.strides, (Dims{1, 3}));
  EXPECT_EQ(asked.conv.graph.pads_before, (Dims{0, 2}));
  EXPECT_EQ(asked.conv.graph.pads_after, (Dims{0, 1}));
}

TEST(CudnnConv, SaysWhatItCannotAskFor) {
  const std::pair<std::string, const char*> refusals[] = {
      {"conv(f32[1,16,9,9], f32[16,16,3,3]) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] epilogue=\"(1)\"",
       "not constant"},
      {"conv(i8[1,16,9,9], i8[16,16,3,3]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] epilogue=\"(1)\"",
       "product of i8"},
      {"matmul(f32[3,5], f32[5,7]) epilogue=\"(1)\"", "not a convolution"},
      {conv_text("f32", "", "(1) 1=round.f32(0)"), "round"},
      {conv_text("f32", ", f32[32,1,1]*", "(2) 2=relu.f32(0) 3=cast.f32(1)"), "result is not"},
      {conv_text("f32", "", "(1) 1=round.f32(0) 2=cast.i8(1)"), "result of i8"},
      {conv_text("f32", "", "(1) 1=cast.bf16(0) 2=cast.f32(1)"), "rounds to bf16"},
  };
  for (const auto& [text, reason] : refusals)
    EXPECT_NE(described(text).conv.reason.find(reason), std::string::npos) << text << "\n"
                                                                           << described(text).conv.reason;
}

TEST(CudnnConv, PutsChannelsLast) {
  Tensor weights(DType::u8, {1, 2, 1, 3});
  for (int i = 0; i < 6; ++i) weights.raw_mutable()[i] = std::byte(i);
  const AlignedBytes packed = cuda::channels_last_weights(weights);
  const std::byte want[] = {std::byte(0), std::byte(3), std::byte(1), std::byte(4), std::byte(2), std::byte(5)};
  EXPECT_TRUE(std::equal(packed.begin(), packed.end(), want, want + 6));
}

TEST(CudnnChoice, ReadsWhatItWrites) {
  const CudnnChoice choice{10, {{2, 5}, {12, -1}, {13, 1}}};
  EXPECT_EQ(choice.text(), "engine 10 2:5 12:-1 13:1");
  EXPECT_EQ(CudnnChoice::parse(choice.text()), choice);
  EXPECT_EQ(CudnnChoice::parse("engine 0"), CudnnChoice{});
}

TEST(CudnnChoice, RefusesOtherTexts) {
  for (const char* text :
       {"", "engine", "engine ", "engine -1", "engine 1 ", "engine 1 2", "engine 1 2:", "engine 1 64:0",
        "engine 1 2:5 2:5", "engine 1 3:1 2:1", "engine 01", "engine 1 -2:5", "engine 99999999999", "engine 1  2:5",
        "engine 1 2:5x", "Engine 1", "engine 1 2:99999999999999999999"}) {
    try {
      CudnnChoice::parse(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) { EXPECT_EQ(error.kind(), ErrorKind::bad_file) << text; }
  }
}

// What cuDNN wants to know of an H100.
constexpr std::string_view kH100 =
    R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
    R"("multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,)"
    R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
    R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":85000000000,)"
    R"("smClockRateKHz":1980000,"memClockRateKHz":2619000,"l2CacheSize":52428800,"cudaDeviceId":0,"deviceVer":900,)"
    R"("driverVer":13000,"driverVersion":13000,"deviceName":"NVIDIA H100","major":9,"minor":0})";

// Null, with the reason, where there is no cuDNN that can choose without a GPU.
const Cudnn* cudnn(std::string& why_not) {
  static std::string reason;
  static const std::unique_ptr<const Cudnn> library = [] {
    try {
      return std::make_unique<const Cudnn>(testing::cuda_search(), kH100);
    } catch (const Error& error) {
      reason = error.what();
      return std::unique_ptr<const Cudnn>();
    }
  }();
  why_not = reason;
  return library.get();
}
#define NEEDS_CUDNN(name)              \
  std::string no_cudnn;                \
  const Cudnn* name = cudnn(no_cudnn); \
  if (!name) GTEST_SKIP() << no_cudnn

TEST(CudnnWithoutAGpu, HasEnginesForFusedConvolutions) {
  NEEDS_CUDNN(library);
  for (const char* dtype : {"f16", "bf16", "f32"}) {
    const std::string extras = concat(", ", dtype, "[32,1,1]*, ", dtype, "[2,32,9,9]");
    const auto asked = described(
        conv_text(dtype, extras,
                  dtype == std::string("f32")
                      ? std::string("(3) 3=add.f32(0,1) 4=add.f32(3,2) 5=relu.f32(4)")
                      : concat("(3) 3=cast.f32(1) 4=add.f32(0,3) 5=cast.f32(2) 6=add.f32(4,5) 7=relu.f32(6) 8=cast.",
                               dtype, "(7)")));
    ASSERT_EQ(asked.conv.reason, "");
    const auto choices = library->choices(asked.conv.graph, {});
    EXPECT_FALSE(choices.empty()) << dtype;
    EXPECT_LE(choices.size(), CudnnRules().most);
    EXPECT_EQ(library->choices(asked.conv.graph, {}), choices);
    for (const CudnnChoice& choice : choices) {
      EXPECT_EQ(CudnnChoice::parse(choice.text()), choice);
      const auto plan = library->plan(asked.conv.graph, choice);
      EXPECT_LE(plan->workspace(), CudnnRules().workspace);
    }
  }
}

TEST(CudnnWithoutAGpu, KeepsStrictF32OffTensorCores) {
  NEEDS_CUDNN(library);
  const auto asked = described(conv_text("f32", "", "(1)"));
  CudnnRules strict, loose;
  strict.most = loose.most = strict.most_of_one = loose.most_of_one = 64;
  loose.tf32 = true;
  EXPECT_LT(library->choices(asked.conv.graph, strict).size(), library->choices(asked.conv.graph, loose).size());
}

TEST(CudnnWithoutAGpu, OffersNoEngineWithoutTensorCoresForLargeConvolutionsIn16Bits) {
  NEEDS_CUDNN(library);
  const auto asked = described(
      "conv(f16[64,64,32,32], f16[64,64,3,3]*, f16[64,1,1]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] "
      "epilogue=\"(2) 2=cast.f32(1) 3=add.f32(0,2) 4=relu.f32(3) 5=cast.f16(4)\"");
  const auto choices = library->choices(asked.conv.graph, {});
  EXPECT_FALSE(choices.empty());
  EXPECT_TRUE(std::ranges::none_of(choices, [](const CudnnChoice& choice) { return choice.engine == 0; }));
}

TEST(CudnnWithoutAGpu, RefusesChoicesThatThereAreNot) {
  NEEDS_CUDNN(library);
  const auto asked =
      described(conv_text("f16", ", f16[32,1,1]*", "(2) 2=cast.f32(1) 3=add.f32(0,2) 4=relu.f32(3) 5=cast.f16(4)"));
  EXPECT_NO_THROW(library->plan(asked.conv.graph, library->choices(asked.conv.graph, {}).at(0)));
  for (const char* text :
       {"engine 12345", "engine 3", "engine 10 63:1", "engine 10 2:1000000", "engine 41 13:999999999999"})
    EXPECT_THROW(library->plan(asked.conv.graph, CudnnChoice::parse(text)), Error) << text;
}

}  // namespace
}  // namespace temper
