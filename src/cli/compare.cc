// SPDX-License-Identifier: Apache-2.0
// temper compare: two engines that exist already, speed and answers side by side.
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "bench/bench_engine.h"
#include "cli/data_flags.h"
#include "cli/evaluate_run.h"
#include "cli/side_by_side.h"
#include "cli/verb.h"
#include "data/sample.h"

namespace temper::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> paths;
  DataFlags data;
  std::string path, output, duration = "6s";
  int64_t batch = 0, samples = 0;
  uint64_t seed = 0;
  bool strict = false;
};

void compare(const Options& options, Context& context) {
  const double seconds = seconds_of(options.duration);
  std::vector<std::shared_ptr<const Engine>> engines;
  for (const std::string& path : options.paths) {
    if (!is_plan(path)) fail(ErrorKind::usage, "'", path, "' is no plan; compare takes engines that exist: temper build ", path, " -o PLAN");
    engines.push_back(Engine::load(path));
  }
  const auto &a = engines[0], &b = engines[1];
  if (a->info().model_sha256 != b->info().model_sha256) log(LogLevel::warning, "the two plans were built from different models");
  const std::vector<Dims> shapes = with_context([&] { return options.paths[0]; }, [&] { return shapes_for_batch(*a, options.batch); });
  const int64_t batch = batch_of(shapes);
  with_context([&] { return options.paths[1]; }, [&] { b->check_shapes(shapes); });
  const ModelFlags flags;
  std::optional<Dataset> data;  // what is wrong with it is said before the time is measured
  if (!options.path.empty()) data = open_dataset(options.path, DataModel(options.paths[0], flags, context).inputs(), options.data.options());
  const Paired paired = time_side_by_side(a, b, shapes, seconds, "timing in turns", context);

  std::optional<Evaluation> evaluation;
  if (data) {
    const DataModel first(options.paths[0], flags, context), second(options.paths[1], flags, context);
    EvaluationData what{*data, samples_of(*data, options.path, options.samples, options.seed), first.choose_batch(*data, options.batch), options.output};
    second.accept_batch(*data, what.batch);
    log(LogLevel::info, data->text(), ", in batches of ", what.batch.size);
    evaluation = evaluate_engines(what, a, {b}, context).at(0);
  }

  Json json{{"batch", batch}, {"threads", a->threads()}, {"speed", json_of(paired)}, {"plans", Json::array()}, {"answers", evaluation ? json_of(*evaluation) : Json(nullptr)}};
  Table table{{{"plan", false}, {"precision", false}, {"latency"}, {"items/s"}, {"plan size"}, {"memory"}}, {}};
  for (size_t i = 0; i < 2; ++i) {
    const double ms = median(i == 0 ? paired.a_ms : paired.b_ms);
    const auto bytes = int64_t(std::filesystem::file_size(options.paths[i]));
    const int64_t memory = running_bytes(*engines[i], shapes);
    table.rows.push_back({options.paths[i], precision_text(engines[i]->info()), format_number(ms) + " ms", format_number(1e3 * double(batch) / ms), format_bytes(double(bytes)),
                          memory ? format_bytes(double(memory)) : "n/a (shapes depend on data)"});
    json["plans"].push_back({{"plan", options.paths[i]}, {"precision", engines[i]->info().precision}, {"placeholder", engines[i]->info().placeholder}, {"latency_ms", ms},
                             {"throughput_per_s", 1e3 * double(batch) / ms}, {"plan_bytes", bytes}, {"memory_bytes", memory ? Json(memory) : Json(nullptr)}});
  }
  if (paired.verdict == Verdict::slower || (options.strict && paired.verdict == Verdict::unsure)) context.exit_code = int(ErrorKind::check_failed);
  if (paired.verdict == Verdict::unsure) log(LogLevel::warning, "the times do not tell the two apart: measure longer (--duration), on a quieter machine");
  if (context.json) {
    std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
    return;
  }
  std::fputs(terminal_table(table).c_str(), stdout);
  std::printf("the second beside the first, batch %lld, %d threads: %s\n", static_cast<long long>(batch), a->threads(), paired_text(paired).c_str());
  if (!evaluation) return;
  std::printf("\nthe second's answers, the first being the reference:\n");
  print_evaluation(*evaluation);
}

}  // namespace

void add_compare(CLI::App& verb, Context& context) {
  auto options = std::make_shared<Options>();
  verb.add_option("plans", options->paths, "two plan files; the first is the reference")->required()->expected(2);
  verb.add_option("--data", options->path, "samples: their answers are compared too, with the truth where it is there");
  verb.add_option("--samples", options->samples, "how many, chosen by the seed; all of them unless given")->check(whole_number(1));
  verb.add_option("--seed", options->seed, "of the choice of samples")->capture_default_str();
  verb.add_option("--batch", options->batch, "that is timed; what the first plan is tuned for unless given")->check(whole_number(1));
  verb.add_option("--duration", options->duration, "longest time of timing")->capture_default_str();
  verb.add_option("--output-name", options->output, "the output that holds the classes, where there are several; of a sequence, always");
  verb.add_flag("--strict", options->strict, "exit code 1 also where the verdict is UNSURE, not for SLOWER alone");
  options->data.add_to(verb);
  for (CLI::Option* option : verb.get_options())
    if (option->get_group() == DataFlags::kGroup) option->needs("--data");
  for (const char* name : {"--samples", "--seed", "--output-name"}) verb.get_option(name)->needs("--data");
  verb.callback([options, &context] { compare(*options, context); });
}

}  // namespace temper::cli
