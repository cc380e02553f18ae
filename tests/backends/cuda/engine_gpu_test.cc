// SPDX-License-Identifier: Apache-2.0
// Whole models on a GPU: plans, files, sessions, precisions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "../../plan/helpers.h"
#include "bench/bench_engine.h"
#include "cuda_test_helpers.h"
#include "optimize/build_engine.h"

namespace temper {
namespace {

DeviceSettings settings() { return {testing::cuda_search().folders}; }

std::shared_ptr<Engine> gpu_engine(Graph graph, const std::string& precision = "fp32",
                                   std::map<std::string, ShapeRange> shapes = {}) {
  BuildOptions options;
  options.device = "cuda:0";
  options.device_settings = settings();
  options.precision = precision;
  options.shapes = std::move(shapes);
  return build_engine(std::move(graph), info_of("cuda:0"), options);
}

std::vector<Tensor> run(const std::shared_ptr<const Engine>& engine, const std::vector<Tensor>& inputs) {
  return Session(engine).run(inputs);
}

std::vector<Tensor> reference_answer(const Graph& graph, const std::vector<Tensor>& inputs) {
  BuildOptions options;
  options.device = "reference";
  options.passes.all_disabled = true;
  return run(build_engine(graph, info_of("reference"), options), inputs);
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double most = 0;
  const std::vector<double> x = a.to_doubles(), y = b.to_doubles();
  for (size_t i = 0; i < x.size(); ++i) most = std::max(most, std::fabs(x[i] - y[i]));
  return most;
}

TEST(CudaEngine, AnswersAsTheReferenceInEveryPrecision) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  const Graph graph = small_graph("5");
  const std::vector<Tensor> inputs{noise({5, 3, 8, 8}, 9)};
  const Tensor want = reference_answer(graph, inputs)[0];
  const std::pair<const char*, double> precisions[] = {{"fp32", 1e-5}, {"fp16", 2e-2}, {"bf16", 1e-1}};
  for (const auto& [precision, tolerance] : precisions) {
    const auto engine = gpu_engine(graph, precision);
    const Tensor got = run(engine, inputs)[0];
    EXPECT_LE(largest_difference(got, want), tolerance) << precision;
    EXPECT_TRUE(run(engine, inputs)[0].same_bits(got)) << precision << ": two runs differ";
  }
}

TEST(CudaEngine, ASavedPlanGivesTheSameBits) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  const auto engine = gpu_engine(small_graph("2"), "fp16");
  const std::vector<Tensor> inputs{noise({2, 3, 8, 8}, 4)};
  const Tensor file = file_bytes(*engine);
  const auto loaded =
      std::make_shared<const Engine>(read_plan(file.raw(), nullptr, {.settings = settings()}), settings());
  EXPECT_TRUE(run(loaded, inputs)[0].same_bits(run(engine, inputs)[0]));
}

TEST(CudaEngine, OneSessionServesManyShapesInAnyOrder) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  const auto engine = gpu_engine(small_graph("n"), "fp32", {{"x", {{1, 3, 8, 8}, {4, 3, 8, 8}, {9, 3, 8, 8}}}});
  Session session(engine);
  for (int64_t batch : {4, 1, 9, 3, 9, 1, 4}) {
    const std::vector<Tensor> inputs{noise({batch, 3, 8, 8}, uint32_t(batch))};
    EXPECT_LE(largest_difference(session.run(inputs)[0], reference_answer(small_graph(concat(batch)), inputs)[0]), 1e-5)
        << batch;
  }
}

TEST(CudaEngine, SessionsOnSeveralThreadsDoNotDisturbEachOther) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  const auto engine = gpu_engine(small_graph("3"));
  std::vector<std::string> errors(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < errors.size(); ++t)
    threads.emplace_back([&, t] {
      Session session(engine);
      const std::vector<Tensor> inputs{noise({3, 3, 8, 8}, uint32_t(t))};
      const Tensor first = session.run(inputs)[0];
      for (int i = 0; i < 20; ++i)
        if (!session.run(inputs)[0].same_bits(first)) errors[t] = "two runs differ";
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

// An op without a GPU kernel runs on the CPU, and the engine says so.
TEST(CudaEngine, WhatTheGpuCannotDoRunsOnTheCpuAndIsNamed) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  const Graph graph = parse_graph(
      "graph \"g\"\n"
      "input %x: f32[2,8]\n"
      "%r: f32[2,8] = pointwise(%x) program=\"(1) 1=relu.f32(0)\"\n"
      "const %axis: i64[] = #0\n"
      "%c: f32[2,8] = cumulative(%r, %axis)\n"
      "%y: f32[2,8] = pointwise(%c) program=\"(1) 1=neg.f32(0)\" @\"last\"\n"
      "output \"y\" = %y\n",
      std::vector<Tensor>{Tensor::of<int64_t>({}, {1})});
  const auto engine = gpu_engine(graph);
  const std::vector<Tensor> inputs{noise({2, 8}, 7)};
  EXPECT_LE(largest_difference(run(engine, inputs)[0], reference_answer(graph, inputs)[0]), 1e-6);
  const auto& notes = engine->info().notes;
  EXPECT_TRUE(std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
    return note.find("runs on the CPU") != std::string::npos && note.find("cumulative") != std::string::npos;
  }));
}

TEST(CudaEngine, TimesOnTheDeviceAreThoseOfItsSteps) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  const auto engine = gpu_engine(small_graph("64"));
  Session session(engine);
  const Tensor input = noise({64, 3, 8, 8}, 1);
  session.run({input});
  for (bool recorded : {true, false})
    for (double ms : session.run_on_device(3, recorded)) EXPECT_TRUE(ms > 0 && ms < 100) << ms;
  std::vector<double> shares;
  TimerOptions timer;
  timer.iterations = 20;
  LoadPattern load;
  load.transfers = true;
  load.device_ms = &shares;
  const BenchRun benched = bench_engine(engine, {input.dims()}, timer, load);
  for (size_t i = 0; i < shares.size(); ++i) EXPECT_TRUE(shares[i] > 0 && shares[i] < benched.samples_ms->at(i)) << i;
  EXPECT_EQ(shares.size(), 20u);
  std::vector<std::vector<double>> steps;
  Tensor output(DType::f32, {64, 10});
  const void* in = input.raw().data();
  void* out = output.raw_mutable();
  session.run_timed({&in, 1}, {&out, 1}, steps);
  for (const auto& segment : steps)
    for (double ms : segment) EXPECT_GT(ms, 0);
}

TEST(CudaEngine, BuffersInTheGpusMemoryGiveTheSameAnswers) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  const auto engine = gpu_engine(small_graph("n"), "fp32", {{"x", {{1, 3, 8, 8}, {4, 3, 8, 8}, {8, 3, 8, 8}}}});
  Session session(engine);
  const cuda::Stream copies(gpu);
  const auto address = [](const void* p) { return reinterpret_cast<cuda::DevicePointer>(p); };
  for (int64_t batch : {4, 8, 4}) {
    const Tensor x = noise({batch, 3, 8, 8}, uint64_t(batch)), want = session.run({x})[0];
    Tensor got(want.dtype(), want.dims());
    const auto in = session.allocate_resident(x.bytes() + 4), out = session.allocate_resident(got.bytes());
    const void* const inputs[] = {static_cast<std::byte*>(in.get()) + 4};  // aligned to an element only
    void* const outputs[] = {out.get()};
    copies.copy_to_device(address(inputs[0]), x.raw().data(), x.bytes());
    copies.synchronize();
    session.run_resident(inputs, outputs);
    copies.copy_to_host(got.raw_mutable(), address(outputs[0]), got.bytes());
    copies.synchronize();
    EXPECT_TRUE(got.same_bits(want)) << batch;
    const auto there = session.run_resident(inputs);
    copies.copy_to_host(got.raw_mutable(), address(there[0]), got.bytes());
    copies.synchronize();
    EXPECT_TRUE(got.same_bits(want)) << batch;
  }
}

TEST(CudaDevice, IsRefusedByNameWhereThereIsNone) {
  std::string why;
  if (testing::gpu(why)) {
    EXPECT_THROW(open_device("cuda:4096"), Error);
    return;
  }
  try {
    open_device("cuda:0");
    FAIL() << "a GPU was found after all";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_NE(std::string(error.what()).find("--device cpu"), std::string::npos) << error.what();
  }
}

TEST(CudaDevice, NamesAreABackendAndANumber) {
  EXPECT_EQ(find_backend("cuda").name, "cuda");
  EXPECT_EQ(find_backend("cuda:12").name, "cuda");
  for (const char* name : {"cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cpu:0", "gpu", ""})
    EXPECT_THROW(find_backend(name), Error) << name;
}

}  // namespace
}  // namespace temper
