// SPDX-License-Identifier: Apache-2.0
// temper versus: the user's model in Temper and in other engines, in turns, with the answers compared and a verdict.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "base/strict_json.h"
#include "base/version.h"
#include "bench/bench_engine.h"
#include "bench/side_by_side.h"
#include "bench/table.h"
#include "cli/data_flags.h"
#include "cli/json_text.h"
#include "cli/outputs.h"
#include "cli/python.h"
#include "cli/terminal.h"
#include "data/npy.h"
#include "data/npz.h"
#include "measure/environment.h"
#include "measure/statistics.h"
#include "optimize/model_source.h"
#include "report/report.h"

namespace temper::cli {

namespace {

using Json = nlohmann::ordered_json;

struct VersusFlags {
  std::string path, trtexec = "trtexec", source, weights, lora, page, result_file;
  std::vector<std::string> with, pythons, inputs;
  ModelFlags flags;
  std::vector<int64_t> batches;
  std::vector<int> threads, streams;
  std::string duration = "0.3s";  // of a turn
  int rounds = 20, limit = 300;
  bool sweep = false, force = false;
};

std::string title_of(const std::string& engine) {
  for (const auto& [name, title] : {std::pair("temper", "Temper"),
                                    {"onnxruntime", "ONNX Runtime"},
                                    {"openvino", "OpenVINO"},
                                    {"torch", "PyTorch"},
                                    {"tensorflow", "TensorFlow"},
                                    {"litert", "LiteRT"},
                                    {"trtexec", "TensorRT (trtexec)"}})
    if (engine == name) return title;
  return engine;
}

// The largest difference of two engines' outputs, as a share of the largest output, up to which they answer the same.
// In 8 and 16 bits a rounding that falls the other way is one step of a scale and goes on from layer to layer.
double most_difference(const std::string& precision) { return precision == "fp32" ? 1e-3 : 5e-2; }

// What one engine is run with.
struct Setting {
  std::string engine;
  int threads = 1, streams = 1;
  int64_t batch = 1;
  bool operator==(const Setting&) const = default;
  std::string name() const {
    return concat(engine, ", batch ", batch, ", ", threads, threads == 1 ? " thread" : " threads",
                  streams > 1 ? concat(", ", streams, " streams") : "");
  }
};

struct Outcome {
  Setting setting;
  std::string version, how, failure;
  std::vector<double> round_ms, all_ms;  // median of each turn; every time that was taken
  double first_run_ms = 0, load_s = 0;
  int64_t peak_bytes = 0;
  std::optional<double> difference;  // of the answers from Temper's, as a share of the largest
  std::optional<Paired> beside;      // Temper beside this engine: above 1, Temper is the faster
  double ms() const { return median(round_ms); }
  std::string title() const { return concat(title_of(setting.engine), version.empty() ? "" : " ", version); }
  double items_per_s() const { return 1e3 * double(setting.batch) / ms(); }
};

class PrivateFolder {
 public:
  PrivateFolder() {
    path_ = (std::filesystem::temp_directory_path() / "temper-versus-XXXXXX").string();
    if (!mkdtemp(path_.data()))
      fail(ErrorKind::machine, "no folder can be made in '", std::filesystem::temp_directory_path().string(), "'");
  }
  ~PrivateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PrivateFolder(const PrivateFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void write_json(const std::string& path, const Json& json) {
  write_file_atomically({path, FileKind::other, true}, strict::dump(json) + "\n");
}

// The largest difference, as a share of the largest element of `reference`, over outputs of the same name, or in order
// where an engine has names of its own. Infinite where shapes differ, or one side alone is not finite.
double difference_of(const std::vector<std::pair<std::string, Tensor>>& reference,
                     const std::map<std::string, Tensor>& tested) {
  if (tested.size() < reference.size()) return INFINITY;
  double worst = 0;
  auto next = tested.begin();
  for (const auto& [name, want] : reference) {
    const auto named = tested.find(name);
    const Tensor& got = named == tested.end() ? next->second : named->second;
    ++next;
    if (got.dims() != want.dims()) return INFINITY;
    const std::vector<double> a = want.to_doubles(), b = got.to_doubles();
    double largest = 0, difference = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
      if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return INFINITY;
      difference = std::max(difference, std::abs(a[i] - b[i]));
    }
    for (const double value : a)
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    worst = std::max(worst, difference / (largest > 0 ? largest : 1));
  }
  return worst;
}

// {"what": "rounds of turns", "done": 3, "total": 12}: a line of the module temper.versus.
ProgressStep step_of(const std::string& line) {
  const strict::Json json = strict::parse(line, "what the module temper.versus said");
  return {json.at("what").get<std::string>(), json.at("done").get<double>(), json.at("total").get<double>(),
          json.at("unit").get<std::string>(), ""};
}

class Contest {
 public:
  Contest(const VersusFlags& options, const Context& context)
      : options_(options), context_(context), gpu_(options.flags.device.starts_with("cuda")) {}

  // Every setting of an engine: what the options ask for, or with --sweep what the machine has room for.
  // `said`: the batches of --shapes.
  std::vector<Setting> settings(bool batch_is_open, const std::optional<BatchRange>& said) const {
    const int cores = usable_cores(read_environment(0));
    std::vector<int> threads = options_.threads, streams = options_.streams;
    std::vector<int64_t> batches = options_.batches;
    if (threads.empty()) {
      for (int count = 1; options_.sweep && !gpu_ && count < cores; count *= 2) threads.push_back(count);
      threads.push_back(cores);
    }
    if (streams.empty()) {
      streams = {1};
      for (int count = 2; options_.sweep && !gpu_ && count <= cores; count *= 2) streams.push_back(count);
    }
    if (batches.empty() && options_.sweep && batch_is_open) {
      batches = {1, 8, 32};
      if (said) std::erase_if(batches, [&](int64_t batch) { return batch < said->min || batch > said->max; });
    }
    if (batches.empty()) batches = {said.value_or(BatchRange()).opt};
    std::vector<Setting> all;
    // What was named is measured or refused. What a sweep makes up is left out where the cores do not suffice.
    const bool threads_named = !options_.threads.empty(), streams_named = !options_.streams.empty();
    for (const int64_t batch : batches)
      for (const int stream : streams) {
        const bool shared = !threads_named && !options_.sweep;  // the cores, by the streams
        const std::vector<int> counts = shared ? std::vector<int>{std::max(1, cores / stream)} : threads;
        bool fits = false;
        for (const int count : counts) {
          const bool room = stream == 1 || count * stream <= cores;
          if (!room && threads_named && streams_named) refuse(stream, count, cores);
          if (room) all.push_back({"temper", count, stream, batch});
          fits |= room;
        }
        if (!fits && streams_named) refuse(stream, counts.front(), cores);
      }
    return all;
  }

  [[noreturn]] static void refuse(int streams, int threads, int cores) {
    fail(ErrorKind::usage, "--streams ", streams, " with ", threads, threads == 1 ? " thread" : " threads",
         " each takes ", streams * threads, " cores, and there are ", cores, ": give fewer");
  }

  // Builds Temper's plan for a setting once, and writes its inputs.
  void prepare(const Setting& setting) {
    Plan& plan = plans_[{setting.threads, setting.batch}];
    if (plan.engine) return;
    log(LogLevel::info, "building for batch ", setting.batch, ", ", setting.threads,
        setting.threads == 1 ? " thread" : " threads");
    ModelFlags flags = options_.flags;
    flags.threads = setting.threads;
    const std::string stem = folder_ / concat("b", setting.batch, "t", setting.threads);
    if (flags.precision == "int8") flags.qdq = stem + ".qdq.onnx";
    const bool by_shapes = !flags.shapes.empty() && options_.batches.empty() && !options_.sweep;
    plan.engine = by_shapes ? load_or_build(options_.path, flags, context_)
                            : build_for_batch(options_.path, setting.batch, flags, context_, request_);
    const GivenInputs given = read_given(request_, *plan.engine, setting.batch);
    plan.shapes = shapes_for_batch(*plan.engine, by_shapes ? 0 : setting.batch, given);
    plan.file = stem + ".plan";
    plan.model = flags.qdq.empty() ? std::filesystem::absolute(options_.path).string() : flags.qdq;
    save_engine(*plan.engine, plan.file, true);
    const std::vector<Tensor> inputs = first_inputs(*plan.engine, plan.shapes, given, {});
    Json files = Json::object(), raw = Json::object();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string& name = plan.engine->inputs()[i].name;
      const std::string file = concat(stem, ".", i, ".npy");
      write_npy(file, inputs[i], true);
      files[name] = file;
      plan.input_flags.push_back(concat(name, "=", file));
      if (!has_trtexec()) continue;
      raw[name] = concat(stem, ".", i, ".bin");
      write_file_atomically({raw[name], FileKind::other, true}, file_bytes_of(inputs[i]));
    }
    write_json(plan.inputs = stem + ".inputs.json", files);
    if (has_trtexec()) {
      std::filesystem::create_directory(stem);
      write_json(stem + "/raw.json", raw);
      plan.folder = stem;
    }
    const std::vector<Tensor> answers = Session(plan.engine).run(inputs);
    for (size_t i = 0; i < answers.size(); ++i) plan.answers.emplace_back(plan.engine->outputs()[i].name, answers[i]);
  }

  // Times these settings, all at a time in turns, or each alone.
  std::vector<Outcome> run(const std::vector<Setting>& settings, bool alone) {
    Json job{{"mode", alone ? "alone" : "turns"},
             {"rounds", alone ? 3 : options_.rounds},
             {"seconds", seconds_of(options_.duration)},
             {"start_limit_s", options_.limit},
             {"turn_limit_s", 60 + 20 * seconds_of(options_.duration)},
             {"pythons", pythons()},
             {"result", folder_ / "outcome.json"},
             {"contestants", Json::array()}};
    for (const Setting& setting : settings) job["contestants"].push_back(contestant(setting, alone));
    write_json(folder_ / "job.json", job);
    {
      ProgressLine progress(context_);
      run_python(pythons().front(), {"versus", folder_ / "job.json"}, [&](const std::string& line) {
        ProgressStep step = step_of(line);
        if (alone) step = {"each setting alone", double(swept_), double(to_sweep_), "settings", step.what};
        progress.show(step);
      });
    }
    if (alone) ++swept_;
    const strict::Json result = strict::parse(read_file(folder_ / "outcome.json"), "what the engines' times are in");
    load_by_others_ = std::max(load_by_others_, result.at("load_by_others").get<double>());
    std::vector<Outcome> outcomes;
    outcomes.reserve(settings.size());
    for (const Setting& setting : settings)
      outcomes.push_back(outcome(setting, result.at("contestants").at(setting.name())));
    return outcomes;
  }

  double load_by_others() const { return load_by_others_; }
  void sweeps(size_t settings) { to_sweep_ = settings; }  // so many, each alone
  BenchRun run_of(const Outcome& outcome) const;

 private:
  struct Plan {
    std::shared_ptr<const Engine> engine;
    std::vector<Dims> shapes;
    std::string file, model, inputs, folder;
    std::vector<std::string> input_flags;
    std::vector<std::pair<std::string, Tensor>> answers;
  };

  bool has_trtexec() const {
    return gpu_ || std::find(options_.with.begin(), options_.with.end(), "trtexec") != options_.with.end();
  }

  static std::string file_bytes_of(const Tensor& tensor) {
    const auto bytes = tensor.raw();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::vector<std::string> pythons() const { return options_.pythons.empty() ? usual_pythons() : options_.pythons; }

  Json contestant(const Setting& setting, bool alone) const {
    const Plan& plan = plans_.at({setting.threads, setting.batch});
    Json one{{"name", setting.name()}, {"engine", setting.engine}};
    if (setting.engine == "temper") {
      Json command{std::filesystem::read_symlink("/proc/self/exe").string(),
                   "bench",
                   plan.file,
                   "--pipe",
                   "--streams",
                   concat(setting.streams)};
      for (const std::string& input : plan.input_flags) command.insert(command.end(), {"--input", input});
      if (gpu_) command.insert(command.end(), {"--device", options_.flags.device});
      one["command"] = command;
    } else if (setting.engine == "trtexec") {
      Json shapes = Json::object();
      for (size_t i = 0; i < plan.shapes.size(); ++i)
        if (plan.engine->is_dynamic()) shapes[plan.engine->inputs()[i].name] = plan.shapes[i];
      const auto colon = options_.flags.device.find(':');
      one.update({{"program", options_.trtexec},
                  {"model", plan.model},
                  {"shapes", shapes},
                  {"precision", options_.flags.precision},
                  {"gpu", colon == std::string::npos ? "0" : options_.flags.device.substr(colon + 1)},
                  {"folder", plan.folder}});
    } else {
      one.update({{"model", plan.model},
                  {"inputs", plan.inputs},
                  {"threads", setting.threads},
                  {"streams", setting.streams},
                  {"batch", setting.batch},
                  {"device", options_.flags.device},
                  {"precision", options_.flags.precision},
                  {"source", options_.source},
                  {"weights", options_.weights},
                  {"lora", options_.lora}});
    }
    if (setting.engine != "temper" && !alone) one["output"] = output_of(setting);
    return one;
  }

  std::string output_of(const Setting& setting) const {
    return folder_ / concat(setting.engine, setting.engine == "trtexec" ? ".out.json" : ".out.npz");
  }

  Outcome outcome(const Setting& setting, const strict::Json& json) const {
    Outcome out{setting, "", "", "", {}, {}, 0, 0, 0, {}, {}};
    if (json.contains("failure")) {
      out.failure = json["failure"].get<std::string>();
      return out;
    }
    const strict::Json& ready = json.at("ready");
    const auto number = [&](const char* name) {
      return ready.contains(name) && ready[name].is_number() ? ready[name].get<double>() : 0.0;
    };
    out.version = ready.at("version").get<std::string>();
    out.how = ready.value("how", "");
    out.first_run_ms = number("first_run_ms");
    out.load_s = number("load_s");
    out.peak_bytes = int64_t(number("peak_rss"));
    for (const strict::Json& turn : json.at("rounds")) {
      const auto ms = turn.get<std::vector<double>>();
      out.round_ms.push_back(median(ms));
      out.all_ms.insert(out.all_ms.end(), ms.begin(), ms.end());
    }
    if (setting.engine != "temper" && std::filesystem::exists(output_of(setting))) out.difference = difference(setting);
    return out;
  }

  double difference(const Setting& setting) const {
    const auto& reference = plans_.at({setting.threads, setting.batch}).answers;
    if (setting.engine != "trtexec") return difference_of(reference, read_npz(output_of(setting)));
    std::map<std::string, Tensor> tested;  // trtexec writes [{"name", "dimensions": "1x1000", "values"}]
    const strict::Json list = strict::parse(read_file(output_of(setting)), "trtexec's answers");
    for (const auto& [name, want] : reference)
      for (const strict::Json& one : list) {
        if (one.at("name") != name) continue;
        const auto values = one.at("values").get<std::vector<double>>();
        if (int64_t(values.size()) != element_count(want.dims())) return INFINITY;
        Tensor tensor(DType::f64, want.dims());
        std::copy(values.begin(), values.end(), tensor.data<double>());
        tested.emplace(name, tensor);
      }
    return difference_of(reference, tested);
  }

  const VersusFlags& options_;
  const InputRequest request_{options_.inputs, memory_limit_of(options_.flags.memory_limit)};
  const Context& context_;
  const bool gpu_;
  PrivateFolder folder_;
  std::map<std::pair<int, int64_t>, Plan> plans_;  // by threads and batch
  double load_by_others_ = 0;
  size_t swept_ = 0, to_sweep_ = 0;
};

BenchRun Contest::run_of(const Outcome& outcome) const {
  const Plan& plan = plans_.at({outcome.setting.threads, outcome.setting.batch});
  BenchRun run = describe_run(*plan.engine, plan.shapes);
  run.model = options_.path;
  run.command = context_.command;
  run.streams = outcome.setting.streams;
  run.transfers = gpu_ ? "excluded" : "none";
  run.notes["transfers"] = "inputs and outputs stay where the engine reads and writes them";
  Samples samples;
  samples.ms = outcome.all_ms;
  samples.first_run_ms = outcome.first_run_ms;
  samples.warmup_runs = 3;
  samples.fixed_counts = true;
  if (outcome.setting.streams > 1) samples.runs_per_s = 1e3 / outcome.ms();
  set_samples(run, samples);
  run.first_run_ms = outcome.first_run_ms;
  run.peak_host_bytes = outcome.peak_bytes;
  run.load_by_others = load_by_others_;
  if (outcome.setting.engine == "temper") {
    run.plan_bytes = int64_t(std::filesystem::file_size(plan.file));
    run.build_s = plan.engine->info().build_s;
    return run;
  }
  run.backend = outcome.setting.engine;
  ImportedRun& from = run.imported.emplace();
  from.source = outcome.title();
  for (const char* field : {"workspace_bytes", "plan_bytes", "build_s", "peak_device_bytes"})
    run.notes[field] = concat(title_of(outcome.setting.engine), " does not say");
  run.workspace_bytes.reset();
  run.peak_device_bytes.reset();
  return run;
}

bool answers_differ(const VersusFlags& options, const Outcome& outcome) {
  return outcome.difference && !(*outcome.difference < most_difference(options.flags.precision));
}

// "Temper is 1.21x as fast ..., the fastest of the others"
std::string sentence_of(const VersusFlags& options, const std::vector<Outcome>& outcomes, const std::string& what) {
  const Outcome* best = nullptr;
  for (const Outcome& outcome : outcomes)
    if (outcome.beside && !answers_differ(options, outcome) && (!best || outcome.items_per_s() > best->items_per_s()))
      best = &outcome;
  const std::string prefix = what.empty() ? "" : concat(what, ": ");
  if (!outcomes[0].failure.empty()) return concat(prefix, "Temper could not be timed: ", outcomes[0].failure);
  if (!best) return concat(prefix, "no other engine could be timed with the same answers: there is no verdict");
  const Paired& paired = *best->beside;
  return concat(prefix, "Temper beside ", best->title(), outcomes.size() > 2 ? ", the fastest of the others: " : ": ",
                paired_text(paired), "; median ", format_number(outcomes[0].ms()), " ms beside ",
                format_number(best->ms()), " ms");
}

// "1e-07"
std::string magnitude(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0e", value);
  return value == 0 ? "0" : text;
}

Table table_of(const VersusFlags& options, const std::vector<Outcome>& outcomes, bool sweep) {
  Table table{{{"engine", false, 9},
               {"batch", true, 6},
               {"threads", true, 7},
               {"streams", true, 5},
               {"median ms", true, 9},
               {"items/s", true, 8},
               {"Temper is", true, 9},
               {"99 % interval", true, 7},
               {"verdict", false, 8},
               {"answers", true, 7},
               {"first ms", true, 1},
               {"memory", true, 3}},
              {}};
  for (const Outcome& outcome : outcomes) {
    if (!outcome.failure.empty()) continue;
    const auto& paired = outcome.beside;
    table.rows.push_back(
        {concat(outcome.title(), outcome.how.empty() ? "" : concat(" (", outcome.how, ")")),
         concat(outcome.setting.batch), concat(outcome.setting.threads), concat(outcome.setting.streams),
         format_number(outcome.ms()), format_number(outcome.items_per_s()),
         paired ? format_number(paired->ratio, 3) + "x" : "",
         paired && std::isfinite(paired->interval.high)
             ? concat(format_number(paired->interval.low, 3), "–", format_number(paired->interval.high, 3))
             : "",
         !paired                            ? ""
         : answers_differ(options, outcome) ? "DIFFERS"
                                            : std::string(name_of(paired->verdict)),
         outcome.difference ? magnitude(*outcome.difference) : "", format_number(outcome.first_run_ms),
         outcome.peak_bytes ? format_bytes(double(outcome.peak_bytes)) : "n/a"});
  }
  if (sweep) {  // each alone: nothing is compared
    for (const char* name : {"Temper is", "99 % interval", "verdict", "answers"}) {
      const auto at =
          std::find_if(table.columns.begin(), table.columns.end(), [&](const auto& c) { return c.name == name; });
      const auto index = at - table.columns.begin();
      table.columns.erase(at);
      for (auto& row : table.rows) row.erase(row.begin() + index);
    }
  }
  return table;
}

Json json_of(const VersusFlags& options, const Outcome& outcome) {
  const bool timed = outcome.failure.empty();
  const auto share = [](double value) { return std::isfinite(value) ? Json(value) : Json("infinite"); };
  return {{"engine", outcome.setting.engine},
          {"version", outcome.version},
          {"how", outcome.how},
          {"batch", outcome.setting.batch},
          {"threads", outcome.setting.threads},
          {"streams", outcome.setting.streams},
          {"failure", timed ? Json(nullptr) : Json(outcome.failure)},
          {"median_ms", timed ? Json(outcome.ms()) : Json(nullptr)},
          {"items_per_s", timed ? Json(outcome.items_per_s()) : Json(nullptr)},
          {"round_ms", outcome.round_ms},
          {"first_run_ms", timed ? Json(outcome.first_run_ms) : Json(nullptr)},
          {"load_s", timed ? Json(outcome.load_s) : Json(nullptr)},
          {"peak_bytes", outcome.peak_bytes ? Json(outcome.peak_bytes) : Json(nullptr)},
          {"largest_difference", outcome.difference ? share(*outcome.difference) : Json(nullptr)},
          {"answers_differ", outcome.difference ? Json(answers_differ(options, outcome)) : Json(nullptr)},
          {"temper", outcome.beside ? Json(temper::json_of(*outcome.beside)) : Json(nullptr)}};
}

// One table of turns: Temper first, then the others, each as it is set.
struct Round {
  std::string what;  // what the engines are at their best in; empty where there is one
  std::vector<Outcome> outcomes;
};

Round compete(Contest& contest, const std::string& what, const std::vector<Setting>& settings) {
  Round round{what, contest.run(settings, false)};
  const Outcome& temper = round.outcomes[0];
  for (Outcome& outcome : round.outcomes) {
    if (&outcome == &temper || !temper.failure.empty() || !outcome.failure.empty()) continue;
    std::vector<double> ours = temper.round_ms, theirs = outcome.round_ms;
    for (double& ms : ours) ms /= double(temper.setting.batch);
    for (double& ms : theirs) ms /= double(outcome.setting.batch);
    outcome.beside = paired_of(theirs, ours);
  }
  return round;
}

std::vector<std::string> contestants(const VersusFlags& options) {
  std::vector<std::string> engines{"temper"};
  const bool gpu = options.flags.device.starts_with("cuda");
  for (const std::string& name : options.with.empty()
                                     ? (gpu ? std::vector<std::string>{"onnxruntime", "torch", "trtexec"}
                                            : std::vector<std::string>{"onnxruntime", "openvino"})
                                     : options.with)
    if (std::find(engines.begin(), engines.end(), name) == engines.end()) engines.push_back(name);
  return engines;
}

void versus(const VersusFlags& options, Context& context) {
  const Output page{options.page, FileKind::page, options.force, "-o"},
      result{options.result_file, FileKind::result, options.force, "--result"};
  check_files(with_build_files({{options.path}, input_paths(options.inputs), {page, result}}, options.flags));
  if (is_plan(options.path))
    fail(ErrorKind::usage, "'", options.path, "' is a plan, which no other engine reads; name the ONNX model");
  const bool gpu = options.flags.device.starts_with("cuda");
  EnvironmentSampler sampler(0);
  Contest contest(options, context);
  const std::vector<std::string> engines = contestants(options);
  const auto shapes = build_options(options.flags, options.path, context).shapes;
  const ImportedModel model = ModelSource{options.path, "", {}}.import(limits_of(options.flags), shapes);
  const std::vector<InputSpec> inputs = input_specs(model.graph);
  const std::vector<Setting> settings = contest.settings(!batch_symbol(inputs).empty(), batches_said(inputs, shapes));
  const bool sweep = settings.size() > 1;
  for (const Setting& setting : settings) contest.prepare(setting);
  std::vector<Outcome> swept;
  std::vector<Round> rounds;
  std::vector<Outcome> refused;  // engines that no setting could be timed of
  if (!sweep) {
    std::vector<Setting> all;
    all.reserve(engines.size());
    for (const std::string& engine : engines)
      all.push_back({engine, settings[0].threads, settings[0].streams, settings[0].batch});
    rounds.push_back(compete(contest, "", all));
  } else {
    contest.sweeps(engines.size() * settings.size());
    for (const std::string& engine : engines) {
      for (Setting setting : settings) {
        setting.engine = engine;
        // One that is not there is asked once.
        if (!swept.empty() && swept.back().setting.engine == engine && !swept.back().failure.empty() &&
            swept.back().failure.find("not installed") != std::string::npos)
          break;
        const std::vector<Outcome> one = contest.run({setting}, true);
        swept.push_back(one[0]);
      }
    }
    // Each engine at its best: in latency of the smallest batch, and in items a second whatever the batch is.
    const auto best = [&](const std::string& engine, bool latency) -> std::optional<Setting> {
      const Outcome* found = nullptr;
      for (const Outcome& outcome : swept) {
        if (outcome.setting.engine != engine || !outcome.failure.empty()) continue;
        if (latency && (outcome.setting.streams > 1 || outcome.setting.batch != settings[0].batch)) continue;
        if (!found || (latency ? outcome.ms() < found->ms() : outcome.items_per_s() > found->items_per_s()))
          found = &outcome;
      }
      return found ? std::optional(found->setting) : std::nullopt;
    };
    for (const bool latency : {true, false}) {
      std::vector<Setting> all;
      for (const std::string& engine : engines)
        if (const auto setting = best(engine, latency)) all.push_back(*setting);
      if (all.size() > 1 && all[0].engine == "temper" &&
          (latency || std::none_of(rounds.begin(), rounds.end(), [&](const Round& r) {
             return std::equal(r.outcomes.begin(), r.outcomes.end(), all.begin(), all.end(),
                               [](const Outcome& o, const Setting& s) { return o.setting == s; });
           })))
        rounds.push_back(
            compete(contest, latency ? concat("latency at batch ", settings[0].batch) : "throughput", all));
    }
    for (const std::string& engine : engines) {
      const auto last =
          std::find_if(swept.rbegin(), swept.rend(), [&](const Outcome& o) { return o.setting.engine == engine; });
      if (!best(engine, false)) refused.push_back(*last);
    }
    if (rounds.empty()) rounds.push_back({"", refused});
  }
  const Environment environment = sampler.finish();

  std::vector<std::string> sentences;
  bool slower = false, differs = false;
  for (const Round& round : rounds) {
    sentences.push_back(sentence_of(options, round.outcomes, round.what));
    for (const Outcome& outcome : round.outcomes) {
      if (!outcome.failure.empty()) refused.push_back(outcome);
      differs |= answers_differ(options, outcome);
      slower |= outcome.beside && outcome.beside->verdict == Verdict::slower && !answers_differ(options, outcome);
    }
  }
  if (slower || differs) context.exit_code = int(ErrorKind::check_failed);
  BenchResult runs{environment, {}};
  for (const Round& round : rounds)
    for (const Outcome& outcome : round.outcomes)
      if (outcome.failure.empty()) runs.runs.push_back(contest.run_of(outcome));
  if (!options.result_file.empty()) save_result(options.result_file, runs, options.force);
  if (!options.page.empty()) {
    Report report;
    for (const std::string& sentence : sentences)
      report.verdict += concat(report.verdict.empty() ? "" : " ", sentence, ".");
    report.results.push_back({options.path, runs});
    write_file_atomically(page, report_html(report));
  }

  if (context.json) {
    Json json{{"schema", "temper.versus/1"},
              {"model", options.path},
              {"sha256", model.sha256},
              {"device", options.flags.device},
              {"precision", options.flags.precision},
              {"verdicts", sentences},
              {"load_by_others", contest.load_by_others()},
              {"environment", Json::parse(temper::to_json(environment))},
              {"rounds", Json::array()},
              {"sweep", Json::array()}};
    for (const Round& round : rounds) {
      Json list = Json::array();
      for (const Outcome& outcome : round.outcomes) list.push_back(json_of(options, outcome));
      json["rounds"].push_back({{"what", round.what}, {"engines", list}});
    }
    for (const Outcome& outcome : swept) json["sweep"].push_back(json_of(options, outcome));
    print_json(json);
  } else {
    for (const std::string& sentence : sentences) print_line("verdict", sentence);
    for (const Round& round : rounds) {
      std::printf("\n%s", round.what.empty() ? "" : concat(round.what, ", each engine at its best\n").c_str());
      print_table(table_of(options, round.outcomes, false));
    }
    if (!swept.empty()) {
      std::printf("\nall settings, each alone\n");
      print_table(table_of(options, swept, true));
    }
    if (!refused.empty()) std::printf("\n");
    for (const Outcome& outcome : refused)
      print_line("not timed", concat(title_of(outcome.setting.engine), ": ", outcome.failure));
  }
  std::fflush(stdout);
  for (const Round& round : rounds)
    for (const Outcome& outcome : round.outcomes) {
      if (answers_differ(options, outcome))
        log(LogLevel::warning, title_of(outcome.setting.engine), " and Temper answer differently: by ",
            format_number(*outcome.difference, 2),
            " of the largest value; temper verify says which of the two is right");
      if (outcome.beside && outcome.beside->verdict == Verdict::unsure)
        log(LogLevel::warning, title_of(outcome.setting.engine), ": ", outcome.beside->why,
            outcome.beside->rounds_needed && std::isfinite(outcome.beside->interval.high)
                ? concat("; about ", outcome.beside->rounds_needed, " rounds would decide: --rounds ",
                         outcome.beside->rounds_needed)
                : std::string("; more --rounds, or a quieter machine"));
    }
  if (contest.load_by_others() > 0.1)
    log(LogLevel::warning, "other processes used ", format_number(contest.load_by_others(), 2), " of ",
        environment.allowed_cores, " cores meanwhile");
  if (gpu) log(LogLevel::info, "times leave out the copies of inputs and outputs");
}

}  // namespace

void add_versus(Command& verb, Context& context) {
  auto options = std::make_shared<VersusFlags>();
  verb.add_option("model", options->path, "an ONNX model").required();
  verb.add_option("--with", options->with,
                  "engines to time beside Temper, separated by commas: onnxruntime, openvino, torch, tensorflow, "
                  "litert, trtexec; by default onnxruntime and openvino, on a GPU onnxruntime, torch and trtexec")
      .delimiter(',')
      .check(one_of({"onnxruntime", "openvino", "torch", "tensorflow", "litert", "trtexec"}));
  verb.add_option("--python", options->pythons,
                  "Python interpreter that has the engines; may be given several times, and the first that has an "
                  "engine runs it")
      .type_name("PROGRAM")
      .allow_extra_args(false);
  verb.add_option("--trtexec", options->trtexec, "program of TensorRT's trtexec")
      .type_name("PROGRAM")
      .capture_default_str();
  verb.add_option("--source", options->source,
                  "the model that the ONNX file was made from, as temper export has it, for torch, tensorflow and "
                  "litert; by default what temper export noted in the file");
  verb.add_option("--weights", options->weights,
                  "weights of the source, as temper export has them; by default those noted")
      .type_name("FILE|NAME");
  verb.add_option("--lora", options->lora, "adapter that is merged into the source's weights; by default that noted")
      .type_name("FOLDER");
  add_input_flag(verb, options->inputs, "; random numbers for the others");
  add_model_flags(verb, options->flags);
  verb.remove_option("--threads");
  const auto list = [&verb](const char* name, auto& values, const char* text) {
    verb.add_option(name, values, text).delimiter(',').check(whole_number(1));
  };
  list("--batch", options->batches, "batch sizes, e.g. 1,8; by default 1, or what --shapes and --input say");
  list("--threads", options->threads, "numbers of CPU threads, e.g. 1,2; by default all that this process may use");
  list("--streams", options->streams, "numbers of runs at a time, e.g. 1,2; by default 1");
  verb.add_flag(
      "--sweep", options->sweep,
      "try threads, streams and batch sizes of every engine first, each alone; then each engine competes as it "
      "is fastest, in latency and in throughput");
  verb.add_option("--rounds", options->rounds, "turns of each engine; few do not give a 99 % interval")
      .check(whole_number(2, 10000))
      .capture_default_str();
  verb.add_option("--duration", options->duration, "length of a turn; at least 3 runs").capture_default_str();
  verb.add_option("--limit", options->limit, "seconds that an engine may take to load the model before it is given up")
      .check(whole_number(1, 86400))
      .capture_default_str();
  verb.add_option("-o,--output", options->page, "write the times as an HTML page, as temper report does")
      .type_name("REPORT.html");
  verb.add_option("--result", options->result_file,
                  "save the times as a result file, which report, compare and gate read")
      .type_name("FILE");
  add_force_flag(verb, options->force);
  verb.callback([options, &context] { versus(*options, context); });
}

}  // namespace temper::cli
