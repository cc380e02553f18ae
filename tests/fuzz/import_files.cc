// SPDX-License-Identifier: Apache-2.0
// Imports each file of the folders that are named, as the harness onnx_reader does: what ./dev fuzz --coverage counts
// the lines of.
#include <cstdio>
#include <filesystem>

#include "base/file.h"
#include "onnx/import.h"

int main(int argc, char** argv) {
  using namespace temper;
  int imported = 0, refused = 0;
  for (int i = 1; i < argc; ++i)
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) continue;
      try {
        verify(import_onnx_bytes(read_file(entry.path().string()), "/nonexistent").graph);
        ++imported;
      } catch (const Error&) { ++refused; }
    }
  std::printf("%d files were imported, %d refused\n", imported, refused);
}
