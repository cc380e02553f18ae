// SPDX-License-Identifier: Apache-2.0
// explain as a user calls it, on plans and on layer files.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../interop/trex.h"
#include "../paths.h"
#include "program.h"

namespace temper {
namespace {

// Writes the three files of an engine into the folder, and gives their names as arguments.
std::string trex(const std::string& folder, const std::string& name) {
  std::string arguments;
  for (const char* kind : {".graph.json", ".profile.json", ".timing.json"}) {
    write_file_atomically(folder + name + kind, trex_file(name, kind));
    arguments += concat(' ', name, kind);
  }
  return arguments;
}

TEST(ExplainVerb, AnIntegerPlanIsProfiledAndExplainedBesideItsFloatOne) {
  const std::string folder = test_folder();
  ASSERT_EQ(temper(folder, "zoo digits_cnn -o m.onnx").code, 0);
  ASSERT_EQ(temper(folder, "calibrate m.onnx --placeholder-data -o r.json").code, 0);
  const std::string flags = " --threads 1 --quick --shapes image=4x1x8x8";
  ASSERT_EQ(temper(folder, "build m.onnx -o f.plan" + flags).code, 0);
  const Outcome built = temper(folder, "build m.onnx -o i.plan --precision int8 --calibration r.json" + flags);
  ASSERT_EQ(built.code, 0) << built.err;
  const Outcome done = temper(folder, "explain i.plan f.plan --duration 100ms --json");
  ASSERT_EQ(done.code, 0) << done.err;
  const auto json = nlohmann::json::parse(done.out);
  EXPECT_EQ(json.at("schema"), "temper.explain/1");
  ASSERT_EQ(json.at("engines").size(), 2u);
  const auto &fp32 = json["engines"][0], &int8 = json["engines"][1];  // the wider first
  EXPECT_EQ(fp32.at("name"), "f.plan");
  EXPECT_EQ(fp32.at("asked"), "fp32");
  EXPECT_EQ(int8.at("asked"), "int8");
  EXPECT_FALSE(int8.at("asked_is_lowest_seen"));
  EXPECT_EQ(int8.at("source"), "temper");
  EXPECT_GT(int8.at("run_ms").get<double>(), 0);
  EXPECT_GT(int8.at("products").at("asked").get<int>(), 0);
  EXPECT_EQ(fp32.at("products").at("all"), int8.at("products").at("all"));
  EXPECT_EQ(fp32.at("products").at("writing_wider"), 0);
  for (const auto& engine : json["engines"]) {
    double share = 0, ms = 0;
    for (const auto& p : engine.at("precisions")) {
      share += p.at("share").get<double>();
      ms += p.at("ms").get<double>();
    }
    EXPECT_NEAR(share, 1, 1e-9);
    EXPECT_NEAR(ms, engine.at("layers_ms").get<double>(), 1e-9);
  }
  ASSERT_EQ(json.at("steps").size(), 1u);

  const Outcome text = temper(folder, "explain f.plan --duration 50ms -o x.md");
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_CONTAINS(text.out, "Asked for FP32. Yes: all");
  EXPECT_CONTAINS(read_file(folder + "x.md"), "## f.plan");
  const Outcome other = temper(folder, "explain f.plan --duration 50ms --asked int8");
  EXPECT_EQ(other.code, 2);
  EXPECT_CONTAINS(other.err, "'f.plan' says that it was built for fp32, so --asked int8 contradicts it");
  EXPECT_EQ(temper(folder, "explain f.plan --duration 50ms --asked fp32").code, 0);
  const Outcome both = temper(folder, "explain f.plan --duration 50ms --asked int8 --json" + trex(folder, "fp16"));
  ASSERT_EQ(both.code, 0) << both.err;
  const auto engines = nlohmann::json::parse(both.out).at("engines");
  for (const auto& engine : engines)
    EXPECT_EQ(engine.at("asked"), engine.at("source") == "temper" ? "fp32" : "int8") << "of the file that lacks it";
}

TEST(ExplainVerb, LayerFilesOfTensorrtAreExplainedInWords) {
  const std::string folder = test_folder();
  const Outcome done = temper(folder, "explain" + trex(folder, "qat") + trex(folder, "fp16") + " -o x.json");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_CONTAINS(done.out, "qat is INT8 and no faster than fp16 (FP16): 0.8826 ms against 0.8622 ms");
  EXPECT_CONTAINS(done.out, "1. Residual additions are not quantized: about 31.6 %, 0.279 ms");
  EXPECT_CONTAINS(done.out, "place Q/DQ on the residual inputs too");
  EXPECT_CONTAINS(done.out, "25.4 % of the time");
  EXPECT_EQ(nlohmann::json::parse(read_file(folder + "x.json")).at("engines").size(), 2u);
  const Outcome asked = temper(folder, "explain --asked int8" + trex(folder, "fp16"));
  EXPECT_CONTAINS(asked.out, "No: none of 21 convolutions and products compute in INT8");
  EXPECT_CONTAINS(temper(folder, "explain --markdown" + trex(folder, "qat")).out,
                  "1. **Residual additions are not quantized**");
}

TEST(ExplainVerb, OptionsOfARunAreRefusedWhereNoFileIsAPlan) {
  const std::string folder = test_folder();
  for (const std::string option : {"--batch 8", "--input d.npz", "--duration 1s", "--timing-cache t", "--isa base"}) {
    const Outcome outcome = temper(folder, "explain " + option + trex(folder, "qat"));
    EXPECT_EQ(outcome.code, 2) << option;
    EXPECT_CONTAINS(outcome.err, option.substr(0, option.find(' ')) + " is of plans");
  }
}

TEST(ExplainVerb, WrongFilesAreNamed) {
  const std::string folder = test_folder();
  write_file_atomically(folder + "m.json", R"({"model_options": {}})");
  write_file_atomically(folder + "cut.json", fixture("trex/qat.graph.json").substr(0, 5000));
  write_file_atomically(folder + "e.json", "");
  write_file_atomically(folder + "m.onnx", "model");
  const struct {
    std::string arguments, says;
    int code;
  } cases[] = {{"explain", "files is required", 2},
               {"explain none.json", "none.json", 3},
               {"explain m.json", "neither a plan nor a file of trtexec", 3},
               {"explain e.json", "neither a plan nor a file of trtexec", 3},
               {"explain cut.json", "cut.json: the layer information is damaged", 3},
               {"explain --asked int9" + trex(folder, "qat"), "'int9' is no precision", 2},
               {"explain m.onnx", "temper build m.onnx", 2},
               {"explain" + trex(folder, "qat") + " qat.profile.json qat.timing.json", "both layer profiles", 2}};
  for (const auto& c : cases) {
    const Outcome done = temper(folder, c.arguments);
    EXPECT_EQ(done.code, c.code) << c.arguments;
    EXPECT_CONTAINS(done.err, c.says);
    EXPECT_EQ(done.out, "");
  }
}

}  // namespace
}  // namespace temper
