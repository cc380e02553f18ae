// SPDX-License-Identifier: Apache-2.0
// Profiles, explanations, reports and gates: what the program's verbs do with engines and results, as their JSON.
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/strict_json.h"
#include "bench/explain_text.h"
#include "bench/gate.h"
#include "bench/profile_plan.h"
#include "bind.h"
#include "engine.h"
#include "given.h"
#include "guard.h"
#include "interop/layer_engines.h"
#include "onnx/used_files.h"
#include "plan/file.h"
#include "report/report.h"
#include "runtime/keep_current_gpu.h"

namespace nb = nanobind;

namespace temper::python {

namespace {

constexpr size_t kMaxBytes = size_t(1) << 27;  // of a layer file

nb::str text_of(const std::string& text) { return nb::str(text.c_str(), text.size()); }

// An engine as it is, or a plan's file with the candidates that lost. `inputs` are those of an engine's run, or None.
ProfiledPlan profiled(nb::handle what, nb::handle inputs, const nb::dict& options, const Progress& progress) {
  ProfileSettings settings;
  settings.progress = progress;
  settings.seconds = nb::cast<double>(options["duration"]);
  settings.batch = nb::cast<int64_t>(options["batch"]);
  settings.timing_cache = nb::cast<std::string>(options["timing_cache"]);
  settings.library_folders = nb::cast<std::vector<std::string>>(options["cuda_path"]);
  const KeepCurrentGpu kept;
  std::shared_ptr<const Engine> engine;
  std::string name;
  if (nb::isinstance<PyEngine>(what)) {
    engine = nb::cast<const PyEngine&>(what).get();
    name = engine->info().model_name.empty() ? "engine" : engine->info().model_name;
  } else {
    name = nb::cast<std::string>(what);
    const WithoutGil released;
    const DeviceSettings device{settings.library_folders};
    engine = std::make_shared<const Engine>(read_plan_file(name, {.candidates = true, .settings = device}), device);
  }
  const Given given = given_inputs(inputs, *engine);
  const WithoutGil released;
  if (!given.tensors.empty()) settings.batch = 0;
  return profile_loaded(std::move(engine), name, settings, given.tensors);
}

nb::str profile(nb::object what, nb::object inputs, nb::dict options, nb::object progress) {
  return text_of(strict::dump(json_of(profiled(what, inputs, options, progress_of(std::move(progress))))));
}

// Engines, plans' files, and layer files of TensorRT. The JSON, and the text.
nb::tuple explain_all(nb::list given, const std::string& asked, nb::dict options, nb::object callback) {
  const Progress progress = progress_of(std::move(callback));
  std::vector<EngineLayers> engines;
  std::vector<LayerFile> files;
  const auto join = [&] {
    for (EngineLayers& engine : engines_of(files)) engines.push_back(std::move(engine));
    files.clear();
  };
  for (nb::handle what : given) {
    if (!nb::isinstance<PyEngine>(what)) {
      const auto path = nb::cast<std::string>(what);
      if (!is_plan(path)) {
        files.push_back({path, read_file(path, kMaxBytes)});
        continue;
      }
    }
    if (!files.empty()) join();
    const ProfiledPlan done = profiled(what, nb::none(), options, progress);
    engines.push_back(layers_of(done.profile, done.engine->info(), done.peaks, done.path));
  }
  if (!files.empty()) join();
  std::vector<Explanation> explanations;
  explanations.reserve(engines.size());
  for (const EngineLayers& engine : engines) explanations.push_back(explain(engine, asked));
  const ExplainedSet set = compare_engines(std::move(explanations));
  std::string text = set.engines.size() > 1 ? text_of(set, TextStyle::terminal) + "\n" : "";
  for (const Explanation& one : set.engines)
    text += concat(&one == &set.engines[0] ? "" : "\n", text_of(one, TextStyle::terminal));
  return nb::make_tuple(text_of(strict::dump(json_of(set))), text_of(text));
}

// `sources`: (name, JSON text) of each; `form`: "html", "markdown", "csv", or "" to check them only.
nb::str report(const std::vector<std::pair<std::string, std::string>>& sources, const std::string& form) {
  std::string text;
  {
    const WithoutGil released;
    Report report;
    for (const auto& source : sources)
      with_context([&] { return source.first; }, [&] { add_to(report, source.first, source.second); });
    if (form == "html") text = report_html(report);
    else if (form == "csv") text = report_csv(report);
    else if (form == "markdown") text = report_markdown(report);
  }
  return text_of(text);
}

void write_output(const std::string& path, const std::string& form, const std::string& text, bool force) {
  const FileKind kind = form == "html"      ? FileKind::page
                        : form == "csv"     ? FileKind::csv
                        : form == "profile" ? FileKind::profile
                        : form == "explain" ? FileKind::explanation
                        : form == "junit"   ? FileKind::junit
                                            : FileKind::markdown;
  write_file_atomically(Output{path, kind, force, ""}, text);
}

// Of what was made from models (with their external data) and other files, and is saved later, perhaps by force.
void refuse_inputs(const std::string& path, const std::vector<std::string>& models,
                   const std::vector<std::string>& others) {
  const WithoutGil released;
  check_files({models, others, {{path, FileKind::other, true}}});
}

// Texts of result files. The JSON, the JUnit XML, and whether it fails.
nb::tuple gate(const std::string& baseline_name, const std::string& baseline, const std::string& result_name,
               const std::string& result, double max_slowdown, bool strict, bool force) {
  const GatedResult gated = gate_results(baseline_name, result_from_json(baseline), result_name,
                                         result_from_json(result), {max_slowdown, strict, force});
  return nb::make_tuple(text_of(strict::dump(json_of(gated))), text_of(junit_of({gated})), gated.failed());
}

}  // namespace

void bind_reports(nb::module_& module) {
  module.def("profile", profile, nb::arg("what"), nb::arg("inputs").none(), nb::arg("options"),
             nb::arg("progress").none());
  module.def("explain", explain_all, nb::arg("given"), nb::arg("asked"), nb::arg("options"),
             nb::arg("progress").none());
  module.def("report", report);
  module.def("write_output", write_output);
  module.def("refuse_inputs", refuse_inputs);
  module.def("gate", gate);
}

}  // namespace temper::python
