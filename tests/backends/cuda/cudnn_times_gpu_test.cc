// SPDX-License-Identifier: Apache-2.0
// Times of cuDNN's engines at ResNet-50's convolutions, printed; off unless asked for
// (--gtest_also_run_disabled_tests).
#include <algorithm>
#include <chrono>
#include <fstream>
#include <random>

#include "backends/cuda/conv/cudnn_conv.h"
#include "bench/cases.h"
#include "graph/ops/conv.h"
#include "run_cuda_tactic.h"

namespace temper {
namespace {

using cuda::CudnnChoice;
using cuda::CudnnConv;
using cuda::CudnnRules;

struct Layer {
  int count, channels, size, outputs, kernel, stride;
  bool residual, relu;
};
constexpr Layer kResnet50[] = {
    {1, 3, 224, 64, 7, 2, false, true},    {1, 64, 56, 64, 1, 1, false, true},
    {3, 64, 56, 64, 3, 1, false, true},    {3, 64, 56, 256, 1, 1, true, true},
    {1, 64, 56, 256, 1, 1, false, false},  {2, 256, 56, 64, 1, 1, false, true},
    {1, 256, 56, 128, 1, 1, false, true},  {1, 128, 56, 128, 3, 2, false, true},
    {4, 128, 28, 512, 1, 1, true, true},   {1, 256, 56, 512, 1, 2, false, false},
    {3, 512, 28, 128, 1, 1, false, true},  {3, 128, 28, 128, 3, 1, false, true},
    {1, 512, 28, 256, 1, 1, false, true},  {1, 256, 28, 256, 3, 2, false, true},
    {6, 256, 14, 1024, 1, 1, true, true},  {1, 512, 28, 1024, 1, 2, false, false},
    {5, 1024, 14, 256, 1, 1, false, true}, {5, 256, 14, 256, 3, 1, false, true},
    {1, 1024, 14, 512, 1, 1, false, true}, {1, 512, 14, 512, 3, 2, false, true},
    {3, 512, 7, 2048, 1, 1, true, true},   {1, 1024, 14, 2048, 1, 2, false, false},
    {2, 2048, 7, 512, 1, 1, false, true},  {2, 512, 7, 512, 3, 1, false, true},
};

CudnnConv conv_of(const Layer& layer, int batch, std::string_view bias) {
  const int out = layer.stride == 1 ? layer.size : layer.size / 2, pad = layer.kernel / 2;
  std::string text =
      concat("conv(f16[", batch, ',', layer.channels, ',', layer.size, ',', layer.size, "], f16[", layer.outputs, ',',
             layer.channels, ',', layer.kernel, ',', layer.kernel, "]*, ", bias, '[', layer.outputs, ",1,1]*");
  if (layer.residual) text += concat(", f16[", batch, ',', layer.outputs, ',', out, ',', out, ']');
  text += concat(") strides=[", layer.stride, ',', layer.stride, "] pads=[", pad, ',', pad, ',', pad, ',', pad,
                 "] dilations=[1,1] epilogue=\"(1)\"");
  KernelCase line = parse_cases(text).at(0);
  // The program is put in here: its text would depend on what f16 is summed in.
  Program program;
  program.inputs = layer.residual ? 3 : 2;
  int value = program.push({Scalar::add, DType::f32, {0, 1, -1}});
  if (layer.residual) value = program.push({Scalar::add, DType::f32, {value, 2, -1}});
  if (layer.relu) program.push({Scalar::relu, DType::f32, {value, -1, -1}});
  Problem problem;
  problem.op = line.op;
  for (const CaseInput& input : line.inputs) {
    Port port;
    port.type = input.type;
    port.is_constant = input.constant;
    problem.inputs.push_back(port);
  }
  Port y;
  y.type = type_of(DType::f16, {batch, layer.outputs, out, out});
  problem.outputs = {y};
  problem.op.get<ops::Conv>().epilogue = program;
  return cuda::cudnn_conv(problem);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Random halves, a block of them again and again.
void fill(const cuda::Stream& stream, const cuda::DeviceMemory& memory) {
  std::mt19937 random(1);
  std::vector<uint16_t> block(1 << 20);
  for (uint16_t& half : block) half = uint16_t((random() & 0x83ff) | (0x2800 + ((random() & 7) << 10)));
  const int64_t bytes = int64_t(block.size()) * 2;
  for (int64_t at = 0; at < memory.bytes(); at += bytes)
    stream.copy_to_device(memory.address() + uint64_t(at), block.data(), std::min(bytes, memory.bytes() - at));
  stream.synchronize();
}

struct NetMemory {
  NetMemory(const cuda::Stream& stream, int64_t tensor)
      : x(stream.gpu(), tensor),
        y(stream.gpu(), tensor),
        residual(stream.gpu(), tensor),
        weights(stream.gpu(), int64_t(16) << 20),
        workspace(stream.gpu(), CudnnRules().workspace) {
    fill(stream, x);
    fill(stream, residual);
    fill(stream, weights);
  }
  std::vector<cuda::DevicePointer> addresses(const CudnnConv& conv) const {
    std::vector<cuda::DevicePointer> out;
    for (int port : conv.ports)
      out.push_back(port == 0                    ? x.address()
                    : port == CudnnConv::kOutput ? y.address()
                    : port == 3                  ? residual.address()
                                                 : weights.address());
    return out;
  }
  cuda::DeviceMemory x, y, residual, weights, workspace;
};

// Microseconds of one launch in a row of them.
double time(const cuda::Stream& stream, cuda::CudnnRun& run, const std::vector<cuda::DevicePointer>& addresses,
            cuda::DevicePointer workspace, int launches) {
  run.launch(stream, addresses, workspace);
  stream.synchronize();
  stream.begin_graph();
  for (int i = 0; i < launches; ++i) run.launch(stream, addresses, workspace);
  const cuda::Graph graph = stream.end_graph();
  const cuda::Event start(stream.gpu()), stop(stream.gpu());
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    stream.record(start);
    stream.launch(graph);
    stream.record(stop);
    stop.wait();
    times.push_back(stop.milliseconds_since(start) * 1000 / launches);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

std::string choices_file(int batch) { return concat(::testing::TempDir(), "/temper_cudnn_choices_", batch); }

void time_resnet(int batch, std::string_view bias, size_t most, size_t layers = 100) {
  TEMPER_NEEDS_MACHINE(machine);
  if (!machine->why_no_cudnn().empty()) GTEST_SKIP() << machine->why_no_cudnn();
  const cuda::Cudnn& cudnn = machine->cudnn();
  const cuda::Stream stream(machine->gpu());
  const NetMemory arena(stream, int64_t(batch) * 112 * 112 * 64 * 2);
  CudnnRules rules;
  rules.most = most;
  rules.most_of_one = most;
  double sum = 0, sum_of_first = 0;
  std::ofstream file(choices_file(batch));
  std::printf("batch %d, bias %s, cuDNN %d\n", batch, std::string(bias).c_str(), cudnn.version());
  for (const Layer& layer : kResnet50) {
    if (layers-- == 0) break;
    const CudnnConv conv = conv_of(layer, batch, bias);
    ASSERT_EQ(conv.reason, "");
    const auto start = std::chrono::steady_clock::now();
    const auto choices = cudnn.choices(conv.graph, rules);
    const double choosing = seconds_since(start);
    double best = 1e30, first = 1e30;
    std::string best_text;
    size_t best_at = 0;
    for (size_t i = 0; i < choices.size(); ++i) {
      cuda::CudnnRun run(cudnn, cudnn.plan(conv.graph, choices[i]));
      const double us = time(stream, run, arena.addresses(conv), arena.workspace.address(), batch > 32 ? 4 : 20);
      if (i < 6) first = std::min(first, us);
      if (us < best) best = us, best_at = i, best_text = concat(choices[i].text(), " ws=", run.plan().workspace());
    }
    const int out = layer.stride == 1 ? layer.size : layer.size / 2;
    const double flops = 2.0 * batch * out * out * layer.outputs * layer.channels * layer.kernel * layer.kernel;
    std::printf(
        "%d x %4d@%-3d -> %4d k%d s%d%s%s: best %8.2f us (%5.0f TFLOP/s, #%zu of %zu) of 6 %8.2f; "
        "chosen in %.2f s; %s\n",
        layer.count, layer.channels, layer.size, layer.outputs, layer.kernel, layer.stride, layer.residual ? " +" : "",
        layer.relu ? " relu" : "", best, flops / best / 1e6, best_at, choices.size(), first, choosing,
        best_text.c_str());
    std::fflush(stdout);
    if (!choices.empty()) file << choices[best_at].text() << "\n";
    sum += best * layer.count;
    sum_of_first += first * layer.count;
  }
  std::printf("batch %d, bias %s: sum of the best %.1f us, of the best of the first 6 %.1f us\n", batch,
              std::string(bias).c_str(), sum, sum_of_first);
}

TEST(CudnnTimes, DISABLED_OfResnet50AtBatch1) { time_resnet(1, "f16", 30); }
TEST(CudnnTimes, DISABLED_OfResnet50AtBatch8) { time_resnet(8, "f16", 20); }
TEST(CudnnTimes, DISABLED_OfResnet50AtBatch128) { time_resnet(128, "f16", 30); }
TEST(CudnnTimes, DISABLED_OfResnet50AtBatch256) { time_resnet(256, "f16", 14); }
TEST(CudnnTimes, DISABLED_WithABiasOfF32) { time_resnet(128, "f32", 4, 4); }

// In a process of its own: what a plan's load costs. The choices are those that an earlier run found.
TEST(CudnnTimes, DISABLED_OfLoading) {
  TEMPER_NEEDS_MACHINE(machine);
  const int batch = 1;
  std::ifstream file(choices_file(batch));
  const cuda::Stream stream(machine->gpu());
  const NetMemory arena(stream, int64_t(batch) * 112 * 112 * 64 * 2);
  auto start = std::chrono::steady_clock::now();
  const cuda::Cudnn& cudnn = machine->cudnn();
  std::printf("opening cuDNN: %.1f ms\n", seconds_since(start) * 1e3);
  std::vector<std::unique_ptr<cuda::CudnnRun>> runs;
  std::vector<CudnnConv> convs;
  start = std::chrono::steady_clock::now();
  double slowest = 0;
  for (const Layer& layer : kResnet50) {
    std::string text;
    ASSERT_TRUE(std::getline(file, text));
    for (int i = 0; i < layer.count; ++i) {
      const auto before = std::chrono::steady_clock::now();
      convs.push_back(conv_of(layer, batch, "f16"));
      runs.push_back(std::make_unique<cuda::CudnnRun>(cudnn, cudnn.plan(convs.back().graph, CudnnChoice::parse(text))));
      if (seconds_since(before) > 1e-3) std::printf("  %.2f ms: %s\n", seconds_since(before) * 1e3, text.c_str());
      slowest = std::max(slowest, seconds_since(before));
    }
  }
  std::printf("making %zu plans: %.1f ms, the slowest %.1f ms\n", runs.size(), seconds_since(start) * 1e3,
              slowest * 1e3);
  for (const char* which : {"first", "second"}) {
    start = std::chrono::steady_clock::now();
    for (size_t i = 0; i < runs.size(); ++i)
      runs[i]->launch(stream, arena.addresses(convs[i]), arena.workspace.address());
    stream.synchronize();
    std::printf("%s launches: %.1f ms\n", which, seconds_since(start) * 1e3);
  }
  EXPECT_GT(runs.size(), 50u);
}

}  // namespace
}  // namespace temper
