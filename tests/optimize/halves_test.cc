// SPDX-License-Identifier: Apache-2.0
// Models that are stored in 16 bits, on CPUs, which multiply none of them or bf16 alone.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/isa.h"
#include "graph/random.h"
#include "optimize/build_engine.h"

namespace temper {
namespace {

// Convolutions, a transposed one, a product and a recurrent net: all that multiplies.
Graph model(const std::string& dtype) {
  std::string text =
      "graph \"g\"\n"
      "input %x: f16[1,4,6,6]\n"
      "const %w: f16[8,4,3,3] = #0\n"
      "const %d: f16[8,1,3,3] = #1\n"
      "const %t: f16[8,2,2,2] = #2\n"
      "const %p: f16[16,5] = #3\n"
      "const %i: f16[1,24,5] = #4\n"
      "const %r: f16[1,24,6] = #5\n"
      "const %s: i64[3] = [2,16,16]\n"
      "%a: f16[1,8,6,6] = conv(%x, %w) strides=[1,1] dilations=[1,1] pads=[1,1,1,1] "
      "epilogue=\"(1) 1=cast.f16(0) 2=relu.f16(1)\"\n"
      "%b: f16[1,8,8,8] = conv(%a, %d) strides=[1,1] dilations=[1,1] pads=[2,2,2,2] group=8 "
      "epilogue=\"(1) 1=cast.f16(0)\"\n"
      "%c: f16[1,2,16,16] = conv_transpose(%b, %t) strides=[2,2] dilations=[1,1] pads=[0,0,0,0] "
      "output_padding=[0,0]\n"
      "%e: f16[2,16,16] = reshape(%c, %s)\n"
      "%f: f16[2,16,5] = matmul(%e, %p) epilogue=\"(1) 1=cast.f16(0)\"\n"
      "%y: f16[2,1,16,6], %h: f16[1,16,6], %l: f16[1,16,6] = recurrent(%f, %i, %r) kind=lstm @\"net\"\n"
      "output \"y\" = %y\n"
      "output \"l\" = %l\n";
  for (size_t at = 0; (at = text.find("f16", at)) != std::string::npos; at += dtype.size()) text.replace(at, 3, dtype);
  const auto type = dtype_from_name(dtype).value();
  std::vector<Tensor> constants;
  for (const Dims& dims : {Dims{8, 4, 3, 3}, {8, 1, 3, 3}, {8, 2, 2, 2}, {16, 5}, {1, 24, 5}, {1, 24, 6}})
    constants.push_back(random_tensor(DType::f32, dims, uint32_t(constants.size())).converted(type));
  return parse_graph(text, constants);
}

struct Halves : ::testing::Test {
  void TearDown() override { set_isa(best_isa()); }
};

TEST_F(Halves, OfAModelAreMultipliedInF32WhereTheCpuDoesNot) {
  for (const char* dtype : {"f16", "bf16"}) {
    const Graph graph = model(dtype);
    for (const Isa isa : {best_isa(), Isa::base}) {
      set_isa(isa);
      BuildOptions options;
      options.measure = false;
      const auto engine = build_engine(graph, {}, options);
      for (const Segment& segment : engine->plans().at(0)->segments)
        for (const PlanStep& step : segment.steps) EXPECT_NE(step.tactic, "reference") << dtype << ' ' << step.node;
      const Tensor x = random_tensor(DType::f32, {1, 4, 6, 6}, 7).converted(dtype_from_name(dtype).value());
      const std::vector<Tensor> want = run_reference(graph, {x}), got = Session(engine).run({x});
      ASSERT_EQ(got.size(), 2u);
      const double step = std::string(dtype) == "f16" ? 1e-3 : 8e-3;
      for (size_t o = 0; o < 2; ++o) {
        ASSERT_EQ(got[o].dtype(), want[o].dtype());
        const std::vector<double> is = got[o].to_doubles(), should = want[o].to_doubles();
        for (size_t i = 0; i < is.size(); ++i) ASSERT_NEAR(is[i], should[i], 8 * step) << dtype << ' ' << o << ' ' << i;
      }
    }
  }
}

}  // namespace
}  // namespace temper
