// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "graph/graph.h"
#include "graph/ops/concat.h"
#include "graph/ops/gather.h"
#include "graph/ops/nonzero.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reshape.h"
#include "graph/ops/roi_align.h"
#include "graph/ops/shape.h"
#include "graph/ops/slice.h"
#include "graph/ops/transpose.h"

namespace temper {
namespace {

// Builds nodes on one input x: f32[N,3,H,W] and asks what is known of the result's elements.
struct Chain {
  Graph graph;
  ValueId x = graph.add_input("x", TensorType::parse("f32[N,3,H,W]"));

  ValueId ints(const std::vector<int64_t>& values) {
    return graph.add_constant("c", Tensor::of<int64_t>({int64_t(values.size())}, values));
  }
  ValueId scalar(int64_t value) { return graph.add_constant("s", Tensor::of<int64_t>({}, {value})); }
  ValueId shape() {
    ops::ShapeOf op;
    op.end = 4;
    return graph.add_single(op, {x}, "shape");
  }
  ValueId add(Op op, std::vector<ValueId> inputs) { return graph.add_single(std::move(op), std::move(inputs), "n"); }
  ValueId pointwise(Scalar op, std::vector<ValueId> inputs) {
    const bool to_bool = op >= Scalar::equal && op <= Scalar::is_inf;
    Step step{op, to_bool ? DType::boolean : DType::i64};
    for (size_t i = 0; i < inputs.size(); ++i) step.args[i] = int(i);
    ops::Pointwise node;
    node.program.inputs = int(inputs.size());
    node.program.push(step);
    return add(node, inputs);
  }
  std::string known(ValueId id) const {
    const auto& contents = graph.value(id).contents;
    return contents ? concat(*contents) : "unknown";
  }
};

TEST(Contents, ShapeSliceConcatKeepsSymbols) {
  Chain c;
  const ValueId spatial = c.add(ops::Slice{}, {c.shape(), c.ints({2}), c.ints({4})});
  EXPECT_EQ(c.known(spatial), "[H,W]");
  const ValueId twice = c.pointwise(Scalar::mul, {spatial, c.ints({2, 2})});
  const ValueId first = c.add(ops::Slice{}, {c.shape(), c.ints({0}), c.ints({2})});
  EXPECT_EQ(c.known(c.add(ops::Concat{}, {first, twice})), "[N,3,2*H,2*W]");
}

TEST(Contents, GatherByScalarAndNegativeIndexKeepsSymbols) {
  Chain c;
  EXPECT_EQ(c.known(c.add(ops::Gather{}, {c.shape(), c.scalar(-1)})), "[W]");
  EXPECT_EQ(c.known(c.add(ops::Gather{}, {c.shape(), c.ints({3, 0})})), "[W,N]");
}

TEST(Contents, ReversedSliceKeepsSymbols) {
  Chain c;
  const ValueId reversed = c.add(ops::Slice{}, {c.shape(), c.ints({-1}), c.ints({INT64_MIN}), {}, c.ints({-1})});
  EXPECT_EQ(c.known(reversed), "[W,H,3,N]");
}

TEST(Contents, TransposeOfAMatrixMovesSymbols) {
  Chain c;
  ops::Reshape square;
  square.shape = {Dim(2), Dim(2)};
  ops::Transpose swap;
  swap.perm = {1, 0};
  EXPECT_EQ(c.known(c.add(swap, {c.add(square, {c.shape()})})), "[N,H,3,W]");
}

TEST(Contents, WhereOnAComparisonWithMinusOnePicksTheSymbol) {
  // Expand's exports write: where(shape == -1, ones, shape).
  Chain c;
  const ValueId is_free = c.pointwise(Scalar::equal, {c.shape(), c.ints({-1})});
  EXPECT_EQ(c.known(is_free), "[0,0,0,0]");
  EXPECT_EQ(c.known(c.pointwise(Scalar::where, {is_free, c.ints({1, 1, 1, 1}), c.shape()})), "[N,3,H,W]");
}

TEST(Contents, AComparisonThatDependsOnTheSymbolIsUnknown) {
  Chain c;
  EXPECT_EQ(c.known(c.pointwise(Scalar::equal, {c.shape(), c.ints({3})})), "unknown");
}

TEST(Contents, A32BitResultThatDoesNotFitIsUnknown) {
  Graph graph;
  const ValueId big = graph.add_constant("c", Tensor::of<int32_t>({1}, {1 << 30}));
  const ValueId x = graph.add_input("x", TensorType::parse("f32[N]"));
  ops::ShapeOf shape;
  shape.end = 1;
  ops::Pointwise narrow, times;
  narrow.program.push({Scalar::cast, DType::i32, {0, -1, -1}});
  const ValueId n = graph.add_single(narrow, {graph.add_single(shape, {x}, "n")}, "n");
  times.program.inputs = 2;
  times.program.push({Scalar::mul, DType::i32, {0, 1, -1}});
  EXPECT_TRUE(graph.value(graph.add_single(times, {n, big}, "m")).contents);  // 2^30 * N is taken for a size
  const ValueId wrapped = graph.add_single(times, {big, big}, "m");
  ASSERT_TRUE(graph.value(wrapped).contents);
  EXPECT_EQ(concat(*graph.value(wrapped).contents), "[0]");  // numbers alone wrap as the reference does
}

TEST(Contents, AChainOfSizesThatDoublesIsRefusedBeforeItExplodes) {
  Chain c;
  ValueId value = c.shape();
  EXPECT_THROW(for (int i = 0; i < 200; ++i) value = c.pointwise(Scalar::mul, {value, value}), Error);
}

TEST(Absorb, AReshapeTakesItsTargetAsAFieldOnceItIsKnown) {
  Chain c;
  const ValueId flat = c.add(ops::Reshape{}, {c.x, c.ints({0, -1})});
  EXPECT_EQ(c.graph.type(flat).text(), "f32[N,3*H*W]");
  EXPECT_EQ(c.graph.producer(flat)->inputs.size(), 1u);
}

TEST(Absorb, ATargetThatIsDataStaysAnInputAndRunsByItsValue) {
  Graph graph;
  const ValueId x = graph.add_input("x", TensorType::parse("f32[6]")),
                target = graph.add_input("t", TensorType::parse("i64[2]"));
  const ValueId y = graph.add_single(ops::Reshape{}, {x, target}, "y");
  EXPECT_EQ(graph.type(y).text(), "f32[$y.0.0,$y.0.1]");
  graph.add_output("y", y);
  const auto out = run_reference(graph, {Tensor(DType::f32, {6}), Tensor::of<int64_t>({2}, {3, -1})});
  EXPECT_EQ(out[0].dims(), (Dims{3, 2}));
  EXPECT_EQ(print(parse_graph(print(graph))), print(graph));
}

TEST(Absorb, ADimensionThatDataDecidedIsKnownToTheNodesAfterIt) {
  // nonzero -> shape -> reshape: the reshape's field holds the unknown symbol.
  Graph graph;
  const ValueId x = graph.add_input("x", TensorType::parse("f32[4]"));
  const ValueId found = graph.add_single(ops::NonZero{}, {x}, "found");
  ops::Reshape flat;
  flat.shape = {graph.type(found).shape[1]};
  graph.add_output("y", graph.add_single(flat, {found}, "flat"));
  const auto out = run_reference(graph, {Tensor::of<float>({4}, {0, 1, 0, 2})});
  EXPECT_EQ(out[0].to_ints(), (std::vector<int64_t>{1, 3}));
}

TEST(Absorb, TwoNodesOfOneNameMakeDifferentUnknownDimensions) {
  Graph graph;
  const ValueId x = graph.add_input("x", TensorType::parse("f32[4]"));
  const ValueId a = graph.add_single(ops::NonZero{}, {x}, "n/1"), b = graph.add_single(ops::NonZero{}, {x}, "n_1");
  EXPECT_NE(graph.type(a), graph.type(b));
}

TEST(Specialize, MakesDataDependentOpsStaticWhereTheDataAreShapes) {
  Chain c;
  // Whether H-4 counts from the front depends on H: the slice stays open until H is known.
  const ValueId height = c.add(ops::Slice{}, {c.shape(), c.ints({2}), c.ints({3})});
  const ValueId end = c.pointwise(Scalar::sub, {height, c.ints({4})});
  const ValueId y = c.add(ops::Slice{}, {c.x, c.ints({0}), end, c.ints({2})});
  EXPECT_FALSE(c.graph.type(y).is_concrete());
  c.graph.add_output("y", y);
  const Graph concrete = specialize(c.graph, {{"N", 1}, {"H", 10}, {"W", 5}});
  EXPECT_EQ(concrete.type(concrete.outputs()[0].value).text(), "f32[1,3,6,5]");
  EXPECT_EQ(concrete.producer(concrete.outputs()[0].value)->inputs.size(), 1u);
  const Graph small = specialize(c.graph, {{"N", 1}, {"H", 3}, {"W", 5}});  // -1: all but the last
  EXPECT_EQ(small.type(small.outputs()[0].value).text(), "f32[1,3,2,5]");
}

TEST(Folding, ANodeOfConstantsThatCostsMoreThanItsTensorsIsLeftToThePasses) {
  Graph graph;
  const ValueId x = graph.add_constant("x", Tensor(DType::f32, {1, 1, 2, 2}));
  const ValueId rois = graph.add_constant("rois", Tensor::of<float>({1, 4}, {0, 0, 1, 1}));
  const ValueId batch = graph.add_constant("batch", Tensor(DType::i64, {1}));
  const auto is_folded = [&](int64_t samples) {
    ops::RoiAlign op;
    op.sampling_ratio = samples;
    return graph.constant(graph.add_folded(op, {x, rois, batch}, "y").at(0)) != nullptr;
  };
  EXPECT_TRUE(is_folded(2));
  EXPECT_FALSE(is_folded(1 << 16));
  EXPECT_FALSE(is_folded(0));  // as many as the regions are large
}

}  // namespace
}  // namespace temper
