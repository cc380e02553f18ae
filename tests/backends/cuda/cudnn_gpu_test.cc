// SPDX-License-Identifier: Apache-2.0
// cuDNN's tactics on every line of tests/cases/conv.cases, also in f16 and bf16, against the reference.
#include "../../paths.h"
#include "../case_files.h"
#include "backends/cuda/support/cudnn.h"
#include "base/file.h"
#include "bench/cases.h"
#include "graph/ops/conv.h"
#include "tactic_cases.h"

namespace temper {

extern const Tactic cuda_conv_cudnn;

namespace {

#define NEEDS_CUDNN_AND_GPU(machine) \
  TEMPER_NEEDS_MACHINE(machine);     \
  if (!machine->why_no_cudnn().empty()) GTEST_SKIP() << machine->why_no_cudnn()

using testing::largest;
using testing::lowered;

class CudnnCases : public ::testing::TestWithParam<DType> {};

TEST_P(CudnnCases, AgreeWithTheReference) {
  NEEDS_CUDNN_AND_GPU(machine);
  const Device device = testing::cuda_device(machine);
  const std::string file = read_file(concat(paths::source_folder(), "/tests/cases/conv.cases"));
  // The reference rounds the sum to f16 first.
  const double of_largest = GetParam() == DType::f16 ? 1e-3 : 0;
  testing::Counts counts;
  for (const KernelCase& original : parse_cases(file))
    if (original.op.is<ops::Conv>() && original.inputs[0].type.dtype == DType::f32)
      testing::expect_agreement(cuda_conv_cudnn, device, original, lowered(original, GetParam()), of_largest, counts);
  testing::expect_runs(counts, GetParam());
}

INSTANTIATE_TEST_SUITE_P(DTypes, CudnnCases, ::testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& each) { return std::string(name_of(each.param)); });

// A convolution of f32 is not rounded to TF32's 11 bits: products of numbers with 16 bits come out right.
TEST(CudnnGpu, IsStrictInF32) {
  NEEDS_CUDNN_AND_GPU(machine);
  const Device device = testing::cuda_device(machine);
  const KernelCase line = parse_cases(
                              "conv(f32[1,32,14,14], f32[32,32,3,3]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] "
                              "epilogue=\"(1)\"")
                              .at(0);
  std::vector<Tensor> inputs = make_case_inputs(line, 7);
  for (Tensor& tensor : inputs) {
    float* values = reinterpret_cast<float*>(tensor.raw_mutable());
    for (int64_t i = 0; i < tensor.count(); ++i) values[i] += float((i * 7919) % 65521) / 65536;
  }
  const Problem problem = make_case_problem(line, inputs, 1);
  const auto want = reference(line.op, inputs, std::vector<TensorType>{problem.outputs[0].type});
  for (const Config& config : cuda_conv_cudnn.configs(problem, device)) {
    const auto got = testing::run_cuda_tactic(cuda_conv_cudnn, problem, config, inputs, device);
    EXPECT_EQ(testing::difference(got[0], want[0], 1e-5, 2e-6 * largest(want[0])), "") << config.text;
  }
}

// One NaN in the input reaches every output that it is summed into, through relu.
TEST(CudnnGpu, PassesNaNOn) {
  NEEDS_CUDNN_AND_GPU(machine);
  const Device device = testing::cuda_device(machine);
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32})
    for (const int channels : {32, 3})
      for (const int kernel : {1, 3}) {
        const int pad = kernel / 2;
        const KernelCase line =
            lowered(parse_cases(concat("conv(f32[1,", channels, ",14,14], f32[32,", channels, ',', kernel, ',', kernel,
                                       "]*, f32[32,1,1]*) strides=[1,1] pads=[", pad, ',', pad, ',', pad, ',', pad,
                                       "] dilations=[1,1] epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2)\""))
                        .at(0),
                    dtype);
        std::vector<Tensor> inputs = make_case_inputs(line, 7);
        const size_t size = size_t(size_of(dtype));
        std::memset(inputs[0].raw_mutable() + 5 * size, 0xff, size);
        const Problem problem = make_case_problem(line, inputs, 1);
        if (!cuda_conv_cudnn.supports(problem, device).yes()) continue;
        for (const Config& config : cuda_conv_cudnn.configs(problem, device)) {
          const auto got = testing::run_cuda_tactic(cuda_conv_cudnn, problem, config, inputs, device);
          int64_t nans = 0;
          for (double value : got[0].to_doubles()) nans += value != value;
          EXPECT_EQ(nans, kernel == 1 ? 32 : 32 * 6) << line.text << ' ' << config.text;
        }
      }
}

// In f32: in 16 bits a GPU may have engines alone that cuDNN compiles, which are no candidates.
TEST(CudnnGpu, RefusesPlansThatWereChanged) {
  NEEDS_CUDNN_AND_GPU(machine);
  const Device device = testing::cuda_device(machine);
  const KernelCase line = parse_cases(
                              "conv(f32[1,32,14,14], f32[32,32,3,3]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] "
                              "epilogue=\"(1)\"")
                              .at(0);
  const std::vector<Tensor> inputs = make_case_inputs(line, 7);
  const Problem problem = make_case_problem(line, inputs, 1);
  const Config config = cuda_conv_cudnn.configs(problem, device).at(0);
  const Packed packed = cuda_conv_cudnn.build(problem, config, device);
  auto load = [&](const Config& changed, std::span<const std::byte> bytes, std::span<const std::byte> code) {
    PackedView view;
    view.bytes = bytes;
    view.code = code;
    cuda_conv_cudnn.load(problem, changed, view, device);
  };
  EXPECT_NO_THROW(load(config, packed.bytes, packed.code));
  EXPECT_THROW(load(config, std::span(packed.bytes).first(packed.bytes.size() - 1), packed.code), Error);
  EXPECT_THROW(load(config, packed.bytes, std::span(packed.code).first(8)), Error);
  AlignedBytes other = packed.code;
  other[0] ^= std::byte(1);
  EXPECT_THROW(load(config, packed.bytes, other), Error);
  other = packed.code;
  other[8] ^= std::byte(1);
  EXPECT_THROW(load(config, packed.bytes, other), Error);
  for (const char* text : {"", "engine 99999", "engine 3 2:1000000", "direct"}) {
    Config changed = config;
    changed.text = text;
    EXPECT_THROW(load(changed, packed.bytes, packed.code), Error) << text;
  }
  Config changed = config;
  changed.inputs[0] = Layout::plain;
  EXPECT_THROW(load(changed, packed.bytes, packed.code), Error);
}

}  // namespace
}  // namespace temper
