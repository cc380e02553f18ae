// SPDX-License-Identifier: Apache-2.0
// A budget for bf16, and layers of it that are kept by name: where the CPU has the instructions.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../paths.h"
#include "program.h"

namespace temper {
namespace {

TEST(MixedBf16, LayersThatLoseMostGoBackToFp32UntilTheBudgetHolds) {
  const std::string folder = test_folder();
  run_python(folder, R"(
import sys
sys.path.insert(0, ')" + paths::source_folder() +
                         R"(/python')
import digits_data
_, _, images, labels = digits_data.load()
np.savez('good.npz', image=images[:60], labels=labels[:60])
)");
  EXPECT_EQ(temper(folder, "zoo digits_cnn -o m.onnx").code, 0);
  const std::string build = "build m.onnx -o m.plan --quick --precision bf16 ";
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

TEST(MixedBf16, WhatMeansNothingIsRefused) {
  const std::string folder = test_folder();
  EXPECT_EQ(temper(folder, "zoo digits_cnn -o m.onnx").code, 0);
  if (temper(folder, "build m.onnx -o m.plan --quick --precision bf16").code == 4)
    GTEST_SKIP() << "this CPU has no AVX512_BF16";
  const auto refused = [&](const std::string& arguments, std::string_view part) {
    const Outcome outcome = temper(folder, "build m.onnx -o no.plan " + arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_CONTAINS(outcome.err, part);
  };
  refused("--precision bf16 --keep-fp32 nobody", "'nobody', which is no convolution or matrix product");
  refused("--precision bf16 --keep-bf16 conv1", "--keep-bf16 belong to --precision int8");
  refused("--keep-fp32 conv1", "--keep-fp32 belongs to --precision int8, fp16 and bf16, not to fp32");
  refused("--data m.onnx --max-drop 1%", "--max-drop is a budget for --precision int8, fp16 or bf16");
  refused("--precision bf16 --data m.onnx --max-drop 1% --raise-to bf16", "go back to fp32");
}

}  // namespace
}  // namespace temper
