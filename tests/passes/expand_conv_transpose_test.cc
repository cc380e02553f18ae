// SPDX-License-Identifier: Apache-2.0
// Transposed convolutions of random forms, and what they are expanded to, give the same numbers; the graphs are in
// expand_conv_transpose.test.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "graph/ops/concat.h"
#include "graph/ops/conv_transpose.h"
#include "graph/ops/slice.h"
#include "passes/pass.h"

namespace temper {
namespace {

// Integers so small that all sums are exact in fp16 and bf16, in any order.
class RandomForm {
 public:
  explicit RandomForm(uint32_t seed) : random_(seed) {}

  Graph make() {
    const DType dtype = std::array{DType::f32, DType::f64, DType::f16, DType::bf16}[below(4)];
    const size_t spatial = 1 + below(3);
    ops::ConvTranspose op;
    op.group = int64_t(1 + below(3));
    const int64_t in = op.group * int64_t(1 + below(2)), per_group = int64_t(1 + below(2));
    input_ = {1 + int64_t(below(2)), in};
    Dims weights{in, per_group};
    for (size_t i = 0; i < spatial; ++i) {
      weights.push_back(int64_t(1 + below(spatial == 1 ? 9 : 4)));
      op.strides.push_back(int64_t(1 + below(spatial == 1 ? 5 : 3)));
      op.dilations.push_back(below(3) ? 1 : int64_t(1 + below(3)));
      op.output_padding.push_back(below(3) ? 0 : int64_t(below(3)));
      input_.push_back(int64_t(1 + below(5)));
    }
    for (size_t i = 0; i < 2 * spatial; ++i) op.pads.push_back(below(3) ? int64_t(below(3)) : 0);
    Shape shape;
    const bool symbols = below(2);
    for (size_t i = 0; i < input_.size(); ++i)
      shape.push_back(symbols && i != 1 ? Dim::symbol(std::string(1, char('a' + i))) : Dim(input_[i]));

    Graph graph;
    std::vector<ValueId> inputs{graph.add_input("x", {dtype, shape}),
                                graph.add_constant("w", integers(dtype, weights, 1))};
    Program& epilogue = op.epilogue;
    const int64_t out = per_group * op.group;
    Dims by_channels(spatial + 1, 1), everywhere(spatial + 2, 1);
    by_channels[0] = out;
    everywhere[1] = out;
    everywhere.back() = 1;
    switch (below(5)) {
      case 0: inputs.push_back(graph.add_constant("b", integers(dtype, by_channels, 3))); break;
      case 1: inputs.push_back(graph.add_constant("b", integers(dtype, everywhere, 3))); break;
      case 2: inputs.push_back(graph.add_constant("b", integers(dtype, {}, 3))); break;
      case 3: inputs.push_back(graph.add_input("b", type_of(dtype, by_channels))); break;
      default: break;
    }
    by_input_ = graph.inputs().size() > 1 ? by_channels : Dims{};
    epilogue.inputs = int(inputs.size()) - 1;
    int last = 0;
    if (epilogue.inputs == 2) last = epilogue.push({Scalar::add, dtype, {0, 1, -1}});
    if (below(2)) epilogue.push({Scalar::relu, dtype, {last, -1, -1}});
    graph.add_output("y", graph.add_single(op, inputs, "up"));
    return graph;
  }

  std::vector<Tensor> feed(const Graph& graph) {
    const DType dtype = graph.type(graph.inputs()[0]).dtype;
    std::vector<Tensor> tensors{integers(dtype, input_, 2)};
    if (graph.inputs().size() > 1) tensors.push_back(integers(dtype, by_input_, 3));
    return tensors;
  }

 private:
  std::mt19937 random_;
  Dims input_, by_input_;

  size_t below(size_t n) { return random_() % n; }
  Tensor integers(DType dtype, const Dims& dims, int64_t most) {
    std::vector<double> values;
    for (int64_t i = element_count(dims); i-- > 0;)
      values.push_back(double(int64_t(below(size_t(2 * most + 1))) - most));
    return Tensor::of<double>(dims, values).converted(dtype);
  }
};

TEST(ExpandConvTranspose, RandomFormsGiveTheSameNumbers) {
  std::map<std::string, int> seen;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    RandomForm random(seed);
    Graph before;
    std::vector<Tensor> inputs, wanted;
    try {
      before = random.make();
      inputs = random.feed(before);
      wanted = run_reference(before, inputs);
    } catch (const Error&) { continue; }  // more padding than there is
    Graph after = before;
    const bool changed = expand_conv_transpose(after, {});
    after.compact();
    ASSERT_NO_THROW(verify(after)) << print(before);
    ++seen[changed ? "expanded" : "stays"];
    for (int32_t n = 0; changed && n < after.node_count(); ++n) {
      ASSERT_FALSE(after.node({n}).op.is<ops::ConvTranspose>());
      seen["apart"] += after.node({n}).op.is<ops::Concat>();
      seen["cropped"] += after.node({n}).op.is<ops::Slice>();
    }
    const auto got = run_reference(after, inputs);
    ASSERT_EQ(got[0].type().text(), wanted[0].type().text());
    ASSERT_EQ(got[0].to_doubles(), wanted[0].to_doubles()) << print(before) << "\nafter:\n" << print(after);
  }
  EXPECT_GE(seen["expanded"], 700);
  EXPECT_GE(seen["stays"], 50);
  EXPECT_GE(seen["apart"], 100);
  EXPECT_GE(seen["cropped"], 200);
}

}  // namespace
}  // namespace temper
