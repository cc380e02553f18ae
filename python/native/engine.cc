// SPDX-License-Identifier: Apache-2.0
#include "engine.h"

#include "base/file.h"
#include "bench/serve_timings.h"
#include "bind.h"
#include "data/carried.h"
#include "device_array.h"
#include "guard.h"
#include "plan/describe.h"
#include "plan/file.h"
#include "tune/cache.h"
#include "tune/default_cache.h"

namespace nb = nanobind;

namespace temper::python {

namespace {

Dims dims_of(nb::handle object) {
  Dims dims;
  for (nb::handle dim : nb::borrow<nb::sequence>(object)) dims.push_back(nb::cast<int64_t>(dim));
  return dims;
}

PyEngine build(nb::object model, nb::dict options, nb::object progress) {
  const ModelSource source = source_of(model);
  BuildOptions build = options_of(options);
  build.progress = progress_of(std::move(progress));
  const KeepCurrentGpu kept(build.device.starts_with("cuda"));
  const WithoutGil released;
  return opened(build_engine(source, build));
}

PyEngine load(nb::object plan, const std::string& device, const std::vector<std::string>& library_folders,
              bool map_file, intptr_t context) {
  const DeviceSettings settings{library_folders, reinterpret_cast<void*>(context)};
  const KeepCurrentGpu kept;
  if (!PyBytes_Check(plan.ptr())) {
    const auto path = nb::cast<std::string>(plan);
    const WithoutGil released;
    return opened(Engine::load(path, {.settings = settings, .map_file = map_file, .device = device}));
  }
  const auto bytes = std::as_bytes(std::span(PyBytes_AsString(plan.ptr()), size_t(PyBytes_Size(plan.ptr()))));
  const WithoutGil released;
  return opened(Engine::from_bytes(bytes, settings, device));
}

// Dimensions that depend on data are None.
nb::list output_shapes(const PyEngine& self, nb::list shapes) {
  const auto engine = self.get();
  std::vector<Dims> given;
  for (nb::handle shape : shapes) given.push_back(dims_of(shape));
  std::vector<TensorType> types;
  {
    const WithoutGil released;
    types = engine->output_types(given);
  }
  nb::list list;
  for (const TensorType& type : types) {
    nb::list dims;
    for (const Dim& dim : type.shape) dims.append(dim.is_constant() ? nb::object(nb::int_(dim.value())) : nb::none());
    list.append(nb::tuple(dims));
  }
  return list;
}

// THE list of the limits by their names in Python.
constexpr std::pair<const char*, int64_t ShapeLimits::*> kLimits[] = {
    {"plans", &ShapeLimits::plans},
    {"plan_bytes", &ShapeLimits::plan_bytes},
    {"prepared", &ShapeLimits::prepared},
    {"prepared_bytes", &ShapeLimits::prepared_bytes},
};

nb::dict limits_of(const ShapeLimits& limits) {
  nb::dict dict;
  for (const auto& [name, field] : kLimits) dict[name] = limits.*field;
  return dict;
}

// What `changed` does not name stays.
void set_limits(const PyEngine& self, nb::dict changed) {
  const auto engine = self.get();
  ShapeLimits limits = engine->limits();
  for (const auto& [name, field] : kLimits)
    if (changed.contains(name)) limits.*field = nb::cast<int64_t>(changed[name]);
  const WithoutGil released;
  engine->set_limits(limits);
}

nb::dict statistics_of(const PyEngine& self) {
  const EngineStatistics now = self.get()->statistics();
  nb::dict dict;
  dict["plans"] = now.plans;
  dict["plan_bytes"] = now.plan_bytes;
  dict["plans_made"] = now.plans_made;
  dict["evictions"] = now.evictions;
  return dict;
}

}  // namespace

PyEngine opened(std::shared_ptr<const Engine> engine) {
  const bool of_gpu = place_of(*engine).type != Place::kCpu;
  return {
      std::make_shared<OpenEngine>(OpenEngine{of_gpu ? keeping_current_gpu(std::move(engine)) : std::move(engine)})};
}

ModelSource source_of(nb::handle model) {
  if (PyBytes_Check(model.ptr()))
    return {"<bytes>", std::string(PyBytes_AsString(model.ptr()), size_t(PyBytes_Size(model.ptr()))), std::nullopt};
  if (nb::isinstance<Graph>(model)) return {"<graph>", "", nb::cast<const Graph&>(model)};
  return {nb::cast<std::string>(model), "", std::nullopt};
}

BuildOptions options_of(nb::dict options) {
  BuildOptions build;
  const auto read = [&](const char* name, auto& value) {
    if (options.contains(name)) value = nb::cast<std::decay_t<decltype(value)>>(options[name]);
  };
  read("device", build.device);
  read("threads", build.threads);
  read("precision", build.precision);
  read("calibration", build.calibration);
  if (options.contains("ranges"))
    build.ranges = std::make_shared<const Ranges>(nb::cast<const Ranges&>(options["ranges"]));
  read("timing_cache", build.timing_cache);
  if (options.contains("timings")) build.timings = nb::cast<Timings&>(options["timings"]).cache;
  if (options.contains("cuda_context"))
    build.device_settings.cuda_context = reinterpret_cast<void*>(nb::cast<intptr_t>(options["cuda_context"]));
  read("workspace", build.workspace);
  read("memory_limit", build.limits.memory);
  read("node_limit", build.limits.nodes);
  read("depth_limit", build.limits.depth);
  read("loop_limit", build.limits.iterations);
  read("time_limit", build.time_limit);
  if (options.contains("build_limit")) {
    build.limits.time = BuildTime(nb::cast<double>(options["build_limit"]));
    // Of Python's time.monotonic(), which is steady_clock: the build began before this, with a calibration say.
    if (options.contains("begun")) build.limits.time.begin_at(nb::cast<double>(options["begun"]));
  }
  read("cache", build.cache);
  read("measure", build.measure);
  read("segments", build.segments);
  read("buckets", build.buckets);
  read("command", build.command);
  if (options.contains("preprocess") && !options["preprocess"].is_none())
    build.preprocess[""] = text_of(named_preprocess(nb::cast<std::string>(options["preprocess"])));
  std::vector<std::string> pictures;
  read("input_pictures", pictures);
  build.input_pictures.insert(pictures.begin(), pictures.end());
  std::string activation_scales = "tensor";
  read("activation_scales", activation_scales);
  build.placement.activation_scales = parse_activation_scales(activation_scales);
  read("keep_first", build.placement.keep_first);
  read("keep_last", build.placement.keep_last);
  read("cuda_path", build.device_settings.library_folders);
  read("timing_helper", build.timing_helper);
  for (const auto& [name, dtype] :
       {std::pair{"keep_fp32", DType::f32}, {"keep_bf16", DType::bf16}, {"keep_fp16", DType::f16}}) {
    std::vector<std::string> nodes;
    read(name, nodes);
    for (std::string& node : nodes) build.placement.keep_nodes[std::move(node)] = dtype;
  }
  std::vector<std::string> disabled;
  read("disable", disabled);
  for (std::string& pass : disabled)
    if (pass == "all") build.passes.all_disabled = true;
    else build.passes.disabled.insert(std::move(pass));
  const auto ranges = [](nb::handle given) {
    std::map<std::string, ShapeRange> shapes;
    for (auto [name, range] : nb::cast<nb::dict>(given))
      shapes[nb::cast<std::string>(name)] = {dims_of(range[0]), dims_of(range[1]), dims_of(range[2])};
    return shapes;
  };
  if (options.contains("shapes")) build.shapes = ranges(options["shapes"]);
  if (options.contains("profiles"))
    for (nb::handle profile : nb::cast<nb::list>(options["profiles"])) build.profiles.push_back(ranges(profile));
  return build;
}

void bind_engine(nb::module_& module) {
  module.def("serve_timings", [](const std::vector<std::string>& arguments) {
    const WithoutGil released;
    return serve_timings(arguments);
  });
  nb::class_<PyEngine>(module, "Engine")
      .def(
          "save",
          [](const PyEngine& self, const std::string& path, bool force) {
            const auto engine = self.get();
            const WithoutGil released;
            save_engine(*engine, path, force);
          },
          nb::arg("path"), nb::arg("force") = false)
      .def("files", [](const PyEngine& self) { return self.get()->files(); })
      .def("to_bytes",
           [](const PyEngine& self) {
             const auto engine = self.get();
             std::string bytes;
             {
               const WithoutGil released;
               bytes = plan_bytes_of(*engine);
             }
             return bytes_of(bytes);
           })
      .def("output_shapes", output_shapes)
      .def("inputs", [](const PyEngine& self) { return ports_list(self.get()->inputs()); })
      .def("outputs", [](const PyEngine& self) { return ports_list(self.get()->outputs()); })
      .def("info",
           [](const PyEngine& self) {
             const Engine& engine = *self.get();
             const EngineInfo& info = engine.info();
             nb::dict dict;
             dict["model"] = info.model_name;
             dict["device"] = info.device;
             dict["precision"] = info.precision;
             dict["threads"] = engine.threads();
             dict["build_s"] = info.build_s;
             dict["notes"] = info.notes;
             dict["placeholder"] = info.placeholder;
             nb::dict preprocess;
             for (const auto& [input, words] : info.preprocess) preprocess[input.c_str()] = words;
             dict["preprocess"] = preprocess;
             return dict;
           })
      .def("inspect",
           [](const PyEngine& self, bool layers, bool graph, const std::string& why) {
             const auto engine = self.get();
             std::string text;
             {
               const WithoutGil released;
               text = description_of(*engine, {layers, graph, why});
             }
             return nb::str(text.c_str(), text.size());
           })
      .def("limits", [](const PyEngine& self) { return limits_of(self.get()->limits()); })
      .def("set_limits", set_limits)
      .def("statistics", statistics_of)
      .def("close", [](PyEngine& self) { self.open->engine.reset(); })
      .def("is_closed", [](const PyEngine& self) { return !self.open->engine; });
  nb::class_<Timings>(module, "Timings")
      .def("__init__",
           [](Timings* self, const nb::bytes& bytes) {
             TimingCache cache;
             if (bytes.size()) cache = TimingCache::of_text({bytes.c_str(), bytes.size()});
             new (self) Timings{std::make_shared<SharedTimingCache>(std::move(cache))};
           })
      .def("add", [](Timings& self, const Timings& other) { self.cache->add_all(other.cache->now()); })
      .def("to_bytes", [](const Timings& self) { return bytes_of(self.cache->now().text()); });
  module.def("build", build, nb::arg("model"), nb::arg("options"), nb::arg("progress").none());
  module.def("load", load);
  module.def("input_names", [](nb::object model) {
    const ModelSource source = source_of(model);
    const WithoutGil released;
    const ImportedModel imported = source.import();
    std::vector<std::string> names;
    for (ValueId id : imported.graph.inputs()) names.push_back(imported.graph.value(id).name);
    return names;
  });
  module.def("is_plan", &is_plan);
  module.def("fingerprint", [](const std::string& device, const std::vector<std::string>& library_folders) {
    const KeepCurrentGpu kept(device.starts_with("cuda"));
    const WithoutGil released;
    return open_device(device, {library_folders, nullptr}).fingerprint;
  });
  module.def("default_timing_cache", default_timing_cache);
}

}  // namespace temper::python
