// SPDX-License-Identifier: Apache-2.0
// Random attentions: taken apart they give the same, and what they were is recognised again.
#include "graph/ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "graph/ops/softmax.h"
#include "graph/ops/transpose.h"
#include "passes/pipeline.h"

namespace temper {
namespace {

struct RandomAttention {
  Graph graph;
  std::vector<Tensor> inputs;
};

class Maker {
 public:
  explicit Maker(uint32_t seed) : random_(seed) {}

  // With `open` batch and sequence lengths, which are symbols of the graph.
  RandomAttention make(bool open) {
    ops::Attention op;
    op.kv_heads = 1 + below(3);
    op.heads = op.kv_heads * (chance(0.3) ? 2 : 1);
    const int64_t batch = 1 + below(3), queries = 1 + below(9), keys = chance(0.5) ? queries : 1 + below(9),
                  size = 4 * (1 + below(4)), value_size = chance(0.7) ? size : 4 * (1 + below(4));
    op.scale = chance(0.5) ? 1 / std::sqrt(double(size)) : 0.25;
    if (chance(0.3)) op.right = below(3);
    if (chance(0.2)) op.left = below(4);
    op.from_end = chance(0.3);
    if (chance(0.2)) op.softcap = 2;
    op.zero_nan = chance(0.4);
    const Dim b = open ? Dim::symbol("b") : Dim(batch), sq = open ? Dim::symbol("q") : Dim(queries),
              sk = open ? Dim::symbol("k") : Dim(keys);
    std::vector<ValueId> values;
    auto input = [&](std::string_view name, DType dtype, const Shape& shape, const Dims& dims) {
      values.push_back(made_.graph.add_input(name, {dtype, shape}));
      made_.inputs.push_back(tensor(dtype, dims));
    };
    input("q", DType::f32, {b, sq, op.heads * size}, {batch, queries, op.heads * size});
    input("k", DType::f32, {b, sk, op.kv_heads * size}, {batch, keys, op.kv_heads * size});
    input("v", DType::f32, {b, sk, op.kv_heads * value_size}, {batch, keys, op.kv_heads * value_size});
    if (chance(0.5)) {
      Shape shape{b, op.heads, sq, sk};
      Dims dims{batch, op.heads, queries, keys};
      for (size_t i = 0; i < 4; ++i)
        if (chance(0.4)) shape[i] = dims[i] = 1;
      input("mask", chance(0.5) ? DType::boolean : DType::f32, shape, dims);
    }
    if (chance(0.2)) {
      if (values.size() == 3) values.push_back({});
      input("lengths", DType::i64, {b}, {batch});
      for (int64_t i = 0; i < batch; ++i) made_.inputs.back().data<int64_t>()[i] = below(keys + 1);
    }
    made_.graph.add_output("y", made_.graph.add_single(op, values, "attention"));
    return std::move(made_);
  }

 private:
  std::mt19937 random_;
  RandomAttention made_;

  int64_t below(int64_t n) { return int64_t(random_() % uint64_t(n)); }
  bool chance(double p) { return double(random_()) < p * 4294967296.0; }
  Tensor tensor(DType dtype, const Dims& dims) {
    Tensor out(dtype, dims);
    for (int64_t i = 0; i < out.count(); ++i) {
      if (dtype == DType::boolean) out.data<bool>()[i] = chance(0.7);
      if (dtype == DType::f32) out.data<float>()[i] = float(int64_t(random_() % 33) - 16) / 8;
    }
    return out;
  }
};

template <class T>
int64_t count_of(const Graph& graph) {
  int64_t count = 0;
  for (int32_t n = 0; n < graph.node_count(); ++n) count += graph.node({n}).op.is<T>();
  return count;
}

void expect_same(const Graph& graph, const RandomAttention& made) {
  const auto want = run_reference(made.graph, made.inputs)[0].to_doubles(),
             got = run_reference(graph, made.inputs)[0].to_doubles();
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (!(std::isnan(got[i]) && std::isnan(want[i]))) { ASSERT_NEAR(got[i], want[i], 1e-5) << i; }
}

constexpr auto kNever = [](const Graph&, const Op&, const std::vector<ValueId>&) { return false; };
constexpr auto kAlways = [](const Graph&, const Op&, const std::vector<ValueId>&) { return true; };

TEST(ExpandAttention, GivesWhatTheOpGives) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const RandomAttention made = Maker(seed).make(seed % 3 == 0);
    SCOPED_TRACE(concat("seed ", seed, "\n", print(made.graph)));
    Graph graph = made.graph;
    run_passes(graph, {}, device_pipeline(kNever));
    EXPECT_EQ(count_of<ops::Attention>(graph), 0);
    expect_same(graph, made);
    if (HasFailure()) return;
  }
}

// An attention that was taken apart is found again by what is left of it, in the form that the other passes give it.
TEST(RecogniseAttention, FindsWhatWasTakenApart) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const RandomAttention made = Maker(seed).make(false);
    SCOPED_TRACE(concat("seed ", seed, "\n", print(made.graph)));
    Graph graph = made.graph;
    run_passes(graph, {}, device_pipeline(kNever));
    run_passes(graph);
    run_passes(graph, {}, device_pipeline(kAlways));
    expect_same(graph, made);
    // Shared heads are a product of five axes, in which the mask may differ along the groups.
    const auto& op = made.graph.node({0}).op.get<ops::Attention>();
    if (op.heads == op.kv_heads) {
      EXPECT_EQ(count_of<ops::Attention>(graph), 1) << print(graph);
      EXPECT_EQ(count_of<ops::Softmax>(graph), 0);
      EXPECT_EQ(count_of<ops::Transpose>(graph), 0) << print(graph);
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace temper
