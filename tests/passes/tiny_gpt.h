// SPDX-License-Identifier: Apache-2.0
// A language model of one layer with past keys and values, as exporters write them, for the tests of caches.
#pragma once
#include <algorithm>
#include <limits>
#include <vector>

#include "graph/graph.h"
#include "graph/ops/concat.h"
#include "graph/ops/gather.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/range.h"
#include "graph/ops/reshape.h"
#include "graph/ops/shape.h"
#include "graph/ops/slice.h"
#include "graph/ops/softmax.h"
#include "graph/ops/transpose.h"

namespace temper::testing {

struct TinyGpt {
  static constexpr int64_t kVocabulary = 11, kHeads = 2, kSize = 4, kWidth = kHeads * kSize, kPositions = 64;
  int64_t window = 0;              // a token sees so many before it; 0: all
  bool positions_of_past = false;  // they follow from the number of past positions
  bool masked = true;              // it takes an attention_mask
  int64_t first_row = 0;           // of the table of positions, that the first position takes
  int64_t broken = -1;             // the position whose weights are NaN, and so the logits behind it; -1: none

  Graph graph() const {
    Graph g;
    g.name = "tiny";
    const Dim b = Dim::symbol("b"), s = Dim::symbol("s"), p = Dim::symbol("p"), t = p + s;
    const ValueId ids = g.add_input("input_ids", {DType::i64, {b, s}});
    const ValueId mask = masked ? g.add_input("attention_mask", {DType::i64, {b, t}}) : ValueId{};
    const ValueId given = positions_of_past ? ValueId{} : g.add_input("position_ids", {DType::i64, {b, s}});
    const ValueId past_k = g.add_input("past_key_values.0.key", {DType::f32, {b, kHeads, p, kSize}}),
                  past_v = g.add_input("past_key_values.0.value", {DType::f32, {b, kHeads, p, kSize}});
    const auto add = [&](Op op, std::vector<ValueId> inputs) {
      return g.add_single(std::move(op), std::move(inputs), "n");
    };
    const auto number = [&](int64_t n) { return g.add_constant("number", Tensor::of<int64_t>({}, {n})); };
    const auto scalar = [&](ValueId x) { return add(ops::Reshape{Shape{}}, {x}); };
    const auto program = [&](const char* text, std::vector<ValueId> inputs) {
      return add(ops::Pointwise{Program::parse(text)}, std::move(inputs));
    };
    const ValueId held = scalar(add(ops::ShapeOf{.start = 2, .end = 3}, {past_k})),
                  fresh = scalar(add(ops::ShapeOf{.start = 1, .end = 2}, {ids}));
    const ValueId all = program("(2) 2=add.i64(0,1)", {held, fresh});
    const ValueId queries = add(ops::Range{}, {held, all, number(1)}),
                  keys = add(ops::Range{}, {number(0), all, number(1)});

    const ValueId table = weights(g, "wte", {kVocabulary, kWidth}, 1);
    ValueId x = add(ops::Gather{}, {table, ids});
    ValueId places = positions_of_past ? queries : given;
    if (first_row) places = program(concat("(1) 1=constant.i64[", first_row, "] 2=add.i64(0,1)").c_str(), {places});
    x = program("(2) 2=add.f32(0,1)",
                {x, add(ops::Gather{}, {weights(g, "wpe", {kPositions, kWidth}, 2, broken), places})});
    const ValueId qkv = add(ops::MatMul{}, {x, weights(g, "w", {kWidth, 3 * kWidth}, 3)});
    const auto heads = [&](int64_t which) {
      ops::Slice slice;
      slice.starts = {0, 0, which * kWidth}, slice.sizes = {b, s, kWidth}, slice.steps = {1, 1, 1};
      return add(ops::Transpose{{0, 2, 1, 3}}, {add(ops::Reshape{{b, s, kHeads, kSize}}, {add(slice, {qkv})})});
    };
    const ValueId k = g.add(ops::Concat{2}, {past_k, heads(1)}, "k", {"all_k"})[0],
                  v = g.add(ops::Concat{2}, {past_v, heads(2)}, "v", {"all_v"})[0];
    const ValueId scores = add(ops::MatMul{.transpose_b = true}, {heads(0), k});
    ValueId seen = program("(2) 2=less_equal.bool(0,1)", {keys, add(ops::Reshape{{s, 1}}, {queries})});
    if (window) {
      const std::string text = concat("(2) 2=constant.i64[", window, "] 3=sub.i64(1,2) 4=less.bool(3,0)");
      seen = program("(2) 2=logical_and.bool(0,1)",
                     {seen, program(text.c_str(), {keys, add(ops::Reshape{{s, 1}}, {queries})})});
    }
    if (masked)
      seen = program("(2) 2=cast.bool(1) 3=logical_and.bool(0,2)", {seen, add(ops::Reshape{{b, 1, 1, t}}, {mask})});
    const ValueId limited =
        program("(2) 2=constant.f32[0.5] 3=mul.f32(0,2) 4=constant.f32[-3.4028234663852886e+38] 5=where.f32(1,3,4)",
                {scores, seen});
    const ValueId y = add(ops::MatMul{}, {add(ops::Softmax{3}, {limited}), v});
    const ValueId joined = add(ops::Reshape{{b, s, kWidth}}, {add(ops::Transpose{{0, 2, 1, 3}}, {y})});
    x = program("(2) 2=add.f32(0,1)", {x, add(ops::MatMul{}, {joined, weights(g, "wo", {kWidth, kWidth}, 4)})});
    g.add_output("logits", add(ops::MatMul{.transpose_b = true}, {x, table}));
    g.add_output("present.0.key", k);
    g.add_output("present.0.value", v);
    return g;
  }

  // Logits of each of one row's tokens, by the model without caches, which reads all at once.
  std::vector<std::vector<double>> logits_of(const std::vector<int64_t>& tokens) const {
    const auto n = int64_t(tokens.size());
    std::vector<Tensor> inputs{Tensor::of<int64_t>({1, n}, tokens)};
    if (masked) inputs.push_back(Tensor::of<int64_t>({1, n}, std::vector<int64_t>(size_t(n), 1)));
    std::vector<int64_t> positions;
    for (int64_t i = 0; i < n; ++i) positions.push_back(i);
    if (!positions_of_past) inputs.push_back(Tensor::of<int64_t>({1, n}, positions));
    for (int i = 0; i < 2; ++i) inputs.emplace_back(DType::f32, Dims{1, kHeads, 0, kSize});
    const std::vector<double> all = run_reference(graph(), inputs)[0].to_doubles();
    std::vector<std::vector<double>> rows;
    for (int64_t i = 0; i < n; ++i)
      rows.emplace_back(all.begin() + ptrdiff_t(i * kVocabulary), all.begin() + ptrdiff_t((i + 1) * kVocabulary));
    return rows;
  }

 private:
  static ValueId weights(Graph& g, std::string_view name, Dims dims, uint32_t seed, int64_t broken_row = -1) {
    Tensor tensor(DType::f32, std::move(dims));
    uint32_t state = seed * 7919;
    for (int64_t i = 0; i < tensor.count(); ++i) {
      state = state * 1664525u + 1013904223u;
      tensor.data<float>()[i] = float(int32_t(state)) / 2147483648.0f;
    }
    const int64_t width = tensor.dims()[1];
    if (broken_row >= 0)
      std::fill_n(tensor.data<float>() + broken_row * width, width, std::numeric_limits<float>::quiet_NaN());
    return g.add_constant(name, std::move(tensor));
  }
};

}  // namespace temper::testing
