// SPDX-License-Identifier: Apache-2.0
// Imports each file of the folders that are named, as the harness onnx_reader does, and lists what it holds, as
// `temper inspect` does: what ./dev fuzz --coverage counts the lines of.
#include <cstdio>

#include "base/file.h"
#include "external_folder.h"
#include "onnx/external.h"
#include "onnx/import.h"
#include "onnx/summary.h"

int main(int argc, char** argv) {
  using namespace temper;
  const ExternalFolder folder;
  const std::string copy = folder.path() + "/m.onnx";  // beside the data that it may name
  int imported = 0, refused = 0;
  for (int i = 1; i < argc; ++i)
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) continue;
      std::filesystem::copy_file(entry.path(), copy, std::filesystem::copy_options::overwrite_existing);
      try {
        model_files(copy);
        const ModelSummary summary = summarise_onnx(copy);
        if (summary.model) verify(summary.model->graph);
        ++(summary.model ? imported : refused);
      } catch (const Error&) { ++refused; }
    }
  std::printf("%d files were imported, %d refused\n", imported, refused);
}
