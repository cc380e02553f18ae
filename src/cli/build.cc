// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "cli/calibrate_on.h"
#include "cli/data_flags.h"
#include "cli/json_text.h"
#include "cli/mixed.h"
#include "cli/model.h"
#include "plan/file.h"

namespace temper::cli {

namespace {

struct Options {
  std::string model, output;
  ModelFlags flags;
  // --max-drop and what belongs to it
  DataFlags data_flags;
  std::string data, max_drop, metric, raise_to, classes, method = "entropy";
  int64_t samples = 0;
  uint64_t seed = 0;
};

// int8 under a budget: layers that lose too much on the data stay in bf16 or fp32. Calibrates on the same
// samples where no ranges are given, into a file beside the plan.
MixedSearch keep_budget(const Options& options, BuildOptions& build, const Context& context) {
  Budget budget{share_of("--max-drop", options.max_drop), {}, raises_to_bf16(options.raise_to, options.flags.device)};
  if (!options.metric.empty()) budget.metric = parse_metric(options.metric);
  const ImportedModel model = import_onnx(options.model);
  const Dataset data = open_dataset(options.data, input_specs(model.graph), options.data_flags.options());
  const auto samples = samples_of(data, options.data, options.samples, options.seed, 500);
  check_metric(budget.metric, budget.max_drop, model.graph, data, options.classes, int64_t(samples.size()));
  BuildOptions plain = build;
  plain.precision = "fp32";
  plain.calibration.clear();
  plain.shapes.clear();
  if (build.calibration.empty()) {
    const Ranges ranges = calibrate_on(model, data, samples, options.method, {0, options.seed}, plain, context);
    for (const std::string& note : ranges.notes) log(LogLevel::warning, note);
    save_ranges(build.calibration = options.output + ".ranges.json", ranges);
  }
  const Ranges ranges = load_ranges(build.calibration);
  check_model(ranges, model.sha256);
  MixedSearch mixed = search_mixed(model.graph, ranges, data, samples, options.classes, budget, plain, context);
  if (!mixed.search.holds) log(LogLevel::warning, text_of(mixed));
  // The times of both precisions, layer by layer, for the shapes that are built.
  BuildOptions timed = build;
  timed.segments = timed.batch_buckets = false;
  timed.qdq.clear();
  const auto int8 = build_engine(options.model, timed);
  timed.precision = "fp32";
  timed.calibration.clear();
  timed.placement = {};
  mixed.saved_ms = saved_times(*build_engine(options.model, timed), *int8);
  ModelFlags found = options.flags;
  found.calibration = build.calibration;
  keep_also(found, mixed.search.keep);
  build.command = build_command(found, options.model);
  build.placement.keep_nodes.insert(mixed.search.keep.begin(), mixed.search.keep.end());
  return mixed;
}

// What runs where: a line per tactic, and the nodes on the reference with the reasons of the others.
void print_summary(const Engine& engine, const std::string& path) {
  const EngineInfo& info = engine.info();
  for (const std::string& note : info.notes) std::printf("note: %s\n", note.c_str());
  if (info.precision != "fp32") {
    std::printf("%lld of %lld convolutions and products in %s%s\n", static_cast<long long>(info.lowered_products), static_cast<long long>(info.products), info.precision.c_str(),
                info.not_lowered.empty() ? "" : info.precision == "int8" ? "; not in int8:" : "; in fp32:");
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
  add_qdq_flag(verb, options->flags);
  verb.add_option("--max-drop", options->max_drop, "int8: what may be lost on --data, like 0.5%; the layers that lose most stay in bf16 or fp32 until it holds")->needs(verb.add_option("--data", options->data, "samples for --max-drop, which also calibrate where --calibration is not given"));
  verb.add_option("--metric", options->metric, "of the drop: top1 (the default with labels), agreement (of a classifier without), cosine (1 - cosine), snr (noise / signal)");
  verb.add_option("--raise-to", options->raise_to, "what they stay in: bf16 (fp32 where that loses too much) or fp32; bf16 where the CPU has it, unless given");
  verb.add_option("--method", options->method, "of that calibration: entropy, minmax, percentile[:99.99], mse or auto")->capture_default_str();
  verb.add_option("--samples", options->samples, "how many, chosen by the seed; 500 unless given")->check(whole_number(1));
  verb.add_option("--seed", options->seed, "of the choice of samples")->capture_default_str();
  verb.add_option("--output-name", options->classes, "the output that holds the classes, where there are several; of a sequence, always");
  options->data_flags.add_to(verb);
  for (CLI::Option* option : verb.get_options())
    if (option->get_group() == DataFlags::kGroup) option->needs("--data");
  for (const char* name : {"--metric", "--method", "--samples", "--seed", "--raise-to", "--output-name"}) verb.get_option(name)->needs("--max-drop");
  verb.callback([options, &context] {
    check_can_write(options->output);
    check_can_write(options->flags.qdq);
    if (options->max_drop.empty() != options->data.empty()) fail(ErrorKind::usage, "--data and --max-drop go together; to calibrate alone: temper calibrate MODEL --data D -o ranges.json");
    if (!options->max_drop.empty() && options->flags.precision != "int8") fail(ErrorKind::usage, "--max-drop is a budget for --precision int8");
    if (is_plan(options->model)) fail(ErrorKind::usage, "'", options->model, "' is a plan already; give the ONNX model that it was built from");
    BuildOptions build = build_options(options->flags, options->model, context);
    std::optional<MixedSearch> mixed;
    if (!options->max_drop.empty()) mixed = keep_budget(*options, build, context);
    std::shared_ptr<Engine> engine;
    {
      Progress progress(context);
      build.progress = [&](const std::string& text) { progress.show(text); };
      engine = build_engine(options->model, build);
    }
    save_engine(*engine, options->output);
    if (mixed && !mixed->search.holds) context.exit_code = int(ErrorKind::check_failed);
    if (context.json && mixed) {
      std::fputs(json_text(json_of(*mixed)).c_str(), stdout);
      return;
    }
    if (mixed) std::printf("%s\n%s\n", terminal_table(table_of(*mixed)).c_str(), text_of(*mixed).c_str());
    if (context.verbosity >= 0) print_summary(*engine, options->output);
  });
}

}  // namespace temper::cli
