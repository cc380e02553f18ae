// SPDX-License-Identifier: Apache-2.0
// Mixed precision under a budget, the same for study and build, from every front end: layers of an int8 model go back
// to 16 bits or FP32 until it holds.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "bench/table.h"
#include "data/judge.h"
#include "evaluate/engines.h"
#include "optimize/build_engine.h"
#include "optimize/saved_times.h"
#include "quantize/search.h"

namespace temper {

struct Budget {
  double max_drop = 0;           // a share
  std::optional<Metric> metric;  // default_metric where it is not given
  // Layers may be raised to it (bf16, f16); otherwise to FP32 only.
  std::optional<DType> half;
  std::vector<std::string> devices;  // that share the samples of a candidate, all equal; none: the build's own
  bool measured_later = false;  // the drop is measured again on other samples (a study), so that guessing is a warning
};
// The labels and the output that the metric needs, checked before anything takes time: Error{usage} where they are not
// there, or `classes` names no output. A warning where `samples` without a loss would not show that the drop is within
// `max_drop`, or kToldDrop where there is no budget.
void check_metric(const std::optional<Metric>& metric, std::optional<double> max_drop, const Graph& imported,
                  const Dataset& data, const std::string& classes, int64_t samples);

// The precision that layers are raised to before FP32, by --raise-to; where it is empty, the 16 bits of the precision,
// or with int8 alone BF16 if the device can. Nothing where that is FP32 at once, and for a precision that does not
// quantize. Throws Error{usage} for another name, or unsupported.
std::optional<DType> raised_to(const std::string& text, const std::string& precision, const std::string& device);

// Throws Error{usage} where --raise-to names a precision that none of these raises layers to.
void check_raise_to(const std::string& text, std::span<const std::string> precisions);

struct MixedSearch {
  std::string precision = "int8";  // of the layers that are not raised
  LayerSearch search;
  std::vector<Judgement> judged;  // by LayerSearch's numbers of trials
  double max_drop = 0;
  int64_t samples = 0;                     // that every candidate was tried on
  std::map<std::string, double> saved_ms;  // by layer: what that saves, as measured; empty until times are known
  std::vector<Unreadable> left_out;        // pictures that were asked for

  const Judgement& of(const Loss& loss) const { return judged.at(size_t(loss.trial)); }
};
// Tries candidates on these samples, in batches of the model's own size, or up to 16. `options` are those of an FP32
// build, with the progress; its shapes follow from the data. Candidates are trials. `classes` is EvaluationData's.
// `precision`: int8, fp16, int8 with 16 bits, or bf16 and tf32, which need no ranges.
MixedSearch search_mixed(const Graph& imported, const Ranges& ranges, const Dataset& data,
                         const std::vector<int64_t>& samples, const std::string& classes, const Budget& budget,
                         BuildOptions options, const std::string& precision = "int8");

// By layer, in the first plans of both. A warning where `precision` is slower than fp32, after measuring again.
std::map<std::string, double> saved_times(const TimedBuild& fp32, const TimedBuild& narrow,
                                          const std::string& precision);

Table table_of(const MixedSearch& mixed);
std::string text_of(const MixedSearch& mixed);  // what was found, in a line
nlohmann::ordered_json json_of(const MixedSearch& mixed);

// Shapes to build for: those of a sample, with `batch` of them, and where the model's batch is open, fewer.
std::map<std::string, ShapeRange> shapes_of_data(const Graph& imported, const Dataset& data, int64_t batch);
// The model's own batch; 0 where it is open.
int64_t fixed_batch(const Graph& imported, const Dataset& data);

}  // namespace temper
