// SPDX-License-Identifier: Apache-2.0
// compare as a user calls it: two plans, their speed and their answers.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "program.h"

namespace temper {
namespace {

// net.onnx: a product of 256 x 256; twice.onnx: the same answers by way of sixteen of them.
constexpr const char* kModels = R"(
import onnx
from onnx import helper as h, TensorProto as T, numpy_helper
def save(name, layers, last='y', width=256):
    nodes = [h.make_node('MatMul', ['x' if i == 0 else f'v{i}', 'W'], [last if i == layers - 1 else f'v{i + 1}']) for i in range(layers)]
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['batch', width])], [h.make_tensor_value_info(last, T.FLOAT, ['batch', width])], [numpy_helper.from_array(np.eye(width, dtype='f4'), 'W')])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), name)
save('once.onnx', 1); save('often.onnx', 16); save('other.onnx', 1, 'z'); save('narrow.onnx', 1, 'y', 8)
np.savez('x.npz', x=np.random.RandomState(0).rand(40, 256).astype('f4'))
)";

std::string plans() {
  const std::string folder = test_folder();
  run_python(folder, kModels);
  for (const char* name : {"once", "often", "other", "narrow"})
    EXPECT_EQ(temper(folder, concat("build ", std::string_view(name), ".onnx -o ", std::string_view(name), ".plan --quick --threads 1 --shapes ", std::string_view(name) == "narrow" ? "1x8:16x8:32x8" : "1x256:16x256:32x256")).code, 0);
  return folder;
}

TEST(CompareVerb, TheSlowerPlanWithTheSameAnswersIsNamedAndFailsTheCheck) {
  const std::string folder = plans();
  // On a machine that others keep busy a short measurement may be UNSURE: then it gets more time.
  const auto compare = [&](const std::string& arguments) {
    Outcome outcome;
    for (const char* duration : {"300ms", "2s", "10s"}) {
      outcome = temper(folder, concat("compare ", arguments, " --duration ", std::string_view(duration)));
      if (outcome.out.find("UNSURE") == std::string::npos) break;
    }
    return outcome;
  };
  const Outcome slower = compare("once.plan often.plan --data x.npz --json");
  ASSERT_EQ(slower.code, 1) << slower.err << slower.out;
  const auto json = nlohmann::json::parse(slower.out);
  EXPECT_EQ(json.at("speed").at("verdict"), "SLOWER");
  EXPECT_LT(json.at("speed").at("ci95")[1].get<double>(), 1);
  EXPECT_EQ(json.at("batch"), 16);
  EXPECT_EQ(json.at("answers").at("agreement").at("same"), 40);
  EXPECT_EQ(json.at("answers").at("outputs")[0].at("max_difference"), 0);  // products with the identity are exact
  EXPECT_EQ(json.at("answers").at("outputs")[0].at("snr_db"), nullptr);
  const Outcome faster = compare("often.plan once.plan --batch 32");
  EXPECT_EQ(faster.code, 0) << faster.err;
  EXPECT_CONTAINS(faster.out, "FASTER");
  EXPECT_CONTAINS(faster.out, "batch 32");
}

TEST(CompareVerb, WhatDoesNotCompareIsRefused) {
  const std::string folder = plans();
  ASSERT_EQ(temper(folder, "build once.onnx -o two.plan --quick --threads 2 --shapes 1x256:16x256:32x256").code, 0);
  const auto refused = [&](int code, const std::string& arguments, std::string_view part) {
    const Outcome outcome = temper(folder, "compare " + arguments);
    EXPECT_EQ(outcome.code, code) << arguments << ": " << outcome.err;
    EXPECT_CONTAINS(outcome.err, part);
  };
  refused(4, "once.plan two.plan", "threads");
  refused(2, "once.plan narrow.plan", "was given the shape [16,256]");
  refused(2, "once.plan once.onnx", "is no plan");
  refused(2, "once.plan other.plan --data x.npz --duration 100ms", "outputs of other names");
  refused(2, "once.plan often.plan --batch 64", "64");
}

}  // namespace
}  // namespace temper
