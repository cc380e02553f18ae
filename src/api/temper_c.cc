// SPDX-License-Identifier: Apache-2.0
// The public C API without building: it must not pull the importer into programs that only run plans.
#include <algorithm>

#include "api/handle.h"
#include "base/log.h"
#include "base/string_table.h"
#include "base/version.h"
#include "graph/strings.h"
#include "runtime/independent.h"

using temper::concat;
using temper::Dims;
using temper::DType;
using temper::ErrorKind;
using temper::fail;
using temper::KeepCurrentGpu;
using temper::c_api::expect;
using temper::c_api::guarded;
using temper::c_api::Port;

#define SAME_DTYPE(c, cc) static_assert(int(TEMPER_##c) == int(DType::cc))
SAME_DTYPE(F32, f32);
SAME_DTYPE(F16, f16);
SAME_DTYPE(BF16, bf16);
SAME_DTYPE(F64, f64);
SAME_DTYPE(I8, i8);
SAME_DTYPE(U8, u8);
SAME_DTYPE(I16, i16);
SAME_DTYPE(U16, u16);
SAME_DTYPE(I32, i32);
SAME_DTYPE(U32, u32);
SAME_DTYPE(I64, i64);
SAME_DTYPE(U64, u64);
SAME_DTYPE(BOOL, boolean);
SAME_DTYPE(F8E4M3FN, f8e4m3fn);
SAME_DTYPE(F8E4M3FNUZ, f8e4m3fnuz);
SAME_DTYPE(F8E5M2, f8e5m2);
SAME_DTYPE(F8E5M2FNUZ, f8e5m2fnuz);
SAME_DTYPE(F8E8M0, f8e8m0);
SAME_DTYPE(F4E2M1, f4e2m1);
SAME_DTYPE(I4, i4);
SAME_DTYPE(U4, u4);
SAME_DTYPE(I2, i2);
SAME_DTYPE(U2, u2);
SAME_DTYPE(STRING, string);
#undef SAME_DTYPE
static_assert(int(TEMPER_STRING) + 1 == temper::kAllDTypeCount);
static_assert(sizeof(const char*) == size_t(temper::size_of(DType::string)));
static_assert(int(TEMPER_CHECK_FAILED) == int(ErrorKind::check_failed) && int(TEMPER_USAGE) == int(ErrorKind::usage) &&
              int(TEMPER_BAD_FILE) == int(ErrorKind::bad_file) &&
              int(TEMPER_UNSUPPORTED) == int(ErrorKind::unsupported) && int(TEMPER_MACHINE) == int(ErrorKind::machine));
static_assert(int(TEMPER_DEBUG) == int(temper::LogLevel::debug) && int(TEMPER_INFO) == int(temper::LogLevel::info) &&
              int(TEMPER_WARNING) == int(temper::LogLevel::warning));

namespace {

thread_local std::string error_text;
thread_local const char* last_error = "";

struct LogSink {
  temper_log_callback callback = nullptr;
  void* context = nullptr;
};
LogSink log_sink;

void to_log_sink(temper::LogLevel level, std::string_view message) {
  log_sink.callback(temper_log_level(level), std::string(message).c_str(), log_sink.context);
}

std::vector<Port> ports_of(const std::vector<temper::PortInfo>& infos) {
  std::vector<Port> ports;
  for (const temper::PortInfo& info : infos) {
    Port port{info.name, temper_dtype(info.type.dtype), {}};
    for (const temper::Dim& dim : info.type.shape) port.dims.push_back(dim.is_constant() ? dim.value() : -1);
    ports.push_back(std::move(port));
  }
  return ports;
}

temper_status port_at(const temper_engine* engine, std::vector<Port> temper_engine::* ports, size_t index,
                      temper_port* port) {
  return guarded([&] {
    expect(engine, "the engine");
    expect(port, "the place for the port");
    const std::vector<Port>& list = engine->*ports;
    if (index >= list.size()) fail(ErrorKind::usage, "there is no port ", index, "; the engine has ", list.size());
    *port = {list[index].name.c_str(), list[index].dtype, list[index].dims.size(), list[index].dims.data()};
  });
}

bool is_dtype(temper_dtype dtype) { return int(dtype) >= 0 && int(dtype) < temper::kAllDTypeCount; }

void check_tensor(const char* role, const temper::PortInfo& port, const temper_tensor& tensor) {
  if (!is_dtype(tensor.dtype))
    fail(ErrorKind::usage, role, " '", port.name, "' has a dtype that does not exist: ", int(tensor.dtype));
  if (DType(tensor.dtype) != port.type.dtype)
    fail(ErrorKind::usage, role, " '", port.name, "' was given ", DType(tensor.dtype), "; expected is ", port.type);
  if (tensor.rank > size_t(temper::kMaxRank))
    fail(ErrorKind::usage, role, " '", port.name, "' has ", tensor.rank, " dimensions; expected is ", port.type);
  if (tensor.rank) expect(tensor.dims, concat("dims of the ", role, " '", port.name, "'"));
}

// Checks what is said about the inputs; the engine itself checks their number and shapes.
void shapes_of(const temper::Engine& engine, const temper_tensor* inputs, size_t count, std::vector<Dims>& shapes,
               std::span<const char> given = {}) {
  const auto& ports = engine.inputs();
  if (count) expect(inputs, "the list of inputs");
  shapes.resize(std::min(count, ports.size()));
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (!given.empty() && !given[i]) continue;
    check_tensor("input", ports[i], inputs[i]);
    shapes[i].assign(inputs[i].dims, inputs[i].dims + inputs[i].rank);
  }
  if (count > ports.size()) fail(ErrorKind::usage, count, " inputs were given; the engine has ", ports.size());
}

[[noreturn]] void refuse_strings() {
  fail(ErrorKind::unsupported, "strings are taken and given by temper_session_run alone");
}

temper::DeviceSettings settings_of(const temper_load_options* options) {
  temper::DeviceSettings settings;
  if (options) settings.cuda_context = options->cuda_context;
  return settings;
}

std::string device_of(const temper_load_options* options) { return options && options->device ? options->device : ""; }

}  // namespace

void temper::c_api::remember_error(const char* message) noexcept {
  try {
    error_text = message;
    last_error = error_text.c_str();
  } catch (const std::bad_alloc&) { last_error = "out of memory"; }
}

// Where the elements of a tensor without any lie.
static const char kNoElements = 0;

std::vector<temper::Tensor> temper::c_api::tensors_of(const temper::Engine& engine, const temper_tensor* inputs) {
  std::vector<Dims> shapes;
  shapes_of(engine, inputs, engine.inputs().size(), shapes);
  engine.check_shapes(shapes);
  std::vector<temper::Tensor> tensors;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (engine.inputs()[i].type.dtype == DType::string) refuse_strings();
    const void* data = inputs[i].data;
    if (!data && temper::element_count(shapes[i]) == 0) data = &kNoElements;
    expect(data, concat("data of the input '", engine.inputs()[i].name, "'"));
    tensors.push_back(temper::Tensor::view(DType(inputs[i].dtype), shapes[i], data));
  }
  return tensors;
}

temper_engine::temper_engine(std::shared_ptr<const temper::Engine> built)
    : engine(std::move(built)), inputs(ports_of(engine->inputs())), outputs(ports_of(engine->outputs())) {
  const temper::EngineInfo& info = engine->info();
  const auto take = [&](const std::map<std::string, temper::ShapeRange>& by_name) {
    auto& ranges = profiles.emplace_back();
    for (const Port& input : inputs) {
      const auto it = by_name.find(input.name);
      ranges.push_back(it == by_name.end() ? temper::ShapeRange{input.dims, input.dims, input.dims} : it->second);
    }
  };
  for (const auto& profile : info.profiles) take(profile);
  if (profiles.empty()) take(info.shapes);
  for (const auto& plan : engine->plans()) buckets.push_back(ports_of(plan->inputs));
  std::sort(buckets.begin(), buckets.end(), [](const std::vector<Port>& a, const std::vector<Port>& b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                        [](const Port& x, const Port& y) { return x.dims < y.dims; });
  });
}

struct temper_session {
  explicit temper_session(std::shared_ptr<const temper::Engine> engine) : session(std::move(engine)) {}

  void expect_idle() const {
    if (enqueued) fail(ErrorKind::usage, "a run was enqueued: temper_session_wait must come first");
  }

  // A state's input without data takes what the last run left, whose dimensions nobody has to know.
  void prepare(const temper_tensor* inputs, size_t count) {
    expect_idle();
    finished = false;
    given.assign(count, 1);
    if (!session.states().empty() && count) expect(inputs, "the list of inputs");
    for (const temper::State& state : session.states())
      if (state.input < count && !inputs[state.input].data) given[state.input] = 0;
    shapes_of(session.engine(), inputs, count, shapes, given);
    if (!session.states().empty() && count == session.engine().inputs().size()) session.add_state_shapes(given, shapes);
    types = session.prepare(shapes);
  }

  const temper::State* state_of_output(size_t index) const {
    for (const temper::State& state : session.states())
      if (state.output == index) return &state;
    return nullptr;
  }

  DType types_in(size_t input) const { return session.engine().inputs()[input].type.dtype; }
  void expect_no_strings() const {
    const auto has = [](const std::vector<temper::PortInfo>& ports) {
      return std::any_of(ports.begin(), ports.end(), [](const auto& port) { return port.type.dtype == DType::string; });
    };
    if (has(session.engine().inputs()) || has(session.engine().outputs())) refuse_strings();
  }

  // The codes of an input's strings, in a table that holds those of one run.
  const void* codes_of(const temper_tensor& input, size_t index) {
    codes.resize(std::max(codes.size(), index + 1));
    codes[index].clear();
    const auto* const texts = static_cast<const char* const*>(input.data);
    for (int64_t i = 0; i < temper::element_count(shapes[index]); ++i) {
      expect(texts[i], concat("string ", i, " of the input '", session.engine().inputs()[index].name, "'"));
      codes[index].push_back(strings.code_of(texts[i]));
    }
    return codes[index].empty() ? static_cast<const void*>(&kNoElements) : codes[index].data();
  }
  const void* addresses_of(const temper::Tensor& output, size_t index) const {
    addresses.resize(std::max(addresses.size(), index + 1));
    addresses[index].clear();
    for (uint64_t code : temper::codes_of(output)) addresses[index].push_back(strings.at(code).data());
    return addresses[index].empty() ? static_cast<const void*>(&kNoElements) : addresses[index].data();
  }

  void take(const temper_tensor* inputs, size_t count) {
    prepare(inputs, count);
    strings.clear();
    from.clear();
    for (size_t i = 0; i < count; ++i) {
      from.push_back(inputs[i].data);
      if (!given[i]) continue;
      if (from.back() && types_in(i) == DType::string) from.back() = codes_of(inputs[i], i);
      if (from.back()) continue;
      if (temper::element_count(shapes[i]) == 0) from.back() = &kNoElements;
      expect(from.back(), concat("data of the input '", session.engine().inputs()[i].name, "'"));
    }
  }

  void run(const temper_tensor* inputs, size_t count) {
    const temper::UseStrings used(strings);
    take(inputs, count);
    if (session.is_partitioned()) {
      run_partitioned(inputs, count);
    } else {
      own_outputs();
      session.run_prepared(from, to);
    }
    foreign = false;
    finished = true;
  }

  void run_partitioned(const temper_tensor* inputs, size_t count) {
    std::vector<temper::Tensor> tensors;
    for (size_t i = 0; i < count; ++i)
      tensors.push_back(given[i] ? temper::Tensor::view(DType(inputs[i].dtype), shapes[i], from[i]) : temper::Tensor());
    outputs = session.run(tensors);
  }

  // Memory of outputs is kept from run to run while their shapes stay.
  void own_outputs() {
    outputs.resize(types.size());
    to.clear();
    for (size_t i = 0; i < types.size(); ++i) {
      if (state_of_output(i)) outputs[i] = {};  // it is asked for when somebody wants it
      else if (!outputs[i].defined() || foreign || outputs[i].type() != types[i])
        outputs[i] = temper::Tensor(types[i].dtype, types[i].dims());
      to.push_back(outputs[i].raw_mutable());
    }
  }

  void enqueue(const temper_tensor* inputs, size_t count, const temper_tensor* results, size_t result_count) {
    expect_no_strings();
    take(inputs, count);
    const bool into = result_count != 0;
    to.clear();
    if (into) take_outputs(results, result_count);
    if (session.is_partitioned()) {
      run_partitioned(inputs, count);
      for (size_t i = 0; into && i < outputs.size(); ++i) put_into(results[i], i);
    } else {
      if (!into) own_outputs();
      session.start_prepared(from, to);
      if (into) outputs.clear();
      for (size_t i = 0; into && i < types.size(); ++i)
        outputs.push_back(to[i] ? temper::Tensor::view(types[i].dtype, types[i].dims(), to[i]) : temper::Tensor());
    }
    foreign = into && !session.is_partitioned();
    enqueued = true;
  }

  // Of a model whose shapes depend on data: what they are is known now.
  void put_into(const temper_tensor& result, size_t index) {
    const temper::Tensor& output = outputs[index];
    if (!output.defined()) return;  // state
    const Dims dims(result.dims, result.dims + result.rank);
    if (dims != output.dims())
      fail(ErrorKind::usage, "output '", session.engine().outputs()[index].name, "' was given the shape ", dims,
           "; the run gave ", output.dims());
    std::copy(output.raw().begin(), output.raw().end(), static_cast<std::byte*>(to[index]));
  }

  void wait() {
    if (!enqueued) fail(ErrorKind::usage, "there is no run to wait for: temper_session_enqueue comes first");
    enqueued = false;
    session.finish();
    finished = true;
  }

  void run_on_device(const temper_tensor* inputs, size_t count, const temper_device_run& how) {
    session.stream();  // refuses other devices
    expect_no_strings();
    take(inputs, count);
    to.clear();
    if (how.output_count) take_outputs(how.outputs, how.output_count);
    const auto results = session.run_resident(from, to, how.in_stream ? std::optional(how.stream) : std::nullopt);
    outputs.clear();
    for (size_t i = 0; i < types.size(); ++i)
      outputs.push_back(temper::Tensor::view(types[i].dtype, types[i].dims(), results[i]));
    finished = foreign = true;
  }

  // Addresses to write to, which are to hold what prepare() found.
  void take_outputs(const temper_tensor* list, size_t count) {
    expect(list, "the list of outputs");
    const auto& ports = session.engine().outputs();
    if (count != ports.size()) fail(ErrorKind::usage, count, " outputs were given; the engine has ", ports.size());
    for (size_t i = 0; i < count; ++i) {
      if (state_of_output(i)) {
        if (list[i].data)
          fail(ErrorKind::usage, "the output '", ports[i].name,
               "' is state and stays in the session: its data is NULL");
        to.push_back(nullptr);
        continue;
      }
      check_tensor("output", ports[i], list[i]);
      const Dims dims(list[i].dims, list[i].dims + list[i].rank);
      if (!session.is_partitioned() && dims != types[i].dims())
        fail(ErrorKind::usage, "output '", ports[i].name, "' was given the shape ", dims, "; for these inputs it is ",
             types[i].dims());
      expect(list[i].data, concat("data of the output '", ports[i].name, "'"));
      to.push_back(const_cast<void*>(list[i].data));
    }
  }

  bool of_gpu() const { return temper::c_api::is_gpu(session.engine().info().device); }

  mutable temper::Session session;
  std::vector<char> given;  // by input: not left to the state
  std::vector<Dims> shapes;
  std::vector<temper::TensorType> types;
  std::vector<const void*> from;
  std::vector<void*> to;
  temper::StringTable strings;  // of the last run
  std::vector<std::vector<uint64_t>> codes;
  mutable std::vector<temper::Tensor> outputs;
  mutable std::vector<std::vector<const char*>> addresses;  // of outputs that are strings
  bool finished = false;                                    // `outputs` are those of the last call
  bool foreign = false;   // and lie in memory that is not the session's: the device's, or the caller's
  bool enqueued = false;  // a run that nobody waited for
};

extern "C" {

const char* temper_version(void) {
  static const std::string text(temper::version());
  return text.c_str();
}

const char* temper_last_error(void) { return last_error; }

size_t temper_dtype_size(temper_dtype dtype) { return is_dtype(dtype) ? size_t(temper::size_of(DType(dtype))) : 0; }

void temper_set_log_callback(temper_log_callback callback, void* context) {
  temper::set_log_callback(nullptr);
  log_sink = {callback, context};
  if (callback) temper::set_log_callback(to_log_sink);
}

temper_status temper_engine_load(const char* plan_path, temper_engine** engine) {
  return temper_engine_load_with(plan_path, nullptr, engine);
}

temper_status temper_engine_load_with(const char* plan_path, const temper_load_options* options,
                                      temper_engine** engine) {
  return guarded([&] {
    expect(plan_path, "the path of the plan");
    expect(engine, "the place for the engine");
    const KeepCurrentGpu kept;
    *engine = new temper_engine(temper::Engine::load(
        plan_path,
        {.settings = settings_of(options), .map_file = options && options->map_file, .device = device_of(options)}));
  });
}

temper_status temper_engine_load_bytes(const void* plan, size_t size, const temper_load_options* options,
                                       temper_engine** engine) {
  return guarded([&] {
    expect(plan, "the plan");
    expect(engine, "the place for the engine");
    if (options && options->map_file)
      fail(ErrorKind::usage, "map_file is for a file; a plan in memory is always copied");
    const KeepCurrentGpu kept;
    *engine = new temper_engine(temper::Engine::from_bytes({static_cast<const std::byte*>(plan), size},
                                                           settings_of(options), device_of(options)));
  });
}

const void* temper_bytes_data(const temper_bytes* bytes) { return bytes ? bytes->bytes.data() : nullptr; }
size_t temper_bytes_size(const temper_bytes* bytes) { return bytes ? bytes->bytes.size() : 0; }
void temper_bytes_free(temper_bytes* bytes) { delete bytes; }

temper_status temper_engine_save_bytes(const temper_engine* engine, temper_bytes** plan) {
  return guarded([&] {
    expect(engine, "the engine");
    expect(plan, "the place for the plan");
    *plan = new temper_bytes{temper::plan_bytes_of(*engine->engine)};
  });
}

temper_status temper_engine_describe(const temper_engine* engine, temper_bytes** json) {
  return guarded([&] {
    expect(engine, "the engine");
    expect(json, "the place for the description");
    *json = new temper_bytes{temper::description_of(*engine->engine, {.layers = true, .graph = false, .why = ""})};
  });
}

temper_status temper_engine_output_dims(const temper_engine* engine, const temper_tensor* inputs, size_t count,
                                        size_t index, int64_t* dims) {
  return guarded([&] {
    expect(engine, "the engine");
    if (index >= engine->outputs.size())
      fail(ErrorKind::usage, "there is no output ", index, "; the engine has ", engine->outputs.size());
    if (!engine->outputs[index].dims.empty()) expect(dims, "the place for the dimensions");
    std::vector<Dims> shapes;
    shapes_of(*engine->engine, inputs, count, shapes);
    const temper::Shape shape = engine->engine->output_types(shapes)[index].shape;
    for (size_t i = 0; i < shape.size(); ++i) dims[i] = shape[i].is_constant() ? shape[i].value() : -1;
  });
}

temper_status temper_engine_set_limits(temper_engine* engine, const temper_shape_limits* limits) {
  return guarded([&] {
    expect(engine, "the engine");
    expect(limits, "the limits");
    temper::ShapeLimits all;
    const auto take = [](int64_t& to, int64_t from) { to = from == 0 ? to : from; };
    take(all.plans, limits->plans);
    take(all.plan_bytes, limits->plan_bytes);
    take(all.prepared, limits->prepared);
    take(all.prepared_bytes, limits->prepared_bytes);
    engine->engine->set_limits(all);
  });
}

temper_status temper_engine_read_statistics(const temper_engine* engine, temper_engine_statistics* statistics) {
  return guarded([&] {
    expect(engine, "the engine");
    expect(statistics, "the place for the statistics");
    const temper::EngineStatistics now = engine->engine->statistics();
    *statistics = {now.plans, now.plan_bytes, now.plans_made, now.evictions};
  });
}

temper_status temper_engine_save(const temper_engine* engine, const char* plan_path) {
  return guarded([&] {
    expect(engine, "the engine");
    expect(plan_path, "the path of the plan");
    temper::save_engine(*engine->engine, plan_path);
  });
}

temper_status temper_engine_save_over(const temper_engine* engine, const char* plan_path) {
  return guarded([&] {
    expect(engine, "the engine");
    expect(plan_path, "the path of the plan");
    temper::save_engine(*engine->engine, plan_path, true);
  });
}

void temper_engine_free(temper_engine* engine) {
  const KeepCurrentGpu kept(engine && engine->of_gpu());
  delete engine;
}

size_t temper_engine_input_count(const temper_engine* engine) { return engine ? engine->inputs.size() : 0; }
size_t temper_engine_output_count(const temper_engine* engine) { return engine ? engine->outputs.size() : 0; }
temper_status temper_engine_input(const temper_engine* engine, size_t index, temper_port* port) {
  return port_at(engine, &temper_engine::inputs, index, port);
}
temper_status temper_engine_output(const temper_engine* engine, size_t index, temper_port* port) {
  return port_at(engine, &temper_engine::outputs, index, port);
}

temper_status temper_engine_read_info(const temper_engine* engine, temper_engine_info* info) {
  return guarded([&] {
    expect(engine, "the engine");
    expect(info, "the place for the info");
    const temper::EngineInfo& its = engine->engine->info();
    *info = {its.device.c_str(), its.fingerprint.c_str(), engine->engine->threads(), engine->profiles.size(),
             engine->buckets.size()};
  });
}

temper_status temper_engine_profile(const temper_engine* engine, size_t profile, size_t input,
                                    temper_shape_range* range) {
  return guarded([&] {
    expect(engine, "the engine");
    expect(range, "the place for the range");
    if (profile >= engine->profiles.size())
      fail(ErrorKind::usage, "there is no profile ", profile, "; the engine has ", engine->profiles.size());
    if (input >= engine->inputs.size())
      fail(ErrorKind::usage, "there is no port ", input, "; the engine has ", engine->inputs.size());
    const temper::ShapeRange& its = engine->profiles[profile][input];
    *range = {engine->inputs[input].name.c_str(), its.min.size(), its.min.data(), its.opt.data(), its.max.data()};
  });
}

temper_status temper_engine_bucket(const temper_engine* engine, size_t bucket, size_t input, temper_port* port) {
  return guarded([&] {
    expect(engine, "the engine");
    expect(port, "the place for the port");
    if (bucket >= engine->buckets.size())
      fail(ErrorKind::usage, "there is no bucket ", bucket, "; the engine has ", engine->buckets.size());
    const std::vector<Port>& list = engine->buckets[bucket];
    if (input >= list.size()) fail(ErrorKind::usage, "there is no port ", input, "; the engine has ", list.size());
    *port = {list[input].name.c_str(), list[input].dtype, list[input].dims.size(), list[input].dims.data()};
  });
}

temper_status temper_engine_samples_are_independent(const temper_engine* engine, int* independent) {
  return guarded([&] {
    expect(engine, "the engine");
    expect(independent, "the place for the answer");
    *independent = temper::samples_are_independent(*engine->engine);
  });
}

temper_status temper_session_create(const temper_engine* engine, temper_session** session) {
  return guarded([&] {
    expect(engine, "the engine");
    expect(session, "the place for the session");
    const KeepCurrentGpu kept(engine->of_gpu());
    *session = new temper_session(engine->engine);
  });
}

void temper_session_free(temper_session* session) {
  const KeepCurrentGpu kept(session && session->of_gpu());
  delete session;
}

temper_status temper_session_keep_state(temper_session* session, const temper_state* states, size_t count) {
  return guarded([&] {
    expect(session, "the session");
    if (count) expect(states, "the list of states");
    std::vector<temper::StateBinding> bindings;
    for (size_t i = 0; i < count; ++i) {
      expect(states[i].input, concat("the input of state ", i));
      expect(states[i].output, concat("the output of state ", i));
      bindings.push_back({states[i].input, states[i].output});
    }
    session->expect_idle();
    const KeepCurrentGpu kept(session->of_gpu());
    session->session.keep_state(bindings);
    session->finished = false;
  });
}

temper_status temper_session_reset_state(temper_session* session) {
  return guarded([&] {
    expect(session, "the session");
    session->expect_idle();
    session->session.reset_state();
  });
}

temper_status temper_session_fork(temper_session* session, temper_session** fork) {
  return guarded([&] {
    expect(session, "the session");
    expect(fork, "the place for the session");
    session->expect_idle();
    const KeepCurrentGpu kept(session->of_gpu());
    auto made = std::make_unique<temper_session>(session->session.shared_engine());
    made->session.copy_states(session->session);
    *fork = made.release();
  });
}

temper_status temper_session_read_statistics(const temper_session* session, temper_session_statistics* statistics) {
  return guarded([&] {
    expect(session, "the session");
    expect(statistics, "the place for the statistics");
    const temper::SessionStatistics now = session->session.statistics();
    *statistics = {now.runs, now.plans_made, now.prepared, now.prepared_bytes, now.evictions};
  });
}

temper_status temper_session_prepare(temper_session* session, const temper_tensor* inputs, size_t count) {
  return guarded([&] {
    expect(session, "the session");
    const KeepCurrentGpu kept(session->of_gpu());
    session->prepare(inputs, count);
  });
}

temper_status temper_session_run(temper_session* session, const temper_tensor* inputs, size_t count) {
  return guarded([&] {
    expect(session, "the session");
    const KeepCurrentGpu kept(session->of_gpu());
    session->run(inputs, count);
  });
}

temper_status temper_session_input(temper_session* session, size_t index, void** data) {
  return guarded([&] {
    expect(session, "the session");
    expect(data, "the place for the address");
    session->expect_idle();
    const KeepCurrentGpu kept(session->of_gpu());
    session->expect_no_strings();
    *data = session->session.input_memory(index);
  });
}

temper_status temper_session_enqueue(temper_session* session, const temper_tensor* inputs, size_t count,
                                     const temper_tensor* outputs, size_t output_count) {
  return guarded([&] {
    expect(session, "the session");
    const KeepCurrentGpu kept(session->of_gpu());
    session->enqueue(inputs, count, outputs, output_count);
  });
}

temper_status temper_session_wait(temper_session* session) {
  return guarded([&] {
    expect(session, "the session");
    const KeepCurrentGpu kept(session->of_gpu());
    session->wait();
  });
}

temper_status temper_session_run_on_device(temper_session* session, const temper_tensor* inputs, size_t count) {
  return temper_session_run_on_device_with(session, inputs, count, nullptr);
}

temper_status temper_session_run_on_device_with(temper_session* session, const temper_tensor* inputs, size_t count,
                                                const temper_device_run* how) {
  return guarded([&] {
    expect(session, "the session");
    const KeepCurrentGpu kept(session->of_gpu());
    session->run_on_device(inputs, count, how ? *how : temper_device_run{});
  });
}

temper_status temper_session_stream(temper_session* session, void** stream) {
  return guarded([&] {
    expect(session, "the session");
    expect(stream, "the place for the stream");
    *stream = session->session.stream();
  });
}

temper_status temper_session_copy(temper_session* session, void* to, const void* from, size_t bytes,
                                  temper_copy_direction direction) {
  return guarded([&] {
    expect(session, "the session");
    session->expect_idle();
    if (bytes == 0) return;
    expect(to, "the place to copy to");
    expect(from, "what is to be copied");
    const KeepCurrentGpu kept(session->of_gpu());
    switch (direction) {
      case TEMPER_TO_HOST: return session->session.copy_to_host(to, from, int64_t(bytes));
      case TEMPER_TO_DEVICE: return session->session.copy_to_device(to, from, int64_t(bytes));
      case TEMPER_ON_DEVICE: return session->session.copy_on_device(to, from, int64_t(bytes));
    }
    fail(ErrorKind::usage, "there is no direction ", int(direction));
  });
}

temper_status temper_session_output(const temper_session* session, size_t index, temper_tensor* output) {
  return guarded([&] {
    expect(session, "the session");
    expect(output, "the place for the output");
    if (!session->finished)
      fail(ErrorKind::usage, "there are no outputs: the session's last call was no run that succeeded");
    if (index >= session->outputs.size())
      fail(ErrorKind::usage, "there is no output ", index, "; the run gave ", session->outputs.size());
    temper::Tensor& tensor = session->outputs[index];
    if (const temper::State* state = session->state_of_output(index); state && !tensor.defined()) {
      const KeepCurrentGpu kept(session->of_gpu());
      tensor = session->session.state(state->input);
    }
    const bool is_string = tensor.dtype() == DType::string;
    const void* data = is_string ? session->addresses_of(tensor, index) : tensor.raw().data();
    *output = {temper_dtype(tensor.dtype()), tensor.dims().size(), tensor.dims().data(), data};
  });
}

}  // extern "C"
