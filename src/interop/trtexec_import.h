// SPDX-License-Identifier: Apache-2.0
// Turns runs of trtexec into results (docs/results.md, "Imported runs"): numbers as the log has them, what they include
// stated, contradictions found. The rules of meaning by version stand in trtexec_import.cc.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "bench/results.h"
#include "interop/trtexec_log.h"
#include "interop/trtexec_times.h"

namespace temper {

struct TrtexecFile {
  std::string path;  // for messages, and to find the run that exported these times
  std::string text;
};

struct TrtexecImport {
  std::vector<BenchRun> runs;
  std::vector<std::string> left_out;  // runs without a measurement, with the reason: "x.log, run 2: trtexec failed: …"
};

// Logs, and files of --exportTimes, which are told apart by their content. Times join the run whose command exported
// them, or the only run there is; without a log they are a run of their own. `known` supplies what logs do not say:
// model, model_sha256, batch, precision, device, device_name, transfers, cuda_graph, spin_wait, streams,
// tensorrt_version. Throws Error{bad_file}: no measurement in any file (with the reason, such as that of a failed
// build), times that belong to no run; Error{usage}: an unknown key, a value that is none or that a log contradicts.
TrtexecImport import_trtexec(const std::vector<TrtexecFile>& files,
                             const std::map<std::string, std::string>& known = {});

// One run; `source` says where it was read. The parts of import_trtexec, for tests and fuzzing.
BenchRun result_of(const TrtexecRun& log, const std::string& source,
                   const std::map<std::string, std::string>& known = {});
void join_times(BenchRun& run, const TrtexecRun& log, const TrtexecTimes& times);

}  // namespace temper
