// SPDX-License-Identifier: Apache-2.0
// Builds an engine from a model: import, passes, shapes, tuning, the choice of segments, plans.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/progress.h"
#include "measure/instruments.h"
#include "onnx/limits.h"
#include "optimize/layer_types.h"
#include "passes/pass.h"
#include "quantize/placement.h"
#include "quantize/ranges.h"
#include "runtime/engine.h"

namespace temper {

class SharedTimingCache;
struct ImportedModel;

// The program's first argument where it serves timings to another's build (BuildOptions::timing_helper).
constexpr const char* kServeTimings = "serve-timings";

struct BuildOptions {
  std::string device = "cpu";  // or "cuda:0"
  DeviceSettings device_settings;
  int threads = 0;                       // 0: all that this process may use
  std::string precision = "fp32";        // fp32, bf16, int8, int8+bf16; on a GPU also fp16, tf32, int8+fp16;
                                         // "best": the fastest of them
  std::string calibration;               // with int8, and fp16: the ranges file, or instead of it
  std::shared_ptr<const Ranges> ranges;  // the ranges themselves, of which the plan keeps what it keeps of a file
  // By input that takes pictures ("": the only one): how they are prepared, for the plan to remember, as
  // named_preprocess reads it (data/carried.h); where nothing is said, as the ranges or the model have it.
  std::map<std::string, std::string> preprocess;
  // Inputs that take pictures of u8, [batch, height, width, channels], where the model takes floats, by name ("": each
  // that can): scale, mean, std and layout are in the plan then (optimize/pictures_in.h). Shapes are given as the model
  // has them.
  std::set<std::string> input_pictures;
  // Positions that caches of past keys and values have, of a model that generates (optimize/caches_in.h); 0: none.
  // Shapes are those of input_ids then.
  int64_t cache = 0;
  PlacementOptions placement;                // what stays above the precision
  LayerTypes layer_types;                    // single layers of the model; not with "best"
  std::string qdq;                           // int8: file for the quantized model as Q/DQ ONNX; "": none
  bool force = false;                        // it may replace a file of another kind
  std::map<std::string, ShapeRange> shapes;  // by input name, which is empty for the only one
  // Instead of `shapes`: several sets of ranges. The engine takes shapes that one of them holds, and is tuned for what
  // each of them asks for.
  std::vector<std::map<std::string, ShapeRange>> profiles;
  bool batch_buckets = true;  // false: of a range of batches only opt is tuned
  // The batches that are tuned, within the range of the first axis: their own where it is open and has none. Empty:
  // powers of two.
  std::vector<int64_t> buckets;
  std::string timing_cache;                    // file; "": none
  std::shared_ptr<SharedTimingCache> timings;  // instead of a file: read and extended
  // The program, with arguments, that times candidates of other libraries on a GPU (tune/helper.h), and of which
  // several processes compile kernels; empty: both happens in this process, which loses the GPU where a candidate
  // faults.
  std::vector<std::string> timing_helper;
  int64_t workspace = -1;  // bytes; candidates above it are refused
  // Seconds for each shape. What is not measured by then is left out, and the plan says so. What a plan cannot do
  // without is done all the same: its own kernels are compiled, and the whole is timed.
  double time_limit = 120;
  ModelLimits limits;
  PassOptions passes;
  bool measure = true;            // false: tactics by list order, and no times
  bool segments = true;           // search slices of the batch
  std::set<std::string> doubted;  // problems (Problem::text()) whose cached times are taken again
  Instruments instruments;        // what times are taken with
  std::string command;            // recorded in the plan: how to build it again
  Progress progress;

  // These inputs, all of the model, get the shapes of data or of another build in the place of the shapes or profiles
  // that were asked for; buckets were batches of the old ones. Shapes of names that the model does not have stay, to be
  // refused.
  void replace_shapes(const std::map<std::string, ShapeRange>& by_name);
  void replace_shapes(const std::map<std::string, Dims>& by_name);

  bool is_calibrated() const { return ranges || !calibration.empty(); }
};

// The same, with passes within its limits, and with a time that runs, which goes on where it did already. What below
// takes options begins so by itself.
BuildOptions begun(BuildOptions options);

// The ranges that a build is given, if any; errors begin with the file.
std::shared_ptr<const Ranges> ranges_of(const BuildOptions& options);

// Throws Error; see its kinds. Notes that the user should read are in Engine::info().notes.
std::shared_ptr<Engine> build_engine(const std::string& onnx_path, const BuildOptions& options);
// The same of a model that has been read from there, for these shapes if it needs them (ImportedModel::needs_shapes).
std::shared_ptr<Engine> build_engine(ImportedModel model, const std::string& onnx_path, const BuildOptions& options);

// For graphs that are at hand already (tests, the cases' runner).
std::shared_ptr<Engine> build_engine(Graph graph, EngineInfo info, const BuildOptions& options);

// The graph that `build` plans: the shapes that are fixed put in, then all passes. `info` gets shapes and notes. What
// the options do not fix is chosen as build_engine does.
Graph optimised_graph(Graph graph, EngineInfo& info, const BuildOptions& options);

}  // namespace temper
