// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "program.h"

namespace temper {
namespace {

using Json = nlohmann::json;

TEST(VerifyVerb, OutputsThatAgreeEndWithZero) {
  const std::string folder = test_folder();
  ASSERT_EQ(temper(folder, "zoo digits_cnn -o m.onnx").code, 0);
  const Outcome outcome = temper(folder, "verify m.onnx --no-measure --json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json.at("outputs").at(0).at("ok"), true);
  EXPECT_TRUE(json.at("drift").is_null());
  const Json nodes = Json::parse(temper(folder, "verify m.onnx --no-measure --json --nodes").out).at("drift");
  EXPECT_TRUE(nodes.at("first_node").is_null());
  EXPECT_EQ(nodes.at("optimised_graph_differs"), false);
  EXPECT_GE(nodes.at("nodes").size(), 4u);
}

// Rounding alone is drift where nothing is tolerated.
TEST(VerifyVerb, TheFirstNodeThatDriftsIsNamedAndTheCheckFails) {
  const std::string folder = test_folder();
  run_python(folder, R"(
import onnx
from onnx import helper as h, TensorProto as T, numpy_helper
rng = np.random.default_rng(1)
W = [numpy_helper.from_array(rng.normal(0, 1, (64, 64)).astype('f4') / 3, n) for n in 'AB']
g = h.make_graph([h.make_node('Relu', ['x'], ['r'], name='exact'), h.make_node('MatMul', ['r', 'A'], ['m'], name='inexact'), h.make_node('MatMul', ['m', 'B'], ['y'], name='later')], 'g',
                 [h.make_tensor_value_info('x', T.FLOAT, [4, 64])], [h.make_tensor_value_info('y', T.FLOAT, [4, 64])], W)
onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), 'm.onnx')
)");
  const std::string strict = "verify m.onnx --disable all --no-timing-cache --rtol 0 --atol -0.0001 ";
  const Outcome outcome = temper(folder, strict);
  EXPECT_EQ(outcome.code, int(ErrorKind::check_failed)) << outcome.err;
  EXPECT_CONTAINS(outcome.out, "DIFFERS");
  EXPECT_CONTAINS(outcome.out, "the first node that drifts");
  const Json json = Json::parse(temper(folder, strict + "--json").out);
  EXPECT_EQ(json.at("outputs").at(0).at("ok"), false);
  EXPECT_EQ(json.at("drift").at("first_node"), "inexact") << json.dump(1);
}

}  // namespace
}  // namespace temper
