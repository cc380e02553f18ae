// SPDX-License-Identifier: Apache-2.0
// Budgets for bf16 and for int8 with 16 bits, and layers that are kept by name: where the CPU has the instructions.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "../paths.h"
#include "backends/backend.h"
#include "program.h"

namespace temper {
namespace {

// Digits and their labels as good.npz, the model m.onnx, and its ranges r.json.
void make_digits(const std::string& folder) {
  run_python(folder, R"(
import sys
sys.path.insert(0, ')" + paths::source_folder() +
                         R"(/python')
import digits_data
_, _, images, labels = digits_data.load()
np.savez('good.npz', image=images[:60], labels=labels[:60])
np.savez('other.npz', image=images[60:100], labels=labels[60:100])
)");
  EXPECT_EQ(temper(folder, "zoo digits_cnn -o m.onnx").code, 0);
  EXPECT_EQ(temper(folder, "calibrate m.onnx --data good.npz -o r.json").code, 0);
}

TEST(MixedBf16, LayersThatLoseMostGoBackToFp32UntilTheBudgetHolds) {
  const std::string folder = test_folder();
  make_digits(folder);
  const std::string build = "build m.onnx -o m.plan --no-measure --precision bf16 ";
  if (temper(folder, build).code == 4) GTEST_SKIP() << "this CPU has no AVX512_BF16";
  const Outcome done = temper(folder, build + "--data good.npz --max-drop 0.0005% --metric snr --json");
  ASSERT_EQ(done.code, 0) << done.err;
  const auto found = nlohmann::json::parse(done.out);
  EXPECT_EQ(found.at("precision"), "bf16");
  EXPECT_TRUE(found.at("holds"));
  EXPECT_LE(found.at("drop").get<double>(), 5e-6);
  EXPECT_GT(found.at("drop_all_bf16").get<double>(), 5e-6) << "the budget is no test";
  std::string kept;
  int in_bf16 = 0;
  for (const auto& layer : found.at("layers"))
    if (layer.at("decision") == "fp32") kept += (kept.empty() ? "" : ",") + layer.at("layer").get<std::string>();
    else in_bf16 += layer.at("decision") == "bf16";
  EXPECT_FALSE(kept.empty());
  EXPECT_GT(in_bf16, 0);
  // The plan's command builds it again.
  const Outcome inspected = temper(folder, "inspect m.plan");
  EXPECT_CONTAINS(inspected.out, "--precision bf16 --keep-fp32 ");
  const Outcome again = temper(folder, build + "--keep-fp32 " + kept);
  EXPECT_CONTAINS(again.out, "kept by its name");
  EXPECT_CONTAINS(again.out, std::to_string(in_bf16) + " of " + std::to_string(found.at("layers").size()) +
                                 " convolutions and products in bf16");
}

TEST(MixedBf16, ALayerThatIsKeptStaysInFp32InAListOfPrecisions) {
  if (!open_device("cpu").avx512_bf16) GTEST_SKIP() << "this CPU has no AVX512_BF16";
  const std::string folder = test_folder();
  ASSERT_EQ(temper(folder, "zoo digits_cnn -o d.onnx").code, 0);
  const Outcome wrong =
      temper(folder, "bench d.onnx --no-measure --duration 0.05s --precision fp32,bf16 --keep-fp32 nonsense");
  EXPECT_NE(wrong.code, 0);
  EXPECT_CONTAINS(wrong.err, "'nonsense'");
}

TEST(MixedBf16, WhatMeansNothingIsRefused) {
  const std::string folder = test_folder();
  EXPECT_EQ(temper(folder, "zoo digits_cnn -o m.onnx").code, 0);
  if (temper(folder, "build m.onnx -o m.plan --no-measure --precision bf16").code == 4)
    GTEST_SKIP() << "this CPU has no AVX512_BF16";
  const auto refused = [&](const std::string& arguments, std::string_view part) {
    const Outcome outcome = temper(folder, "build m.onnx -o no.plan " + arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_CONTAINS(outcome.err, part);
  };
  refused(
      "--precision bf16 --keep-fp32 nobody",
      "'nobody', which is no layer of the optimised graph; build without it, and temper inspect PLAN --layers lists");
  refused("--precision bf16 --keep-bf16 conv1", "--keep-bf16 belong to --precision int8");
  refused("--keep-fp32 conv1", "--keep-fp32 belongs to --precision int8, fp8, fp16, bf16 and tf32, not to fp32");
  refused("--data m.onnx --max-drop 1%", "--max-drop is a budget for --precision int8, fp8, fp16, bf16 or tf32");
  refused("--precision bf16 --data m.onnx --max-drop 1% --raise-to bf16", "go back to fp32");
}

TEST(MixedInt8, WhatTheCpuDoesNotComputeIsRefusedAsItIsWithoutInt8) {
  const std::string folder = test_folder();
  make_digits(folder);
  const bool bf16 = open_device("cpu").avx512_bf16;
  const Outcome half = temper(folder, "build m.onnx -o no.plan --precision int8+fp16 --calibration r.json");
  EXPECT_EQ(half.code, 4);
  EXPECT_CONTAINS(half.err, concat("--precision int8+fp16 is not supported here: the CPU computes fp16 in fp32; use "
                                   "--precision ",
                                   bf16 ? "int8+bf16" : "int8"));
  const Outcome none = temper(folder, "build m.onnx -o no.plan --precision int8+fp8 --calibration r.json");
  EXPECT_EQ(none.code, 4);
  EXPECT_CONTAINS(none.err, bf16 ? "fp32, bf16, int8, int8+bf16 and best are" : "fp32, int8 and best are");
  const auto refused = [&](const std::string& arguments, std::string_view part) {
    const Outcome outcome = temper(folder, "build m.onnx -o no.plan " + arguments);
    if (!bf16 && outcome.code == 4) return;  // before what is wrong with it is looked at
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_CONTAINS(outcome.err, part);
  };
  refused("--precision int8+bf16", "--precision int8+bf16 needs the ranges of the model's values");
  refused("--precision int8+bf16 --calibration r.json --keep-fp16 conv1",
          "--keep-fp16 belongs to --precision int8+fp16");
  refused("--precision int8 --calibration r.json --keep-fp16 conv1", "--keep-fp16 belongs to --precision int8+fp16");
  refused("--precision int8+bf16 --data good.npz --max-drop 1% --raise-to fp16", "--raise-to fp16 does not go with");
  EXPECT_EQ(temper(folder, "build m.onnx -o no.plan --time-limit 0").code, 2);
  EXPECT_EQ(temper(folder, "build m.onnx -o no.plan --build-limit 0").code, 2);
}

TEST(MixedInt8, LayersAreInInt8Or16BitsAndTheAnswersStay) {
  const std::string folder = test_folder();
  make_digits(folder);
  if (!open_device("cpu").avx512_bf16) GTEST_SKIP() << "this CPU has no AVX512_BF16";
  const std::string build = "build m.onnx --force --quick --precision int8+bf16 --calibration r.json ";
  const Outcome done = temper(folder, build + "-o mix.plan");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_CONTAINS(done.out, "of 5 layers that may be in int8: all so ");
  EXPECT_CONTAINS(done.out, "5 of 5 convolutions and products in int8+bf16");
  EXPECT_CONTAINS(temper(folder, "inspect mix.plan").out, "--precision int8+bf16 --calibration r.json");
  EXPECT_EQ(nlohmann::json::parse(temper(folder, "inspect mix.plan --json").out).at("precision"), "int8+bf16");
  const Outcome judged = temper(folder, "evaluate mix.plan --data other.npz --reference m.onnx --json");
  ASSERT_EQ(judged.code, 0) << judged.err;
  const auto answers = nlohmann::json::parse(judged.out);
  EXPECT_GE(answers.at("top1").at("rate").get<double>(), 0.9) << judged.out;
  // Two are kept: one in bf16, one in fp32.
  const Outcome kept = temper(folder, build + "-o kept.plan --keep-bf16 conv1 --keep-fp32 fc2");
  ASSERT_EQ(kept.code, 0) << kept.err;
  EXPECT_CONTAINS(kept.out, "of 3 layers that may be in int8");
  EXPECT_CONTAINS(kept.out, "4 of 5 convolutions and products in int8+bf16; in fp32:");
  EXPECT_CONTAINS(kept.out, "kept by its name: fc2 (matmul)");
  EXPECT_EQ(temper(folder, "explain mix.plan --duration 50ms").code, 0);
  EXPECT_EQ(temper(folder, "bench mix.plan --duration 0.2s").code, 0);
}

TEST(MixedInt8, ABudgetRaisesLayersTo16Bits) {
  const std::string folder = test_folder();
  make_digits(folder);
  if (!open_device("cpu").avx512_bf16) GTEST_SKIP() << "this CPU has no AVX512_BF16";
  const Outcome done = temper(
      folder,
      "build m.onnx -o m.plan --quick --precision int8+bf16 --data good.npz --max-drop 0.01% --metric snr --json");
  ASSERT_EQ(done.code, 0) << done.err;
  const auto found = nlohmann::json::parse(done.out);
  EXPECT_EQ(found.at("precision"), "int8+bf16");
  EXPECT_TRUE(found.at("holds"));
  EXPECT_LE(found.at("drop").get<double>(), 1e-4);
  EXPECT_GT(found.at("drop_all_int8+bf16").get<double>(), 1e-4) << "the budget is no test";
  std::set<std::string> decisions;
  for (const auto& layer : found.at("layers")) decisions.insert(layer.at("decision"));
  EXPECT_TRUE(decisions.contains("bf16")) << done.out;
  EXPECT_TRUE(decisions.contains("int8+bf16")) << done.out;
}

TEST(BestPrecision, IsTheFastestOfThoseThatTheMachineAndTheRangesAllow) {
  const std::string folder = test_folder();
  make_digits(folder);
  const bool bf16 = open_device("cpu").avx512_bf16;
  const std::string build = "build m.onnx -o m.plan --force --quick --precision best --shapes image=8x1x8x8 ";
  const Outcome floats = temper(folder, build);
  ASSERT_EQ(floats.code, 0) << floats.err;
  const auto plan = nlohmann::json::parse(temper(folder, "inspect m.plan --json").out);
  const std::string notes = plan.at("notes").dump(), taken = plan.at("precision");
  EXPECT_TRUE(taken == "fp32" || (bf16 && taken == "bf16")) << taken;
  EXPECT_CONTAINS(notes, concat("the fastest precision is ", taken, ", of fp32 "));
  EXPECT_CONTAINS(notes,
                  concat(bf16 ? "; int8, int8+bf16" : "; int8", " not tried without --calibration; nobody looked"));
  EXPECT_CONTAINS(plan.at("command").dump(), "--precision best");
  const Outcome all = temper(folder, build + "--calibration r.json");
  ASSERT_EQ(all.code, 0) << all.err;
  EXPECT_CONTAINS(all.out, ", int8 ");
  if (bf16) { EXPECT_CONTAINS(all.out, ", int8+bf16 "); }
  EXPECT_EQ(temper(folder, "bench m.onnx --precision best --quick --duration 0.2s").code, 0);
  const auto refused = [&](const std::string& arguments, std::string_view part) {
    const Outcome outcome = temper(folder, arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_CONTAINS(outcome.err, part);
  };
  refused(build + "--keep-fp32 conv1", "belong to a precision that is named, not to --precision best");
  refused("study m.onnx --data good.npz --precision best -o out", "--precision best is for one plan");
  refused(build + "--data good.npz --max-drop 1% --raise-to bf16", "belongs to a precision that is named");
}

TEST(BestPrecision, UnderABudgetItIsTheFastestThatKeepsIt) {
  const std::string folder = test_folder();
  make_digits(folder);
  const bool bf16 = open_device("cpu").avx512_bf16;
  const Outcome done = temper(
      folder, "build m.onnx -o m.plan --quick --precision best --data good.npz --max-drop 0.0005% --metric snr --json");
  ASSERT_EQ(done.code, 0) << done.err;
  const auto found = nlohmann::json::parse(done.out);
  const auto& tried = found.at("tried");
  ASSERT_EQ(tried.size(), bf16 ? 4u : 2u);
  EXPECT_EQ(tried[0].at("precision"), "fp32");
  EXPECT_EQ(tried[0].at("drop"), 0);
  double least = tried[0].at("ms");
  std::string fastest = "fp32";
  for (const auto& row : tried) {
    EXPECT_EQ(row.at("holds").get<bool>(), !row.at("ms").is_null()) << row.dump();
    if (row.at("precision") == "int8") { EXPECT_GT(row.at("raised").get<int>(), 0) << "the budget is no test"; }
    if (row.at("ms").is_null() || row.at("ms").get<double>() >= least) continue;
    least = row.at("ms");
    fastest = row.at("precision");
  }
  EXPECT_EQ(found.at("precision"), fastest);
  const auto plan = nlohmann::json::parse(temper(folder, "inspect m.plan --json").out);
  EXPECT_EQ(plan.at("precision"), fastest);
  // The command builds what was taken, and names it.
  const std::string command = plan.at("command");
  if (fastest != "fp32") { EXPECT_CONTAINS(command, "--precision " + fastest); }
  EXPECT_EQ(command.find("best"), command.npos) << command;
  EXPECT_EQ(command.find("--calibration") != command.npos, fastest.starts_with("int8")) << command;
}

}  // namespace
}  // namespace temper
