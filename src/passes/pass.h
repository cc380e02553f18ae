// SPDX-License-Identifier: Apache-2.0
// A pass is a function that rewrites a graph. Passes stand in pipelines (pipeline.h), and one driver runs them
// (run.cc).
#pragma once
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/build_time.h"
#include "graph/graph.h"

namespace temper {

struct PassOptions {
  std::set<std::string, std::less<>> disabled;  // by name, in all pipelines
  bool all_disabled = false;                    // "passes off": the graph as imported, in the precision asked for
  std::string dump_folder;  // not empty: N-pipeline-NN-name.txt after each pass that changed the graph
  bool verify = true;       // check the graph's invariants after each pass
  // Bytes that folded constants may take; -1: 16 times those that the graph has, and 224 MiB.
  int64_t memory_limit = -1;
  BuildTime time;  // of the build that they are part of

  // The same, with a folder of that name inside of dump_folder, if there is one.
  PassOptions dumped_into(std::string_view folder) const;
};

// True: it changed something. Dead nodes may stay behind.
using PassFunction = std::function<bool(Graph& graph, const PassOptions& options)>;

struct Pass {
  std::string_view name;
  PassFunction run;  // bound to what it needs to know besides the graph
  std::string_view
      after;  // not empty: it runs only where the pass of that name, in the same pipeline, changed something
  bool asked_for = false;  // it makes the precision that was asked for: all_disabled leaves it in, its name does not
};

struct Pipeline {
  int number;  // in the order in which a build runs them
  std::string name;
  std::vector<Pass> passes;
};

struct PassTiming {
  std::string name;
  double ms = 0;
  bool changed = false;
};

// For any device; the others are in pipeline.h.
const Pipeline& portable_pipeline();

// Skips what is disabled, times, runs, compacts, verifies, dumps. An Error gets the pass's name as context.
// Throws Error{usage} for a disabled name that no pipeline has.
std::vector<PassTiming> run_passes(Graph& graph, const PassOptions& options = {},
                                   const Pipeline& pipeline = portable_pipeline());

// The passes that need nothing but the graph, in the order of their files. Their comments say what each does and when
// it must not.
bool cancel_transposes(Graph& graph, const PassOptions& options);
bool commute_quantization(Graph& graph, const PassOptions& options);
bool expand_conv_transpose(Graph& graph, const PassOptions& options);
bool fold_constants(Graph& graph, const PassOptions& options);
bool fold_quantization(Graph& graph, const PassOptions& options);
bool fold_quantized_products(Graph& graph, const PassOptions& options);
bool fold_scales_into_weights(Graph& graph, const PassOptions& options);
bool fuse_epilogues(Graph& graph, const PassOptions& options);
bool fuse_sums(Graph& graph, const PassOptions& options);
bool fuse_pointwise(Graph& graph, const PassOptions& options);
bool gather_channels(Graph& graph, const PassOptions& options);
bool gather_rows(Graph& graph, const PassOptions& options);
bool merge_equal_nodes(Graph& graph, const PassOptions& options);
bool merge_products(Graph& graph, const PassOptions& options);
bool project_recurrent(Graph& graph, const PassOptions& options);
bool narrow_constants(Graph& graph, const PassOptions& options);
bool nest_concats(Graph& graph, const PassOptions& options);
bool recognise_groups(Graph& graph, const PassOptions& options);
bool recognise_normalize(Graph& graph, const PassOptions& options);
bool remove_no_ops(Graph& graph, const PassOptions& options);
bool scale_bytes(Graph& graph, const PassOptions& options);
bool sink_rows(Graph& graph, const PassOptions& options);
bool turn_products(Graph& graph, const PassOptions& options);
bool unflatten_products(Graph& graph, const PassOptions& options);
// `narrow`: floats that the device does not multiply.
bool widen_products(Graph& graph, const std::set<DType>& narrow, const PassOptions& options);

}  // namespace temper
