// SPDX-License-Identifier: Apache-2.0
// The driver of the passes: it times, verifies, dumps and can disable each of them.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <stdexcept>

#include "base/file.h"
#include "base/log.h"
#include "passes/pipeline.h"

namespace temper {

namespace {

void check_names(const PassOptions& options) {
  if (options.disabled.empty()) return;
  const std::vector<std::string_view> names = pass_names();
  for (const std::string& name : options.disabled) {
    if (std::ranges::find(names, name) != names.end()) continue;
    std::string known;
    for (std::string_view pass : names) known += concat(known.empty() ? "" : ", ", pass);
    fail(ErrorKind::usage, "there is no pass '", name, "'; the passes are ", known);
  }
}

// Before and after each pass, where graphs are dumped.
class Dump {
 public:
  Dump(const PassOptions& options, const Pipeline& pipeline) : folder_(options.dump_folder), pipeline_(pipeline) {
    if (folder_.empty()) return;
    std::error_code code;
    std::filesystem::create_directories(folder_, code);
    if (code) fail(ErrorKind::usage, "the folder '", folder_, "' for dumps cannot be made: ", code.message());
  }
  void save(size_t index, std::string_view suffix, const Graph& graph) const {
    if (folder_.empty()) return;
    write_file_atomically({concat(folder_, '/', pipeline_.number, '-', pipeline_.name, index + 1 < 10 ? "-0" : "-",
                                  index + 1, '-', pipeline_.passes[index].name, suffix),
                           FileKind::graph},
                          print(graph));
  }

 private:
  const std::string& folder_;
  const Pipeline& pipeline_;
};

}  // namespace

PassOptions PassOptions::dumped_into(std::string_view folder) const {
  PassOptions options = *this;
  if (!dump_folder.empty()) options.dump_folder = concat(dump_folder, '/', folder);
  return options;
}

std::vector<PassTiming> run_passes(Graph& graph, const PassOptions& options, const Pipeline& pipeline) {
  check_names(options);
  std::vector<PassTiming> timings;
  std::set<std::string_view> effective;  // passes that changed something
  const Dump dump(options, pipeline);
  for (size_t i = 0; i < pipeline.passes.size(); ++i) {
    const Pass& pass = pipeline.passes[i];
    if (options.disabled.count(pass.name) || (options.all_disabled && !pass.asked_for)) continue;
    if (!pass.after.empty() && !effective.contains(pass.after)) continue;
    Graph before;
    if (!options.dump_folder.empty()) before = graph;
    const auto start = std::chrono::steady_clock::now();
    bool changed = false;
    auto run = [&] {
      changed = pass.run(graph, options);
      options.time.check();
      if (changed) graph.compact();
      if (changed && options.verify) verify(graph);
    };
    const auto context = [&] { return concat("pass ", pass.name); };
    with_context(context, [&] { options.time.check(); });
    try {
      with_context(context, run);
    } catch (const std::logic_error& error) {
      dump.save(i, ".before.txt", before);
      throw std::logic_error(concat(context(), ": ", error.what()));
    } catch (...) {
      dump.save(i, ".before.txt", before);
      throw;
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    timings.push_back({std::string(pass.name), took.count(), changed});
    log(LogLevel::debug, pipeline.name, " pass ", pass.name, ": ", took.count(), " ms",
        changed ? "" : ", changed nothing");
    if (changed) {
      effective.insert(pass.name);
      dump.save(i, ".txt", graph);
    }
  }
  return timings;
}

}  // namespace temper
