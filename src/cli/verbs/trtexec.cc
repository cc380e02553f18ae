// SPDX-License-Identifier: Apache-2.0
// temper trtexec: builds and measures as a command line of TensorRT's trtexec asks, and prints what trtexec prints.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "base/file_kind.h"
#include "base/half.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/version.h"
#include "bench/bench_engine.h"
#include "bench/profile.h"
#include "calibrate/dataset.h"
#include "cli/help.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "interop/trtexec_settings.h"
#include "interop/trtexec_write.h"
#include "nvinfer/network.h"
#include "onnx/import.h"
#include "optimize/build_engine.h"
#include "optimize/model_source.h"
#include "optimize/precision.h"
#include "quantize/cache.h"
#include "tune/default_cache.h"

namespace temper::cli {

namespace {

bool is_verbose = false;

// As trtexec does: what is wrong on standard error, the rest on standard output.
void say(char severity, std::string_view text) {
  const bool wrong = severity == 'W' || severity == 'E';
  if (wrong) std::fflush(stdout);  // a log that takes both streams has them in order
  std::fputs(wrong ? printable_lines(trtexec_lines(severity, text)).c_str() : trtexec_lines(severity, text).c_str(),
             wrong ? stderr : stdout);
}
template <class... Parts>
void info(const Parts&... parts) {
  say('I', concat(parts...));
}

void to_trtexec(LogLevel level, std::string_view message) {
  if (level == LogLevel::warning) say('W', concat("[Temper] ", message));
  else if (is_verbose) say('V', concat("[Temper] ", message));
}

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

const char* enabled(bool on) { return on ? "Enabled" : "Disabled"; }

class Trtexec {
 public:
  Trtexec(const Context& context, TrtexecSettings settings) : context_(context), settings_(std::move(settings)) {}

  void run() {
    for (const std::string& text : settings_.notes) say('W', text);
    find_device();
    choose_precision();
    print_options();
    if (settings_.load.empty()) build();
    else load();
    if (!settings_.save.empty()) save();
    if (settings_.dump_layers || !settings_.export_layers.empty() || profiles()) show_layers();
    if (settings_.skips_inference) {
      if (settings_.load.empty()) info("Skipped inference phase since --skipInference is added.");
      return;
    }
    infer();
  }

 private:
  const Context& context_;
  TrtexecSettings settings_;
  BuildOptions options_;
  std::shared_ptr<const Engine> engine_;
  std::vector<Dims> shapes_;
  std::vector<Tensor> inputs_;

  bool profiles() const { return settings_.dump_profile || !settings_.export_profile.empty(); }
  bool on_gpu() const { return options_.device.starts_with("cuda"); }

  void find_device() {
    options_.device = settings_.device;
    if (!options_.device.empty()) {
      open_device(options_.device);
      return;
    }
    options_.device = "cuda:0";
    try {
      open_device(options_.device);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      say('W', concat("no GPU can be used, so everything runs on the CPU (", std::string_view(error.what()),
                      "); --temperDevice=cpu asks for that"));
      options_.device = "cpu";
    }
  }

  // TensorRT takes precisions as permissions; a plan has one, the lowest that is allowed and computed here.
  void choose_precision() {
    const auto computed = [&](const char* precision, const char* word) {
      const std::string why = lacks_precision(options_.device, precision);
      if (!why.empty()) say('W', concat(word, ": layers stay in FP32: ", why));
      return why.empty();
    };
    const bool fp16 = settings_.fp16 && computed("fp16", "FP16"), bf16 = settings_.bf16 && computed("bf16", "BF16");
    if (settings_.best) {
      options_.precision = kBestPrecision;
    } else if (settings_.int8) {
      options_.precision = fp16 ? "int8+fp16" : bf16 ? "int8+bf16" : "int8";
    } else if (fp16) {
      options_.precision = "fp16";
    } else if (bf16) {
      options_.precision = "bf16";
    } else if (settings_.tf32 && on_gpu()) {
      options_.precision = "tf32";  // which TensorRT takes for FP32 unless told otherwise
    }
    for (const auto& [layer, type] : settings_.layer_precisions) {
      const PrecisionParts parts = parts_of(type).value();
      options_.layer_types.of[layer] =
          dtype_in(options_.precision, parts.bytes.value_or(parts.half.value_or(DType::f32)));
    }
    options_.layer_types.obeyed = settings_.obeys_layer_precisions;
  }

  void print_options() {
    const TrtexecSettings& s = settings_;
    const auto or_none = [](const std::string& text) { return text.empty() ? std::string() : text; };
    info("=== Model Options ===");
    info("Format: ", s.model.empty() ? "*" : "ONNX");
    info("Model: ", or_none(s.model));
    info("Output:");
    info("=== Build Options ===");
    info("Memory Pools: workspace: ", s.workspace < 0 ? "default" : concat(double(s.workspace) / (1 << 20), " MiB"));
    if (s.load.empty() && !s.best) info("Precision: ", upper(options_.precision));
    info("Calibration: ", s.calibration_cache);
    info("Save engine: ", or_none(s.save));
    info("Load engine: ", or_none(s.load));
    const auto print_formats = [](const char* ports, const std::vector<std::string>& types) {
      if (types.empty()) info(ports, "s format: fp32:CHW");
      for (const std::string& type : types) info(ports, ": ", type, ":chw");
    };
    print_formats("Input(s)", s.input_types);
    print_formats("Output(s)", s.output_types);
    info("Profiling verbosity: ", s.detailed ? 2 : 0);
    info("timingCacheMode: ", !s.uses_timing_cache ? "disable" : s.timing_cache.empty() ? "local" : "global");
    info("timingCacheFile: ", s.timing_cache);
    for (size_t p = 0; p < s.profiles.size(); ++p)
      for (const auto& [name, dims] : s.profiles[p].opt)
        info("Input build shape (profile ", p, "): ", name, "=", trtexec_dims(s.profiles[p].min.at(name)), "+",
             trtexec_dims(dims), "+", trtexec_dims(s.profiles[p].max.at(name)));
    info("=== Inference Options ===");
    info("Batch: Explicit");
    for (const auto& [name, dims] : s.shapes) info("Input inference shape: ", name, "=", trtexec_dims(dims));
    info("Iterations: ", s.iterations);
    info("Duration: ", trtexec_number(s.seconds), "s (+ ", trtexec_number(s.warm_up_ms), "ms warm up)");
    info("Sleep time: ", trtexec_number(s.sleep_ms), "ms");
    info("Idle time: ", trtexec_number(s.idle_ms), "ms");
    info("Inference Streams: ", s.streams);
    info("ExposeDMA: Disabled");
    info("Data transfers: ", enabled(on_gpu() && (s.transfers || s.streams > 1)));
    info("Spin-wait: ", enabled(s.spin_wait));
    info("Multithreading: ", enabled(s.streams > 1));
    info("CUDA Graph: ", enabled(on_gpu() && uses_graph()));
    info("Separate profiling: Enabled");
    info("Skip inference: ", enabled(s.skips_inference));
    info("=== Reporting Options ===");
    info("Verbose: ", enabled(s.verbose));
    info("Averages: ", s.average_runs, " inferences");
    std::string percentiles;
    for (double p : s.percentiles) percentiles += concat(percentiles.empty() ? "" : ",", trtexec_number(p));
    info("Percentiles: ", percentiles);
    info("Profile: ", enabled(s.dump_profile));
    info("Export timing to JSON file: ", s.export_times);
    info("Export output to JSON file: ", s.export_output);
    info("Export profile to JSON file: ", s.export_profile);
    info("=== Device Information ===");
    info("Selected Device: ", on_gpu() ? open_device(options_.device).fingerprint : read_environment(0).cpu_model);
    info("Device: ", on_gpu() ? options_.device.substr(5) : options_.device);
    info("Temper version: ", version());
    info("");
  }

  // With copies a session's own run is measured, which is always one graph.
  bool uses_graph() const { return settings_.cuda_graph || settings_.transfers || settings_.streams > 1; }

  // The shapes to build for, by the model's inputs; what a model leaves open and nobody gave is 1, as in trtexec.
  void set_shapes(const Graph& graph) {
    std::map<std::string, const TensorType*> inputs;
    for (ValueId id : graph.inputs()) inputs[graph.value(id).name] = &graph.type(id);
    const auto is_open = [](const TensorType& type) {
      return std::any_of(type.shape.begin(), type.shape.end(), [](const Dim& dim) { return !dim.is_constant(); });
    };
    bool open = false;
    for (const auto& [name, type] : inputs) open |= is_open(*type);
    if (!open && !settings_.profiles.empty()) {
      ignore_shapes();
      return;
    }
    for (const TrtexecProfile& profile : settings_.profiles)
      for (const auto& [name, dims] : profile.opt)
        if (!inputs.contains(name))
          fail(ErrorKind::usage, "Cannot find input tensor with name \"", name,
               "\" in the network inputs! Please make sure the input tensor names are correct.");
    std::map<std::string, ShapeRange> ones;
    for (const auto& [name, type] : inputs) {
      if (!is_open(*type)) continue;
      if (!settings_.profiles.empty() && settings_.profiles[0].opt.contains(name)) continue;
      Dims dims;
      for (const Dim& dim : type->shape) dims.push_back(dim.is_constant() ? dim.value() : 1);
      say('W', concat("Dynamic dimensions required for input: ", name,
                      ", but no shapes were provided. Automatically overriding shape to: ", trtexec_dims(dims)));
      ones[name] = {dims, dims, dims};
    }
    std::vector<std::map<std::string, ShapeRange>> all;
    for (const TrtexecProfile& profile : settings_.profiles) {
      auto& ranges = all.emplace_back(ones);
      for (const auto& [name, opt] : profile.opt)
        if (is_open(*inputs.at(name))) ranges[name] = {profile.min.at(name), opt, profile.max.at(name)};
    }
    if (all.size() > 1) options_.profiles = std::move(all);
    else options_.shapes = all.empty() ? std::move(ones) : std::move(all[0]);
  }

  void ignore_shapes() {
    say('W',
        "Static model does not take explicit shapes since the shape of inference tensors will be determined by the "
        "model itself");
    settings_.profiles.clear();
    settings_.shapes.clear();
  }

  // The model, with the types of inputs and outputs that were asked for.
  ModelSource source_of_model() const {
    if (settings_.input_types.empty() && settings_.output_types.empty()) return {settings_.model, "", std::nullopt};
    nvinfer::Network network;
    std::vector<std::string> errors;
    if (!network.parse("", settings_.model, errors)) fail(ErrorKind::unsupported, settings_.model, ": ", errors[0]);
    set_types(network, network.input_tensors(), settings_.input_types, "--inputIOFormats");
    set_types(network, network.output_tensors(), settings_.output_types, "--outputIOFormats");
    return network.source();
  }

  static void set_types(nvinfer::Network& network, const std::vector<int>& tensors,
                        const std::vector<std::string>& types, std::string_view flag) {
    if (types.size() > 1 && types.size() != tensors.size())
      fail(ErrorKind::usage, flag, ": there are ", types.size(), " formats for ", tensors.size(),
           " tensors; one for all of them or one for each is expected");
    const std::map<std::string, DType> known = {{"fp32", DType::f32},  {"fp16", DType::f16},    {"bf16", DType::bf16},
                                                {"int32", DType::i32}, {"int64", DType::i64},   {"int8", DType::i8},
                                                {"uint8", DType::u8},  {"bool", DType::boolean}};
    const auto is_float = [](DType of) { return of == DType::f32 || is_half(of); };
    for (size_t i = 0; i < tensors.size() && !types.empty(); ++i) {
      const nvinfer::NetworkTensor tensor = network.tensor(tensors[i]);
      const std::string& word = types[types.size() > 1 ? i : 0];
      const auto type = known.find(word);
      const bool is_same = type != known.end() && type->second == tensor.dtype;
      if (is_same) continue;
      const bool is_exact = type != known.end() && ((is_float(tensor.dtype) && is_float(type->second)) ||
                                                    (tensor.dtype == DType::i64 && type->second == DType::i32));
      if (!is_exact)
        fail(ErrorKind::unsupported, flag, ": '", tensor.name, "' is ", tensor.dtype, " in the model; ", word,
             " in its place is not in Temper");
      network.set_type(tensors[i], type->second);
    }
  }

  void build() {
    info("Start parsing network model.");
    const Stopwatch parsing;
    const ModelSource source = source_of_model();
    const ImportedModel model = source.import();
    info("Finished parsing network model. Parse time: ", trtexec_number(parsing.seconds()));
    set_shapes(model.graph);
    options_.workspace = settings_.workspace;
    if (settings_.uses_timing_cache)
      options_.timing_cache = settings_.timing_cache.empty() ? default_timing_cache() : settings_.timing_cache;
    options_.command = context_.command;
    if (on_gpu()) options_.timing_helper = {"/proc/self/exe", kServeTimings};
    const Stopwatch building;
    if (settings_.best ? has_cache() : settings_.int8)
      options_.ranges = std::make_shared<const Ranges>(ranges_for(model));
    engine_ = build_engine(source, options_);
    for (const std::string& text : engine_->info().notes) say('W', concat("[Temper] ", text));
    if (settings_.best) info("Precision: ", upper(engine_->info().precision));
    info("Engine built in ", trtexec_number(building.seconds()), " sec.");
    info("Created engine with size: ", trtexec_number(double(plan_bytes_of(*engine_).size()) / (1 << 20)), " MiB");
  }

  // As with trtexec a cache that is not there is none.
  bool has_cache() const {
    return !settings_.calibration_cache.empty() && kind_of_file(settings_.calibration_cache) != FileKind::nothing;
  }

  Ranges ranges_for(const ImportedModel& model) {
    if (has_cache()) {
      std::vector<std::string> notes;
      Ranges ranges = ranges_of(load_cache(settings_.calibration_cache, &notes), model.sha256);
      log_notes(notes);
      return ranges;
    }
    if (!settings_.calibration_cache.empty())
      say('W', concat("--calib: there is no file '", settings_.calibration_cache, "'"));
    say('W',
        "Calibrator is not being used. The ranges of INT8 are those of noise: what the engine answers means nothing, "
        "its speed does; --calib=FILE has real ones");
    BuildOptions plain = options_;
    plain.precision = "fp32";
    plain.device = "cpu";
    if (!plain.profiles.empty()) plain.shapes = std::exchange(plain.profiles, {})[0];
    return calibrate_on_noise(model, 8, kUnjudged.text(), 0, plain);
  }

  void load() {
    const Stopwatch loading;
    if (!is_plan(settings_.load))
      fail(ErrorKind::bad_file, "'", settings_.load,
           "' is no plan of Temper; an engine of TensorRT runs in TensorRT alone: build it again from its ONNX model, "
           "--onnx=MODEL --saveEngine=FILE");
    engine_ = Engine::load(settings_.load);
    if (!settings_.device.empty() && settings_.device != engine_->info().device)
      fail(ErrorKind::usage, "the engine '", settings_.load, "' is for ", engine_->info().device, ", not for ",
           settings_.device, "; build it again");
    options_.device = engine_->info().device;
    info("Precision: ", upper(engine_->info().precision));
    info("Engine deserialized in ", trtexec_number(loading.seconds()), " sec.");
  }

  void save() const {
    save_engine(*engine_, settings_.save);
    info("Engine saved to ", settings_.save);
  }

  // What is run: --shapes, or the optimum of the profile.
  void choose_shapes() {
    const EngineInfo& info = engine_->info();
    if (settings_.profile > 0 && settings_.profile >= std::max<size_t>(info.profiles.size(), 1))
      fail(ErrorKind::usage, "--useProfile=", settings_.profile, ": the engine has ",
           std::max<size_t>(info.profiles.size(), 1), " profiles");
    const auto& ranges = info.profiles.empty() ? info.shapes : info.profiles[settings_.profile];
    bool open = false;
    for (const PortInfo& port : engine_->inputs())
      for (const Dim& dim : port.type.shape) open |= !dim.is_constant();
    if (!open && !settings_.load.empty() && !settings_.shapes.empty()) ignore_shapes();
    for (const auto& [name, dims] : settings_.shapes)
      if (!ranges.contains(name))
        fail(ErrorKind::usage, "Cannot find input tensor with name \"", name,
             "\" in the engine bindings! Please make sure the input tensor names are correct.");
    shapes_.clear();
    for (const PortInfo& port : engine_->inputs()) {
      const auto given = settings_.shapes.find(port.name);
      shapes_.push_back(given == settings_.shapes.end() ? ranges.at(port.name).opt : given->second);
    }
    engine_->check_shapes(shapes_);
  }

  void read_inputs() {
    inputs_ = random_inputs(*engine_, shapes_);
    for (const auto& given : settings_.inputs) {
      const auto& [name, path] = given;
      const auto& ports = engine_->inputs();
      const auto port =
          std::find_if(ports.begin(), ports.end(), [&](const PortInfo& p) { return p.name == given.first; });
      if (port == ports.end()) fail(ErrorKind::usage, "--loadInputs: there is no input with the name \"", name, "\"");
      Tensor& input = inputs_[size_t(port - ports.begin())];
      const std::string bytes = read_file(path);
      if (int64_t(bytes.size()) != input.bytes())
        fail(ErrorKind::bad_file, "'", path, "' has ", bytes.size(), " bytes; the input '", name, "' ", input.type(),
             " has ", input.bytes());
      std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(input.raw_mutable()));
      info("Using values loaded from ", path, " for input ", name);
    }
    for (size_t i = 0; i < shapes_.size(); ++i) {
      if (!settings_.inputs.contains(engine_->inputs()[i].name))
        info("Using random values for input ", engine_->inputs()[i].name);
      info("Input binding for ", engine_->inputs()[i].name, " with dimensions ", trtexec_dims(shapes_[i]),
           " is created.");
    }
  }

  BenchRun measured(bool transfers, std::vector<double>* device_ms) const {
    TimerOptions timer;
    timer.warmup_seconds = settings_.warm_up_ms / 1e3;
    timer.max_seconds = settings_.seconds;
    timer.min_seconds = 2 * settings_.seconds + 1;  // it ends by the time and the count alone
    timer.min_samples = std::max(int(settings_.iterations), 1);
    timer.max_samples = 1 << 30;
    timer.single_calls = true;
    timer.idle_ms = settings_.idle_ms;
    const LoadPattern load{int(settings_.streams), 0, transfers, settings_.cuda_graph, device_ms};
    GivenInputs given;
    for (size_t i = 0; i < inputs_.size(); ++i) given.emplace(engine_->inputs()[i].name, inputs_[i]);
    return bench_engine(engine_, shapes_, timer, load, given);
  }

  void infer() {
    choose_shapes();
    info("Starting inference");
    read_inputs();
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(settings_.sleep_ms));
    const bool copies = on_gpu() && (settings_.transfers || settings_.streams > 1);
    // The GPU's own time in each query, by its own clock: with several queries at a time they share it.
    std::vector<double> inside;
    const BenchRun run = measured(copies, copies && settings_.streams == 1 ? &inside : nullptr);
    const std::vector<double>& ms = *run.samples_ms;
    const double qps = *run.throughput_per_s / double(run.batch.value_or(1)), wall_s = double(ms.size()) / qps;
    const std::vector<double>* gpu = !inside.empty() ? &inside : on_gpu() && !copies ? &ms : nullptr;
    info("Warmup completed ", *run.warmup_runs, " queries over ", trtexec_number(settings_.warm_up_ms), " ms");
    info("Timing trace has ", ms.size(), " queries over ", trtexec_number(wall_s), " s");
    info("");
    info("=== Trace details ===");
    info("Trace averages of ", settings_.average_runs, " runs:");
    for (const std::string& line : trtexec_trace(ms, settings_.average_runs, "Host latency")) info(line);
    info("");
    info("=== Performance summary ===");
    info("Throughput: ", trtexec_number(qps), " qps");
    info(trtexec_stats_line("Latency", trtexec_stats(ms, settings_.percentiles)));
    if (gpu) info(trtexec_stats_line("GPU Compute Time", trtexec_stats(*gpu, settings_.percentiles)));
    info("Total Host Walltime: ", trtexec_number(wall_s), " s");
    info("");
    if (!settings_.export_times.empty()) write_json(settings_.export_times, trtexec_times_json(ms, gpu));
    if (profiles()) show_profile();
    if (settings_.dump_output || !settings_.export_output.empty()) show_outputs();
  }

  Profile profile_of(double seconds) const { return profile_engine(engine_, shapes_, Peaks{}, seconds); }

  void show_layers() {
    if (!settings_.dump_layers && settings_.export_layers.empty()) return;
    choose_shapes();
    const EngineLayers layers = layers_of(profile_of(0), engine_->info(), Peaks{}, settings_.model);
    std::vector<std::string> bindings;
    for (const auto* ports : {&engine_->inputs(), &engine_->outputs()})
      for (const PortInfo& port : *ports) bindings.push_back(port.name);
    const std::string text = trtexec_layers_json(layers, settings_.detailed, bindings);
    if (settings_.dump_layers) info("Layer Information:\n", text);
    if (!settings_.export_layers.empty()) write_json(settings_.export_layers, text);
  }

  void show_profile() {
    const EngineLayers layers = layers_of(profile_of(settings_.seconds), engine_->info(), Peaks{}, settings_.model);
    if (settings_.dump_profile) info(trtexec_profile_table(layers));
    if (!settings_.export_profile.empty()) write_json(settings_.export_profile, trtexec_profile_json(layers));
  }

  void show_outputs() {
    const std::vector<Tensor> results = Session(engine_).run(inputs_);
    std::vector<TrtexecOutput> outputs;
    for (size_t i = 0; i < results.size(); ++i)
      outputs.push_back({engine_->outputs()[i].name, results[i].dims(), results[i].to_doubles()});
    if (settings_.dump_output) {
      info("Output Tensors:");
      for (const TrtexecOutput& output : outputs) info(trtexec_output_text(output));
    }
    if (!settings_.export_output.empty()) write_json(settings_.export_output, trtexec_outputs_json(outputs));
  }

  // As trtexec does, over the JSON that was there; but over nothing else.
  static void write_json(const std::string& path, const std::string& text) {
    const FileKind kind = kind_of_file(path);
    const std::string first = kind == FileKind::other ? read_file(path).substr(0, 1) : "";
    if (kind != FileKind::nothing && first != "[" && first != "{")
      fail(ErrorKind::usage, "'", path, "' is ", words_of(kind), ", and is not replaced; name another file");
    // An empty file is filled, not replaced: programs make one, keep it open, and read there what trtexec wrote.
    std::error_code missing;
    if (std::filesystem::is_regular_file(path, missing) && !std::filesystem::file_size(path, missing)) {
      std::ofstream file(path, std::ios::binary | std::ios::in | std::ios::out);
      if (!(file << text << std::flush)) fail(ErrorKind::machine, "'", path, "' cannot be written");
      return;
    }
    write_file_atomically({path, FileKind::other, true}, text);
  }
};

void print_help() {
  print_text("do what a command line of TensorRT's trtexec asks for, in its words");
  print_text("temper trtexec --onnx=MODEL|--loadEngine=PLAN [FLAGS]", 0, "Usage: ");
  std::printf("\nExample:\n");
  print_text("temper trtexec --onnx=resnet50.onnx --shapes=image:1x3x224x224 --saveEngine=resnet50.plan", 2);
  for (const auto& [use, title] : {std::pair{TrtexecUse::executed, "Executed"},
                                   {TrtexecUse::accepted, "Accepted without effect"},
                                   {TrtexecUse::refused, "Refused"}}) {
    std::printf("\n%s:\n", title);
    for (const TrtexecFlagUse& flag : trtexec_flag_uses())
      if (flag.use == use)
        std::fputs(help_entry(std::string(flag.name), std::string(flag.how), terminal_width()).c_str(), stdout);
  }
  std::printf("\n");
  print_text("Exit codes: 0 done; 1 anything else, as of trtexec");
}

void trtexec(Context& context) {
  const std::vector<std::string> words(context.arguments.begin() + 1, context.arguments.end());
  const TrtexecCommand command = trtexec_command_of(words);
  // Without arguments trtexec prints its help; Temper's own flags come from `temper as-tensorrt`.
  const auto is_own = [](const std::string& word) { return word.starts_with("--temper"); };
  const bool asks = !std::all_of(words.begin(), words.end(), is_own);
  if (!asks || command.has("--help")) return print_help();
  std::string text = "trtexec";
  for (const std::string& word : words) text += concat(" ", shell_quoted(word));
  is_verbose = command.has("--verbose");
  set_log_callback(to_trtexec);
  const auto banner = [&](const char* word) { std::printf("%s\n", trtexec_banner(word, text).c_str()); };
  banner("RUNNING");
  try {
    Trtexec(context, trtexec_settings(command)).run();
    banner("PASSED");
  } catch (const std::exception& error) {
    say('E', std::string_view(error.what()));
    banner("FAILED");
    context.exit_code = 1;
  }
}

}  // namespace

void add_trtexec(Command& verb, Context& context) {
  verb.callback([&context] { trtexec(context); });
}

}  // namespace temper::cli
