// SPDX-License-Identifier: Apache-2.0
#include "interop/trtexec_settings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/parse.h"
#include "interop/trtexec_flags.h"

namespace temper {

namespace {

// A value at which a flag that is refused asks for nothing that is not there.
bool is_harmless(const TrtexecArgument& argument) {
  const std::string& value = argument.value;
  const std::string_view flag = argument.flag;
  if (flag == "--batch" || flag == "--maxBatch") return value == "1";
  if (flag == "--useDLACore") return value == "-1";
  if (flag == "--useRuntime") return value == "full";
  if (flag == "--sparsity") return value == "disable" || value == "enable";
  if (flag == "--hardwareCompatibilityLevel") return value == "none";
  if (flag == "--runtimePlatform") return value == "SameAsBuild";
  return false;
}

const TrtexecFlagUse* use_of(std::string_view flag) {
  const auto uses = trtexec_flag_uses();
  const auto use =
      std::find_if(uses.begin(), uses.end(), [&](const TrtexecFlagUse& known) { return known.name == flag; });
  return use == uses.end() ? nullptr : &*use;
}

// trtexec says so itself.
const char* deprecation_of(std::string_view flag) {
  if (flag == "--workspace") return "--workspace flag has been deprecated by --memPoolSize flag.";
  if (flag == "--buildOnly") return "--buildOnly flag has been deprecated by --skipInference flag.";
  if (flag == "--nvtxMode") return "--nvtxMode flag has been deprecated by --profilingVerbosity flag.";
  if (flag == "--streams") return "--streams flag has been deprecated, use --infStreams flag instead.";
  return nullptr;
}

// The place among kTrtexecReleases of the release that a program was written for; nothing where none is said. Throws
// Error{usage} for one that is none of `temper as-tensorrt --api`.
std::optional<size_t> release_of(const TrtexecCommand& command) {
  const auto api = command.value("--temperApi");
  if (!api) return std::nullopt;
  for (size_t i = 0; i < kTrtexecReleases.size(); ++i)
    if (kTrtexecReleases[i] == *api || kTrtexecReleases[i].starts_with(concat(*api, "."))) return i;
  fail(ErrorKind::usage, "--temperApi=", *api, ": a release is expected: 8.6, 10.13 or 11.1");
}

// Flags that came later harm nobody, as names of Python's module that did; those that are gone are unknown.
bool is_gone(std::string_view name, size_t release) {
  const TrtexecFlag* const flag = find_trtexec_flag(name);
  if (!flag) return release > 0 && !name.starts_with("--temper");  // of releases before the first
  for (size_t i = release; i < kTrtexecReleases.size(); ++i)
    if (flag->in(i)) return false;
  return true;
}

class Settings {
 public:
  explicit Settings(const TrtexecCommand& command) : command_(command) {}

  TrtexecSettings run() {
    release_ = release_of(command_);
    for (const TrtexecArgument& argument : command_.arguments) check(argument);
    TrtexecSettings& to = settings_;
    to.model = command_.value("--onnx").value_or("");
    to.load = command_.value("--loadEngine").value_or("");
    to.save = command_.value("--saveEngine").value_or("");
    if (to.model.empty() && to.load.empty())
      fail(ErrorKind::usage, "Model missing or format not recognized: give --onnx or --loadEngine");
    if (!to.load.empty() && !to.save.empty())
      fail(ErrorKind::usage,
           "Incompatible load and save engine options selected: an engine that is loaded is there as a file already; "
           "leave --saveEngine out");
    if (!to.model.empty() && !to.load.empty()) note("--onnx has no effect with --loadEngine: the engine is read");
    device();
    precision();
    shapes();
    memory();
    inference();
    reports();
    return std::move(settings_);
  }

 private:
  const TrtexecCommand& command_;
  TrtexecSettings settings_;
  std::optional<size_t> release_;

  // 11.0 turned defaults round: what is asked for by a flag before is left out by one from then on.
  bool is_on(const char* on, const char* off) const {
    return release_ && kTrtexecReleases[*release_].starts_with("11.") ? !command_.has(off)
                                                                      : command_.has(on) && !command_.has(off);
  }

  void check(const TrtexecArgument& argument) {
    if (argument.flag.empty())
      fail(ErrorKind::usage, "Unknown option: ", argument.value,
           " (a word without a flag; blanks in a list of shapes end it, so write --shapes=a:1x3,b:1)");
    const TrtexecFlagUse* use = use_of(argument.flag);
    if (!use || (release_ && is_gone(argument.flag, *release_)))
      fail(ErrorKind::usage, "Unknown option: ", argument.flag, argument.has_value ? concat(" ", argument.value) : "");
    if (const std::string refusal = trtexec_refusal(argument); !refusal.empty()) fail(ErrorKind::unsupported, refusal);
    if (const char* const deprecation = deprecation_of(argument.flag)) note(deprecation);
    if (use->use == TrtexecUse::accepted || (use->use == TrtexecUse::refused && argument.has_value))
      note(argument.flag, " has no effect: ", use->how);
  }

  template <class... Parts>
  void note(const Parts&... parts) {
    std::string text = concat(parts...);
    if (std::find(settings_.notes.begin(), settings_.notes.end(), text) == settings_.notes.end())
      settings_.notes.push_back(std::move(text));
  }

  double number(const char* flag, double otherwise, double least, double most) const {
    const auto text = command_.value(flag);
    if (!text) return otherwise;
    const auto value = parse_number<double>(*text);
    if (!value || !(*value >= least && *value <= most))
      fail(ErrorKind::usage, std::string_view(flag), "=", *text, ": a number from ", least, " to ", most,
           " is expected");
    return *value;
  }
  int64_t whole(const char* flag, int64_t otherwise, int64_t least, int64_t most) const {
    const double value = number(flag, double(otherwise), double(least), double(most));
    if (value != std::floor(value))
      fail(ErrorKind::usage, std::string_view(flag), "=", value, ": a whole number is expected");
    return int64_t(value);
  }

  void device() {
    const int64_t gpu = whole("--device", 0, 0, 1000);
    if (command_.has("--device")) settings_.device = concat("cuda:", gpu);
    if (const auto named = command_.value("--temperDevice")) settings_.device = *named;
  }

  void precision() {
    TrtexecSettings& to = settings_;
    to.tf32 = !command_.has("--noTF32");
    to.fp16 = command_.has("--fp16");
    to.bf16 = command_.has("--bf16");
    to.int8 = command_.has("--int8");
    to.best = command_.has("--best");
    to.calibration_cache = command_.value("--calib").value_or("");
    if (command_.has("--stronglyTyped")) {
      if (to.best) fail(ErrorKind::usage, "--stronglyTyped takes the model's own types: leave --best out");
      for (const auto& [flag, is_set] : {std::pair("--fp16", &to.fp16), {"--bf16", &to.bf16}, {"--int8", &to.int8}})
        if (std::exchange(*is_set, false))
          note(flag, " has no effect with --stronglyTyped, which takes the model's own types");
    }
    layer_precisions();
    if (!to.calibration_cache.empty() && !to.int8 && !to.best) note("--calib has no effect without --int8");
    if (command_.has("--sparsity") && command_.value("--sparsity") == "enable")
      note("--sparsity=enable has no effect: there are no 2:4 sparse kernels");
  }

  // NAME:TYPE,...: they count where --precisionConstraints says so.
  void layer_precisions() {
    const std::string how = command_.value("--precisionConstraints").value_or("none");
    if (how != "none" && how != "prefer" && how != "obey")
      fail(ErrorKind::usage, "--precisionConstraints=", how, ": none, prefer or obey is expected");
    const std::string list = command_.value("--layerPrecisions").value_or("");
    std::map<std::string, std::string> types;
    for (size_t at = 0; at < list.size();) {
      const size_t end = std::min(list.find(',', at), list.size());
      const std::string one = list.substr(at, end - at);
      const size_t colon = one.rfind(':');
      const std::string type = colon == one.npos ? "" : one.substr(colon + 1);
      if (type != "fp32" && type != "fp16" && type != "bf16" && type != "int8")
        fail(ErrorKind::usage, "--layerPrecisions: '", one, "' is not NAME:fp32, NAME:fp16, NAME:bf16 or NAME:int8");
      types[one.substr(0, colon)] = type;
      at = end + 1;
    }
    if (how == "none") {
      if (!types.empty()) note("--layerPrecisions has no effect without --precisionConstraints=obey or prefer");
      return;
    }
    for (const auto& [layer, type] : types)
      if ((type == "fp16" && !settings_.fp16) || (type == "bf16" && !settings_.bf16) ||
          (type == "int8" && !settings_.int8))
        fail(ErrorKind::usage, "--layerPrecisions: ", layer, ":", type, " needs --", type);
    settings_.layer_precisions = std::move(types);
    settings_.obeys_layer_precisions = how == "obey";
  }

  // TYPE:FORMAT,...: the types. Of the formats that are allowed rows must be one.
  std::vector<std::string> types_of_ports(const char* flag) {
    constexpr std::array types = {"fp32", "fp16", "bf16", "int32", "int64", "int8", "int4", "uint8", "bool", "fp8"};
    constexpr std::array layouts = {"chw",    "chw2", "hwc8", "chw4",       "chw16",    "chw32", "dhwc8",
                                    "cdhw32", "hwc",  "dhwc", "dla_linear", "dla_hwc4", "hwc16"};
    const auto is_in = [](const auto& list, std::string_view word) {
      return std::find(list.begin(), list.end(), word) != list.end();
    };
    const std::string list = command_.value(flag).value_or("");
    std::vector<std::string> wanted;
    for (size_t at = 0; at < list.size();) {
      const size_t end = std::min(list.find(',', at), list.size());
      const std::string one = list.substr(at, end - at), type = one.substr(0, one.find(':'));
      at = end + 1;
      bool has_rows = false;
      for (size_t from = type.size() + 1; from <= one.size();) {
        const size_t to = std::min(one.find('+', from), one.size());
        const std::string layout = one.substr(from, to - from);
        if (!is_in(layouts, layout))
          fail(ErrorKind::usage, std::string_view(flag), ": there is no format '", layout, "'");
        has_rows |= layout == "chw";
        from = to + 1;
      }
      if (!is_in(types, type) || type.size() + 1 >= one.size())
        fail(ErrorKind::usage, std::string_view(flag), ": '", one, "' is no TYPE:FORMAT, as fp16:chw is");
      if (!has_rows)
        fail(ErrorKind::unsupported, std::string_view(flag), "=", one,
             " is not in Temper: inputs and outputs are in rows; instead, ", type, ":chw");
      wanted.push_back(type);
    }
    if (!wanted.empty() && !settings_.load.empty()) {
      note(flag, " has no effect with --loadEngine: the engine has the types that it was built with");
      wanted.clear();
    }
    return wanted;
  }

  TrtexecShapes shapes_of(const TrtexecArgument& argument) const {
    const auto parsed = parse_trtexec_shapes(argument.value);
    if (!parsed)
      fail(ErrorKind::usage, argument.flag, "=", argument.value,
           " is not NAME:1x3x224x224, with commas between several");
    for (const auto& [name, dims] : *parsed)
      if (name.starts_with(' ') || name.ends_with(' '))
        fail(ErrorKind::usage, argument.flag, ": the name '", name,
             "' begins or ends with a blank and matches no input; leave the blank out");
    return *parsed;
  }

  // As trtexec reads them: --profile begins another one, and what is not said is as the rest.
  void shapes() {
    TrtexecProfile profile;
    const auto take = [&] {
      TrtexecShapes* const all[] = {&profile.min, &profile.opt, &profile.max};
      TrtexecShapes known;
      for (const TrtexecShapes* list : {&profile.max, &profile.min, &profile.opt})
        for (const auto& [name, dims] : *list) known[name] = dims;
      for (TrtexecShapes* list : all)
        for (const auto& [name, dims] : known) list->emplace(name, dims);
      if (!known.empty()) settings_.profiles.push_back(std::exchange(profile, {}));
    };
    for (const TrtexecArgument& argument : command_.arguments) {
      if (argument.flag == "--profile") take();
      else if (argument.flag == "--minShapes") profile.min = shapes_of(argument);
      else if (argument.flag == "--optShapes") profile.opt = shapes_of(argument);
      else if (argument.flag == "--maxShapes") profile.max = shapes_of(argument);
      else if (argument.flag == "--shapes") settings_.shapes = shapes_of(argument);
    }
    take();
    if (settings_.profiles.empty() && !settings_.shapes.empty())
      settings_.profiles.push_back({settings_.shapes, settings_.shapes, settings_.shapes});
    settings_.profile = size_t(whole("--useProfile", 0, 0, 1000));
    if (settings_.profile > 0 && settings_.load.empty() && settings_.profile >= settings_.profiles.size())
      fail(ErrorKind::usage, "--useProfile=", settings_.profile, ": the command has ", settings_.profiles.size(),
           " profiles");
  }

  void memory() {
    constexpr double kMib = double(1 << 20), kMost = 1e9;
    if (command_.has("--workspace")) settings_.workspace = int64_t(number("--workspace", 0, 0, kMost) * kMib);
    const auto pools = command_.value("--memPoolSize");
    if (!pools) return;
    for (size_t at = 0; at <= pools->size();) {
      const size_t end = std::min(pools->find(',', at), pools->size());
      std::string_view one = std::string_view(*pools).substr(at, end - at);
      at = end + 1;
      const size_t colon = one.find(':');
      const auto size = colon == one.npos ? std::nullopt : parse_leading<double>(one.substr(colon + 1));
      const std::string_view unit = size ? size->rest : "";
      const double scale = unit == "B"                   ? 1
                           : unit == "K"                 ? 1024
                           : unit.empty() || unit == "M" ? kMib
                           : unit == "G"                 ? 1024 * kMib
                                                         : 0;
      const double bytes = size ? size->value * scale : -1;
      if (scale == 0 || !(bytes >= 0 && bytes <= kMost * kMib))
        fail(ErrorKind::usage, "--memPoolSize=", *pools, ": POOL:SIZE is expected, in MiB or with one of B, K, M, G");
      if (one.substr(0, colon) == "workspace") settings_.workspace = int64_t(bytes);
      else note("--memPoolSize: the pool ", one.substr(0, colon), " has no effect");
    }
  }

  void inference() {
    TrtexecSettings& to = settings_;
    to.timing_cache = command_.value("--timingCacheFile").value_or("");
    to.uses_timing_cache = !command_.has("--noBuilderCache");
    to.skips_inference = command_.has("--skipInference") || command_.has("--buildOnly");
    if (to.skips_inference && !to.load.empty())
      note("--skipInference with --loadEngine: the engine is read, and nothing else is done");
    to.verbose = command_.has("--verbose");
    to.iterations = whole("--iterations", 10, 0, 100'000'000);
    to.warm_up_ms = number("--warmUp", 200, 0, 86'400'000);
    to.seconds = number("--duration", 3, 0, 86'400);
    to.streams = whole(command_.has("--streams") ? "--streams" : "--infStreams", 1, 1, 1024);
    to.average_runs = whole("--avgRuns", 10, 1, 100'000'000);
    to.sleep_ms = number("--sleepTime", 0, 0, 86'400'000);
    to.idle_ms = number("--idleTime", 0, 0, 86'400'000);
    if (to.idle_ms > 0 && to.streams > 1)
      fail(ErrorKind::unsupported, "--idleTime beside several streams is not in Temper; instead, --infStreams=1");
    to.input_types = types_of_ports("--inputIOFormats");
    to.output_types = types_of_ports("--outputIOFormats");
    const bool copies = !release_ || !kTrtexecReleases[*release_].starts_with("11.");
    to.transfers = copies ? !command_.has("--noDataTransfers") : command_.has("--includeDataTransfers");
    to.cuda_graph = is_on("--useCudaGraph", "--noCudaGraph");
    to.spin_wait = is_on("--useSpinWait", "--noSpinWait");
    if (const auto list = command_.value("--percentile")) {
      to.percentiles.clear();
      for (size_t at = 0; at <= list->size();) {
        const size_t end = std::min(list->find(',', at), list->size());
        const auto percent = parse_number<double>(std::string_view(*list).substr(at, end - at));
        if (!percent || !(*percent >= 0 && *percent <= 100))
          fail(ErrorKind::usage, "--percentile=", *list, ": numbers from 0 to 100 are expected");
        to.percentiles.push_back(*percent);
        at = end + 1;
      }
    }
    if (const auto list = command_.value("--loadInputs"))
      for (size_t at = 0; at <= list->size();) {
        const size_t end = std::min(list->find(',', at), list->size());
        const std::string_view one = std::string_view(*list).substr(at, end - at);
        const size_t colon = one.rfind(':');
        if (colon == one.npos || colon == 0 || colon + 1 == one.size())
          fail(ErrorKind::usage, "--loadInputs=", *list, " is not NAME:FILE, with commas between several");
        std::string_view name = one.substr(0, colon);
        if (name.size() > 2 && name.front() == '\'' && name.back() == '\'') name = name.substr(1, name.size() - 2);
        to.inputs[std::string(name)] = one.substr(colon + 1);
        at = end + 1;
      }
  }

  void reports() {
    TrtexecSettings& to = settings_;
    const auto verbosity = command_.value("--profilingVerbosity");
    to.detailed = verbosity == "detailed" || command_.value("--nvtxMode") == "verbose";
    if (verbosity && *verbosity != "detailed" && *verbosity != "layer_names_only" && *verbosity != "none")
      fail(ErrorKind::usage, "--profilingVerbosity=", *verbosity, ": layer_names_only, detailed or none is expected");
    to.dump_profile = command_.has("--dumpProfile");
    to.dump_layers = command_.has("--dumpLayerInfo");
    to.dump_output = command_.has("--dumpOutput");
    to.separate_profile = command_.has("--separateProfileRun");
    to.export_times = command_.value("--exportTimes").value_or("");
    to.export_profile = command_.value("--exportProfile").value_or("");
    to.export_layers = command_.value("--exportLayerInfo").value_or("");
    to.export_output = command_.value("--exportOutput").value_or("");
  }
};

}  // namespace

std::string trtexec_refusal(const TrtexecArgument& argument) {
  const TrtexecFlagUse* use = use_of(argument.flag);
  if (!use || use->use != TrtexecUse::refused || is_harmless(argument)) return "";
  return concat(argument.flag, argument.has_value ? concat("=", argument.value) : "", " is not in Temper: ", use->how);
}

TrtexecSettings trtexec_settings(const TrtexecCommand& command) { return Settings(command).run(); }

}  // namespace temper
