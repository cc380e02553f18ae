// SPDX-License-Identifier: Apache-2.0
// Decides what `temper trtexec` does with a command of trtexec. Every flag is executed, accepted without effect, or
// refused by name. THE list of flags is in trtexec_use.cc.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "interop/trtexec_command.h"

namespace temper {

enum class TrtexecUse { executed, accepted, refused };
struct TrtexecFlagUse {
  std::string_view name;
  TrtexecUse use;
  std::string_view how;  // what it does here; why it has no effect; why it is refused, and what to do instead
};
// One for every flag of trtexec_flags(), in that order, and those that are Temper's own behind them.
std::span<const TrtexecFlagUse> trtexec_flag_uses();

// Why an argument is refused, as a sentence that names it; empty where it is not, also because its value asks for
// nothing that is not there (--batch=1), and for what trtexec does not know.
std::string trtexec_refusal(const TrtexecArgument& argument);

struct TrtexecProfile {
  TrtexecShapes min, opt, max;  // of the same inputs
};

struct TrtexecSettings {
  std::string model, load, save;  // files; "": none
  std::string device;             // as Temper names it; "": GPU 0, or the CPU where there is none
  bool fp16 = false, bf16 = false, int8 = false, best = false, tf32 = true;
  std::string calibration_cache;                        // "": none
  std::map<std::string, std::string> layer_precisions;  // by layer, "*" for all others: "fp32", "fp16", "bf16", "int8"
  bool obeys_layer_precisions = false;                  // otherwise they are wishes
  std::vector<std::string> input_types, output_types;   // "fp16"; one for all of them, or one each; empty: the model's
  std::vector<TrtexecProfile> profiles;                 // empty: the command names no shapes
  size_t profile = 0;                                   // to run with
  TrtexecShapes shapes;                                 // to run; empty: the profile's opt
  int64_t workspace = -1;                               // bytes; -1: no limit
  std::string timing_cache;                             // file; "": none is named
  bool uses_timing_cache = true;
  bool skips_inference = false, verbose = false;

  int64_t iterations = 10;               // at least
  double warm_up_ms = 200, seconds = 3;  // at least
  double sleep_ms = 0, idle_ms = 0;      // before the first query; between two
  int64_t streams = 1, average_runs = 10;
  std::vector<double> percentiles{90, 95, 99};
  bool transfers = true, cuda_graph = false, spin_wait = false;
  std::map<std::string, std::string> inputs;  // files of raw elements, by input

  bool detailed = false;  // layers with all that is known of them, not names alone
  bool dump_profile = false, dump_layers = false, dump_output = false, separate_profile = false;
  std::string export_times, export_profile, export_layers, export_output;  // files; "": none

  std::vector<std::string> notes;  // on flags that have no effect, and on what is done otherwise
};
// Throws Error{usage} for a flag or word that trtexec does not know, Error{unsupported} for one that is refused.
TrtexecSettings trtexec_settings(const TrtexecCommand& command);

}  // namespace temper
