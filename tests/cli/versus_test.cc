// SPDX-License-Identifier: Apache-2.0
// temper versus: engines that answer, and those that are missing, refuse, crash or hang.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "../paths.h"
#include "program.h"

namespace temper {
namespace {

using Json = nlohmann::json;

class Versus : public ::testing::Test {
 protected:
  Versus() : folder_(test_folder()) {
    run_python(folder_, R"(
import onnx
from onnx import helper as h, TensorProto as T, numpy_helper
W = np.random.default_rng(1).standard_normal((8, 8)).astype('f4')
g = h.make_graph([h.make_node('MatMul', ['x', 'W'], ['a']), h.make_node('Relu', ['a'], ['y'])], 'g', [h.make_tensor_value_info('x', T.FLOAT, ['batch', 8])],
                 [h.make_tensor_value_info('y', T.FLOAT, ['batch', 8])], [numpy_helper.from_array(W, 'W')])
onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), 'm.onnx')
)");
  }

  void SetUp() override {
    if (!TEMPER_PYTHON_PACKAGE) GTEST_SKIP() << "the Python package is not built with sanitizers and Clang";
  }

  // A trtexec that does this.
  std::string program(const std::string& script) {
    write_text(folder_ + "trtexec", "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(folder_ + "trtexec", std::filesystem::perms::owner_all);
    return " --trtexec ./trtexec";
  }

  Outcome versus(const std::string& arguments, const std::string& before = "") {
    return temper(
        folder_,
        "versus m.onnx --rounds 2 --duration 0.01s --threads 1 --quick --python '" TEMPER_PYTHON "' " + arguments,
        before);
  }
  // The engines of the only table, after an exit code that is no error (a verdict may be SLOWER).
  Json engines(const std::string& arguments, const std::string& before = "") {
    const Outcome outcome = versus("--json " + arguments, before);
    EXPECT_LE(outcome.code, 1) << outcome.err;
    return outcome.code > 1 ? Json::array() : Json::parse(outcome.out).at("rounds").at(0).at("engines");
  }

  std::string folder_;
};

TEST_F(Versus, TimesInTurnsAndComparesTheAnswers) {
  const Outcome outcome = versus("--with onnxruntime -o page.html --result result.json");
  EXPECT_LE(outcome.code, 1) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("verdict     Temper beside ONNX Runtime ")) << outcome.out;
  EXPECT_CONTAINS(outcome.out, "rounds of turns");
  const Json runs = Json::parse(read_file(folder_ + "result.json")).at("runs");
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_TRUE(runs[1].at("source").get<std::string>().starts_with("ONNX Runtime "));
  EXPECT_EQ(temper(folder_, "report result.json --markdown report.md").code, 0);
  EXPECT_CONTAINS(read_file(folder_ + "page.html"), "ONNX Runtime");
  const Json both = engines("--with onnxruntime --batch 3");
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].at("engine"), "temper");
  EXPECT_EQ(both[1].at("batch"), 3);
  EXPECT_EQ(both[1].at("round_ms").size(), 2u);
  EXPECT_LT(both[1].at("largest_difference").get<double>(), 1e-5);
  EXPECT_FALSE(both[1].at("answers_differ").get<bool>());
}

TEST_F(Versus, EnginesThatAreNotThereOrDoNotReadTheModelAreRowsWithReasons) {
  const Json all = engines("--with onnxruntime,litert,trtexec --trtexec ./nowhere");
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[1].at("failure"), nullptr);
  EXPECT_NE(all[2].at("failure"), nullptr);  // that it is not installed, or that it reads no ONNX
  EXPECT_CONTAINS(all[3].at("failure").get<std::string>(), "trtexec cannot be started");
  EXPECT_EQ(versus("--with tensorrt").code, int(ErrorKind::usage));
}

TEST_F(Versus, EnginesThatCrashOrHangCostTheOthersNothing) {
  write_text(folder_ + "m/onnxruntime/__init__.py", "import os\nos.kill(os.getpid(), 11)\n");
  const Json crashed = engines("--with onnxruntime", "export PYTHONPATH='" + folder_ + "m';");
  ASSERT_EQ(crashed.size(), 2u);
  EXPECT_EQ(crashed[0].at("failure"), nullptr);
  EXPECT_CONTAINS(crashed[1].at("failure").get<std::string>(), "was ended by SIGSEGV");
  // The limit is each engine's: on a busy machine those that do not hang need more of it to begin.
  for (int limit = 2;; limit *= 4) {
    const Json hung = engines(concat("--with onnxruntime,trtexec --limit ", limit, program("sleep 600")));
    ASSERT_EQ(hung.size(), 3u);
    EXPECT_CONTAINS(hung[2].at("failure").get<std::string>(), concat("did not end within ", limit, " s"));
    if (hung[0].at("failure") == nullptr && hung[1].at("failure") == nullptr) break;
    ASSERT_LT(limit, 100) << hung;
  }
  const Json failed = engines("--with trtexec" + program("echo '[E] no such engine'; exit 3"));
  EXPECT_CONTAINS(failed.at(1).at("failure").get<std::string>(), "ended with 3: [E] no such engine");
}

TEST_F(Versus, TrtexecIsAskedForTimesAndAnswers) {
  const Json both =
      engines("--with trtexec" + program("exec '" + paths::program() + "' trtexec \"$@\" --temperDevice=cpu"));
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[1].at("failure"), nullptr) << both[1];
  EXPECT_LT(both[1].at("largest_difference").get<double>(), 1e-5);
  EXPECT_GT(both[1].at("median_ms").get<double>(), 0);
}

TEST_F(Versus, ASweepFindsEachEnginesBestSetting) {
  const Outcome outcome =
      temper(folder_,
             "versus m.onnx --rounds 2 --duration 0.01s --quick --json --with onnxruntime --batch 1,4 --threads 1 "
             "--python '" TEMPER_PYTHON "'");
  EXPECT_LE(outcome.code, 1) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json.at("sweep").size(), 4u);  // two engines, two batches
  EXPECT_EQ(json.at("rounds")[0].at("what"), "latency at batch 1");
  EXPECT_EQ(json.at("rounds")[0].at("engines")[0].at("batch"), 1);
}

TEST_F(Versus, StreamsThatAreNamedAreMeasuredOrRefused) {
  const std::string versus =
      "versus m.onnx --rounds 2 --duration 0.01s --quick --no-measure --python '" TEMPER_PYTHON "' --with onnxruntime ";
  const Outcome refused = temper(folder_, versus + "--threads 4 --streams 100000");
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_CONTAINS(refused.err, "--streams 100000 with 4 threads each takes 400000 cores");
  const Outcome alone = temper(folder_, versus + "--streams 100000");
  EXPECT_EQ(alone.code, 2) << alone.err;
  EXPECT_CONTAINS(alone.err, "--streams 100000 with 1 thread each takes 100000 cores");
  EXPECT_EQ(temper(folder_, versus + "--threads 1 --streams 1,100000").code, 2);
}

TEST_F(Versus, ShapesSayTheBatch) {
  const Json both = engines("--with onnxruntime --shapes x=3x8");
  ASSERT_EQ(both.size(), 2u);
  for (const Json& engine : both) EXPECT_EQ(engine.at("batch"), 3);
}

TEST_F(Versus, APlanIsRefused) {
  ASSERT_EQ(temper(folder_, "build m.onnx -o m.plan --quick --quiet").code, 0);
  EXPECT_EQ(temper(folder_, "versus m.plan").code, int(ErrorKind::usage));
}

}  // namespace
}  // namespace temper
