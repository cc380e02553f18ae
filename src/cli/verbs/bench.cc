// SPDX-License-Identifier: Apache-2.0
// temper bench: measures models or plans, in every combination of the settings given.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <thread>

#include "backends/devices.h"
#include "base/file.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/strict_json.h"
#include "base/version.h"
#include "bench/bench_engine.h"
#include "bench/compare.h"
#include "bench/table.h"
#include "cli/bench_devices.h"
#include "cli/data_flags.h"
#include "cli/model.h"
#include "cli/outputs.h"
#include "cli/terminal.h"
#include "measure/environment.h"
#include "optimize/precision.h"

namespace temper::cli {

namespace {

struct BenchFlags {
  std::vector<std::string> paths, inputs, states;
  ModelFlags flags;
  std::string duration = "3s", json_file, csv_file, markdown_file;
  std::vector<std::string> precisions;
  std::vector<int64_t> batches;
  std::vector<int> threads, streams;
  std::vector<double> rates;
  int warmup = -1, iterations = -1;
  double error = 0.5;  // percent
  bool pipe = false, transfers = false, no_cuda_graph = false, force = false;
};

TimerOptions timer_options(const BenchFlags& options) {
  TimerOptions timer;
  timer.max_seconds = seconds_of(options.duration);
  timer.min_seconds = std::min(timer.min_seconds, timer.max_seconds);
  timer.relative_error = options.error / 100;
  timer.warmup = options.warmup;
  timer.iterations = options.iterations;
  return timer;
}

// The flags of one place of the sweep over precisions and threads.
ModelFlags flags_for(const BenchFlags& options, const std::string& precision, int threads) {
  ModelFlags flags = options.flags;
  flags.threads = threads;
  if (precision.empty()) return flags;
  flags.precision = precision;
  if (options.precisions.size() > 1) drop_int8_flags(flags);
  return flags;
}

std::vector<LoadPattern> load_patterns(const BenchFlags& options) {
  std::vector<LoadPattern> patterns;
  for (int streams : options.streams.empty() ? std::vector<int>{1} : options.streams) {
    if (options.rates.empty()) patterns.push_back({streams, 0, options.transfers, !options.no_cuda_graph});
    for (double rate : options.rates) patterns.push_back({streams, rate, options.transfers, !options.no_cuda_graph});
  }
  return patterns;
}

std::shared_ptr<const Engine> load_plan(const std::string& path, const ModelFlags& flags, const BenchFlags& options,
                                        const Context& context) {
  if (options.threads.size() > 1)
    fail(ErrorKind::usage, "'", path,
         "' is a plan, which has one number of threads; give --threads one value, or none");
  auto engine = load_or_build(path, flags, context);
  if (!options.precisions.empty() && flags.precision != engine->info().precision)
    fail(ErrorKind::usage, "the plan '", path, "' was made for ", engine->info().precision,
         "; build it again with --precision ", flags.precision);
  return engine;
}

InputRequest input_request(const BenchFlags& options) {
  return {options.inputs, memory_limit_of(options.flags.memory_limit)};
}

class Sweep {
 public:
  Sweep(const BenchFlags& options, const Context& context)
      : options_(options),
        context_(context),
        timer_(timer_options(options)),
        sampler_(options.threads.empty() || options.threads[0] == 0 ? usable_cores(read_environment(0))
                                                                    : options.threads[0]) {}

  void run() {
    for (const std::string& path : options_.paths)
      for (const std::string& precision :
           options_.precisions.empty() ? std::vector<std::string>{""} : options_.precisions)
        for (int threads : options_.threads.empty() ? std::vector<int>{0} : options_.threads)
          measure_builds(path, flags_for(options_, precision, threads));
    compare_threads();
    if (prints_json()) {
      std::fputs(to_json({sampler_.finish(), runs_}).c_str(), stdout);
    } else {
      print_table(summary_of(runs_));
      for (const std::string& line : threads_) std::printf("%s\n", line.c_str());
    }
    std::fflush(stdout);  // what is wrong with the numbers stands below them
    const Environment environment = sampler_.finish();
    for (const Warning& warning : warnings_of(environment))
      log(LogLevel::warning, warning.cause, ". Remedy: ", warning.remedy);
    for (const BenchRun& run : runs_)
      for (const Warning& warning : warnings_of(run, environment))
        log(LogLevel::warning, runs_.size() > 1 ? concat(run.model, ", ", label_of(run), ": ") : "", warning.cause,
            ". Remedy: ", warning.remedy);
  }

 private:
  // Runs that differ in their threads alone say which number is the fastest, in the file too.
  void compare_threads() {
    if (options_.threads.size() < 2) return;
    std::map<std::string, std::vector<BenchRun*>> groups;
    for (BenchRun& run : runs_) {
      BenchRun same = run;
      same.threads.reset();
      groups[concat(run.model, ", ", label_of(same))].push_back(&run);
    }
    for (const auto& [name, runs] : groups) {
      if (runs.size() < 2) continue;
      const std::string verdict = fastest_threads({runs.begin(), runs.end()});
      for (BenchRun* run : runs) run->notes["threads"] = verdict;
      threads_.push_back(concat(name, ": ", verdict));
    }
    save();
  }

  void measure_builds(const std::string& path, const ModelFlags& flags) {
    const auto plan = is_plan(path) ? load_plan(path, flags, options_, context_) : nullptr;
    std::vector<int64_t> batches = options_.batches;
    const bool by_shapes = plan || !flags.shapes.empty();
    if (batches.empty()) batches = {by_shapes || !options_.inputs.empty() ? 0 : 1};  // 0: what these say
    for (int64_t batch : batches) {
      const auto engine = plan                      ? plan
                          : batch == 0 && by_shapes ? load_or_build(path, flags, context_)
                                                    : build_for_batch(path, batch, flags, context_, request_);
      const GivenInputs given =
          with_context([&] { return path; }, [&] { return read_given(request_, *engine, batch); });
      const std::vector<Dims> shapes =
          with_context([&] { return path; }, [&] { return shapes_for_batch(*engine, batch, given); });
      const std::vector<StateBinding> states =
          with_context([&] { return path; }, [&] { return parse_states(options_.states, *engine); });
      for (LoadPattern& load : load_patterns(options_)) {
        load.states = states;
        BenchRun run = measure_one(path, engine, shapes, load, given);
        if (plan) {
          run.plan_bytes = int64_t(std::filesystem::file_size(path));
        } else {
          run.notes["plan_bytes"] = "measured in the process that built it: no plan file";
          run.notes["peak_host_bytes"] =
              "contains what building left behind; measure a plan file for the memory of running";
          if (options_.batches.empty() && !by_shapes && options_.inputs.empty())
            run.notes["batch"] = "1 because no --batch was given";
        }
        runs_.push_back(std::move(run));
        save();
      }
    }
  }

  BenchRun measure_one(const std::string& path, const std::shared_ptr<const Engine>& engine,
                       const std::vector<Dims>& shapes, const LoadPattern& load, const GivenInputs& given) {
    std::string what = concat(path, " ", engine->info().precision, " batch ", batch_of(shapes));
    if (load.streams > 1) what += concat(", ", load.streams, " streams");
    if (load.request_rate_per_s > 0) what += concat(", ", format_number(load.request_rate_per_s), " requests/s");
    if (!is_terminal()) log(LogLevel::info, "measuring ", what);
    ProgressLine progress(context_);
    timer_.progress = [&](int samples, double seconds) { progress.show(step_of(timer_, what, samples, seconds)); };
    BenchRun run =
        with_context([&] { return path; }, [&] { return bench_engine(engine, shapes, timer_, load, given); });
    run.model = path;
    run.command = context_.command;
    run.build_s = engine->info().build_s;
    return run;
  }

  bool prints_json() const { return options_.json_file == "-"; }

  void save() const {
    const bool force = options_.force;
    if (!options_.json_file.empty() && !prints_json())
      save_result(options_.json_file, {sampler_.finish(), runs_}, force);
    if (!options_.csv_file.empty())
      write_file_atomically({options_.csv_file, FileKind::csv, force}, csv_table(fields_of(runs_)));
    if (!options_.markdown_file.empty())
      write_file_atomically({options_.markdown_file, FileKind::markdown, force}, markdown_table(summary_of(runs_)));
  }

  const BenchFlags& options_;
  const Context& context_;
  const InputRequest request_ = input_request(options_);
  TimerOptions timer_;
  EnvironmentSampler sampler_;
  std::vector<BenchRun> runs_;
  std::vector<std::string> threads_;  // which number of them is the fastest
};

// For a parent that interleaves several engines (python/temper/versus): `ready {json}` when loaded and warm; then
// for every line N on standard input N runs and one line with their times in ms as a JSON array; with several streams N
// runs in each of them, and N times the mean time between two ends of runs.
void pipe(const BenchFlags& options, const Context& context) {
  if (options.paths.size() != 1 || !is_plan(options.paths[0])) fail(ErrorKind::usage, "--pipe takes one plan file");
  if (options.batches.size() > 1) fail(ErrorKind::usage, "--pipe takes one batch");
  if (options.streams.size() > 1) fail(ErrorKind::usage, "--pipe takes one number of streams");
  const std::string& path = options.paths[0];
  Clock& clock = host_clock();
  // Opening a GPU (the CUDA context) is not the plan's: it is timed apart where --device names it.
  const double opening = clock.now_ms();
  const Device opened = open_device(options.flags.device, {options.flags.cuda_path});
  const double start = clock.now_ms();
  const auto engine = load_plan(path,
                                flags_for(options, options.precisions.empty() ? "" : options.precisions[0],
                                          options.threads.empty() ? 0 : options.threads[0]),
                                options, context);
  const int64_t batch = options.batches.empty() ? 0 : options.batches[0];
  const GivenInputs given = read_given(input_request(options), *engine, batch);
  const std::vector<Dims> shapes = shapes_for_batch(*engine, batch, given);
  const std::vector<StateBinding> states = parse_states(options.states, *engine);
  BenchSession session(engine, first_inputs(*engine, shapes, given, states), states);
  std::vector<std::unique_ptr<BenchSession>> others;  // of the other streams
  for (int stream = 1; stream < (options.streams.empty() ? 1 : options.streams[0]); ++stream)
    others.push_back(std::make_unique<BenchSession>(engine, first_inputs(*engine, shapes, given, states), states));
  const double load_s = (clock.now_ms() - start) / 1e3;
  const auto body = [&] { session.run(); };
  const double first_run_ms = clock.elapsed_ms(body, 1);
  for (int i = 0; i < 3; ++i) body();
  for (const auto& other : others) other->run();
  nlohmann::ordered_json ready;
  ready["name"] = "temper";
  ready["version"] = version();
  ready["batch"] = batch_of(shapes);
  ready["threads"] = engine->threads();
  ready["context_s"] = (start - opening) / 1e3;
  ready["load_s"] = load_s;
  ready["first_run_ms"] = first_run_ms;
  ready["plan_bytes"] = std::filesystem::file_size(path);
  ready["peak_rss"] = peak_resident_bytes().value_or(0);
  std::printf("ready %s\n", strict::dump(ready).c_str());
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    const int count = parse_number<int>(line).value_or(0);
    if (count < 1 || count > 1000000)
      fail(ErrorKind::usage, "a number of runs between 1 and 1000000 was expected on standard input, not '",
           std::string_view(line).substr(0, 40), "'");
    std::vector<double> ms;
    if (!others.empty()) {
      const double begin = clock.now_ms();
      std::vector<std::thread> threads;
      threads.reserve(others.size());
      for (const auto& other : others)
        threads.emplace_back([&stream = *other, count] {
          for (int i = 0; i < count; ++i) stream.run();
        });
      for (int i = 0; i < count; ++i) body();
      for (std::thread& thread : threads) thread.join();
      ms.assign(size_t(count), (clock.now_ms() - begin) / (double(count) * double(others.size() + 1)));
    } else if (engine->device().gpu && !options.transfers && states.empty())
      ms = session.run_on_device(count, !options.no_cuda_graph);
    else
      for (int i = 0; i < count; ++i) ms.push_back(clock.elapsed_ms(body, 1));
    std::printf("%s\n", strict::dump(nlohmann::json(ms)).c_str());
    std::fflush(stdout);
  }
}

// On a list of devices, which has a table of its own. `one_device`: options that were given and mean nothing there.
void bench_list(const BenchFlags& options, const std::vector<std::string>& devices, const std::string& one_device,
                const Context& context) {
  if (!one_device.empty())
    fail(ErrorKind::usage, one_device, " is of one device; --device names ", devices.size(),
         ", which are measured alone and together");
  for (const auto& [count, name] : {std::pair(options.precisions.size(), "--precision"),
                                    {options.threads.size(), "--threads"},
                                    {options.streams.size(), "--streams"}})
    if (count > 1) fail(ErrorKind::usage, "with several devices, ", name, " takes one value");
  DevicesBench bench{options.paths, devices, options.flags, options.batches, input_request(options)};
  bench.flags = flags_for(options, options.precisions.empty() ? "" : options.precisions[0],
                          options.threads.empty() ? 0 : options.threads[0]);
  bench.seconds = seconds_of(options.duration);
  if (!options.streams.empty()) bench.streams = options.streams[0];
  bench.transfers_only = options.transfers;
  bench.json_file = options.json_file;
  bench.force = options.force;
  bench_devices(bench, context);
}

}  // namespace

void add_bench(Command& verb, Context& context) {
  auto options = std::make_shared<BenchFlags>();
  verb.remove_option("--json");  // here it takes a file
  verb.add_option("model", options->paths, "ONNX models, which are built first, or plans").required();
  add_input_flag(verb, options->inputs, "; random numbers for the others");
  add_state_flag(verb, options->states);
  add_model_flags(verb, options->flags);
  // Sweeps: every combination is measured.
  for (const char* name : {"--precision", "--threads"}) verb.remove_option(name);
  const auto list = [&verb](const char* name, auto& values, const char* text, int64_t least) {
    verb.add_option(name, values, text).delimiter(',').check(whole_number(least));
  };
  verb.add_option("--precision", options->precisions,
                  "precisions to build and measure, e.g. fp32,bf16,int8 (int8 with --calibration); for a plan, the "
                  "precision that it must have")
      .delimiter(',');
  list("--threads", options->threads,
       "numbers of CPU threads to build for and measure, e.g. 1,2; by default 0, which uses all that this process may "
       "use",
       0);
  list("--batch", options->batches,
       "batch sizes to measure, e.g. 1,8,32; by default 1, what the plan was tuned for, or what --input holds, at most "
       "32",
       1);
  list("--streams", options->streams,
       "numbers of sessions that run at the same time, each back to back, e.g. 1,2,4; of each GPU where --device names "
       "several (then 2)",
       1);
  verb.add_option(
          "--rate", options->rates,
          "request rates to measure, in requests a second, e.g. 10,50; requests come by chance (a Poisson process), "
          "whether or not the previous one is done, and latency counts from the moment a request was due")
      .delimiter(',')
      .check(positive_number());
  verb.add_option("--duration", options->duration,
                  "longest time to spend on sampling each row of the table; where --device names several, of each "
                  "alone and of all")
      .capture_default_str();
  verb.add_option("--error", options->error,
                  "precision of the median at which sampling ends, in percent (half of its 95 % interval)")
      .capture_default_str()
      .check(positive_number());
  verb.add_option("--warmup", options->warmup, "number of warm-up runs; by default until the times are stable")
      .check(whole_number(0));
  verb.add_option("--iterations", options->iterations, "number of measured runs, instead of --error and --duration")
      .check(whole_number(1));
  verb.get_option("--rate").excludes("--iterations");
  verb.add_option(
      "-o,--json", options->json_file,
      "result file to write (docs/results.md), updated after every run; - prints the result instead of the table");
  verb.add_option("--csv", options->csv_file, "CSV file to save the table to, updated after every run");
  verb.add_option("--markdown", options->markdown_file, "markdown file to save the table to, updated after every run");
  add_force_flag(verb, options->force);
  verb.add_flag("--transfers", options->transfers,
                "GPU: measure the host's time including the copies of inputs and outputs; without it, the GPU's own "
                "time is measured");
  verb.add_flag("--no-cuda-graph", options->no_cuda_graph, "GPU: launch kernels one by one, not as one CUDA graph")
      .excludes("--transfers");
  verb.add_flag("--pipe", options->pipe, "run a plan whenever standard input asks for it; for use by a parent process");
  verb.callback([options, verb, &context] {
    const bool force = options->force;
    const std::vector<std::string> devices = take_devices(options->flags.device, {options->flags.cuda_path});
    const FileKind written = devices.size() > 1 ? FileKind::scaling : FileKind::result;
    check_files(with_build_files({options->paths,
                                  input_paths(options->inputs),
                                  {{options->json_file == "-" ? "" : options->json_file, written, force, "--json"},
                                   {options->csv_file, FileKind::csv, force, "--csv"},
                                   {options->markdown_file, FileKind::markdown, force, "--markdown"}}},
                                 options->flags));
    std::string one_device;
    for (const char* name : {"--pipe", "--rate", "--state", "--error", "--warmup", "--iterations", "--csv",
                             "--markdown", "--no-cuda-graph"})
      if (devices.size() > 1 && one_device.empty() && verb.get_option(name).given()) one_device = name;
    if (devices.size() > 1) bench_list(*options, devices, one_device, context);
    else if (options->pipe) pipe(*options, context);
    else Sweep(*options, context).run();
  });
}

}  // namespace temper::cli
