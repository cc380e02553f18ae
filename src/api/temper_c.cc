// SPDX-License-Identifier: Apache-2.0
// The public C API without building: it must not pull the importer into programs that only run plans.
#include <algorithm>

#include "api/handle.h"
#include "base/log.h"
#include "base/version.h"

using temper::concat;
using temper::Dims;
using temper::DType;
using temper::ErrorKind;
using temper::fail;
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
#undef SAME_DTYPE
static_assert(int(TEMPER_BOOL) + 1 == temper::kDTypeCount);
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

bool is_dtype(temper_dtype dtype) { return int(dtype) >= 0 && int(dtype) < temper::kDTypeCount; }

}  // namespace

void temper::c_api::remember_error(const char* message) noexcept {
  try {
    error_text = message;
    last_error = error_text.c_str();
  } catch (const std::bad_alloc&) { last_error = "out of memory"; }
}

temper_engine::temper_engine(std::shared_ptr<const temper::Engine> built)
    : engine(std::move(built)), inputs(ports_of(engine->inputs())), outputs(ports_of(engine->outputs())) {}

struct temper_session {
  explicit temper_session(std::shared_ptr<const temper::Engine> engine) : session(std::move(engine)) {}

  // Checks what is said about the inputs; the session itself checks their number and shapes.
  void prepare(const temper_tensor* inputs, size_t count) {
    finished = false;
    const auto& ports = session.engine().inputs();
    if (count) expect(inputs, "the list of inputs");
    shapes.resize(std::min(count, ports.size()));
    for (size_t i = 0; i < shapes.size(); ++i) {
      const temper_tensor& input = inputs[i];
      if (!is_dtype(input.dtype))
        fail(ErrorKind::usage, "input '", ports[i].name, "' has a dtype that does not exist: ", int(input.dtype));
      if (DType(input.dtype) != ports[i].type.dtype)
        fail(ErrorKind::usage, "input '", ports[i].name, "' was given ", DType(input.dtype), "; expected is ",
             ports[i].type);
      if (input.rank > size_t(temper::kMaxRank))
        fail(ErrorKind::usage, "input '", ports[i].name, "' has ", input.rank, " dimensions; expected is ",
             ports[i].type);
      if (input.rank) expect(input.dims, concat("dims of the input '", ports[i].name, "'"));
      shapes[i].assign(input.dims, input.dims + input.rank);
    }
    if (count > ports.size()) fail(ErrorKind::usage, count, " inputs were given; the engine has ", ports.size());
    types = session.prepare(shapes);
  }

  void take(const temper_tensor* inputs, size_t count) {
    prepare(inputs, count);
    from.clear();
    for (size_t i = 0; i < count; ++i) {
      expect(inputs[i].data, concat("data of the input '", session.engine().inputs()[i].name, "'"));
      from.push_back(inputs[i].data);
    }
  }

  void run(const temper_tensor* inputs, size_t count) {
    take(inputs, count);
    if (session.is_partitioned()) {
      std::vector<temper::Tensor> tensors;
      for (size_t i = 0; i < count; ++i)
        tensors.push_back(temper::Tensor::view(DType(inputs[i].dtype), shapes[i], inputs[i].data));
      outputs = session.run(tensors);
    } else {
      // Memory of outputs is kept from run to run while their shapes stay.
      outputs.resize(types.size());
      to.clear();
      for (size_t i = 0; i < types.size(); ++i) {
        if (!outputs[i].defined() || resident || outputs[i].type() != types[i])
          outputs[i] = temper::Tensor(types[i].dtype, types[i].dims());
        to.push_back(outputs[i].raw_mutable());
      }
      session.run_prepared(from, to);
    }
    resident = false;
    finished = true;
  }

  void run_on_device(const temper_tensor* inputs, size_t count) {
    session.stream();  // refuses other devices
    take(inputs, count);
    const auto results = session.run_resident(from);
    outputs.clear();
    for (size_t i = 0; i < types.size(); ++i)
      outputs.push_back(temper::Tensor::view(types[i].dtype, types[i].dims(), results[i]));
    finished = resident = true;
  }

  temper::Session session;
  std::vector<Dims> shapes;
  std::vector<temper::TensorType> types;
  std::vector<const void*> from;
  std::vector<void*> to;
  std::vector<temper::Tensor> outputs;
  bool finished = false;  // `outputs` are those of the last call
  bool resident = false;  // and lie in the device's memory
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
    *engine = new temper_engine(temper::Engine::load(plan_path, {.map_file = options && options->map_file}));
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

void temper_engine_free(temper_engine* engine) { delete engine; }

size_t temper_engine_input_count(const temper_engine* engine) { return engine ? engine->inputs.size() : 0; }
size_t temper_engine_output_count(const temper_engine* engine) { return engine ? engine->outputs.size() : 0; }
temper_status temper_engine_input(const temper_engine* engine, size_t index, temper_port* port) {
  return port_at(engine, &temper_engine::inputs, index, port);
}
temper_status temper_engine_output(const temper_engine* engine, size_t index, temper_port* port) {
  return port_at(engine, &temper_engine::outputs, index, port);
}

temper_status temper_session_create(const temper_engine* engine, temper_session** session) {
  return guarded([&] {
    expect(engine, "the engine");
    expect(session, "the place for the session");
    *session = new temper_session(engine->engine);
  });
}

void temper_session_free(temper_session* session) { delete session; }

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
    session->prepare(inputs, count);
  });
}

temper_status temper_session_run(temper_session* session, const temper_tensor* inputs, size_t count) {
  return guarded([&] {
    expect(session, "the session");
    session->run(inputs, count);
  });
}

temper_status temper_session_run_on_device(temper_session* session, const temper_tensor* inputs, size_t count) {
  return guarded([&] {
    expect(session, "the session");
    session->run_on_device(inputs, count);
  });
}

temper_status temper_session_stream(temper_session* session, void** stream) {
  return guarded([&] {
    expect(session, "the session");
    expect(stream, "the place for the stream");
    *stream = session->session.stream();
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
    const temper::Tensor& tensor = session->outputs[index];
    *output = {temper_dtype(tensor.dtype()), tensor.dims().size(), tensor.dims().data(), tensor.raw().data()};
  });
}

}  // extern "C"
