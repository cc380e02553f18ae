// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "cli/model.h"
#include "plan/file.h"

namespace temper::cli {

namespace {

struct Options {
  std::string model, output;
  ModelFlags flags;
};

// What runs where: a line per tactic, and the nodes on the reference with the reasons of the others.
void print_summary(const Engine& engine, const std::string& path) {
  const EngineInfo& info = engine.info();
  for (const std::string& note : info.notes) std::printf("note: %s\n", note.c_str());
  if (info.precision != "fp32") {
    std::printf("%lld of %lld convolutions and products in %s%s\n", static_cast<long long>(info.lowered_products), static_cast<long long>(info.products), info.precision.c_str(),
                info.not_lowered.empty() ? "" : "; in fp32:");
    for (const std::string& line : info.not_lowered) std::printf("  %s\n", line.c_str());
  }
  for (const auto& plan : engine.plans()) {
    std::string shapes;
    for (const PortInfo& input : plan->inputs) shapes += concat(shapes.empty() ? "" : ", ", input.name, ' ', input.type);
    std::map<std::string, std::pair<int, double>> tactics;
    int64_t constants = 0;
    for (const auto& constant : plan->constants) constants += constant->bytes();
    std::vector<const PlanStep*> reference;
    for (const Segment& segment : plan->segments)
      for (const PlanStep& step : segment.steps) {
        auto& [count, ms] = tactics[step.is_reorder() ? "reorder" : step.tactic];
        ++count;
        if (step.ms > 0) ms += step.ms;
        if (step.tactic == "reference") reference.push_back(&step);
      }
    std::printf("%s: %.3f ms measured, %d threads, activations %.1f MiB, constants %.1f MiB\n", shapes.c_str(), plan->estimated_ms, plan->threads,
                double(plan->arena_bytes()) / 1048576, double(constants) / 1048576);
    for (const auto& [name, entry] : tactics) std::printf("  %4d x %-24s %10.3f ms\n", entry.first, name.c_str(), entry.second);
    for (const Segment& segment : plan->segments)
      if (segment.slices > 1)
        std::printf("  segment of %zu steps: %lld slices%s\n", segment.steps.size(), static_cast<long long>(segment.slices), segment.parallel ? ", a chain per thread" : "");
    for (const PlanStep* step : reference) {
      std::string why;
      for (const Candidate& c : step->losers)
        if (!c.refusal.empty() && c.refusal.find("not a ") != 0) why += concat("; ", c.tactic, ": ", c.refusal);
      std::printf("  on the reference: %s (%s)%s\n", step->node.c_str(), std::string(name_of(step->problem.op)).c_str(), why.c_str());
    }
  }
  std::printf("built in %.2f s: %s\n", info.build_s, path.c_str());
}

}  // namespace

void add_build(CLI::App& verb, Context& context) {
  auto options = std::make_shared<Options>();
  verb.add_option("model", options->model, "an ONNX model")->required();
  verb.add_option("-o,--output", options->output, "the plan file to write")->required();
  add_model_flags(verb, options->flags);
  verb.callback([options, &context] {
    BuildOptions build = build_options(options->flags, options->model, context);
    std::shared_ptr<Engine> engine;
    {
      Progress progress(context);
      build.progress = [&](const std::string& text) { progress.show(text); };
      engine = build_engine(options->model, build);
    }
    save_engine(*engine, options->output);
    if (context.verbosity >= 0) print_summary(*engine, options->output);
  });
}

}  // namespace temper::cli
