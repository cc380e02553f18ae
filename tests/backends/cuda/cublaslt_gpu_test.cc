// SPDX-License-Identifier: Apache-2.0
// cuBLASLt's tactics on every line of tests/cases that they take, of floats also in f16 and bf16, and on layers of
// well-known models, against the reference.
#include <algorithm>

#include "../../paths.h"
#include "../case_files.h"
#include "backends/cuda/support/cublaslt.h"
#include "base/file.h"
#include "graph/ops/conv.h"
#include "graph/ops/matmul.h"
#include "tactic_cases.h"
#include "tune/tuner.h"

namespace temper {

extern const Tactic cuda_matmul_cublaslt, cuda_matmul_cublaslt_int8, cuda_conv_cublaslt_int8;

namespace {

using testing::largest;
using testing::lowered;

#define NEEDS_CUBLASLT(machine)  \
  TEMPER_NEEDS_MACHINE(machine); \
  if (!machine->why_no_cublaslt().empty()) GTEST_SKIP() << machine->why_no_cublaslt()

// What models have: attention, a layer with a residual, a classifier.
constexpr const char* kLayers =
    "matmul(f32[4,12,64,64], f32[4,12,64,64]) transpose_b=true epilogue=\"(1) 1=constant.f32[0.125] 2=mul.f32(0,1)\"\n"
    "matmul(f32[4,12,64,64], f32[4,12,64,64]) epilogue=\"(1)\"\n"
    "matmul(f32[2,64,256], f32[256,512]*, f32[512]*) epilogue=\"(2) 2=add.f32(0,1)\"\n"
    "matmul(f32[2,64,256], f32[256,512]*, f32[512]*) epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2)\"\n"
    "matmul(f32[2,64,512], f32[512,256]*, f32[256]*, f32[2,64,256]) epilogue=\"(3) 3=add.f32(0,1) 4=add.f32(3,2)\"\n"
    "matmul(f32[1,2048], f32[2048,1000]*, f32[1000]*) epilogue=\"(2) 2=add.f32(0,1)\"\n"
    "matmul(f32[1,2048], f32[1000,2048]*, f32[1000]*) transpose_b=true epilogue=\"(2) 2=add.f32(0,1)\"\n"
    "matmul(f32[64,512], f32[512,1001]*, f32[1001]*) epilogue=\"(2) 2=add.f32(0,1)\"\n"
    "matmul(f32[64,4096], f32[4096,64]*) epilogue=\"(1)\"\n";

class CublasLtCases : public ::testing::TestWithParam<DType> {};

TEST_P(CublasLtCases, AgreeWithTheReference) {
  NEEDS_CUBLASLT(machine);
  const Device device = testing::cuda_device(machine);
  const std::string file =
      concat(read_file(concat(paths::source_folder(), "/tests/cases/matmul.cases")), "\n", kLayers);
  // Sums of thousands are taken in another order; a bias may be rounded.
  const double of_largest = GetParam() == DType::f32 ? 1e-6 : 1e-3;
  testing::Counts counts;
  for (const KernelCase& original : parse_cases(file)) {
    const DType dtype = original.inputs[0].type.dtype;
    if (!original.op.is<ops::MatMul>() || (dtype != DType::f32 && dtype != GetParam())) continue;
    const KernelCase line = dtype == DType::f32 ? lowered(original, GetParam()) : original;
    testing::expect_agreement(cuda_matmul_cublaslt, device, original, line, of_largest, counts);
  }
  testing::expect_runs(counts, GetParam());
}

INSTANTIATE_TEST_SUITE_P(DTypes, CublasLtCases, ::testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& each) { return std::string(name_of(each.param)); });

// Results of f32 from halves, and a bias of either dtype.
TEST(CublasLtGpu, GivesWideResultsOfNarrowOperands) {
  NEEDS_CUBLASLT(machine);
  const Device device = testing::cuda_device(machine);
  for (const char* dtype : {"f16", "bf16"})
    for (const char* bias : {"f32", dtype})
      for (const bool wide : {true, false}) {
        KernelCase line =
            parse_cases(concat("matmul(", dtype, "[5,128], ", dtype, "[128,64]*, ", bias, "[64]*) epilogue=\"(1)\""))
                .at(0);
        Program& program = *epilogue_of(line.op);
        program.inputs = 2;
        int add = 1;
        if (bias != std::string("f32")) add = program.push({Scalar::cast, DType::f32, {1, -1, -1}});
        int out = program.push({Scalar::add, DType::f32, {0, add, -1}});
        const DType narrow = dtype == std::string("f16") ? DType::f16 : DType::bf16;
        if (!wide) out = program.push({Scalar::cast, narrow, {out, -1, -1}});
        const std::vector<Tensor> inputs = make_case_inputs(line, 3);
        const Problem problem = make_case_problem(line, inputs, 1);
        SCOPED_TRACE(problem.text());
        ASSERT_EQ(cuda_matmul_cublaslt.supports(problem, device).reason, "");
        const auto want = reference(line.op, inputs, std::vector<TensorType>{problem.outputs[0].type});
        for (const Config& config : cuda_matmul_cublaslt.configs(problem, device)) {
          const auto got = testing::run_cuda_tactic(cuda_matmul_cublaslt, problem, config, inputs, device);
          const double size = largest(want[0]);
          EXPECT_EQ(testing::difference(got[0], want[0], narrow == DType::f16 ? 2e-3 : 1e-2, 1e-3 * size), "")
              << config.text;
        }
        std::printf("%s bias %s, %s result: %s\n", dtype, bias, wide ? "f32" : dtype,
                    cuda_matmul_cublaslt.configs(problem, device)[0].text.c_str());
      }
}

// A product of f32 is not rounded to TF32's 11 bits, unless it may be.
TEST(CublasLtGpu, IsStrictInF32) {
  NEEDS_CUBLASLT(machine);
  const Device device = testing::cuda_device(machine);
  for (const bool tf32 : {false, true}) {
    const KernelCase line =
        parse_cases(concat("matmul(f32[128,256], f32[256,128]*) ", tf32 ? "tf32=true " : "", "epilogue=\"(1)\"")).at(0);
    std::vector<Tensor> inputs = make_case_inputs(line, 7);
    for (Tensor& tensor : inputs) {
      float* values = reinterpret_cast<float*>(tensor.raw_mutable());
      for (int64_t i = 0; i < tensor.count(); ++i) values[i] += float((i * 7919) % 65521) / 65536;
    }
    const Problem problem = make_case_problem(line, inputs, 1);
    const auto want = reference(line.op, inputs, std::vector<TensorType>{problem.outputs[0].type});
    int rounded = 0;
    for (const Config& config : cuda_matmul_cublaslt.configs(problem, device)) {
      const auto got = testing::run_cuda_tactic(cuda_matmul_cublaslt, problem, config, inputs, device);
      rounded += !testing::difference(got[0], want[0], 1e-5, 2e-6 * largest(want[0])).empty();
      EXPECT_EQ(testing::difference(got[0], want[0], 1e-3, 1e-3 * largest(want[0])), "") << config.text;
    }
    if (tf32) EXPECT_GT(rounded, 0);
    else EXPECT_EQ(rounded, 0);
  }
}

TEST(CublasLtGpu, PassesNaNOn) {
  NEEDS_CUBLASLT(machine);
  const Device device = testing::cuda_device(machine);
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32})
    for (const char* shape : {"[16,64], f32[64,48]*, f32[48]*", "[1,64], f32[64,48]*, f32[48]*",
                              "[7,72], f32[72,8]*, f32[8]*", "[200,1032], f32[1032,520]*, f32[520]*"}) {
      const KernelCase line = lowered(
          parse_cases(concat("matmul(f32", shape, ") epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2)\"")).at(0), dtype);
      std::vector<Tensor> inputs = make_case_inputs(line, 7);
      const size_t size = size_t(size_of(dtype));
      std::memset(inputs[0].raw_mutable() + 5 * size, 0xff, size);
      const Problem problem = make_case_problem(line, inputs, 1);
      ASSERT_EQ(cuda_matmul_cublaslt.supports(problem, device).reason, "");
      for (const Config& config : cuda_matmul_cublaslt.configs(problem, device)) {
        const auto got = testing::run_cuda_tactic(cuda_matmul_cublaslt, problem, config, inputs, device);
        int64_t nans = 0;
        for (double value : got[0].to_doubles()) nans += value != value;
        EXPECT_EQ(nans, problem.outputs[0].dims().back()) << line.text << ' ' << config.text;
      }
    }
}

// Beside the lines of tests/cases: the largest sums, and layers of well-known models.
constexpr const char* kByteLayers =
    "matmul(i8[36,65536]{-128..-127}, i8[68,65536]*{-128..-127}) transpose_b=true epilogue=\"(1)\"\n"
    "matmul(i8[36,100000]{-128..-127}, i8[100000,20]*{127..128}) epilogue=\"(1)\"\n"
    "matmul(i8[5,7,20]{-128..128}, i8[5,12,20]{-128..128}) transpose_b=true epilogue=\"(1) 1=cast.f32(0)\"\n"
    "matmul(i8[4,12,64,64]{-128..128}, i8[4,12,64,64]{-128..128}) transpose_b=true epilogue=\"(1) 1=cast.f32(0) "
    "2=constant.f32[0.00031] 3=mul.f32(1,2) 4=round.f32(3) 5=cast.i8(4)\"\n"
    "matmul(i8[64,2048]{-128..128}, i8[2048,1000]*{-128..128}, f32[1000]*{-5000..5000}) epilogue=\"(2) 2=cast.f32(0) "
    "3=add.f32(2,1) 4=constant.f32[0.000031] 5=mul.f32(3,4)\"\n"
    "conv(i8[3,256,14,14]{-128..128}, i8[1024,256,1,1]*{-128..128}, f32[1024,1,1]*{-5000..5000}, "
    "i8[3,1024,14,14]{-128..128}) strides=[1,1] pads=[0,0,0,0] dilations=[1,1] epilogue=\"(3) 3=cast.f32(0) "
    "4=add.f32(3,1) 5=constant.f32[0.00037] 6=mul.f32(4,5) 7=cast.f32(2) 8=constant.f32[0.731] 9=fma.f32(7,8,6) "
    "10=relu.f32(9) 11=round.f32(10) 12=cast.i8(11)\"\n"
    "conv(i8[2,20,5,7]{-128..128}, i8[12,20,1,1]*{-128..128}) strides=[1,1] pads=[0,0,0,0] dilations=[1,1] "
    "epilogue=\"(1)\"\n";

TEST(CublasLtGpu, MultipliesBytesToTheReferencesBits) {
  NEEDS_CUBLASLT(machine);
  TEMPER_NEEDS_NVRTC(compiler);
  (void)compiler;
  const Device device = testing::cuda_device(machine);
  std::string text = kByteLayers;
  for (const char* name : {"matmul", "conv"})
    text += read_file(concat(paths::source_folder(), "/tests/cases/", name, ".cases")) + "\n";
  std::map<const Tactic*, int> runs;
  for (const KernelCase& line : parse_cases(text)) {
    const bool conv = line.op.is<ops::Conv>();
    if ((!conv && !line.op.is<ops::MatMul>()) || line.inputs[0].type.dtype != DType::i8) continue;
    const Tactic& tactic = conv ? cuda_conv_cublaslt_int8 : cuda_matmul_cublaslt_int8;
    const std::vector<Tensor> inputs = make_case_inputs(line, uint64_t(line.line));
    const Problem problem = make_case_problem(line, inputs, 1);
    SCOPED_TRACE(line.text);
    if (const Support support = tactic.supports(problem, device); !support.yes()) {
      std::printf("  %d refused: %s\n", line.line, support.reason.c_str());
      continue;
    }
    const Tensor want = reference(line.op, inputs, std::vector<TensorType>{problem.outputs[0].type}).at(0);
    const auto configs = tactic.configs(problem, device);
    EXPECT_FALSE(configs.empty());
    for (const Config& config : configs) {
      SCOPED_TRACE(config.text);
      const Tensor got = testing::run_cuda_tactic(tactic, problem, config, inputs, device).at(0);
      if (is_float(want.dtype())) EXPECT_EQ(testing::difference(got, want, 5e-6, 5e-6), "");
      else EXPECT_TRUE(got.same_bits(want));
      ++runs[&tactic];
    }
  }
  for (const Tactic* tactic : {&cuda_matmul_cublaslt_int8, &cuda_conv_cublaslt_int8}) {
    std::printf("%s: %d runs\n", std::string(tactic->name).c_str(), runs[tactic]);
    EXPECT_GT(runs[tactic], 0);
  }
}

TEST(CublasLtGpu, RefusesPlansOfBytesThatWereChanged) {
  NEEDS_CUBLASLT(machine);
  TEMPER_NEEDS_NVRTC(compiler);
  (void)compiler;
  const Device device = testing::cuda_device(machine);
  const Tactic& tactic = cuda_matmul_cublaslt_int8;
  const KernelCase line = parse_cases("matmul(i8[64,128], i8[128,64]*) epilogue=\"(1) 1=cast.f32(0)\"").at(0);
  const std::vector<Tensor> inputs = make_case_inputs(line, 7);
  const Problem problem = make_case_problem(line, inputs, 1);
  ASSERT_EQ(tactic.supports(problem, device).reason, "");
  const Config config = tactic.configs(problem, device).at(0);
  const Packed packed = tactic.build(problem, config, device);
  auto load = [&](const Config& changed, std::span<const std::byte> bytes, std::span<const std::byte> code) {
    PackedView view;
    view.bytes = bytes;
    view.code = code;
    tactic.load(problem, changed, view, device);
  };
  EXPECT_NO_THROW(load(config, packed.bytes, packed.code));
  EXPECT_THROW(load(config, std::span(packed.bytes).first(64), packed.code), Error);
  for (size_t bytes : {size_t(0), size_t(8), size_t(16), packed.code.size() - 16})
    EXPECT_THROW(load(config, packed.bytes, std::span(packed.code).first(bytes)), Error) << bytes;
  for (size_t from_end : {16, 8}) {  // the version, the workspace
    AlignedBytes other = packed.code;
    other[other.size() - from_end] ^= std::byte(1);
    EXPECT_THROW(load(config, packed.bytes, other), Error);
  }
  Config changed = config;
  changed.text = "algorithm 99999 0 0 0 0 0 0 0 0";
  EXPECT_THROW(load(changed, packed.bytes, packed.code), Error);
  changed = config;
  changed.inputs[0] = Layout::channels_last;
  EXPECT_THROW(load(changed, packed.bytes, packed.code), Error);
}

TEST(CublasLtGpu, RefusesPlansThatWereChanged) {
  NEEDS_CUBLASLT(machine);
  const Device device = testing::cuda_device(machine);
  const KernelCase line = parse_cases("matmul(f16[64,128], f16[128,64]*) epilogue=\"(1)\"").at(0);
  const std::vector<Tensor> inputs = make_case_inputs(line, 7);
  const Problem problem = make_case_problem(line, inputs, 1);
  const Config config = cuda_matmul_cublaslt.configs(problem, device).at(0);
  const Packed packed = cuda_matmul_cublaslt.build(problem, config, device);
  auto load = [&](const Config& changed, std::span<const std::byte> bytes, std::span<const std::byte> code) {
    PackedView view;
    view.bytes = bytes;
    view.code = code;
    cuda_matmul_cublaslt.load(problem, changed, view, device);
  };
  EXPECT_NO_THROW(load(config, packed.bytes, packed.code));
  const std::byte one[1] = {};
  EXPECT_THROW(load(config, one, packed.code), Error);
  EXPECT_THROW(load(config, packed.bytes, std::span(packed.code).first(8)), Error);
  for (size_t at : {0, 8}) {
    AlignedBytes other = packed.code;
    other[at] ^= std::byte(1);
    EXPECT_THROW(load(config, packed.bytes, other), Error);
  }
  const std::string good = config.text;
  for (const std::string& text :
       {std::string(), std::string("algorithm 99999 0 0 0 0 0 0 0 0"), std::string("tile=64x64"),
        std::string("algorithm 66 100000 100000 100000 2 9 100000 60000 60000"), concat(good, " 1"),
        concat("bias of the result's dtype, ", good)}) {
    Config changed = config;
    changed.text = text;
    EXPECT_THROW(load(changed, packed.bytes, packed.code), Error) << text;
  }
  // Only what cuBLASLt proposes itself is accepted.
  for (size_t i = 0; i < 9; ++i) {
    cuda::CublasLtChoice choice = cuda::CublasLtChoice::parse(good);
    choice.numbers[i] += 1;
    Config changed = config;
    changed.text = choice.text();
    const auto configs = cuda_matmul_cublaslt.configs(problem, device);
    if (std::find(configs.begin(), configs.end(), changed) == configs.end()) {
      EXPECT_THROW(load(changed, packed.bytes, packed.code), Error) << changed.text;
    }
  }
}

// Times beside our own kernel's, printed; off unless asked for (--gtest_also_run_disabled_tests).
TEST(CublasLtTimes, DISABLED_OfLayers) {
  NEEDS_CUBLASLT(machine);
  const Device device = testing::cuda_device(machine);
  TimingCache cache;
  Tuner tuner(device, cache);
  const Tactic* own = find_tactic("cuda.matmul.mma");
  std::string text;
  for (int batch : {1, 8, 32, 128, 256})
    text += concat("matmul(f16[", batch,
                   ",2048], f16[2048,1000]*, f16[1000]*) epilogue=\"(2) 2=cast.f32(1) "
                   "3=add.f32(0,2)\"\nmatmul(f16[",
                   batch,
                   ",2048], f16[1000,2048]*, f16[1000]*) "
                   "transpose_b=true epilogue=\"(2) 2=cast.f32(1) 3=add.f32(0,2)\"\n");
  for (int rows : {128, 4096}) {
    text += concat("matmul(f16[", rows,
                   ",768], f16[768,2304]*, f16[2304]*) epilogue=\"(2) 2=cast.f32(1) 3=add.f32(0,2) 4=cast.f16(3)\"\n");
    text += concat("matmul(f16[", rows,
                   ",768], f16[768,3072]*, f16[3072]*) epilogue=\"(2) 2=cast.f32(1) 3=add.f32(0,2) 4=cast.f16(3)\"\n");
    text += concat("matmul(f16[", rows, ",3072], f16[3072,768]*, f16[768]*, f16[", rows,
                   ",768]) epilogue=\"(3) 3=cast.f32(1) 4=add.f32(0,3) 5=cast.f32(2) 6=add.f32(4,5) 7=cast.f16(6)\"\n");
  }
  text +=
      "matmul(f16[32,12,128,64], f16[32,12,128,64]) transpose_b=true epilogue=\"(1) 1=cast.f16(0)\"\n"
      "matmul(f16[32,12,128,128], f16[32,12,128,64]) epilogue=\"(1) 1=cast.f16(0)\"\n";
  for (const KernelCase& line : parse_cases(text)) {
    const std::vector<Tensor> inputs = make_case_inputs(line, 7);
    Problem problem = make_case_problem(line, inputs, 1);
    for (size_t i = 0; i < inputs.size(); ++i)
      problem.inputs[i].constant = problem.inputs[i].is_constant ? &inputs[i] : nullptr;
    std::printf("%s\n ", line.text.c_str());
    for (const Tactic* tactic : {&cuda_matmul_cublaslt, own})
      for (const Config& config : tactic->configs(problem, device))
        std::printf(" %.2f us %s;", tuner.time(problem, *tactic, config, 1).ms * 1e3, config.text.c_str());
    std::printf("\n");
  }
}

TEST(CublasLtTimes, DISABLED_OfLayersOfBytes) {
  NEEDS_CUBLASLT(machine);
  const Device device = testing::cuda_device(machine);
  TimingCache cache;
  Tuner tuner(device, cache);
  const std::string requantize =
      " epilogue=\"(2) 2=cast.f32(0) 3=add.f32(2,1) 4=constant.f32[0.0003] 5=mul.f32(3,4) 6=round.f32(5) "
      "7=cast.i8(6)\"\n";
  std::string text = "matmul(i8[8192,8192], i8[8192,8192]*) transpose_b=true epilogue=\"(1)\"\n";
  for (int rows : {1, 128, 4096}) text += concat("matmul(i8[", rows, ",768], i8[768,3072]*, f32[3072]*)", requantize);
  for (int batch : {1, 32, 256})
    for (const char* shape :
         {"64,56,56], i8[256,64,1,1]*, f32[256,1,1]*)", "1024,14,14], i8[256,1024,1,1]*, f32[256,1,1]*)"})
      text += concat("conv(i8[", batch, ',', shape, " strides=[1,1] pads=[0,0,0,0] dilations=[1,1]", requantize);
  for (const KernelCase& line : parse_cases(text)) {
    const std::vector<Tensor> inputs = make_case_inputs(line, 7);
    Problem problem = make_case_problem(line, inputs, 1);
    for (size_t i = 0; i < inputs.size(); ++i)
      problem.inputs[i].constant = problem.inputs[i].is_constant ? &inputs[i] : nullptr;
    std::printf("%s\n", line.text.c_str());
    for (const char* name : {"cuda.matmul.cublaslt_int8", "cuda.conv.cublaslt_int8", "cuda.matmul.pipeline",
                             "cuda.conv.pipeline", "cuda.matmul.mma", "cuda.conv.gemm"}) {
      const Tactic* tactic = find_tactic(name);
      if (!tactic->supports(problem, device).yes()) continue;
      for (const Config& config : tactic->configs(problem, device))
        std::printf("  %.2f us %s %s\n", tuner.time(problem, *tactic, config, 1).ms * 1e3, name, config.text.c_str());
    }
  }
}

}  // namespace
}  // namespace temper
