// SPDX-License-Identifier: Apache-2.0
// `temper bench` from the outside, on the smallest model of the zoo.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "../paths.h"
#include "base/file.h"
#include "bench/results.h"
#include "measure/environment.h"

namespace temper {
namespace {

struct Printed {
  int code = -1;
  std::string text;
};
Printed run(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  Printed printed;
  std::array<char, 4096> part;
  while (size_t got = fread(part.data(), 1, part.size(), pipe)) printed.text.append(part.data(), got);
  printed.code = WEXITSTATUS(pclose(pipe));
  return printed;
}

class BenchVerb : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = ::testing::TempDir() + "temper_bench_" + std::to_string(getpid());
    std::filesystem::create_directories(folder);
    ASSERT_EQ(run(temper + "zoo digits_cnn -o " + folder + "/m.onnx").code, 0);
    const Printed built =
        run(temper + "build " + folder + "/m.onnx -o " + folder + "/m.plan --threads 1 --no-timing-cache --quick");
    ASSERT_EQ(built.code, 0) << built.text;
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder); }
  static std::string file(const std::string& name) { return folder + "/" + name; }
  static inline std::string folder, temper = "'" + paths::program() + "' ";
};

TEST_F(BenchVerb, PlanIsMeasuredAndTheResultSaved) {
  const Printed done = run(temper + "bench " + file("m.plan") + " --duration 200ms --json " + file("r.json") +
                           " --csv " + file("r.csv"));
  ASSERT_EQ(done.code, 0) << done.text;
  EXPECT_NE(done.text.find("median ms"), std::string::npos) << done.text;
  const BenchResult result = load_result(file("r.json"));
  ASSERT_EQ(result.runs.size(), 1u);
  const BenchRun& r = result.runs[0];
  EXPECT_EQ(r.model, file("m.plan"));
  EXPECT_EQ(r.precision, "fp32");
  EXPECT_EQ(r.threads, 1);
  EXPECT_EQ(r.plan_bytes, int64_t(std::filesystem::file_size(file("m.plan"))));
  EXPECT_EQ(r.model_sha256->size(), 64u);
  EXPECT_GT(r.latency.median.value(), 0);
  EXPECT_GT(r.build_s.value(), 0);
  EXPECT_TRUE(result.environment.clock_mhz_after);
  EXPECT_EQ(read_file(file("r.csv")).find("model,model_sha256,"), 0u);
}

TEST_F(BenchVerb, ModelIsBuiltForEachBatchWithFixedCounts) {
  const Printed done =
      run(temper + "bench " + file("m.onnx") +
          " --batch 1,4 --threads 1 --quick --no-timing-cache --warmup 2 --iterations 12 --json " + file("m.json"));
  ASSERT_EQ(done.code, 0) << done.text;
  const BenchResult result = load_result(file("m.json"));
  ASSERT_EQ(result.runs.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(result.runs[i].batch, i == 0 ? 1 : 4);
    EXPECT_EQ(result.runs[i].samples, 12);
    EXPECT_EQ(result.runs[i].warmup_runs, 2);
    EXPECT_NE(result.runs[i].notes.at("samples").find("counts were fixed"), std::string::npos);
    EXPECT_FALSE(result.runs[i].plan_bytes);
  }
}

TEST_F(BenchVerb, EveryCombinationOfASweepIsMeasured) {
  const Printed done = run(temper + "bench " + file("m.onnx") +
                           " --precision fp32,bf16 --threads 1,2 --batch 1,4 --streams 1,2 --quick --no-timing-cache "
                           "--warmup 1 --iterations 8 --json " +
                           file("s.json") + " --markdown " + file("s.md"));
  if (done.code == 4) GTEST_SKIP() << "this CPU has no BF16 arithmetic: " << done.text;
  ASSERT_EQ(done.code, 0) << done.text;
  const BenchResult result = load_result(file("s.json"));
  std::set<std::tuple<std::string, int, int64_t, int64_t>> places;
  for (const BenchRun& r : result.runs) places.insert({*r.precision, *r.threads, *r.batch, *r.streams});
  EXPECT_EQ(places.size(), 16u);
  EXPECT_EQ(result.runs.size(), 16u);
  EXPECT_EQ(result.runs[0].command->find("temper bench "), 0u) << *result.runs[0].command;
  EXPECT_NE(read_file(file("s.md")).find("| fp32 |"), std::string::npos);
}

TEST_F(BenchVerb, RequestsOfARateAreMeasuredFromWhenTheyWereMeantToBeSent) {
  const Printed done =
      run(temper + "bench " + file("m.plan") + " --rate 50,200 --duration 500ms --json " + file("o.json"));
  ASSERT_EQ(done.code, 0) << done.text;
  const BenchResult result = load_result(file("o.json"));
  ASSERT_EQ(result.runs.size(), 2u);
  EXPECT_EQ(result.runs[0].load, "open");
  EXPECT_EQ(result.runs[1].request_rate_per_s, 200);
  EXPECT_EQ(result.runs[0].request_rate_per_s, 50);
  for (const BenchRun& r : result.runs) EXPECT_GT(r.samples.value(), 0);
  EXPECT_NE(done.text.find("200.0/s"), std::string::npos) << done.text;
  EXPECT_EQ(run(temper + "bench " + file("m.plan") + " --rate 0").code, 2);
  EXPECT_EQ(run(temper + "bench " + file("m.plan") + " --rate often").code, 2);
  EXPECT_EQ(run(temper + "bench " + file("m.plan") + " --rate 50 --iterations 3").code, 2);
}

TEST_F(BenchVerb, PipeRunsAsOftenAsAsked) {
  const Printed done = run("printf '3\\n1\\n' | " + temper + "bench " + file("m.plan") + " --pipe");
  ASSERT_EQ(done.code, 0) << done.text;
  std::istringstream lines(done.text);
  std::string ready, three, one, rest;
  std::getline(lines, ready);
  std::getline(lines, three);
  std::getline(lines, one);
  EXPECT_FALSE(std::getline(lines, rest)) << rest;
  ASSERT_EQ(ready.find("ready {"), 0u) << ready;
  const auto info = nlohmann::json::parse(ready.substr(6));
  EXPECT_EQ(info.at("batch"), 1);
  EXPECT_GT(info.at("peak_rss"), 0);
  EXPECT_GT(info.at("plan_bytes"), 0);
  EXPECT_EQ(nlohmann::json::parse(three).size(), 3u);
  EXPECT_EQ(nlohmann::json::parse(one).size(), 1u);
  EXPECT_EQ(run("echo many | " + temper + "bench " + file("m.plan") + " --pipe").code, 2);
}

TEST_F(BenchVerb, WrongUseIsRefusedWithTheReason) {
  EXPECT_EQ(run(temper + "bench " + file("none.plan")).code, 3);
  EXPECT_EQ(run(temper + "bench " + file("m.plan") + " --duration soon").code, 2);
  EXPECT_EQ(run(temper + "bench " + file("m.plan") + " --batch 0").code, 2);
  EXPECT_EQ(run(temper + "bench " + file("m.onnx") + " --pipe").code, 2);
  const Printed threads = run(temper + "bench " + file("m.plan") + " --threads 3");
  EXPECT_EQ(threads.code, 2);
  EXPECT_NE(threads.text.find("--threads 3"), std::string::npos) << threads.text;
  const Printed precision = run(temper + "bench " + file("m.plan") + " --precision bf16");
  EXPECT_EQ(precision.code, 2);
  EXPECT_NE(precision.text.find("--precision bf16"), std::string::npos) << precision.text;
  const Printed model = run(temper + "bench " + file("m.onnx") + " --precision int3");
  EXPECT_NE(model.code, 0);
  EXPECT_NE(model.text.find("int3"), std::string::npos) << model.text;
}

TEST_F(BenchVerb, OptionsOfABuildAreRefusedBesideAPlan) {
  for (const std::string option :
       {"--quick", "--no-measure", "--no-timing-cache", "--timing-cache t.json", "--time-limit 120", "--build-limit 9",
        "--loop-limit 5", "--node-limit 1000", "--depth-limit 9"})
    for (const std::string verb : {"bench ", "run ", "evaluate --data x.npy ", "generate --prompt-ids 1 "}) {
      const Printed refused = run(temper + verb + file("m.plan") + " " + option);
      EXPECT_EQ(refused.code, 2) << verb << option << ": " << refused.text;
      const std::string wanted = option.substr(0, option.find(' ')) + " cannot change it";
      EXPECT_NE(refused.text.find(wanted), std::string::npos) << verb << option << ": " << refused.text;
    }
}

TEST_F(BenchVerb, ABatchThatShapesContradictIsRefused) {
  const std::string options = " --batch 2 --no-measure --no-timing-cache";
  for (const std::string verb : {"bench ", "bench --device cpu,cpu ", "versus "}) {
    const Printed one = run(temper + verb + file("m.onnx") + " --shapes image=4x1x8x8" + options);
    EXPECT_EQ(one.code, 2) << verb << one.text;
    EXPECT_NE(one.text.find("--batch 2 contradicts --shapes, which says a batch of 4"), std::string::npos) << one.text;
    const Printed range = run(temper + verb + file("m.onnx") + " --shapes 3x1x8x8:4x1x8x8:8x1x8x8" + options);
    EXPECT_EQ(range.code, 2) << verb << range.text;
    EXPECT_NE(range.text.find("which says batches of 3 to 8"), std::string::npos) << range.text;
  }
  const Printed within = run(temper + "bench " + file("m.onnx") + " --shapes 1x1x8x8:4x1x8x8:8x1x8x8 --iterations 2" +
                             options + " --json");
  ASSERT_EQ(within.code, 0) << within.text;
  EXPECT_NE(within.text.find("\"batch\": 2"), std::string::npos) << within.text;
}

TEST_F(BenchVerb, BucketsThatNoPlanHasAreRefused) {
  const std::string options = file("m.onnx") + " --buckets 2,4 --no-measure --no-timing-cache --iterations 2 ";
  for (const std::string batch : {"", "--batch 4"}) {
    const Printed refused = run(temper + "bench " + options + batch);
    EXPECT_EQ(refused.code, 2) << refused.text;
    EXPECT_NE(refused.text.find("leave --buckets out"), std::string::npos) << refused.text;
  }
  EXPECT_EQ(run(temper + "bench " + options + "--shapes 1x1x8x8:4x1x8x8:8x1x8x8").code, 0);
}

TEST_F(BenchVerb, APlanHasOneNumberOfThreads) {
  const Printed several = run(temper + "bench " + file("m.plan") + " --threads 1,1");
  EXPECT_EQ(several.code, 2);
  EXPECT_NE(several.text.find("one number of threads"), std::string::npos) << several.text;
  const std::string counts = " --iterations 2 --warmup 1 --threads 0";
  EXPECT_EQ(
      run("taskset -c $(taskset -cp $$ | sed 's/.*: *//; s/[,-].*//') " + temper + "bench " + file("m.plan") + counts)
          .code,
      0)
      << "one core is all";
  if (usable_cores(read_environment(0)) == 1) return;
  const Printed all = run(temper + "bench " + file("m.plan") + counts);
  EXPECT_EQ(all.code, 2);
  EXPECT_NE(all.text.find("build it again with --threads 0"), std::string::npos) << all.text;
  EXPECT_EQ(run(temper + "run " + file("m.plan") + " --threads 0").code, 2);
}

TEST_F(BenchVerb, ATimingCacheThatWouldNotBeUsedIsRefused) {
  for (const std::string other : {"--no-timing-cache", "--no-measure"}) {
    const Printed both = run(temper + "bench " + file("m.onnx") + " --timing-cache " + file("t.json") + " " + other);
    EXPECT_EQ(both.code, 2);
    EXPECT_NE(both.text.find("--timing-cache excludes " + other), std::string::npos) << both.text;
  }
}

}  // namespace
}  // namespace temper
