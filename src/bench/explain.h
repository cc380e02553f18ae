// SPDX-License-Identifier: Apache-2.0
// Explains why an engine is as fast as it is: whether it got the precision asked for, where the time goes, what to
// change.
#pragma once
#include <string>
#include <vector>

#include "bench/layers.h"

namespace temper {

// One thing to know or to change. A gain is an estimate, `estimate` says whose; absent where nothing tells it.
struct Finding {
  std::string id;                     // docs/explain.md lists them
  std::string what;                   // a sentence
  std::vector<std::string> evidence;  // the numbers
  std::string change;                 // what to do
  std::string estimate;               // how the gain was estimated
  std::optional<double> gain_share;   // of the time of all layers
  std::optional<double> gain_ms;      // the same share of the median run, where that is known
  bool at_most = false;               // the gain is a bound from above
  std::vector<std::string> layers;    // whose, the longest first
};

struct TimeShare {
  std::string name;    // a precision, or a kind of layer
  int64_t layers = 0;  // that take time
  double ms = 0, share = 0;
};

// Convolutions and products, and what they take and write.
struct ProductCounts {
  int64_t all = 0, asked = 0;  // asked: that compute in the precision asked for, or a lower one
  int64_t known = 0;           // whose precision is known
  int64_t tf32 = 0;            // FP32 that tensor cores compute with operands of 19 bits
  int64_t writing_wider = 0;   // of `asked`: that write more bits than asked for
  std::string wider_written;   // what those write: "FP16/FP32"
  int64_t for_residuals = 0, for_averages = 0, for_outputs = 0, for_others = 0;  // why: parts of writing_wider
  int64_t residuals = 0, residuals_wider = 0;  // additions of a residual inside a product, and those in more bits
  int64_t averages = 0, averages_wider = 0;    // average pools, and those that read more bits between narrow layers
};

struct Explanation {
  std::string name;
  bool is_plan = false, is_timed = false;
  std::string asked;             // "" where no precision is known
  bool asked_is_lowest = false;  // nobody said what was asked: the lowest that convolutions and products compute in
  std::optional<double> run_ms, enqueue_ms;  // medians
  int64_t runs = 0;
  double layers_ms = 0;                      // sum over the layers, each timed alone
  std::vector<TimeShare> precisions, kinds;  // by time; conversions stand for themselves among the precisions
  ProductCounts products;
  int64_t conversions = 0;  // quantize, dequantize and reformat layers that take time
  double conversions_ms = 0, conversions_share = 0;
  std::string answer;             // did it get the precision asked for, in a sentence or two
  std::vector<Finding> findings;  // by gain, then those without one
  std::vector<std::string> notes;
};

// `asked` overrides what the engine says it was asked for. Throws Error{usage} for a precision that is none.
Explanation explain(const EngineLayers& engine, const std::string& asked = "");

// The changes from one engine to the next, in words with numbers.
struct EngineStep {
  std::string from, to;
  std::optional<double> ratio;  // median of `to` over that of `from`
  std::string headline;
  std::vector<std::string> why;
};
struct ExplainedSet {
  std::vector<Explanation> engines;  // from the widest precision to the narrowest, the slowest of each first
  std::vector<EngineStep> steps;     // between neighbours
  std::vector<std::string> answers;  // what the set shows: a narrower engine that is no faster, what closed the gap
};
ExplainedSet compare_engines(std::vector<Explanation> engines);

}  // namespace temper
