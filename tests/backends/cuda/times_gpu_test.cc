// SPDX-License-Identifier: Apache-2.0
// Times of recipes at sizes of real models, printed beside bytes and operations; off unless asked for
// (--gtest_also_run_disabled_tests).
#include <algorithm>
#include <span>

#include "bench/cases.h"
#include "run_recipe.h"

namespace temper {
namespace {

struct Timed {
  const char* problem;
  double operations;  // multiply and add are two; 0: bytes are what counts
};
const Timed kTimed[] = {
    {"pointwise(f32[64,256,56,56]) program=\"(1) 1=relu.f32(0)\"", 0},
    {"pointwise(f16[64,256,56,56], f16[64,256,56,56]) program=\"(2) 2=add.f16(0,1) 3=relu.f16(2)\"", 0},
    {"pointwise(f16[64,256,56,56], f16[256,1,1]) program=\"(2) 2=add.f16(0,1) 3=sigmoid.f16(2) 4=mul.f16(2,3)\"", 0},
    {"softmax(f16[4096,4096]) axis=1", 0},
    {"softmax(f32[64,12,128,128]) axis=3", 0},
    {"normalize(f16[16384,768]) axes=[1]", 0},
    {"reduce(f16[64,2048,7,7]) kind=mean axes=[2,3]", 0},
    {"reduce(f32[4096,4096]) axes=[0]", 0},
    {"pool(f16[64,64,112,112]) kernel=[3,3] strides=[2,2] dilations=[1,1] pads=[1,1,1,1]", 0},
    {"transpose(f32[64,56,56,64]) perm=[0,3,1,2]", 0},
    {"transpose(f16[64,56,56,64]) perm=[0,3,1,2]", 0},
    {"resize(f16[16,64,56,56]) sizes=[16,64,112,112] kind=linear", 0},
    {"matmul(f16[4096,4096], f16[4096,4096]*) epilogue=\"(1)\"", 2.0 * 4096 * 4096 * 4096},
    {"matmul(f32[2048,2048], f32[2048,2048]*) epilogue=\"(1)\"", 2.0 * 2048 * 2048 * 2048},
    {"matmul(i8[4096,4096], i8[4096,4096]*) epilogue=\"(1)\"", 2.0 * 4096 * 4096 * 4096},
    {"conv(f16[64,64,56,56], f16[64,64,3,3]*, f32[64,1,1]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] "
     "epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2) 4=cast.f16(3)\"",
     2.0 * 64 * 56 * 56 * 64 * 576},
    {"conv(f16[64,256,14,14], f16[256,256,3,3]*, f32[256,1,1]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] "
     "epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2) 4=cast.f16(3)\"",
     2.0 * 64 * 14 * 14 * 256 * 2304},
    {"conv(f16[64,3,224,224], f16[64,3,7,7]*) strides=[2,2] pads=[3,3,3,3] dilations=[1,1] epilogue=\"(1)\"",
     2.0 * 64 * 112 * 112 * 64 * 147},
    {"conv(f32[16,64,56,56], f32[64,64,3,3]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] epilogue=\"(1)\"",
     2.0 * 16 * 56 * 56 * 64 * 576},
    {"conv(f16[64,96,56,56], f16[96,1,3,3]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] group=96 epilogue=\"(1)\"",
     0},
};

// Norms and softmax of transformers, and of tensors that no cache holds, behind a step that only copies, whose speed is
// that of memory.
const Timed kNorms[] = {
    {"pointwise(f16[131072,768]) program=\"(1) 1=neg.f16(0)\"", 0},
    {"fused_normalize(f16[16384,768], f32[768]*, f32[768]*) prologue=\"(1)\" axes=[1] epilogue=\"(3) 3=mul.f32(0,1) "
     "4=add.f32(3,2) 5=cast.f16(4)\"",
     0},
    {"fused_normalize(f16[131072,768], f32[768]*, f32[768]*) prologue=\"(1)\" axes=[1] epilogue=\"(3) 3=mul.f32(0,1) "
     "4=add.f32(3,2) 5=cast.f16(4)\"",
     0},
    {"fused_normalize(f16[131072,768], f16[131072,768], f32[768]*, f32[768]*) prologue=\"(2) 2=cast.f32(0) "
     "3=cast.f32(1) 4=add.f32(2,3) 5=cast.f16(4)\" axes=[1] epilogue=\"(3) 3=mul.f32(0,1) 4=add.f32(3,2) "
     "5=cast.f16(4)\" gives_input=true",
     0},
    {"softmax(f16[196608,128]) axis=1", 0},
    {"softmax(f16[32768,4096]) axis=1", 0},
};

// GroupNorm with SiLU behind it, of the networks of Stable Diffusion, each behind a step that only copies as much:
// small ones stay in L2, whose speed is another.
#define GROUP_NORM(SHAPE, CHANNELS)                                                                    \
  {"pointwise(f16[" SHAPE "]) program=\"(1) 1=neg.f16(0)\"", 0},                                       \
      {"fused_normalize(f16[" SHAPE "], f32[" CHANNELS ",1,1]*, f32[" CHANNELS                         \
       ",1,1]*) prologue=\"(1)\" axes=[1,2,3] groups=32 epilogue=\"(3) 3=mul.f32(0,1) 4=add.f32(3,2) " \
       "5=sigmoid.f32(4) 6=mul.f32(4,5) 7=cast.f16(6)\"",                                              \
       0}
const Timed kGroupNorms[] = {
    GROUP_NORM("1,320,64,64", "320"),   GROUP_NORM("2,320,64,64", "320"),   GROUP_NORM("8,320,64,64", "320"),
    GROUP_NORM("2,640,32,32", "640"),   GROUP_NORM("8,640,32,32", "640"),   GROUP_NORM("2,1280,16,16", "1280"),
    GROUP_NORM("8,1280,16,16", "1280"), GROUP_NORM("2,1280,8,8", "1280"),   GROUP_NORM("8,1280,8,8", "1280"),
    GROUP_NORM("1,512,64,64", "512"),   GROUP_NORM("8,512,64,64", "512"),   GROUP_NORM("1,512,128,128", "512"),
    GROUP_NORM("1,256,256,256", "256"), GROUP_NORM("1,128,512,512", "128"),
};
#undef GROUP_NORM

void print_times(std::span<const Timed> all) {
  for (const Timed& timed : all) ASSERT_EQ(parse_cases(timed.problem).size(), 1u);
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  const cuda::Stream stream(gpu);
  const cuda::GpuProperties properties(gpu->info());
  for (const Timed& timed : all) {
    const KernelCase line = parse_cases(timed.problem).at(0);
    const std::vector<Tensor> inputs = make_case_inputs(line, 1);
    const Problem problem = make_case_problem(line, inputs, 1);
    double bytes = 0;
    for (const Port& port : problem.inputs) bytes += double(byte_count(port.type.dtype, port.dims()));
    for (const Port& port : problem.outputs) bytes += double(byte_count(port.type.dtype, port.dims()));
    std::printf("%s\n", timed.problem);
    std::fflush(stdout);
    for (const cuda::Recipe* recipe : cuda::recipes()) {
      if (!recipe_supports(*recipe, problem, gpu->info().architecture()).yes()) continue;
      for (const Config& config : recipe->configs(problem, properties)) {
        const cuda::Recipe::Work work = recipe->work(problem, config, properties);
        testing::Cubins cubins(*compiler, gpu->info().architecture());
        std::vector<cuda::KernelSource> sources;
        for (const cuda::Job& job : work.jobs) sources.push_back(job.source);
        cubins.prepare(sources);
        const testing::Prepared prepared(stream, cubins, problem, config, work, inputs);
        prepared.launch();
        stream.synchronize();
        stream.begin_graph();
        for (int i = 0; i < 10; ++i) prepared.launch();
        const cuda::Graph graph = stream.end_graph();
        const cuda::Event start(gpu), stop(gpu);
        std::vector<double> times;
        for (int i = 0; i < 8; ++i) {
          stream.record(start);
          stream.launch(graph);
          stream.record(stop);
          stop.wait();
          times.push_back(stop.milliseconds_since(start) / 10);
        }
        std::sort(times.begin(), times.end());
        const double ms = times[times.size() / 2];
        std::printf("  %-18s %-14s %-14s %8.3f ms %7.0f GB/s %7.1f TFLOP/s, %d registers\n", recipe->name.data(),
                    config.text.c_str(), std::string(name_of(config.outputs[0])).c_str(), ms, bytes / ms / 1e6,
                    timed.operations / ms / 1e9,
                    work.jobs.empty() ? 0 : cubins.of(work.jobs[0].source).kernels.at(0).registers);
        std::fflush(stdout);
        EXPECT_GT(ms, 0);
      }
    }
  }
}

TEST(CudaTimes, DISABLED_OfRecipes) { print_times(kTimed); }

TEST(CudaTimes, DISABLED_OfNorms) { print_times(kNorms); }

TEST(CudaTimes, DISABLED_OfGroupNorms) { print_times(kGroupNorms); }

}  // namespace
}  // namespace temper
