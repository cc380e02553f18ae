// SPDX-License-Identifier: Apache-2.0
// The driver of the passes: it times, verifies, dumps and can disable each of them.
#include <chrono>
#include <filesystem>
#include <stdexcept>

#include "base/file.h"
#include "passes/chain_convs.h"
#include "passes/pass.h"

namespace temper {

namespace {

void check_names(const PassOptions& options) {
  for (const std::string& name : options.disabled) {
    std::string known = concat(kFuseNeighbours, ", ", kChainConvs);
    bool found = name == kFuseNeighbours || name == kChainConvs;
    for (const Pass& pass : pass_pipeline()) {
      found |= pass.name == name;
      if (known.find(pass.name) == known.npos) known += concat(", ", pass.name);
    }
    if (!found) fail(ErrorKind::usage, "there is no pass '", name, "'; the passes are ", known);
  }
}

void save(const PassOptions& options, size_t index, std::string_view suffix, const Graph& graph) {
  const std::string number = concat(index + 1 < 10 ? "0" : "", index + 1);
  write_file_atomically(
      {concat(options.dump_folder, '/', number, '-', pass_pipeline()[index].name, suffix), FileKind::graph},
      print(graph));
}

}  // namespace

std::vector<PassTiming> run_passes(Graph& graph, const PassOptions& options) {
  check_names(options);
  std::vector<PassTiming> timings;
  if (options.all_disabled) return timings;
  const bool dump = !options.dump_folder.empty();
  if (dump) {
    std::error_code code;
    std::filesystem::create_directories(options.dump_folder, code);
    if (code)
      fail(ErrorKind::usage, "the folder '", options.dump_folder, "' for dumps cannot be made: ", code.message());
  }
  const auto pipeline = pass_pipeline();
  for (size_t i = 0; i < pipeline.size(); ++i) {
    const Pass& pass = pipeline[i];
    if (options.disabled.count(pass.name)) continue;
    Graph before;
    if (dump) before = graph;
    const auto start = std::chrono::steady_clock::now();
    bool changed = false;
    auto run = [&] {
      changed = pass.run(graph, options);
      if (changed) graph.compact();
      if (changed && options.verify) verify(graph);
    };
    const std::string context = concat("pass ", pass.name);
    try {
      with_context([&] { return context; }, run);
    } catch (const std::logic_error& error) {
      if (dump) save(options, i, ".before.txt", before);
      throw std::logic_error(concat(context, ": ", error.what()));
    } catch (...) {
      if (dump) save(options, i, ".before.txt", before);
      throw;
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    timings.push_back({std::string(pass.name), took.count(), changed});
    if (dump && changed) save(options, i, ".txt", graph);
  }
  return timings;
}

}  // namespace temper
