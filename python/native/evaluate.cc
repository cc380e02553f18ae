// SPDX-License-Identifier: Apache-2.0
// Evaluation, studies and builds under a budget: the workflows that the program's verbs call, with their JSON.
#include "evaluate/evaluate.h"

#include <nlohmann/json.hpp>

#include "base/strict_json.h"
#include "bind.h"
#include "data/labels.h"
#include "device_array.h"
#include "engine.h"
#include "evaluate/budget.h"
#include "evaluate/text.h"
#include "guard.h"
#include "plan/file.h"
#include "study/study.h"

namespace nb = nanobind;

namespace temper::python {

namespace {

// Reads what a dict holds; what it lacks, or holds None for, stays.
template <class T>
void read(const nb::dict& options, const char* name, T& value) {
  if (options.contains(name) && !options[name].is_none()) value = nb::cast<T>(options[name]);
}

std::optional<Metric> metric_of(const nb::dict& options) {
  std::string text;
  read(options, "metric", text);
  return text.empty() ? std::nullopt : std::optional(parse_metric(text));
}

// The samples that are asked for. Arrays stay where they are, and are kept alive here.
struct PyData {
  DataRequest request;
  std::vector<Array> arrays;
};
PyData data_of(const nb::dict& given) {
  PyData data;
  DataRequest& request = data.request;
  read(given, "path", request.path);
  if (given.contains("arrays"))
    for (auto [name, array] : nb::cast<nb::dict>(given["arrays"])) {
      const std::string key = nb::cast<std::string>(name);
      data.arrays.push_back(array_of(array, {"data", key}));
      request.arrays[key] = data.arrays.back().tensor();
    }
  read(given, "samples", request.samples);
  read(given, "seed", request.seed);
  read(given, "strict", request.strict);
  read(given, "memory_limit", request.options.memory_limit);
  read(given, "label_column", request.options.label_column);
  PreprocessOptions& pictures = request.options.preprocess;
  read(given, "resize", pictures.resize);
  read(given, "crop_height", pictures.crop_height);
  read(given, "crop_width", pictures.crop_width);
  read(given, "mean", pictures.mean);
  read(given, "std", pictures.std);
  read(given, "scale", pictures.scale);
  bool bgr = false;
  read(given, "bgr", bgr);
  if (bgr) pictures.channels = ChannelOrder::bgr;
  std::string layout, filter, class_names;
  read(given, "layout", layout);
  if (!layout.empty()) pictures.layout = layout == "nchw" ? PixelLayout::nchw : PixelLayout::nhwc;
  read(given, "filter", filter);
  if (filter == "bicubic") pictures.filter = ResizeFilter::bicubic;
  read(given, "class_names", class_names);
  if (!class_names.empty()) request.options.class_names = read_class_names(class_names);
  return data;
}

// An engine, the path of a plan, or a model that is built as these options say.
DataModel data_model_of(nb::handle given, const BuildOptions& build) {
  if (nb::isinstance<PyEngine>(given)) return DataModel(nb::cast<const PyEngine&>(given).get());
  const ModelSource source = source_of(given);
  const WithoutGil released;
  if (source.bytes.empty() && !source.graph && is_plan(source.path))
    return DataModel(Engine::load(source.path, {.settings = build.device_settings}), source.path);
  return DataModel(source, build);
}

nb::str text_of(const nlohmann::ordered_json& json) {
  const std::string text = strict::dump(json);
  return nb::str(text.c_str(), text.size());
}

nb::str evaluate(nb::object model, nb::dict build, nb::object reference, nb::dict data, nb::dict options,
                 const std::string& name, nb::object progress) {
  const PyData given = data_of(data);
  EvaluateOptions what;
  what.data = given.request;
  what.metric = metric_of(options);
  read(options, "batch", what.batch);
  read(options, "output", what.classes);
  what.progress = progress_of(std::move(progress));
  BuildOptions built = options_of(build);
  built.progress = what.progress;
  what.plain.device_settings = built.device_settings;
  what.plain.timing_cache = built.timing_cache;
  what.plain.timing_helper = built.timing_helper;
  const KeepCurrentGpu kept(built.device.starts_with("cuda"));
  DataModel tested = data_model_of(model, built);
  std::optional<DataModel> beside;
  if (!reference.is_none()) beside = data_model_of(reference, what.plain);
  std::optional<Evaluated> evaluated;
  {
    const WithoutGil released;
    evaluated = temper::evaluate(tested, beside ? &*beside : nullptr, what);
  }
  return text_of(json_of(*evaluated, name));
}

// The engine, what was found as JSON, and the ranges that were calibrated for it, or None.
nb::tuple build_within(nb::object model, nb::dict options, nb::dict data, nb::dict budget, nb::object progress) {
  const PyData given = data_of(data);
  const ModelSource source = source_of(model);
  BuildOptions build = options_of(options);
  build.progress = progress_of(std::move(progress));
  BudgetOptions within;
  within.data = given.request;
  within.metric = metric_of(budget);
  read(budget, "max_drop", within.max_drop);
  read(budget, "raise_to", within.raise_to);
  read(budget, "output", within.classes);
  read(budget, "method", within.method);
  std::optional<Ranges> ranges;
  within.calibrated = [&](const Ranges& made) { ranges = made; };
  const KeepCurrentGpu kept(build.device.starts_with("cuda"));
  PyEngine engine;
  nlohmann::ordered_json found;
  {
    const WithoutGil released;
    found = json_of(keep_budget(source, build, within));
    engine = opened(build_engine(source, build));
  }
  return nb::make_tuple(engine, text_of(found), ranges ? nb::cast(*ranges) : nb::none());
}

nb::tuple study(const std::string& model, nb::dict build, nb::dict data, nb::dict options, nb::object progress) {
  const PyData given = data_of(data);
  StudyOptions what;
  what.model = model;
  what.build = options_of(build);
  what.build.progress = progress_of(std::move(progress));
  what.data = given.request;
  what.metric = metric_of(options);
  if (options.contains("max_drop") && !options["max_drop"].is_none())
    what.max_drop = nb::cast<double>(options["max_drop"]);
  read(options, "precisions", what.precisions);
  read(options, "folder", what.output);
  read(options, "method", what.method);
  read(options, "raise_to", what.raise_to);
  read(options, "output", what.classes);
  read(options, "duration", what.seconds);
  read(options, "batch", what.batch);
  read(options, "calibration_samples", what.calibration_samples);
  read(options, "force", what.force);
  read(options, "reads", what.reads);
  what.command = what.build.command;
  what.build_command = [&](const BuildOptions& one, const KeptNodes& raised) {
    std::string command = concat("temper.build('", model, "', precision='", one.precision, "'");
    if (!one.calibration.empty()) command += concat(", calibration='", one.calibration, "'");
    for (const DType dtype : {DType::f32, DType::bf16}) {
      std::string names;
      for (const auto& [node, kept] : raised)
        if (kept == dtype) names += concat(names.empty() ? "" : ", ", "'", node, "'");
      if (!names.empty()) command += concat(dtype == DType::f32 ? ", keep_fp32=[" : ", keep_bf16=[", names, "]");
    }
    return command + ")";
  };
  const KeepCurrentGpu kept(what.build.device.starts_with("cuda"));
  std::optional<Study> done;
  {
    const WithoutGil released;
    done = run_study(what);
  }
  return nb::make_tuple(text_of(done->record), done->verdict, done->over, done->page);
}

}  // namespace

void bind_evaluate(nb::module_& module) {
  module.def("evaluate", evaluate, nb::arg("model"), nb::arg("build"), nb::arg("reference").none(), nb::arg("data"),
             nb::arg("options"), nb::arg("name"), nb::arg("progress").none());
  module.def("build_within", build_within, nb::arg("model"), nb::arg("options"), nb::arg("data"), nb::arg("budget"),
             nb::arg("progress").none());
  module.def("study", study, nb::arg("model"), nb::arg("build"), nb::arg("data"), nb::arg("options"),
             nb::arg("progress").none());
}

}  // namespace temper::python
