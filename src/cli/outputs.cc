// SPDX-License-Identifier: Apache-2.0
#include "cli/outputs.h"

namespace temper::cli {

void add_force_flag(Command& verb, bool& force) {
  verb.add_flag(
      "--force", force,
      "replace output files even if they are of another kind; a file that this command reads is never replaced");
}

UsedFiles with_build_files(UsedFiles files, const ModelFlags& flags, bool force) {
  files.reads.push_back(flags.calibration);
  files.writes.push_back({flags.qdq, FileKind::our_onnx, force, "--qdq"});
  files.writes.push_back({flags.timing_cache, FileKind::timings, false, "--timing-cache"});
  return files;
}

}  // namespace temper::cli
