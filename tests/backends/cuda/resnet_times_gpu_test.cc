// SPDX-License-Identifier: Apache-2.0
// The convolutions of ResNet-50 at several batches, in FP16 and INT8: each one's fastest configuration, and what all of
// them take together; off unless asked for (--gtest_also_run_disabled_tests). TEMPER_TIMES="i8 256,f16 64" asks for
// these alone, TEMPER_TIMES_LIKE="[512,128,1,1]" for cases with that in their texts,
// TEMPER_TIMES_OF=pipeline for recipes with that in their names; TEMPER_TIMES_ONCE=3 launches the first
// three ways of each problem once, for a profiler; TEMPER_TIMES_FOR=0.4 keeps each way busy for so many seconds and
// takes the median of the second half, so that the power limit of the GPU shows. Lines of problems of any kind:
// DISABLED_OfLines.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <sstream>

#include "base/file.h"
#include "bench/cases.h"
#include "graph/ops/conv.h"
#include "run_recipe.h"

namespace temper {
namespace {

struct ResnetLayer {
  int times, channels, outputs, size, kernel, stride;
  enum { none, relu, residual } end;
};
const ResnetLayer kResnetLayers[] = {
    {1, 3, 64, 224, 7, 2, ResnetLayer::relu},        {1, 64, 64, 56, 1, 1, ResnetLayer::relu},
    {2, 256, 64, 56, 1, 1, ResnetLayer::relu},       {3, 64, 64, 56, 3, 1, ResnetLayer::relu},
    {3, 64, 256, 56, 1, 1, ResnetLayer::residual},   {1, 64, 256, 56, 1, 1, ResnetLayer::none},
    {1, 256, 128, 56, 1, 1, ResnetLayer::relu},      {1, 128, 128, 56, 3, 2, ResnetLayer::relu},
    {3, 512, 128, 28, 1, 1, ResnetLayer::relu},      {3, 128, 128, 28, 3, 1, ResnetLayer::relu},
    {4, 128, 512, 28, 1, 1, ResnetLayer::residual},  {1, 256, 512, 56, 1, 2, ResnetLayer::none},
    {1, 512, 256, 28, 1, 1, ResnetLayer::relu},      {1, 256, 256, 28, 3, 2, ResnetLayer::relu},
    {5, 1024, 256, 14, 1, 1, ResnetLayer::relu},     {5, 256, 256, 14, 3, 1, ResnetLayer::relu},
    {6, 256, 1024, 14, 1, 1, ResnetLayer::residual}, {1, 512, 1024, 28, 1, 2, ResnetLayer::none},
    {1, 1024, 512, 14, 1, 1, ResnetLayer::relu},     {1, 512, 512, 14, 3, 2, ResnetLayer::relu},
    {2, 2048, 512, 7, 1, 1, ResnetLayer::relu},      {2, 512, 512, 7, 3, 1, ResnetLayer::relu},
    {3, 512, 2048, 7, 1, 1, ResnetLayer::residual},  {1, 1024, 2048, 14, 1, 2, ResnetLayer::none},
};

std::string text_of(const ResnetLayer& l, int64_t batch, bool integers) {
  const int out = (l.size + l.stride - 1) / l.stride, pad = l.kernel / 2;
  const char* type = integers ? "i8" : "f16";
  std::string text = concat("conv(", type, '[', batch, ',', l.channels, ',', l.size, ',', l.size, "], ", type, '[',
                            l.outputs, ',', l.channels, ',', l.kernel, ',', l.kernel, "]*");
  for (int i = 0; i < (integers ? 2 : 1); ++i) text += concat(", f32[", l.outputs, ",1,1]*");
  if (l.end == ResnetLayer::residual) text += concat(", ", type, '[', batch, ',', l.outputs, ',', out, ',', out, ']');
  text += concat(") strides=[", l.stride, ',', l.stride, "] pads=[", pad, ',', pad, ',', pad, ',', pad,
                 "] dilations=[1,1] epilogue=\"");
  if (integers)
    text += l.end == ResnetLayer::residual
                ? "(4) 4=cast.f32(0) 5=add.f32(4,1) 6=mul.f32(5,2) 7=cast.f32(3) 8=constant.f32[0.73] 9=fma.f32(7,8,6) "
                  "10=relu.f32(9) 11=round.f32(10) 12=cast.i8(11)"
            : l.end == ResnetLayer::relu
                ? "(3) 3=cast.f32(0) 4=add.f32(3,1) 5=mul.f32(4,2) 6=relu.f32(5) 7=round.f32(6) 8=cast.i8(7)"
                : "(3) 3=cast.f32(0) 4=add.f32(3,1) 5=mul.f32(4,2) 6=round.f32(5) 7=cast.i8(6)";
  else
    text += l.end == ResnetLayer::residual
                ? "(3) 3=add.f32(0,1) 4=cast.f32(2) 5=add.f32(3,4) 6=relu.f32(5) 7=cast.f16(6)"
            : l.end == ResnetLayer::relu ? "(2) 2=add.f32(0,1) 3=relu.f32(2) 4=cast.f16(3)"
                                         : "(2) 2=add.f32(0,1) 3=cast.f16(2)";
  return text + "\"";
}

// A problem whose inputs lie on the GPU only: random bytes that are small numbers in every dtype.
struct Bench {
  KernelCase line;
  std::vector<Tensor> constants;
  Problem problem;
  std::vector<std::pair<const cuda::Recipe*, Config>> ways;
  std::vector<cuda::Recipe::Work> works;
  // `only`: recipes with that in their names.
  Bench(const std::string& text, const cuda::GpuInfo& gpu, std::string_view only = "") : line(parse_cases(text).at(0)) {
    KernelCase without = line;
    for (CaseInput& input : without.inputs) input.present &= input.constant;
    constants = make_case_inputs(without, 1);
    problem = make_case_problem(line, constants, 1);
    for (const cuda::Recipe* recipe : cuda::recipes()) {
      const char* of = std::getenv("TEMPER_TIMES_OF");
      if (recipe->name.find(only) == std::string_view::npos) continue;
      if (of && recipe->name.find(of) == std::string_view::npos) continue;
      if (!recipe_supports(*recipe, problem, gpu.architecture()).yes()) continue;
      for (const Config& config : recipe->configs(problem, cuda::GpuProperties(gpu))) {
        if (config.outputs[0] == Layout::plain && problem.op.is<ops::Conv>()) continue;
        const char* once = std::getenv("TEMPER_TIMES_ONCE");
        if (once && ways.size() == size_t(std::atoi(once))) break;
        ways.push_back({recipe, config});
        works.push_back(recipe->work(problem, config, cuda::GpuProperties(gpu)));
      }
    }
  }
  std::vector<cuda::KernelSource> sources() const {
    std::vector<cuda::KernelSource> out;
    for (const auto& work : works)
      for (const cuda::Job& job : work.jobs) out.push_back(job.source);
    return out;
  }
};

void fill(const cuda::Stream& stream, cuda::DevicePointer to, int64_t bytes, DType dtype) {
  static std::map<DType, std::vector<std::byte>> blocks;
  std::vector<std::byte>& block = blocks[dtype];
  if (block.empty()) {
    Tensor tensor(dtype, {1 << 22});
    std::mt19937 random(1);
    visit_dtype(dtype, [&]<class T>() {
      for (int64_t i = 0; i < tensor.count(); ++i)
        tensor.data<T>()[i] = static_cast<T>(double(random() % 2001) / 500 - 2);
    });
    block.assign(tensor.raw().begin(), tensor.raw().end());
  }
  for (int64_t at = 0; at < bytes; at += int64_t(block.size()))
    stream.copy_to_device(to + cuda::DevicePointer(at), block.data(), std::min(bytes - at, int64_t(block.size())));
  stream.synchronize();
}

// Milliseconds of one launch, among several in a graph; of the second launch where that is far above `best`.
double time_of(const cuda::Stream& stream, const cuda::LoadedWork& work, const cuda::DeviceBuffers& buffers,
               double best) {
  const cuda::Event start(stream.gpu()), stop(stream.gpu());
  for (int i = 0; i < 2; ++i) {
    stream.record(start);
    work.launch(stream, buffers);
    stream.record(stop);
  }
  stop.wait();
  if (const double ms = stop.milliseconds_since(start); ms > 3 * best + 0.02) return ms;
  stream.record(start);
  for (int i = 0; i < 4; ++i) work.launch(stream, buffers);
  stream.record(stop);
  stop.wait();
  const int times = std::clamp(int(2.0 / (stop.milliseconds_since(start) / 4)), 4, 200);
  stream.begin_graph();
  for (int i = 0; i < times; ++i) work.launch(stream, buffers);
  const cuda::Graph graph = stream.end_graph();
  std::vector<double> all;
  const auto time = [&](int graphs) {
    stream.record(start);
    for (int i = 0; i < graphs; ++i) stream.launch(graph);
    stream.record(stop);
    stop.wait();
    return stop.milliseconds_since(start) / times / graphs;
  };
  if (const char* seconds = std::getenv("TEMPER_TIMES_FOR")) {
    constexpr int kGraphs = 10;
    for (double sum = 0; sum < 1e3 * std::atof(seconds); sum += all.back() * times * kGraphs)
      all.push_back(time(kGraphs));
    all.erase(all.begin(), all.begin() + int64_t(all.size() / 2));
  } else {
    time(1);  // moves the graph to the GPU
    for (int i = 0; i < 3; ++i) all.push_back(time(1));
  }
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

// Milliseconds of all ways, the fastest first.
std::vector<std::pair<double, std::string>> times_of(const cuda::Stream& stream, const testing::Cubins& cubins,
                                                     const Bench& bench) {
  std::vector<std::unique_ptr<cuda::DeviceMemory>> memory;
  std::vector<cuda::DevicePointer> in, out;
  auto allocate = [&](const TensorType& type) {
    const int64_t bytes = byte_count(type.dtype, type.dims());
    memory.push_back(std::make_unique<cuda::DeviceMemory>(stream.gpu(), bytes));
    fill(stream, memory.back()->address(), bytes, type.dtype);
    return memory.back()->address();
  };
  for (const Port& port : bench.problem.inputs) in.push_back(allocate(port.type));
  for (const Port& port : bench.problem.outputs) out.push_back(allocate(port.type));
  std::vector<std::pair<double, std::string>> times;
  double best = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < bench.ways.size(); ++i) {
    const cuda::Recipe::Work& work = bench.works[i];
    const AlignedBytes bytes = cubins.bundle_of(work);
    const cuda::Bundle bundle(bytes, work.jobs, stream.gpu()->info().architecture());
    const cuda::LoadedWork loaded(stream.gpu(), work, bundle);
    const cuda::DeviceMemory workspace(stream.gpu(), work.workspace), packed(stream.gpu(), int64_t(work.packed.size()));
    stream.copy_to_device(packed.address(), work.packed.data(), packed.bytes());
    stream.synchronize();
    const cuda::DeviceBuffers buffers{in, out, workspace.address(), packed.address()};
    if (std::getenv("TEMPER_TIMES_ONCE")) loaded.launch(stream, buffers), stream.synchronize();
    times.push_back({std::getenv("TEMPER_TIMES_ONCE") ? 1 : time_of(stream, loaded, buffers, best),
                     concat(bench.ways[i].first->name.substr(5), ' ', bench.ways[i].second.text)});
    best = std::min(best, times.back().first);
  }
  std::sort(times.begin(), times.end());
  return times;
}

// The best time; prints the fastest ways.
double measure(const cuda::Stream& stream, const testing::Cubins& cubins, const Bench& bench, double operations,
               size_t shown) {
  const auto times = times_of(stream, cubins, bench);
  for (size_t i = 0; i < std::min(shown, times.size()); ++i)
    std::printf("%s %.4f ms %.3g T/s (%s)", i ? ";" : "", times[i].first, operations / times[i].first / 1e9,
                times[i].second.c_str());
  std::printf("\n");
  std::fflush(stdout);
  return times.empty() ? 0 : times[0].first;
}

// What TEMPER_TIMES asks for, or all.
std::vector<std::pair<bool, int64_t>> asked_convolutions() {
  const char* asked = std::getenv("TEMPER_TIMES");
  std::istringstream text(asked ? asked : "f16 128,i8 128,f16 1,i8 1,f16 8,i8 8,f16 256,i8 256");
  std::vector<std::pair<bool, int64_t>> out;
  for (std::string dtype, batch; text >> dtype && std::getline(text, batch, ',');)
    out.push_back({dtype == "i8", std::stoll(batch)});
  return out;
}

TEST(CudaTimes, DISABLED_OfConvolutions) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  const cuda::Stream stream(gpu);
  testing::Cubins cubins(*compiler, gpu->info().architecture());
  for (const auto& [integers, batch] : asked_convolutions()) {
    std::vector<const ResnetLayer*> layers;
    std::vector<std::unique_ptr<Bench>> benches;
    std::vector<cuda::KernelSource> sources;
    for (const ResnetLayer& layer : kResnetLayers) {
      const char* like = std::getenv("TEMPER_TIMES_LIKE");
      if (like && text_of(layer, batch, integers).find(like) == std::string::npos) continue;
      layers.push_back(&layer);
      benches.push_back(std::make_unique<Bench>(text_of(layer, batch, integers), gpu->info()));
      for (const auto& source : benches.back()->sources()) sources.push_back(source);
    }
    cubins.prepare(sources);
    double total = 0, without_first = 0;
    for (size_t l = 0; l < benches.size(); ++l) {
      const ResnetLayer& layer = *layers[l];
      const int out = (layer.size + layer.stride - 1) / layer.stride;
      std::printf("%s %3d  %d x %4d->%4d %3d k%d s%d%s ", integers ? "i8 " : "f16", int(batch), layer.times,
                  layer.channels, layer.outputs, layer.size, layer.kernel, layer.stride,
                  layer.end == ResnetLayer::residual ? "+" : " ");
      const double ms =
          measure(stream, cubins, *benches[l],
                  2.0 * double(batch) * out * out * layer.outputs * layer.channels * layer.kernel * layer.kernel, 12);
      EXPECT_GT(ms, 0);
      total += layer.times * ms;
      if (layer.channels > 3) without_first += layer.times * ms;
    }
    std::printf("%s batch %d: all convolutions %.3f ms, without the first %.3f ms\n", integers ? "INT8" : "FP16",
                int(batch), total, without_first);
  }
}

TEST(CudaTimes, DISABLED_OfOtherSteps) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  const cuda::Stream stream(gpu);
  testing::Cubins cubins(*compiler, gpu->info().architecture());
  for (const char* text :
       {"matmul(f16[8192,8192], f16[8192,8192]*) epilogue=\"(1)\"",
        "matmul(i8[8192,8192], i8[8192,8192]*) epilogue=\"(1)\"",
        "matmul(f16[1,2048], f16[2048,1000]*, f32[1000]*) epilogue=\"(2) 2=add.f32(0,1) 3=cast.f16(2)\"",
        "matmul(f16[128,2048], f16[2048,1000]*, f32[1000]*) epilogue=\"(2) 2=add.f32(0,1) 3=cast.f16(2)\""}) {
    const Bench bench(text, gpu->info());
    cubins.prepare(bench.sources());
    const auto dims = bench.problem.inputs[0].dims();
    std::printf("%-50.50s", text);
    measure(stream, cubins, bench, 2.0 * double(dims[0] * dims[1] * bench.problem.inputs[1].dims()[1]), 9);
  }
  for (const char* text :
       {"pool(f16[128,64,112,112]) kernel=[3,3] strides=[2,2] dilations=[1,1] pads=[1,1,1,1]",
        "pool(i8[128,64,112,112]) kernel=[3,3] strides=[2,2] dilations=[1,1] pads=[1,1,1,1]",
        "pool(f16[1,64,112,112]) kernel=[3,3] strides=[2,2] dilations=[1,1] pads=[1,1,1,1]",
        "pool(f16[128,256,35,35]) kind=average kernel=[3,3] strides=[1,1] dilations=[1,1] pads=[1,1,1,1]",
        "reduce(f16[128,2048,7,7]) kind=mean axes=[2,3]", "reduce(f16[1,2048,7,7]) kind=mean axes=[2,3]",
        "reduce(f32[1,2048,7,7]) kind=mean axes=[2,3]", "pointwise(f32[128,3,224,224]) program=\"(1) 1=cast.f16(0)\"",
        "conv(f16[128,3,224,224], f16[32,3,3,3]*, f32[32,1,1]*) strides=[2,2] pads=[1,1,1,1] dilations=[1,1] "
        "epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2) 4=cast.f16(3)\"",
        "conv(f16[128,96,112,112], f16[96,1,3,3]*, f32[96,1,1]*) strides=[2,2] pads=[1,1,1,1] dilations=[1,1] group=96 "
        "epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2) 4=cast.f16(3)\"",
        "conv(f16[128,144,56,56], f16[144,1,3,3]*, f32[144,1,1]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] "
        "group=144 "
        "epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2) 4=cast.f16(3)\"",
        "conv(i8[128,144,56,56], i8[144,1,3,3]*, f32[144,1,1]*, f32[144,1,1]*) strides=[1,1] pads=[1,1,1,1] "
        "dilations=[1,1] group=144 epilogue=\"(3) 3=cast.f32(0) 4=add.f32(3,1) 5=mul.f32(4,2) 6=relu.f32(5) "
        "7=round.f32(6) 8=cast.i8(7)\""}) {
    const Bench bench(text, gpu->info());
    cubins.prepare(bench.sources());
    int64_t bytes = 0;
    for (const auto* ports : {&bench.problem.inputs, &bench.problem.outputs})
      for (const Port& port : *ports) bytes += byte_count(port.type.dtype, port.dims());
    std::printf("%-60.60s %.0f MB (T/s are of bytes): ", text, double(bytes) / 1e6);
    measure(stream, cubins, bench, double(bytes), 4);
  }
}

double bytes_of(const Problem& problem) {
  double bytes = 0;
  for (const auto* ports : {&problem.inputs, &problem.outputs})
    for (const Port& port : *ports) bytes += double(byte_count(port.type.dtype, port.dims()));
  return bytes;
}

// Layers that convolve each channel by itself, of EfficientNet-B0 and MobileNet-v3-large at batch 128 and ConvNeXt-T at
// batch 32, beside a step that only copies as much as no cache holds.
TEST(CudaTimes, DISABLED_OfDepthwise) {
  struct Depthwise {
    const char* net;
    int times, batch, channels, size, kernel, stride;
    const char* epilogue;
  };
  const char *const silu = "(2) 2=add.f32(0,1) 3=sigmoid.f32(2) 4=mul.f32(2,3) 5=cast.f16(4)",
                    *const relu = "(2) 2=add.f32(0,1) 3=relu.f32(2) 4=cast.f16(3)",
                    *const hard =
                        "(2) 2=add.f32(0,1) 3=constant.f32[3] 4=add.f32(2,3) 5=constant.f32[0] "
                        "6=max.f32(4,5) 7=constant.f32[6] 8=min.f32(6,7) 9=mul.f32(2,8) "
                        "10=constant.f32[0.16666667] 11=mul.f32(9,10) 12=cast.f16(11)",
                    *const none = "(2) 2=add.f32(0,1) 3=cast.f16(2)";
  const Depthwise layers[] = {
      {"efficientnet_b0", 1, 128, 32, 112, 3, 1, silu}, {"efficientnet_b0", 1, 128, 96, 112, 3, 2, silu},
      {"efficientnet_b0", 1, 128, 144, 56, 3, 1, silu}, {"efficientnet_b0", 1, 128, 144, 56, 5, 2, silu},
      {"efficientnet_b0", 1, 128, 240, 28, 5, 1, silu}, {"efficientnet_b0", 1, 128, 240, 28, 3, 2, silu},
      {"efficientnet_b0", 2, 128, 480, 14, 3, 1, silu}, {"efficientnet_b0", 1, 128, 480, 14, 5, 1, silu},
      {"efficientnet_b0", 2, 128, 672, 14, 5, 1, silu}, {"efficientnet_b0", 1, 128, 672, 14, 5, 2, silu},
      {"efficientnet_b0", 3, 128, 1152, 7, 5, 1, silu}, {"efficientnet_b0", 1, 128, 1152, 7, 3, 1, silu},
      {"mobilenet_v3", 1, 128, 16, 112, 3, 1, relu},    {"mobilenet_v3", 1, 128, 64, 112, 3, 2, relu},
      {"mobilenet_v3", 1, 128, 72, 56, 3, 1, relu},     {"mobilenet_v3", 1, 128, 72, 56, 5, 2, relu},
      {"mobilenet_v3", 2, 128, 120, 28, 5, 1, relu},    {"mobilenet_v3", 1, 128, 240, 28, 3, 2, hard},
      {"mobilenet_v3", 1, 128, 200, 14, 3, 1, hard},    {"mobilenet_v3", 2, 128, 184, 14, 3, 1, hard},
      {"mobilenet_v3", 1, 128, 480, 14, 3, 1, hard},    {"mobilenet_v3", 1, 128, 672, 14, 3, 1, hard},
      {"mobilenet_v3", 1, 128, 672, 14, 5, 2, hard},    {"mobilenet_v3", 2, 128, 960, 7, 5, 1, hard},
      {"convnext_t", 3, 32, 96, 56, 7, 1, none},        {"convnext_t", 3, 32, 192, 28, 7, 1, none},
      {"convnext_t", 9, 32, 384, 14, 7, 1, none},       {"convnext_t", 3, 32, 768, 7, 7, 1, none},
  };
  const std::string copy = "pointwise(f16[128,1024,32,32]) program=\"(1) 1=neg.f16(0)\"";
  const auto text_of_layer = [](const Depthwise& l) {
    const int pad = l.kernel / 2;
    return concat("conv(f16[", l.batch, ',', l.channels, ',', l.size, ',', l.size, "], f16[", l.channels, ",1,",
                  l.kernel, ',', l.kernel, "]*, f32[", l.channels, ",1,1]*) strides=[", l.stride, ',', l.stride,
                  "] pads=[", pad, ',', pad, ',', pad, ',', pad, "] dilations=[1,1] group=", l.channels, " epilogue=\"",
                  l.epilogue, "\"");
  };
  for (const Depthwise& layer : layers) ASSERT_EQ(parse_cases(text_of_layer(layer)).size(), 1u);
  ASSERT_EQ(parse_cases(copy).size(), 1u);
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  const cuda::Stream stream(gpu);
  testing::Cubins cubins(*compiler, gpu->info().architecture());
  const Bench copying(copy, gpu->info(), "pointwise");
  std::vector<std::unique_ptr<Bench>> benches;
  std::vector<cuda::KernelSource> sources = copying.sources();
  for (const Depthwise& layer : layers) {
    benches.push_back(std::make_unique<Bench>(text_of_layer(layer), gpu->info(), "conv.depthwise_matrix"));
    for (const auto& source : benches.back()->sources()) sources.push_back(source);
  }
  cubins.prepare(sources);
  const double of_copy = bytes_of(copying.problem) / times_of(stream, cubins, copying).at(0).first / 1e6;
  std::printf("a copy: %.0f GB/s\n", of_copy);
  std::map<std::string, double> totals;
  for (size_t l = 0; l < std::size(layers); ++l) {
    const Depthwise& layer = layers[l];
    const double bytes = bytes_of(benches[l]->problem);
    std::printf("%s %d x %d channels of %d, k%d s%d, %.1f MB\n", layer.net, layer.times, layer.channels, layer.size,
                layer.kernel, layer.stride, bytes / 1e6);
    const auto times = times_of(stream, cubins, *benches[l]);
    ASSERT_FALSE(times.empty());
    for (const auto& [ms, way] : times)
      std::printf("  %.4f ms %5.0f GB/s %3.0f %% of a copy: %s\n", ms, bytes / ms / 1e6,
                  100 * bytes / ms / 1e6 / of_copy, way.c_str());
    std::fflush(stdout);
    totals[layer.net] += layer.times * times[0].first;
  }
  for (const auto& [net, ms] : totals) std::printf("%s: %.3f ms\n", net.c_str(), ms);
}

// Of the lines (as in tests/cases) in the file that TEMPER_TIMES_LINES names.
TEST(CudaTimes, DISABLED_OfLines) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  const char* path = std::getenv("TEMPER_TIMES_LINES");
  if (!path) GTEST_SKIP() << "TEMPER_TIMES_LINES names no file";
  const cuda::Stream stream(gpu);
  testing::Cubins cubins(*compiler, gpu->info().architecture());
  for (const KernelCase& line : parse_cases(read_file(path))) {
    const Bench bench(line.text, gpu->info());
    cubins.prepare(bench.sources());
    std::printf("%s:", line.text.c_str());
    measure(stream, cubins, bench, 0, 12);
  }
}

}  // namespace
}  // namespace temper
