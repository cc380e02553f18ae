// SPDX-License-Identifier: Apache-2.0
// What a user may get wrong, and what may be wrong with a file: one clear message, the documented exit code, nothing
// half-written.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/version.h"
#include "plan/file.h"
#include "program.h"
#include "zoo/zoo.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

// save(NAME, NODES, ...) writes a model of nodes from x to y, with the constants that are given.
constexpr const char* kBegin = R"(
import onnx, os
from onnx import helper as h, TensorProto as T, numpy_helper
def model(nodes, x=[2, 4], y=['p', 'q'], constants={}, dtype=T.FLOAT, out=T.FLOAT, opset=17, ir=8, domains=[]):
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', dtype, x)], [h.make_tensor_value_info('y', out, y)],
                     [numpy_helper.from_array(v, k) for k, v in constants.items()])
    return h.make_model(g, opset_imports=[h.make_opsetid('', opset)] + [h.make_opsetid(d, 1) for d in domains], ir_version=ir)
def save(name, *args, **more):
    onnx.save(model(*args, **more), name)
def node(op, inputs=['x'], name='the_node', **attributes):
    return h.make_node(op, inputs, ['y'], name=name, **attributes)
W = np.arange(12, dtype='f4').reshape(4, 3)
save('good.onnx', [node('MatMul', ['x', 'W'])], x=['batch', 4], y=['batch', 3], constants={'W': W})
good = open('good.onnx', 'rb').read()
)";

class BadInput : public ::testing::Test {
 protected:
  BadInput() : folder_(test_folder()) {}

  void prepare(const std::string& script) { run_python(folder_, kBegin + script); }

  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      const std::string name = entry.path().string().substr(folder_.size());
      if (name != "out.txt" && name != "err.txt" && !name.starts_with("cache")) names.insert(name);
    }
    return names;
  }

  // One line on stderr with all of `parts`, nothing on stdout, no file more or less than before.
  void refused(ErrorKind kind, const std::string& arguments, const std::vector<std::string>& parts,
               const std::string& before = "") {
    const auto files_before = files();
    const Outcome outcome = temper(folder_, arguments, before);
    EXPECT_EQ(outcome.code, int(kind)) << arguments << ": " << outcome.err;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_TRUE(outcome.err.starts_with("temper: ")) << arguments << ": " << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << arguments << ": " << outcome.err;
    for (const std::string& part : parts)
      EXPECT_NE(outcome.err.find(part), std::string::npos)
          << arguments << ": '" << part << "' is missing in: " << outcome.err;
    EXPECT_EQ(files(), files_before) << arguments;
  }
  // The verbs that take a model. `inspect` shows of one that is not supported all that there is to see.
  void model_refused(ErrorKind kind, const std::string& model, const std::vector<std::string>& parts,
                     bool is_readable = false) {
    for (const char* verb : {"build -o out.plan ", "run --output-dir out ", "verify ", "bench --json out.json "})
      refused(kind, verb + model, parts);
    if (!is_readable) return refused(kind, "inspect " + model, parts);
    const Outcome outcome = temper(folder_, "inspect " + model);
    EXPECT_EQ(outcome.code, int(kind));
    for (const std::string& part : parts) EXPECT_NE((outcome.out + outcome.err).find(part), std::string::npos) << part;
    EXPECT_NE(outcome.out.find("runs here   no: 1 not supported"), std::string::npos) << outcome.out;
  }
  std::string build(const std::string& arguments) {
    const Outcome outcome = temper(folder_, "build " + arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.err;
  }

  std::string folder_;
};

TEST_F(BadInput, FilesThatAreNoModel) {
  prepare(R"(
open('empty.onnx', 'wb')
for n in (1, 7, len(good) // 2, len(good) - 1): open(f'cut{n}.onnx', 'wb').write(good[:n])
open('random.onnx', 'wb').write(np.random.default_rng(1).bytes(4096))
open('zeros.onnx', 'wb').write(bytes(4096))
open('text.onnx', 'w').write('this is no model\n')
Image.new('RGB', (8, 8)).save('picture.onnx', format='png')
open('tensor.onnx', 'wb').write(numpy_helper.from_array(W, 'W').SerializeToString())
os.mkdir('folder.onnx'); os.mkfifo('pipe.onnx')
import glob; open('names', 'w').write('\n'.join(f for f in sorted(glob.glob('*.onnx')) if f != 'good.onnx'))
)");
  const std::string names = read_file(folder_ + "names") + "\nmissing.onnx";
  int count = 0;
  for (size_t at = 0, end; at < names.size(); at = end + 1, ++count) {
    end = std::min(names.find('\n', at), names.size());
    const std::string name = names.substr(at, end - at);
    if (count % 4 == 0) model_refused(ErrorKind::bad_file, name, {name});
    else refused(ErrorKind::bad_file, "build -o out.plan " + name, {name});
  }
  EXPECT_EQ(count, 13);
}

TEST_F(BadInput, WhatIsNotSupportedIsNamedWithItsNode) {
  prepare(R"(
save('domain.onnx', [node('Frobnicate', domain='my.ops')], domains=['my.ops'])
save('undeclared.onnx', [node('Frobnicate', domain='other.ops')])
save('op.onnx', [node('Frobnicate')])
save('refused_op.onnx', [node('Softmax')], dtype=T.STRING, out=T.STRING)
save('attribute.onnx', [node('Relu', slope=0.5)])
save('value.onnx', [node('Dropout', is_test=0)], opset=6)
save('spatial.onnx', [node('BatchNormalization', ['x', 's', 's', 's', 's'], spatial=0)], x=[2, 4, 3, 3], constants={'s': np.ones((4, 3, 3), 'f4')}, opset=8)
save('dtype.onnx', [node('Identity')], dtype=T.COMPLEX64, out=T.COMPLEX64)
save('opset.onnx', [node('Relu')], opset=28)
save('ir.onnx', [node('Relu')], ir=14)
)");
  model_refused(ErrorKind::unsupported, "domain.onnx",
                {"domain.onnx", "the_node", "my.ops", "Frobnicate", "function body"}, true);
  refused(ErrorKind::bad_file, "build -o out.plan undeclared.onnx",
          {"undeclared.onnx", "the_node", "other.ops", "Frobnicate"});
  refused(ErrorKind::unsupported, "build -o out.plan op.onnx", {"op.onnx", "the_node", "Frobnicate", "function body"});
  refused(ErrorKind::unsupported, "build -o out.plan refused_op.onnx",
          {"refused_op.onnx", "the_node", "softmax of strings"});
  refused(ErrorKind::bad_file, "build -o out.plan attribute.onnx", {"attribute.onnx", "the_node", "Relu", "slope"});
  refused(ErrorKind::unsupported, "build -o out.plan value.onnx",
          {"value.onnx", "the_node", "training", "export the model for inference"});
  refused(ErrorKind::unsupported, "build -o out.plan spatial.onnx",
          {"spatial.onnx", "the_node", "spatial = 0 is not supported. Write it as other ops"});
  refused(ErrorKind::unsupported, "build -o out.plan dtype.onnx", {"dtype.onnx", "'x'", "COMPLEX64"});
  model_refused(ErrorKind::unsupported, "opset.onnx", {"opset.onnx", "opset 28", "27", "Export it again"});
  refused(ErrorKind::unsupported, "build -o out.plan ir.onnx", {"ir.onnx", "IR version 14", "ir_version = 13"});
}

TEST_F(BadInput, ShapesThatContradict) {
  prepare(R"(
save('matmul.onnx', [node('MatMul', ['x', 'W'])], x=[2, 5], constants={'W': W})
save('conv.onnx', [node('Conv', ['x', 'F'])], x=[1, 4, 8, 8], constants={'F': np.zeros((2, 3, 3, 3), 'f4')})
save('add.onnx', [node('Add', ['x', 'W'])], x=[2, 5], constants={'W': W})
save('reshape.onnx', [node('Reshape', ['x', 's'])], constants={'s': np.array([3, 3])})
save('axis.onnx', [node('Softmax', axis=5)])
m = model([node('MatMul', ['x', 'W'])], constants={'W': W}); m.graph.initializer[0].dims[0] = 5; onnx.save(m, 'initializer.onnx')
m = model([node('MatMul', ['x', 'W'])], constants={'W': W}); m.graph.initializer[0].dims[0] = 1 << 62; onnx.save(m, 'huge.onnx')
m = model([node('MatMul', ['x', 'W'])], constants={'W': W}); m.graph.initializer[0].dims[0] = -4; onnx.save(m, 'negative.onnx')
save('unknown.onnx', [node('Add', ['x', 'nowhere'])])
save('huge_input.onnx', [node('Relu')], x=[1 << 40, 1 << 40])
m = model([node('Add', ['x', 'other'])]); m.graph.input.append(h.make_tensor_value_info('other', T.FLOAT, [2, 4])); onnx.save(m, 'two.onnx')
)");
  for (const char* name : {"matmul", "conv", "add", "reshape", "axis"})
    refused(ErrorKind::bad_file, concat("build -o out.plan ", std::string_view(name), ".onnx"),
            {concat(std::string_view(name), ".onnx"), "the_node"});
  for (const char* name : {"initializer", "huge", "negative"})
    refused(ErrorKind::bad_file, concat("build -o out.plan ", std::string_view(name), ".onnx"),
            {concat(std::string_view(name), ".onnx"), "W"});
  refused(ErrorKind::bad_file, "build -o out.plan unknown.onnx", {"unknown.onnx", "nowhere"});
  refused(ErrorKind::bad_file, "build -o out.plan huge_input.onnx", {"huge_input.onnx", "overflows"});
  refused(ErrorKind::usage, "build -o out.plan good.onnx --shapes x=1x5", {"x", "f32[batch,4]"});
  refused(ErrorKind::usage, "build -o out.plan good.onnx --shapes x=4x4:2x4:8x4", {"min <= opt <= max"});
  refused(ErrorKind::usage, "build -o out.plan good.onnx --shapes z=1x4", {"'z'", "x"});
  refused(ErrorKind::usage, "build -o out.plan good.onnx --shapes x=1x4x", {"is not a shape"});
  refused(ErrorKind::usage, "build -o out.plan two.onnx --shapes 2x4", {"names no input", "x, other"});
}

TEST_F(BadInput, ExternalDataStaysInTheFolderAndIsWhole) {
  prepare(R"(
def external(name, **entries):
    m = model([node('MatMul', ['x', 'W'])], constants={'W': W})
    w = m.graph.initializer[0]; w.ClearField('raw_data'); w.data_location = T.EXTERNAL
    for k, v in entries.items(): w.external_data.add(key=k, value=str(v))
    os.makedirs('model', exist_ok=True); onnx.save(m, f'model/{name}.onnx')
os.makedirs('model', exist_ok=True); os.makedirs('model/sub', exist_ok=True)
for path in ('model/w.data', 'model/sub/w.data', 'outside.data'): open(path, 'wb').write(W.tobytes())
os.symlink('../outside.data', 'model/link.data'); os.symlink('w.data', 'model/inner.data'); os.symlink('..', 'model/up')
os.mkfifo('model/pipe.data')
external('fine', location='w.data'); external('fine_sub', location='sub/w.data', offset=0, length=48); external('fine_link', location='inner.data')
external('missing', location='none.data'); external('short', location='w.data', offset=16, length=48); external('tail', location='w.data', offset=40)
external('beyond', location='w.data', offset=1 << 60, length=48); external('overflow', location='w.data', offset=(1 << 64) - 8, length=48)
external('wrong_length', location='w.data', length=44); external('no_number', location='w.data', offset='ten'); external('negative', location='w.data', offset=-4)
external('absolute', location=os.path.abspath('outside.data')); external('dots', location='../outside.data'); external('inner_dots', location='sub/../../outside.data')
external('link', location='link.data'); external('linked_folder', location='up/outside.data'); external('folder', location='sub'); external('pipe', location='pipe.data')
external('nowhere'); external('nul', location='w.data\0x')
)");
  for (const char* name : {"fine", "fine_sub", "fine_link"})
    EXPECT_EQ(temper(folder_, concat("inspect model/", std::string_view(name), ".onnx")).code, 0) << name;
  const std::vector<std::pair<std::string, std::string>> cases{{"missing", "none.data"},
                                                               {"short", "too short"},
                                                               {"tail", "W"},
                                                               {"beyond", "too short"},
                                                               {"overflow", "too short"},
                                                               {"wrong_length", "W"},
                                                               {"no_number", "'ten' is not a number"},
                                                               {"negative", "'-4' is not a number"},
                                                               {"absolute", "absolute"},
                                                               {"dots", "'..'"},
                                                               {"inner_dots", "'..'"},
                                                               {"link", "a link leads out"},
                                                               {"linked_folder", "a link leads out"},
                                                               {"folder", "not a regular file"},
                                                               {"pipe", "not a regular file"},
                                                               {"nowhere", "names no file"},
                                                               {"nul", "holds a NUL"}};
  for (const auto& [name, part] : cases)
    refused(ErrorKind::bad_file, concat("build -o out.plan model/", name, ".onnx"), {name + ".onnx", "'W'", part});
}

TEST_F(BadInput, PlansOfAnotherVersionBuildOrMachineNameTheCommandThatBuildsThemAgain) {
  prepare("np.save('x.npy', np.ones((2, 4), 'f4'))\n");
  build("good.onnx -o good.plan --shapes x=2x4 --threads 1");
  const std::string again = "build it again: temper build good.onnx -o PLAN --threads 1 --shapes x=2x4";
  const std::string path = folder_ + "good.plan";
  const PlanFile good = read_plan_file(path);
  const auto with = [&](auto&& change) {
    PlanFile other = good;
    change(other.info);
    write_plan_file(folder_ + "other.plan", other);
  };
  for (const char* verb : {"run --output-dir out --input x.npy ", "bench --json out.json ", "evaluate --data x.npy "}) {
    with([](EngineInfo& info) { info.version = "99.0"; });
    refused(ErrorKind::unsupported, std::string(verb) + "other.plan",
            {"other.plan", "99.0", std::string(version()), again});
    with([](EngineInfo& info) { info.revision = "another"; });
    refused(ErrorKind::unsupported, std::string(verb) + "other.plan", {"other.plan", "another", again});
    with([](EngineInfo& info) { info.fingerprint = "another CPU"; });
    refused(ErrorKind::unsupported, std::string(verb) + "other.plan",
            {"other.plan", "another CPU", "this machine is", again});
  }
  EXPECT_EQ(temper(folder_, "run --input x.npy good.plan").code, 0);
}

TEST_F(BadInput, DamagedPlansAreRefused) {
  prepare("np.save('x.npy', np.ones((2, 4), 'f4'))\n");
  build("good.onnx -o good.plan --shapes x=2x4");
  const std::string good = read_file(folder_ + "good.plan");
  for (size_t at : {size_t(9), size_t(40), good.size() / 2, good.size() - 1}) {
    std::string bad = good;
    bad[at] = char(bad[at] ^ 4);
    write_text(folder_ + "bad.plan", bad);
    refused(ErrorKind::bad_file, "run --input x.npy --output-dir out bad.plan", {"bad.plan", "build it again"});
    write_text(folder_ + "bad.plan", good.substr(0, at));
    refused(ErrorKind::bad_file, "run --input x.npy --output-dir out bad.plan", {"bad.plan"});
  }
  write_text(folder_ + "bad.plan", good + "more");
  refused(ErrorKind::bad_file, "bench bad.plan", {"bad.plan"});
}

TEST_F(BadInput, ADamagedTimingCacheIsSetAsideAndRebuilt) {
  prepare("");
  build("good.onnx -o good.plan --shapes x=2x4 --timing-cache times.json");
  const std::string good = read_file(folder_ + "times.json");
  for (const std::string& bad : {std::string(), std::string(5000, '\0'), good.substr(0, good.size() / 2),
                                 std::string(R"({"schema": "temper.timings/0", "entries": {}})"),
                                 std::string(R"({"schema": "temper.timings/2", "entries": {"a": [1, 0]}})"),
                                 std::string(R"({"schema": "temper.timings/1", "entries": {"a": "fast"}})"),
                                 std::string(R"({"schema": "temper.timings/1", "entries": {"a": -1}})")}) {
    write_text(folder_ + "times.json", bad);
    fs::remove(folder_ + "times.json.bad");
    const std::string said = build("good.onnx -o good.plan --shapes x=2x4 --timing-cache times.json");
    EXPECT_CONTAINS(said, "the timing cache 'times.json' is damaged");
    EXPECT_CONTAINS(said, "set aside as 'times.json.bad'");
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
    EXPECT_EQ(read_file(folder_ + "times.json.bad"), bad);
    EXPECT_FALSE(nlohmann::json::parse(read_file(folder_ + "times.json")).at("entries").empty());
  }
}

// What does not even begin as a timing cache is somebody's file, named by mistake.
TEST_F(BadInput, AFileThatIsNoTimingCacheIsNotSetAside) {
  prepare("");
  for (const std::string& other : {std::string("[]"), std::string("\xff\xfe"), std::string(200000, '['),
                                   std::string(R"({"schema": 1, "entries": {}})"), std::string("my notes")}) {
    write_text(folder_ + "times.json", other);
    refused(ErrorKind::usage, "build good.onnx -o good.plan --shapes x=2x4 --timing-cache times.json",
            {"--timing-cache 'times.json' is a file that Temper did not write, no timing cache"});
    EXPECT_EQ(read_file(folder_ + "times.json"), other);
  }
}

// Where the cache cannot be kept (a missing or read-only folder, a full disk), the plan is built all the same.
TEST_F(BadInput, ATimingCacheThatCannotBeWrittenCostsNoBuild) {
  prepare("");
  for (const auto& [before, flag] :
       std::vector<std::pair<std::string, std::string>>{{"", " --timing-cache missing/times.json"},
                                                        {"export XDG_CACHE_HOME=/dev/null;", ""},
                                                        {"unset XDG_CACHE_HOME HOME;", ""}}) {
    fs::remove(folder_ + "good.plan");
    const Outcome outcome = temper(folder_, "build good.onnx -o good.plan --quiet --shapes x=2x4" + flag, before);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_CONTAINS(outcome.err, "measured is not kept");
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_TRUE(fs::exists(folder_ + "good.plan"));
  }
}

TEST_F(BadInput, WrongCommandLinesEndWithOneLineThatNamesTheVerb) {
  prepare("");
  refused(ErrorKind::usage, "", {"a verb is needed", "build, run,", "temper --help"});
  refused(ErrorKind::usage, "frobnicate good.onnx", {"no verb 'frobnicate'", "build, run,"});
  refused(ErrorKind::usage, "build good.onnx", {"build: --output is required", "temper build --help"});
  refused(ErrorKind::usage, "run good.onnx --frobnicate", {"run: ", "--frobnicate", "temper run --help"});
  refused(ErrorKind::usage, "run good.onnx --batch 0", {"--batch: '0' is not a whole number of at least 1"});
  refused(ErrorKind::usage, "run good.onnx --batch many", {"--batch: 'many' is not a whole number of at least 1"});
  refused(ErrorKind::usage, "bench good.onnx --warmup -1", {"--warmup: '-1' is not a whole number of at least 0"});
  build("good.onnx -o good.plan --shapes x=2x4");
  refused(ErrorKind::usage, "build good.plan -o out.plan", {"'good.plan' is a plan already", "ONNX model"});
  const Outcome help = temper(folder_, "--help");
  EXPECT_EQ(help.code, 0);
  for (const char* part : {"Exit codes:", "  0  done", "  2  wrong usage", "  5  the machine failed"})
    EXPECT_CONTAINS(help.out, part);
}

TEST_F(BadInput, InputsThatDoNotFitAreRefusedWithWhatIsExpected) {
  prepare(R"(
np.save('x.npy', np.ones((2, 4), 'f4')); np.save('dtype.npy', np.ones((2, 4))); np.save('rank.npy', np.ones((2, 4, 1), 'f4')); np.save('size.npy', np.ones((2, 5), 'f4'))
np.save('many.npy', np.ones((9, 4), 'f4')); np.savez('names.npz', a=np.ones((2, 4), 'f4'), b=np.ones(2, 'f4')); np.save('objects.npy', np.array([{}]), allow_pickle=True)
open('cut.npy', 'wb').write(open('x.npy', 'rb').read()[:-1]); open('text.npy', 'w').write('1 2 3'); open('bad.npz', 'wb').write(b'PK\3\4 nothing')
open('x.txt', 'w').write('1 2 3'); open('bad.csv', 'w').write('1,2,3,4\n1,2,oops,4\n')
)");
  build("good.onnx -o good.plan --shapes x=1x4:2x4:8x4");
  for (const std::string model : {"good.onnx", "good.plan"}) {
    const std::string run = concat("run ", model, " --quiet --output-dir out --input "), expected = "x f32[batch,4]";
    refused(ErrorKind::usage, run + "z=x.npy", {"'z'", expected});
    refused(ErrorKind::usage, run + "dtype.npy", {"dtype.npy", "f64[2,4]", expected});
    refused(ErrorKind::usage, run + "rank.npy", {"rank.npy", "f32[2,4,1]", expected});
    refused(ErrorKind::usage, run + "size.npy", {"size.npy", "f32[2,5]", expected});
    refused(ErrorKind::usage, run + "names.npz", {"names.npz", "a f32[2,4]", expected});
    refused(ErrorKind::usage, run + "x.npy --input x=x.npy", {"x", "twice"});
    refused(ErrorKind::bad_file, run + "missing.npy", {"missing.npy"});
    refused(ErrorKind::bad_file, run + "cut.npy", {"cut.npy"});
    refused(ErrorKind::bad_file, run + "text.npy", {"text.npy", "not an .npy file"});
    refused(ErrorKind::bad_file, run + "bad.npz", {"bad.npz"});
    refused(ErrorKind::bad_file, run + "bad.csv", {"bad.csv", "oops"});
    refused(ErrorKind::unsupported, run + "objects.npy", {"objects.npy"});
    refused(ErrorKind::usage, run + "x.txt", {"x.txt"});
  }
  refused(ErrorKind::usage, "run good.plan --output-dir out --input many.npy --batch 9",
          {"'x'", "batches of 1 to 8, not of 9"});
}

TEST_F(BadInput, PicturesThatCannotBeDecoded) {
  prepare(R"(
save('net.onnx', [node('GlobalAveragePool')], x=['batch', 3, 32, 32])
rng = np.random.default_rng(3); picture = Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype='u1'))
for kind in ('png', 'jpeg', 'gif', 'bmp'): picture.save('p.' + kind, format=kind)
def cut(name, source, size): open(name, 'wb').write(open(source, 'rb').read()[:size])
cut('cut.png', 'p.png', 500); cut('cut.jpg', 'p.jpeg', 500); cut('head.png', 'p.png', 20); cut('empty.png', 'p.png', 0); cut('gif.png', 'p.gif', -1); cut('bmp.jpg', 'p.bmp', -1)
open('noise.jpg', 'wb').write(rng.bytes(5000)); open('noise2.png', 'wb').write(open('p.png', 'rb').read()[:60] + rng.bytes(5000))
os.mkdir('folder'); picture.save('folder/a.png'); cut('folder/b.png', 'p.png', 500)
)");
  const std::string run = "run net.onnx --quiet --output-dir out --input ";
  EXPECT_EQ(temper(folder_, "run net.onnx --input p.jpeg").code, 0);
  for (const char* name : {"cut.png", "cut.jpg", "head.png", "empty.png", "noise.jpg", "noise2.png", "bmp.jpg"})
    refused(ErrorKind::bad_file, run + name, {name});
  refused(ErrorKind::unsupported, run + "gif.png", {"gif.png", "convert"});
  refused(ErrorKind::bad_file, run + "folder --strict", {"b.png"});
}

// A limit on the size of files stands for a full disk: writing fails in the middle, with another number.
TEST_F(BadInput, AFullDiskLeavesTheOldFile) {
  prepare(
      "save('wide.onnx', [node('MatMul', ['x', 'V'])], x=[2, 4], constants={'V': np.ones((4, 90000), "
      "'f4')})\nnp.save('x.npy', np.ones((2, 4), 'f4'))\n");
  fs::create_directories(folder_ + "out");
  const std::string full = "ulimit -f 64;";  // blocks of 512 or 1024 bytes
  const std::string plan(kPlanMagic.begin(), kPlanMagic.end());
  for (const auto& [file, old, arguments] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"out.plan", plan + "the old one", "build wide.onnx --no-timing-cache -o out.plan"},
           {"out/y.npy", read_file(folder_ + "x.npy"),
            "run wide.onnx --quiet --no-timing-cache --top 0 --input x.npy --output-dir out"},
           {"m.onnx", zoo_model("digits_cnn", {}), "zoo mobilenet_v2 -o m.onnx"}}) {
    write_text(folder_ + file, old);
    refused(ErrorKind::machine, arguments, {"cannot write", file, "what was there before is unchanged"}, full);
    EXPECT_EQ(read_file(folder_ + file), old);
  }
  EXPECT_EQ(temper(folder_, "zoo digits_cnn -o missing/m.onnx").code, int(ErrorKind::usage));
  // Devices and folders are not replaced by a file.
  refused(ErrorKind::usage, "zoo digits_cnn -o /dev/full", {"/dev/full", "not a regular file"});
  refused(ErrorKind::usage, "zoo digits_cnn -o out", {"'out'", "it is a folder"});
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  // What is printed may be lost too.
  const Outcome lost = temper(folder_, "doctor >/dev/full 2>err.txt; test $? = 5 && exit 5; true");
  EXPECT_EQ(lost.code, 5);
}

}  // namespace
}  // namespace temper
