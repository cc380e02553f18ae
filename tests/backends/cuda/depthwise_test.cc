// SPDX-License-Identifier: Apache-2.0
// Convolutions of each channel by itself, of random shapes: all configurations of cuda.conv.depthwise and of
// cuda.conv.depthwise_matrix, on the emulator and on a GPU.
#include "../../draw.h"
#include "check_cases.h"
#include "cuda_test_helpers.h"
#include "emulated_gpu.h"

namespace temper {
namespace {

// `halves`: as the matrix units take them.
std::string random_depthwise(uint64_t seed, int count, int64_t most, bool halves) {
  testing::Draw draw{std::mt19937_64(seed)};
  constexpr int64_t kChannels[] = {1, 2, 3, 6, 8, 16, 20, 33, 64, 72, 130}, kEights[] = {1, 2, 3, 5, 8, 9, 11, 18, 23};
  std::string lines;
  for (int i = 0; i < count; ++i) {
    const int64_t channels =
        halves ? 8 * kEights[draw(0, std::ssize(kEights) - 1)] : kChannels[draw(0, std::ssize(kChannels) - 1)];
    const int64_t kernel_h = draw(1, 7), kernel_w = draw(1, 7);
    const int64_t stride_h = draw(1, 2), stride_w = draw(1, 2);
    const int64_t height = draw(kernel_h, kernel_h + most), width = draw(kernel_w, kernel_w + most);
    int64_t pads[4];
    for (int64_t& pad : pads) pad = draw(0, 3);
    const auto out_size = [&](int64_t size, int64_t kernel, int64_t stride, int axis) {
      return (size + pads[axis] + pads[axis + 2] - kernel) / stride + 1;
    };
    const int64_t batch = draw(1, 5);
    const std::string out = concat(batch, ',', channels, ',', out_size(height, kernel_h, stride_h, 0), ',',
                                   out_size(width, kernel_w, stride_w, 1));
    const int64_t kind = halves ? draw(3, 4) : draw(0, 2);
    const char* type = kind == 0 ? "f32" : kind == 1 ? "u8" : kind == 3 ? "bf16" : "f16";
    const bool residual = draw(0, 1), bytes = kind == 1;
    lines += concat("conv(", type, '[', batch, ',', channels, ',', height, ',', width, ']', bytes ? "{0..256}" : "",
                    ", ", bytes ? "i8" : type, '[', channels, ",1,", kernel_h, ',', kernel_w, "]*",
                    bytes ? "{-128..128}" : "", ", f32[1,", channels, ",1,1]*",
                    residual ? concat(", ", type, '[', out, ']') : "", ") strides=[", stride_h, ',', stride_w,
                    "] pads=[", pads[0], ',', pads[1], ',', pads[2], ',', pads[3], "] dilations=[1,1] group=", channels,
                    residual ? " epilogue=\"(3) 3=cast.f32(0) 4=cast.f32(2) 5=add.f32(3,1) 6=add.f32(5,4) 7=cast."
                             : " epilogue=\"(2) 2=cast.f32(0) 3=add.f32(2,1) 4=relu.f32(3) 5=cast.",
                    bytes ? "f32" : type, residual ? "(6)\"\n" : "(4)\"\n");
  }
  return lines;
}

// Where inputs and weights are infinite or no numbers, in channels and pixels beside which others are not.
constexpr const char* kPutLines =
    "conv(f16[2,24,9,11], f16[24,1,3,3]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] group=24 epilogue=\"(1) "
    "1=cast.f16(0)\"\n"
    "conv(f16[5,40,12,17], f16[40,1,3,3]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] group=40 epilogue=\"(1) "
    "1=cast.f16(0)\"\n"
    "conv(bf16[3,16,7,7], bf16[16,1,5,5]*) strides=[2,2] pads=[2,2,2,2] dilations=[1,1] group=16 epilogue=\"(1) "
    "1=cast.bf16(0)\"\n";
constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();

void check_depthwise(const cuda::Compiler& compiler, const cuda::GpuRef& gpu, int count, int64_t most) {
  count = testing::shapes_asked_for().value_or(count);
  testing::check_lines("halves", random_depthwise(1, count, most, true), compiler, gpu, {SIZE_MAX, "conv.depthwise"});
  testing::check_lines("others", random_depthwise(2, count / 2, most, false), compiler, gpu,
                       {SIZE_MAX, "conv.depthwise"});
  testing::check_lines("put", kPutLines, compiler, gpu,
                       {.recipes = "conv.depthwise", .put = {kInfinity, kNaN, -kInfinity}});
}

TEST(EmulatedDepthwise, GivesTheReferencesResultsForRandomShapes) {
  const testing::EmulatedGpu emulated;
  check_depthwise(emulated.compiler(), emulated.gpu(), 4, 12);
}

TEST(CudaDepthwise, GivesTheReferencesResultsForRandomShapes) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  check_depthwise(*compiler, gpu, 60, 60);
}

}  // namespace
}  // namespace temper
