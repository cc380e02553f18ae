// SPDX-License-Identifier: Apache-2.0
// temper explain: explains plans and the layer files of TensorRT by the same rules.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "bench/explain_text.h"
#include "cli/data_flags.h"
#include "cli/json_text.h"
#include "cli/outputs.h"
#include "cli/profile_flags.h"
#include "cli/terminal.h"
#include "interop/layer_engines.h"

namespace temper::cli {

namespace {

constexpr size_t kMaxExplanationBytes = size_t(1) << 27;

struct ExplainFlags {
  std::vector<std::string> paths;
  std::string asked, output;
  ProfileFlags flags;
  bool markdown = false, all = false, force = false;
};

std::vector<EngineLayers> read_all(const ExplainFlags& options, const Context& context) {
  std::vector<EngineLayers> engines;
  std::vector<LayerFile> files;
  auto join = [&] {
    for (EngineLayers& engine : engines_of(files)) engines.push_back(std::move(engine));
    files.clear();
  };
  ProgressLine progress(context);
  const ProfileSettings settings = options.flags.settings(progress);
  for (const std::string& path : options.paths) {
    if (!is_plan(path)) {
      if (path.ends_with(".onnx"))
        fail(ErrorKind::usage, "'", path, "' is a model, no plan; build one first: temper build ", path, " -o PLAN");
      files.push_back({path, read_file(path, kMaxExplanationBytes)});
      continue;
    }
    if (!files.empty()) join();
    const ProfiledPlan done = profile_plan(path, settings);
    engines.push_back(layers_of(done.profile, done.engine->info(), done.peaks, path));
  }
  if (!files.empty()) join();
  return engines;
}

void explain_all(const ExplainFlags& options, const Context& context) {
  const bool as_markdown = options.output.ends_with(".md");
  const Output output{options.output, as_markdown ? FileKind::markdown : FileKind::explanation, options.force, "-o"};
  check_files({options.paths,
               input_paths(options.flags.inputs),
               {output, {options.flags.timing_cache, FileKind::timings, false, "--timing-cache"}}});
  std::vector<Explanation> explanations;
  const std::vector<EngineLayers> engines = read_all(options, context);
  const auto lacks = [](const EngineLayers& engine) { return engine.asked.empty(); };
  for (const EngineLayers& engine : engines) {
    if (!options.asked.empty() && engine.asked != options.asked && std::ranges::none_of(engines, lacks))
      fail(ErrorKind::usage, "'", engine.name, "' says that it was built for ", engine.asked, ", so --asked ",
           options.asked, " contradicts it; leave --asked out");
    explanations.push_back(explain(engine, lacks(engine) ? options.asked : ""));
  }
  const ExplainedSet set = compare_engines(std::move(explanations));
  const auto text_in = [&](TextStyle style) {
    const size_t width = terminal_width() ? terminal_width() : 100;
    std::string text;
    if (set.engines.size() > 1) text = text_of(set, style, width) + "\n";
    for (size_t i = 0; i < set.engines.size(); ++i)
      text += concat(i ? "\n" : "", text_of(set.engines[i], style, options.all, width));
    return text;
  };
  const std::string json = json_text(json_of(set));
  if (!options.output.empty()) write_file_atomically(output, as_markdown ? text_in(TextStyle::markdown) : json);
  if (context.json) std::fputs(json.c_str(), stdout);
  else std::fputs(text_in(options.markdown ? TextStyle::markdown : TextStyle::terminal).c_str(), stdout);
}

}  // namespace

void add_explain(Command& verb, Context& context) {
  auto options = std::make_shared<ExplainFlags>();
  verb.add_option("files", options->paths,
                  "plans, and files that trtexec exported: one of --exportLayerInfo begins an engine, and those of "
                  "--exportProfile and --exportTimes after it belong to that engine")
      .required();
  verb.add_option("--asked", options->asked,
                  "precision that the build was asked for, if the file does not say it: fp32, fp16, int8, ...");
  verb.add_option("-o,--output", options->output,
                  "file to save the explanation to: markdown if it ends in .md, otherwise JSON (docs/explain.md)");
  add_force_flag(verb, options->force);
  verb.add_flag("--markdown", options->markdown, "print the explanation as markdown");
  verb.add_flag("--all", options->all, "print small findings as well");
  options->flags.add_to(verb);
  verb.callback([options, verb, &context] {
    if (std::ranges::none_of(options->paths, is_plan))
      for (const char* name : {"--input", "--batch", "--duration", "--cuda-path", "--isa", "--timing-cache"})
        if (verb.get_option(name).given())
          fail(ErrorKind::usage, name, " is of plans, which are run; no file here is one, so leave it out");
    explain_all(*options, context);
  });
}

}  // namespace temper::cli
