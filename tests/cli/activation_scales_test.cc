// SPDX-License-Identifier: Apache-2.0
// --activation-scales token: INT8 without ranges, and every verb that takes or refuses it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "program.h"

namespace temper {
namespace {

using Json = nlohmann::json;

// m.onnx: two products, of tokens one of which is a thousand times as large as the others (x.npz). c.onnx: a
// convolution alone.
class ActivationScalesFlag : public ::testing::Test {
 protected:
  ActivationScalesFlag() : folder_(test_folder()) {
    run_python(folder_, R"(
import onnx
from onnx import helper as h, TensorProto as T, numpy_helper
r = np.random.default_rng(0)
W, V, C = r.normal(size=(16, 32)).astype('f4'), r.normal(size=(32, 8)).astype('f4'), r.normal(size=(4, 3, 1, 1)).astype('f4')
def save(name, nodes, x, y, constants):
    graph = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, x)], [h.make_tensor_value_info('y', T.FLOAT, y)], [numpy_helper.from_array(v, k) for k, v in constants.items()])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid('', 17)], ir_version=8), name)
save('m.onnx', [h.make_node('MatMul', ['x', 'W'], ['a'], name='first'), h.make_node('Relu', ['a'], ['b']), h.make_node('MatMul', ['b', 'V'], ['y'], name='second')],
     ['batch', 4, 16], ['batch', 4, 8], {'W': W, 'V': V})
save('c.onnx', [h.make_node('Conv', ['x', 'C'], ['y'], name='conv')], ['batch', 3, 5, 5], ['batch', 4, 5, 5], {'C': C})
x = r.normal(size=(192, 4, 16)).astype('f4'); x[:, 1] *= 1000
np.savez('x.npz', x=x[:96]); np.savez('z.npz', x=x[96:])
)");
  }
  std::string done(const std::string& arguments) {
    const Outcome outcome = temper(folder_, arguments);
    EXPECT_EQ(outcome.code, 0) << arguments << ": " << outcome.err;
    return outcome.out;
  }
  void refused(const std::string& arguments, const std::string& why, int code = 2) {
    const Outcome outcome = temper(folder_, arguments);
    EXPECT_EQ(outcome.code, code) << arguments << ": " << outcome.err;
    EXPECT_CONTAINS(outcome.err, why) << arguments;
    EXPECT_FALSE(file_exists(folder_ + "no.plan")) << arguments;
  }
  const std::string folder_;
};

TEST_F(ActivationScalesFlag, ByTokenInt8NeedsNoRangesAndHoldsTokensOfEverySize) {
  done("build m.onnx -o t.plan --precision int8 --activation-scales token --no-measure");
  const Json plan = Json::parse(done("inspect t.plan --json"));
  EXPECT_EQ(plan.at("lowered_products"), 2);
  for (const std::string verb : {"run t.plan --input x.npz", "bench t.plan --duration 10ms"}) {
    refused(verb + " --precision fp32", "for int8 on the device 'cpu' already: --precision fp32 cannot");
    for (const char* scales : {"tensor", "token"})
      refused(verb + " --activation-scales " + scales, "already: --activation-scales cannot change it");
  }
  EXPECT_EQ(plan.at("products"), 2);
  EXPECT_CONTAINS(plan.at("command").get<std::string>(), "--precision int8 --activation-scales token");
  EXPECT_EQ(done("inspect t.plan --layers").find("matmul.reference"), std::string::npos);
  done("calibrate m.onnx --data x.npz --method minmax -o r.json");
  const auto noise = [&](const std::string& flags) {
    return Json::parse(
               done("evaluate m.onnx --precision int8 --data z.npz --metric cosine --no-measure --json " + flags))
        .at("outputs")[0]
        .at("least_cosine")
        .get<double>();
  };
  const double token = noise("--activation-scales token"),
               both = noise("--activation-scales token --calibration r.json");
  EXPECT_GT(token, 0.9995);
  EXPECT_GT(both, 0.9995);
  EXPECT_LT(token, 1 - 1e-9) << "this is not int8";
  // The tokens that are not a thousand times as large are gone with one scale, which the cosine hardly sees: by row.
  done("build m.onnx -o f.plan --no-measure");
  done("build m.onnx -o s.plan --precision int8 --calibration r.json --no-measure");
  run_python(folder_, "np.savez('small.npz', x=np.load('x.npz')['x'][:1])");
  for (const char* name : {"f", "t", "s"})
    done(concat("run ", name, ".plan --input small.npz --output-dir ", name, "_out"));
  run_python(folder_, R"(
f, t, s = (np.load(name + '_out/y.npy')[0] for name in 'fts')
error = lambda y: np.abs(y - f).max(1) / np.abs(f).max(1)
assert (error(t) < 0.03).all(), error(t)
assert (error(s)[[0, 2, 3]] > 0.3).all(), error(s)
)");
}

TEST_F(ActivationScalesFlag, WhatDoesNotGoTogetherIsRefusedByName) {
  refused("build m.onnx -o no.plan --precision int8 --activation-scales tokens", "{tensor,token}");
  refused("build m.onnx -o no.plan --precision int8", "--activation-scales token");
  refused("build m.onnx -o no.plan --precision int8 --activation-scales tensor", "needs the ranges");
  refused("build m.onnx -o no.plan --activation-scales token", "belongs to --precision int8, with or without 16 bits");
  refused("build m.onnx -o no.plan --precision best --activation-scales token", "not to --precision best");
  refused("build m.onnx -o no.plan --precision int8 --activation-scales token --qdq q.onnx", "computed for each row",
          4);
  refused("build c.onnx -o no.plan --precision int8 --activation-scales token --no-measure",
          "no matrix product with constant weights");
  refused("quantize m.onnx --data x.npz -o q.onnx --activation-scales token", "--activation-scales");
  EXPECT_FALSE(file_exists(folder_ + "q.onnx"));
  done("build m.onnx -o f.plan --no-measure");
  refused("run f.plan --input x.npz --activation-scales token", "is a plan");
}

TEST_F(ActivationScalesFlag, AKitKeepsThemWithoutRanges) {
  done("kit m.onnx -o m.kit --precision int8 --activation-scales token");
  done("build --from-kit m.kit -o m.plan --no-measure");
  EXPECT_EQ(Json::parse(done("inspect m.plan --json")).at("lowered_products"), 2);
  refused("build --from-kit m.kit -o no.plan --activation-scales token", "leave --activation-scales out");
  refused("kit m.onnx -o n.kit --precision int8", "needs --calibration RANGES");
}

TEST_F(ActivationScalesFlag, ABudgetAStudyAndASweepTakeThem) {
  const Json built = Json::parse(done(
      "build m.onnx -o b.plan --precision int8 --activation-scales token --data x.npz --max-drop 1% --metric cosine "
      "--no-measure --json"));
  EXPECT_EQ(built.at("holds"), true) << built.dump(1);
  EXPECT_EQ(Json::parse(done("inspect b.plan --json")).at("lowered_products"), 2);
  done(
      "study m.onnx --data x.npz --precision fp32,int8 --activation-scales token --metric cosine --max-drop 1% --quick "
      "--duration 50ms -o study");
  const std::string commands = read_file(folder_ + "study/study.json");
  EXPECT_CONTAINS(commands, "--activation-scales token");
  const Json rows =
      Json::parse(done("bench m.onnx --precision fp32,int8 --activation-scales token --duration 50ms --json"));
  EXPECT_EQ(rows.at("runs").size(), 2u) << rows.dump(1);
}

}  // namespace
}  // namespace temper
