// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "../paths.h"

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
  for (const char* subject : {"CPU", "cores", "vector units", "memory", "oneDNN", "cache folder", "GPU", "bf16", "int8",
                              "NVIDIA driver", "NVML", "NVRTC", "cuBLASLt", "cuDNN"})
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

TEST(Doctor, SaysWhyThereIsNoCacheFolder) {
  int status = -1;
  const std::string text = output_of("XDG_CACHE_HOME=/dev/null '" + paths::program() + "' doctor", status);
  EXPECT_EQ(status, 0);
  EXPECT_NE(text.find("cannot create '/dev/null': it is there and no folder"), std::string::npos) << text;
}

}  // namespace
}  // namespace temper
