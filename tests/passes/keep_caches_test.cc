// SPDX-License-Identifier: Apache-2.0
#include "passes/keep_caches.h"

#include <gtest/gtest.h>

#include "graph/caches.h"
#include "graph/ops/append.h"
#include "graph/ops/attention.h"
#include "graph/ops/slice.h"
#include "tiny_gpt.h"

namespace temper {
namespace {

using testing::TinyGpt;

std::string refusal_of(const Graph& graph, const CacheOptions& options) {
  try {
    keep_caches(graph, options);
  } catch (const Error& error) { return error.what(); }
  return "none";
}

std::vector<std::string> inputs_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const ValueId id : graph.inputs()) names.push_back(concat(graph.value(id).name, " ", graph.type(id)));
  return names;
}

TEST(KeepCaches, PastAndMasksBecomeCachesAndLengths) {
  const Graph graph = keep_caches(TinyGpt{}.graph(), {16, DType::f16, {}});
  EXPECT_EQ(inputs_of(graph),
            (std::vector<std::string>{"input_ids i64[b,s]", "past_key_values.0.key f16[b,16,8]",
                                      "past_key_values.0.value f16[b,16,8]", "lengths i64[b]", "counts i64[b]",
                                      "past_ids i64[b,16,1]", "settings f64[b,4]", "draws f64[b,16]"}));
  int appends = 0, attentions = 0;
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    appends += graph.node({n}).op.is<ops::Append>();
    attentions += graph.node({n}).op.is<ops::Attention>();
  }
  EXPECT_EQ(appends, 3);  // the tokens are a cache, too
  EXPECT_EQ(attentions, 1);
  std::vector<std::string> outputs;
  for (const GraphOutput& output : graph.outputs()) outputs.push_back(output.name);
  EXPECT_EQ(outputs, (std::vector<std::string>{"logits", "next", "flaw", "present_ids", "next_lengths", "present.0.key",
                                               "present.0.value"}));
}

// Two rows of different lengths, read in pieces with padding behind them, give what each gives alone.
TEST(KeepCaches, RowsOfDifferentLengthsGiveWhatEachGivesAlone) {
  const TinyGpt model;
  const Graph graph = keep_caches(model.graph(), {16, DType::f32, {}});
  const std::vector<int64_t> rows[] = {{3, 1, 4, 1, 5, 9, 2, 6}, {2, 7, 1, 8, 10}};
  const std::vector<int64_t> counts[] = {{3, 1}, {1, 2}, {1, 1}, {3, 1}};
  Tensor k(DType::f32, {2, 16, 8}), v(DType::f32, {2, 16, 8}), past_tokens(DType::i64, {2, 16, 1});
  std::vector<int64_t> at{0, 0};
  for (const auto& count : counts) {
    const int64_t size = count == std::vector<int64_t>{1, 1} ? 1 : 4;
    Tensor ids(DType::i64, {2, size});
    for (int64_t row = 0; row < 2; ++row)
      for (int64_t i = 0; i < size; ++i)
        ids.data<int64_t>()[row * size + i] =
            i < count[size_t(row)] ? rows[row][size_t(at[size_t(row)] + i)] : TinyGpt::kVocabulary - 1;
    const auto out =
        run_reference(graph, {ids, k, v, Tensor::of<int64_t>({2}, at), Tensor::of<int64_t>({2}, {count[0], count[1]}),
                              past_tokens, Tensor(DType::f64, {2, 4}), Tensor(DType::f64, {2, 16})});
    past_tokens = out[3], k = out[5], v = out[6];
    for (int64_t row = 0; row < 2; ++row) {
      at[size_t(row)] += count[size_t(row)];
      EXPECT_EQ(out[4].data<int64_t>()[row], at[size_t(row)]);
      const auto want = model.logits_of({rows[row].begin(), rows[row].begin() + at[size_t(row)]}).back();
      const auto got = out[0].to_doubles();
      int64_t best = 0;
      for (int64_t i = 0; i < TinyGpt::kVocabulary; ++i) {
        EXPECT_NEAR(got[size_t(row * TinyGpt::kVocabulary + i)], want[size_t(i)], 1e-5);
        if (want[size_t(i)] > want[size_t(best)]) best = i;
      }
      EXPECT_EQ(out[1].data<int64_t>()[row], best);
    }
  }
}

// A range would be a step of each plan, which CPUs leave to the scalar reference.
TEST(KeepCaches, PositionsOfNewTokensArePartOfAConstant) {
  const Graph graph = keep_caches(TinyGpt{}.graph(), {64, DType::f32, {}});
  int slices = 0;
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    EXPECT_NE(name_of(graph.node({n}).op), "range");
    slices += graph.node({n}).op.is<ops::Slice>() && graph.constant(graph.node({n}).inputs[0]);
  }
  EXPECT_EQ(slices, 1);
}

TEST(KeepCaches, TakesAModelWithoutAnAttentionMask) {
  EXPECT_EQ(refusal_of(TinyGpt{.masked = false}.graph(), {16, DType::f32, {}}), "none");
}

// A window of 5 is seen only with more than 5 keys.
TEST(KeepCaches, RefusesAMaskThatHidesPastKeys) {
  EXPECT_NE(refusal_of(TinyGpt{.window = 5}.graph(), {16, DType::f32, {}}).find("past positions"), std::string::npos);
  EXPECT_NE(refusal_of(TinyGpt{.window = 12}.graph(), {16, DType::f32, {}}).find("past positions"), std::string::npos);
}

TEST(KeepCaches, RefusesPositionsThatFollowFromThePast) {
  EXPECT_NE(refusal_of(TinyGpt{.positions_of_past = true}.graph(), {16, DType::f32, {}}).find("positions follow"),
            std::string::npos);
}

TEST(KeepCaches, RefusesMorePositionsThanTheModelHas) {
  EXPECT_EQ(refusal_of(TinyGpt{}.graph(), {64, DType::f32, {}}), "none");
  for (const int64_t positions : {int64_t(65), int64_t(128), int64_t(100'000)}) {
    const std::string refusal = refusal_of(TinyGpt{}.graph(), {positions, DType::f32, {}});
    EXPECT_NE(refusal.find(concat("a cache of ", positions, " positions is longer than the model: 'wpe' has 64 rows")),
              std::string::npos)
        << refusal;
    EXPECT_TRUE(refusal.ends_with("--cache 64")) << refusal;
  }
}

// As OPT has it, whose first two rows no position takes.
TEST(KeepCaches, KnowsTablesWhoseFirstRowsBelongToNoPosition) {
  const Graph graph = TinyGpt{.first_row = 2}.graph();
  EXPECT_EQ(refusal_of(graph, {62, DType::f32, {}}), "none");
  EXPECT_TRUE(refusal_of(graph, {64, DType::f32, {}}).ends_with("--cache 62"));
}

TEST(KeepCaches, RefusesAModelWithoutPast) {
  const Graph graph = parse_graph(
      "graph \"g\"\ninput %x: f32[2]\n%y: f32[2] = pointwise(%x) program=\"(1) 1=neg.f32(0)\"\n"
      "output \"y\" = %y\n");
  EXPECT_NE(refusal_of(graph, {16, DType::f32, {}}).find("no past keys"), std::string::npos);
  EXPECT_NE(refusal_of(TinyGpt{}.graph(), {16, DType::f32, {{"past", "present.0.key"}}}).find("no input 'past'"),
            std::string::npos);
}

TEST(Caches, PairsAreFoundByTheNamesOfExporters) {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(caches::pairs_by_name({"ids", "past_key_values.0.key"}, {"logits", "present.0.key"}),
            (Pairs{{"past_key_values.0.key", "present.0.key"}}));
  EXPECT_EQ(caches::pairs_by_name({"past_key_values.3.value"}, {"present_key_values.3.value"}),
            (Pairs{{"past_key_values.3.value", "present_key_values.3.value"}}));
  EXPECT_EQ(caches::pairs_by_name({"past.1"}, {"present.1"}), (Pairs{{"past.1", "present.1"}}));
  EXPECT_EQ(caches::pairs_by_name({"past.1"}, {"present.2"}), Pairs{});
}

}  // namespace
}  // namespace temper
