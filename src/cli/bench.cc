// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "base/version.h"
#include "bench/bench_engine.h"
#include "bench/table.h"
#include "cli/model.h"
#include "measure/environment.h"
#include "onnx/import.h"

namespace temper::cli {

namespace {

struct Options {
  std::vector<std::string> paths;
  ModelFlags flags;
  std::string duration = "3s", json_file, csv_file;
  std::vector<int64_t> batches;
  int warmup = -1, iterations = -1;
  bool precision_given = false, pipe = false;
};

TimerOptions timer_options(const Options& options) {
  TimerOptions timer;
  timer.max_seconds = seconds_of(options.duration);
  timer.min_seconds = std::min(timer.min_seconds, timer.max_seconds);
  timer.warmup = options.warmup;
  timer.iterations = options.iterations;
  return timer;
}

std::shared_ptr<const Engine> load_plan(const std::string& path, const Options& options, const Context& context) {
  auto engine = load_or_build(path, options.flags, context);
  if (options.precision_given && options.flags.precision != engine->info().precision)
    fail(ErrorKind::usage, "the plan '", path, "' was made for ", engine->info().precision, "; build it again with --precision ",
         options.flags.precision);
  return engine;
}

// A model is built for exactly the batch that is measured; dimensions that the model leaves open come from --shapes.
std::shared_ptr<const Engine> build_for(const std::string& path, int64_t batch, const Options& options, const Context& context) {
  const auto given = build_options(options.flags, path, context).shapes;
  const ImportedModel model = import_onnx(path);  // names and open dimensions must be known before the build
  std::string symbol;
  std::map<std::string, Dims> shapes;
  for (ValueId id : model.graph.inputs()) {
    const std::string& name = model.graph.value(id).name;
    const Shape& shape = model.graph.type(id).shape;
    const auto range = given.find(name);
    Dims& dims = shapes[name];
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (axis == 0 && symbol.empty() && !shape[0].is_constant()) symbol = shape[0].text();
      if (shape[axis].is_constant()) dims.push_back(shape[axis].value());
      else if (shape[axis].text() == symbol) dims.push_back(batch);
      else if (range != given.end() && axis < range->second.opt.size()) dims.push_back(range->second.opt[axis]);
      else
        fail(ErrorKind::usage, path, ": the dimension '", shape[axis], "' of input '", name, "' is open; add --shapes ", name,
             "=SHAPE");
    }
  }
  return load_or_build(path, options.flags, context, shapes);
}

void save(const Options& options, const EnvironmentSampler& sampler, const std::vector<BenchRun>& runs) {
  if (!options.json_file.empty()) save_result(options.json_file, {sampler.finish(), runs});
  if (!options.csv_file.empty()) write_file_atomically(options.csv_file, csv_table(fields_of(runs)));
}

void bench(const Options& options, const Context& context) {
  TimerOptions timer = timer_options(options);
  const EnvironmentSampler sampler(options.flags.threads > 0 ? options.flags.threads : usable_cores(read_environment(0)));
  std::vector<BenchRun> runs;
  for (const std::string& path : options.paths) {
    const auto plan = is_plan(path) ? load_plan(path, options, context) : nullptr;
    std::vector<int64_t> batches = options.batches;
    const bool by_shapes = plan || !options.flags.shapes.empty();
    if (batches.empty()) batches = {by_shapes ? 0 : 1};  // 0: what the plan or --shapes say
    for (int64_t batch : batches) {
      const auto engine = plan         ? plan
                          : batch == 0 ? load_or_build(path, options.flags, context)
                                       : build_for(path, batch, options, context);
      const std::vector<Dims> shapes = with_context([&] { return path; }, [&] { return shapes_for_batch(*engine, batch); });
      const std::string what = concat(path, " batch ", batch_of(shapes));
      if (!is_terminal()) log(LogLevel::info, "measuring ", what);
      BenchRun run;
      {
        Progress progress(context);
        timer.progress = [&](int samples, double seconds) {
          progress.show(samples == 0 ? concat(what, ": warming up") : concat(what, ": ", samples, " runs in ", format_number(seconds, 3), " s"));
        };
        run = with_context([&] { return path; }, [&] { return bench_engine(engine, shapes, timer); });
      }
      run.model = path;
      run.build_s = engine->info().build_s;
      if (plan) {
        run.plan_bytes = int64_t(std::filesystem::file_size(path));
      } else {
        run.notes["plan_bytes"] = "measured in the process that built it: no plan file";
        run.notes["peak_host_bytes"] = "contains what building left behind; measure a plan file for the memory of running";
        if (options.batches.empty() && !by_shapes) run.notes["batch"] = "1 because no --batch was given";
      }
      runs.push_back(std::move(run));
      save(options, sampler, runs);
    }
  }
  std::fputs(terminal_table(summary_of(runs)).c_str(), stdout);
}

// For a parent that interleaves several engines (benchmarks/cpu_peers.py): `ready {json}` when loaded and warm; then for
// every line N on standard input N runs and one line with their times in ms as a JSON array.
void pipe(const Options& options, const Context& context) {
  if (options.paths.size() != 1 || !is_plan(options.paths[0])) fail(ErrorKind::usage, "--pipe takes one plan file");
  if (options.batches.size() > 1) fail(ErrorKind::usage, "--pipe takes one batch");
  const std::string& path = options.paths[0];
  Clock& clock = host_clock();
  const double start = clock.now_ms();
  const auto engine = load_plan(path, options, context);
  const std::vector<Dims> shapes = shapes_for_batch(*engine, options.batches.empty() ? 0 : options.batches[0]);
  BenchSession session(engine, shapes);
  const double load_s = (clock.now_ms() - start) / 1e3;
  const auto body = [&] { session.run(); };
  const double first_run_ms = clock.elapsed_ms(body, 1);
  for (int i = 0; i < 3; ++i) body();
  nlohmann::ordered_json ready;
  ready["name"] = "temper";
  ready["version"] = version();
  ready["batch"] = batch_of(shapes);
  ready["threads"] = engine->threads();
  ready["load_s"] = load_s;
  ready["first_run_ms"] = first_run_ms;
  ready["plan_bytes"] = std::filesystem::file_size(path);
  ready["peak_rss"] = peak_resident_bytes().value_or(0);
  std::cout << "ready " << ready.dump() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    int count = 0;
    const auto [end, code] = std::from_chars(line.data(), line.data() + line.size(), count);
    if (code != std::errc() || end != line.data() + line.size() || count < 1 || count > 1000000)
      fail(ErrorKind::usage, "a number of runs between 1 and 1000000 was expected on standard input, not '",
           std::string_view(line).substr(0, 40), "'");
    std::vector<double> ms;
    for (int i = 0; i < count; ++i) ms.push_back(clock.elapsed_ms(body, 1));
    std::cout << nlohmann::json(ms).dump() << std::endl;
  }
}

}  // namespace

void add_bench(CLI::App& verb, Context& context) {
  auto options = std::make_shared<Options>();
  verb.remove_option(verb.get_option("--json"));  // here it takes a file
  verb.add_option("model", options->paths, "ONNX models (built first) or plans")->required();
  add_model_flags(verb, options->flags);
  verb.add_option("--batch", options->batches, "1,8,32; without it 1, or what the plan was tuned for")
      ->delimiter(',')
      ->check(whole_number(1));
  verb.add_option("--duration", options->duration, "longest time of sampling, per run of the table")->capture_default_str();
  verb.add_option("--warmup", options->warmup, "exactly this many runs instead of until stable")->check(whole_number(0));
  verb.add_option("--iterations", options->iterations, "exactly this many runs instead of the stopping rule")
      ->check(whole_number(1));
  verb.add_option("--json", options->json_file, "save the result (docs/results.md), after every run");
  verb.add_option("--csv", options->csv_file, "save a table for spreadsheets");
  verb.add_flag("--pipe", options->pipe, "for a parent process: runs a plan when asked on standard input");
  verb.callback([options, &context, &verb] {
    options->precision_given = verb.count("--precision") > 0;
    if (options->pipe) pipe(*options, context);
    else bench(*options, context);
  });
}

}  // namespace temper::cli
