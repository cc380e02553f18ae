// SPDX-License-Identifier: Apache-2.0
// Evaluation, studies and builds under a budget: the workflows that the program's verbs call, with their JSON.
#include "evaluate/evaluate.h"

#include <nlohmann/json.hpp>

#include "backends/devices.h"
#include "base/strict_json.h"
#include "bind.h"
#include "data.h"
#include "device_array.h"
#include "engine.h"
#include "evaluate/budget.h"
#include "evaluate/part.h"
#include "evaluate/text.h"
#include "guard.h"
#include "optimize/precision.h"
#include "study/study.h"

namespace nb = nanobind;

namespace temper::python {

namespace {

std::optional<Metric> metric_of(const nb::dict& options) {
  std::string text;
  read(options, "metric", text);
  return text.empty() ? std::nullopt : std::optional(parse_metric(text));
}

nb::str text_of(const nlohmann::ordered_json& json) {
  const std::string text = strict::dump(json);
  return nb::str(text.c_str(), text.size());
}

// Of a share of the samples where `options` has one.
EvaluatedPart part_of(nb::object model, nb::dict build, nb::object reference, nb::dict data, nb::dict options,
                      nb::object progress) {
  const PyData given = data_of(data);
  EvaluateOptions what;
  what.data = given.request;
  what.metric = metric_of(options);
  read(options, "batch", what.batch);
  read(options, "output", what.classes);
  what.progress = progress_of(std::move(progress));
  BuildOptions built = options_of(build);
  built.progress = what.progress;
  const KeepCurrentGpu kept(built.device.find("cuda") != built.device.npos);
  bool named = false;  // where it runs, one device or a list
  read(options, "named_device", named);
  if (named) what.devices = take_devices(built.device, built.device_settings);
  if (named && what.devices.empty()) what.devices = {built.device};
  what.plain.device_settings = built.device_settings;
  what.plain.timing_cache = built.timing_cache;
  what.plain.timing_helper = built.timing_helper;
  DataModel tested = data_model_of(model, built);
  std::optional<DataModel> beside;
  if (!reference.is_none()) beside = data_model_of(reference, what.plain);
  BatchShare share;
  read(options, "number", share.number);
  read(options, "of", share.of);
  const WithoutGil released;
  EvaluatedPart part = evaluate_part(tested, beside ? &*beside : nullptr, what, share);
  part.engine.reset();  // goes while the context of its GPU is kept
  return part;
}

nb::str evaluate(nb::object model, nb::dict build, nb::object reference, nb::dict data, nb::dict options,
                 const std::string& name, nb::object progress) {
  const std::optional<Metric> metric = metric_of(options);
  const EvaluatedPart part = part_of(model, build, reference, data, options, std::move(progress));
  return text_of(json_of(join_parts({part}, metric), name));
}

// The part of a share as text, and such parts joined.
nb::bytes evaluate_share(nb::object model, nb::dict build, nb::object reference, nb::dict data, nb::dict options,
                         nb::object progress) {
  const std::string text = to_json(part_of(model, build, reference, data, options, std::move(progress)));
  return nb::bytes(text.data(), text.size());
}
nb::str join_shares(const std::vector<nb::bytes>& shares, nb::dict options, const std::string& name) {
  std::vector<EvaluatedPart> parts;
  for (const nb::bytes& share : shares)
    parts.push_back(evaluated_part_from_json(std::string_view(share.c_str(), share.size())));
  return text_of(json_of(join_parts(parts, metric_of(options)), name));
}

// Of every `of`-th sample from `number` on, those whose picture cannot be read, as data_of takes them.
nb::list find_unreadable(nb::object model, nb::dict build, nb::dict data, int64_t number, int64_t of) {
  const PyData given = data_of(data);
  const DataModel opened_model = data_model_of(model, options_of(build));
  std::vector<Unreadable> found;
  {
    const WithoutGil released;
    const Dataset samples = given.request.open(opened_model.inputs());
    found = temper::find_unreadable(samples, share_of(samples_of(samples, given.request), 1, {number, of}));
  }
  nb::list list;
  for (const Unreadable& one : found)
    list.append(nb::make_tuple(one.sample, one.name, int(one.error.kind()), one.error.what()));
  return list;
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
    found = build.precision == kBestPrecision ? json_of(keep_budget_best(source, build, within))
                                              : json_of(keep_budget(source, build, within));
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
  what.build_command = [&](const BuildOptions& one) {
    std::string command = concat("temper.build('", model, "', precision='", one.precision, "'");
    if (!one.calibration.empty()) command += concat(", calibration='", one.calibration, "'");
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      std::string names;
      for (const auto& [node, kept] : one.placement.keep_nodes)
        if (kept == dtype) names += concat(names.empty() ? "" : ", ", "'", node, "'");
      if (!names.empty())
        command += concat(dtype == DType::f32   ? ", keep_fp32=["
                          : dtype == DType::f16 ? ", keep_fp16=["
                                                : ", keep_bf16=[",
                          names, "]");
    }
    return command + ")";
  };
  const KeepCurrentGpu kept(what.build.device.find("cuda") != what.build.device.npos);
  what.devices = take_devices(what.build.device, what.build.device_settings);
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
  module.def("evaluate_share", evaluate_share, nb::arg("model"), nb::arg("build"), nb::arg("reference").none(),
             nb::arg("data"), nb::arg("options"), nb::arg("progress").none());
  module.def("join_shares", join_shares, nb::arg("shares"), nb::arg("options"), nb::arg("name"));
  module.def("find_unreadable", find_unreadable, nb::arg("model"), nb::arg("build"), nb::arg("data"), nb::arg("number"),
             nb::arg("of"));
  module.def("build_within", build_within, nb::arg("model"), nb::arg("options"), nb::arg("data"), nb::arg("budget"),
             nb::arg("progress").none());
  module.def("study", study, nb::arg("model"), nb::arg("build"), nb::arg("data"), nb::arg("options"),
             nb::arg("progress").none());
}

}  // namespace temper::python
