// SPDX-License-Identifier: Apache-2.0
// What becomes a product only before a precision is made has a name that says what stays in f32.
#include "optimize/precision.h"

#include <gtest/gtest.h>

#include "graph/ops/conv.h"
#include "graph/product.h"
#include "quantize/overflow.h"

namespace temper {
namespace {

// A convolution, then a transposed one of 3 by 3, which is four convolutions of phases.
Graph upsampling(const std::string& weight = "1") {
  return parse_graph(concat(
      "graph \"up\"\ninput %x: f32[1,1,4,4]\nconst %w: f32[1,1,1,1] = [2]\nconst %v: f32[1,1,3,3] = [", weight,
      ",1,1,1,1,1,1,1,1]\n%a: f32[1,1,4,4] = conv(%x, %w) strides=[1,1] dilations=[1,1] pads=[0,0,0,0] @\"first\"\n"
      "%b: f32[1,1,7,7] = conv_transpose(%a, %v) strides=[2,2] dilations=[1,1] pads=[1,1,1,1] output_padding=[0,0] "
      "@\"up\"\noutput \"b\" = %b\n"));
}
Graph recurrent(const std::string& weight = "1") {
  return parse_graph(
      concat("graph \"net\"\ninput %x: f32[3,1,2]\nconst %w: f32[1,1,2] = [", weight,
             ",1]\nconst %r: f32[1,1,1] = [1]\n"
             "%y: f32[3,1,1,1], %h: f32[1,1,1] = recurrent(%x, %w, %r) kind=rnn f=tanh @\"net\"\noutput \"y\" = %y\n"));
}

// The names of the products that multiply in `dtype`, each once.
std::set<std::string> products_in(DType dtype, const Graph& graph, const KeptNodes& keep) {
  std::set<std::string> names;
  const Graph made = in_precision(graph, "bf16", {}, {.keep_nodes = keep}, "cpu", {});
  for (int32_t n = 0; n < made.node_count(); ++n)
    if (const Node& node = made.node({n}); is_product(node.op) && made.type(node.inputs[0]).dtype == dtype)
      names.insert(node.name);
  return names;
}
using NameSet = std::set<std::string>;

TEST(Precision, PhasesOfATransposedConvolutionHaveItsName) {
  EXPECT_EQ(products_in(DType::bf16, upsampling(), {}), (NameSet{"first", "up"}));
  EXPECT_EQ(products_in(DType::bf16, upsampling(), {{"up", DType::f32}}), NameSet{"first"});
  EXPECT_EQ(products_in(DType::f32, upsampling(), {{"up", DType::f32}}), NameSet{"up"});
}

TEST(Precision, TheProductOfARecurrentNetIsKeptByItsOwnName) {
  EXPECT_EQ(products_in(DType::bf16, recurrent(), {}), NameSet{"net.inputs"});
  EXPECT_EQ(products_in(DType::f32, recurrent(), {{"net.inputs", DType::f32}}), NameSet{"net.inputs"});
  EXPECT_THROW(products_in(DType::f32, recurrent(), {{"net", DType::f32}}), Error);
}

TEST(Precision, AProductThatIsKeptMultipliesInF32BesideOthersInTf32) {
  const auto in_tf32 = [](const KeptNodes& keep) {
    NameSet names;
    const Graph made = in_precision(upsampling(), "tf32", {}, {.keep_nodes = keep}, "cpu", {});
    for (int32_t n = 0; n < made.node_count(); ++n)
      if (const auto* conv = made.node({n}).op.get_if<ops::Conv>(); conv && conv->tf32)
        names.insert(made.node({n}).name);
    return names;
  };
  EXPECT_EQ(in_tf32({}), (NameSet{"first", "up"}));
  EXPECT_EQ(in_tf32({{"up", DType::f32}}), NameSet{"first"});
  EXPECT_THROW(in_tf32({{"down", DType::f32}}), Error);
}

// A model that comes in integers: what its product gives goes through a program to the next one.
TEST(Precision, AroundAProductOfIntegersThatIsKeptValuesStayInF32) {
  const Graph graph = parse_graph(
      "graph \"integers\"\ninput %x: i8[1,1,4]\nconst %w: i8[1,1,1] = [3]\n"
      "%a: f32[1,1,4] = conv(%x, %w) strides=[1] dilations=[1] pads=[0,0] epilogue=\"(1) 1=cast.f32(0)\" @\"first\"\n"
      "%q: i8[1,1,4] = pointwise(%a) program=\"(1) 1=round.f32(0) 2=cast.i8(1)\" @\"rounded\"\n"
      "%b: f32[1,1,4] = conv(%q, %w) strides=[1] dilations=[1] pads=[0,0] epilogue=\"(1) 1=cast.f32(0)\" @\"second\"\n"
      "output \"b\" = %b\n");
  const auto between = [&](const KeptNodes& keep) {
    const Graph made = in_precision(graph, "bf16", {}, {.keep_nodes = keep}, "cpu", {});
    return made.type(made.find("a")).dtype;
  };
  EXPECT_EQ(between({}), DType::bf16);
  EXPECT_EQ(between({{"second", DType::f32}}), DType::bf16);
  EXPECT_EQ(between({{"first", DType::f32}}), DType::f32);
}

TEST(Precision, WeightsThatF16DoesNotHoldAreFoundInBoth) {
  for (const char* weight : {"100000", "1e-6"}) {
    const bool large = weight[0] == '1' && weight[1] == '0';
    EXPECT_EQ(unfit_for_f16(upsampling(weight), {}, "in calibration").products.count("up"), large) << weight;
    EXPECT_EQ(unfit_for_f16(recurrent(weight), {}, "in calibration").products.count("net.inputs"), large) << weight;
  }
}

}  // namespace
}  // namespace temper
