// SPDX-License-Identifier: Apache-2.0
// --build-limit: a build ends wherever its time is over, and names the limit.
#include "base/build_time.h"

#include "../data/helpers.h"
#include "../paths.h"
#include "graph/ops/matmul.h"
#include "graph/ops/softmax.h"
#include "graph/ops/transpose.h"
#include "optimize/model_source.h"
#include "passes/pipeline.h"
#include "passes/smooth_channels.h"
#include "quantize/placement.h"

namespace temper {
namespace {

const std::string kOver = "the build takes longer than 7 s; --build-limit SECONDS sets another limit";
std::string digits() { return concat(paths::source_folder(), "/models/digits_cnn.onnx"); }

BuildOptions options_of(std::function<double()> now_s) {
  BuildOptions options;
  options.threads = 1;
  options.limits.time = BuildTime(7, std::move(now_s));
  return options;
}

TEST(BuildTime, RunsFromItsBeginningOnAndABuildWithinAnotherSharesIt) {
  double now = 100;
  BuildTime time(7, [&] { return now; });
  now = 1000;
  EXPECT_NO_THROW(time.check());  // it has not begun
  time.begin();
  now = 1006;
  time.begin();
  EXPECT_NO_THROW(time.check());
  now = 1007;
  EXPECT_EQ(error_of(ErrorKind::check_failed, [&] { time.check(); }), kOver);
  BuildTime none;
  none.begin();
  EXPECT_NO_THROW(none.check());
}

TEST(BuildTime, ABuildEndsInAnErrorAtEachPlaceThatAsksForTheTime) {
  const std::set<std::string> wanted{"node '",
                                     "pass fold_constants: ", "pass nest_concats: ", "pass fuse_neighbours: "};
  std::set<std::string> places;
  int asked = 0, most = 0;
  for (bool done = false; !done; ++most) {
    asked = 0;
    BuildOptions options = options_of([&] { return asked++ > most ? 1e9 : 0.0; });
    options.measure = false;
    try {
      build_engine(digits(), options);
      done = true;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::check_failed);
      const std::string text = error.what();
      EXPECT_CONTAINS(text, kOver);
      for (const std::string& place : wanted)
        if (text.find(place) != text.npos) places.insert(place);
    }
  }
  EXPECT_EQ(places, wanted);
  EXPECT_GT(most, 60);  // nodes, passes, planning steps
}

TEST(BuildTime, EveryPassAsksForItWithinALongGraph) {
  Graph graph;
  ValueId last = graph.add_input("x", TensorType::parse("f32[4,4]"));
  const ValueId weights = graph.add_constant("w", Tensor::of<float>({4, 4}, std::vector<float>(16, 0.5f)));
  last = graph.add_single(ops::Softmax{0}, {graph.add_single(ops::Transpose{{1, 0}}, {last}, "t")}, "s");
  constexpr int kNodes = 5000;
  for (int i = 0; i < kNodes; ++i) last = graph.add_single(ops::MatMul{}, {last, weights}, concat("m", i));
  graph.add_output("y", last);
  int asked = 0;
  PassOptions options;
  options.time = BuildTime(7, [&] {
    ++asked;
    return 0.0;
  });
  options.time.begin();
  const auto none = [](const Graph&, const Op&, const std::vector<ValueId>&) { return false; };
  const auto nowhere = [](const ConvPair&) { return false; };
  Ranges ranges;  // as calibration saw them
  ranges.values["x"] = {-1, 1, 0.01f, "minmax", 0, {}, {}};
  const auto smooth = [](Graph& each, const PassOptions& its) {
    return !smooth_channels(each, {}, {}, its.time).empty();
  };
  const auto place = [&](Graph& each, const PassOptions& its) {
    return place_quantization(each, ranges, {}, its.time).products > 0;
  };
  std::map<std::string, int, std::less<>> most_asked;  // some passes are for one kind of device
  for (const Pipeline& pipeline :
       {portable_pipeline(), widen_pipeline({}), quantize_pipeline(smooth, place, {}),
        precision_pipeline({.dtype = DType::bf16}, nullptr), precision_pipeline({.tf32 = true}, nullptr),
        device_pipeline(none, false), device_pipeline(none, true), blocks_pipeline(none), rows_pipeline(none),
        shapes_pipeline(none, nowhere, nullptr)})
    for (const Pass& pass : pipeline.passes) {
      Graph copy = graph;
      asked = 0;
      pass.run(copy, options);
      int& most = most_asked[std::string(pass.name)];
      most = std::max(most, asked);
    }
  for (const std::string_view name : pass_names()) EXPECT_GE(most_asked[std::string(name)], kNodes / 1024) << name;
  EXPECT_GE(most_asked["fuse_few_rows"], 2 * (kNodes / 1024));  // it looks at the nodes twice
  asked = 0;
  options.time = BuildTime(7, [&] { return asked++ > 3 ? 8.0 : 0.0; });
  options.time.begin();
  EXPECT_EQ(error_of(ErrorKind::check_failed, [&] { run_passes(graph, options); }),
            concat("pass fold_constants: ", kOver));
}

TEST(BuildTime, NoCandidateIsMeasuredOnceTheTimeIsOver) {
  bool over = false;
  int measured = 0;
  BuildOptions options = options_of([&] { return over ? 8.0 : 0.0; });
  options.progress = [&](const ProgressStep& step) {
    if (step.what.find("measuring candidates") == std::string::npos) return;
    over = true;
    ++measured;
  };
  EXPECT_CONTAINS(error_of(ErrorKind::check_failed, [&] { build_engine(digits(), options); }), kOver);
  EXPECT_EQ(measured, 1);
}

TEST(BuildTime, ALimitThatIsNoTimeIsRefused) {
  for (const double seconds : {0.0, -1.0}) {
    BuildOptions options;
    options.limits.time = BuildTime(seconds);
    EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { build_engine(digits(), options); }), "it is seconds, above 0");
  }
}

TEST(BuildTime, AModelThatIsGivenAsBytesOrAGraphHasTheSameLimit) {
  for (const ModelSource& source : {ModelSource{"<bytes>", read_file(digits()), {}},
                                    ModelSource{"<graph>", "", ModelSource{digits(), "", {}}.import().graph}}) {
    int asked = 0;
    BuildOptions options = options_of([&] { return 8.0 * asked++; });
    EXPECT_CONTAINS(error_of(ErrorKind::check_failed, [&] { build_engine(source, options); }), kOver);
  }
}

}  // namespace
}  // namespace temper
