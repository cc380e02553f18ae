// SPDX-License-Identifier: Apache-2.0
// temper compare: compares plans (timed in turns, in this process) or results (by their samples).
#include "bench/compare.h"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "bench/bench_engine.h"
#include "bench/compare_engines.h"
#include "bench/side_by_side.h"
#include "bench/table.h"
#include "cli/data_flags.h"
#include "cli/json_text.h"
#include "cli/model.h"
#include "cli/print_evaluation.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "evaluate/data_model.h"
#include "evaluate/engines.h"
#include "evaluate/text.h"

namespace temper::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CompareFlags {
  std::vector<std::string> paths;
  DataFlags data;
  std::string path, output, duration = "6s", burn, memory_limit;
  int64_t batch = 0, samples = 0;
  uint64_t seed = 0;
  bool strict = false, force = false, duration_given = false;
};

void set_exit_code(const CompareFlags& options, Context& context, Verdict verdict) {
  if (verdict == Verdict::slower || (options.strict && verdict == Verdict::unsure))
    context.exit_code = int(ErrorKind::check_failed);
}

void compare_plans(const CompareFlags& options, Context& context) {
  const double seconds = seconds_of(options.duration);
  std::vector<std::shared_ptr<const Engine>> engines;
  for (const std::string& path : options.paths) engines.push_back(Engine::load(path));
  std::vector<std::string> forced{""};
  for (size_t i = 1; i < engines.size(); ++i)
    forced.push_back(
        refuse_unlike(engine_differences(*engines[0], *engines[i]), options.paths[0], options.paths[i], options.force));
  const std::vector<Dims> shapes =
      with_context([&] { return options.paths[0]; }, [&] { return shapes_for_batch(*engines[0], options.batch); });
  const int64_t batch = batch_of(shapes);
  for (size_t i = 1; i < engines.size(); ++i)
    with_context([&] { return options.paths[i]; }, [&] { engines[i]->check_shapes(shapes); });
  std::optional<Dataset> data;  // what is wrong with it is said before the time is measured
  if (!options.path.empty())
    data = open_dataset(options.path, DataModel(engines[0]).inputs(),
                        options.data.options(memory_limit_of(options.memory_limit)));
  const double burn = options.burn.empty() ? 0 : share_of("--burn", options.burn);
  ProgressLine timing(context);
  const std::vector<Paired> paired =
      time_side_by_side(engines, shapes,
                        {seconds * double(engines.size() - 1), "timing in turns", burn, timing.callback()})
          .beside_first;
  clear_progress();

  std::vector<Evaluation> evaluations;
  std::vector<Unreadable> left_out;
  if (data) {
    ProgressLine progress(context);
    EvaluationData what{*data, samples_of(*data, options.path, options.samples, options.seed),
                        DataModel(engines[0]).choose_batch(*data, options.batch), options.output};
    for (size_t i = 1; i < engines.size(); ++i) DataModel(engines[i]).accept_batch(*data, what.batch);
    left_out = leave_out(*data, options.path, what.samples, options.strict, progress.callback());
    log(LogLevel::info, data->text(), ", in batches of ", what.batch.size);
    evaluations = evaluate_engines(what, engines[0], {engines.begin() + 1, engines.end()}, progress.callback());
  }

  Json json{{"schema", "temper.compare/1"},     {"batch", batch},
            {"threads", engines[0]->threads()}, {"interleaved", true},
            {"left_out", json_of(left_out)},    {"plans", Json::array()}};
  Table table{{{"plan", false}, {"precision", false}, {"latency"}, {"items/s"}, {"plan size"}, {"memory"}}, {}};
  for (size_t i = 0; i < engines.size(); ++i) {
    const double ms = median(i == 0 ? paired[0].a_ms : paired[i - 1].b_ms);
    const auto bytes = int64_t(std::filesystem::file_size(options.paths[i]));
    const int64_t memory = running_bytes(*engines[i], shapes);
    table.rows.push_back({options.paths[i], precision_text(engines[i]->info()), format_number(ms) + " ms",
                          format_number(1e3 * double(batch) / ms), format_bytes(double(bytes)),
                          memory ? format_bytes(double(memory)) : "n/a (shapes depend on data)"});
    json["plans"].push_back({{"plan", options.paths[i]},
                             {"precision", engines[i]->info().precision},
                             {"placeholder", engines[i]->info().placeholder},
                             {"latency_ms", ms},
                             {"throughput_per_s", 1e3 * double(batch) / ms},
                             {"plan_bytes", bytes},
                             {"memory_bytes", memory ? Json(memory) : Json(nullptr)},
                             {"speed", i ? json_of(paired[i - 1]) : Json(nullptr)},
                             {"forced", forced[i].empty() ? Json(nullptr) : Json(forced[i])},
                             {"answers", i && data ? json_of(evaluations[i - 1]) : Json(nullptr)}});
  }
  for (const Paired& one : paired) {
    set_exit_code(options, context, one.verdict);
    if (one.verdict == Verdict::unsure)
      log(LogLevel::warning, one.why,
          remedy_text(one).empty() ? "; measure again, on a quieter machine" : remedy_text(one));
  }
  if (context.json) return print_json(json);
  print_table(table);
  for (size_t i = 1; i < engines.size(); ++i) {
    const std::string who = engines.size() == 2 ? "the second" : options.paths[i];
    print_text(
        concat(who, " beside the first, batch ", batch, ", ", engines[0]->threads(),
               engines[0]->threads() == 1 ? " thread" : " threads",
               burn > 0 && i + 1 == engines.size() ? concat(" (slowed by ", options.burn, " to test the verdict)") : "",
               ": ", paired_text(paired[i - 1]), forced[i].empty() ? "" : concat(" [forced; ", forced[i], "]")));
  }
  for (size_t i = 0; i < evaluations.size(); ++i) {
    std::printf("\n%s's answers, the first being the reference:\n",
                engines.size() == 2 ? "the second" : options.paths[i + 1].c_str());
    print_evaluation(evaluations[i]);
  }
}

// Every file beside the first, run by run.
void compare_results(const CompareFlags& options, Context& context) {
  std::vector<BenchResult> results;
  for (const std::string& path : options.paths) results.push_back(load_result(path));
  Json json{{"schema", "temper.compare/1"}, {"interleaved", false}, {"runs", Json::array()}};
  Table table{
      {{"run", false}, {"first"}, {"second"}, {"ratio"}, {"99 % interval"}, {"verdict", false}, {"from", false}}, {}};
  for (size_t f = 1; f < results.size(); ++f)
    for (const auto& [i, j] : matching_runs(results[0], results[f])) {
      const BenchRun &a = results[0].runs[i], &b = results[f].runs[j];
      const Differences differences = differences_of({&a, &results[0].environment}, {&b, &results[f].environment});
      const std::string forced = refuse_unlike(differences.refusals, options.paths[0], options.paths[f], options.force);
      for (const std::string& warning : differences.warnings) log(LogLevel::warning, label_of(b), ": ", warning);
      const Comparison c = compare_runs(a, b);
      set_exit_code(options, context, c.verdict);
      if (c.verdict == Verdict::unsure)
        log(LogLevel::warning, label_of(b), ": ", c.why,
            c.samples_factor ? concat("; about ", format_number(std::ceil(*c.samples_factor), 3),
                                      " times as many samples would decide")
                             : "");
      const std::string label = label_of(a) == label_of(b) ? label_of(a) : concat(label_of(a), " → ", label_of(b));
      table.rows.push_back(
          {results.size() == 2 ? label : concat(options.paths[f], ": ", label),
           format_number(*a.latency.median) + " ms", format_number(*b.latency.median) + " ms",
           format_number(c.ratio) + "x",
           c.interval ? concat(format_number(c.interval->low), " to ", format_number(c.interval->high)) : "n/a",
           concat(name_of(c.verdict), forced.empty() ? "" : concat(" [forced; ", forced, "]")), c.from});
      json["runs"].push_back({{"file", options.paths[f]},
                              {"first", label_of(a)},
                              {"second", label_of(b)},
                              {"first_ms", *a.latency.median},
                              {"second_ms", *b.latency.median},
                              {"ratio", c.ratio},
                              {"ci99", c.interval ? Json{c.interval->low, c.interval->high} : Json(nullptr)},
                              {"verdict", name_of(c.verdict)},
                              {"why", c.why},
                              {"from", c.from},
                              {"samples_factor", c.samples_factor ? Json(*c.samples_factor) : Json(nullptr)},
                              {"warnings", differences.warnings},
                              {"forced", forced.empty() ? Json(nullptr) : Json(forced)}});
    }
  if (context.json) return print_json(json);
  print_table(table);
  std::string times = results[0].environment.time;
  for (size_t f = 1; f < results.size(); ++f) times += concat(", ", results[f].environment.time);
  print_text(concat("ratios of median latencies, first over second. These runs were not interleaved (", times,
                    "): what the machine did in between is in them. `temper compare` on plans leaves it out."));
}

void compare(const CompareFlags& options, Context& context) {
  size_t plans = 0;
  for (const std::string& path : options.paths) plans += is_plan(path);
  if (plans == options.paths.size()) return compare_plans(options, context);
  for (const std::string& path : options.paths) {
    if (is_plan(path)) continue;
    // A result is JSON; anything else is most likely a model.
    const std::string text = read_file(path);
    if (const size_t first = text.find_first_not_of(" \t\r\n"); first == text.npos || text[first] != '{')
      fail(ErrorKind::usage, "'", path,
           "' is neither a plan nor a result; compare takes plans that exist (temper build ", path,
           " -o PLAN) or results (temper bench --json)");
    if (plans) fail(ErrorKind::usage, "compare takes plans or results, not both: '", path, "' is no plan");
  }
  if (!options.path.empty() || !options.burn.empty() || options.batch || options.duration_given)
    fail(ErrorKind::usage, "--data, --burn, --batch and --duration are for plans; results are compared as they are");
  compare_results(options, context);
}

}  // namespace

void add_compare(Command& verb, Context& context) {
  auto options = std::make_shared<CompareFlags>();
  verb.add_option("files", options->paths,
                  "plans, which are timed in turns, or results of bench and import; the first one is the reference")
      .required()
      .expected(2, 64);
  add_isa_flag(verb);
  verb.add_option("--data", options->path,
                  "plans: samples to compare the outputs on, also with the labels if there are any");
  verb.add_option("--samples", options->samples, "number of samples to use, chosen by --seed; all of them by default")
      .check(whole_number(1));
  verb.add_option("--seed", options->seed, "seed for choosing the samples").capture_default_str();
  verb.add_option("--batch", options->batch,
                  "plans: batch size to time; by default the one that the first plan is tuned for")
      .check(whole_number(1));
  verb.add_option("--duration", options->duration, "plans: longest time to spend on timing each plan but the first")
      .capture_default_str();
  verb.add_option("--burn", options->burn,
                  "slow the last plan down by this share of every run, e.g. 3%, to test the verdicts");
  verb.add_option("--output-name", options->output,
                  "name of the output that holds the classes; needed if there are several such outputs, or if the "
                  "output is a sequence");
  verb.add_flag("--strict", options->strict,
                "exit code 1 also if the verdict is UNSURE, not only if it is SLOWER; and stop at a picture that "
                "cannot be read, which is otherwise left out with a warning");
  verb.add_flag("--force", options->force,
                "compare runs that differ in device, threads, shapes, model, ..., and mark the verdict");
  add_memory_flag(verb, options->memory_limit);
  options->data.add_to(verb);
  for (const Option& option : verb.get_options())
    if (option.group() == DataFlags::kGroup) option.needs("--data");
  for (const char* name : {"--samples", "--seed", "--output-name", "--memory-limit"})
    verb.get_option(name).needs("--data");
  verb.callback([options, verb, &context] {
    options->duration_given = verb.given("--duration");
    compare(*options, context);
  });
}

}  // namespace temper::cli
