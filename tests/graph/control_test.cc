// SPDX-License-Identifier: Apache-2.0
// Branches and loops in a flat graph: what is needed, what a loop's body is, and what specialising makes of them.
#include "graph/control.h"

#include <gtest/gtest.h>

#include "graph/ops/choose.h"
#include "graph/ops/loop.h"

namespace temper {
namespace {

constexpr std::string_view kBranches =
    "graph \"branches\"\n"
    "input %c: bool[]\n"
    "input %x: f32[n]\n"
    "%a: f32[n] = pointwise(%x) program=\"(1) 1=exp.f32(0)\"\n"
    "%b: f32[4] = reshape(%x) shape=[4]\n"
    "%y: f32[$y.0.0] = choose(%c, %a, %b) open=[0,0]\n"
    "output \"y\" = %y\n";

constexpr std::string_view kSteps =
    "graph \"steps\"\n"
    "input %m: i64[]\n"
    "input %x: f32[n]\n"
    "%w: f32[n] = pointwise(%x) program=\"(1) 1=exp.f32(0)\"\n"
    "%i: i64[], %d: bool[], %s: f32[n] = loop_begin(%m, _, %x) loop=3\n"
    "%t: f32[n] = pointwise(%s, %w) program=\"(2) 2=add.f32(0,1)\"\n"
    "const %e: bool[] = [1]\n"
    "%y: f32[n], %all: f32[$y.1.0,n] = loop_end(%i, _, %e, %s, %t, %t) carried=1\n"
    "output \"y\" = %y\noutput \"all\" = %all\n";

std::vector<float> floats(const Tensor& tensor) {
  return {tensor.data<float>(), tensor.data<float>() + tensor.count()};
}

TEST(Control, TextIsReadBack) {
  for (std::string_view text : {kBranches, kSteps}) EXPECT_EQ(print(parse_graph(text)), text);
}

TEST(Control, OfAChooseOnlyTheConditionIsNeededUntilItIsKnown) {
  const Graph graph = parse_graph(kBranches);
  const auto needed = [&](std::optional<bool> condition) {
    return needed_nodes(graph, [&](ValueId) { return condition; });
  };
  EXPECT_EQ(needed(std::nullopt), (std::vector<char>{0, 0, 1}));
  EXPECT_EQ(needed(true), (std::vector<char>{1, 0, 1}));
  EXPECT_EQ(needed(false), (std::vector<char>{0, 1, 1}));
}

TEST(Control, TheSideThatIsNotChosenMayNotFitTheShapes) {
  const Graph graph = parse_graph(kBranches);
  const Tensor x = Tensor::of<float>({2}, {0, 0});
  EXPECT_EQ(floats(run_reference(graph, {Tensor::of<bool>({}, {true}), x}).at(0)), (std::vector<float>{1, 1}));
  EXPECT_THROW(run_reference(graph, {Tensor::of<bool>({}, {false}), x}), Error);
  // [2] is no [4]: that side is left out, with the reason.
  Graph two = specialize(graph, bind_shapes(graph, {{}, {2}}));
  const Node& choose = two.node({two.node_count() - 1});
  ASSERT_TRUE(choose.op.is<ops::Choose>());
  EXPECT_TRUE(choose.inputs[1].valid());
  EXPECT_FALSE(choose.inputs[2].valid());
  EXPECT_EQ(two.type(two.outputs()[0].value).text(), "f32[2]");
  for (bool side : {true, false}) {
    Graph decided = graph;
    decided.replace(decided.inputs()[0], decided.add_constant("known", Tensor::of<bool>({}, {side})));
    if (side) {
      const Graph known = specialize(decided, bind_shapes(graph, {{}, {2}}));
      EXPECT_FALSE(has_control_flow(known));
      EXPECT_EQ(known.node_count(), 1);
    } else {
      try {
        specialize(decided, bind_shapes(graph, {{}, {2}}));
        FAIL() << "the side that was chosen does not fit";
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("reshape"), std::string::npos) << error.what();
      }
    }
  }
}

TEST(Control, ABodyIsWhatLiesBetweenBeginAndEnd) {
  const Graph graph = parse_graph(kSteps);
  const Loop loop = loop_of(graph, {graph.node_count() - 1});
  EXPECT_EQ(graph.node(loop.begin).op.get<ops::LoopBegin>().loop, 3);
  ASSERT_EQ(loop.inside.size(), 1u);
  EXPECT_EQ(graph.node(loop.inside[0]).name, "t");
  ASSERT_EQ(loop.captured.size(), 1u);
  EXPECT_EQ(graph.value(loop.captured[0]).name, "w") << "what no iteration changes is computed before the loop";
  const Graph body = body_of(graph, loop);
  EXPECT_EQ(body.inputs().size(), 4u);
  EXPECT_EQ(body.outputs().size(), 3u);
  EXPECT_EQ(needed_nodes(graph, [](ValueId) { return std::nullopt; }), (std::vector<char>{1, 0, 0, 1}));
}

// Of the nonzero elements only their number is asked.
constexpr std::string_view kCounted =
    "graph \"counted\"\n"
    "input %x: f32[4]\n"
    "%p: i64[1,$p.0.1] = nonzero(%x)\n"
    "const %one: f32[] = [1]\n"
    "%y: f32[$p.0.1] = broadcast(%one) shape=[$p.0.1]\n"
    "output \"y\" = %y\n";

TEST(Control, WhatDecidesASizeIsNeededThoughOnlyItsShapeIsRead) {
  Graph graph = parse_graph(kCounted);
  EXPECT_EQ(needed_nodes(graph, [](ValueId) { return std::nullopt; }), (std::vector<char>{1, 1}));
  graph.compact();
  EXPECT_EQ(print(graph), kCounted);
  EXPECT_EQ(floats(run_reference(graph, {Tensor::of<float>({4}, {0, 1, 0, 2})}).at(0)), (std::vector<float>{1, 1}));
}

TEST(Control, InALoopWhatDecidesASizeIsOfTheBody) {
  Graph graph = parse_graph(
      "graph \"counts\"\n"
      "input %m: i64[]\n"
      "input %x: f32[4]\n"
      "%i: i64[], %d: bool[], %s: f32[4] = loop_begin(%m, _, %x) loop=3\n"
      "%p: i64[1,$p.0.1] = nonzero(%s)\n"
      "const %one: f32[] = [1]\n"
      "%n: f32[$p.0.1] = broadcast(%one) shape=[$p.0.1]\n"
      "%k: f32[1] = reduce(%n) kind=sum axes=[0] keepdims=true\n"
      "%t: f32[4] = pointwise(%s, %k) program=\"(2) 2=sub.f32(0,1)\"\n"
      "const %e: bool[] = [1]\n"
      "%y: f32[4] = loop_end(%i, _, %e, %s, %t) carried=1\n"
      "output \"y\" = %y\n");
  const Loop loop = loop_of(graph, {graph.node_count() - 1});
  EXPECT_EQ(loop.inside.size(), 4u) << "nonzero and broadcast, too";
  EXPECT_TRUE(loop.captured.empty());
  const auto outputs = run_reference(graph, {Tensor::of<int64_t>({}, {2}), Tensor::of<float>({4}, {0, 1, 0, 2})});
  EXPECT_EQ(floats(outputs.at(0)), (std::vector<float>{-5, -4, -5, -3}));
}

TEST(Control, OneAxisIsKnownWhereDataStillDecideAnother) {
  const Graph graph = parse_graph(
      "graph \"axes\"\n"
      "input %x: f32[4]\n"
      "input %y: f32[4,n]\n"
      "%p: i64[1,$p.0.1] = nonzero(%x)\n"
      "%q: i64[$p.0.1] = reshape(%p) shape=[$p.0.1]\n"
      "%r: f32[$p.0.1,n] = gather(%y, %q)\n"
      "%h: i64[1] = shape(%r) start=1 end=2\n"
      "const %f: i64[1] = [3]\n"
      "%l: bool[1] = pointwise(%f, %h) program=\"(2) 2=less.bool(0,1)\"\n"
      "%k: i64[1] = pointwise(%l, %f, %h) program=\"(3) 3=where.i64(0,1,2)\"\n"
      "%v: f32[$p.0.1,$v.0.1], %i: i64[$p.0.1,$v.0.1] = topk(%r, %k) axis=1\n"
      "const %one: f32[] = [1]\n"
      "%o: f32[$p.0.1,$v.0.1] = broadcast(%one) shape=[$p.0.1,$v.0.1]\n"
      "output \"o\" = %o\n");
  const Graph known = specialize(graph, bind_shapes(graph, {{4}, {4, 5}}));
  EXPECT_EQ(known.type(known.outputs()[0].value).text(), "f32[$p.0.1,3]");
  EXPECT_EQ(known.node_count(), 2) << "nonzero alone decides the other axis";
}

TEST(Control, ALoopStacksItsScansAndGivesItsLastValues) {
  const Graph graph = parse_graph(kSteps);
  const Tensor x = Tensor::of<float>({2}, {0, 0});
  for (int64_t trip : {0, 1, 3}) {
    const auto outputs = run_reference(graph, {Tensor::of<int64_t>({}, {trip}), x});
    EXPECT_EQ(floats(outputs[0]), (std::vector<float>(2, float(trip))));
    ASSERT_EQ(outputs[1].dims(), (Dims{trip, 2}));
    for (int64_t i = 0; i < 2 * trip; ++i) EXPECT_EQ(outputs[1].data<float>()[i], float(i / 2 + 1));
  }
}

std::string why_refused(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    return error.what();
  }
  return "it ran";
}

// What a file names as the number of iterations is no promise that there is time for them.
TEST(Control, ALoopOf2To63IterationsEndsByItsConditionOrIsRefused) {
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  std::string text(kSteps);
  text.replace(text.find("loop_end(%i, _"), 14, "loop_end(%i, %m");
  const std::vector<Tensor> inputs{Tensor::of<int64_t>({}, {kAll}), Tensor::of<float>({2}, {0, 0})};
  const std::string why = why_refused([&] { run_reference(parse_graph(text), inputs); });
  EXPECT_NE(why.find("it runs 9223372036854775807 iterations; the limit is 16777216; --loop-limit"), why.npos) << why;

  text = kSteps;
  text.replace(text.find("const %e: bool[] = [1]"), 22,
               "const %two: i64[] = [2]\n%e: bool[] = pointwise(%i, %two) program=\"(2) 2=less.bool(0,1)\"");
  const auto outputs = run_reference(parse_graph(text), inputs);
  EXPECT_EQ(floats(outputs[0]), (std::vector<float>{3, 3}));
  EXPECT_EQ(outputs[1].dims(), (Dims{3, 2}));

  text = kSteps;
  text.replace(text.find("carried=1"), 9, "carried=1 limit=1000");
  const Graph graph = parse_graph(text);
  const Node& end = graph.node({3});
  std::vector<TensorType> types;
  for (ValueId id : end.outputs) types.push_back(graph.type(id));
  int64_t runs = 0;
  const auto endless = [&](std::vector<Tensor> given) {
    ++runs;
    return std::vector<Tensor>{Tensor::of<bool>({}, {true}), given[2], given[2]};
  };
  const std::string never = why_refused([&] { run_loop(end, types, inputs[0], {}, {inputs[1]}, endless); });
  EXPECT_NE(never.find("its condition did not end it within 1000 iterations"), never.npos) << never;
  EXPECT_EQ(runs, 1000);
}

TEST(Control, AScanThatIsJoinedTakesSlicesOfAnyNumber) {
  const Graph graph = parse_graph(
      "graph \"joins\"\n"
      "input %m: i64[]\n"
      "input %x: f32[3]\n"
      "%i: i64[], %d: bool[], %s: f32[3] = loop_begin(%m, _, %x) loop=3\n"
      "%p: i64[1,$p.0.1] = nonzero(%s)\n"
      "%q: i64[$p.0.1] = reshape(%p) shape=[$p.0.1]\n"
      "const %one: f32[] = [1]\n"
      "%t: f32[3] = pointwise(%s, %one) program=\"(2) 2=sub.f32(0,1)\"\n"
      "const %e: bool[] = [1]\n"
      "%y: f32[3], %all: i64[$y.1.0] = loop_end(%i, _, %e, %s, %t, %q) carried=1 joined=[0]\n"
      "output \"all\" = %all\n");
  EXPECT_EQ(parse_graph(print(graph)).type(graph.outputs()[0].value).text(), "i64[$y.1.0]");
  const auto run = [&](int64_t trip) {
    return run_reference(graph, {Tensor::of<int64_t>({}, {trip}), Tensor::of<float>({3}, {0, 1, 2})}).at(0).to_ints();
  };
  EXPECT_EQ(run(0), std::vector<int64_t>());
  EXPECT_EQ(run(3), (std::vector<int64_t>{1, 2, 0, 2, 0, 1}));
}

TEST(Control, LoopsThatBeginAlikeStayTwo) {
  const Op first = ops::LoopBegin{.loop = 1}, second = ops::LoopBegin{.loop = 2};
  EXPECT_NE(first, second);
}

TEST(Control, AConditionOfSeveralElementsIsRefused) {
  std::string text(kBranches);
  text.replace(text.find("bool[]"), 6, "bool[2]");
  try {
    parse_graph(text);
    FAIL() << "which of the two decides?";
  } catch (const Error& error) { EXPECT_EQ(error.kind(), ErrorKind::unsupported); }
}

}  // namespace
}  // namespace temper
