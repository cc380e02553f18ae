// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "graph/ops/concat.h"
#include "graph/ops/conv.h"
#include "graph/ops/conv_transpose.h"
#include "graph/ops/gather.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/pool.h"
#include "graph/ops/reduce.h"
#include "graph/ops/reshape.h"
#include "graph/ops/resize.h"
#include "optimize/build_engine.h"
#include "optimize/precision.h"
#include "optimize/segments.h"
#include "plan/execute_host.h"
#include "plan/planner.h"
#include "runtime/independent.h"

namespace temper {
namespace {

Tensor filled(const Dims& dims, uint32_t seed) {
  Tensor tensor(DType::f32, dims);
  uint32_t state = seed;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    state = state * 1664525u + 1013904223u;
    tensor.data<float>()[i] = float(int32_t(state)) / 2147483648.0f;
  }
  return tensor;
}

// Two convolutions with a residual, a pool, a mean and a matrix: every kind of border, view and epilogue.
Graph small_network(const Dim& batch, const Dim& size) {
  Graph graph;
  graph.name = "small";
  ops::Conv conv;
  conv.strides = conv.dilations = {1, 1};
  conv.pads = {1, 1, 1, 1};
  conv.epilogue = Program::parse("(2) 2=add.f32(0,1) 3=relu.f32(2)");
  ValueId x = graph.add_input("x", {DType::f32, {batch, 3, size, size}});
  ValueId a = graph.add_single(
      conv, {x, graph.add_constant("w1", filled({16, 3, 3, 3}, 1)), graph.add_constant("b1", filled({16, 1, 1}, 2))},
      "conv1");
  conv.epilogue = Program::parse("(3) 3=add.f32(0,1) 4=add.f32(3,2) 5=relu.f32(4)");
  ValueId b = graph.add_single(
      conv,
      {a, graph.add_constant("w2", filled({16, 16, 3, 3}, 3)), graph.add_constant("b2", filled({16, 1, 1}, 4)), a},
      "conv2");
  ops::Pool pool;
  pool.kernel = pool.strides = {2, 2};
  pool.dilations = {1, 1};
  pool.pads = {0, 0, 0, 0};
  ValueId p = graph.add_single(pool, {b}, "pool");
  ops::Reduce mean;
  mean.kind = ops::ReduceKind::mean;
  mean.axes = {2, 3};
  ValueId m = graph.add_single(mean, {p}, "mean");
  ops::Reshape reshape;
  reshape.shape = {batch, 16};
  ValueId flat = graph.add_single(reshape, {m}, "flat");
  ops::MatMul matmul;
  graph.add_output("y", graph.add_single(matmul, {flat, graph.add_constant("w3", filled({16, 10}, 5))}, "fc"));
  graph.add_output("features", flat);
  return graph;
}

void expect_near(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t o = 0; o < got.size(); ++o) {
    ASSERT_EQ(got[o].dims(), wanted[o].dims());
    for (int64_t i = 0; i < got[o].count(); ++i)
      ASSERT_NEAR(got[o].data<float>()[i], wanted[o].data<float>()[i],
                  1e-4 + 1e-4 * std::abs(wanted[o].data<float>()[i]))
          << o << " at " << i;
  }
}

BuildOptions fixed(const Dims& dims, bool measure) {
  BuildOptions options;
  options.threads = 2;
  options.measure = measure;
  options.shapes["x"] = {dims, dims, dims};
  return options;
}

TEST(Build, PlanGivesTheReferencesAnswer) {
  const Graph graph = small_network(Dim::symbol("n"), 9);
  const Tensor x = filled({3, 3, 9, 9}, 7);
  Session session(build_engine(graph, {}, fixed(x.dims(), true)));
  expect_near(session.run({x}), run_reference(graph, {x}));
}

// A constant lies in plain order, whatever order its neighbours are in.
TEST(Build, AConstantBesideABlockedValueIsReadInThatOrder) {
  Graph graph;
  ops::Conv conv;
  conv.strides = conv.dilations = {1, 1};
  conv.pads = {1, 1, 1, 1};
  const ValueId x = graph.add_input("x", {DType::f32, {1, 16, 9, 9}});
  const ValueId a = graph.add_single(conv, {x, graph.add_constant("w1", filled({32, 16, 3, 3}, 1))}, "conv1");
  const ValueId both =
      graph.add_single(ops::Concat{1}, {a, graph.add_constant("c", filled({1, 32, 9, 9}, 2))}, "concat");
  graph.add_output("y", graph.add_single(conv, {both, graph.add_constant("w2", filled({16, 64, 3, 3}, 3))}, "conv2"));
  const Tensor in = filled({1, 16, 9, 9}, 7);
  for (const bool measure : {false, true}) {
    Session session(build_engine(graph, {}, fixed(in.dims(), measure)));
    expect_near(session.run({in}), run_reference(graph, {in}));
  }
}

// In front of a page that must not be read.
Tensor guarded(const Tensor& tensor) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE)), bytes = size_t(tensor.bytes()),
               all = (bytes + page - 1) / page * page + page;
  auto* memory =
      static_cast<std::byte*>(mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(memory + all - page, page, PROT_NONE);
  std::byte* const at = memory + all - page - bytes;
  std::memcpy(at, tensor.raw().data(), bytes);
  return Tensor::view(tensor.dtype(), tensor.dims(), at,
                      std::shared_ptr<const void>(memory, [all](const void* m) { munmap(const_cast<void*>(m), all); }));
}

// 197 rows in blocks of 16 take more memory than the constant has.
TEST(Build, AConstantThatACandidateReadsInBlocksIsTimedInMemoryOfThatSize) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {1, 197, 192}});
  const Tensor constant = guarded(filled({1, 197, 192}, 1)), in = filled({1, 197, 192}, 2);
  ops::Pointwise add;
  add.program = Program::parse("(2) 2=add.f32(0,1)");
  graph.add_output("y", graph.add_single(add, {x, graph.add_constant("c", constant)}, "add"));
  Session session(build_engine(graph, {}, fixed(in.dims(), true)));
  expect_near(session.run({in}), run_reference(graph, {in}));
}

// A table of two rows, or of one, is looked up while kernels are timed, too.
TEST(Build, KernelsAreTimedWithIndicesThatEveryTableHas) {
  for (const int64_t rows : {1, 2}) {
    Graph graph;
    const ValueId x = graph.add_input("x", {DType::i64, {4, 5}});
    const ValueId found =
        graph.add_single(ops::Gather{}, {graph.add_constant("table", filled({rows, 8}, 1)), x}, "gather");
    ops::MatMul matmul;
    graph.add_output("y", graph.add_single(matmul, {found, graph.add_constant("w", filled({8, 3}, 2))}, "fc"));
    Tensor in(DType::i64, {4, 5});
    for (int64_t i = 0; i < in.count(); ++i) in.data<int64_t>()[i] = i % rows;
    Session session(build_engine(graph, {}, fixed(in.dims(), true)));
    expect_near(session.run({in}), run_reference(graph, {in}));
  }
}

// What a decoder does: back to the picture's size by a transposed convolution, and twice that by linear interpolation.
Graph small_decoder(const Dim& batch) {
  Graph graph;
  ops::ConvTranspose up;
  up.strides = {2, 2};
  up.dilations = {1, 1};
  up.pads = {0, 0, 0, 0};
  up.output_padding = {0, 0};
  up.epilogue = Program::parse("(2) 2=add.f32(0,1) 3=relu.f32(2)");
  const ValueId x = graph.add_input("x", {DType::f32, {batch, 3, 9, 9}});
  const ValueId a = graph.add_single(
      up, {x, graph.add_constant("w1", filled({3, 8, 2, 2}, 1)), graph.add_constant("b1", filled({8, 1, 1}, 2))}, "up");
  ops::Resize resize;
  resize.kind = ops::ResizeKind::linear;
  resize.sizes = {batch, 8, 36, 36};
  resize.scales = {1, 1, 2, 2};
  const ValueId b = graph.add_single(resize, {a}, "resize");
  ops::Conv conv;
  conv.strides = conv.dilations = {1, 1};
  conv.pads = {1, 1, 1, 1};
  graph.add_output("y", graph.add_single(conv, {b, graph.add_constant("w2", filled({4, 8, 3, 3}, 3))}, "conv"));
  return graph;
}

void expect_every_way_to_slice_gives_the_same_answer(const Graph& graph) {
  const Tensor x = filled({4, 3, 9, 9}, 7);
  const auto wanted = run_reference(graph, {x});
  const Backend& backend = find_backend("cpu");
  const Device device = open_device("cpu");
  const auto groups = find_groups(graph, analyze_batch(graph));
  ASSERT_GE(groups.size(), 3u);
  for (const int64_t slice : {1, 2})
    for (const bool parallel : {false, true})
      for (size_t border = 0; border < groups.size(); ++border) {
        PlanOptions options;
        options.threads = 2;
        options.segments.push_back({0, groups[border].last, slice, parallel});
        if (groups[border].last + 1 < graph.node_count())
          options.segments.push_back({groups[border].last + 1, graph.node_count() - 1, slice == 1 ? 2 : 0, !parallel});
        const Plan plan = build_plan(graph, backend, device, options);
        Arena arena(device);
        HostExecutor executor(plan, device, arena);
        std::vector<Tensor> outputs;
        std::vector<void*> out;
        for (const PortInfo& port : plan.outputs) {
          outputs.emplace_back(port.type.dtype, port.type.dims());
          out.push_back(outputs.back().raw_mutable());
        }
        const void* in = x.raw().data();
        executor.run({&in, 1}, out);
        expect_near(outputs, wanted);
      }
}

TEST(Build, EveryWayToSliceTheBatchGivesTheSameAnswer) {
  expect_every_way_to_slice_gives_the_same_answer(small_network(4, 9));
}

TEST(Build, SamplesOfADecoderAreIndependent) {
  BuildOptions options = fixed({4, 3, 9, 9}, false);
  options.shapes["x"] = {{1, 3, 9, 9}, {4, 3, 9, 9}, {4, 3, 9, 9}};
  EXPECT_TRUE(samples_are_independent(*build_engine(small_decoder(Dim::symbol("n")), {}, options)));
}

TEST(Build, DecodersRunInSlicesOfTheBatchWithTheSameAnswer) {
  const Graph graph = small_decoder(4);
  for (const char sliceable : analyze_batch(graph).node_sliceable) EXPECT_TRUE(sliceable);
  expect_every_way_to_slice_gives_the_same_answer(graph);
}

TEST(Build, Bf16KeepsTheAnswerInSlicesTooAndIsRefusedByNameWhereTheCpuHasNotTheInstructions) {
  const Graph graph = small_network(4, 9);
  const Tensor x = filled({4, 3, 9, 9}, 7);
  BuildOptions options = fixed(x.dims(), true);
  options.precision = "bf16";
  if (!open_device("cpu").avx512_bf16) {
    try {
      build_engine(graph, {}, options);
      FAIL() << "bf16 was emulated";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported);
      EXPECT_NE(std::string(error.what()).find(why_no_bf16()), std::string::npos) << error.what();
    }
    return;
  }
  const auto engine = build_engine(graph, {}, options);
  EXPECT_EQ(engine->info().products, 3);
  EXPECT_EQ(engine->info().lowered_products, 3);
  const auto wanted = run_reference(graph, {x}), got = Session(engine).run({x});
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t o = 0; o < got.size(); ++o) {
    ASSERT_EQ(got[o].type(), wanted[o].type());
    double square = 0, error = 0;
    bool rounded = false;
    for (int64_t i = 0; i < got[o].count(); ++i) {
      const double g = got[o].data<float>()[i], w = wanted[o].data<float>()[i];
      square += w * w, error += (g - w) * (g - w);
      rounded |= g != w;
    }
    EXPECT_LE(std::sqrt(error / square), 0.01) << o;  // half an ulp of bf16 is 0.002 of a value
    EXPECT_TRUE(rounded) << o;
  }
}

TEST(Build, RangesAreGivenThemselvesOrAsAFile) {
  BuildOptions options;
  options.measure = false;
  options.precision = "int8";
  options.ranges = std::make_shared<const Ranges>();
  options.calibration = "ranges.json";
  try {
    build_engine(small_network(Dim(2), Dim(8)), {}, options);
    ADD_FAILURE() << "both were taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("ranges are given twice"), std::string::npos) << error.what();
  }
}

TEST(Build, AnUnseenBatchInsideTheProfileIsPlannedOnceAndRight) {
  const Graph graph = small_network(Dim::symbol("n"), 9);
  BuildOptions options;
  options.threads = 2;
  options.shapes["x"] = {{1, 3, 9, 9}, {2, 3, 9, 9}, {8, 3, 9, 9}};
  Session session(build_engine(graph, {}, options));
  for (int round = 0; round < 2; ++round) {
    const Tensor x = filled({5, 3, 9, 9}, 11);
    expect_near(session.run({x}), run_reference(graph, {x}));
    EXPECT_EQ(session.statistics().plans_made, 1);
  }
  try {
    session.run({filled({9, 3, 9, 9}, 1)});
    FAIL() << "a batch of 9 is outside the profile";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("from [1,3,9,9] to [8,3,9,9]"), std::string::npos) << error.what();
  }
}

TEST(Build, OpenSpatialAxisWithoutShapesNamesTheLineToAdd) {
  try {
    build_engine(small_network(1, Dim::symbol("h")), {}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("--shapes x=1x3x224x224"), std::string::npos) << error.what();
  }
}

TEST(Build, AnInputOfTheWrongDtypeIsRefusedWithWhatIsExpected) {
  Session session(build_engine(small_network(1, 9), {}, fixed({1, 3, 9, 9}, false)));
  try {
    session.run({Tensor(DType::f64, {1, 3, 9, 9})});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("expected is f32[1,3,9,9]"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace temper
