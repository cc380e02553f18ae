// SPDX-License-Identifier: Apache-2.0
// The functions behind NvInfer.h: src/nvinfer for C++ programs that were written for TensorRT.
#include "nvinfer/temper_nvinfer.h"

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <set>

#include "nvinfer/address.h"
#include "nvinfer/build.h"
#include "nvinfer/context.h"
#include "nvinfer/host_memory.h"
#include "nvinfer/inspect.h"
#include "nvinfer/load.h"
#include "nvinfer/monitor.h"
#include "nvinfer/refit.h"
#include "nvinfer/refuse.h"
#include "nvinfer/types.h"
#include "optimize/precision.h"
#include "runtime/keep_current_gpu.h"

using namespace temper;
using nvinfer::or_else;
using nvinfer::Severity;

struct temper_nv_bytes {
  std::string text;
};
struct temper_nv_network {
  nvinfer::Network network;
  nvinfer::Logger logger;
  std::string text = {};  // that was asked for last
};
struct temper_nv_timings {
  std::shared_ptr<SharedTimingCache> cache;
};
namespace {

// The engine that contexts run, which a refitter replaces; it may outlive the temper_nv_engine.
class Current {
 public:
  Current(std::shared_ptr<const Engine> engine, std::string refittable)
      : engine_(std::move(engine)), refittable_(std::move(refittable)) {}
  std::shared_ptr<const Engine> engine() const {
    const std::lock_guard lock(mutex_);
    return engine_;
  }
  std::string refittable() const {  // its bytes; empty: it was not built for it
    const std::lock_guard lock(mutex_);
    return refittable_;
  }
  void replace(std::shared_ptr<const Engine> engine, std::string refittable) {
    const std::lock_guard lock(mutex_);
    engine_ = std::move(engine);
    refittable_ = std::move(refittable);
    ++generation_;
  }
  int generation() const { return generation_; }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Engine> engine_;
  std::string refittable_;
  std::atomic<int> generation_ = 0;
};

}  // namespace

struct temper_nv_engine {
  std::shared_ptr<Current> current;
  std::string name;
  std::vector<nvinfer::IoTensor> tensors;
  std::vector<nvinfer::Profile> profiles;
  bool guarded, of_gpu;
};
struct temper_nv_refitter {
  std::shared_ptr<Current> current;
  nvinfer::Refitter refitter;
  nvinfer::Logger logger;
};
struct temper_nv_context {
  std::shared_ptr<const Current> current;
  int generation;
  std::vector<nvinfer::IoTensor> tensors;
  nvinfer::Logger logger;
  bool guarded;
  nvinfer::Context context;
  std::set<std::string> allocated = {};  // outputs whose memory an allocator gives
};
struct temper_nv_inspector {
  nvinfer::Inspector inspector;
  nvinfer::Logger logger;
  std::string text;
};

namespace {

nvinfer::Logger logger_of(temper_nv_log log) {
  return [log](Severity severity, const std::string& text) { log.line(log.self, int32_t(severity), text.c_str()); };
}

// Throws Error{unsupported} for what TensorRT's structures do not hold.
void check_tensors(const std::vector<nvinfer::IoTensor>& tensors) {
  for (const nvinfer::IoTensor& tensor : tensors) {
    if (nvinfer::type_number(tensor.dtype) < 0)
      fail(ErrorKind::unsupported, "'", tensor.name, "' is of ", tensor.dtype, ", which is no type of TensorRT");
    if (tensor.dims.size() > TEMPER_NV_MAX_DIMS)
      fail(ErrorKind::unsupported, "'", tensor.name, "' has ", tensor.dims.size(), " dimensions; TensorRT's have 8");
  }
}

void put(const Dims& from, int64_t* dims, int32_t& rank) {
  std::copy(from.begin(), from.end(), dims);
  rank = int32_t(from.size());
}

int32_t put_tensor(const std::vector<nvinfer::IoTensor>& tensors, int32_t index, temper_nv_tensor* out) {
  if (index < 0 || size_t(index) >= tensors.size()) return 0;
  const nvinfer::IoTensor& tensor = tensors[size_t(index)];
  *out = {tensor.name.c_str(), nvinfer::type_number(tensor.dtype), 0, {}, tensor.is_input};
  put(tensor.dims, out->dims, out->rank);
  return 1;
}

std::vector<nvinfer::IoTensor> tensors_of(const nvinfer::Network& network) {
  std::vector<nvinfer::IoTensor> tensors;
  const auto add = [&](const std::vector<PortInfo>& ports, bool inputs) {
    for (const PortInfo& port : ports) {
      nvinfer::IoTensor& tensor = tensors.emplace_back(nvinfer::IoTensor{port.name, port.type.dtype, {}, inputs});
      for (const Dim& dim : port.type.shape) tensor.dims.push_back(dim.is_constant() ? dim.value() : -1);
    }
  };
  add(network.inputs(), true);
  add(network.outputs(), false);
  return tensors;
}

const char* text_of(const char* text) { return text ? text : ""; }

std::shared_ptr<const nvinfer::Calibrator> calibrator_of(const temper_nv_calibrator& asked, bool guarded) {
  constexpr int32_t kLegacy = 0, kMinMax = 3;
  if (asked.algorithm == kLegacy)
    fail(
        ErrorKind::unsupported,
        "kLEGACY_CALIBRATION: not in Temper (its quantile and cutoff are not searched); instead, derive the calibrator "
        "from IInt8EntropyCalibrator2 or IInt8MinMaxCalibrator");
  auto calibrator = std::make_shared<nvinfer::Calibrator>();
  calibrator->method = asked.algorithm == kMinMax ? "minmax" : "entropy";
  calibrator->read_cache = [asked] {
    size_t size = 0;
    const void* const cache = asked.read_cache(asked.self, &size);
    return cache ? std::string(static_cast<const char*>(cache), size) : std::string();
  };
  calibrator->write_cache = [asked](const std::string& text) {
    asked.write_cache(asked.self, text.data(), text.size());
  };
  calibrator->next = [asked](const std::vector<std::string>& names) -> std::optional<std::vector<uintptr_t>> {
    std::vector<void*> addresses(names.size());
    std::vector<const char*> texts;
    texts.reserve(names.size());
    for (const std::string& name : names) texts.push_back(name.c_str());
    if (!asked.batch(asked.self, addresses.data(), texts.data(), int32_t(names.size()))) return std::nullopt;
    std::vector<uintptr_t> numbers;
    numbers.reserve(addresses.size());
    for (void* address : addresses) numbers.push_back(reinterpret_cast<uintptr_t>(address));
    return numbers;
  };
  if (guarded)
    calibrator->check = [](const void* from, int64_t bytes, const std::string& input) {
      nvinfer::check_host_device(from, size_t(bytes), input);
    };
  return calibrator;
}

nvinfer::ProgressMonitor monitor_of(const temper_nv_monitor& asked) {
  return {
      [asked](const std::string& phase, const std::string& parent, int steps) {
        asked.phase_start(asked.self, phase.c_str(), parent.empty() ? nullptr : parent.c_str(), steps);
      },
      [asked](const std::string& phase, int step) { return asked.step_complete(asked.self, phase.c_str(), step) != 0; },
      [asked](const std::string& phase) { asked.phase_finish(asked.self, phase.c_str()); }};
}

nvinfer::OutputAllocator allocator_of(const temper_nv_allocator& asked, bool guarded) {
  return {[asked, guarded](const std::string& name, uintptr_t current, int64_t bytes, int64_t alignment,
                           std::optional<void*> stream) {
            void* const given = asked.reallocate(asked.self, name.c_str(), nvinfer::at_address(current),
                                                 uint64_t(bytes), uint64_t(alignment), stream.value_or(nullptr));
            if (given && guarded) nvinfer::check_host_device(given, size_t(bytes), name);
            return reinterpret_cast<uintptr_t>(given);
          },
          [asked](const std::string& name, const Dims& dims) {
            asked.notify_shape(asked.self, name.c_str(), dims.data(), int32_t(dims.size()));
          }};
}

nvinfer::Config config_of(const temper_nv_config& asked) {
  const nvinfer::Flags flags = nvinfer::flags_of(asked.flags, nvinfer::release_of(asked.api));
  const std::vector<std::string> refused = nvinfer::refusals(
      {flags, asked.runs_on_dla != 0, asked.capability, asked.hardware_compatibility, asked.platform});
  if (!refused.empty()) fail(ErrorKind::unsupported, refused[0]);
  nvinfer::Config config;
  config.device = text_of(asked.device);
  config.workspace = asked.workspace;
  config.profiles.resize(size_t(asked.profile_count));
  for (int32_t i = 0; i < asked.range_count; ++i) {
    const temper_nv_range& range = asked.ranges[i];
    const auto dims = [&](const int64_t* from) { return Dims(from, from + range.rank); };
    nvinfer::Profile& profile = range.profile < 0 ? config.calibration : config.profiles[size_t(range.profile)];
    profile[range.input] = {dims(range.min), dims(range.opt), dims(range.max)};
  }
  if (asked.timings) config.timings = asked.timings->cache;
  nvinfer::take_flags(config, flags);
  if (asked.monitor) config.monitor = std::make_shared<const nvinfer::ProgressMonitor>(monitor_of(*asked.monitor));
  if (asked.calibrator) config.calibrator = calibrator_of(*asked.calibrator, asked.guarded != 0);
  return config;
}

}  // namespace

const void* temper_nv_bytes_data(const temper_nv_bytes* bytes) { return bytes->text.data(); }
size_t temper_nv_bytes_size(const temper_nv_bytes* bytes) { return bytes->text.size(); }
void temper_nv_bytes_free(temper_nv_bytes* bytes) { delete bytes; }

int32_t temper_nv_computes(const char* device, const char* precision, temper_nv_log log) {
  return or_else(logger_of(log), 0, [&] {
    const std::string chosen = *text_of(device) ? device : nvinfer::device_of_choice();
    return int(lacks_precision(chosen, precision).empty());
  });
}

temper_nv_network* temper_nv_network_new(uint32_t flags, int32_t api, temper_nv_log log) {
  return new temper_nv_network{nvinfer::Network(nvinfer::rules_of(flags, nvinfer::release_of(api))), logger_of(log)};
}
void temper_nv_network_free(temper_nv_network* network) { delete network; }
namespace {

// `read`: reads the model into a copy of the network, which takes its place where that holds.
template <class Read>
int32_t filled(temper_nv_network* network, const void* bytes, const char* path, void* self,
               void (*error)(void* self, const char* text), Read&& read) {
  const nvinfer::Logger say = [&](Severity, const std::string& text) { error(self, text.c_str()); };
  return or_else(say, 0, [&] {
    if (!bytes && !path) fail(ErrorKind::usage, "the model's bytes are null");
    std::vector<std::string> errors;
    nvinfer::Network its = network->network;
    read(its, errors);
    for (const std::string& text : errors) say(Severity::error, text);
    if (errors.empty()) check_tensors(tensors_of(its));
    network->network = std::move(its);
    return int(errors.empty());
  });
}
std::string model_in(const void* bytes, size_t size, const char* path) {
  return path || !bytes ? std::string() : std::string(static_cast<const char*>(bytes), size);
}

}  // namespace

int32_t temper_nv_network_parse(temper_nv_network* network, const void* bytes, size_t size, const char* path,
                                void* self, void (*error)(void* self, const char* text)) {
  return filled(network, bytes, path, self, error, [&](nvinfer::Network& its, std::vector<std::string>& errors) {
    its.parse(model_in(bytes, size, path), text_of(path), errors);
  });
}
int32_t temper_nv_network_judge(temper_nv_network* network, const void* bytes, size_t size, const char* path,
                                void* self, void (*error)(void* self, const char* text),
                                void (*subgraph)(void* self, const int64_t* nodes, int64_t count, int32_t is_read)) {
  std::vector<nvinfer::Subgraph> subgraphs;
  const int32_t done =
      filled(network, bytes, path, self, error, [&](nvinfer::Network& its, std::vector<std::string>& errors) {
        its.judge(model_in(bytes, size, path), text_of(path), errors, subgraphs);
      });
  for (const nvinfer::Subgraph& of : subgraphs)
    subgraph(self, of.nodes.data(), int64_t(of.nodes.size()), of.is_read && (done || subgraphs.size() > 1));
  return done;
}
int32_t temper_nv_knows_operator(const char* name) { return nvinfer::knows_operator(text_of(name)); }

namespace {

// What `use` gives; where it throws, a line of the network's log, and `otherwise`.
template <class T, class Use>
T asked(const temper_nv_network* network, T otherwise, Use&& use) {
  return or_else(network->logger, otherwise, [&]() -> T { return use(network->network); });
}
template <class Use>
int32_t changed(temper_nv_network* network, Use&& use) {
  return or_else(network->logger, 0, [&] {
    network->network.take(use);
    return 1;
  });
}
template <class Use>
const char* told(temper_nv_network* network, Use&& use) {
  return or_else(network->logger, static_cast<const char*>(nullptr), [&] {
    network->text = use(network->network);
    return network->text.c_str();
  });
}
int32_t at(const std::vector<int>& list, int32_t index) {
  return index >= 0 && size_t(index) < list.size() ? list[size_t(index)] : -1;
}
DType type_from(int32_t number) {
  const auto dtype = nvinfer::type_of_number(number);
  if (!dtype) fail(ErrorKind::unsupported, "the type ", number, " of TensorRT: not in Temper");
  return *dtype;
}
Tensor copied(int32_t dtype, const void* values, int64_t count) {
  if (count < 0 || (count && !values)) fail(ErrorKind::usage, "there are no ", count, " weights at a null address");
  Tensor weights(type_from(dtype), {count});
  if (count) std::memcpy(weights.raw_mutable(), values, size_t(weights.bytes()));
  return weights;
}
template <class T>
int32_t numbers_of(const temper_nv_network* network, int32_t layer, const char* setting, T* values, int32_t room) {
  return asked(network, -1, [&](const nvinfer::Network& of) {
    const auto found = of.setting(layer, text_of(setting));
    const auto* const list = found ? std::get_if<std::vector<T>>(&*found) : nullptr;
    if (!list) return -1;
    std::copy_n(list->begin(), std::min(list->size(), size_t(room)), values);
    return int32_t(list->size());
  });
}

}  // namespace

const char* temper_nv_network_name(const temper_nv_network* network) { return network->network.name().c_str(); }
void temper_nv_network_set_name(temper_nv_network* network, const char* name) {
  network->network.set_name(text_of(name));
}
int32_t temper_nv_network_layers(const temper_nv_network* network) { return network->network.layers(); }
int32_t temper_nv_network_inputs(const temper_nv_network* network) {
  return int32_t(network->network.input_tensors().size());
}
int32_t temper_nv_network_outputs(const temper_nv_network* network) {
  return int32_t(network->network.output_tensors().size());
}
int32_t temper_nv_network_input(const temper_nv_network* network, int32_t index) {
  return at(network->network.input_tensors(), index);
}
int32_t temper_nv_network_output(const temper_nv_network* network, int32_t index) {
  return at(network->network.output_tensors(), index);
}
int32_t temper_nv_network_add_input(temper_nv_network* network, const char* name, int32_t dtype, const int64_t* dims,
                                    int32_t rank) {
  return or_else(network->logger, -1, [&] {
    if (rank < 0 || rank > TEMPER_NV_MAX_DIMS) fail(ErrorKind::usage, "an input of ", rank, " dimensions");
    return network->network.add_input(text_of(name), type_from(dtype), Dims(dims, dims + rank));
  });
}
int32_t temper_nv_network_add_layer(temper_nv_network* network, const char* type, const int32_t* inputs,
                                    int32_t count) {
  return or_else(network->logger, -1,
                 [&] { return network->network.add_layer(text_of(type), std::vector<int>(inputs, inputs + count)); });
}
void temper_nv_network_end_builds(temper_nv_network* network, const char* why) {
  network->logger(Severity::error, text_of(why));
  network->network.end_builds(text_of(why));
}
int32_t temper_nv_network_is_filled(const temper_nv_network* network) { return network->network.is_filled(); }
int32_t temper_nv_network_mark(temper_nv_network* network, int32_t tensor, int32_t is_output) {
  return changed(network, [&](nvinfer::Network& of) {
    if (is_output) of.mark_output(tensor);
    else of.unmark_output(tensor);
  });
}

const char* temper_nv_layer_name(temper_nv_network* network, int32_t layer) {
  return told(network, [&](const nvinfer::Network& of) { return of.layer(layer).name; });
}
const char* temper_nv_layer_type(temper_nv_network* network, int32_t layer) {
  return told(network, [&](const nvinfer::Network& of) { return of.layer(layer).type; });
}
int32_t temper_nv_layer_set_name(temper_nv_network* network, int32_t layer, const char* name) {
  return changed(network, [&](nvinfer::Network& of) { of.rename_layer(layer, text_of(name)); });
}
int32_t temper_nv_layer_inputs(const temper_nv_network* network, int32_t layer) {
  return asked(network, -1, [&](const nvinfer::Network& of) { return int32_t(of.layer(layer).inputs.size()); });
}
int32_t temper_nv_layer_outputs(const temper_nv_network* network, int32_t layer) {
  return asked(network, -1, [&](const nvinfer::Network& of) { return int32_t(of.layer(layer).outputs.size()); });
}
int32_t temper_nv_layer_input(const temper_nv_network* network, int32_t layer, int32_t index) {
  return asked(network, -1, [&](const nvinfer::Network& of) { return at(of.layer(layer).inputs, index); });
}
int32_t temper_nv_layer_output(const temper_nv_network* network, int32_t layer, int32_t index) {
  return asked(network, -1, [&](const nvinfer::Network& of) { return at(of.layer(layer).outputs, index); });
}
int32_t temper_nv_layer_set_input(temper_nv_network* network, int32_t layer, int32_t index, int32_t tensor) {
  return changed(network, [&](nvinfer::Network& of) { of.set_input(layer, index, tensor); });
}
int32_t temper_nv_layer_set_ints(temper_nv_network* network, int32_t layer, const char* setting, const int64_t* values,
                                 int32_t count) {
  return changed(network, [&](nvinfer::Network& of) {
    of.set(layer, text_of(setting), std::vector<int64_t>(values, values + count));
  });
}
int32_t temper_nv_layer_set_reals(temper_nv_network* network, int32_t layer, const char* setting, const double* values,
                                  int32_t count) {
  return changed(network, [&](nvinfer::Network& of) {
    of.set(layer, text_of(setting), std::vector<double>(values, values + count));
  });
}
int32_t temper_nv_layer_set_text(temper_nv_network* network, int32_t layer, const char* setting, const char* text) {
  return changed(network, [&](nvinfer::Network& of) { of.set(layer, text_of(setting), std::string(text_of(text))); });
}
int32_t temper_nv_layer_set_weights(temper_nv_network* network, int32_t layer, const char* setting, int32_t dtype,
                                    const void* values, int64_t count) {
  return changed(network, [&](nvinfer::Network& of) { of.set(layer, text_of(setting), copied(dtype, values, count)); });
}
int32_t temper_nv_layer_reset(temper_nv_network* network, int32_t layer, const char* setting) {
  return changed(network, [&](nvinfer::Network& of) { of.reset(layer, text_of(setting)); });
}
int32_t temper_nv_layer_ints(const temper_nv_network* network, int32_t layer, const char* setting, int64_t* values,
                             int32_t room) {
  return numbers_of(network, layer, setting, values, room);
}
int32_t temper_nv_layer_reals(const temper_nv_network* network, int32_t layer, const char* setting, double* values,
                              int32_t room) {
  return numbers_of(network, layer, setting, values, room);
}
const char* temper_nv_layer_text(temper_nv_network* network, int32_t layer, const char* setting) {
  const auto found = asked(network, std::optional<nvinfer::Setting>(),
                           [&](const nvinfer::Network& of) { return of.setting(layer, text_of(setting)); });
  const std::string* const text = found ? std::get_if<std::string>(&*found) : nullptr;
  return text ? (network->text = *text).c_str() : nullptr;
}
int32_t temper_nv_layer_weights(const temper_nv_network* network, int32_t layer, const char* setting, int32_t* dtype,
                                const void** values, int64_t* count) {
  return asked(network, 0, [&](const nvinfer::Network& of) {
    const auto found = of.setting(layer, text_of(setting));
    const Tensor* const tensor = found ? std::get_if<Tensor>(&*found) : nullptr;
    if (!tensor) return 0;
    *dtype = nvinfer::type_number(tensor->dtype());
    *values = tensor->raw().data();  // the layer has the same storage
    *count = tensor->count();
    return 1;
  });
}

int32_t temper_nv_tensor_describe(temper_nv_network* network, int32_t tensor, temper_nv_tensor* out) {
  *out = {};
  return or_else(network->logger, 0, [&] {
    const nvinfer::Network& of = network->network;
    network->text = of.tensor_name(tensor);
    out->name = network->text.c_str();
    out->is_input = of.is_input(tensor);
    out->rank = -1;
    const nvinfer::NetworkTensor seen = of.tensor(tensor);
    check_tensors({{seen.name, seen.dtype, seen.dims}});
    out->dtype = nvinfer::type_number(seen.dtype);
    put(seen.dims, out->dims, out->rank);
    return 1;
  });
}
const char* temper_nv_tensor_name(temper_nv_network* network, int32_t tensor) {
  return told(network, [&](const nvinfer::Network& of) { return of.tensor_name(tensor); });
}
int32_t temper_nv_tensor_is_input(const temper_nv_network* network, int32_t tensor) {
  return network->network.is_input(tensor);
}
int32_t temper_nv_tensor_is_output(const temper_nv_network* network, int32_t tensor) {
  return network->network.is_output(tensor);
}
int32_t temper_nv_tensor_set_name(temper_nv_network* network, int32_t tensor, const char* name) {
  return changed(network, [&](nvinfer::Network& of) { of.rename(tensor, text_of(name)); });
}
int32_t temper_nv_tensor_set_type(temper_nv_network* network, int32_t tensor, int32_t dtype) {
  return changed(network, [&](nvinfer::Network& of) {
    if (dtype < 0) of.reset_type(tensor);
    else of.set_type(tensor, type_from(dtype));
  });
}
int32_t temper_nv_tensor_is_type_set(const temper_nv_network* network, int32_t tensor) {
  return asked(network, 0, [&](const nvinfer::Network& of) { return int32_t(of.is_type_set(tensor)); });
}
int32_t temper_nv_tensor_set_dims(temper_nv_network* network, int32_t tensor, const int64_t* dims, int32_t rank) {
  return changed(network, [&](nvinfer::Network& of) {
    if (rank < 0 || rank > TEMPER_NV_MAX_DIMS) fail(ErrorKind::usage, "a tensor of ", rank, " dimensions");
    of.set_dims(tensor, Dims(dims, dims + rank));
  });
}
int32_t temper_nv_tensor_name_dim(temper_nv_network* network, int32_t tensor, int32_t axis, const char* name) {
  return changed(network, [&](nvinfer::Network& of) { of.name_dim(tensor, axis, text_of(name)); });
}
const char* temper_nv_tensor_dim_name(temper_nv_network* network, int32_t tensor, int32_t axis) {
  const char* const name = told(network, [&](const nvinfer::Network& of) { return of.dim_name(tensor, axis); });
  return name && *name ? name : nullptr;
}

temper_nv_timings* temper_nv_timings_new(const void* text, size_t size, temper_nv_log log) {
  auto cache = std::make_shared<SharedTimingCache>();
  if (text && size) {
    try {
      cache = std::make_shared<SharedTimingCache>(
          TimingCache::of_text(std::string_view(static_cast<const char*>(text), size)));
    } catch (const Error& error) {
      logger_of(log)(Severity::warning, concat("the timing cache is not used: ", error.what()));
    }
  }
  return new temper_nv_timings{std::move(cache)};
}
void temper_nv_timings_free(temper_nv_timings* timings) { delete timings; }
void temper_nv_timings_add(temper_nv_timings* timings, const temper_nv_timings* other) {
  timings->cache->add_all(other->cache->now());
}
temper_nv_bytes* temper_nv_timings_bytes(const temper_nv_timings* timings) {
  return new temper_nv_bytes{timings->cache->now().text()};
}

temper_nv_bytes* temper_nv_build(const temper_nv_network* network, const temper_nv_config* config, temper_nv_log log) {
  const nvinfer::Logger logger = logger_of(log);
  const KeepCurrentGpu kept;
  std::string plan = or_else(logger, std::string(), [&] {
    const nvinfer::Config asked = config_of(*config);
    return asked.refit ? nvinfer::build_refittable(network->network, asked, logger)
                       : nvinfer::build_serialized(network->network, asked, logger);
  });
  return plan.empty() ? nullptr : new temper_nv_bytes{std::move(plan)};
}

temper_nv_engine* temper_nv_engine_load(const void* plan, size_t size, const char* device, int32_t guarded,
                                        temper_nv_log log) {
  const nvinfer::Logger logger = logger_of(log);
  return or_else(logger, static_cast<temper_nv_engine*>(nullptr), [&]() -> temper_nv_engine* {
    if (!plan) fail(ErrorKind::usage, "the engine's bytes are null");
    const KeepCurrentGpu kept;
    const std::span bytes(static_cast<const std::byte*>(plan), size);
    auto engine = nvinfer::load(bytes, {}, logger);
    if (!engine) return nullptr;
    if (std::string_view(text_of(device)) == "cpu" && engine->device().gpu)
      fail(ErrorKind::usage, "the plan is for a GPU, and this program's memory is the host's: build it for the CPU");
    auto tensors = nvinfer::io_tensors(*engine);
    check_tensors(tensors);
    auto profiles = nvinfer::profiles_of(*engine);
    std::string refittable;
    if (nvinfer::parts_of(bytes)) refittable.assign(static_cast<const char*>(plan), size);
    std::string name = engine->info().model_name;
    const bool of_gpu = bool(engine->device().gpu);
    return new temper_nv_engine{std::make_shared<Current>(std::move(engine), std::move(refittable)),
                                std::move(name),
                                std::move(tensors),
                                std::move(profiles),
                                guarded != 0,
                                of_gpu};
  });
}
void temper_nv_engine_free(temper_nv_engine* engine) {
  const KeepCurrentGpu kept(engine && engine->of_gpu);
  delete engine;
}
int32_t temper_nv_engine_tensors(const temper_nv_engine* engine) { return int32_t(engine->tensors.size()); }
int32_t temper_nv_engine_tensor(const temper_nv_engine* engine, int32_t index, temper_nv_tensor* tensor) {
  return put_tensor(engine->tensors, index, tensor);
}
int32_t temper_nv_engine_index(const temper_nv_engine* engine, const char* name) {
  for (size_t i = 0; i < engine->tensors.size(); ++i)
    if (engine->tensors[i].name == text_of(name)) return int32_t(i);
  return -1;
}
int32_t temper_nv_engine_profiles(const temper_nv_engine* engine) { return int32_t(engine->profiles.size()); }
int32_t temper_nv_engine_profile_shape(const temper_nv_engine* engine, const char* name, int32_t profile, int32_t which,
                                       int64_t dims[TEMPER_NV_MAX_DIMS], int32_t* rank) {
  if (profile < 0 || size_t(profile) >= engine->profiles.size() || which < 0 || which > 2) return 0;
  const auto& ranges = engine->profiles[size_t(profile)];
  const auto it = ranges.find(text_of(name));
  if (it == ranges.end()) return 0;
  put(which == 0 ? it->second.min : which == 1 ? it->second.opt : it->second.max, dims, *rank);
  return 1;
}
int32_t temper_nv_engine_layers(const temper_nv_engine* engine) {
  return nvinfer::Inspector(engine->current->engine()).layers();
}
const char* temper_nv_engine_name(const temper_nv_engine* engine) { return engine->name.c_str(); }
temper_nv_bytes* temper_nv_engine_bytes(const temper_nv_engine* engine, temper_nv_log log) {
  return or_else(logger_of(log), static_cast<temper_nv_bytes*>(nullptr), [&] {
    std::string refittable = engine->current->refittable();
    if (!refittable.empty()) return new temper_nv_bytes{std::move(refittable)};
    return new temper_nv_bytes{plan_bytes_of(*engine->current->engine())};
  });
}
int32_t temper_nv_engine_is_refittable(const temper_nv_engine* engine) {
  return !engine->current->refittable().empty();
}

temper_nv_refitter* temper_nv_refitter_new(temper_nv_engine* engine, temper_nv_log log) {
  nvinfer::Logger logger = logger_of(log);
  return or_else(logger, static_cast<temper_nv_refitter*>(nullptr), [&] {
    const std::string bytes = engine->current->refittable();
    return new temper_nv_refitter{engine->current, nvinfer::Refitter(std::as_bytes(std::span(bytes))), logger};
  });
}
void temper_nv_refitter_free(temper_nv_refitter* refitter) { delete refitter; }
int32_t temper_nv_refitter_weights(const temper_nv_refitter* refitter, int32_t index, temper_nv_weights* out) {
  const auto& all = refitter->refitter.all();
  if (index < 0 || size_t(index) >= all.size()) return 0;
  const nvinfer::RefitWeights& of = all[size_t(index)];
  *out = {of.name.c_str(), of.layer.c_str(), of.role, nvinfer::type_number(of.dtype), of.count};
  return 1;
}
int32_t temper_nv_refitter_set(temper_nv_refitter* refitter, const char* name, int32_t dtype, const void* values,
                               int64_t count) {
  return or_else(refitter->logger, 0, [&] {
    refitter->refitter.set(text_of(name), copied(dtype, values, count));
    return 1;
  });
}
int32_t temper_nv_refitter_run(temper_nv_refitter* refitter) {
  return or_else(refitter->logger, 0, [&] {
    const KeepCurrentGpu kept;
    std::string bytes = refitter->refitter.build(refitter->logger);
    if (bytes.empty()) return 0;
    auto engine = nvinfer::load(std::as_bytes(std::span(bytes)), {}, refitter->logger);
    if (!engine) return 0;
    refitter->current->replace(std::move(engine), std::move(bytes));
    return 1;
  });
}

namespace {

nvinfer::WorkMemory memory_of(const temper_nv_memory& asked, bool guarded) {
  return {[asked, guarded](int64_t bytes, int64_t alignment) {
            void* const given = asked.allocate(asked.self, uint64_t(bytes), uint64_t(alignment));
            if (given && guarded && !nvinfer::is_host_device(given, size_t(bytes))) {
              asked.release(asked.self, given);
              fail(ErrorKind::usage, "the program's allocator gave what is no device memory");
            }
            return reinterpret_cast<uintptr_t>(given);
          },
          [asked](uintptr_t memory) { asked.release(asked.self, nvinfer::at_address(memory)); }};
}

}  // namespace

temper_nv_context* temper_nv_context_new(const temper_nv_engine* engine, const temper_nv_memory* memory,
                                         temper_nv_log log) {
  const nvinfer::Logger logger = logger_of(log);
  const KeepCurrentGpu kept(engine->of_gpu);
  return or_else(logger, static_cast<temper_nv_context*>(nullptr), [&] {
    const int generation = engine->current->generation();
    auto work = memory ? std::make_shared<const nvinfer::WorkMemory>(memory_of(*memory, engine->guarded)) : nullptr;
    return new temper_nv_context{engine->current, generation,
                                 engine->tensors, logger,
                                 engine->guarded, nvinfer::Context(engine->current->engine(), logger, std::move(work))};
  });
}
void temper_nv_context_free(temper_nv_context* context) {
  const KeepCurrentGpu kept(context && context->context.of_gpu());
  delete context;
}
int32_t temper_nv_context_tensor(const temper_nv_context* context, int32_t index, temper_nv_tensor* tensor) {
  return put_tensor(context->tensors, index, tensor);
}
int32_t temper_nv_context_set_profile(temper_nv_context* context, int32_t profile) {
  return context->context.set_profile(profile);
}
int32_t temper_nv_context_profile(const temper_nv_context* context) { return context->context.profile(); }
int32_t temper_nv_context_set_shape(temper_nv_context* context, const char* name, const int64_t* dims, int32_t rank) {
  return context->context.set_input_shape(text_of(name), Dims(dims, dims + rank));
}
int32_t temper_nv_context_shape(const temper_nv_context* context, const char* name, int64_t dims[TEMPER_NV_MAX_DIMS],
                                int32_t* rank) {
  const auto shape = context->context.shape(text_of(name));
  if (!shape || shape->size() > TEMPER_NV_MAX_DIMS) return 0;
  put(*shape, dims, *rank);
  return 1;
}
int32_t temper_nv_context_without_shape(const temper_nv_context* context, const char** names, int32_t room) {
  int32_t count = 0;
  for (const std::string& missing : context->context.inputs_without_shape()) {
    for (const nvinfer::IoTensor& tensor : context->tensors)
      if (names && count < room && tensor.name == missing) names[count] = tensor.name.c_str();
    ++count;
  }
  return count;
}
int32_t temper_nv_context_set_address(temper_nv_context* context, const char* name, const void* address) {
  return context->context.set_address(text_of(name), reinterpret_cast<uintptr_t>(address));
}
void* temper_nv_context_address(const temper_nv_context* context, const char* name) {
  return nvinfer::at_address(context->context.address(text_of(name)));
}
int32_t temper_nv_context_run(temper_nv_context* context, void* stream, int32_t waits) {
  return or_else(context->logger, 0, [&] {
    const KeepCurrentGpu kept(context->context.of_gpu());
    if (const int now = context->current->generation(); now != context->generation) {  // it was refitted
      context->context.move_to(context->current->engine());
      context->generation = now;
    }
    if (context->guarded && context->context.inputs_without_shape().empty())
      for (const nvinfer::IoTensor& tensor : context->tensors) {
        if (context->allocated.contains(tensor.name)) continue;
        const uintptr_t at = context->context.address(tensor.name);
        int64_t bytes = size_of(tensor.dtype);  // of what depends on data: one element
        const auto shape = context->context.shape(tensor.name);
        if (shape && std::all_of(shape->begin(), shape->end(), [](int64_t dim) { return dim >= 0; }))
          for (int64_t dim : *shape) bytes *= dim;
        if (at) nvinfer::check_host_device(nvinfer::at_address(at), size_t(bytes), tensor.name);
      }
    return int(context->context.run(waits ? std::nullopt : std::optional(stream)));
  });
}

int32_t temper_nv_context_set_allocator(temper_nv_context* context, const char* name,
                                        const temper_nv_allocator* allocator) {
  auto asked = allocator ? std::make_shared<const nvinfer::OutputAllocator>(allocator_of(*allocator, context->guarded))
                         : std::shared_ptr<const nvinfer::OutputAllocator>();
  if (!context->context.set_output_allocator(text_of(name), std::move(asked))) return 0;
  if (allocator) context->allocated.insert(text_of(name));
  else context->allocated.erase(text_of(name));
  return 1;
}
int64_t temper_nv_context_max_output_bytes(const temper_nv_context* context, const char* name) {
  return context->context.max_output_bytes(text_of(name));
}
void temper_nv_context_set_layer_times(temper_nv_context* context, void* self,
                                       void (*told)(void* self, const char* layer, float ms)) {
  context->context.set_layer_times(
      told ? std::make_shared<const nvinfer::LayerTimes>(
                 [self, told](const std::string& layer, double ms) { told(self, layer.c_str(), float(ms)); })
           : nullptr);
}
void temper_nv_context_tell_layers_at_once(temper_nv_context* context, int32_t at_once) {
  context->context.set_layers_told_at_once(at_once != 0);
}
int32_t temper_nv_context_report_layers(temper_nv_context* context) {
  return or_else(context->logger, 0, [&] { return int(context->context.report_layers()); });
}

temper_nv_inspector* temper_nv_inspector_new(const temper_nv_engine* engine, temper_nv_log log) {
  return new temper_nv_inspector{nvinfer::Inspector(engine->current->engine()), logger_of(log), {}};
}
void temper_nv_inspector_free(temper_nv_inspector* inspector) { delete inspector; }
const char* temper_nv_inspector_describe(temper_nv_inspector* inspector, const temper_nv_context* context,
                                         int32_t layer, int32_t format) {
  std::vector<Dims> shapes;
  if (context && context->context.inputs_without_shape().empty())
    for (const nvinfer::IoTensor& tensor : context->tensors)
      if (tensor.is_input) shapes.push_back(*context->context.shape(tensor.name));
  const auto form = nvinfer::InformationFormat(format);
  inspector->text = layer < 0 ? inspector->inspector.engine_information(shapes, form, inspector->logger)
                              : inspector->inspector.layer_information(layer, shapes, form, inspector->logger);
  return inspector->text.c_str();
}

void* temper_nv_host_allocate(size_t size, int32_t pinned) { return nvinfer::allocate_host(size, pinned != 0); }
int32_t temper_nv_host_free(void* memory, int32_t pinned, size_t* beyond) {
  const auto found = nvinfer::free_host(memory, pinned != 0);
  *beyond = found.value_or(0);
  return found.has_value();
}
namespace {

// 0 where it throws: what is wrong is CUDA's "invalid argument".
template <class Does>
int32_t done(Does&& does) {
  try {
    does();
    return 1;
  } catch (const Error&) { return 0; }
}

}  // namespace

int32_t temper_nv_host_copy(void* to, int32_t to_end, const void* from, int32_t from_end, size_t size) {
  return done([&] { nvinfer::copy_host(to, nvinfer::CopyEnd(to_end), from, nvinfer::CopyEnd(from_end), size); });
}
int32_t temper_nv_host_set(void* memory, int32_t value, size_t size) {
  return done([&] { nvinfer::set_host(memory, value, size); });
}
