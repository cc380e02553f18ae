// SPDX-License-Identifier: Apache-2.0
#include "nvinfer/build.h"

#include <algorithm>
#include <optional>

#include "nvinfer/types.h"
#include "optimize/precision.h"
#include "runtime/keep_current_gpu.h"

namespace temper::nvinfer {

namespace {

// A profile names inputs of the network, with as many dimensions as they have.
void check_inputs(const Network& network, const Profile& profile, const std::string& what) {
  for (const auto& [name, range] : profile) {
    const PortInfo* input = nullptr;
    for (const PortInfo& port : network.inputs())
      if (port.name == name) input = &port;
    if (!input) fail(ErrorKind::usage, what, " has shapes of '", name, "', which is no input of the network");
    for (const Dims* dims : {&range.min, &range.opt, &range.max})
      if (dims->size() != input->type.shape.size())
        fail(ErrorKind::usage, what, " gives '", name, "' ", dims->size(), " dimensions; it has ",
             input->type.shape.size());
  }
}

// Every input that leaves a dimension open needs a range in every profile; TensorRT makes none up.
void check_profiles(const Network& network, const Config& config) {
  for (const PortInfo& input : network.inputs()) {
    if (!is_open(input.type)) continue;
    if (config.profiles.empty())
      fail(ErrorKind::usage, "Network has dynamic or shape inputs, but no optimization profile has been defined.");
    for (size_t p = 0; p < config.profiles.size(); ++p)
      if (!config.profiles[p].contains(input.name))
        fail(ErrorKind::usage, input.name, ": dynamic input is missing dimensions in profile ", p, ".");
  }
  for (size_t p = 0; p < config.profiles.size(); ++p) check_inputs(network, config.profiles[p], concat("profile ", p));
}

// A strongly typed network has its types in it. TensorRT builds none by flags that permit others.
void check_typing(const Network& network, const Config& config) {
  if (!network.is_strongly_typed()) return;
  const auto check = [](bool is_set, const char* flag) {
    if (is_set)
      fail(ErrorKind::usage, "BuilderFlag ", flag,
           " is set, and the network is strongly typed: it is built in the types that it has; leave the flag out");
  };
  check(config.fp16, "FP16");
  check(config.int8, "INT8");
  check(config.fp8, "FP8");
  check(config.bf16, "BF16");
}

// The lowest precision that is allowed and computed on the device; INT8 where there are ranges.
std::string precision_of(const Config& config, const std::string& device, bool has_ranges, const Logger& logger) {
  const auto computed = [&](const char* precision, const char* word) {
    const std::string why = lacks_precision(device, precision);
    if (!why.empty()) logger(Severity::warning, concat(word, ": layers stay in FP32: ", why));
    return why.empty();
  };
  if (has_ranges)
    return config.fp16 && computed("fp16", "FP16")   ? "int8+fp16"
           : config.bf16 && computed("bf16", "BF16") ? "int8+bf16"
                                                     : "int8";
  if (config.fp16 && computed("fp16", "FP16")) return "fp16";
  if (config.bf16 && computed("bf16", "BF16")) return "bf16";
  return config.tf32 && device.starts_with("cuda") ? "tf32" : "fp32";
}

// The types that the program gave to single layers, where the flags make them count. Throws Error{usage} for one that
// no flag allows, with TensorRT's words.
LayerTypes layer_types(const Network& network, const Config& config, const std::string& precision) {
  LayerTypes types;
  for (int index = 0; index < network.layers(); ++index) {
    const auto setting = network.setting(index, "precision");
    if (!setting) continue;
    const auto dtype = type_of_number(int32_t(std::get<std::vector<int64_t>>(*setting).at(0)));
    const auto check_flag = [&](DType type, bool is_set, std::string_view word) {
      if (dtype == type && !is_set)
        fail(ErrorKind::usage, word, " precision has been set for a layer or layer output, but ", word,
             " is not configured in the builder");
    };
    check_flag(DType::f16, config.fp16, "fp16");
    check_flag(DType::bf16, config.bf16, "bf16");
    check_flag(DType::i8, config.int8, "int8");
    // Other integers are no precision.
    if (dtype && (is_float(*dtype) || (dtype == DType::i8 && !network.is_quantized())))
      types.of[network.layer(index).name] = dtype_in(precision, *dtype);
  }
  if (config.layer_constraints == LayerConstraints::hints) return {};
  types.obeyed = config.layer_constraints == LayerConstraints::orders;
  return types;
}

}  // namespace

void take_flags(Config& config, Flags flags) {
  config.fp16 = flags.has(Flag::fp16);
  config.int8 = flags.has(Flag::int8);
  config.fp8 = flags.has(Flag::fp8);
  config.tf32 = flags.has(Flag::tf32);
  config.bf16 = flags.has(Flag::bf16);
  config.refit = flags.has(Flag::refit);
  const bool wishes = flags.has(Flag::prefer_precision_constraints) || flags.has(Flag::strict_types);
  config.layer_constraints = flags.has(Flag::obey_precision_constraints) ? LayerConstraints::orders
                             : wishes                                    ? LayerConstraints::wishes
                                                                         : LayerConstraints::hints;
  if (flags.has(Flag::disable_timing_cache)) config.timings.reset();
}

std::string device_of_choice() {
  try {
    open_device("cuda:0");
    return "cuda:0";
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    return "cpu";
  }
}

std::string build_serialized(const Network& network, const Config& config, const Logger& logger) {
  const KeepCurrentGpu callers;
  return or_else(logger, std::string(), [&] {
    if (!network.is_filled())
      fail(ErrorKind::usage,
           "Network must have at least one output: no model was parsed into it, and no tensor is marked");
    check_typing(network, config);
    check_profiles(network, config);
    BuildOptions options;
    options.device = config.device.empty() ? device_of_choice() : config.device;
    options.workspace = config.workspace;
    options.timings = config.timings;
    std::optional<MonitoredBuild> monitored;
    if (config.monitor) options.progress = monitored.emplace(*config.monitor).progress();
    options.command = "tensorrt.Builder.build_serialized_network";
    std::vector<Profile> profiles = config.profiles;
    for (Profile& profile : profiles)  // an input of fixed shape needs none
      for (const PortInfo& input : network.inputs())
        if (!is_open(input.type)) profile.erase(input.name);
    if (profiles.size() == 1) options.shapes = std::move(profiles[0]);
    else if (std::any_of(profiles.begin(), profiles.end(), [](const Profile& p) { return !p.empty(); }))
      options.profiles = std::move(profiles);
    if (config.int8 && config.calibrator) {
      const auto& shapes = !config.calibration.empty() ? config.calibration
                           : options.profiles.empty()  ? options.shapes
                                                       : options.profiles[0];
      for (const PortInfo& input : network.inputs())
        if (is_open(input.type) && !shapes.contains(input.name))
          fail(ErrorKind::usage, "the calibration profile has no shapes of '", input.name, "'");
      check_inputs(network, config.calibration, "the calibration profile");
      if (auto ranges = calibrate(network, shapes, options.device, *config.calibrator, callers, logger))
        options.ranges = std::make_shared<const Ranges>(std::move(*ranges));
    }
    if (config.int8 && !options.ranges && !network.is_quantized())
      logger(Severity::warning,
             concat(config.calibrator ? "" : "Calibrator is not being used. ",
                    "INT8: there are no ranges, so layers are in the next precision that is allowed; give a calibrator "
                    "data, or put ranges into the model (temper quantize MODEL --data D -o MODEL_QDQ)"));
    options.precision = precision_of(config, options.device, options.ranges != nullptr, logger);
    options.layer_types = layer_types(network, config, options.precision);
    const auto engine = build_engine(network.source(), options);
    for (const std::string& note : engine->info().notes) logger(Severity::warning, note);
    std::string plan = plan_bytes_of(*engine);
    if (monitored) monitored->finish();
    return plan;
  });
}

}  // namespace temper::nvinfer
