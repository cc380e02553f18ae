// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/slice.h"

#include <gtest/gtest.h>

#include <numeric>

#include "graph/graph.h"

namespace temper {
namespace {

// numpy's x[start:end:step] with ONNX's clamping, on positions.
std::vector<int64_t> expected(int64_t n, int64_t start, int64_t end, int64_t step) {
  auto clamp = [](int64_t v, int64_t lo, int64_t hi) { return std::min(std::max(v, lo), hi); };
  if (start < 0) start += n;
  if (end < 0) end += n;
  std::vector<int64_t> out;
  if (step > 0) {
    start = clamp(start, 0, n), end = clamp(end, 0, n);
    for (int64_t i = start; i < end; i += step) out.push_back(i);
  } else {
    start = clamp(start, 0, n - 1), end = clamp(end, -1, n - 1);
    for (int64_t i = start; i > end && i >= 0; i += step) out.push_back(i);
  }
  return out;
}

TEST(Slice, TheSymbolicBoundsOfEverySliceGiveWhatNumbersGive) {
  for (int64_t start : {-9, -3, -1, 0, 2, 4, 9})
    for (int64_t end : {-9, -4, -1, 0, 1, 3, 9})
      for (int64_t step : {-3, -1, 1, 2}) {
        Graph graph;
        const ValueId x = graph.add_input("x", TensorType::parse("i64[n]"));
        auto one = [&](int64_t v) { return graph.add_constant("c", Tensor::of<int64_t>({1}, {v})); };
        const ValueId y = graph.add_single(ops::Slice{}, {x, one(start), one(end), one(0), one(step)}, "y");
        ASSERT_EQ(graph.producer(y)->inputs.size(), 1u);
        graph.add_output("y", y);
        for (int64_t n : {1, 2, 5, 8}) {
          std::vector<int64_t> values(static_cast<size_t>(n));
          std::iota(values.begin(), values.end(), 0);
          EXPECT_EQ(run_reference(graph, {Tensor::of<int64_t>({n}, values)})[0].to_ints(),
                    expected(n, start, end, step))
              << n << " elements [" << start << ":" << end << ":" << step << "]";
        }
      }
}

TEST(Slice, ExportersWordsForTheEndMeanTheEndOfASymbolicAxis) {
  for (int64_t end : {int64_t(INT64_MAX), int64_t(INT32_MAX)}) {
    Graph graph;
    const ValueId x = graph.add_input("x", TensorType::parse("f32[n]"));
    auto one = [&](int64_t v) { return graph.add_constant("c", Tensor::of<int64_t>({1}, {v})); };
    EXPECT_EQ(graph.type(graph.add_single(ops::Slice{}, {x, one(0), one(end)}, "y")).text(), "f32[n]");
    EXPECT_EQ(graph.type(graph.add_single(ops::Slice{}, {x, one(-1), one(-end), {}, one(-1)}, "y")).text(), "f32[n]");
    EXPECT_EQ(graph.type(graph.add_single(ops::Slice{}, {x, one(0), one(end), {}, one(2)}, "y")).text(),
              "f32[floor(n+1,2)]");
  }
}

TEST(Slice, RefusesAStepOfZeroAndAnAxisNamedTwice) {
  Graph graph;
  const ValueId x = graph.add_input("x", TensorType::parse("f32[4,4]"));
  auto ints = [&](const std::vector<int64_t>& v) {
    return graph.add_constant("c", Tensor::of<int64_t>({int64_t(v.size())}, v));
  };
  EXPECT_THROW(graph.add(ops::Slice{}, {x, ints({0}), ints({1}), {}, ints({0})}, "y"), Error);
  EXPECT_THROW(graph.add(ops::Slice{}, {x, ints({0}), ints({1}), {}, ints({INT64_MIN})}, "y"), Error);
  EXPECT_THROW(graph.add(ops::Slice{}, {x, ints({0, 0}), ints({1, 1}), ints({1, -1})}, "y"), Error);
}

TEST(Slice, AFieldThatReachesOutsideIsRefused) {
  EXPECT_THROW(
      parse_graph(
          "graph \"g\"\ninput %x: f32[4]\n%y: f32[3] = slice(%x) starts=[2] sizes=[3] steps=[1]\noutput \"y\" = %y\n"),
      Error);
}

}  // namespace
}  // namespace temper
