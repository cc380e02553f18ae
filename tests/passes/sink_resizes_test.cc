// SPDX-License-Identifier: Apache-2.0
// Convolutions over joined channels of which some were enlarged give the same numbers where those are multiplied
// before; the graphs are in sink_resizes.test.
#include "passes/sink_resizes.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "graph/ops/concat.h"
#include "graph/ops/conv.h"
#include "graph/ops/resize.h"

namespace temper {
namespace {

// Integers so small, and weights of resizing that are such small fractions, that all sums are exact in any order.
class RandomHead {
 public:
  explicit RandomHead(uint32_t seed) : random_(seed) {}

  Graph make() {
    const size_t spatial = 1 + below(2);
    Dims large{1 + int64_t(below(2)), 0};
    for (size_t i = 0; i < spatial; ++i) large.push_back(4 * int64_t(1 + below(3)));
    Graph graph;
    std::vector<ValueId> parts;
    int64_t channels = 0;
    const size_t count = 1 + below(4);
    for (size_t i = 0; i < count; ++i) {
      const int64_t factor = std::array{1, 2, 4}[below(3)];
      const auto kinds = std::array{ops::ResizeKind::nearest, ops::ResizeKind::linear, ops::ResizeKind::cubic};
      Dims dims = large;
      dims[1] = int64_t(1 + below(4));
      channels += dims[1];
      ops::Resize op;
      op.kind = kinds[below(factor == 2 ? 3 : 2)];
      op.cubic_a = -0.5;
      op.coordinate = std::array{ops::ResizeCoordinate::half_pixel, ops::ResizeCoordinate::asymmetric}[below(2)];
      for (const int64_t size : dims) op.sizes.push_back(size);
      for (size_t axis = 2; axis < dims.size(); ++axis) dims[axis] /= factor;
      if (below(2)) {
        op.scales.assign(dims.size(), double(factor));
        op.scales[0] = op.scales[1] = 1;
      }
      feed_.push_back(integers(dims));
      const ValueId x = graph.add_input(concat("x", i), type_of(DType::f32, dims));
      parts.push_back(factor == 1 ? x : graph.add_single(op, {x}, concat("many", i)));
    }
    ops::Conv op;
    op.strides.assign(spatial, 1);
    op.dilations.assign(spatial, 1);
    op.pads.assign(2 * spatial, 0);
    Dims weights(spatial + 2, 1);
    weights[0] = int64_t(1 + below(3));
    weights[1] = channels;
    std::vector<ValueId> inputs{graph.add_single(ops::Concat{1}, parts, "all"),
                                graph.add_constant("w", integers(weights))};
    Dims by_channel(spatial + 1, 1);
    by_channel[0] = weights[0];
    Dims everywhere = large;
    everywhere[1] = weights[0];
    for (size_t i = below(3); i-- > 0;) {  // biases, residuals
      const bool whole = below(2);
      const Dims& dims = whole ? everywhere : by_channel;
      if (whole) feed_.push_back(integers(dims));
      inputs.push_back(whole ? graph.add_input(concat("r", i), type_of(DType::f32, dims))
                             : graph.add_constant(concat("b", i), integers(dims)));
    }
    op.epilogue.inputs = int(inputs.size()) - 1;
    int last = 0;
    for (int i = 1; i < op.epilogue.inputs; ++i)
      last = op.epilogue.push({below(4) ? Scalar::add : Scalar::mul, DType::f32, {last, i, -1}});
    if (below(2)) last = op.epilogue.push({Scalar::relu, DType::f32, {last, -1, -1}});
    if (last && !below(4)) op.epilogue.push({Scalar::sub, DType::f32, {last, 0, -1}});  // reads the sum again
    graph.add_output("y", graph.add_single(op, inputs, "conv"));
    return graph;
  }
  const std::vector<Tensor>& feed() const { return feed_; }

 private:
  std::mt19937 random_;
  std::vector<Tensor> feed_;

  size_t below(size_t n) { return random_() % n; }
  Tensor integers(const Dims& dims) {
    std::vector<double> values;
    for (int64_t i = element_count(dims); i-- > 0;) values.push_back(double(below(5)) - 2);
    return Tensor::of<double>(dims, values).converted(DType::f32);
  }
};

TEST(SinkResizes, RandomHeadsGiveTheSameNumbers) {
  std::map<std::string, int> seen;
  for (uint32_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    RandomHead random(seed);
    const Graph before = random.make();
    Graph after = before;
    const bool changed = sink_resizes(after, {});
    after.compact();
    ASSERT_NO_THROW(verify(after)) << print(before);
    ++seen[changed ? "sunk" : "stays"];
    for (int32_t n = 0; changed && n < after.node_count(); ++n) seen["joined"] += after.node({n}).op.is<ops::Concat>();
    const auto wanted = run_reference(before, random.feed()), got = run_reference(after, random.feed());
    ASSERT_EQ(got[0].type().text(), wanted[0].type().text());
    ASSERT_EQ(got[0].to_doubles(), wanted[0].to_doubles()) << print(before) << "\nafter:\n" << print(after);
  }
  EXPECT_GE(seen["sunk"], 200);
  EXPECT_GE(seen["stays"], 100);
  EXPECT_GE(seen["joined"], 50);
}

}  // namespace
}  // namespace temper
