// SPDX-License-Identifier: Apache-2.0
// Activations that programs spell out in several steps become one post-op of oneDNN's, and look-alikes do not.
#include <gtest/gtest.h>

#include "backends/cpu/onednn.h"

namespace temper {
namespace {

AbsorbedEpilogue absorbed(std::string_view program) {
  const TensorType output = TensorType::parse("f32[1,16,4,4]");
  return absorb_epilogue(Program::parse(program), DType::f32, {}, output, 1, Layout::channels_last, Absorb::all);
}
dnnl::algorithm algorithm_of(const AbsorbedEpilogue& epilogue, float* alpha = nullptr) {
  float scale = 0, first = 0, second = 0;
  dnnl::algorithm algorithm{};
  epilogue.post_ops.get_params_eltwise(0, scale, algorithm, first, second);
  if (alpha) *alpha = first;
  return algorithm;
}

TEST(SpelledOutActivations, AreOnePostOp) {
  const auto is = [](std::string_view program, dnnl::algorithm algorithm, float wanted = 0) {
    const AbsorbedEpilogue epilogue = absorbed(program);
    ASSERT_EQ(epilogue.post_ops.len(), 1) << program;
    EXPECT_TRUE(epilogue.rest.is_identity()) << program;
    float alpha = 0;
    EXPECT_EQ(algorithm_of(epilogue, &alpha), algorithm) << program;
    EXPECT_EQ(alpha, wanted) << program;
  };
  is("(1) 1=constant.f32[6] 2=div.f32(0,1) 3=constant.f32[0.5] 4=add.f32(2,3) 5=relu.f32(4) 6=constant.f32[1] "
     "7=min.f32(5,6) 8=mul.f32(0,7)",
     dnnl::algorithm::eltwise_hardswish);
  is("(1) 1=constant.f32[0.16666667] 2=mul.f32(1,0) 3=constant.f32[0.5] 4=add.f32(3,2) 5=relu.f32(4) 6=constant.f32[1] "
     "7=min.f32(6,5) 8=mul.f32(7,0)",
     dnnl::algorithm::eltwise_hardswish);
  is("(1) 1=constant.f32[3] 2=add.f32(0,1) 3=relu.f32(2) 4=constant.f32[6] 5=min.f32(3,4) 6=mul.f32(0,5) "
     "7=div.f32(6,4)",
     dnnl::algorithm::eltwise_hardswish);
  is("(1) 1=constant.f32[0] 2=less.bool(0,1) 3=constant.f32[0.125] 4=mul.f32(0,3) 5=where.f32(2,4,0)",
     dnnl::algorithm::eltwise_relu, 0.125f);
  is("(1) 1=constant.f32[0.5] 2=mul.f32(0,1) 3=constant.f32[0.7071068] 4=mul.f32(0,3) 5=erf.f32(4) 6=constant.f32[1] "
     "7=add.f32(5,6) 8=mul.f32(2,7)",
     dnnl::algorithm::eltwise_gelu_erf);
  is("(1) 1=constant.f32[1.4142135] 2=div.f32(0,1) 3=erf.f32(2) 4=constant.f32[1] 5=add.f32(3,4) 6=mul.f32(0,5) "
     "7=constant.f32[0.5] 8=mul.f32(6,7)",
     dnnl::algorithm::eltwise_gelu_erf);
}

TEST(SpelledOutActivations, WithOtherNumbersOrOperandsStayPrograms) {
  for (std::string_view program :
       {// clip(x + 2, 0, 6)
        "(1) 1=constant.f32[2] 2=add.f32(0,1) 3=relu.f32(2) 4=constant.f32[6] 5=min.f32(3,4) 6=mul.f32(0,5) "
        "7=div.f32(6,4)",
        // 6 / x
        "(1) 1=constant.f32[6] 2=div.f32(1,0) 3=constant.f32[0.5] 4=add.f32(2,3) 5=relu.f32(4) 6=constant.f32[1] "
        "7=min.f32(5,6) 8=mul.f32(0,7)",
        // x < 1
        "(1) 1=constant.f32[1] 2=less.bool(0,1) 3=constant.f32[0.125] 4=mul.f32(0,3) 5=where.f32(2,4,0)",
        // 0 < x
        "(1) 1=constant.f32[0] 2=less.bool(1,0) 3=constant.f32[0.125] 4=mul.f32(0,3) 5=where.f32(2,4,0)",
        // x < 0 ? x : x * slope
        "(1) 1=constant.f32[0] 2=less.bool(0,1) 3=constant.f32[0.125] 4=mul.f32(0,3) 5=where.f32(2,0,4)",
        // erf(x)
        "(1) 1=constant.f32[0.5] 2=mul.f32(0,1) 3=constant.f32[1] 4=mul.f32(0,3) 5=erf.f32(4) 6=add.f32(5,3) "
        "7=mul.f32(2,6)"}) {
    const AbsorbedEpilogue epilogue = absorbed(program);
    EXPECT_FALSE(epilogue.rest.is_identity()) << program;
    for (int i = 0; i < epilogue.post_ops.len(); ++i) {
      float scale = 0, alpha = 0, beta = 0;
      dnnl::algorithm algorithm{};
      epilogue.post_ops.get_params_eltwise(i, scale, algorithm, alpha, beta);
      EXPECT_EQ(algorithm, dnnl::algorithm::eltwise_linear) << program;
    }
  }
}

// What a later step reads must not exist inside of oneDNN alone.
TEST(SpelledOutActivations, WhoseInnerValuesAreReadLaterStayPrograms) {
  const AbsorbedEpilogue epilogue = absorbed(
      "(1) 1=constant.f32[3] 2=add.f32(0,1) 3=relu.f32(2) 4=constant.f32[6] 5=min.f32(3,4) 6=mul.f32(0,5) "
      "7=div.f32(6,4) "
      "8=add.f32(7,5)");
  EXPECT_EQ(epilogue.post_ops.len(), 0);
  EXPECT_FALSE(epilogue.rest.is_identity());
}

}  // namespace
}  // namespace temper
