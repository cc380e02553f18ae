// SPDX-License-Identifier: Apache-2.0
// What cuBLASLt is asked for, without a GPU.
#include <gtest/gtest.h>

#include "backends/cuda/matmul/cublaslt_matmul.h"
#include "bench/cases.h"

namespace temper {
namespace {

using cuda::CublasData;
using cuda::CublasLtChoice;
using cuda::CublasLtMatmul;

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
       {"", "algorithm", "algorithm 1 2 3 4 5 6 7 8", "algorithm 1 2 3 4 5 6 7 8 9 10", "algorithm -1 2 3 4 5 6 7 8 9", "algorithm 1 2 3 -2 5 6 7 8 9",
        "algorithm 1 2 3 4 5 6 7 8 65536", "algorithm 1 2 3 4 5 6 7 8  9", "algorithm 01 2 3 4 5 6 7 8 9",
        "algorithm 1 2 3 4 5 6 7 8 9 ", "algorithm 2147483648 2 3 4 5 6 7 8 9",
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
