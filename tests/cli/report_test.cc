// SPDX-License-Identifier: Apache-2.0
// report as a user calls it: measured, imported and studied files to pages, images and tables.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "../interop/logs.h"
#include "../paths.h"
#include "program.h"

namespace temper {
namespace {

size_t pictures_in(const std::string& html) {
  size_t count = 0;
  for (size_t at = 0; (at = html.find("<figure>", at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(ReportVerb, ABenchAProfileAndALogBecomeAPageImagesAndTables) {
  const std::string folder = test_folder();
  ASSERT_EQ(temper(folder, "zoo digits_cnn -o m.onnx").code, 0);
  ASSERT_EQ(temper(folder, "bench m.onnx --batch 1,2 --quick --warmup 1 --iterations 50 --json b.json").code, 0);
  ASSERT_EQ(temper(folder, "build m.onnx -o m.plan --quick").code, 0);
  const Outcome profile = temper(folder, "profile m.plan --duration 50ms --json");
  ASSERT_EQ(profile.code, 0) << profile.err;
  write_file_atomically(folder + "p.json", profile.out);
  write_file_atomically(folder + "a.log", fixture("trt8601_mnist_summary.log"));
  ASSERT_EQ(temper(folder, "import trtexec a.log -o i.json").code, 0);
  const Outcome done = temper(folder,
                              "report b.json p.json i.json -o r.html --markdown r.md --csv r.csv --svg r.svg --png "
                              "plots.png --python '" TEMPER_PYTHON "'");
  ASSERT_EQ(done.code, 0) << done.err;
  const std::string html = read_file(folder + "r.html");
  EXPECT_EQ(pictures_in(html), 4u);
  EXPECT_EQ(done.out,
            "r.md\nr.csv\nr.html\nr-latency.svg\nr-order.svg\nr-throughput.svg\nr-profile.svg\nplots-latency."
            "png\nplots-order.png\nplots-throughput.png\nplots-profile.png\n");
  for (const char* part : {"m.onnx", "mnist-12.onnx", "conv1", "TensorRT 8.6.1", "coefficient of variance",
                           "trtexec --onnx=mnist-12.onnx"})
    EXPECT_CONTAINS(html, part);
  EXPECT_EQ(html.find("/tmp/"), html.npos);  // whose machine it was is nobody's business
  EXPECT_CONTAINS(read_file(folder + "r.md"), "| mnist-12.onnx");
  EXPECT_CONTAINS(read_file(folder + "r.csv"), "m.onnx,");
  EXPECT_TRUE(read_file(folder + "plots-latency.png").starts_with("\x89PNG"));
  const std::string svg = read_file(folder + "r-throughput.svg");
  EXPECT_TRUE(svg.starts_with("<svg"));
  EXPECT_CONTAINS(svg, "items per second");
  EXPECT_EQ(svg.find("var("), std::string::npos);
  const Outcome json = temper(folder, "report b.json --markdown again.md --json");
  EXPECT_EQ(nlohmann::json::parse(json.out).at("written"), nlohmann::json::array({"again.md"}));
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos) << entry.path();
}

TEST(ReportVerb, RefusesWhatItCannotReadOrWriteWithItsReasonAndCode) {
  const std::string folder = test_folder();
  ASSERT_EQ(temper(folder, "zoo digits_cnn -o m.onnx").code, 0);
  ASSERT_EQ(temper(folder, "bench m.onnx --quick --warmup 1 --iterations 10 --json b.json").code, 0);
  write_file_atomically(folder + "empty.json", "");
  write_file_atomically(folder + "other.json", R"({"schema": "temper.ranges/1"})");
  write_file_atomically(folder + "cut.json", read_file(folder + "b.json").substr(0, 900));
  const auto fails = [&](const std::string& arguments, int code, const char* part) {
    const Outcome outcome = temper(folder, "report " + arguments);
    EXPECT_EQ(outcome.code, code) << arguments << ": " << outcome.err;
    EXPECT_CONTAINS(outcome.err, part);
    EXPECT_FALSE(file_exists(folder + "r.html")) << arguments;
  };
  fails("b.json", 2, "say what to write: -o REPORT.html");
  fails("-o r.html", 2, "file is required");
  fails("missing.json -o r.html", 3, "missing.json");
  fails("empty.json -o r.html", 3, "empty.json: the file is empty");
  fails("b.json other.json -o r.html", 3, "other.json: it is a file of ranges");
  fails("cut.json -o r.html", 3, "damaged");
  fails("b.json -o nowhere/r.html", 2, "nowhere");
  fails("b.json --markdown b.json", 2, "is one of the files to read");
  fails("b.json --svg r.svg --python /nowhere/python3", 4, "pip install vl-convert-python==");
  const auto python = [&](const std::string& script) {
    write_file_atomically(folder + "python", "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(folder + "python", std::filesystem::perms::owner_all);
  };
  python("exit 9");
  fails("b.json --png r.png --python ./python", 4, "has no vl-convert");
  python("echo Traceback >&2; echo 'ValueError: no such mark' >&2; exit 1");
  fails("b.json --png r.png --python ./python", 5, "drawing the pictures failed: ValueError: no such mark");
  python("echo 99999999999; echo short");
  fails("b.json --png r.png --python ./python", 5, "something else than");
  EXPECT_EQ(temper(folder, "bench m.onnx --quick --warmup 1 --iterations 10 --json b.json").code, 0);  // still a result
}

TEST(ReportVerb, AStudyOfTheProgramIsReported) {
  const std::string folder = test_folder();
  run_python(folder, R"(
import sys
sys.path.insert(0, ')" + paths::source_folder() +
                         R"(/python')
import digits_data
_, _, images, labels = digits_data.load()
np.savez('digits.npz', image=images, labels=labels)
)");
  ASSERT_EQ(temper(folder, "zoo digits_cnn -o m.onnx").code, 0);
  ASSERT_EQ(temper(folder, "study m.onnx --data digits.npz --samples 200 --quick --duration 100ms -o out").code, 0);
  const Outcome done = temper(folder, "report out/study.json -o r.html --markdown r.md");
  ASSERT_EQ(done.code, 0) << done.err;
  const std::string html = read_file(folder + "r.html");
  EXPECT_EQ(pictures_in(html), 2u);
  EXPECT_CONTAINS(html, "m.onnx: speed against top-1 accuracy");
  EXPECT_CONTAINS(read_file(folder + "r.md"), "| int8");
}

}  // namespace
}  // namespace temper
