// SPDX-License-Identifier: Apache-2.0
// Branches and loops in sessions: which plans are made, and which serve again.
#include <set>

#include "../plan/helpers.h"
#include "runtime/partitions.h"

namespace temper {
namespace {

std::shared_ptr<Engine> branches(const std::string& device = "cpu") {
  return std::make_shared<Engine>(info_of(device),
                                  parse_graph("graph \"branches\"\n"
                                              "input %c: bool[]\n"
                                              "input %x: f32[n,4]\n"
                                              "%a: f32[n,4] = softmax(%x) axis=1\n"
                                              "%b: f32[n,4] = pointwise(%x) program=\"(1) 1=exp.f32(0)\"\n"
                                              "%y: f32[n,4] = choose(%c, %a, %b)\n"
                                              "%z: f32[n,4] = pointwise(%y) program=\"(1) 1=relu.f32(0)\"\n"
                                              "output \"z\" = %z\n"),
                                  1);
}

TEST(ControlFlow, EachSideIsPlannedWhenItIsFirstChosen) {
  const auto engine = branches();
  EXPECT_TRUE(engine->is_dynamic());
  Session session(engine);
  const auto made = [&](bool side, int64_t n) {
    const int64_t before = session.statistics().plans_made;
    const std::vector<Tensor> inputs{Tensor::of<bool>({}, {side}), noise({n, 4}, uint32_t(n + side))};
    expect_close(session.run(inputs), run_reference(engine->graph(), inputs));
    return session.statistics().plans_made - before;
  };
  EXPECT_EQ(made(true, 3), 1) << "the condition is an input: nothing has to run before it is known";
  EXPECT_EQ(made(true, 3), 0);
  EXPECT_EQ(made(false, 3), 1);
  EXPECT_EQ(made(false, 5), 1);
  EXPECT_EQ(made(true, 3) + made(false, 3) + made(false, 5), 0);
  EXPECT_TRUE(session.is_partitioned());
  EXPECT_THROW(session.current_plan(), Error);
}

TEST(ControlFlow, SurvivesAFile) {
  const std::string bytes = plan_bytes_of(*branches());
  const auto engine = Engine::from_bytes(std::as_bytes(std::span(bytes)));
  Session session(engine);
  for (bool side : {true, false, true}) {
    const std::vector<Tensor> inputs{Tensor::of<bool>({}, {side}), noise({2, 4}, 5)};
    expect_close(session.run(inputs), run_reference(branches()->graph(), inputs));
  }
}

// f(x) steps m times; with `grows`, each step appends.
std::shared_ptr<Engine> steps(bool grows) {
  const std::string k = grows ? "$i.2.0" : "3";
  return std::make_shared<Engine>(
      info_of("cpu"),
      parse_graph(concat("graph \"steps\"\n"
                         "input %m: i64[]\n"
                         "input %x: f32[3]\n"
                         "%i: i64[], %d: bool[], %s: f32[",
                         k, "] = loop_begin(%m, _, %x) loop=1", grows ? " open=[0,0]\n" : "\n",
                         grows ? "%t: f32[$i.2.0+3] = concat(%s, %x) axis=0\n"
                               : "%t: f32[3] = pointwise(%s, %x) program=\"(2) 2=add.f32(0,1)\"\n",
                         "const %e: bool[] = [1]\n"
                         "%y: f32[",
                         grows ? "$y.0.0" : "3", "] = loop_end(%i, _, %e, %s, %t) carried=1",
                         grows ? " open=[0,0]\n" : "\n", "output \"y\" = %y\n")),
      1);
}

TEST(ControlFlow, ABodyIsPlannedOnceForItsShapes) {
  const auto engine = steps(false);
  Session session(engine);
  const Tensor x = noise({3}, 1);
  for (int64_t m : {1000, 0, 7}) {
    const std::vector<Tensor> inputs{Tensor::of<int64_t>({}, {m}), x};
    expect_close(session.run(inputs), run_reference(engine->graph(), inputs));
  }
  EXPECT_EQ(session.statistics().plans_made, 2) << "what stands before the loop, and the body";
}

TEST(ControlFlow, MoreIterationsThanAreRunAreRefusedBeforeTheFirst) {
  std::string text = print(steps(false)->graph());
  text.replace(text.find("loop_end(%i, _"), 14, "loop_end(%i, %m");
  Session session(std::make_shared<Engine>(info_of("cpu"), parse_graph(text), 1));
  for (int64_t m : {std::numeric_limits<int64_t>::max(), int64_t(1) << 25}) {
    try {
      session.run({Tensor::of<int64_t>({}, {m}), noise({3}, 1)});
      FAIL() << m << " iterations ran";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported);
      EXPECT_NE(std::string(error.what()).find("the limit is 16777216; --loop-limit"), std::string::npos)
          << error.what();
    }
  }
  EXPECT_NO_THROW(session.run({Tensor::of<int64_t>({}, {5}), noise({3}, 1)}));
}

TEST(ControlFlow, PartitionsAreKnownBeforeARunAndTimedInOne) {
  Session sides(branches());
  std::set<std::string> where;
  for (const Partition& partition : sides.partitions({{}, {3, 4}})) {
    where.insert(partition.where);
    EXPECT_EQ(partition.runs, 0);
    EXPECT_FALSE(partition.plan->segments.empty());
  }
  EXPECT_EQ(where, (std::set<std::string>{"'c' true", "'c' false"}));
  EXPECT_TRUE(Session(tiny_engine("cpu")).partitions({{2, 4}}).empty()) << "one plan";

  Session loop(steps(false));
  const std::vector<Tensor> inputs{Tensor::of<int64_t>({}, {7}), noise({3}, 1)};
  loop.run(inputs);
  loop.time_partitions(true);
  for (int run = 0; run < 3; ++run) loop.run(inputs);
  loop.time_partitions(false);
  loop.run(inputs);
  int64_t bodies = 0;
  for (const Partition& partition : loop.partitions()) {
    EXPECT_EQ(partition.ms.size(), partition.plan->segments.size());
    if (partition.where.empty()) {
      EXPECT_EQ(partition.runs, 3);
      ASSERT_EQ(partition.between.size(), 1u);
      EXPECT_EQ(partition.between[0].op, "loop_end");
      EXPECT_GT(partition.between[0].ms, 0);
    } else {
      ++bodies;
      EXPECT_EQ(partition.where.substr(0, 6), "loop '");
      EXPECT_EQ(partition.runs, 21);
    }
  }
  EXPECT_EQ(bodies, 1);
  Session grows(steps(true));
  bool open = false;
  for (const Partition& partition : grows.partitions({{}, {3}})) open |= partition.is_open;
  EXPECT_TRUE(open) << "what a body gets depends on the iterations before";
}

// As a damaged file may have it.
TEST(ControlFlow, ASizeOfWhichOnlyTheShapeIsReadIsDecidedBeforeItIsNeeded) {
  const std::string text =
      "graph \"counted\"\n"
      "input %x: f32[n]\n"
      "%p: i64[1,$p.0.1] = nonzero(%x)\n"
      "const %one: f32[] = [1]\n"
      "%y: f32[$p.0.1] = broadcast(%one) shape=[$p.0.1]\n"
      "output \"y\" = %y\n";
  for (const char* device : {"cpu", "reference"}) {
    Session session(std::make_shared<Engine>(info_of(device), parse_graph(text), 1));
    EXPECT_EQ(session.run({Tensor::of<float>({4}, {0, 1, 0, 2})}).at(0).dims(), (Dims{2}));
    EXPECT_EQ(session.run({Tensor::of<float>({3}, {0, 0, 0})}).at(0).dims(), (Dims{0}));
  }
}

TEST(ControlFlow, ANodeWhoseSizeNothingDecidesIsNamed) {
  Session session(std::make_shared<Engine>(info_of("cpu"),
                                           parse_graph("graph \"circle\"\n"
                                                       "input %x: f32[4]\n"
                                                       "const %one: f32[] = [1]\n"
                                                       "%y: f32[$p.0.1] = broadcast(%one) shape=[$p.0.1]\n"
                                                       "%z: f32[$p.0.1+4] = concat(%y, %x) axis=0\n"
                                                       "%p: i64[1,$p.0.1] = nonzero(%z)\n"
                                                       "output \"p\" = %p\n"),
                                           1));
  try {
    session.run({noise({4}, 1)});
    FAIL() << "a circle ran";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_NE(std::string(error.what()).find("broadcast 'y' cannot run"), std::string::npos) << error.what();
  }
}

TEST(ControlFlow, WhatIsInsideOfALoopIsNotReadOutsideOfIt) {
  std::string text = print(steps(false)->graph());
  const auto message_of = [](const std::string& graph) -> std::string {
    try {
      Session session(std::make_shared<Engine>(info_of("cpu"), parse_graph(graph), 1));
      session.run({Tensor::of<int64_t>({}, {2}), noise({3}, 1)});
    } catch (const Error& error) { return error.what(); }
    return "no error";
  };
  EXPECT_NE(message_of(text + "output \"t\" = %t\n").find("is read outside of it"), std::string::npos);
  const std::string carries = "%s, %t) carried=1";
  text.replace(text.find(carries), carries.size(), ") carried=0 ");
  text.replace(text.find("(%i, _, %e, )"), 13, "(%i, _, %e, %t)");
  text.replace(text.find("%y: f32[3]"), 10, "%y: f32[$y.0.0,3]");
  EXPECT_NE(message_of(text).find("carries other values"), std::string::npos) << message_of(text);
}

TEST(ControlFlow, ABodyWhoseShapesGrowIsPlannedForEachWithinTheLimits) {
  const auto engine = steps(true);
  engine->set_limits({.prepared = 1});
  Session session(engine);
  const std::vector<Tensor> inputs{Tensor::of<int64_t>({}, {60}), noise({3}, 1)};
  const std::vector<Tensor> outputs = session.run(inputs);
  EXPECT_EQ(outputs[0].dims(), Dims{183});
  expect_close(outputs, run_reference(engine->graph(), inputs));
  EXPECT_GE(session.statistics().plans_made, 60);
  EXPECT_LE(session.statistics().prepared, 1 + 32);
  EXPECT_GT(session.statistics().evictions, 10);
}

TEST(ControlFlow, ABodyWhoseShapesGrowIsPlannedOnceForEachOfSomeHundredIterations) {
  const auto engine = steps(true);
  Session session(engine);
  const std::vector<Tensor> inputs{Tensor::of<int64_t>({}, {300}), noise({3}, 1)};
  session.run(inputs);
  const int64_t made = session.statistics().plans_made;
  EXPECT_GE(made, 300);
  session.run(inputs);
  EXPECT_EQ(session.statistics().plans_made, made);
}

}  // namespace
}  // namespace temper
