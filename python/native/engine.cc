// SPDX-License-Identifier: Apache-2.0
#include "engine.h"

#include <atomic>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "bind.h"
#include "device_array.h"
#include "guard.h"
#include "plan/container.h"
#include "plan/describe.h"

namespace nb = nanobind;

namespace temper::python {

namespace {

Dims dims_of(nb::handle object) {
  Dims dims;
  for (nb::handle dim : nb::borrow<nb::sequence>(object)) dims.push_back(nb::cast<int64_t>(dim));
  return dims;
}

std::shared_ptr<OpenEngine> opened(std::shared_ptr<const Engine> engine) {
  const bool of_gpu = place_of(*engine).type != Place::kCpu;
  return std::make_shared<OpenEngine>(OpenEngine{of_gpu ? keeping_current_gpu(std::move(engine)) : std::move(engine)});
}

PyEngine build(nb::object model, nb::dict options, nb::object progress) {
  const ModelSource source = source_of(model);
  BuildOptions build = options_of(options);
  build.progress = progress_of(std::move(progress));
  const KeepCurrentGpu kept(build.device.starts_with("cuda"));
  const WithoutGil released;
  if (source.bytes.empty() && !source.graph) return {opened(build_engine(source.path, build))};
  ImportedModel imported = source.import();
  EngineInfo info;
  info.model_name = imported.graph.name;
  info.model_sha256 = imported.sha256;
  info.source_sha256 = imported.source_sha256;
  info.source_path = source.path;
  info.producer = imported.producer;
  info.notes = imported.notes;
  return {opened(build_engine(std::move(imported.graph), std::move(info), build))};
}

PyEngine load(const std::string& path, const std::vector<std::string>& library_folders) {
  const KeepCurrentGpu kept;
  const WithoutGil released;
  return {opened(Engine::load(path, {library_folders}))};
}

// Belongs to one thread at a time, which is checked: two in one session would write into the same memory.
class PySession {
 public:
  explicit PySession(const PyEngine& engine) : open_(engine.open), place_(place_of(*engine.get())) {
    const KeepCurrentGpu kept(place_.type != Place::kCpu);
    session_ = std::make_unique<Session>(engine.get());
    if (place_.type != Place::kCpu) place_.stream = reinterpret_cast<intptr_t>(session_->stream());
  }

  ~PySession() {
    const KeepCurrentGpu kept(place_.type != Place::kCpu);
    session_.reset();
  }

  nb::dict run(nb::handle inputs, nb::handle outputs) {
    const Turn turn(*this);
    const KeepCurrentGpu kept(place_.type != Place::kCpu);
    const std::vector<Array> arrays = arrays_of(inputs, session_->engine().inputs(), place_);
    shapes_.clear();
    in_.clear();
    for (const Array& array : arrays) {
      shapes_.push_back(array.dims);
      in_.push_back(array.data);
    }
    if (shapes_ != prepared_) make_ready(shapes_);
    const bool on_device = !arrays.empty() && arrays[0].on_device;
    if (session_->is_staged()) return run_staged(arrays, on_device || !outputs.is_none());
    nb::dict results;
    std::vector<Array> targets;
    out_.resize(made_.size());
    if (!outputs.is_none()) {
      targets = arrays_of(outputs, session_->engine().outputs(), place_, "output");
      take_targets(targets, on_device, outputs, results);
    } else {
      for (size_t i = 0; i < made_.size(); ++i)
        results[made_[i].name] = on_device ? device_array(i) : new_array(made_[i].shape, made_[i].dtype, &out_[i]);
    }
    {
      const WithoutGil released;
      if (on_device) session_->run_resident(in_, out_);
      else session_->run_prepared(in_, out_);
    }
    return results;
  }

  void prepare(const std::vector<Dims>& shapes) {
    const Turn turn(*this);
    const KeepCurrentGpu kept(place_.type != Place::kCpu);
    make_ready(shapes);
  }

  void close() {
    const Turn turn(*this, true);
    const KeepCurrentGpu kept(place_.type != Place::kCpu);
    session_.reset();
  }

  int64_t runs() { return Turn(*this), session_->statistics().runs; }
  int64_t plans_made() { return Turn(*this), session_->statistics().plans_made; }
  int64_t arena_bytes() { return Turn(*this), session_->arena_bytes(); }

 private:
  class Turn {
   public:
    explicit Turn(PySession& session, bool closing = false) : session_(session) {
      if (session_.busy_.exchange(true))
        fail(ErrorKind::usage,
             "this session is running in another thread; make one for each thread with engine.session()");
      try {
        if (!closing && !session_.session_) fail(ErrorKind::usage, "the session is closed");
        if (!closing) session_.open_->get();
      } catch (const Error&) {
        session_.busy_ = false;
        throw;
      }
    }
    ~Turn() { session_.busy_ = false; }

   private:
    PySession& session_;
  };

  // Shapes depend on data, so that the memory of outputs is known afterwards only.
  nb::dict run_staged(const std::vector<Array>& arrays, bool resident) {
    if (resident)
      fail(ErrorKind::unsupported, "shapes inside this model depend on data, so it reads and writes the host's memory, in arrays of "
           "its own: give x.cpu() and no outputs");
    nb::dict results;
    std::vector<Tensor> tensors;
    for (const Array& array : arrays) tensors.push_back(array.tensor());
    {
      const WithoutGil released;
      tensors = session_->run(tensors);
    }
    const std::vector<PortInfo>& ports = session_->engine().outputs();
    for (size_t i = 0; i < ports.size(); ++i) results[ports[i].name.c_str()] = array_from(tensors[i]);
    return results;
  }

  // The user's arrays as outputs: where they are, and the dict of them that run() returns.
  void take_targets(const std::vector<Array>& targets, bool on_device, nb::handle given, nb::dict& results) {
    for (size_t i = 0; i < targets.size(); ++i) {
      const Array& target = targets[i];
      const std::string& name = session_->engine().outputs()[i].name;
      if (target.dims != made_[i].type.dims())
        fail(ErrorKind::usage, "output '", name, "' was given the shape ", target.dims, "; for these inputs it is ", made_[i].type.dims());
      if (!target.writable) fail(ErrorKind::usage, "output '", name, "' was given an array that cannot be written");
      if (target.on_device != on_device)
        fail(ErrorKind::usage, "output '", name, "' is ", target.on_device ? concat("on ", place_.name) : "in the host's memory",
             " and the inputs are not: give all of them in one place");
      out_[i] = const_cast<void*>(target.data);
      if (PyDict_Check(given.ptr())) results[made_[i].name] = given[made_[i].name];
      else if (PyTuple_Check(given.ptr()) || PyList_Check(given.ptr())) results[made_[i].name] = given[i];
      else results[made_[i].name] = given;
    }
  }

  nb::object device_array(size_t i) {
    const TensorType& type = made_[i].type;
    DeviceArray array{type.dtype, type.dims(), keeping_current_gpu(session_->allocate_resident(byte_count(type.dtype, type.dims()))), place_};
    out_[i] = array.memory.get();
    return nb::cast(std::move(array));
  }

  // For these shapes, which prepared_ are then.
  void make_ready(const std::vector<Dims>& shapes) {
    std::vector<TensorType> types;
    {
      const WithoutGil released;
      types = session_->prepare(shapes);
    }
    made_.clear();
    if (!session_->is_staged())
      for (size_t i = 0; i < types.size(); ++i)
        made_.push_back({nb::str(session_->engine().outputs()[i].name.c_str()), shape_tuple(types[i].dims()),
                         numpy_type(types[i].dtype), types[i]});
    prepared_ = shapes;
  }

  std::shared_ptr<OpenEngine> open_;
  std::unique_ptr<Session> session_;  // null: closed
  Place place_;
  std::atomic<bool> busy_{false};
  struct Made {
    nb::object name, shape, dtype;
    TensorType type;
  };
  std::vector<Dims> shapes_, prepared_{{-1}};  // of the run; of the one before (at first of none)
  std::vector<Made> made_;                     // the outputs of that one, where they do not depend on data
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

}  // namespace

ImportedModel ModelSource::import() const {
  if (graph) return {*graph, "", "", "", {}};
  return bytes.empty() ? import_onnx(path) : import_onnx_bytes(bytes, "");
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
  read("timing_cache", build.timing_cache);
  read("workspace", build.workspace);
  read("segments", build.segments);
  read("buckets", build.buckets);
  read("command", build.command);
  read("keep_first", build.placement.keep_first);
  read("keep_last", build.placement.keep_last);
  read("cuda_path", build.device_settings.library_folders);
  for (const auto& [name, dtype] : {std::pair{"keep_fp32", DType::f32}, {"keep_bf16", DType::bf16}}) {
    std::vector<std::string> nodes;
    read(name, nodes);
    for (std::string& node : nodes) build.placement.keep_nodes[std::move(node)] = dtype;
  }
  std::vector<std::string> disabled;
  read("disable", disabled);
  for (std::string& pass : disabled)
    if (pass == "all") build.passes.all_disabled = true;
    else build.passes.disabled.insert(std::move(pass));
  if (options.contains("shapes"))
    for (auto [name, range] : nb::cast<nb::dict>(options["shapes"]))
      build.shapes[nb::cast<std::string>(name)] = {dims_of(range[0]), dims_of(range[1]), dims_of(range[2])};
  return build;
}

void bind_engine(nb::module_& module) {
  nb::class_<PyEngine>(module, "Engine")
      .def("save",
           [](const PyEngine& self, const std::string& path) {
             const auto engine = self.get();
             const WithoutGil released;
             save_engine(*engine, path);
           })
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
             return dict;
           })
      .def("inspect",
           [](const PyEngine& self, bool layers, bool graph, const std::string& why) {
             const auto engine = self.get();
             std::string text;
             {
               const WithoutGil released;
               PlanFile file = plan_file_of(*engine);
               file.graph_text = engine->graph_text();
               text =
                   describe(file, {layers, graph, why}).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
             }
             return nb::str(text.c_str(), text.size());
           })
      .def("close", [](PyEngine& self) { self.open->engine.reset(); })
      .def("is_closed", [](const PyEngine& self) { return !self.open->engine; });
  nb::class_<PySession>(module, "Session")
      .def(nb::init<const PyEngine&>())
      .def("run", &PySession::run, nb::arg("inputs"), nb::arg("outputs") = nb::none())
      .def("prepare", &PySession::prepare)
      .def("close", &PySession::close)
      .def_prop_ro("runs", &PySession::runs)
      .def_prop_ro("plans_made", &PySession::plans_made)
      .def_prop_ro("arena_bytes", &PySession::arena_bytes);
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
  module.def("is_plan", [](const std::string& path) { return looks_like_plan(MappedFile(path).bytes()); });
  module.def("cache_folder", [] { return cache_folder(); });
}

}  // namespace temper::python
