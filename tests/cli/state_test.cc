// SPDX-License-Identifier: Apache-2.0
// Streams on the command line: the user's own inputs in what is timed, and state that is kept from run to run.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "data/npy.h"
#include "program.h"

namespace temper {
namespace {

// detector.onnx hears one frame at a time, as a voice detector does, at the rate that an input names: 16000 Hz, 8000 Hz
// or an index that is out of range. It keeps a state. plain.onnx is one branch of it.
constexpr const char* kDetector = R"(
import onnx
from onnx import helper as h, TensorProto as T, numpy_helper
v = h.make_tensor_value_info
def array(name, value, dtype): return numpy_helper.from_array(np.array(value, dtype), name)
def side(name, factor, row):
    nodes = [h.make_node('Constant', [], [name + 'i'], value=array('', [row], 'i8')), h.make_node('Constant', [], [name + 'f'], value=array('', factor, 'f4')),
             h.make_node('Gather', ['table', name + 'i'], [name + 'row'], axis=0), h.make_node('Mul', ['state', name + 'f'], [name + 's']),
             h.make_node('Add', ['frame', name + 's'], [name + 'a']), h.make_node('Add', [name + 'a', name + 'row'], [name + 'y'])]
    return h.make_graph(nodes, name, [], [v(name + 'y', T.FLOAT, None)])
table = array('table', np.arange(8).reshape(2, 4), 'f4')
nodes = [h.make_node('Constant', [], ['k16'], value=array('', 16000, 'i8')), h.make_node('Equal', ['sr', 'k16'], ['is16']),
         h.make_node('If', ['is16'], ['stateN'], then_branch=side('then', 0.5, 0), else_branch=side('else', 0.25, 1)),
         h.make_node('ReduceMean', ['stateN'], ['prob'], axes=[1], keepdims=1)]
def save(name, nodes, inputs):
    g = h.make_graph(nodes, 'g', inputs, [v('prob', T.FLOAT, ['b', 1]), v('stateN', T.FLOAT, ['b', 4])], [table])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), name)
frame, state = v('frame', T.FLOAT, ['b', 4]), v('state', T.FLOAT, ['b', 4])
save('detector.onnx', nodes, [frame, state, v('sr', T.INT64, [])])
plain = [n for n in side('then', 0.5, 0).node] + [h.make_node('Identity', ['theny'], ['stateN']), nodes[-1]]
save('plain.onnx', plain, [frame, state])
frames = np.random.RandomState(0).randn(6, 4).astype('f4')
np.save('frames.npy', frames); np.save('rate16.npy', np.array(16000)); np.save('rate8.npy', np.array(8000))
np.save('state.npy', np.ones((1, 4), 'f4')); np.save('two.npy', np.ones((2, 4), 'f4'))
def hear(factor, row, s, step=1):
    probs = []
    for i in range(0, 6, step):
        s = frames[i:i + step] + s * np.float32(factor) + np.arange(8, dtype='f4').reshape(2, 4)[row]
        probs.append(s.mean(1, keepdims=True))
    return np.concatenate(probs), s
for name, at in ('16', (0.5, 0)), ('8', (0.25, 1)):
    for begin, s in ('zeros', np.zeros((1, 4), 'f4')), ('ones', np.ones((1, 4), 'f4')):
        probs, last = hear(*at, s)
        np.save(f'prob{name}{begin}.npy', probs); np.save(f'state{name}{begin}.npy', last)
probs, last = hear(0.5, 0, np.zeros((2, 4), 'f4'), 2)
np.save('probtwo.npy', probs); np.save('statetwo.npy', last)
)";

void expect_near(const std::string& got_file, const std::string& want_file) {
  const Tensor got = read_npy(got_file), want = read_npy(want_file);
  ASSERT_EQ(got.dims(), want.dims()) << got_file;
  for (int64_t i = 0; i < want.count(); ++i) EXPECT_NEAR(got.data<float>()[i], want.data<float>()[i], 1e-5) << got_file;
}

TEST(StreamVerbs, RunGoesThroughAStreamWithItsState) {
  const std::string folder = test_folder();
  run_python(folder, kDetector);
  const std::string build = " --shapes frame=1x4 --shapes state=1x4 --threads 1 --no-measure";
  ASSERT_EQ(temper(folder, "build detector.onnx -o detector.plan" + build).code, 0);
  for (const char* model : {"detector.onnx --threads 1 --no-measure", "detector.plan",
                            "detector.onnx --device reference --no-timing-cache"})
    for (const std::string rate : {"16", "8"})
      for (const std::string begin : {"zeros", "ones"}) {
        const Outcome done =
            temper(folder, concat("run ", std::string_view(model), " --input frame=frames.npy --input sr=rate", rate,
                                  ".npy", begin == "ones" ? " --input state=state.npy" : "",
                                  " --state state=stateN --force --output-dir out --quiet"));
        ASSERT_EQ(done.code, 0) << done.err;
        EXPECT_EQ(done.err.find("random"), std::string::npos) << done.err;
        expect_near(folder + "out/prob.npy", concat(folder, "prob", rate, begin, ".npy"));
        expect_near(folder + "out/stateN.npy", concat(folder, "state", rate, begin, ".npy"));
      }
  const Outcome two = temper(folder,
                             "run plain.onnx --input frame=frames.npy --state state=stateN --batch 2 --threads 1 "
                             "--no-measure --output-dir two");
  ASSERT_EQ(two.code, 0) << two.err;
  expect_near(folder + "two/prob.npy", folder + "probtwo.npy");
  expect_near(folder + "two/stateN.npy", folder + "statetwo.npy");
  const auto refused = [&](const std::string& arguments, const char* words) {
    const Outcome outcome = temper(folder, "run plain.onnx --no-timing-cache " + arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_CONTAINS(outcome.err, words);
  };
  refused("--input frame=frames.npy --state state=none", "the outputs prob, stateN");
  refused("--input frame=frames.npy --state state=stateN --batch 4", "a smaller last batch");
  refused("--input frame=frames.npy --input state=two.npy --state state=stateN", "state");
}

TEST(StreamVerbs, BenchMeasuresOnTheUsersOwnInputs) {
  const std::string folder = test_folder();
  run_python(folder, kDetector);
  const std::string build = " --shapes frame=1x4 --shapes state=1x4 --threads 1 --no-measure",
                    counts = " --warmup 1 --iterations 5 --json -";
  ASSERT_EQ(temper(folder, "build detector.onnx -o detector.plan" + build).code, 0);
  const auto measured = [&](const std::string& arguments) {
    const Outcome done = temper(folder, "bench " + arguments + counts);
    EXPECT_EQ(done.code, 0) << done.err;
    return nlohmann::json::parse(done.out).at("runs").at(0);
  };
  const auto some = measured("detector.plan --input sr=rate16.npy");
  EXPECT_EQ(
      some.at("notes").at("shapes"),
      "inputs were given: sr; the others are seeded random numbers, and integers wider than a byte 0, of an attention "
      "mask 1");
  const auto all = measured(
      "detector.plan --input sr=rate8.npy --input state=state.npy --input frame=frames.npy --state state=stateN");
  EXPECT_EQ(all.at("notes").at("shapes"), "inputs were given: frame, sr, state");
  EXPECT_EQ(all.at("notes").at("state"), "kept from run to run: state=stateN");
  EXPECT_EQ(all.at("batch"), 1) << "what the plan is for, not all that the file holds";
  const auto model = measured("plain.onnx --input frame=frames.npy --threads 1 --no-measure");
  EXPECT_EQ(model.at("batch"), 6);
  EXPECT_EQ(model.at("shapes").at("state"), (std::vector<int64_t>{6, 4})) << "as the batch of what is given";
  EXPECT_EQ(measured("plain.onnx --input frame=frames.npy --batch 8 --threads 1 --no-measure --state "
                     "state=stateN")
                .at("shapes")
                .at("frame"),
            (std::vector<int64_t>{8, 4}))
      << "the last sample again";
  const Outcome piped =
      temper(folder, "bench detector.plan --pipe --input sr=rate16.npy --state state=stateN", "printf '3\\n1\\n' |");
  EXPECT_EQ(piped.code, 0) << piped.err;
  const std::string times = piped.out.substr(piped.out.find('\n') + 1);
  EXPECT_EQ(nlohmann::json::parse(times.substr(0, times.find('\n'))).size(), 3u);
  const auto refused = [&](const std::string& arguments, int code, const char* words) {
    const Outcome outcome = temper(folder, "bench detector.plan " + arguments);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_CONTAINS(outcome.err, words);
  };
  refused("--input rate=rate16.npy", 2, "the model has no input 'rate'");
  refused("--input sr=frames.npy", 2, "does not fit input 'sr'");
  refused("--input sr=none.npy", 3, "none.npy");
  refused("--input sr=rate8.npy --input sr=rate16.npy", 2, "given twice");
  refused("--state state=prob", 2, "cannot be the next run's input");
  refused("--input sr=rate8.npy --json rate8.npy", 2, "rate8.npy");
}

TEST(StreamVerbs, ProfileRunsOnTheUsersOwnInputs) {
  const std::string folder = test_folder();
  run_python(folder, kDetector);
  ASSERT_EQ(temper(folder,
                   "build plain.onnx -o plain.plan --shapes frame=1x4:2x4:8x4 --shapes state=1x4:2x4:8x4 "
                   "--threads 1 --no-measure")
                .code,
            0);
  const Outcome done = temper(folder, "profile plain.plan --input frame=state.npy --duration 100ms");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_CONTAINS(done.out, "batch 1,");
  const Outcome refused = temper(folder, "profile plain.plan --input frames=state.npy");
  EXPECT_EQ(refused.code, 2);
  EXPECT_CONTAINS(refused.err, "the model has no input 'frames'");
}

// Tensors without elements: a dimension inside of a sample, the batch, and what a model fixes.
TEST(StreamVerbs, TensorsWithoutElementsAreRun) {
  const std::string folder = test_folder();
  run_python(folder, R"(
import onnx
from onnx import helper as h, TensorProto as T
def save(name, dims):
    x, y, s = (h.make_tensor_value_info(n, T.FLOAT, d) for n, d in (('x', dims), ('y', dims), ('s', [])))
    g = h.make_graph([h.make_node('Relu', ['x'], ['y']), h.make_node('ReduceSum', ['x'], ['s'], keepdims=0)], 'g', [x], [y, s])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), name)
save('open.onnx', ['a', 'b', 4]); save('fixed.onnx', [2, 0, 4]); save('none.onnx', [0, 3])
np.save('inside.npy', np.zeros((2, 0, 4), 'f4')); np.save('batch.npy', np.zeros((0, 5, 4), 'f4')); np.save('none.npy', np.zeros((0, 3), 'f4'))
)");
  const auto ran = [&](const std::string& arguments, const Dims& dims) {
    const Outcome done = temper(folder, concat("run ", arguments, " --output-dir out --force --quiet"));
    ASSERT_EQ(done.code, 0) << arguments << done.err;
    EXPECT_EQ(read_npy(folder + "out/y.npy").dims(), dims) << arguments;
    EXPECT_EQ(read_npy(folder + "out/s.npy").data<float>()[0], 0) << arguments;
  };
  ran("open.onnx --no-measure --input inside.npy", {2, 0, 4});
  ran("open.onnx --no-measure --input batch.npy", {0, 5, 4});
  ran("fixed.onnx --no-measure --input inside.npy", {2, 0, 4});
  ran("fixed.onnx --no-measure", {2, 0, 4});
  ran("none.onnx --no-measure --input none.npy", {0, 3});
  for (const char* shape : {"2x0x4", "0x0x4:2x3x4:4x8x4"}) {
    const Outcome built = temper(
        folder, concat("build open.onnx -o open.plan --force --no-measure --shapes x=", std::string_view(shape)));
    ASSERT_EQ(built.code, 0) << built.err;
    ran("open.plan --input inside.npy", {2, 0, 4});
  }
  EXPECT_EQ(temper(folder, "bench open.plan --input inside.npy --warmup 1 --iterations 3 --quiet").code, 0);
  const Outcome refused = temper(folder, "build open.onnx -o open.plan --force --no-measure --shapes x=2x-1x4");
  EXPECT_EQ(refused.code, 2);
  EXPECT_CONTAINS(refused.err, "is not a shape");
}

TEST(StreamVerbs, StepsOfBranchesAndLoopsAreShown) {
  const std::string folder = test_folder();
  run_python(folder, kDetector);
  ASSERT_EQ(
      temper(folder,
             "build detector.onnx -o detector.plan --shapes frame=1x4 --shapes state=1x4 --threads 1 --no-measure")
          .code,
      0);
  const Outcome shown = temper(folder, "inspect detector.plan --layers");
  ASSERT_EQ(shown.code, 0) << shown.err;
  for (const char* words : {": first", "'is16' true", "'is16' false", "theny", "elsey", "cpu."})
    EXPECT_CONTAINS(shown.out, words);
  const auto layers = nlohmann::json::parse(temper(folder, "inspect detector.plan --layers --json").out);
  std::set<std::string> where;
  for (const auto& plan : layers.at("plans")) where.insert(plan.at("where").get<std::string>());
  EXPECT_EQ(where, (std::set<std::string>{"first", "part 2, 'is16' false", "part 2, 'is16' true"}));

  const Outcome profile = temper(folder, "profile detector.plan --input sr=rate16.npy --duration 50ms");
  ASSERT_EQ(profile.code, 0) << profile.err;
  EXPECT_CONTAINS(profile.out, "'is16' true");
  EXPECT_EQ(profile.out.find("'is16' false"), std::string::npos) << "no run took it";
  const auto json =
      nlohmann::json::parse(temper(folder, "profile detector.plan --input sr=rate8.npy --duration 50ms --json").out);
  double sum = 0;
  for (const auto& step : json.at("steps")) {
    EXPECT_EQ(step.at("calls"), 1);
    EXPECT_NE(step.at("where"), "part 2, 'is16' true");
    sum += step.at("ms").get<double>();
  }
  EXPECT_NEAR(json.at("steps_ms").get<double>(), sum, 1e-9);
  const Outcome explained = temper(folder, "explain detector.plan --input sr=rate16.npy --duration 50ms --all");
  ASSERT_EQ(explained.code, 0) << explained.err;
  EXPECT_CONTAINS(explained.out, "2 partitions");
}

}  // namespace
}  // namespace temper
