// SPDX-License-Identifier: Apache-2.0
#include "onnx/used_files.h"

#include <algorithm>

#include "onnx/external.h"

namespace temper {

void check_files(const UsedFiles& files) {
  std::vector<std::string> inputs = files.reads;
  inputs.insert(inputs.end(), files.models.begin(), files.models.end());
  // Where external data lies is read only when there is something that could be it.
  if (std::any_of(files.writes.begin(), files.writes.end(),
                  [](const Output& output) { return !output.path.empty() && file_exists(output.path); }))
    for (const std::string& model : files.models)
      for (const std::string& file : model_files(model)) inputs.push_back(file);
  std::erase(inputs, "");
  check_outputs(inputs, files.writes);
}

}  // namespace temper
