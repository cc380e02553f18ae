// SPDX-License-Identifier: Apache-2.0
// Opens MODEL|PLAN, the same way for every verb: a plan is loaded, an ONNX model is built first.
#pragma once
#include <optional>

#include "base/progress.h"
#include "cli/verb.h"
#include "data/given_inputs.h"
#include "evaluate/data_model.h"
#include "optimize/build_engine.h"

namespace temper::cli {

class ProgressLine;

struct ModelFlags {
  std::optional<Command> verb;  // whose options these are; none where the values are no user's
  std::string device = "cpu";
  std::vector<std::string> cuda_path;
  std::string precision = "fp32";
  std::string calibration, keep_fp32, keep_bf16, keep_fp16, qdq;
  bool keep_first = false, keep_last = false;
  std::string activation_scales = "tensor";
  int threads = 0;
  std::vector<std::string>
      shapes;  // "x=1x3x224x224" or "x=MIN:OPT:MAX"; the name may be dropped where there is one input
  std::vector<int64_t> buckets;
  std::string timing_cache;
  bool no_timing_cache = false;
  std::string workspace, memory_limit;
  ModelLimits limits;  // but for that of memory
  std::string disabled_passes;
  int64_t cache = 0;
  bool quick = false, no_measure = false, input_pictures = false;
  int64_t time_limit = 120;  // seconds
  int64_t build_limit = 0;   // seconds; 0: none

  // On the command line, be it with the value that it has without.
  bool given(const std::string& option) const { return verb && verb->given(option); }
};

// Adds every option of building but --qdq.
void add_model_flags(Command& verb, ModelFlags& flags);
// These add parts of them, for verbs in which the others mean nothing.
void add_isa_flag(Command& verb);
void add_device_flags(Command& verb, ModelFlags& flags);  // --device --threads --disable and the limits
void add_cuda_path(Command& verb, std::vector<std::string>& folders);
void add_size_flags(Command& verb, ModelFlags& flags);    // --memory-limit --node-limit --depth-limit, of these, too
void add_memory_flag(Command& verb, std::string& limit);  // --memory-limit alone
int64_t memory_limit_of(const std::string& limit);        // bytes; -1 where it is not given. Throws Error{usage}
ModelLimits limits_of(const ModelFlags& flags);           // Throws Error{usage}
void add_shape_flag(Command& verb, ModelFlags& flags);
void add_cache_flag(Command& verb, ModelFlags& flags);
void add_activation_scales(Command& verb, ModelFlags& flags);
void add_keep_flags(Command& verb, ModelFlags& flags);  // --keep-first --keep-last --keep-fp32 --keep-bf16 --keep-fp16
bool keeps(const ModelFlags& flags);                    // any of them is given
// In a list of precisions, what this one does not take: --calibration, and what taken_by() leaves out.
void drop_int8_flags(ModelFlags& flags);
void add_qdq_flag(Command& verb, ModelFlags& flags);
void add_tuning_flags(Command& verb, ModelFlags& flags);  // --timing-cache --no-timing-cache --workspace
                                                          // --time-limit --quick --no-measure
// The command that builds the same engine again, quoted for a shell; PLAN stands for the file.
std::string build_command(const ModelFlags& flags, const std::string& path);
// Adds the layers to what --keep-fp32, --keep-bf16 and --keep-fp16 name, with commas between.
void keep_also(ModelFlags& flags, const KeptNodes& keep);
// The flags that say this placement.
void set_placement(ModelFlags& flags, const PlacementOptions& placement);
BuildOptions build_options(const ModelFlags& flags, const std::string& path, const Context& context);
// "int8", or "int8 (calibrated on noise: ...)", which every result of an engine calibrated on noise must carry.
std::string precision_text(const EngineInfo& info);
std::shared_ptr<const Engine> load_or_build(const std::string& path, const ModelFlags& flags, const Context& context);

// A model is built for exactly the batch that is measured; dimensions that the model leaves open come from the inputs
// that are given, and from --shapes. Batch 0: as many samples as are given.
std::shared_ptr<const Engine> build_for_batch(const std::string& path, int64_t batch, const ModelFlags& flags,
                                              const Context& context, const InputRequest& request);

// MODEL|PLAN of a verb that learns the shapes from data, unless --shapes says them. The progress outlives it.
DataModel data_model(const std::string& path, const ModelFlags& flags, const Context& context, ProgressLine& progress);

// "0.5%" of `flag` -> 0.005. Throws Error{usage} for anything without the percent sign, or outside 0 to 100.
double share_of(std::string_view flag, const std::string& text);

// "3s", "500ms", "2m", "1.5" (seconds) of --duration -> seconds. Throws Error{usage}.
double seconds_of(const std::string& text);

// A bar on a terminal, redrawn in place; elsewhere a line every ten seconds; nothing with --quiet. A message takes its
// place.
class ProgressLine {
 public:
  explicit ProgressLine(const Context& context);
  ~ProgressLine();
  void show(const ProgressStep& step);
  // For the library, as long as this lives. Empty where nothing is shown.
  Progress callback();

 private:
  bool active_;
  double said_;  // when, in seconds of the host's clock
  std::string what_;
  ProgressMeter meter_;
};

}  // namespace temper::cli
