// SPDX-License-Identifier: Apache-2.0
// temper build: builds a plan from an ONNX model.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "base/quote.h"
#include "bench/plan_times.h"
#include "bench/table.h"
#include "cli/data_flags.h"
#include "cli/json_text.h"
#include "cli/kit.h"
#include "cli/model.h"
#include "cli/outputs.h"
#include "cli/terminal.h"
#include "evaluate/budget.h"
#include "evaluate/text.h"
#include "optimize/precision.h"
#include "optimize/shape_ranges.h"
#include "plan/describe.h"
#include "plan/file.h"
#include "tune/cache.h"

namespace temper::cli {

namespace {

struct BuildFlags {
  std::string model, kit, output, dump_folder;
  ModelFlags flags;
  // --max-drop and what belongs to it
  DataFlags data_flags;
  std::string data, max_drop, metric, raise_to, classes, method = "auto";
  int64_t samples = 0;
  uint64_t seed = 0;
  bool force = false;

  bool calibrates() const { return flags.precision == kBestPrecision || needs_ranges(flags.precision); }
  // Where --max-drop keeps what it calibrates, unless ranges are given.
  std::string ranges_file() const {
    return max_drop.empty() || !flags.calibration.empty() || !calibrates() ? "" : output + ".ranges.json";
  }
};

// What the kit says takes the place of the options that say it otherwise. The times that it brings go into the timing
// cache of this machine.
void take_kit(BuildFlags& options, BuildOptions& build, const Context& context) {
  const Kit kit = read_kit(options.kit);
  ModelFlags& flags = options.flags;
  options.model = kit.model;
  flags.precision = kit.build.precision;
  flags.calibration = kit.ranges;
  flags.shapes = kit.build.shapes;
  flags.buckets = kit.build.buckets;
  flags.activation_scales = kit.build.activation_scales;
  flags.keep_first = kit.build.keep_first;
  flags.keep_last = kit.build.keep_last;
  flags.keep_fp32 = kit.build.keep_fp32;
  flags.keep_bf16 = kit.build.keep_bf16;
  flags.keep_fp16 = kit.build.keep_fp16;
  flags.disabled_passes = kit.build.disabled_passes;
  flags.cache = kit.build.cache;
  flags.input_pictures = kit.build.input_pictures;
  build = build_options(flags, options.model, context);
  if (!kit.build.preprocess.empty())
    build.preprocess[""] = kit.build.preprocess,
    build.command += concat(" --preprocess ", shell_quoted(kit.build.preprocess));
  if (kit.times.empty() || !build.measure) return;
  const TimingCache brought =
      with_context([&] { return kit.times; }, [&] { return TimingCache::of_text(read_file(kit.times)); });
  if (build.timing_cache.empty()) {
    build.timings = std::make_shared<SharedTimingCache>(brought);
    return;
  }
  TimingCache known(build.timing_cache);
  known.add_all(brought);
  known.save();
}

// Keeps the budget, and what was calibrated for it in a file beside the plan. With --precision best `best` gets what
// was tried.
MixedSearch keep_budget(const BuildFlags& options, BuildOptions& build, std::optional<BestSearch>& best) {
  BudgetOptions budget;
  budget.max_drop = share_of("--max-drop", options.max_drop);
  if (!options.metric.empty()) budget.metric = parse_metric(options.metric);
  budget.raise_to = options.raise_to;
  budget.data = options.data_flags.request(options.data, options.samples, options.seed, build.limits.memory);
  budget.classes = options.classes;
  budget.method = options.method;
  budget.calibrated = [&](const Ranges& ranges) {
    save_ranges(options.ranges_file(), ranges, options.force);
    log(LogLevel::info, "what was calibrated is kept in ", options.ranges_file(), " (for --calibration)");
  };
  const ModelSource source{options.model, "", {}};
  const auto given = build.shapes;
  if (build.precision == kBestPrecision) best = keep_budget_best(source, build, budget);
  MixedSearch mixed = best ? best->mixed : temper::keep_budget(source, build, budget);
  ModelFlags found = options.flags;
  found.precision = build.precision;
  if (!build.is_calibrated()) found.calibration.clear();
  if (build.ranges) found.calibration = options.ranges_file();
  keep_also(found, mixed.search.keep);
  for (const auto& [name, range] : build.shapes)
    if (!given.contains(name)) found.shapes.push_back(concat(name, "=", text_of(range)));
  build.command = build_command(found, options.model);
  if (const PreprocessOptions told = options.data_flags.pictures(); told != PreprocessOptions())
    build.command += concat(" --preprocess ", shell_quoted(text_of(told)));
  return mixed;
}

// Layers that are not in the precision asked for, by reason.
void print_kept(const EngineInfo& info) {
  print_text(concat(info.lowered_products, " of ", info.products, " convolutions and products in ", info.precision,
                    info.not_lowered.empty()                              ? ""
                    : info.precision == "int8" || info.precision == "fp8" ? concat("; not in ", info.precision, ":")
                                                                          : "; in fp32:"));
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;  // in the order in which they come
  for (const std::string& line : info.not_lowered) {
    const size_t split = line.find(": ");
    const std::string reason = split == line.npos ? "" : line.substr(split + 2);
    auto it = std::find_if(reasons.begin(), reasons.end(), [&](const auto& entry) { return entry.first == reason; });
    if (it == reasons.end()) it = reasons.insert(reasons.end(), {reason, {}});
    it->second.push_back(line.substr(0, split));
  }
  for (const auto& [reason, layers] : reasons) {
    std::string names;
    for (size_t i = 0; i < layers.size() && i < 5; ++i) names += concat(i ? ", " : "", layers[i]);
    if (layers.size() > 5) names += concat(" and ", layers.size() - 5, " more");
    print_text(concat(reason, reason.empty() ? "" : ": ", names), 4, concat("  ", layers.size(), " x "));
  }
}

// Prints what runs where: a line per tactic, by time.
void print_plan(const Plan& plan) {
  std::string shapes;
  for (const PortInfo& input : plan.inputs) shapes += concat(shapes.empty() ? "" : ", ", input.name, ' ', input.type);
  struct Total {
    std::string tactic;
    int count = 0, timed = 0;
    double ms = 0;
  };
  std::vector<Total> totals;
  int64_t constants = 0;
  for (const auto& constant : plan.constants) constants += constant->bytes();
  for (const Segment& segment : plan.segments)
    for (const PlanStep& step : segment.steps) {
      const std::string name = step.is_reorder() ? "reorder" : step.tactic;
      auto it = std::find_if(totals.begin(), totals.end(), [&](const Total& t) { return t.tactic == name; });
      if (it == totals.end()) it = totals.insert(totals.end(), {name});
      ++it->count;
      it->timed += step.ms >= 0;
      it->ms += std::max(0.0, step.ms);
    }
  std::stable_sort(totals.begin(), totals.end(), [](const Total& a, const Total& b) { return a.ms > b.ms; });
  print_text(concat(shapes, ": ", whole_text(plan.whole), ", ", plan.threads,
                    plan.threads == 1 ? " thread" : " threads", ", activations ",
                    format_bytes(double(plan.arena_bytes())), ", constants ", format_bytes(double(constants))));
  print_text(concat("steps: ", steps_text(plan)), 2);
  for (const Total& t : totals) {
    const std::string ms = t.timed ? concat(format_number(t.ms), " ms") : "n/a";
    std::printf("  %4d x %-24s %13s\n", t.count, t.tactic.c_str(), ms.c_str());
  }
  for (const Segment& segment : plan.segments)
    if (segment.slices > 1)
      std::printf("  segment of %zu steps: %lld slices%s\n", segment.steps.size(),
                  static_cast<long long>(segment.slices), segment.parallel ? ", a chain per thread" : "");
}

void print_summary(const Engine& engine, const std::string& path, bool all_cached) {
  const EngineInfo& info = engine.info();
  for (const std::string& note : info.notes) print_text(note, 6, "note: ");
  if (info.precision != "fp32") print_kept(info);
  for (const auto& plan : engine.plans()) print_plan(*plan);
  std::printf("built in %.2f s%s: %s\n", info.build_s,
              all_cached ? ", with the times of all candidates from the timing cache" : "", path.c_str());
}

// What `inspect PLAN --json` has, and how it came to be.
void print_plan_json(const std::string& path, bool all_cached) {
  nlohmann::ordered_json json = describe(read_plan_file(path, {.foreign = true, .map_file = true}), {});
  json["plan_path"] = path;
  json["all_cached"] = all_cached;
  print_json(json);
}

}  // namespace

void add_build(Command& verb, Context& context) {
  auto options = std::make_shared<BuildFlags>();
  verb.add_option("model", options->model, "the ONNX model to build");
  verb.add_option("--from-kit", options->kit,
                  "folder of `temper kit` to build from instead of a model; it holds the model, its ranges, measured "
                  "times and how to build it");
  verb.add_option("-o,--output", options->output, "the plan file to write").required();
  add_model_flags(verb, options->flags);
  add_cache_flag(verb, options->flags);
  add_qdq_flag(verb, options->flags);
  verb.add_flag("--input-pictures", options->flags.input_pictures,
                "the plan takes pictures as they are, u8 of [batch, height, width, channels], where the model takes "
                "floats: scale, mean, std and layout are steps of the plan, as --preprocess, the ranges or the model "
                "say them; --shapes stay those of the model");
  verb.add_option("--dump-passes", options->dump_folder,
                  "folder to write the graph to after each pass that changes it, those of the precision and the device "
                  "included");
  verb.add_option(
          "--max-drop", options->max_drop,
          "int8, fp8, fp16, bf16, tf32, 8 bits with 16, best: loss that is allowed on --data, like 0.5%; the "
          "layers that lose most stay in fp32 (with 8 bits in 16 if that is enough) until the loss is within it")
      .needs(verb.add_option("--data", options->data,
                             "samples that --max-drop measures the loss on; without --calibration they also calibrate "
                             "int8, fp8 and fp16"));
  verb.add_option(
      "--metric", options->metric,
      "metric that --max-drop limits: top1 (default with labels), agreement (default for a classifier "
      "without labels, and for texts), perplexity (of a language model, its rise), cosine (1 - cosine), snr "
      "(noise / signal) or difference (the largest, as a share of the largest value)");
  verb.add_option(
      "--raise-to", options->raise_to,
      "int8, fp8: precision of the layers that --max-drop takes out of 8 bits: bf16 (fp32 if bf16 loses too "
      "much) or fp32; by default bf16 if the device has it, and with +fp16 or +bf16 these 16 bits");
  verb.add_option("--method", options->method,
                  "int8: method of that calibration: auto (the one closest to FP32 on held-out samples), entropy, "
                  "minmax, percentile[:99.99] or mse")
      .capture_default_str();
  verb.add_option("--samples", options->samples, "number of samples to use, chosen by --seed; 500 by default")
      .check(whole_number(1));
  verb.add_option("--seed", options->seed, "seed for choosing the samples").capture_default_str();
  verb.add_option("--output-name", options->classes,
                  "name of the output that holds the classes; needed if there are several such outputs, or if the "
                  "output is a sequence");
  add_force_flag(verb, options->force);
  options->data_flags.add_to(verb);
  for (const Option& option : verb.get_options())
    if (option.group() == DataFlags::kGroup &&
        (option.name() == "--label-column" || option.name() == "--class-names" || option.name() == "--strict"))
      option.needs("--data");
  for (const char* name : {"--metric", "--method", "--samples", "--seed", "--raise-to", "--output-name"})
    verb.get_option(name).needs("--max-drop");
  const auto said_by_kit = std::make_shared<std::vector<Option>>();
  for (const char* name :
       {"--precision", "--calibration", "--shapes", "--buckets", "--activation-scales", "--keep-first", "--keep-last",
        "--keep-fp32", "--keep-bf16", "--keep-fp16", "--disable", "--cache", "--input-pictures", "--max-drop"})
    said_by_kit->push_back(verb.get_option(name));
  for (const Option& option : verb.get_options())
    if (option.group() == DataFlags::kGroup) said_by_kit->push_back(option);
  const Option method = verb.get_option("--method");
  verb.callback([options, said_by_kit, method, &context] {
    if (options->model.empty() == options->kit.empty())
      fail(ErrorKind::usage, options->kit.empty()
                                 ? "a model is needed: temper build MODEL.onnx -o PLAN, or --from-kit FOLDER"
                                 : "a model and --from-kit are two things to build from; give one");
    std::optional<BuildOptions> of_kit;
    if (!options->kit.empty()) {
      for (const Option& option : *said_by_kit)
        if (option.given()) fail(ErrorKind::usage, "the kit says how it is built; leave ", option.name(), " out");
      take_kit(*options, of_kit.emplace(), context);
    }
    check_files(
        with_build_files({{options->model},
                          {options->data, options->data_flags.class_names},
                          {{options->output, FileKind::plan, options->force, "-o"},
                           {options->ranges_file(), FileKind::ranges, options->force, "--max-drop: the ranges"}}},
                         options->flags, options->force));
    if (options->flags.cache && !options->max_drop.empty())
      fail(ErrorKind::unsupported,
           "--max-drop together with --cache: answers of a model with caches depend on a prompt");
    if (options->max_drop.empty() != options->data.empty())
      fail(ErrorKind::usage,
           "--data and --max-drop go together; to calibrate alone: temper calibrate MODEL --data D -o ranges.json");
    if (method.given() && (!options->calibrates() || !options->flags.calibration.empty()))
      fail(ErrorKind::usage, "--method calibrates, and ",
           options->calibrates() ? "--calibration gives the ranges"
                                 : concat("--precision ", options->flags.precision, " takes no ranges"),
           "; leave --method out");
    if (is_plan(options->model))
      fail(ErrorKind::usage, "'", options->model, "' is a plan already; give the ONNX model that it was built from");
    BuildOptions build = of_kit ? *of_kit : build_options(options->flags, options->model, context);
    build.force = options->force;
    if (const PreprocessOptions told = options->data_flags.pictures(); told != PreprocessOptions())
      build.preprocess[""] = text_of(told), build.command += concat(" --preprocess ", shell_quoted(text_of(told)));
    ProgressLine progress(context);
    bool measured = false;  // any candidate; otherwise every time was in the cache
    build.progress = [&measured, shown = progress.callback()](const ProgressStep& step) {
      measured |= step.what.ends_with("measuring candidates");
      tell(shown, step);
    };
    std::optional<MixedSearch> mixed;
    std::optional<BestSearch> best;
    if (!options->max_drop.empty()) mixed = keep_budget(*options, build, best);
    build.passes.dump_folder = options->dump_folder;  // of this build, not of the candidates of a budget
    const std::shared_ptr<Engine> engine = build_engine(options->model, build);
    clear_progress();
    save_engine(*engine, options->output, options->force);
    if (mixed && !mixed->search.holds) context.exit_code = int(ErrorKind::check_failed);
    if (context.json && mixed) {
      print_json(best ? json_of(*best) : json_of(*mixed));
      return;
    }
    const bool all_cached = build.measure && !measured;
    if (context.json) return print_plan_json(options->output, all_cached);
    if (best) print_table(table_of(*best), "\n");
    if (mixed && context.verbosity >= 0) print_table(table_of(*mixed), "\n");
    if (mixed) print_text(text_of(*mixed));
    if (context.verbosity >= 0) print_summary(*engine, options->output, all_cached);
  });
}

}  // namespace temper::cli
