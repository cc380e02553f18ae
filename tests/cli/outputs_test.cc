// SPDX-License-Identifier: Apache-2.0
// No verb writes over what it reads, or over a file of another kind: whatever was named by mistake is there afterwards,
// byte for byte, and the refusal comes before any work.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "program.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

class Outputs : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    made_ = new std::string(::testing::TempDir() + "/temper_outputs_" + std::to_string(getpid()) + "/");
    fs::create_directories(*made_);
    // W of the model m.onnx lies in w.bin.
    run_python(*made_, R"(
import onnx
from onnx import helper as h, TensorProto as T, numpy_helper
W = numpy_helper.from_array(np.arange(256, dtype='f4').reshape(4, 64), 'W')
g = h.make_graph([h.make_node('MatMul', ['x', 'W'], ['y'])], 'g', [h.make_tensor_value_info('x', T.FLOAT, [2, 4])], [h.make_tensor_value_info('y', T.FLOAT, [2, 64])], [W])
m = h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8)
onnx.save(m, 'plain.onnx')
onnx.save(m, 'm.onnx', save_as_external_data=True, location='w.bin', size_threshold=0)
np.save('x.npy', np.arange(32, dtype='f4').reshape(8, 4))
)");
    for (const char* arguments :
         {"build m.onnx -o m.plan --no-measure --threads 1", "bench m.plan --iterations 10 --warmup 1 --json r.json",
          "calibrate m.onnx --placeholder-data --samples 2 -o ranges.json --cache trt.cache"}) {
      const Outcome done = temper(*made_, arguments);
      ASSERT_EQ(done.code, 0) << arguments << done.err;
    }
    write_text(*made_ + "log.txt", "&&&& RUNNING TensorRT.trtexec\n");
    write_text(*made_ + "README.md", "# Mine\n");
  }
  static void TearDownTestSuite() {
    fs::remove_all(*made_);
    delete made_;
  }

  Outputs() {
    for (const auto& entry : fs::directory_iterator(*made_))
      if (entry.is_regular_file()) fs::copy_file(entry.path(), folder_ + entry.path().filename().string());
  }

  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      const std::string name = entry.path().string().substr(folder_.size());
      if (entry.is_regular_file() && name != "out.txt" && name != "err.txt" && !name.starts_with("cache/"))
        all[name] = read_file(entry.path().string());
    }
    return all;
  }

  void refused(const std::string& arguments, const std::string& part) {
    const auto before = contents();
    const Outcome outcome = temper(folder_, arguments);
    EXPECT_EQ(outcome.code, int(ErrorKind::usage)) << arguments << ": " << outcome.err;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_NE(outcome.err.find(part), std::string::npos)
        << arguments << ": '" << part << "' is missing in: " << outcome.err;
    EXPECT_EQ(outcome.err.rfind("temper: "), outcome.err.find("temper: ")) << arguments << ": " << outcome.err;
    EXPECT_EQ(outcome.err.find('\n', outcome.err.find("temper: ")), outcome.err.size() - 1)
        << arguments << ": " << outcome.err;
    const auto after = contents();
    EXPECT_EQ(before.size(), after.size()) << arguments;
    for (const auto& [name, text] : before)
      EXPECT_TRUE(after.contains(name) && after.at(name) == text) << arguments << " changed " << name;
  }

  const std::string folder_ = test_folder();
  static inline std::string* made_;
};

constexpr const char* kRead = "is one of the files to read";

TEST_F(Outputs, WhatAVerbReadsItNeverReplaces) {
  fs::create_symlink("plain.onnx", folder_ + "soft.onnx");
  fs::create_hard_link(folder_ + "plain.onnx", folder_ + "hard.onnx");
  const std::string placeholder = "calibrate plain.onnx --placeholder-data ";
  for (const std::string force : {"", " --force"}) {
    for (const char* to : {"plain.onnx", "soft.onnx", "hard.onnx", "./plain.onnx"})
      refused(std::string("build plain.onnx -o ") + to + force, kRead);
    refused("build m.onnx -o w.bin" + force, kRead);  // external data
    refused("build plain.onnx --precision int8 --calibration ranges.json -o ranges.json" + force, kRead);
    refused("build plain.onnx --precision int8 --calibration ranges.json -o new.plan --qdq soft.onnx" + force, kRead);
    refused("build plain.onnx -o new.plan --timing-cache plain.onnx", kRead);
    refused("build plain.onnx --precision int8 --max-drop 1% --metric snr --data x.npy -o x.npy" + force, kRead);
    refused(placeholder + "-o soft.onnx" + force, kRead);
    refused(placeholder + "-o new.json --cache plain.onnx" + force, kRead);
    refused("calibrate plain.onnx --from-cache trt.cache --cache trt.cache -o new.json" + force, kRead);
    refused("calibrate --merge ranges.json ranges.json -o ranges.json" + force, kRead);
    refused("bench m.plan --json m.plan" + force, kRead);
    refused("bench m.onnx --csv w.bin" + force, kRead);
    refused("bench m.plan --markdown m.plan" + force, kRead);
    refused("import trtexec log.txt -o log.txt" + force, kRead);
    refused("profile m.plan --csv m.plan" + force, kRead);
    refused("explain m.plan -o m.plan" + force, kRead);
    refused("report r.json -o r.json" + force, kRead);
    refused("report r.json --csv r.json" + force, kRead);
  }
  refused("profile m.plan --timing-cache m.plan", kRead);
  refused("evaluate plain.onnx --data x.npy --metric snr --timing-cache x.npy", kRead);
}

TEST_F(Outputs, AFileOfAnotherKindStaysUnlessForced) {
  const std::string is = "is a file that Temper did not write, which";
  refused("build m.onnx -o README.md", is + " a plan would replace");
  refused("build m.onnx -o ranges.json", "is a file of ranges, which a plan would replace");
  refused("build m.onnx -o plain.onnx", "is an ONNX model that Temper did not write, which a plan would replace");
  refused("build m.onnx -o new.plan --timing-cache plain.onnx",
          "is an ONNX model that Temper did not write, no timing cache");
  refused("bench m.onnx --timing-cache r.json", "is a result, no timing cache");
  refused("calibrate m.onnx --placeholder-data -o m.plan", "is a plan, which a file of ranges would replace");
  refused("calibrate m.onnx --placeholder-data -o new.json --cache README.md",
          is + " a calibration cache of TensorRT would replace");
  refused("quantize m.onnx --placeholder-data --ranges new.json -o plain.onnx",
          "did not write, which an ONNX model would replace");
  refused("bench m.plan --json ranges.json", "is a file of ranges, which a result would replace");
  refused("bench m.plan --csv README.md", is + " a CSV table of Temper's would replace");
  refused("bench m.plan --markdown README.md", is + " markdown of Temper's would replace");
  refused("import trtexec log.txt -o m.plan", "is a plan, which a result would replace");
  refused("profile m.plan --csv r.json", "is a result, which");
  refused("explain m.plan -o r.json", "is a result, which an explanation would replace");
  refused("explain m.plan -o README.md", is);
  refused("report r.json -o README.md", is + " a report would replace");
  refused("zoo digits_cnn -o plain.onnx",
          "is an ONNX model that Temper did not write, which an ONNX model would replace");
  write_text(folder_ + "out/y.npy", "not an array");
  refused("run m.plan --input x.npy --output-dir out", is + " an .npy file would replace");
  write_text(folder_ + "study/study.md", "# Mine\n");
  refused("study m.onnx --data x.npy -o study --quiet", "study.md' is a file that Temper did not write");
  refused("study m.onnx --data x.npy -o plain.onnx --quiet", "'plain.onnx/steps': Not a directory; name another one");

  const Outcome forced = temper(folder_, "build m.onnx -o README.md --force --no-measure --threads 1");
  EXPECT_EQ(forced.code, 0) << forced.err;
  EXPECT_EQ(kind_of_file(folder_ + "README.md"), FileKind::plan);
  EXPECT_EQ(temper(folder_, "zoo digits_cnn -o plain.onnx --force").code, 0);
  EXPECT_EQ(temper(folder_, "zoo digits_cnn -o plain.onnx").code, 0) << "now it is Temper's own";
}

TEST_F(Outputs, TheSameKindIsReplacedWithoutAWord) {
  const std::string fast = " --iterations 10 --warmup 1";
  for (int i = 0; i < 2; ++i)
    for (const std::string& arguments :
         {std::string("build m.onnx -o m.plan --quick --threads 1 --timing-cache t.json"),
          "bench m.plan --json r.json --csv r.csv --markdown r.md" + fast,
          std::string(
              "quantize m.onnx --placeholder-data --samples 2 --ranges ranges.json --cache trt.cache -o q.onnx"),
          std::string("profile m.plan --duration 50ms --csv p.csv"),
          std::string("explain m.plan --duration 50ms -o e.json"),
          std::string("explain m.plan --duration 50ms -o e.md"),
          std::string("report r.json --csv c.csv --markdown c.md"),
          std::string("run m.plan --input x.npy --output-dir out")}) {
      const Outcome done = temper(folder_, arguments);
      EXPECT_EQ(done.code, 0) << arguments << ": " << done.err;
    }
}

TEST_F(Outputs, AnOutputIsNotAnInputOfRunByItsOutputsName) {
  write_text(folder_ + "out/y.npy", read_file(folder_ + "x.npy"));
  refused("run m.plan --input x=out/y.npy --output-dir out", kRead);
  refused("run m.plan --input out/y.npy --output-dir out --force", kRead);
}

TEST_F(Outputs, AHyphenIsStandardOutputOfBenchAndNoFileElsewhere) {
  const Outcome printed = temper(folder_, "bench m.plan --iterations 10 --warmup 1 --json - --quiet");
  EXPECT_EQ(printed.code, 0) << printed.err;
  EXPECT_EQ(nlohmann::json::parse(printed.out).at("schema"), "temper.result/1");
  EXPECT_FALSE(fs::exists(folder_ + "-"));
  refused("build m.onnx -o -", "names no file");
  refused("bench m.plan --csv -", "names no file");
}

TEST_F(Outputs, AMissingFolderIsWrongUsage) {
  for (const char* arguments :
       {"build m.onnx -o no/m.plan", "calibrate m.onnx --placeholder-data -o no/r.json",
        "bench m.plan --json no/r.json", "import trtexec log.txt -o no/r.json", "profile m.plan --csv no/p.csv",
        "explain m.plan -o no/e.json", "report r.json -o no/r.html", "zoo digits_cnn -o no/m.onnx"})
    refused(arguments, "there is no folder 'no'");
}

TEST_F(Outputs, RangesThatABudgetCalibratesAreHeldAgainstWhatIsThere) {
  write_text(folder_ + "new.plan.ranges.json", "mine");
  refused("build plain.onnx --precision int8 --max-drop 1% --metric snr --data x.npy -o new.plan",
          "--max-drop: the ranges 'new.plan.ranges.json' is a file that Temper did not write");
}

// A cache that others may write to is not believed.
TEST_F(Outputs, ATimingCacheThatOthersMayWriteToIsNotUsed) {
  ASSERT_EQ(temper(folder_, "build m.onnx -o m.plan --quick --threads 1 --timing-cache t.json").code, 0);
  const std::string cache = read_file(folder_ + "t.json");
  ASSERT_EQ(chmod((folder_ + "t.json").c_str(), 0666), 0);
  const Outcome built = temper(folder_, "build m.onnx -o m.plan --quick --threads 1 --timing-cache t.json");
  EXPECT_EQ(built.code, 0);
  EXPECT_CONTAINS(built.err, "the timing cache 't.json' is not used: everybody may write to it");
  EXPECT_EQ(read_file(folder_ + "t.json"), cache);
  ASSERT_EQ(temper(folder_, "build m.onnx -o m.plan --quick --threads 1").code, 0);
  ASSERT_EQ(chmod((folder_ + "cache/temper").c_str(), 0777), 0);
  const Outcome elsewhere = temper(folder_, "build m.onnx -o m.plan --quick --threads 1");
  EXPECT_EQ(elsewhere.code, 0);
  EXPECT_CONTAINS(elsewhere.err, "is not to be trusted: everybody may write to it; what is measured is not kept");
}

}  // namespace
}  // namespace temper
