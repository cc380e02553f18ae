// SPDX-License-Identifier: Apache-2.0
#include "helpers.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace temper {

std::string test_folder() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const size_t build = std::hash<std::string>{}(std::filesystem::read_symlink("/proc/self/exe").string());
  const std::string folder = ::testing::TempDir() + "/temper_" + std::to_string(build) + "_" + test->test_suite_name() +
                             "_" + test->name() + "/";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

std::string test_folder_without_slash() {
  std::string folder = test_folder();
  folder.pop_back();
  return folder;
}

void write_text(const std::string& path, std::string_view text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

void run_python(const std::string& folder, const std::string& script) {
  write_text(folder + "script.py", "import numpy as np\nfrom PIL import Image\n" + script);
  const std::string command = "cd '" + folder + "' && '" TEMPER_PYTHON "' script.py 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  while (size_t got = fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, got);
  ASSERT_EQ(pclose(pipe), 0) << output;
}

}  // namespace temper
