// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "../paths.h"
#include "base/file.h"

namespace temper {
namespace {

std::string output_of(const std::string& command, int& status) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  std::array<char, 4096> part;
  while (size_t got = fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), got);
  status = pclose(pipe);
  return text;
}

TEST(Doctor, SaysPlainlyWhatThisMachineHasAndLacks) {
  int status = -1;
  const auto json = nlohmann::json::parse(output_of("'" + paths::program() + "' doctor --json", status));
  EXPECT_EQ(status, 0);
  EXPECT_GE(json.at("environment").at("allowed_cores"), 1);
  std::set<std::string> subjects;
  for (const auto& finding : json.at("findings")) {
    subjects.insert(finding.at("what"));
    EXPECT_FALSE(finding.at("state").get<std::string>().empty());
    EXPECT_TRUE(finding.at("lacking").is_boolean());
  }
  for (const char* subject : {"CPU", "cores", "vector units", "memory", "oneDNN", "cache folder", "GPU plans", "bf16",
                              "int8", "NVIDIA driver", "NVML", "NVRTC", "cuBLASLt", "cuDNN"})
    EXPECT_TRUE(subjects.contains(subject)) << subject;
}

TEST(Doctor, SaysOfEachLibraryWhereItIsOrWhatItIsNeededFor) {
  int status = -1;
  const auto json =
      nlohmann::json::parse(output_of("'" + paths::program() + "' doctor --json --cuda-path /nowhere", status));
  EXPECT_EQ(status, 0);
  EXPECT_EQ(json.at("libraries").size(), 5u);
  for (const auto& library : json.at("libraries")) {
    const std::string problem = library.at("problem");
    EXPECT_TRUE(!library.at("path").get<std::string>().empty() || !problem.empty()) << library.dump();
    if (problem.find("was not found") != std::string::npos) {
      EXPECT_NE(problem.find("needed for"), std::string::npos) << problem;
      EXPECT_NE(problem.find("looked in"), std::string::npos) << problem;
    }
  }
  EXPECT_TRUE(json.at("gpus").is_array());
}

// The GPUs of the scripted driver, with the compiler of the tests or with what the machine has.
class DoctorOfGpus : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!file_exists(paths::scripted_driver_folder() + "/libcuda.so.1")) GTEST_SKIP() << "no scripted driver here";
  }
  static nlohmann::json examine(const std::vector<std::string>& folders) {
    std::string command = "'" + paths::program() + "' doctor --json";
    for (const std::string& folder : folders) command += " --cuda-path '" + folder + "'";
    int status = -1;
    auto json = nlohmann::json::parse(output_of(command, status));
    EXPECT_EQ(status, 0);
    return json;
  }
  static std::vector<nlohmann::json> plans_of(const nlohmann::json& json) {
    std::vector<nlohmann::json> found;
    for (const auto& finding : json.at("findings"))
      if (finding.at("what") == "GPU plans") found.push_back(finding);
    return found;
  }
};

TEST_F(DoctorOfGpus, NamesThoseThatPlansCanBeBuiltForAndTheCommand) {
  const auto json = examine({paths::scripted_driver_folder(), paths::emulator_folder()});
  const auto plans = plans_of(json);
  ASSERT_EQ(plans.size(), 1u) << json.dump(1);
  const std::string state = plans[0].at("state");
  EXPECT_TRUE(state.starts_with("can be built for cuda:0, cuda:1: temper build MODEL -o PLAN --device cuda:0"))
      << state;
  EXPECT_FALSE(plans[0].at("lacking"));
  ASSERT_EQ(json.at("gpus").size(), 2u);
  EXPECT_EQ(json.at("gpus")[1].at("device"), "cuda:1");
  EXPECT_EQ(json.at("gpus")[1].at("why_no_plans"), "");
}

TEST_F(DoctorOfGpus, SaysWhichCannotBeBuiltForAndWhatRepairsThat) {
  // Whether NVRTC is found depends on the machine; both findings must agree.
  const auto json = examine({paths::scripted_driver_folder()});
  std::string problem;
  for (const auto& library : json.at("libraries"))
    if (library.at("name") == "NVRTC") problem = library.at("problem");
  const auto plans = plans_of(json);
  ASSERT_EQ(plans.size(), problem.empty() ? 1u : 2u) << json.dump(1);
  for (const auto& finding : plans) {
    const std::string state = finding.at("state");
    EXPECT_EQ(finding.at("lacking"), !problem.empty()) << state;
    if (problem.empty()) continue;
    EXPECT_TRUE(state.starts_with("cannot be built for cuda:")) << state;
    EXPECT_NE(state.find("pip install"), state.npos) << state;
  }
}

TEST(Doctor, SaysWhyThereIsNoCacheFolder) {
  int status = -1;
  const std::string text = output_of("XDG_CACHE_HOME=/dev/null '" + paths::program() + "' doctor", status);
  EXPECT_EQ(status, 0);
  EXPECT_NE(text.find("cannot create '/dev/null': it is there and no folder"), std::string::npos) << text;
}

}  // namespace
}  // namespace temper
