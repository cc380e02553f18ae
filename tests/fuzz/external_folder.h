// SPDX-License-Identifier: Apache-2.0
// A folder with one file, "w.bin", of 4 KiB: all the external data that a model in a harness can read. It is gone at
// the program's end.
#pragma once
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

class ExternalFolder {
 public:
  ExternalFolder() : path_((std::filesystem::temp_directory_path() / "temper-fuzz-XXXXXX").string()) {
    if (!mkdtemp(path_.data())) abort();
    std::ofstream file(path_ + "/w.bin", std::ios::binary);
    for (int i = 0; i < 4096; ++i) file.put(char(i % 251));
  }
  ExternalFolder(const ExternalFolder&) = delete;
  ~ExternalFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};
