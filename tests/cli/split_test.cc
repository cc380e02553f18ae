// SPDX-License-Identifier: Apache-2.0
// temper split: two files that run one after the other, with weights beside them.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "program.h"

namespace temper {
namespace {

// y = x Wx + exp(s) Ws, with the weights in w.data, and the answer for x.npy and s.npy.
constexpr const char* kModelToSplit = R"(
import numpy as np, onnx
from onnx import helper as h, numpy_helper, TensorProto as T
r = np.random.RandomState(0)
w = {n: r.randn(8, 8).astype('f4') for n in ('Wx', 'Ws')}
nodes = [h.make_node('Exp', ['s'], ['e']), h.make_node('MatMul', ['e', 'Ws'], ['b']), h.make_node('MatMul', ['x', 'Wx'], ['a']), h.make_node('Add', ['a', 'b'], ['y'])]
info = lambda n: h.make_tensor_value_info(n, T.FLOAT, [2, 8])
m = h.make_model(h.make_graph(nodes, 'g', [info('x'), info('s')], [info('y')], [numpy_helper.from_array(v, n) for n, v in w.items()]), opset_imports=[h.make_opsetid('', 17)], ir_version=8)
onnx.save_model(m, 'net.onnx', save_as_external_data=True, location='w.data', size_threshold=0)
x, s = (r.randn(2, 8).astype('f4') for _ in range(2))
np.save('x.npy', x); np.save('s.npy', s); np.save('y.npy', x @ w['Wx'] + np.exp(s) @ w['Ws'])
)";

TEST(SplitVerb, WritesTwoFilesThatAnswerAsOne) {
  const std::string folder = test_folder();
  run_python(folder, kModelToSplit);
  const Outcome said = temper(folder, "split net.onnx --inputs s -o first.onnx --rest rest.onnx");
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_CONTAINS(said.err, "first.onnx: 2 of 4 nodes; rest.onnx: 2; 1 value goes from one to the other");
  const std::string quick = " --quick --no-timing-cache";
  ASSERT_EQ(temper(folder, "run first.onnx --input s=s.npy --output-dir out" + quick).code, 0);
  const Outcome rest = temper(folder, "run rest.onnx --input x=x.npy --input b=out/b.npy --output-dir out" + quick);
  ASSERT_EQ(rest.code, 0) << rest.err;
  run_python(
      folder,
      "import numpy as np; np.testing.assert_allclose(np.load('out/y.npy'), np.load('y.npy'), rtol=1e-5, atol=1e-5)");
  // Again, over its own files; and what it says as JSON.
  const Outcome json = temper(folder, "split net.onnx --inputs s -o first.onnx --rest rest.onnx --json");
  ASSERT_EQ(json.code, 0) << json.err;
  EXPECT_EQ(nlohmann::json::parse(json.out)["between"], nlohmann::json({"b"}));
}

TEST(SplitVerb, RefusesWithWhatToDo) {
  const std::string folder = test_folder();
  run_python(folder, kModelToSplit);
  std::filesystem::create_directory(folder + "other");
  const auto refused = [&](const std::string& words, const std::string& said) {
    const Outcome outcome = temper(folder, "split " + words);
    EXPECT_EQ(outcome.code, int(ErrorKind::usage)) << words << ": " << outcome.err;
    EXPECT_CONTAINS(outcome.err, said);
    for (const char* file : {"a.onnx", "b.onnx", "other/b.onnx"}) EXPECT_FALSE(file_exists(folder + file)) << words;
  };
  refused("net.onnx --inputs t -o a.onnx --rest b.onnx", "the model has no input 't'; it has 's', 'x'");
  refused("net.onnx --inputs x,s -o a.onnx --rest b.onnx", "all outputs follow from 's', 'x' alone");
  refused("net.onnx --inputs s -o a.onnx --rest a.onnx", "a.onnx");
  refused("net.onnx --inputs s -o a.onnx --rest other/b.onnx", "write them into '.'");
  refused("net.onnx --inputs s -o a.onnx", "--rest");
  const Outcome many = temper(folder, "split net.onnx --inputs s -o a.onnx --rest b.onnx --node-limit 3");
  EXPECT_EQ(many.code, int(ErrorKind::bad_file)) << many.err;
  EXPECT_CONTAINS(many.err, "the model has 4 nodes; the limit is 3; --node-limit N sets another");
}

}  // namespace
}  // namespace temper
