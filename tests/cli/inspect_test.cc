// SPDX-License-Identifier: Apache-2.0
// temper inspect on plans.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "../paths.h"
#include "../plan/helpers.h"
#include "base/file.h"

namespace temper {
namespace {

using Json = nlohmann::json;

class InspectPlan : public testing::Test {
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

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << text

TEST_F(InspectPlan, TheSummaryNamesModelDeviceShapesAndMemory) {
  const std::string text = output("");
  EXPECT_EQ(status_, 0);
  for (const std::string& part :
       {std::string("small from small.onnx"), std::string(64, 'a'), std::string("cpu, 2 threads"),
        std::string("x: f32[n,3,8,8]"), std::string("y: f32[n,10]"), std::string("x: f32[2,3,8,8]: "),
        std::string("temper build small.onnx -o small.plan"), std::string("a note"), std::string("arena")})
    EXPECT_CONTAINS(text, part);
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
  for (const char* part : {"chosen", "cpu.conv.onednn", "lost", "refused", "not a "}) EXPECT_CONTAINS(text, part);
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

}  // namespace
}  // namespace temper
