// SPDX-License-Identifier: Apache-2.0
#include "optimize/memory.h"

#include <sys/resource.h>

#include "../data/helpers.h"
#include "base/memory.h"
#include "graph/ops/broadcast.h"
#include "optimize/build_engine.h"
#include "passes/pass.h"

namespace temper {
namespace {

TEST(Memory, AModelThatNeedsFarMoreThanItsSizeIsRefusedWithTheNodeAndTheOption) {
  Graph graph;
  const ValueId x = graph.add_input("x", TensorType::parse("f32[1]"));
  ops::Broadcast op;
  op.shape = {Dim(int64_t(1) << 30)};
  graph.add_output("y", graph.add_single(op, {x}, "huge"));
  const std::string message =
      error_of(ErrorKind::bad_file, [&] { build_engine(graph, {}, BuildOptions{.measure = false}); });
  EXPECT_CONTAINS(message,
                  "4.0 GiB; the limit is 512.0 MiB (256 times the model's constants and inputs, and 512.0 MiB)");
  EXPECT_CONTAINS(message, "--memory-limit");
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { check_memory(graph, 0, int64_t(1) << 30); }),
                  "the limit is 1.0 GiB. --memory-limit");
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { check_memory(graph, 0, 1 << 20); }), "the limit is");
}

TEST(Memory, WhatIsNotFreeIsRefusedBeforeItIsTaken) {
  Graph graph;
  const ValueId x = graph.add_input("x", TensorType::parse("f32[1]"));
  ops::Broadcast op;
  op.shape = {Dim(int64_t(1) << 37)};
  graph.add_output("y", graph.add_single(op, {x}, "huge"));
  ASSERT_LT(free_memory(), int64_t(1) << 39);
  EXPECT_CONTAINS(error_of(ErrorKind::machine, [&] { check_memory(graph, 0, int64_t(1) << 40); }), "are free");
  EXPECT_CONTAINS(error_of(ErrorKind::machine, [&] { Tensor(DType::u8, {int64_t(1) << 39}); }),
                  "out of memory: a tensor needs 512.0 GiB");
}

TEST(Memory, TheAddressSpaceThatUlimitLeavesIsWhatIsFree) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const int64_t without = free_memory();
  EXPECT_GT(without, 0);
  rlimit limited = before;
  limited.rlim_cur = rlim_t(1) << 46;  // nothing
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limited), 0);
  rlimit taken{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &taken), 0);
  if (taken.rlim_cur != limited.rlim_cur) GTEST_SKIP() << "limits of the address space are not kept here, as in QEMU";
  EXPECT_LE(free_memory(), int64_t(1) << 46);
  limited.rlim_cur = rlim_t(1) << 16;  // less than is in use
  if (setrlimit(RLIMIT_AS, &limited) == 0) { EXPECT_EQ(free_memory(), 0); }
  setrlimit(RLIMIT_AS, &before);
}

TEST(Memory, FoldedConstantsTakeNoMoreThanTheirLimitTogether) {
  Graph graph;
  const ValueId one = graph.add_constant("one", Tensor::of<float>({1}, {1}));
  for (int i = 0; i < 8; ++i) {  // 8 times 1 MiB
    ops::Broadcast op;
    op.shape = {Dim((1 << 18) + i)};
    graph.add_output(concat("y", i), graph.add_single(op, {one}, concat("b", i)));
  }
  const auto constants_after = [&](int64_t limit) {
    Graph copy = graph;
    PassOptions options;
    options.memory_limit = limit;
    fold_constants(copy, options);
    int found = 0;
    for (const GraphOutput& output : copy.outputs()) found += copy.constant(output.value) != nullptr;
    return found;
  };
  EXPECT_EQ(constants_after(-1), 8);
  EXPECT_EQ(constants_after(3'500'000), 3);
  EXPECT_EQ(constants_after(0), 0);
}

TEST(Memory, TheReferenceDeviceGivesOutConstants) {
  Graph graph;
  const ValueId x = graph.add_input("x", TensorType::parse("f32[2]"));
  graph.add_output("y", graph.add_constant("c", Tensor::of<float>({2}, {3, 4})));
  graph.add_output("z", x);
  const auto engine = build_engine(graph, {}, BuildOptions{.device = "reference", .measure = false});
  Session session(engine);
  const auto outputs = session.run({Tensor::of<float>({2}, {1, 2})});
  EXPECT_EQ(outputs[0].to_doubles(), (std::vector<double>{3, 4}));
  EXPECT_EQ(outputs[1].to_doubles(), (std::vector<double>{1, 2}));
}

}  // namespace
}  // namespace temper
