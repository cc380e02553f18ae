// SPDX-License-Identifier: Apache-2.0
// Timing engines and Python callables by the one timer, into the one result file.
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/strict_json.h"
#include "bench/bench_engine.h"
#include "bench/compare.h"
#include "bench/compare_engines.h"
#include "bench/results.h"
#include "bind.h"
#include "engine.h"
#include "given.h"
#include "guard.h"
#include "measure/energy.h"
#include "measure/paired.h"
#include "measure/timer.h"

namespace nb = nanobind;

namespace temper::python {

namespace {

using Json = nlohmann::ordered_json;

// Calls a Python function of no arguments from code without the GIL. What it raises passes through.
std::function<void()> body_of(const nb::object& callable) {
  return [function = callable.ptr()] {
    const nb::gil_scoped_acquire gil;
    const nb::object dropped = nb::handle{function}();
  };
}

TimerOptions timer_of(nb::dict options, nb::object callback) {
  TimerOptions timer;
  timer.max_seconds = nb::cast<double>(options["duration"]);
  timer.min_seconds = std::min(timer.min_seconds, timer.max_seconds);
  timer.relative_error = nb::cast<double>(options["error"]);
  timer.warmup = nb::cast<int>(options["warmup"]);
  timer.iterations = nb::cast<int>(options["iterations"]);
  timer.progress = [report = progress_of(std::move(callback)), plain = timer](int samples, double seconds) {
    tell(report, step_of(plain, "measuring", samples, seconds));
  };
  return timer;
}

std::string result_text(const Environment& environment, BenchRun run) {
  const BenchResult result{environment, {std::move(run)}};
  return to_json(result);
}

nb::str bench_engine_text(const PyEngine& self, nb::object inputs, nb::dict options, nb::object progress) {
  const auto engine = self.get();
  const Given given = given_inputs(inputs, *engine);
  const TimerOptions timer = timer_of(options, std::move(progress));
  LoadPattern load;
  load.streams = nb::cast<int>(options["streams"]);
  load.request_rate_per_s = nb::cast<double>(options["rate"]);
  load.transfers = nb::cast<bool>(options["transfers"]);
  for (auto [input, output] : nb::cast<nb::dict>(options["state"]))
    load.states.push_back({nb::cast<std::string>(input), nb::cast<std::string>(output)});
  const auto name = nb::cast<std::string>(options["name"]);
  const auto batch = nb::cast<int64_t>(options["batch"]);
  std::string text;
  {
    const WithoutGil released;
    const EnvironmentSampler sampler(engine->threads());
    const std::vector<Dims> shapes = shapes_for_batch(*engine, given.tensors.empty() ? batch : 0, given.tensors);
    BenchRun run = bench_engine(engine, shapes, timer, load, given.tensors);
    run.model = name.empty() ? engine->info().source_path : name;
    if (run.model.empty()) run.model = "engine";
    run.command = "temper.bench(engine)";
    run.build_s = engine->info().build_s;
    run.notes["plan_bytes"] = "measured in Python: the engine is in memory";
    run.notes["peak_host_bytes"] = "contains Python and whatever else the process holds";
    text = result_text(sampler.finish(), std::move(run));
  }
  return nb::str(text.c_str(), text.size());
}

// What is known of a callable is what the caller says.
nb::str bench_callable(nb::object callable, nb::dict options, nb::object progress) {
  const TimerOptions timer = timer_of(options, std::move(progress));
  BenchRun run;
  run.model = nb::cast<std::string>(options["name"]);
  run.device = nb::cast<std::string>(options["device"]);
  run.backend = "python";
  run.batch = nb::cast<int64_t>(options["batch"]);
  run.command = "temper.bench(callable)";
  for (auto [name, dims] : nb::cast<nb::dict>(options["shapes"]))
    run.shapes[nb::cast<std::string>(name)] = nb::cast<Dims>(dims);
  run.notes["shapes"] = run.shapes.empty() ? "the callable has its own inputs" : "inputs were given";
  const auto precision = nb::cast<std::string>(options["precision"]),
             sha256 = nb::cast<std::string>(options["model_sha256"]);
  const int threads = nb::cast<int>(options["threads"]);
  if (precision.empty()) run.notes["precision"] = "the callable's own";
  else run.precision = precision;
  if (sha256.empty()) run.notes["model_sha256"] = run.notes["source_sha256"] = "a callable, of no file that is known";
  else run.model_sha256 = run.source_sha256 = sha256;
  if (threads > 0) {
    run.threads = threads;
  } else {
    run.threads.reset();
    run.notes["threads"] = "the callable's own";
  }
  if (run.device != "cpu") {
    run.transfers.reset();
    run.notes["transfers"] = "those that the callable makes";
  }
  for (const char* field : {"workspace_bytes", "peak_device_bytes"}) run.notes[field] = "known to the callable alone";
  for (const char* field : {"plan_bytes", "build_s"}) run.notes[field] = "a callable: nothing was built";
  std::string text;
  {
    const WithoutGil released;
    reset_peak_resident();
    const EnvironmentSampler sampler(std::max(threads, 1));
    const EnergyMeter energy;
    set_samples(run, measure(body_of(callable), timer));
    if (run.device == "cpu") run.cpu_watts_mean = energy.watts();
    const Environment environment = sampler.finish();
    run.load_by_others = environment.load_by_others;
    if (!run.load_by_others) run.notes["load_by_others"] = "n/a (needs half a second, and a kernel that shows it)";
    run.peak_host_bytes = peak_resident_bytes();
    run.notes["peak_host_bytes"] = "contains Python and whatever else the process holds";
    text = result_text(environment, std::move(run));
  }
  return nb::str(text.c_str(), text.size());
}

Json json_of(double ratio, const std::optional<Interval>& interval, Verdict verdict, const std::string& why) {
  Json json{{"ratio", ratio}, {"verdict", name_of(verdict)}, {"why", why}};
  json["low"] = interval && std::isfinite(interval->low) ? Json(interval->low) : Json(nullptr);
  json["high"] = interval && std::isfinite(interval->high) ? Json(interval->high) : Json(nullptr);
  return json;
}

// Each side is (engine, inputs or None) or a callable of no arguments.
nb::str compare_in_turns(nb::object a, nb::object b, nb::dict options, nb::object callback) {
  struct Side {
    std::shared_ptr<const Engine> engine;
    Given given;
    std::unique_ptr<BenchSession> session;
    nb::object callable;
  } sides[2];
  for (const auto& [side, object] : {std::pair<Side*, nb::object*>{&sides[0], &a}, {&sides[1], &b}})
    if (nb::isinstance<nb::tuple>(*object)) {
      side->engine = nb::cast<PyEngine&>((*object)[0]).get();
      side->given = given_inputs((*object)[1], *side->engine);
    } else {
      side->callable = *object;
    }
  PairedOptions paired;
  paired.max_seconds = nb::cast<double>(options["duration"]);
  paired.same = nb::cast<double>(options["same"]);
  const auto batch = nb::cast<int64_t>(options["batch"]);
  const auto report = progress_of(std::move(callback));
  paired.progress = [&](int rounds, double seconds) {
    tell(report, {"timing in turns", seconds, paired.max_seconds, "s", concat(rounds, " rounds")});
  };
  if (sides[0].engine && sides[1].engine && !nb::cast<bool>(options["force"])) {
    check_same_inputs(*sides[0].engine, *sides[1].engine);
    std::string list;
    for (const std::string& one : engine_differences(*sides[0].engine, *sides[1].engine))
      list += concat(list.empty() ? "" : "; ", one);
    if (!list.empty())
      fail(ErrorKind::unsupported, "the engines are unlike, their times do not compare: ", list,
           ". force=True compares them all the same");
  }
  Json json;
  {
    const WithoutGil released;
    std::function<void()> bodies[2];
    for (int i = 0; i < 2; ++i) {
      Side& side = sides[i];
      if (!side.engine) {
        bodies[i] = body_of(side.callable);
        continue;
      }
      const std::vector<Dims> shapes =
          shapes_for_batch(*side.engine, side.given.tensors.empty() ? batch : 0, side.given.tensors);
      side.session = std::make_unique<BenchSession>(side.engine, with_random(*side.engine, shapes, side.given.tensors));
      bodies[i] = [session = side.session.get()] { session->run(); };
    }
    const Paired turns = measure_paired(bodies[0], bodies[1], paired);
    json = json_of(turns.ratio, turns.interval, turns.verdict, turns.why);
    json["rounds"] = turns.ratios.size();
    json["rounds_needed"] = turns.rounds_needed;
    json["seconds"] = turns.seconds;
    json["a_ms"] = turns.a_ms;
    json["b_ms"] = turns.b_ms;
  }
  const std::string text = strict::dump(json);
  return nb::str(text.c_str(), text.size());
}

// Texts of result files of one run each.
nb::str compare_results(const std::string& a, const std::string& b, double same, bool force) {
  const BenchResult first = result_from_json(a), second = result_from_json(b);
  const BenchRun &x = first.runs.at(0), &y = second.runs.at(0);
  const Differences differences = differences_of({&x, &first.environment}, {&y, &second.environment});
  std::string list;
  for (const std::string& one : differences.refusals) list += concat(list.empty() ? "" : "; ", one);
  if (!list.empty() && !force)
    fail(ErrorKind::unsupported, "'", x.model, "' and '", y.model, "' are unlike, their times do not compare: ", list,
         ". force=True compares them all the same");
  const Comparison comparison = compare_runs(x, y, same);
  const std::string text = strict::dump(json_of(comparison.ratio, comparison.interval, comparison.verdict,
                                                comparison.unfit.empty() ? comparison.why : comparison.unfit));
  return nb::str(text.c_str(), text.size());
}

std::vector<std::string> warnings(const std::string& text) {
  const BenchResult result = result_from_json(text);
  std::vector<std::string> lines;
  const auto add = [&](const std::vector<Warning>& found) {
    for (const Warning& warning : found) lines.push_back(concat(warning.cause, ". Remedy: ", warning.remedy));
  };
  add(warnings_of(result.environment));
  for (const BenchRun& run : result.runs) add(warnings_of(run, result.environment));
  return lines;
}

}  // namespace

void bind_bench(nb::module_& module) {
  module.def("bench_engine", bench_engine_text, nb::arg("engine"), nb::arg("inputs").none(), nb::arg("options"),
             nb::arg("progress").none());
  module.def("bench_callable", bench_callable, nb::arg("callable"), nb::arg("options"), nb::arg("progress").none());
  module.def("compare_in_turns", compare_in_turns, nb::arg("a"), nb::arg("b"), nb::arg("options"),
             nb::arg("progress").none());
  module.def("compare_results", compare_results);
  module.def("warnings", warnings);
  module.def("save_result", [](const std::string& path, const std::string& text, bool force) {
    save_result(path, result_from_json(text), force);
  });
  module.def("load_result", [](const std::string& path) { return to_json(load_result(path)); });
  module.def("model_sha256", [](const std::string& path) {
    const WithoutGil released;
    return import_onnx(path).sha256;
  });
}

}  // namespace temper::python
