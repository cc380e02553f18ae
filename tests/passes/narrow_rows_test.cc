// SPDX-License-Identifier: Apache-2.0
// Normalisation and softmax between products of fp16, where kernels widen what they read: nothing of f32 is stored.
#include <gtest/gtest.h>

#include "graph/ops/fused.h"
#include "passes/pipeline.h"

namespace temper {
namespace {

constexpr std::string_view kLayer = R"text(graph "g"
input %x: f32[n,8,4]
const %w: f32[4,4] = [1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8]
const %g: f32[4] = [1,2,3,4]
%a: f32[n,8,4] = matmul(%x, %w)
%z: f32[n,8,4] = normalize(%a) axes=[2]
%b: f32[n,8,4] = pointwise(%z, %g) program="(2) 2=mul.f32(0,1)"
%s: f32[n,8,4] = matmul(%b, %w)
%p: f32[n,8,4] = softmax(%s) axis=2
%y: f32[n,8,4] = matmul(%p, %w)
output "y" = %y
)text";

std::string lowered(DType dtype, bool narrow_rows) {
  LoweringOptions options;
  options.narrow_rows = narrow_rows;
  Graph graph = std::move(lower_precision(parse_graph(kLayer), dtype, options).graph);
  fuse_neighbours(graph, [](const Graph&, const Op&, const std::vector<ValueId>&) { return true; });
  graph.compact();
  verify(graph);
  std::string out;
  for (int32_t n = 0; n < graph.node_count(); ++n)
    if (const Node& node = graph.node({n});
        node.op.get_if<ops::FusedNormalize>() || node.op.get_if<ops::FusedSoftmax>())
      out += concat(graph.type(node.inputs[0]).dtype, " > ", name_of(node.op), " > ", graph.type(node.outputs[0]).dtype,
                    '\n');
  return out;
}

TEST(LowerPrecision, RowsAreReadInSixteenBitsWhereKernelsWidenThem) {
  EXPECT_EQ(lowered(DType::f16, true), "f16 > fused_normalize > f16\nf16 > fused_softmax > f16\n");
  EXPECT_EQ(lowered(DType::f16, false), "f32 > fused_normalize > f16\nf32 > fused_softmax > f16\n");
}

TEST(LowerPrecision, ExponentsKeepTheDigitsThatBf16Lacks) {
  EXPECT_EQ(lowered(DType::bf16, true), "bf16 > fused_normalize > bf16\nf32 > fused_softmax > bf16\n");
}

}  // namespace
}  // namespace temper
