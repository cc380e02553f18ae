// SPDX-License-Identifier: Apache-2.0
// A pass is a plain function on a graph. THE pass list is in pipeline.cc; run.cc drives it.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace temper {

struct PassOptions {
  std::set<std::string, std::less<>>
      disabled;               // by name; of fuse_neighbours and chain_convs (which run behind the list), too
  bool all_disabled = false;  // "passes off": the graph as imported
  std::string dump_folder;    // not empty: NN-name.txt after each pass that changed the graph
  bool verify = true;         // check the graph's invariants after each pass
  int64_t memory_limit =
      -1;  // bytes that folded constants may take; -1: 16 times those that the graph has, and 256 MiB
};

struct Pass {
  std::string_view name;
  bool (*run)(Graph& graph, const PassOptions& options);  // true: it changed something. Dead nodes may stay behind.
};

struct PassTiming {
  std::string name;
  double ms = 0;
  bool changed = false;
};

// Skips what is disabled, times, runs, compacts, verifies, dumps. An Error gets the pass's name as context.
// Throws Error{usage} for a disabled name that is no pass.
std::vector<PassTiming> run_passes(Graph& graph, const PassOptions& options = {});
std::span<const Pass> pass_pipeline();

// The passes, in the order of their files. Their comments say what each does and when it must not.
bool fold_constants(Graph& graph, const PassOptions& options);
bool merge_equal_nodes(Graph& graph, const PassOptions& options);
bool remove_no_ops(Graph& graph, const PassOptions& options);
bool fold_scales_into_weights(Graph& graph, const PassOptions& options);
bool fuse_pointwise(Graph& graph, const PassOptions& options);
bool fuse_epilogues(Graph& graph, const PassOptions& options);
bool cancel_transposes(Graph& graph, const PassOptions& options);
bool recognise_normalize(Graph& graph, const PassOptions& options);
bool fold_quantization(Graph& graph, const PassOptions& options);
bool nest_concats(Graph& graph, const PassOptions& options);

}  // namespace temper
