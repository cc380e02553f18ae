// SPDX-License-Identifier: Apache-2.0
// Writes what trtexec writes: lines of its log and its JSON files, so that programs that read them can. Everything says
// that Temper wrote it. The readers are trtexec_log.h, trtexec_times.h and layer_file.h.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/layers.h"
#include "interop/trtexec_log.h"

namespace temper {

// "&&&& RUNNING Temper.trtexec [Temper v0.1.0] # trtexec --onnx=…"; `word`: RUNNING, PASSED, FAILED.
std::string trtexec_banner(std::string_view word, const std::string& command);
// "[11/14/2025-09:01:02] [I] TEXT" for each line of the text, by the clock of this machine. Severity: V, I, W or E.
std::string trtexec_lines(char severity, std::string_view text);
std::string trtexec_number(double value);                    // six digits, as trtexec has them
std::string trtexec_dims(const std::vector<int64_t>& dims);  // "1x3x224x224"

// Summarises times in the order taken, at least one; percentiles by trtexec's ranks.
TrtexecStats trtexec_stats(const std::vector<double>& ms, const std::vector<double>& percentiles);
// "Latency: min = 1 ms, max = …, percentile(99%) = 2 ms"
std::string trtexec_stats_line(std::string_view name, const TrtexecStats& stats);
// "Average on 10 runs - Host latency: 2.1 ms" for every so many times. `name`: "Host latency", "GPU latency".
std::vector<std::string> trtexec_trace(const std::vector<double>& ms, int64_t runs, std::string_view name);

// --exportTimes: of every query its latency, and what of it is the device's. Nothing is known of single copies.
std::string trtexec_times_json(const std::vector<double>& latency_ms, const std::vector<double>* compute_ms);
// --exportProfile and --dumpProfile: layers with their times of one run.
std::string trtexec_profile_json(const EngineLayers& engine);
std::string trtexec_profile_table(const EngineLayers& engine);
// --exportLayerInfo; without `detailed` names alone. read_layer_info gives the same layers back.
std::string trtexec_layers_json(const EngineLayers& engine, bool detailed, const std::vector<std::string>& bindings);

std::string trtexec_layer_json(const EngineLayer& layer);  // what it has of one layer

struct TrtexecOutput {
  std::string name;
  std::vector<int64_t> dims;
  std::vector<double> values;  // in rows
};
std::string trtexec_outputs_json(const std::vector<TrtexecOutput>& outputs);  // --exportOutput
std::string trtexec_output_text(const TrtexecOutput& output);                 // --dumpOutput

}  // namespace temper
