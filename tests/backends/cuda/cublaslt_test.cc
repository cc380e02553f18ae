// SPDX-License-Identifier: Apache-2.0
// What cuBLASLt is asked for, and what is launched behind its products of i8, without a GPU.
#include "../../paths.h"
#include "backends/cuda/matmul/cublaslt_matmul.h"
#include "bench/cases.h"
#include "graph/ops/conv.h"
#include "run_cuda_tactic.h"
#include "scripted_cublaslt.h"

namespace temper {

extern const Tactic cuda_matmul_cublaslt, cuda_matmul_cublaslt_int8, cuda_conv_cublaslt_int8;

namespace {

using cuda::CublasData;
using cuda::CublasLtChoice;
using cuda::CublasLtIntegers;
using cuda::CublasLtMatmul;
using cuda::CublasLtProduct;

CublasLtMatmul ask(const std::string& text, bool narrow_bias = false) {
  const KernelCase line = parse_cases(text).at(0);
  const std::vector<Tensor> inputs = make_case_inputs(line, 1);
  return cuda::cublaslt_matmul(make_case_problem(line, inputs, 1), narrow_bias);
}

TEST(CublasLtMatmul, TakesRowsForItsColumns) {
  const auto matmul = ask("matmul(f16[9,16], f16[16,24]*) epilogue=\"(1) 1=cast.f16(0)\"");
  const auto& p = matmul.product;
  ASSERT_EQ(matmul.reason, "");
  EXPECT_EQ(std::vector<int64_t>({p.m, p.n, p.k, p.batch}), std::vector<int64_t>({24, 9, 16, 1}));
  EXPECT_EQ(std::vector<int64_t>({p.a.ld, p.b.ld, p.d.ld}), std::vector<int64_t>({24, 16, 24}));
  EXPECT_FALSE(p.a.transposed || p.b.transposed);
  EXPECT_EQ(p.type, CublasData::f16);
  EXPECT_EQ(p.result, CublasData::f16);
}

TEST(CublasLtMatmul, TransposesEachOperandByItsStorage) {
  const auto p = ask("matmul(f32[8,5], f32[7,8]) transpose_a=true transpose_b=true epilogue=\"(1)\"").product;
  EXPECT_EQ(std::vector<int64_t>({p.m, p.n, p.k}), std::vector<int64_t>({7, 5, 8}));
  EXPECT_TRUE(p.a.transposed && p.b.transposed);
  EXPECT_EQ(std::vector<int64_t>({p.a.ld, p.b.ld}), std::vector<int64_t>({8, 5}));
}

TEST(CublasLtMatmul, TakesABatchOverOneMatrixAsRows) {
  const auto p = ask("matmul(f32[2,3,5,8], f32[8,4]*) epilogue=\"(1)\"").product;
  EXPECT_EQ(std::vector<int64_t>({p.m, p.n, p.k, p.batch}), std::vector<int64_t>({4, 30, 8, 1}));
}

TEST(CublasLtMatmul, WalksBatchesWithOneStride) {
  auto p = ask("matmul(f32[2,3,5,8], f32[2,3,8,4]) epilogue=\"(1)\"").product;
  EXPECT_EQ(std::vector<int64_t>({p.batch, p.a.batch_stride, p.b.batch_stride, p.d.batch_stride}),
            std::vector<int64_t>({6, 32, 40, 20}));
  p = ask("matmul(f32[5,8], f32[2,8,4]) epilogue=\"(1)\"").product;
  EXPECT_EQ(std::vector<int64_t>({p.batch, p.a.batch_stride, p.b.batch_stride, p.d.batch_stride}),
            std::vector<int64_t>({2, 32, 0, 20}));
  EXPECT_NE(ask("matmul(f32[2,1,5,8], f32[1,3,8,4]) epilogue=\"(1)\"").reason, "");
}

TEST(CublasLtMatmul, TakesScaleBiasResidualAndRelu) {
  const auto matmul =
      ask("matmul(f16[2,8,16], f16[16,24]*, f32[24]*, f16[2,8,24]) epilogue=\"(3) 3=cast.f32(0) 4=constant.f32[0.125] "
          "5=mul.f32(3,4) 6=add.f32(5,1) 7=cast.f32(2) 8=add.f32(7,6) 9=relu.f32(8) 10=cast.f16(9)\"");
  ASSERT_EQ(matmul.reason, "");
  EXPECT_EQ(matmul.product.alpha, 0.125f);
  EXPECT_TRUE(matmul.product.adds_bias && matmul.product.adds_c && matmul.product.relu);
  EXPECT_EQ(matmul.bias, 2);
  EXPECT_EQ(matmul.residual, 3);
  EXPECT_EQ(matmul.product.bias, CublasData::f32);
}

TEST(CublasLtMatmul, NarrowsAConstantBiasWhenAsked) {
  const std::string text =
      "matmul(f16[8,16], f16[16,24]*, f32[24]*) epilogue=\"(2) 2=cast.f32(0) 3=add.f32(2,1) 4=cast.f16(3)\"";
  EXPECT_EQ(ask(text).product.bias, CublasData::f32);
  EXPECT_EQ(ask(text, true).product.bias, CublasData::f16);
  const std::string wide =
      "matmul(f16[1,2048], f16[2048,8]*, f16[8]*) epilogue=\"(2) 2=cast.f32(0) 3=cast.f32(1) "
      "4=add.f32(2,3)\"";
  EXPECT_EQ(ask(wide).product.result, CublasData::f32);
  EXPECT_EQ(ask(wide).product.bias, CublasData::f16);
  EXPECT_EQ(ask(wide, true).product.bias, CublasData::f32);
}

// One row: a constant is the bias, another product's result the residual.
TEST(CublasLtMatmul, TellsBiasAndResidualOfOneRowApart) {
  const auto matmul =
      ask("matmul(f32[1,16], f32[16,24]*, f32[24]*, f32[1,24]) epilogue=\"(3) 3=add.f32(0,2) 4=add.f32(3,1)\"");
  ASSERT_EQ(matmul.reason, "");
  EXPECT_EQ(matmul.bias, 2);
  EXPECT_EQ(matmul.residual, 3);
}

TEST(CublasLtMatmul, RoundsToTf32OnlyWhereAllowed) {
  EXPECT_FALSE(ask("matmul(f32[8,16], f32[16,24]*) epilogue=\"(1)\"").product.tf32);
  EXPECT_TRUE(ask("matmul(f32[8,16], f32[16,24]*) tf32=true epilogue=\"(1)\"").product.tf32);
}

TEST(CublasLtMatmul, SaysWhatItCannotAskFor) {
  const std::pair<const char*, const char*> refusals[] = {
      {"matmul(i8[8,16], i8[16,24]*) epilogue=\"(1)\"", "product of i8"},
      {"matmul(f64[8,16], f64[16,24]*) epilogue=\"(1)\"", "product of f64"},
      {"matmul(f32[0,5], f32[5,7]) epilogue=\"(1)\"", "0 elements"},
      {"matmul(f32[3,0], f32[0,7]) epilogue=\"(1)\"", "a size of 0"},
      {"matmul(f32[8,16], f32[16,24]*) epilogue=\"(1) 1=tanh.f32(0)\"", "tanh"},
      {"matmul(f32[8,16], f32[16,24]*, f32[8,1]) epilogue=\"(2) 2=add.f32(0,1)\"", "neither a bias nor"},
      {"matmul(f32[8,16], f32[16,24]*, f32[]) epilogue=\"(2) 2=add.f32(0,1)\"", "neither a bias nor"},
      {"matmul(f32[8,16], f32[16,24]*, f32[24]) epilogue=\"(2) 2=mul.f32(0,1)\"", "mul"},
      {"matmul(f32[8,16], f32[16,24]*, f32[24]) epilogue=\"(2) 2=relu.f32(0) 3=add.f32(2,1)\"", "add"},
      {"matmul(f32[8,16], f32[16,24]*, f32[24]) epilogue=\"(2) 2=add.f32(0,1) 3=constant.f32[2] 4=mul.f32(2,3)\"",
       "mul"},
      {"matmul(f32[8,16], f32[16,24]*) epilogue=\"(1) 1=relu.f32(0) 2=add.f32(0,1)\"", "add"},
      {"matmul(f32[8,16], f32[16,24]*) epilogue=\"(1) 1=relu.f32(0) 2=cast.f32(0)\"", "uses a value twice"},
      {"matmul(f32[8,16], f32[16,25]*) epilogue=\"(1) 1=relu.f32(0)\"", "NaN"},
      {"matmul(f32[8,16], f32[16,24]*) epilogue=\"(1) 1=cast.bf16(0) 2=cast.f32(1)\"", "rounds to bf16"},
      {"matmul(f16[8,16], f16[16,24]*, f32[8,24]) epilogue=\"(2) 2=cast.f32(0) 3=add.f32(2,1) 4=cast.f16(3)\"",
       "adds f32 to a result of f16"},
      {"matmul(bf16[8,16], bf16[16,24]*) epilogue=\"(1) 1=cast.f16(0)\"", "result of f16"},
  };
  for (const auto& [text, reason] : refusals) {
    const std::string got = ask(text).reason;
    EXPECT_NE(got.find(reason), std::string::npos) << text << "\n" << got;
  }
}

CublasLtIntegers ask_integers(const std::string& text) {
  const KernelCase line = parse_cases(text).at(0);
  const std::vector<Tensor> inputs = make_case_inputs(line, 1);
  return cuda::cublaslt_integers(make_case_problem(line, inputs, 1));
}

TEST(CublasLtIntegers, HaveWhatIsSummedInTheRowsOfBothOperands) {
  for (const char* text : {"matmul(i8[2,9,16], i8[16,24]*) epilogue=\"(1)\"",
                           "matmul(i8[2,9,16], i8[24,16]*) transpose_b=true epilogue=\"(1)\""}) {
    const CublasLtIntegers integers = ask_integers(text);
    const CublasLtProduct& p = integers.product;
    ASSERT_EQ(integers.reason, "");
    EXPECT_EQ(std::vector<int64_t>({p.m, p.n, p.k, p.batch}), std::vector<int64_t>({24, 18, 16, 1}));
    EXPECT_EQ(std::vector<int64_t>({p.a.ld, p.b.ld, p.d.ld}), std::vector<int64_t>({16, 16, 24}));
    EXPECT_TRUE(p.a.transposed && !p.b.transposed);
    EXPECT_TRUE(p.type == CublasData::i8 && p.result == CublasData::i32);
    EXPECT_FALSE(p.adds_c || p.adds_bias || p.relu);
    EXPECT_EQ(integers.packs, std::string(text).find("transpose_b") == std::string::npos);
    EXPECT_EQ(integers.layout, Layout::plain);
  }
}

TEST(CublasLtIntegers, TakeConvolutionsOfOneTapAsProductsOfPixels) {
  const CublasLtIntegers integers = ask_integers(
      "conv(i8[2,16,5,7], i8[24,16,1,1]*, i8[2,24,5,7]) strides=[1,1] pads=[0,0,0,0] dilations=[1,1] "
      "epilogue=\"(2) 2=cast.f32(0) 3=cast.f32(1) 4=add.f32(2,3)\"");
  const CublasLtProduct& p = integers.product;
  ASSERT_EQ(integers.reason, "");
  EXPECT_EQ(std::vector<int64_t>({p.m, p.n, p.k, p.batch}), std::vector<int64_t>({24, 70, 16, 1}));
  EXPECT_EQ(std::vector<int64_t>({p.a.ld, p.b.ld, p.d.ld}), std::vector<int64_t>({16, 16, 24}));
  EXPECT_FALSE(integers.packs);
  EXPECT_EQ(integers.layout, Layout::channels_last);
}

TEST(CublasLtIntegers, SayWhyTheyAreNotMultipliedByIt) {
  const std::pair<const char*, const char*> refusals[] = {
      {"matmul(u8[8,16], i8[16,24]*) epilogue=\"(1)\"", "product of u8 and i8"},
      {"matmul(f16[8,16], f16[16,24]*) epilogue=\"(1)\"", "product of f16 and f16"},
      {"matmul(i8[8,16], i8[16,24]) epilogue=\"(1)\"", "neither transposed nor constant"},
      {"matmul(i8[16,8], i8[16,24]*) transpose_a=true epilogue=\"(1)\"", "first operand that is transposed"},
      {"matmul(i8[8,18], i8[18,24]*) epilogue=\"(1)\"", "24 columns of sums of 18"},
      {"matmul(i8[8,16], i8[16,26]*) epilogue=\"(1)\"", "26 columns of sums of 16"},
      {"matmul(i8[4,131072], i8[4,131072]) transpose_b=true epilogue=\"(1)\"", "i32 may not hold"},
      {"matmul(i8[2,1,4,8], i8[1,3,4,8]) transpose_b=true epilogue=\"(1)\"", "no single stride"},
      {"matmul(i8[0,16], i8[16,24]*) epilogue=\"(1)\"", "0 elements"},
      {"conv(i8[1,16,5,5], i8[8,16,3,3]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] epilogue=\"(1)\"", "one tap"},
      {"conv(i8[1,16,5,5], i8[8,16,1,1]*) strides=[2,2] pads=[0,0,0,0] dilations=[1,1] epilogue=\"(1)\"", "strides"},
      {"conv(i8[1,16,5,5], i8[8,16,1,1]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] epilogue=\"(1)\"", "padding"},
      {"conv(i8[1,16,5,5], i8[8,16,1,1]*) strides=[1,1] pads=[0,0,1,1] dilations=[1,1] epilogue=\"(1)\"", "padding"},
      {"conv(i8[1,16,5,5], i8[8,8,1,1]*) strides=[1,1] pads=[0,0,0,0] dilations=[1,1] group=2 epilogue=\"(1)\"",
       "2 groups"},
      {"conv(u8[1,16,5,5], i8[8,16,1,1]*) strides=[1,1] pads=[0,0,0,0] dilations=[1,1] epilogue=\"(1)\"",
       "product of u8 and i8"},
  };
  for (const auto& [text, reason] : refusals) {
    const std::string got = ask_integers(text).reason;
    EXPECT_NE(got.find(reason), std::string::npos) << text << "\n" << got;
  }
}

// ---- on a scripted GPU, whose kernels are emulated, with a scripted cuBLASLt ----

const Tactic& tactic_of(const Problem& problem) {
  return problem.op.is<ops::Conv>() ? cuda_conv_cublaslt_int8 : cuda_matmul_cublaslt_int8;
}

TEST(EmulatedCublasLtIntegers, GiveTheReferencesBitsWithWhatIsLaunchedBehindThem) {
  const char* const lines =
      "matmul(i8[9,64]{-128..128}, i8[64,24]*{-128..128}) epilogue=\"(1)\"\n"
      "matmul(i8[2,5,64]{-128..128}, i8[64,24]*{-128..128}, f32[24]*{-5000..5000}, i8[2,5,24]{-128..128}) "
      "epilogue=\"(3) 3=cast.f32(0) 4=add.f32(3,1) 5=constant.f32[0.00041] 6=mul.f32(4,5) 7=cast.f32(2) "
      "8=constant.f32[0.61234] 9=fma.f32(7,8,6) 10=relu.f32(9) 11=round.f32(10) 12=cast.i8(11)\"\n"
      "matmul(i8[2,3,7,32]{-128..128}, i8[2,3,12,32]{-128..128}) transpose_b=true epilogue=\"(1) 1=cast.f32(0) "
      "2=constant.f32[0.0012345] 3=mul.f32(1,2) 4=round.f32(3) 5=cast.i8(4)\"\n"
      "matmul(i8[2,3,7,32]{-128..128}, i8[2,3,32,12]*{-128..128}) epilogue=\"(1) 1=constant.i32[3] "
      "2=mul.i32(0,1)\"\n"
      "conv(i8[2,20,5,7]{-128..128}, i8[12,20,1,1]*{-128..128}, f32[12,1,1]*{-5000..5000}, i8[2,12,5,7]{-128..128}) "
      "strides=[1,1] pads=[0,0,0,0] dilations=[1,1] epilogue=\"(3) 3=cast.f32(0) 4=add.f32(3,1) "
      "5=constant.f32[0.00037] 6=mul.f32(4,5) 7=cast.f32(2) 8=constant.f32[0.731] 9=fma.f32(7,8,6) 10=relu.f32(9) "
      "11=round.f32(10) 12=cast.i8(11)\"\n"
      "conv(i8[2,20,5,7]{-128..128}, i8[12,20,1,1]*{-128..128}) strides=[1,1] pads=[0,0,0,0] dilations=[1,1] "
      "epilogue=\"(1)\"\n";
  const testing::EmulatedMachine machine(paths::emulator_folder());
  const Device device = testing::cuda_device(machine.get());
  for (const KernelCase& line : parse_cases(lines)) {
    SCOPED_TRACE(line.text);
    const std::vector<Tensor> inputs = make_case_inputs(line, 1);
    const Problem problem = make_case_problem(line, inputs, 1);
    const Tactic& tactic = tactic_of(problem);
    ASSERT_EQ(tactic.supports(problem, device).reason, "");
    const Tensor want = reference(line.op, inputs, std::vector<TensorType>{problem.outputs[0].type}).at(0);
    const std::vector<Config> configs = tactic.configs(problem, device);
    ASSERT_EQ(configs.size(), 2u);
    EXPECT_EQ(configs[1].text, "algorithm 8 0 0 0 0 0 0 0 0");
    for (const Config& config : configs)
      EXPECT_TRUE(testing::run_cuda_tactic(tactic, problem, config, inputs, device).at(0).same_bits(want))
          << config.text;
  }
}

TEST(CublasLtIntegers, SayThatItHasNoAlgorithm) {
  const testing::EmulatedMachine machine(paths::emulator_folder());
  const Device device = testing::cuda_device(machine.get());
  const KernelCase line = parse_cases("matmul(f16[64,128], f16[128,64]*) epilogue=\"(1)\"").at(0);
  const std::vector<Tensor> inputs = make_case_inputs(line, 1);
  EXPECT_EQ(cuda_matmul_cublaslt.supports(make_case_problem(line, inputs, 1), device).reason,
            "cuBLASLt 130200 has no algorithm for it");
}

TEST(CublasLtIntegers, RefusePlansThatWereChanged) {
  const testing::EmulatedMachine machine(paths::emulator_folder());
  const Device device = testing::cuda_device(machine.get());
  const Tactic& tactic = cuda_matmul_cublaslt_int8;
  const KernelCase line = parse_cases("matmul(i8[64,128], i8[128,64]*) epilogue=\"(1) 1=cast.f32(0)\"").at(0);
  const std::vector<Tensor> inputs = make_case_inputs(line, 7);
  const Problem problem = make_case_problem(line, inputs, 1);
  const Config config = tactic.configs(problem, device).at(1);
  const Packed packed = tactic.build(problem, config, device);
  // What a load of it says; nothing where it loads.
  auto load = [&](const Config& changed, std::span<const std::byte> bytes, std::span<const std::byte> code) {
    PackedView view;
    view.bytes = bytes;
    view.code = code;
    try {
      const auto kernel = tactic.load(problem, changed, view, device);
      EXPECT_EQ(kernel->workspace(), 64 * 64 * 4 + int64_t(testing::ScriptedCublasLt::kWorkspace));
      EXPECT_TRUE(kernel->reads(0) && !kernel->reads(1));
    } catch (const Error& error) { return std::string(error.what()); }
    return std::string();
  };
  EXPECT_EQ(load(config, packed.bytes, packed.code), "");
  EXPECT_NE(load(config, std::span(packed.bytes).first(64), packed.code).find("packed constants have 64 bytes"),
            std::string::npos);
  EXPECT_NE(load(config, packed.bytes, std::span(packed.code).first(8)).find("has 8 bytes"), std::string::npos);
  EXPECT_NE(load(config, packed.bytes, std::span(packed.code).first(packed.code.size() - 16)), "");
  AlignedBytes code = packed.code;
  code[code.size() - 16] ^= std::byte(1);
  EXPECT_NE(load(config, packed.bytes, code).find("here is 130200; build the plan again here"), std::string::npos);
  code = packed.code;
  code[code.size() - 8] ^= std::byte(1);
  EXPECT_NE(load(config, packed.bytes, code).find("a workspace of 4097 bytes is noted"), std::string::npos);
  code = packed.code;
  code[0] ^= std::byte(1);
  EXPECT_NE(load(config, packed.bytes, code).find("compiled kernels of a step are damaged"), std::string::npos);
  Config changed = config;
  changed.text = "algorithm 9 0 0 0 0 0 0 0 0";
  EXPECT_NE(load(changed, packed.bytes, packed.code).find("none of cuBLASLt's algorithms"), std::string::npos);
  changed = config;
  changed.inputs[0] = Layout::channels_last;
  EXPECT_NE(load(changed, packed.bytes, packed.code), "");
}

TEST(CublasLtChoice, ReadsWhatItWrites) {
  CublasLtChoice choice;
  choice.numbers = {66, 604, 35, 3, 2, 1, 0, 7, 65535};
  EXPECT_EQ(choice.text(), "algorithm 66 604 35 3 2 1 0 7 65535");
  EXPECT_EQ(CublasLtChoice::parse(choice.text()), choice);
  choice.numbers[3] = -1;  // as the algorithm likes
  EXPECT_EQ(CublasLtChoice::parse(choice.text()), choice);
}

TEST(CublasLtChoice, RefusesOtherTexts) {
  for (const char* text :
       {"", "algorithm", "algorithm 1 2 3 4 5 6 7 8", "algorithm 1 2 3 4 5 6 7 8 9 10", "algorithm -1 2 3 4 5 6 7 8 9",
        "algorithm 1 2 3 -2 5 6 7 8 9", "algorithm 1 2 3 4 5 6 7 8 65536", "algorithm 1 2 3 4 5 6 7 8  9",
        "algorithm 01 2 3 4 5 6 7 8 9", "algorithm 1 2 3 4 5 6 7 8 9 ", "algorithm 2147483648 2 3 4 5 6 7 8 9",
        "algorithm 99999999999999999999 2 3 4 5 6 7 8 9", "Algorithm 1 2 3 4 5 6 7 8 9",
        "algorithm 1 2 3 4 5 6 7 8 9x"}) {
    try {
      CublasLtChoice::parse(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) { EXPECT_EQ(error.kind(), ErrorKind::bad_file) << text; }
  }
}

}  // namespace
}  // namespace temper
