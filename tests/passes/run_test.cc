// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>

#include "base/file.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "passes/pipeline.h"

namespace temper {
namespace {

constexpr std::string_view kText =
    "graph \"g\"\ninput %a: f32[2,3]\ninput %b: f32[3,5]\n%p: f32[2,5] = matmul(%a, %b)\n"
    "%y: f32[2,5] = pointwise(%p) program=\"(1) 1=relu.f32(0)\"\noutput \"y\" = %y\n";

TEST(RunPasses, ADisabledPassDoesNotRun) {
  Graph graph = parse_graph(kText);
  PassOptions options;
  options.disabled = {"fuse_epilogues"};
  const auto timings = run_passes(graph, options);
  EXPECT_EQ(print(graph), kText);
  for (const PassTiming& timing : timings) EXPECT_NE(timing.name, "fuse_epilogues");
  run_passes(graph);
  EXPECT_EQ(graph.node_count(), 1);
}

TEST(RunPasses, AllDisabledLeavesTheGraphAsImported) {
  Graph graph = parse_graph(kText);
  PassOptions options;
  options.all_disabled = true;
  EXPECT_TRUE(run_passes(graph, options).empty());
  EXPECT_EQ(print(graph), kText);
}

TEST(RunPasses, AnUnknownNameIsRefusedWithTheKnownOnes) {
  Graph graph = parse_graph(kText);
  PassOptions options;
  options.disabled = {"fuse_everything"};
  try {
    run_passes(graph, options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("fuse_epilogues"), std::string::npos) << error.what();
  }
}

TEST(RunPasses, DumpsTheGraphAfterEachPassThatChangedIt) {
  const auto folder = std::filesystem::temp_directory_path() / "temper_run_passes_test";
  std::filesystem::remove_all(folder);
  Graph graph = parse_graph(kText);
  PassOptions options;
  options.dump_folder = folder.string();
  run_passes(graph, options);
  std::vector<std::filesystem::path> files(std::filesystem::directory_iterator(folder), {});
  ASSERT_EQ(files.size(), 1u);
  EXPECT_NE(files[0].filename().string().find("-fuse_epilogues.txt"), std::string::npos);
  EXPECT_EQ(read_file(files[0].string()), print(graph));
  std::filesystem::remove_all(folder);
}

TEST(RunPasses, EveryPipelineIsDumpedAndDisabledByName) {
  const auto folder = std::filesystem::temp_directory_path() / "temper_run_passes_pipelines_test";
  PassOptions options;
  options.dump_folder = folder.string();
  const auto dumps_of = [&](const Pipeline& pipeline) {
    std::filesystem::remove_all(folder);
    Graph graph = parse_graph(kText);
    run_passes(graph, options, pipeline);
    std::set<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(folder)) names.insert(file.path().filename());
    std::filesystem::remove_all(folder);
    return names;
  };
  const auto nothing = [](Graph&, const PassOptions&) { return false; };
  const auto rename = [](Graph& graph, const PassOptions&) {
    graph.name = "placed";
    return true;
  };
  using Names = std::set<std::string>;
  const Pipeline quantize = quantize_pipeline(nothing, rename, {"p"});
  EXPECT_EQ(dumps_of(quantize),
            (Names{"2-quantize-05-place_quantization.txt", "2-quantize-16-fuse_epilogues.txt",
                   concat("2-quantize-", quantize.passes.size(), "-lower_precision.txt")}));  // the last
  EXPECT_EQ(dumps_of(precision_pipeline({.tf32 = true}, nullptr)), Names{"3-precision-05-allow_tf32.txt"});
  LoweringReport report;
  const Pipeline bf16 = precision_pipeline({.dtype = DType::bf16}, &report);
  EXPECT_EQ(dumps_of(bf16), Names{"3-precision-04-lower_precision.txt"});
  EXPECT_EQ(report.lowered_products, 1);
  options.all_disabled = true;  // but for the precision that was asked for
  EXPECT_EQ(dumps_of(bf16), Names{"3-precision-04-lower_precision.txt"});
  options.disabled = {"lower_precision"};
  EXPECT_EQ(dumps_of(bf16), Names{});
  for (const std::string_view name : pass_names()) options.disabled.emplace(name);
  EXPECT_EQ(dumps_of(quantize_pipeline(nothing, rename, {"p"})), Names{});
}

TEST(RunPasses, APassBehindAnotherOneRunsWhereThatChangedSomething) {
  for (const bool changes : {false, true}) {
    Graph graph = parse_graph(kText);
    const auto first = [&](Graph&, const PassOptions&) { return changes; };
    const auto second = [](Graph&, const PassOptions&) { return false; };
    EXPECT_EQ(run_passes(graph, {}, {1, "two", {{"first", first}, {"second", second, "first"}}}).size(),
              changes ? 2u : 1u);
  }
}

// That a target of three elements does not fit two is known only once it has been computed.
TEST(RunPasses, AnErrorNamesThePassAndKeepsTheGraphBeforeIt) {
  const auto folder = std::filesystem::temp_directory_path() / "temper_run_passes_error_test";
  std::filesystem::remove_all(folder);
  Graph graph = parse_graph(
      "graph \"g\"\ninput %x: f32[2]\nconst %a: f32[1] = [3]\n%t: i64[1] = pointwise(%a) program=\"(1) "
      "1=cast.i64(0)\"\n"
      "%y: f32[$y.0.0] = reshape(%x, %t)\noutput \"y\" = %y\n");
  PassOptions options;
  options.dump_folder = folder.string();
  const std::string before = print(graph);
  try {
    run_passes(graph, options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).rfind("pass fold_constants: ", 0), 0u) << error.what();
  }
  EXPECT_EQ(read_file((folder / "1-portable-01-fold_constants.before.txt").string()), before);
  std::filesystem::remove_all(folder);
}

// 60000 nodes in chains with shared constants: a pass that is quadratic anywhere takes minutes here.
TEST(RunPasses, TakeTimeInProportionToTheSizeOfTheGraph) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {Dim::symbol("n"), 4}});
  const ValueId w = graph.add_constant("w", Tensor::of<float>({4, 4}, std::vector<float>(16, 0.1f)));
  ValueId chain = x, products = x;
  for (int i = 0; i < 15000; ++i) {
    const ValueId c = graph.add_constant(concat("c", i), Tensor::of<float>({4}, {1, 2, 3, float(i % 7)}));
    Program add, relu;
    add.inputs = 2;
    add.push({Scalar::add, DType::f32, {0, 1, -1}});
    relu.push({Scalar::relu, DType::f32, {0, -1, -1}});
    chain = graph.add_single(ops::Pointwise{add}, {chain, c}, concat("a", i));
    chain = graph.add_single(ops::Pointwise{relu}, {chain}, concat("r", i));
    products = graph.add_single(ops::MatMul{}, {products, w}, concat("p", i));
    products = graph.add_single(ops::Pointwise{add}, {products, c}, concat("q", i));
  }
  graph.add_output("chain", chain);
  graph.add_output("products", products);
  const std::clock_t start = std::clock();  // of the processor: the machine may be busy with others
  run_passes(graph);
  EXPECT_LT(double(std::clock() - start) / CLOCKS_PER_SEC, 20);
  EXPECT_LT(graph.node_count(), 20000);
}

}  // namespace
}  // namespace temper
