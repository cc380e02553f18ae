// SPDX-License-Identifier: Apache-2.0
// src/nvinfer for Python: what temper.tensorrt is a skin of.
#include <cstring>
#include <exception>
#include <utility>

#include "arrays.h"
#include "bind.h"
#include "device_array.h"
#include "engine.h"
#include "guard.h"
#include "nvinfer/address.h"
#include "nvinfer/api_table.h"
#include "nvinfer/build.h"
#include "nvinfer/context.h"
#include "nvinfer/host_memory.h"
#include "nvinfer/inspect.h"
#include "nvinfer/load.h"
#include "nvinfer/refit.h"
#include "nvinfer/refuse.h"
#include "nvinfer/types.h"
#include "runtime/keep_current_gpu.h"

namespace nb = nanobind;

namespace temper::python {

namespace {

// A Python object that goes with the GIL only, or not at all where the interpreter ends.
struct GilOwned {
  explicit GilOwned(nb::object owned) : object(std::move(owned)) {}
  GilOwned(const GilOwned&) = delete;
  ~GilOwned() {
    if (is_ending()) {
      object.release();
      return;
    }
    const nb::gil_scoped_acquire gil;
    object.reset();
  }
  nb::object object;
};

// Calls `log(severity, text)` of the program, from whatever thread. What it raises is shown and goes no further, as
// messages come where nobody expects an exception.
nvinfer::Logger logger_of(nb::object log) {
  return [log = std::make_shared<GilOwned>(std::move(log))](nvinfer::Severity severity, const std::string& text) {
    if (is_ending()) return;
    const nb::gil_scoped_acquire gil;
    try {
      log->object(int(severity), nb::steal(PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), "replace")));
    } catch (nb::python_error& error) { error.discard_as_unraisable("a logger of temper.tensorrt"); }
  };
}

Dims dims_from(nb::handle object) {
  Dims dims;
  for (nb::handle dim : nb::borrow<nb::sequence>(object)) dims.push_back(nb::cast<int64_t>(nb::int_(dim)));
  return dims;
}

DType type_from(int32_t number) {
  const auto dtype = nvinfer::type_of_number(number);
  if (!dtype) fail(ErrorKind::unsupported, "the type ", number, " of TensorRT: not in Temper");
  return *dtype;
}

// Calls methods of an object of the program's. What they raise is kept in `raised`, and ends the build or the run.
template <class Use>
auto asked(const std::shared_ptr<GilOwned>& owned, std::exception_ptr& raised, Use&& use) {
  const nb::gil_scoped_acquire gil;
  try {
    return use(owned->object);
  } catch (nb::python_error&) { raised = std::current_exception(); } catch (nb::cast_error&) {
    raised = std::current_exception();
  }
  fail(ErrorKind::usage, "ended by an exception of the program");
}

// `object`: with read() -> bytes, write(bytes), next(names) -> list of addresses or None, and check(address, bytes,
// input) -> why they may not be read there, or "".
nvinfer::Calibrator calibrator_of(nb::object object, std::string method, std::exception_ptr& raised) {
  const auto owned = std::make_shared<GilOwned>(std::move(object));
  nvinfer::Calibrator calibrator;
  calibrator.method = std::move(method);
  calibrator.read_cache = [owned, &raised] {
    return asked(owned, raised, [](nb::object& its) {
      const auto bytes = nb::cast<nb::bytes>(its.attr("read")());
      return std::string(bytes.c_str(), bytes.size());
    });
  };
  calibrator.write_cache = [owned, &raised](const std::string& text) {
    asked(owned, raised, [&](nb::object& its) {
      its.attr("write")(nb::bytes(text.data(), text.size()));
      return true;
    });
  };
  calibrator.next = [owned, &raised](const std::vector<std::string>& names) {
    return asked(owned, raised, [&](nb::object& its) -> std::optional<std::vector<uintptr_t>> {
      const nb::object batch = its.attr("next")(names);
      if (batch.is_none()) return std::nullopt;
      return nb::cast<std::vector<uintptr_t>>(batch);
    });
  };
  calibrator.check = [owned, &raised](const void* from, int64_t bytes, const std::string& input) {
    const std::string why = asked(owned, raised, [&](nb::object& its) {
      return nb::cast<std::string>(its.attr("check")(reinterpret_cast<uintptr_t>(from), bytes, input));
    });
    if (!why.empty()) fail(ErrorKind::usage, why);
  };
  return calibrator;
}

// `object`: with phase_start(phase, parent or None, steps), step_complete(phase, step) -> bool, phase_finish(phase).
nvinfer::ProgressMonitor monitor_of(nb::object object, std::exception_ptr& raised) {
  const auto owned = std::make_shared<GilOwned>(std::move(object));
  nvinfer::ProgressMonitor monitor;
  monitor.phase_start = [owned, &raised](const std::string& phase, const std::string& parent, int steps) {
    asked(owned, raised, [&](nb::object& its) {
      its.attr("phase_start")(phase, parent.empty() ? nb::object(nb::none()) : nb::object(nb::cast(parent)), steps);
      return true;
    });
  };
  monitor.step_complete = [owned, &raised](const std::string& phase, int step) {
    return asked(owned, raised, [&](nb::object& its) {
      // Ctrl-C, too: somebody who watches a build wants to end it.
      if (PyErr_CheckSignals()) throw nb::python_error();
      return nb::cast<bool>(nb::bool_(its.attr("step_complete")(phase, step)));
    });
  };
  monitor.phase_finish = [owned, &raised](const std::string& phase) {
    asked(owned, raised, [&](nb::object& its) {
      its.attr("phase_finish")(phase);
      return true;
    });
  };
  return monitor;
}

// `object`: with allocate(bytes, alignment) -> address or None, and release(address).
std::shared_ptr<const nvinfer::WorkMemory> work_memory_of(nb::object object,
                                                          const std::shared_ptr<std::exception_ptr>& raised) {
  if (object.is_none()) return nullptr;
  const auto owned = std::make_shared<GilOwned>(std::move(object));
  nvinfer::WorkMemory memory;
  memory.allocate = [owned, raised](int64_t bytes, int64_t alignment) {
    return asked(owned, *raised, [&](nb::object& its) {
      const nb::object at = its.attr("allocate")(bytes, alignment);
      return at.is_none() ? uintptr_t(0) : nb::cast<uintptr_t>(at);
    });
  };
  memory.release = [owned](uintptr_t at) {
    if (is_ending()) return;
    const nb::gil_scoped_acquire gil;
    try {
      owned->object.attr("release")(at);
    } catch (nb::python_error& error) { error.discard_as_unraisable("an allocator of temper.tensorrt"); }
  };
  return std::make_shared<const nvinfer::WorkMemory>(std::move(memory));
}

// A context, and what the program's own callbacks raised while it ran.
struct PyContext {
  PyContext(const PyEngine& engine, nb::object log, nb::object memory) {
    const KeepCurrentGpu kept(bool(engine.get()->device().gpu));
    context = std::make_unique<nvinfer::Context>(engine.get(), logger_of(std::move(log)),
                                                 work_memory_of(std::move(memory), raised));
  }
  ~PyContext() {
    if (context->of_gpu()) let_go_on_gpu(context);
  }
  std::unique_ptr<nvinfer::Context> context;  // never null
  std::shared_ptr<std::exception_ptr> raised = std::make_shared<std::exception_ptr>();

  template <class Use>
  bool watched(Use&& use) {
    *raised = nullptr;
    bool done = false;
    {
      const KeepCurrentGpu kept(context->of_gpu());
      const WithoutGil released;
      done = use();
    }
    if (*raised) std::rethrow_exception(std::exchange(*raised, nullptr));
    return done;
  }
};

// `object`: with reallocate(name, current, bytes, alignment, stream or None) -> address or None, and
// notify_shape(name, dims).
std::shared_ptr<const nvinfer::OutputAllocator> allocator_of(nb::object object,
                                                             const std::shared_ptr<std::exception_ptr>& raised) {
  if (object.is_none()) return nullptr;
  const auto owned = std::make_shared<GilOwned>(std::move(object));
  nvinfer::OutputAllocator allocator;
  allocator.reallocate = [owned, raised](const std::string& name, uintptr_t current, int64_t bytes, int64_t alignment,
                                         std::optional<void*> stream) {
    return asked(owned, *raised, [&](nb::object& its) {
      const nb::object into =
          stream ? nb::object(nb::cast(reinterpret_cast<uintptr_t>(*stream))) : nb::object(nb::none());
      const nb::object at = its.attr("reallocate")(name, current, bytes, alignment, into);
      return at.is_none() ? uintptr_t(0) : nb::cast<uintptr_t>(at);
    });
  };
  allocator.notify_shape = [owned, raised](const std::string& name, const Dims& dims) {
    asked(owned, *raised, [&](nb::object& its) {
      its.attr("notify_shape")(name, shape_tuple(dims));
      return true;
    });
  };
  return std::make_shared<const nvinfer::OutputAllocator>(std::move(allocator));
}

std::shared_ptr<const nvinfer::LayerTimes> layer_times_of(nb::object report,
                                                          const std::shared_ptr<std::exception_ptr>& raised) {
  if (report.is_none()) return nullptr;
  const auto owned = std::make_shared<GilOwned>(std::move(report));
  return std::make_shared<const nvinfer::LayerTimes>([owned, raised](const std::string& layer, double ms) {
    asked(owned, *raised, [&](nb::object& its) {
      its(layer, ms);
      return true;
    });
  });
}

std::vector<Dims> shapes_of(nb::handle shapes) {
  std::vector<Dims> all;
  for (nb::handle shape : nb::borrow<nb::sequence>(shapes)) all.push_back(dims_from(shape));
  return all;
}

nb::bytes build_network(const nvinfer::Network& network, nb::dict given, nb::object log) {
  nvinfer::Config config;
  // What the program's own callbacks raise ends the build, and comes back as it is.
  std::exception_ptr raised;
  const auto read = [&](const char* name, auto& value) {
    value = nb::cast<std::decay_t<decltype(value)>>(given[name]);
  };
  read("device", config.device);
  read("workspace", config.workspace);
  const auto profile_of = [](nb::handle given_profile) {
    nvinfer::Profile profile;
    for (auto [name, range] : nb::cast<nb::dict>(given_profile))
      profile[nb::cast<std::string>(name)] = {dims_from(range[0]), dims_from(range[1]), dims_from(range[2])};
    return profile;
  };
  for (nb::handle profile : nb::cast<nb::list>(given["profiles"])) config.profiles.push_back(profile_of(profile));
  config.calibration = profile_of(given["calibration"]);
  if (!given["timings"].is_none()) config.timings = nb::cast<Timings&>(given["timings"]).cache;
  nvinfer::take_flags(
      config, nvinfer::flags_of(nb::cast<uint32_t>(given["flags"]), nvinfer::Release(nb::cast<int>(given["release"]))));
  if (!given["calibrator"].is_none())
    config.calibrator = std::make_shared<const nvinfer::Calibrator>(
        calibrator_of(given["calibrator"], nb::cast<std::string>(given["method"]), raised));
  if (!given["monitor"].is_none())
    config.monitor = std::make_shared<const nvinfer::ProgressMonitor>(monitor_of(given["monitor"], raised));
  const nvinfer::Logger logger = logger_of(std::move(log));
  std::string plan;
  {
    const WithoutGil released;
    plan = config.refit ? nvinfer::build_refittable(network, config, logger)
                        : nvinfer::build_serialized(network, config, logger);
  }
  if (raised) std::rethrow_exception(raised);
  return nb::bytes(plan.data(), plan.size());
}

// An edit of a network: where it fails, builds of it do from then on.
template <class... Arguments>
auto edit(void (nvinfer::Network::*does)(Arguments...)) {
  return [does](nvinfer::Network& self, Arguments... arguments) {
    self.take([&](nvinfer::Network& network) { (network.*does)(std::forward<Arguments>(arguments)...); });
  };
}

}  // namespace

void bind_nvinfer(nb::module_& module) {
  using nvinfer::Network;
  using nvinfer::Setting;
  nb::class_<Network>(module, "NvNetwork")
      // Flags by the numbers of a release, which is an index of nv_releases().
      .def("__init__", [](Network* self, uint32_t flags,
                          int release) { new (self) Network(nvinfer::rules_of(flags, nvinfer::Release(release))); })
      .def_prop_ro("is_strongly_typed", &Network::is_strongly_typed)
      .def("parse",
           [](Network& self, const nb::bytes& onnx, const std::string& path) {
             std::string bytes(onnx.c_str(), onnx.size());
             std::vector<std::string> errors;
             const WithoutGil released;
             self.parse(std::move(bytes), path, errors);
             return errors;
           })
      // Errors, and (nodes, whether they are read) of each part.
      .def("judge",
           [](Network& self, const nb::bytes& onnx, const std::string& path) {
             const std::string bytes(onnx.c_str(), onnx.size());
             std::vector<std::string> errors;
             std::vector<nvinfer::Subgraph> subgraphs;
             {
               const WithoutGil released;
               self.judge(bytes, path, errors, subgraphs);
             }
             nb::list parts;
             for (const nvinfer::Subgraph& of : subgraphs) parts.append(nb::make_tuple(of.nodes, of.is_read));
             return nb::make_tuple(errors, parts);
           })
      .def_prop_rw("name", &Network::name, &Network::set_name)
      .def_prop_ro("layers", &Network::layers)
      .def_prop_ro("input_tensors", &Network::input_tensors)
      .def_prop_ro("output_tensors", &Network::output_tensors)
      .def("add_input", [](Network& self, const std::string& name, int32_t dtype,
                           nb::handle dims) { return self.add_input(name, type_from(dtype), dims_from(dims)); })
      .def("add_layer", &Network::add_layer)
      .def("mark_output", edit(&Network::mark_output))
      .def("unmark_output", edit(&Network::unmark_output))
      // (name, TensorRT's word for what it is, or "", tensors, tensors)
      .def("layer",
           [](const Network& self, int index) {
             const nvinfer::Layer& layer = self.layer(index);
             return nb::make_tuple(layer.name, layer.type, layer.inputs, layer.outputs);
           })
      .def("is_parsed", &Network::is_parsed)
      .def("rename_layer", edit(&Network::rename_layer))
      .def("set_layer_input", edit(&Network::set_input))
      .def("end_builds", &Network::end_builds)
      .def("set_ints",
           [](Network& self, int layer, const std::string& setting, std::vector<int64_t> values) {
             self.take([&](Network& network) { network.set(layer, setting, std::move(values)); });
           })
      .def("set_reals",
           [](Network& self, int layer, const std::string& setting, std::vector<double> values) {
             self.take([&](Network& network) { network.set(layer, setting, std::move(values)); });
           })
      .def("set_text",
           [](Network& self, int layer, const std::string& setting, std::string text) {
             self.take([&](Network& network) { network.set(layer, setting, std::move(text)); });
           })
      // So many elements at the address, which are copied.
      .def("set_weights",
           [](Network& self, int layer, const std::string& setting, int32_t dtype, uintptr_t at, int64_t count) {
             self.take([&](Network& network) {
               Tensor weights(type_from(dtype), {count});
               if (count) std::memcpy(weights.raw_mutable(), nvinfer::at_address(at), size_t(weights.bytes()));
               network.set(layer, setting, std::move(weights));
             });
           })
      .def("reset", edit(&Network::reset))
      // A list, a text, (number of a type, bytes), or None.
      .def("setting",
           [](const Network& self, int layer, const std::string& name) -> nb::object {
             const auto found = self.setting(layer, name);
             if (!found) return nb::none();
             if (const auto* weights = std::get_if<Tensor>(&*found))
               return nb::make_tuple(nvinfer::type_number(weights->dtype()),
                                     nb::bytes(weights->raw().data(), weights->raw().size()));
             if (const auto* text = std::get_if<std::string>(&*found)) return nb::cast(*text);
             if (const auto* reals = std::get_if<std::vector<double>>(&*found)) return nb::cast(*reals);
             return nb::cast(std::get<std::vector<int64_t>>(*found));
           })
      // (number of its type, dimensions)
      .def("tensor",
           [](const Network& self, int tensor) {
             const nvinfer::NetworkTensor seen = self.tensor(tensor);
             return nb::make_tuple(nvinfer::type_number(seen.dtype), shape_tuple(seen.dims));
           })
      .def("tensor_name", &Network::tensor_name)
      .def("is_input", &Network::is_input)
      .def("is_output", &Network::is_output)
      .def("rename", edit(&Network::rename))
      .def("set_type",
           [](Network& self, int tensor, int32_t dtype) {
             self.take([&](Network& network) { network.set_type(tensor, type_from(dtype)); });
           })
      .def("reset_type", edit(&Network::reset_type))
      .def("is_type_set", &Network::is_type_set)
      .def("set_dims",
           [](Network& self, int tensor, nb::handle dims) {
             self.take([&](Network& network) { network.set_dims(tensor, dims_from(dims)); });
           })
      .def("name_dim", edit(&Network::name_dim))
      .def("dim_name", &Network::dim_name);
  // What the numbers ask for that is not here, a text each.
  module.def("nv_refusals",
             [](uint32_t flags, int release, bool on_dla, int capability, int hardware_compatibility, int platform) {
               return nvinfer::refusals({nvinfer::flags_of(flags, nvinfer::Release(release)), on_dla, capability,
                                         hardware_compatibility, platform});
             });
  module.def("nv_knows_operator", nvinfer::knows_operator);
  module.def("nv_builder_flags", [](int release) {
    nb::dict numbers;
    for (const auto& [name, number] : nvinfer::builder_flags(nvinfer::Release(release))) numbers[name.c_str()] = number;
    return numbers;
  });
  module.def("nv_build", build_network);
  nb::class_<nvinfer::Refitter>(module, "NvRefitter")
      .def("__init__",
           [](nvinfer::Refitter* self, const nb::bytes& engine) {
             new (self) nvinfer::Refitter(std::as_bytes(std::span(engine.c_str(), engine.size())));
           })
      // (name, layer, number of a role, number of a type, how many)
      .def("all",
           [](const nvinfer::Refitter& self) {
             nb::list list;
             for (const nvinfer::RefitWeights& of : self.all())
               list.append(nb::make_tuple(of.name, of.layer, of.role, nvinfer::type_number(of.dtype), of.count));
             return list;
           })
      .def("set",
           [](nvinfer::Refitter& self, const std::string& name, int32_t dtype, uintptr_t at, int64_t count) {
             Tensor weights(type_from(dtype), {count});
             if (count) std::memcpy(weights.raw_mutable(), nvinfer::at_address(at), size_t(weights.bytes()));
             self.set(name, weights);
           })
      .def("build", [](const nvinfer::Refitter& self, nb::object log) {
        const nvinfer::Logger logger = logger_of(std::move(log));
        std::string bytes;
        {
          const KeepCurrentGpu kept;
          const WithoutGil released;
          bytes = self.build(logger);
        }
        return nb::bytes(bytes.data(), bytes.size());
      });
  module.def("nv_is_refittable", [](const nb::bytes& engine) {
    return nvinfer::parts_of(std::as_bytes(std::span(engine.c_str(), engine.size()))).has_value();
  });
  module.def("nv_load", [](const nb::bytes& plan, const std::vector<std::string>& library_folders, nb::object log) {
    const auto bytes = std::as_bytes(std::span(plan.c_str(), plan.size()));
    const nvinfer::Logger logger = logger_of(std::move(log));
    std::shared_ptr<const Engine> engine;
    {
      const KeepCurrentGpu kept;
      const WithoutGil released;
      engine = nvinfer::load(bytes, {library_folders}, logger);
    }
    return engine ? nb::cast(opened(std::move(engine))) : nb::none();
  });
  module.def("nv_releases", [] {
    nb::list list;
    for (std::string_view release : nvinfer::kApiReleases) list.append(nb::str(release.data(), release.size()));
    return list;
  });
  // (owner, name, index of the first release, of the last one, whether it is shown earlier, why it is not here or "")
  module.def("nv_api", [] {
    nb::list list;
    for (const nvinfer::ApiName& name : nvinfer::api_names())
      list.append(nb::make_tuple(name.owner, name.name, name.first, name.last, name.early, name.refused));
    return list;
  });
  module.def("nv_device", [] {
    const WithoutGil released;
    return nvinfer::device_of_choice();
  });
  module.def("nv_tensors", [](const PyEngine& engine) {
    nb::list list;
    for (const nvinfer::IoTensor& tensor : nvinfer::io_tensors(*engine.get()))
      list.append(nb::make_tuple(tensor.name, numpy_name(tensor.dtype), shape_tuple(tensor.dims), tensor.is_input));
    return list;
  });
  // Memory of the host that a program takes for a GPU's: an address, 0 where there is no room; how many bytes were
  // written behind its end, None where there is no such allocation; and what raises where a byte is not there.
  module.def("nv_host_allocate",
             [](size_t size) { return reinterpret_cast<uintptr_t>(nvinfer::allocate_host(size, false)); });
  module.def("nv_host_free", [](uintptr_t at) { return nvinfer::free_host(nvinfer::at_address(at), false); });
  module.def("nv_host_check", [](uintptr_t at, size_t size, const std::string& what) {
    nvinfer::check_host_device(nvinfer::at_address(at), size, what);
  });
  module.def("nv_host_copy", [](uintptr_t to, int to_end, uintptr_t from, int from_end, size_t size) {
    nvinfer::copy_host(nvinfer::at_address(to), nvinfer::CopyEnd(to_end), nvinfer::at_address(from),
                       nvinfer::CopyEnd(from_end), size);
  });
  module.def("nv_host_set",
             [](uintptr_t at, int value, size_t size) { nvinfer::set_host(nvinfer::at_address(at), value, size); });
  nb::class_<PyContext>(module, "NvContext")
      .def(nb::init<const PyEngine&, nb::object, nb::object>(), nb::arg("engine"), nb::arg("log"),
           nb::arg("memory").none())
      .def("set_profile", [](PyContext& self, int profile) { return self.context->set_profile(profile); })
      .def_prop_ro("profile", [](const PyContext& self) { return self.context->profile(); })
      .def("set_input_shape", [](PyContext& self, const std::string& name,
                                 nb::handle dims) { return self.context->set_input_shape(name, dims_from(dims)); })
      .def("shape",
           [](const PyContext& self, const std::string& name) -> nb::object {
             const auto dims = self.context->shape(name);
             return dims ? shape_tuple(*dims) : nb::none();
           })
      .def("inputs_without_shape", [](const PyContext& self) { return self.context->inputs_without_shape(); })
      .def("set_address", [](PyContext& self, const std::string& name,
                             uintptr_t address) { return self.context->set_address(name, address); })
      .def("address", [](const PyContext& self, const std::string& name) { return self.context->address(name); })
      .def("max_output_bytes",
           [](const PyContext& self, const std::string& name) { return self.context->max_output_bytes(name); })
      .def(
          "set_output_allocator",
          [](PyContext& self, const std::string& name, nb::object allocator) {
            return self.context->set_output_allocator(name, allocator_of(std::move(allocator), self.raised));
          },
          nb::arg("name"), nb::arg("allocator").none())
      .def(
          "set_layer_times",
          [](PyContext& self, nb::object report) {
            self.context->set_layer_times(layer_times_of(std::move(report), self.raised));
          },
          nb::arg("report").none())
      .def("set_layers_told_at_once",
           [](PyContext& self, bool at_once) { self.context->set_layers_told_at_once(at_once); })
      .def("move_to",
           [](PyContext& self, const PyEngine& engine) {
             const KeepCurrentGpu kept(self.context->of_gpu());
             self.context->move_to(engine.get());
           })
      .def("report_layers", [](PyContext& self) { return self.watched([&] { return self.context->report_layers(); }); })
      .def(
          "run",
          [](PyContext& self, std::optional<uintptr_t> stream) {
            return self.watched(
                [&] { return self.context->run(stream ? std::optional(nvinfer::at_address(*stream)) : std::nullopt); });
          },
          nb::arg("stream").none());
  using nvinfer::InformationFormat;
  nb::class_<nvinfer::Inspector>(module, "NvInspector")
      .def("__init__",
           [](nvinfer::Inspector* self, const PyEngine& engine) { new (self) nvinfer::Inspector(engine.get()); })
      .def_prop_ro("layers", &nvinfer::Inspector::layers)
      .def("engine",
           [](const nvinfer::Inspector& self, nb::handle shapes, bool json, nb::object log) {
             return self.engine_information(shapes_of(shapes),
                                            json ? InformationFormat::json : InformationFormat::oneline,
                                            logger_of(std::move(log)));
           })
      .def("layer", [](const nvinfer::Inspector& self, int layer, nb::handle shapes, bool json, nb::object log) {
        return self.layer_information(layer, shapes_of(shapes),
                                      json ? InformationFormat::json : InformationFormat::oneline,
                                      logger_of(std::move(log)));
      });
}

}  // namespace temper::python
