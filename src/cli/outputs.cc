// SPDX-License-Identifier: Apache-2.0
#include "cli/outputs.h"

#include <algorithm>

#include "onnx/external.h"

namespace temper::cli {

void add_force_flag(CLI::App& verb, bool& force) {
  verb.add_flag(
      "--force", force,
      "replace output files even if they are of another kind; a file that this command reads is never replaced");
}

VerbFiles with_build_files(VerbFiles files, const ModelFlags& flags, bool force) {
  files.reads.push_back(flags.calibration);
  files.writes.push_back({flags.qdq, FileKind::our_onnx, force, "--qdq"});
  files.writes.push_back({flags.timing_cache, FileKind::timings, false, "--timing-cache"});
  return files;
}

void check_files(const VerbFiles& files) {
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

}  // namespace temper::cli
