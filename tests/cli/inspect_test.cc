// SPDX-License-Identifier: Apache-2.0
// temper inspect on plans, models and the other files of Temper.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "../paths.h"
#include "../plan/helpers.h"
#include "base/file.h"
#include "program.h"

namespace temper {
namespace {

using Json = nlohmann::json;

class InspectPlan : public ::testing::Test {
 protected:
  InspectPlan()
      : path_(
            (std::filesystem::temp_directory_path() / concat("temper-inspect-", int64_t(getpid()), ".plan")).string()) {
    auto engine = std::make_shared<Engine>(info_of("cpu"), small_graph("n"), 2);
    add_plan(engine, {{2, 3, 8, 8}});
    save_engine(*engine, path_);
  }
  ~InspectPlan() override { std::filesystem::remove(path_); }

  std::string output(const std::string& arguments) {
    FILE* pipe = popen(concat("'" + paths::program() + "' inspect '", path_, "' ", arguments, " 2>&1").c_str(), "r");
    std::string text;
    std::array<char, 4096> part;
    while (size_t got = fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), got);
    status_ = WEXITSTATUS(pclose(pipe));
    return text;
  }

  std::string path_;
  int status_ = -1;
};

TEST_F(InspectPlan, TheSummaryNamesModelDeviceShapesAndMemory) {
  const std::string text = output("");
  EXPECT_EQ(status_, 0);
  for (const std::string& part :
       {std::string("small from small.onnx"), std::string(64, 'a'), std::string("cpu, 2 threads"),
        std::string("x: f32[n,3,8,8]"), std::string("y: f32[n,10]"), std::string("x: f32[2,3,8,8]: "),
        std::string("temper build small.onnx -o small.plan"), std::string("a note"), std::string("arena")})
    EXPECT_CONTAINS(text, part);
}

TEST_F(InspectPlan, TheSummaryNamesAStepOnTheReference) {
  EXPECT_EQ(output("").find("scalar reference"), std::string::npos);
  const Graph graph = parse_graph(R"(graph "wide"
input %x: f64[1,1,5,5]
const %w: f64[1,1,1,1] = [2]
%y: f64[1,1,5,5] = conv(%x, %w) strides=[1,1] dilations=[1,1] pads=[0,0,0,0]
output "y" = %y
)",
                                  {});
  auto engine = std::make_shared<Engine>(info_of("cpu"), graph, 2);
  add_plan(engine, {{1, 1, 5, 5}});
  save_engine(*engine, path_, true);
  const std::string text = output("");
  EXPECT_CONTAINS(text, "y (conv) runs on the slow scalar reference; --why y says why the kernels refused");
  EXPECT_CONTAINS(text, "x: f64[1,1,5,5]: 1 step, arena");
}

TEST_F(InspectPlan, LayersAreListedWithTacticAndLayouts) {
  const std::string text = output("--layers");
  EXPECT_EQ(status_, 0);
  for (const char* part : {"c1", "conv", "cpu.conv.onednn", "matmul", "pointwise", "f32[2,16,8,8]"})
    EXPECT_CONTAINS(text, part);
}

TEST_F(InspectPlan, WhyShowsLosersAndReasonsOfRefusals) {
  const std::string text = output("--why c1");
  EXPECT_EQ(status_, 0);
  for (const char* part : {"chosen", "cpu.conv.onednn", "lost", "refused", "tactics are for other ops"})
    EXPECT_CONTAINS(text, part);
  const std::string none = output("--why c");
  EXPECT_EQ(status_, int(ErrorKind::usage));
  EXPECT_CONTAINS(none, "c1");
}

TEST_F(InspectPlan, TheGraphOfAPlanReadsBack) {
  const std::string text = output("--graph");
  EXPECT_EQ(status_, 0);
  EXPECT_EQ(text, print(small_graph("n")));
}

TEST_F(InspectPlan, JsonHasTheSame) {
  const Json json = Json::parse(output("--json --layers --why c1"));
  EXPECT_EQ(status_, 0);
  EXPECT_EQ(json.at("model"), "small");
  EXPECT_EQ(json.at("threads"), 2);
  EXPECT_EQ(json.at("plan_bytes"), std::filesystem::file_size(path_));
  EXPECT_TRUE(json.at("refusal").is_null());
  int64_t steps = 0;
  for (const Json& segment : json.at("plans").at(0).at("segments")) steps += int64_t(segment.at("steps").size());
  EXPECT_GE(steps, 5);
  EXPECT_TRUE(json.at("plans").at(0).at("not_measured").is_object());
  EXPECT_EQ(json.at("why").at(0).at("node"), "c1");
  EXPECT_FALSE(json.at("why").at(0).at("others").empty());
}

TEST_F(InspectPlan, APlanOfAnotherMachineIsShownAndSaysThatItDoesNotRunHere) {
  PlanFile file = read_plan_file(path_);
  file.info.fingerprint = "cpu of another kind";
  write_plan_file(path_, file);
  const std::string text = output("");
  EXPECT_EQ(status_, 0);
  EXPECT_CONTAINS(text, "runs here   no: the plan was built for 'cpu of another kind'");
  EXPECT_CONTAINS(output("--layers"), "cpu.conv.onednn");
  file.info.version = "99.0";
  write_plan_file(path_, file);
  EXPECT_CONTAINS(output(""), "built by temper 99.0");
  output("--layers");
  EXPECT_EQ(status_, int(ErrorKind::unsupported));
}

TEST_F(InspectPlan, ADamagedPlanEndsWithItsExitCode) {
  std::string bytes = read_file(path_);
  bytes[bytes.size() / 2] ^= 1;
  write_file_atomically(path_, bytes);
  const std::string text = output("");
  EXPECT_EQ(status_, int(ErrorKind::bad_file));
  EXPECT_CONTAINS(text, "damaged");
}

constexpr const char* kModelsToInspect = R"(
import onnx, os
from onnx import helper as h, TensorProto as T, numpy_helper
import numpy as np
def save(name, nodes, shape, **more):
    g = h.make_graph(nodes, 'small', [h.make_tensor_value_info('x', T.FLOAT, shape)], [h.make_tensor_value_info('y', T.FLOAT, ['p', 'q'])],
                     [numpy_helper.from_array(np.ones((4, 3), 'f4'), 'W')], **more)
    m = h.make_model(g, opset_imports=[h.make_opsetid('', 17), h.make_opsetid('my', 1)], ir_version=8, producer_name='somebody', producer_version='2')
    onnx.save(m, name)
node = h.make_node
save('good.onnx', [node('MatMul', ['x', 'W'], ['a'], 'product'), node('Relu', ['a'], ['y'])], ['batch', 4])
save('open.onnx', [node('Relu', ['x'], ['y'])], ['batch', 'length'])
save('three.onnx', [node('Frob', ['x'], ['a'], 'first', domain='my'), node('Frob', ['x'], ['b'], 'second', domain='my'), node('Relu', ['a'], ['c']),
                    node('Hide', ['x'], ['d'], 'third', domain='my'), node('Cast', ['d'], ['e'], 'fourth', to=T.COMPLEX64), node('Sum', ['b', 'c', 'e'], ['y'])],
     ['batch', 4], value_info=[h.make_tensor_value_info('d', T.FLOAT, [4])])
)";

TEST(InspectModel, TheSummaryBeginsWithWhatTheFileHoldsAndSaysWhatARunTakes) {
  const std::string folder = test_folder();
  run_python(folder, kModelsToInspect);
  const Outcome shown = temper(folder, "inspect good.onnx");
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_TRUE(shown.out.starts_with("model       good.onnx, ")) << shown.out;
  EXPECT_EQ(shown.out.substr(shown.out.find("producer")),
            "producer    somebody 2\n"
            "opset       17, my 1, IR version 8\n"
            "input       x: f32[batch,4]\n"
            "output      y: f32[p,q]\n"
            "nodes       2: 1 MatMul, 1 Relu\n"
            "parameters  12 f32, 48 B\n" +
                shown.out.substr(std::min(shown.out.size(), shown.out.find("for         "))));
  for (const char* part : {"for         x [1,4], on cpu, in fp32\n", "operations  24 in convolutions and products",
                           "runs here   yes, in ", "each with a kernel\n"})
    EXPECT_CONTAINS(shown.out, part);
  const Json json = Json::parse(temper(folder, "inspect good.onnx --json --shapes x=5x4").out);
  EXPECT_EQ(json.at("ops").at("MatMul"), 1);
  EXPECT_EQ(json.at("planned").at("shapes").at("x"), Json({5, 4}));
  EXPECT_EQ(json.at("planned").at("product_operations"), 120);
  EXPECT_EQ(json.at("not_supported"), Json::array());
}

TEST(InspectModel, OpenDimensionsAreNamedAndShapesDecideThem) {
  const std::string folder = test_folder();
  run_python(folder, kModelsToInspect);
  EXPECT_CONTAINS(temper(folder, "inspect open.onnx").out, "yes; length is open: --shapes NAME=SHAPE");
  EXPECT_CONTAINS(temper(folder, "inspect open.onnx --shapes 2x7").out, "for         x [2,7]");
  const Outcome unknown = temper(folder, "inspect open.onnx --shapes y=2x7,x=2x7");
  EXPECT_EQ(unknown.code, int(ErrorKind::usage));
  EXPECT_CONTAINS(unknown.err, "names the input 'y', which the model does not have");
  EXPECT_EQ(temper(folder, "inspect open.onnx --shapes 7").code, int(ErrorKind::usage));
}

TEST(InspectModel, EverythingThatIsNotSupportedIsListedWithItsReason) {
  const std::string folder = test_folder();
  run_python(folder, kModelsToInspect);
  const Outcome shown = temper(folder, "inspect three.onnx");
  EXPECT_EQ(shown.code, int(ErrorKind::unsupported));
  EXPECT_CONTAINS(shown.out, "runs here   no: 4 not supported, and 2 nodes behind them were not looked at");
  EXPECT_CONTAINS(shown.out, "my.Frob: the op my.Frob is not known");
  EXPECT_CONTAINS(shown.out, "('first', 'second')");
  EXPECT_CONTAINS(shown.out, "('third')");
  EXPECT_CONTAINS(shown.out, "('fourth')");  // its input has the type that the file states
  EXPECT_CONTAINS(shown.err, "temper: three.onnx: node 'first'");
  const Json json = Json::parse(temper(folder, "inspect three.onnx --json").out);
  EXPECT_EQ(json.at("not_supported").size(), 4u);
  EXPECT_FALSE(json.at("supported"));
  EXPECT_EQ(json.at("planned"), nullptr);
}

TEST(InspectModel, TheGraphComesWhereItIsAskedFor) {
  const std::string folder = test_folder();
  run_python(folder, kModelsToInspect);
  const Outcome graph = temper(folder, "inspect good.onnx --graph");
  EXPECT_TRUE(graph.out.starts_with("graph \"small\"")) << graph.out;
  EXPECT_EQ(Json::parse(temper(folder, "inspect good.onnx --graph --json").out).at("graph"), graph.out);
  EXPECT_TRUE(temper(folder, "inspect good.onnx --passes on").out.starts_with("graph "));
}

// As in messages and tables. The graph and JSON have them whole.
TEST(InspectModel, ANameOfMegabytesIsCutByEveryVerbThatPrintsIt) {
  const std::string folder = test_folder();
  run_python(folder, R"(
import onnx
from onnx import helper as h, TensorProto as T
long = 'a' * 1000000
ports = [h.make_tensor_value_info(name, T.FLOAT, [1, 4]) for name in ('x' + long, 'y' + long)]
g = h.make_graph([h.make_node('Relu', [ports[0].name], [ports[1].name], name='n' + long)], 'g' + long, ports[:1], ports[1:])
onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8, producer_name='p' + long), 'long.onnx')
)");
  for (const char* arguments :
       {"build long.onnx -o long.plan --no-measure --threads 1", "inspect long.onnx", "inspect long.plan --layers",
        "verify long.onnx --nodes", "run long.plan", "profile long.plan --duration 0.05s"}) {
    const Outcome shown = temper(folder, arguments);
    EXPECT_EQ(shown.code, 0) << arguments;
    EXPECT_CONTAINS(shown.out, "aaaa") << arguments;
    EXPECT_LT(shown.out.size(), 20000u) << arguments;
    EXPECT_LT(shown.err.size(), 20000u) << arguments;
  }
  EXPECT_GT(temper(folder, "inspect long.onnx --graph").out.size(), 2000000u);
}

TEST(InspectFile, KnowsWhatTemperWritesAndReads) {
  const std::string folder = test_folder();
  run_python(folder, kModelsToInspect);
  write_text(folder + "trt.cache", "TRT-8501-EntropyCalibration2\nx: 3c010204\n");
  ASSERT_EQ(temper(folder, "build good.onnx -o good.plan --timing-cache times.json --quiet").code, 0);
  ASSERT_EQ(temper(folder, "calibrate good.onnx --placeholder-data --samples 2 -o ranges.json --quiet").code, 0);
  ASSERT_EQ(temper(folder, "bench good.plan --iterations 5 --json result.json --quiet").code, 0);
  write_text(folder + "profile.json", temper(folder, "profile good.plan --duration 0.1s --json").out);
  write_text(folder + "graph.txt", temper(folder, "inspect good.onnx --graph").out);
  ASSERT_EQ(temper(folder, "run good.plan --output-dir . --quiet").code, 0);
  write_text(folder + "other.json", "{\"a\": 1}");
  const Outcome other = temper(folder, "inspect other.json");
  EXPECT_EQ(other.code, int(ErrorKind::bad_file));
  EXPECT_CONTAINS(other.err, "other.json: JSON, but of none of the schemas that inspect knows");
  EXPECT_CONTAINS(temper(folder, "gate good.onnx result.json").err, "good.onnx: it is an ONNX model");
  EXPECT_CONTAINS(temper(folder, "report good.plan -o r.html").err, "good.plan: it is a plan; a report is made of");
  for (const auto& [file, part] : {std::pair("times.json", "times       "),
                                   {"ranges.json", "samples     2 of noise"},
                                   {"result.json", "median ms"},
                                   {"profile.json", "longest steps"},
                                   {"graph.txt", "nodes       2: "},
                                   {"y.npy", "holds       f32["},
                                   {"trt.cache", "tensors     1"}}) {
    const Outcome shown = temper(folder, concat("inspect ", std::string_view(file)));
    EXPECT_EQ(shown.code, 0) << file << ": " << shown.err;
    EXPECT_CONTAINS(shown.out, part);
    EXPECT_EQ(Json::parse(temper(folder, concat("inspect --json ", std::string_view(file))).out).at("file"), file);
  }
}

TEST_F(InspectPlan, OptionsOfModelsAreRefusedOnAPlan) {
  for (const char* option : {"--dump-passes passes", "--passes on", "--shapes x=1x3x8x8", "--precision fp16",
                             "--device cpu", "--threads 1", "--disable all", "--memory-limit 1GiB", "--node-limit 9"}) {
    const std::string text = output(option);
    EXPECT_EQ(status_, int(ErrorKind::usage)) << option;
    EXPECT_CONTAINS(text, concat(std::string(option).substr(0, std::string(option).find(' ')), " is of models; '",
                                 path_, "' is a plan"));
  }
  output("--isa base");  // whether the plan runs under this limit
  EXPECT_EQ(status_, 0);
}

TEST(InspectFile, OptionsOfModelsAndPlansAreRefusedOnOtherFiles) {
  const std::string folder = test_folder();
  write_text(folder + "trt.cache", "TRT-8501-EntropyCalibration2\nx: 3c010204\n");
  ASSERT_EQ(temper(folder, "inspect trt.cache").code, 0);
  for (const char* option : {"--precision fp16", "--isa base", "--passes on"}) {
    const Outcome refused = temper(folder, concat("inspect trt.cache ", std::string_view(option)));
    EXPECT_EQ(refused.code, int(ErrorKind::usage)) << option;
    EXPECT_CONTAINS(refused.err, " is of models; 'trt.cache' is a calibration cache of TensorRT");
  }
  EXPECT_CONTAINS(temper(folder, "inspect trt.cache --graph").err, "--graph is of models and plans; 'trt.cache' is ");
}

}  // namespace
}  // namespace temper
