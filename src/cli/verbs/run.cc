// SPDX-License-Identifier: Apache-2.0
// temper run: runs a model on real inputs, writes <output>.npy and shows the best classes.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "backends/devices.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/strict_json.h"
#include "bench/table.h"
#include "cli/data_flags.h"
#include "cli/model.h"
#include "cli/outputs.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "data/not_finite.h"
#include "data/npy.h"
#include "data/pooled.h"
#include "data/sample.h"
#include "data/topk.h"
#include "evaluate/text.h"
#include "graph/strings.h"

namespace temper::cli {
namespace {

struct RunFlags {
  std::string model;
  ModelFlags flags;
  DataFlags data;
  std::vector<std::string> inputs, states;
  std::string output_folder;
  int64_t batch = 0, top = -1;
  uint64_t seed = 1;
  bool force = false;
};

std::string class_name(const std::vector<std::string>& names, int64_t index) {
  return size_t(index) < names.size() && !names[size_t(index)].empty() ? names[size_t(index)] : concat("class ", index);
}

// The output whose rows are shown: the first that looks like a classifier's, one row a sample. -1: none.
int find_classes(const std::vector<Tensor>& outputs, int64_t samples) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& output = outputs[i];
    bool flat = is_float(output.dtype()) && output.rank() >= 2 && output.dims()[0] == samples && output.dims()[1] > 1;
    for (int64_t axis = 2; flat && axis < output.rank(); ++axis) flat = output.dims()[size_t(axis)] == 1;
    if (flat) return int(i);
  }
  return -1;
}

struct Range {
  double min = INFINITY, max = -INFINITY, mean = 0;
  int64_t not_finite = 0;
};
Range range_of(const Tensor& tensor) {
  Range range;
  if (tensor.dtype() == DType::string) return range;  // there are no numbers
  int64_t finite = 0;
  for (double value : tensor.to_doubles()) {
    if (!std::isfinite(value)) {
      ++range.not_finite;
      continue;
    }
    range.min = std::min(range.min, value);
    range.max = std::max(range.max, value);
    range.mean += value;
    ++finite;
  }
  if (finite) range.mean /= double(finite);
  return range;
}

std::vector<std::string> shown_strings(const Tensor& tensor, size_t most) {
  std::vector<std::string> values = strings_of(tensor);
  if (values.size() > most) values.resize(most);
  for (std::string& value : values) value = as_utf8(value);
  return values;
}

struct Result {
  std::vector<std::string> names, files;  // of the outputs; files are empty without --output-dir
  std::vector<Tensor> outputs;
  std::vector<std::string> samples;
  std::vector<std::vector<RankedClass>> top;  // by sample, or empty; none where NaN or infinity leaves no order
  std::vector<std::string> class_names;
  int top_output = -1;
  struct OnDevice {
    std::string name;
    int64_t batches;
    std::string loss;  // why it was lost; "": it was not
  };
  std::vector<OnDevice> devices;  // where there are several
};

nlohmann::json json_of(const Result& result, const Dataset& data, int64_t batch) {
  nlohmann::json json = {{"samples", result.samples.size()},
                         {"batch", batch},
                         {"random_inputs", data.filled()},
                         {"outputs", nlohmann::json::array()}};
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    const Range range = range_of(result.outputs[i]);
    nlohmann::json entry = {
        {"name", result.names[i]}, {"type", result.outputs[i].type().text()}, {"not_finite", range.not_finite}};
    if (range.min <= range.max) entry.update({{"min", range.min}, {"max", range.max}, {"mean", range.mean}});
    if (!result.files.empty()) entry["file"] = result.files[i];
    if (result.outputs[i].dtype() == DType::string) entry["values"] = shown_strings(result.outputs[i], SIZE_MAX);
    json["outputs"].push_back(entry);
  }
  for (const auto& [name, batches, loss] : result.devices) {
    json["devices"].push_back({{"device", name}, {"batches", batches}});
    if (!loss.empty()) json["devices"].back()["lost"] = loss;
  }
  if (!result.top.empty()) json["top_output"] = result.names[size_t(result.top_output)];
  for (size_t i = 0; i < result.top.size(); ++i) {
    nlohmann::json classes = nlohmann::json::array();
    for (const RankedClass& ranked : result.top[i]) {
      classes.push_back({{"class", ranked.index}, {"value", ranked.value}, {"probability", ranked.probability}});
      if (!result.class_names.empty()) classes.back()["name"] = class_name(result.class_names, ranked.index);
    }
    json["top"].push_back({{"sample", result.samples[i]}, {"classes", classes}});
  }
  return json;
}

constexpr size_t kShownSamples = 16;

void print(const Result& result) {
  for (size_t i = 0; i < std::min(result.top.size(), kShownSamples); ++i) {
    std::printf("%s\n", printable(result.samples[i]).c_str());
    if (result.top[i].empty()) std::printf("  no ranking: scores are NaN or infinite\n");
    for (size_t k = 0; k < result.top[i].size(); ++k) {
      const RankedClass& ranked = result.top[i][k];
      std::printf("  %2zu  %7.2f %%  %s%s\n", k + 1, 100 * ranked.probability,
                  printable(class_name(result.class_names, ranked.index)).c_str(),
                  result.class_names.empty() ? "" : concat(" (", ranked.index, ")").c_str());
    }
  }
  if (result.top.size() > kShownSamples)
    std::printf("... and %zu samples more; --json prints all\n", result.top.size() - kShownSamples);
  if (!result.top.empty()) std::printf("\n");
  Table table{{{"output", false}, {"type", false}, {"min"}, {"mean"}, {"max"}, {"NaN or infinite"}, {"file", false}},
              {}};
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    const Range range = range_of(result.outputs[i]);
    const bool any = range.min <= range.max;
    const auto shown = [&](double value) { return any ? format_number(value) : std::string("n/a"); };
    table.rows.push_back({result.names[i], result.outputs[i].type().text(), shown(range.min), shown(range.mean),
                          shown(range.max), concat(range.not_finite), result.files.empty() ? "" : result.files[i]});
  }
  print_table(table);
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    if (result.outputs[i].dtype() != DType::string) continue;
    std::printf("\n%s:", printable(result.names[i]).c_str());
    for (const std::string& text : shown_strings(result.outputs[i], kShownSamples))
      std::printf(" \"%s\"", printable(text).c_str());
    if (result.outputs[i].count() > int64_t(kShownSamples))
      std::printf(" ... and %s more; --json prints all",
                  concat(result.outputs[i].count() - int64_t(kShownSamples)).c_str());
    std::printf("\n");
  }
}

// Files that exist already, or the folder of those that do not, before anything takes time.
void check_use(const RunFlags& options, const std::vector<std::string>& outputs) {
  UsedFiles files = with_build_files({{options.model}, {options.data.class_names}, {}}, options.flags);
  for (std::string& path : input_paths(options.inputs)) files.reads.push_back(std::move(path));
  if (std::filesystem::exists(options.output_folder))
    for (const std::string& file : outputs)
      files.writes.push_back({options.output_folder + "/" + file, FileKind::npy, options.force, "--output-dir:"});
  check_files(files);
}

std::vector<StateBinding> states_in(const std::vector<std::string>& texts, const DataModel& model) {
  std::vector<std::string> inputs;
  inputs.reserve(model.inputs().size());
  for (const InputSpec& input : model.inputs()) inputs.push_back(input.name);
  std::vector<StateBinding> states;
  states.reserve(texts.size());
  for (const std::string& text : texts) states.push_back(parse_state(text, inputs, model.outputs()));
  return states;
}

// Whether samples are pieces of a stream, of which a run takes one where the model does not say how many.
bool is_stream(const Dataset& data, const std::vector<InputSpec>& inputs, const std::vector<StateBinding>& states) {
  bool open = !states.empty();
  for (size_t i = 0; open && i < inputs.size(); ++i)
    open = !data.has_samples(i) || !inputs[i].type.shape[0].is_constant();
  return open;
}

bool gives(const std::vector<std::string>& arguments, const std::string& input) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [&](const std::string& argument) { return argument.starts_with(input + "="); });
}

void run(RunFlags options, Context& context) {
  check_use(options, {});
  const std::vector<std::string> devices = take_devices(options.flags.device, {options.flags.cuda_path});
  if (devices.size() > 1 && !options.states.empty())
    fail(ErrorKind::usage, "--state goes from each run to the next, so one device runs all of them, not ",
         devices.size());
  DatasetOptions data_options = options.data.options(memory_limit_of(options.flags.memory_limit));
  data_options.fill_missing = true;
  data_options.seed = options.seed;
  ProgressLine progress(context);
  DataModel model = data_model(options.model, options.flags, context, progress);
  std::vector<std::string> files;
  if (!options.output_folder.empty()) files = output_file_names(model.outputs());
  check_use(options, files);
  const std::vector<StateBinding> states = states_in(options.states, model);
  std::vector<InputSpec> inputs = model.inputs();
  for (InputSpec& input : inputs)
    for (const StateBinding& state : states) input.whole |= input.name == state.input;
  const Dataset data = open_input_files(parse_input_files(options.inputs, inputs), inputs, data_options);
  for (const std::string& name : data.filled())
    log(LogLevel::warning, "input '", name, "' is not given and filled with random numbers (seed ", options.seed, ")");
  std::vector<int64_t> samples = choose_samples(data.size(), data.size(), 0);
  const std::vector<Unreadable> left_out =
      leave_out(data, "--input", samples, options.data.strict, progress.callback());
  const auto count = int64_t(samples.size());
  const BatchSizes batch =
      model.choose_batch(data, options.batch == 0 && is_stream(data, inputs, states) ? 1 : options.batch);
  if (!states.empty() && batch.size && count % batch.size != 0)
    fail(ErrorKind::usage, count, " samples cannot be run in batches of ", batch.size,
         " with a state: a smaller last batch would not go on from it");
  log(LogLevel::info, data.text(), ", in batches of ", batch.size);

  const auto engine = model.engine(data, batch, count);
  const DeviceSettings settings{options.flags.cuda_path};
  const auto make = [&](const std::string& device) {
    ModelFlags flags = options.flags;
    flags.device = device;
    return device == options.flags.device
               ? engine
               : data_model(options.model, flags, context, progress).engine(data, batch, count);
  };
  const Engines engines =
      model.model() && !devices.empty() ? engines_on(devices, settings, make) : engines_on(engine, devices, settings);
  PoolSessions sessions(engines);
  if (!states.empty()) sessions.at(0).keep_state(states);
  const EngineInfo& info = engine->info();
  if (info.placeholder)
    log(LogLevel::warning, "calibrated on noise: what this plan answers is meaningless for accuracy");
  Result result;
  for (const PortInfo& output : engine->outputs()) result.names.push_back(output.name);
  OutputCollector collector(result.names);
  NotFinite broken;
  const auto look = [&](const Batch& filled) {
    for (size_t i = 0; i < filled.inputs.size(); ++i)
      broken.look(concat("the input '", model.inputs()[i].name, "'"), filled.inputs[i], filled.names);
    result.samples.insert(result.samples.end(), filled.names.begin(), filled.names.end());
  };
  if (count == 0) {  // the outputs have shapes all the same
    const Batch none = data.batch(0, 0);
    collector.add(none, sessions.at(0).run(none.inputs));
  } else if (states.empty()) {
    Pool pool = pool_of(engines);
    for_each_batch(pool, data, samples, batch, "running", progress.callback(),
                   [&](size_t device, Batch filled) -> Pool::Finish {
                     auto outputs = run_batch(sessions.at(device), data, filled, batch);
                     return [&, filled = std::move(filled), outputs = std::move(outputs)] {
                       look(filled);
                       collector.add(filled, outputs);
                     };
                   });
    for (size_t d = 0; devices.size() > 1 && d < pool.size(); ++d) {
      result.devices.push_back({devices[d], pool.done()[d], pool.loss(d)});
      log(LogLevel::info, devices[d], " ran ", pool.done()[d], pool.done()[d] == 1 ? " batch" : " batches");
    }
  } else {
    Session& session = sessions.at(0);
    for_each_batch(data, samples, batch, "running", progress.callback(), [&](const Batch& filled) {
      look(filled);
      std::vector<Tensor> values = filled.inputs;
      for (const State& state : session.states())
        if (state.begun || !gives(options.inputs, inputs[state.input].name)) values[state.input] = {};
      collector.add(filled, session.run(values));
    });
  }
  for (const std::string& warning : broken.warnings(count))
    log(LogLevel::warning, warning, "; look at the data and at the preprocessing");
  clear_progress();
  result.outputs = collector.finish();
  result.class_names = data.class_names();
  if (count)
    result.top_output = find_classes(result.outputs, count);  // a state is no class: its value is added behind this
  if (!states.empty())
    for (const State& state : sessions.at(0).states()) result.outputs[state.output] = sessions.at(0).state(state.input);
  const bool asked = options.top > 0 || !result.class_names.empty();
  if (asked && count && result.top_output < 0)
    fail(ErrorKind::usage,
         "no output is that of a classifier ([batch, classes] of floats), so there is no top-k to show");

  if (!files.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.output_folder, error);
    if (error) fail(ErrorKind::machine, "cannot create the folder '", options.output_folder, "': ", error.message());
    for (size_t i = 0; i < files.size(); ++i) {
      result.files.push_back(options.output_folder + "/" + files[i]);
      write_npy(result.files.back(), result.outputs[i], options.force);
    }
  }
  const bool real = data.filled().size() < model.inputs().size();  // the classes of random numbers say nothing
  if (result.top_output >= 0 && options.top != 0 && (asked || real)) {
    const Tensor rows = class_rows(result.outputs[size_t(result.top_output)], result.names[size_t(result.top_output)]);
    const size_t classes = size_t(rows.dims()[1]);
    for (int64_t i = 0; i < count; ++i) {
      auto top = top_k({rows.data<float>() + size_t(i) * classes, classes}, options.top > 0 ? options.top : 5);
      if (!top.empty() && std::isnan(top[0].probability)) top.clear();
      result.top.push_back(std::move(top));
    }
  }
  if (context.json) {
    nlohmann::json json = json_of(result, data, batch.size);
    json["left_out"] = temper::json_of(left_out);
    if (!left_out.empty()) json["sample_names"] = result.samples;  // which rows of the outputs are whose
    json["precision"] = info.precision;
    json["placeholder"] = info.placeholder;
    std::printf("%s\n", strict::dump(json, 2).c_str());
    return;
  }
  if (info.placeholder) std::printf("%s\n", precision_text(info).c_str());
  print(result);
}

}  // namespace

void add_run(Command& verb, Context& context) {
  auto options = std::make_shared<RunFlags>();
  verb.add_option("model", options->model, "an ONNX model, which is built first, or a plan").required();
  add_model_flags(verb, options->flags);
  add_force_flag(verb, options->force);
  add_input_flag(verb, options->inputs);
  add_state_flag(verb, options->states);
  verb.add_option("--output-dir", options->output_folder,
                  "folder to write the outputs to, each in its own file <output>.npy");
  verb.add_option("--batch", options->batch, "number of samples in a batch; the last batch may be smaller")
      .check(whole_number(1));
  verb.add_option("--top", options->top, "number of classes to show for each sample (default 5; 0 shows none)")
      .check(whole_number(0));
  verb.add_option("--seed", options->seed, "seed for the random values of inputs that are not given (default 1)");
  options->data.add_to(verb);
  verb.callback([options, &context] { run(*options, context); });
}

}  // namespace temper::cli
