// SPDX-License-Identifier: Apache-2.0
#include "cli/model.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <tuple>

#include "backends/cpu/isa.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/quote.h"
#include "cli/terminal.h"
#include "data/batches.h"
#include "data/carried.h"
#include "measure/clock.h"
#include "measure/environment.h"
#include "onnx/import.h"
#include "optimize/model_source.h"
#include "optimize/precision.h"
#include "tune/default_cache.h"

namespace temper::cli {

namespace {

Dims parse_dims(const std::string& text) {
  Dims dims;
  for (size_t at = 0; at <= text.size();) {
    size_t end = text.find('x', at);
    if (end == text.npos) end = text.size();
    const int64_t value = parse_number<int64_t>(std::string_view(text).substr(at, end - at)).value_or(-1);
    if (value < 0) fail(ErrorKind::usage, "'", text, "' is not a shape; write 1x3x224x224");
    dims.push_back(value);
    at = end + 1;
  }
  return dims;
}

ShapeRange parse_range(const std::string& text) {
  std::vector<Dims> parts;
  for (size_t at = 0; at <= text.size();) {
    size_t end = text.find(':', at);
    if (end == text.npos) end = text.size();
    parts.push_back(parse_dims(text.substr(at, end - at)));
    at = end + 1;
  }
  if (parts.size() == 1) return {parts[0], parts[0], parts[0]};
  if (parts.size() == 3) return {parts[0], parts[1], parts[2]};
  fail(ErrorKind::usage, "'", text, "' is neither SHAPE nor MIN:OPT:MAX");
}

int64_t parse_size(const std::string& text) {
  const auto size = parse_leading<int64_t>(text);
  const std::string_view unit = size ? size->rest : "";
  const int64_t factor = unit.empty() || unit == "B"    ? 1
                         : unit == "K" || unit == "KiB" ? 1 << 10
                         : unit == "M" || unit == "MiB" ? 1 << 20
                         : unit == "G" || unit == "GiB" ? 1 << 30
                                                        : 0;
  if (!size || size->value < 0 || factor == 0) fail(ErrorKind::usage, "'", text, "' is not a size; write 64MiB");
  return checked_mul(size->value, factor);
}

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

// Groups of --help.
constexpr const char *kDevice = "Device", *kBuilding = "Building";

}  // namespace

void add_cuda_path(Command& verb, std::vector<std::string>& folders) {
  verb.in(kDevice)
      .add_option("--cuda-path", folders,
                  "folder to search first for NVIDIA's libraries: a CUDA folder, or a site-packages folder with "
                  "NVIDIA's wheels")
      .type_name("DIR");
}

void add_isa_flag(Command& verb) {
  const auto text = std::make_shared<std::string>();  // lives as long as the option
  verb.in(kDevice)
      .add_option("--isa", *text,
                  concat("highest level of instructions that kernels may use of the CPU, one of ", isa_names(),
                         "; a plan runs under the limit that it was built with; TEMPER_ISA in the environment does the "
                         "same"))
      .each([text](const std::string& isa) { limit_isa(isa); });
}

void add_device_flags(Command& verb, ModelFlags& flags) {
  flags.verb = verb;
  verb.in(kDevice)
      .add_option("--device", flags.device,
                  "device to run on: cpu, cuda:N (the N-th NVIDIA GPU), or reference (slow scalar code that defines "
                  "the right result); run, bench, evaluate and study take several, like cuda:0,1, cuda:* or cpu,cpu")
      .capture_default_str();
  add_cuda_path(verb, flags.cuda_path);
  verb.in(kDevice)
      .add_option("--threads", flags.threads, "number of CPU threads; 0 uses all that this process may use")
      .check(whole_number(0, 4096));
  add_isa_flag(verb);
  add_size_flags(verb, flags);
  verb.in(kBuilding)
      .add_option("--loop-limit", flags.limits.iterations,
                  "iterations that a loop may make each time that it runs; the plan keeps it")
      .check(whole_number(1, int64_t(1) << 62))
      .capture_default_str();
  verb.in(kBuilding)
      .add_option("--build-limit", flags.build_limit,
                  "seconds that the whole build may take, which ends in an error then; by default as long as it takes")
      .type_name("SECONDS")
      .check(whole_number(1, 86400));
  verb.in(kBuilding).add_option("--disable", flags.disabled_passes,
                                "passes to skip, separated by commas; 'all' skips every pass");
}

void add_size_flags(Command& verb, ModelFlags& flags) {
  add_memory_flag(verb, flags.memory_limit);
  verb.in(kBuilding)
      .add_option("--node-limit", flags.limits.nodes,
                  "nodes that a model may have, with its functions in the place of their calls")
      .check(whole_number(1, 1 << 30))
      .capture_default_str();
  verb.in(kBuilding)
      .add_option("--depth-limit", flags.limits.depth,
                  "number of levels to which a model's functions and subgraphs may be nested")
      .check(whole_number(1, kMostDepth))
      .capture_default_str();
}

void add_memory_flag(Command& verb, std::string& limit) {
  verb.in(kDevice)
      .add_option(
          "--memory-limit", limit,
          "memory that a model or its data may use, e.g. 8GiB; by default a multiple of the size of their files")
      .type_name("SIZE");
}

int64_t memory_limit_of(const std::string& limit) { return limit.empty() ? -1 : parse_size(limit); }

ModelLimits limits_of(const ModelFlags& flags) {
  ModelLimits limits = flags.limits;
  limits.memory = memory_limit_of(flags.memory_limit);
  if (flags.build_limit) limits.time = BuildTime(double(flags.build_limit));
  return limits;
}

void add_shape_flag(Command& verb, ModelFlags& flags) {
  verb.in(kBuilding)
      .add_option(
          "--buckets", flags.buckets,
          "batch sizes to tune for, e.g. 1,8,32, where the first axis is open or has a range in --shapes; by default "
          "1, 2, 4, 8, ... of the range")
      .delimiter(',');
  verb.in(kBuilding)
      .add_option("--shapes", flags.shapes,
                  "shape or range of shapes of an input: NAME=SHAPE or NAME=MIN:OPT:MAX, e.g. "
                  "x=1x3x224x224:8x3x224x224:32x3x224x224")
      .delimiter(',');
}

void add_cache_flag(Command& verb, ModelFlags& flags) {
  verb.add_option(
          "--cache", flags.cache,
          "positions of keys and values that a model which generates keeps for the next token, e.g. 1024; it has "
          "inputs past_key_values and outputs present")
      .check(whole_number(1, 1 << 24));
}

void add_activation_scales(Command& verb, ModelFlags& flags) {
  verb.in(kBuilding)
      .add_option("--activation-scales", flags.activation_scales,
                  "int8: scales of what matrix products with constant weights read: tensor (one for all of it, by its "
                  "range) or token (one for each row, computed as it comes; these products need no --calibration)")
      .check(one_of({"tensor", "token"}))
      .capture_default_str();
}

void add_keep_flags(Command& verb, ModelFlags& flags) {
  verb.in(kBuilding).add_flag("--keep-first", flags.keep_first,
                              "int8, fp8: keep the first layers (those with no other layer before them) out of 8 bits");
  verb.in(kBuilding).add_flag("--keep-last", flags.keep_last,
                              "int8, fp8: keep the last layers (those with no other layer after them) out of 8 bits");
  verb.in(kBuilding).add_option(
      "--keep-fp32", flags.keep_fp32,
      "int8, fp8, fp16, bf16, tf32: names of the layers to keep in fp32, separated by commas");
  verb.in(kBuilding).add_option(
      "--keep-bf16", flags.keep_bf16,
      "int8, fp8, alone or with bf16: names of the layers to keep in bf16, separated by commas");
  verb.in(kBuilding).add_option("--keep-fp16", flags.keep_fp16,
                                "int8+fp16, fp8+fp16: names of the layers to keep in fp16, separated by commas");
}

static PlacementOptions placement_in(const ModelFlags& flags) {
  PlacementOptions placement;
  placement.activation_scales = parse_activation_scales(flags.activation_scales);
  placement.keep_first = flags.keep_first;
  placement.keep_last = flags.keep_last;
  for (std::string& name : words(flags.keep_fp32)) placement.keep_nodes[std::move(name)] = DType::f32;
  for (std::string& name : words(flags.keep_bf16)) placement.keep_nodes[std::move(name)] = DType::bf16;
  for (std::string& name : words(flags.keep_fp16)) placement.keep_nodes[std::move(name)] = DType::f16;
  return placement;
}

void set_placement(ModelFlags& flags, const PlacementOptions& placement) {
  flags.activation_scales = enum_names(ActivationScales{})[size_t(placement.activation_scales)];
  flags.keep_first = placement.keep_first;
  flags.keep_last = placement.keep_last;
  for (std::string* names : {&flags.keep_fp32, &flags.keep_bf16, &flags.keep_fp16}) names->clear();
  keep_also(flags, placement.keep_nodes);
}

void drop_int8_flags(ModelFlags& flags) {
  set_placement(flags, taken_by(flags.precision, placement_in(flags)));
  if (!needs_ranges(flags.precision)) flags.calibration.clear();
}

bool keeps(const ModelFlags& flags) {
  return flags.keep_first || flags.keep_last || !flags.keep_fp32.empty() || !flags.keep_bf16.empty() ||
         !flags.keep_fp16.empty();
}

void add_qdq_flag(Command& verb, ModelFlags& flags) {
  verb.in(kBuilding).add_option("--qdq", flags.qdq,
                                "int8, fp8: also write the quantized model as Q/DQ ONNX to this file");
}

void add_tuning_flags(Command& verb, ModelFlags& flags) {
  verb.in(kBuilding).add_option("--timing-cache", flags.timing_cache,
                                "file that keeps measured times; by default one in the cache folder");
  verb.in(kBuilding)
      .add_flag("--no-timing-cache", flags.no_timing_cache, "measure everything again and save no times")
      .excludes("--timing-cache");
  verb.in(kBuilding).add_option("--workspace", flags.workspace, "scratch memory that a tactic may use, e.g. 64MiB");
  verb.in(kBuilding)
      .add_option("--time-limit", flags.time_limit,
                  "seconds that the search for one shape's plan may take; what is not measured by then is left out, "
                  "and the plan says so")
      .check(whole_number(1, 86400))
      .capture_default_str();
  verb.in(kBuilding).add_flag("--quick", flags.quick,
                              "shorten the build: do not try running parts of the graph on slices of the batch");
  verb.in(kBuilding)
      .add_flag("--no-measure", flags.no_measure,
                "build at once: each step takes the first kernel that can compute it, and none is timed; the answers "
                "are right, the plan may be several times slower")
      .excludes("--timing-cache");
}

void add_model_flags(Command& verb, ModelFlags& flags) {
  add_device_flags(verb, flags);
  verb.in(kBuilding)
      .add_option("--precision", flags.precision,
                  "precision of the plan: fp32, bf16, int8 (with --calibration), int8+bf16 (layers in int8 or 16 bits, "
                  "whichever is faster, and the rest in 16 bits); on a GPU also fp16, tf32, int8+fp16 and, of compute "
                  "capability 8.9 and later, fp8, fp8+bf16 and fp8+fp16 (matrix products in FP8, e4m3); best: the "
                  "fastest of them (those with int8 and fp8 need --calibration), as "
                  "measured; nobody looks at the answers, unless build has --max-drop")
      .capture_default_str();
  verb.in(kBuilding).add_option(
      "--calibration", flags.calibration,
      "int8, fp8, fp16: the file of ranges that `temper calibrate` wrote for this model; with fp16, values "
      "whose range exceeds that of fp16 stay in fp32");
  add_activation_scales(verb, flags);
  add_keep_flags(verb, flags);
  add_shape_flag(verb, flags);
  add_tuning_flags(verb, flags);
}

double share_of(std::string_view flag, const std::string& text) {
  const auto percent = parse_leading<double>(text);
  if (!percent || percent->rest != "%" || !(percent->value >= 0 && percent->value <= 100))
    fail(ErrorKind::usage, flag, " needs a share in percent from 0% to 100%, like 0.5%, not '", text, "'");
  return percent->value / 100;
}

double seconds_of(const std::string& text) {
  const auto time = parse_leading<double>(text);
  const std::string_view unit = time ? time->rest : "";
  const double scale = unit.empty() || unit == "s" ? 1 : unit == "ms" ? 1e-3 : unit == "m" ? 60 : 0;
  const double seconds = time ? time->value * scale : 0;
  if (!(seconds > 0) || seconds > 86400)
    fail(ErrorKind::usage, "--duration '", text, "' is not a time above zero and up to a day, like 3s, 500ms or 2m");
  return seconds;
}

std::string precision_text(const EngineInfo& info) {
  return concat(info.precision, info.placeholder ? " (calibrated on noise: meaningless for accuracy)" : "");
}

std::string build_command(const ModelFlags& flags, const std::string& path) {
  std::string command = concat("temper build ", shell_quoted(path), " -o PLAN");
  if (flags.device != "cpu") command += concat(" --device ", flags.device);
  for (const std::string& folder : flags.cuda_path) command += concat(" --cuda-path ", shell_quoted(folder));
  if (isa_limit() != kNoLimit) command += concat(" --isa ", enum_names(IsaLevel{})[size_t(isa_limit())]);
  if (flags.precision != "fp32") command += concat(" --precision ", flags.precision);
  if (!flags.calibration.empty()) command += concat(" --calibration ", shell_quoted(flags.calibration));
  if (flags.activation_scales != ModelFlags().activation_scales)
    command += concat(" --activation-scales ", flags.activation_scales);
  if (flags.keep_first) command += " --keep-first";
  if (flags.keep_last) command += " --keep-last";
  if (!flags.keep_fp32.empty()) command += concat(" --keep-fp32 ", shell_quoted(flags.keep_fp32));
  if (!flags.keep_bf16.empty()) command += concat(" --keep-bf16 ", shell_quoted(flags.keep_bf16));
  if (!flags.keep_fp16.empty()) command += concat(" --keep-fp16 ", shell_quoted(flags.keep_fp16));
  if (!flags.memory_limit.empty()) command += concat(" --memory-limit ", shell_quoted(flags.memory_limit));
  const ModelLimits usual;
  for (const auto& [flag, limit, default_limit] : {std::tuple{"--node-limit", flags.limits.nodes, usual.nodes},
                                                   {"--depth-limit", flags.limits.depth, usual.depth},
                                                   {"--loop-limit", flags.limits.iterations, usual.iterations}})
    if (limit != default_limit) command += concat(' ', flag, ' ', limit);
  if (flags.build_limit) command += concat(" --build-limit ", flags.build_limit);
  if (flags.threads) command += concat(" --threads ", flags.threads);
  if (flags.no_measure) command += " --no-measure";
  if (flags.cache) command += concat(" --cache ", flags.cache);
  if (flags.input_pictures) command += " --input-pictures";
  for (const std::string& text : flags.shapes) command += concat(" --shapes ", shell_quoted(text));
  for (size_t i = 0; i < flags.buckets.size(); ++i) command += concat(i ? "," : " --buckets ", flags.buckets[i]);
  return command;
}

void keep_also(ModelFlags& flags, const KeptNodes& keep) {
  for (const auto& [layer, dtype] : keep) {
    std::string& names = dtype == DType::bf16  ? flags.keep_bf16
                         : dtype == DType::f16 ? flags.keep_fp16
                                               : flags.keep_fp32;
    names += concat(names.empty() ? "" : ",", layer);
  }
}

BuildOptions build_options(const ModelFlags& flags, const std::string& path, const Context& context) {
  BuildOptions options;
  options.device = flags.device;
  options.timing_helper = {"/proc/self/exe", kServeTimings};
  options.device_settings.library_folders = flags.cuda_path;
  options.precision = flags.precision;
  options.threads = flags.threads;
  options.segments = !flags.quick;
  options.measure = !flags.no_measure;
  options.time_limit = double(flags.time_limit);
  if (!flags.workspace.empty()) options.workspace = parse_size(flags.workspace);
  options.limits = limits_of(flags);
  if (!flags.no_timing_cache && options.measure)
    options.timing_cache = flags.timing_cache.empty() ? default_timing_cache() : flags.timing_cache;
  for (const std::string& name : words(flags.disabled_passes))
    if (name == "all") options.passes.all_disabled = true;
    else options.passes.disabled.insert(name);
  options.calibration = flags.calibration;
  options.placement = placement_in(flags);
  options.qdq = flags.qdq;
  if (flags.input_pictures) options.input_pictures = {""};
  options.cache = flags.cache;
  options.buckets = flags.buckets;
  for (const std::string& text : flags.shapes) {
    const auto equals = text.rfind('=');
    const std::string name = equals == text.npos ? "" : text.substr(0, equals);  // none: that of the only input
    if (options.shapes.contains(name))
      fail(ErrorKind::usage, "--shapes gives ", name.empty() ? "one input" : concat("the input '", name, "'"),
           " several shapes; write one as 1x3x224x224, or MIN:OPT:MAX");
    options.shapes[name] = parse_range(equals == text.npos ? text : text.substr(equals + 1));
  }
  options.command = build_command(flags, path);
  return options;
}

static BuildOptions shown_build(const ModelFlags& flags, const std::string& path, const Context& context,
                                ProgressLine& progress) {
  BuildOptions options = build_options(flags, path, context);
  options.progress = progress.callback();
  return options;
}

std::shared_ptr<const Engine> load_or_build(const std::string& path, const ModelFlags& flags, const Context& context) {
  if (is_plan(path)) {
    // An equal GPU may run it; every other device that is not the plan's is refused below.
    const bool names_gpu = flags.device.starts_with("cuda");
    auto engine = Engine::load(path, {.settings = {flags.cuda_path}, .device = names_gpu ? flags.device : ""});
    if (flags.threads && flags.threads != engine->threads())
      fail(ErrorKind::usage, "the plan '", path, "' was made for ", engine->threads(),
           " threads; build it again with --threads ", flags.threads);
    if (flags.given("--threads") && !flags.threads && !engine->device().gpu)
      if (const int all = usable_cores(read_environment(0)); all != engine->threads())
        fail(ErrorKind::usage, "the plan '", path, "' was made for ", engine->threads(),
             " threads, and --threads 0 are the ", all, " that this process may use; build it again with --threads 0");
    const std::pair<bool, std::string> ignored[] = {
        {flags.given("--precision") && flags.precision != engine->info().precision, "--precision " + flags.precision},
        {!flags.calibration.empty(), "--calibration"},
        {flags.given("--activation-scales"), "--activation-scales"},
        {keeps(flags), "--keep-first, --keep-last, --keep-fp32, --keep-bf16 or --keep-fp16"},
        {!flags.shapes.empty(), "--shapes"},
        {!flags.buckets.empty(), "--buckets"},
        {flags.cache != 0, "--cache"},
        {flags.given("--device") && flags.device != engine->info().device, "--device"},
        {!flags.workspace.empty(), "--workspace"},
        {!flags.disabled_passes.empty(), "--disable"},
        {flags.quick, "--quick"},
        {flags.no_measure, "--no-measure"},
        {!flags.timing_cache.empty(), "--timing-cache"},
        {flags.no_timing_cache, "--no-timing-cache"},
        {flags.given("--time-limit"), "--time-limit"},
        {flags.given("--build-limit"), "--build-limit"},
        {flags.given("--loop-limit"), "--loop-limit"},
        {flags.given("--node-limit"), "--node-limit"},
        {flags.given("--depth-limit"), "--depth-limit"}};
    for (const auto& [given, name] : ignored)
      if (given)
        fail(ErrorKind::usage, "'", path, "' is a plan, built for ", engine->info().precision, " on the device '",
             engine->info().device, "' already: ", name, " cannot change it; build it again: ", engine->info().command);
    return engine;
  }
  ProgressLine progress(context);
  return build_engine(path, shown_build(flags, path, context, progress));
}

// Then an import that knows the shapes tells the axes apart.
static bool share_names_of_unequal_axes(const Graph& graph, const std::map<std::string, Dims>& shapes) {
  std::map<std::string, int64_t> sizes;
  for (ValueId id : graph.inputs()) {
    const Dims& dims = shapes.at(graph.value(id).name);
    const Shape& shape = graph.type(id).shape;
    for (size_t axis = 0; axis < shape.size() && axis < dims.size(); ++axis)
      if (shape[axis].is_symbol() && sizes.try_emplace(shape[axis].text(), dims[axis]).first->second != dims[axis])
        return true;
  }
  return false;
}

std::shared_ptr<const Engine> build_for_batch(const std::string& path, int64_t batch, const ModelFlags& flags,
                                              const Context& context, const InputRequest& request) {
  ProgressLine progress(context);
  BuildOptions options = shown_build(flags, path, context, progress);
  const auto given = options.shapes;
  ImportedModel model = ModelSource{path, "", {}}.import(
      limits_of(flags), given);  // names and open dimensions must be known before the build
  const std::vector<InputSpec> specs = input_specs(model, path);
  if (batch > 0) check_batch(specs, given, batch);
  if (!options.buckets.empty())
    fail(ErrorKind::usage,
         "--buckets are batches of one plan, and here each batch gets a plan of its own; leave --buckets out, or give "
         "a range in --shapes and no --batch");
  const GivenInputs inputs = with_context([&] { return path; }, [&] { return read_given(request, specs, batch); });
  Bindings bindings = bindings_of(inputs, specs);
  if (const std::string symbol = batch_symbol(specs); !symbol.empty() && (batch > 0 || !bindings.contains(symbol)))
    bindings[symbol] = std::max<int64_t>(batch, 1);
  std::map<std::string, Dims> shapes;
  for (ValueId id : model.graph.inputs()) {
    const std::string& name = model.graph.value(id).name;
    const Shape& shape = model.graph.type(id).shape;
    const auto range = given.contains(name) ? given.find(name) : given.find("");
    Dims& dims = shapes[name];
    if (const auto found = inputs.find(name); found != inputs.end()) {
      dims = found->second.dims();
      continue;
    }
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (const Dim dim = shape[axis].substitute(bindings); dim.is_constant()) dims.push_back(dim.value());
      else if (range != given.end() && axis < range->second.opt.size()) dims.push_back(range->second.opt[axis]);
      else
        fail(ErrorKind::usage, path, ": the dimension '", shape[axis], "' of input '", name, "' is open; add --shapes ",
             name, "=SHAPE");
    }
  }
  options.replace_shapes(shapes);
  const bool again = model.needs_shapes || share_names_of_unequal_axes(model.graph, shapes);
  return again ? build_engine(path, options) : build_engine(std::move(model), path, options);
}

DataModel data_model(const std::string& path, const ModelFlags& flags, const Context& context, ProgressLine& progress) {
  if (is_plan(path)) return DataModel(load_or_build(path, flags, context), path);
  return DataModel(ModelSource{path, "", {}}, shown_build(flags, path, context, progress));
}

namespace {
std::atomic<bool> progress_is_shown = false;

double now_s() { return 1e-3 * host_clock().now_ms(); }
}  // namespace

void clear_progress() {
  if (progress_is_shown.exchange(false)) std::fputs("\r\033[K", stderr);
}

ProgressLine::ProgressLine(const Context& context) : active_(context.verbosity >= 0), said_(now_s()) {}
ProgressLine::~ProgressLine() { clear_progress(); }
void ProgressLine::show(const ProgressStep& step) {
  if (!active_) return;
  constexpr double kInALog = 10, kOnATerminal = 0.1;  // seconds between two lines
  const bool redrawn = is_terminal();
  const size_t width = redrawn ? std::max<size_t>(20, terminal_width_of_errors()) - 1 : 0;
  const double now = now_s();
  const std::string line = meter_.line(step, now, width);  // which follows every step
  if (now - said_ < (redrawn ? kOnATerminal : kInALog) && !(redrawn && step.what != what_)) return;
  said_ = now;
  what_ = step.what;
  if (!redrawn) return log(LogLevel::info, line);
  progress_is_shown = true;
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
}
Progress ProgressLine::callback() {
  if (!active_) return {};
  return [this](const ProgressStep& step) { show(step); };
}

}  // namespace temper::cli
