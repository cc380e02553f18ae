// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine.h"

#include <algorithm>
#include <filesystem>

#include "backends/backend.h"
#include "base/aligned.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strict_json.h"
#include "base/version.h"
#include "plan/execute.h"
#include "plan/nearest.h"
#include "plan/planner.h"
#include "plan/shared_places.h"
#include "runtime/partitions.h"

namespace temper {

static std::vector<Dims> shapes_of(const Plan& plan) {
  std::vector<Dims> shapes;
  for (const PortInfo& input : plan.inputs) shapes.push_back(input.type.dims());
  return shapes;
}

PlanFile unplanned(EngineInfo info, Graph graph, int threads, Device device) {
  PlanFile file;
  file.info = std::move(info);
  file.info.fingerprint = device.fingerprint;
  file.info.version = version();
  file.info.revision = revision();
  file.threads = threads;
  for (ValueId id : graph.inputs()) file.inputs.push_back({graph.value(id).name, graph.type(id)});
  for (const GraphOutput& output : graph.outputs()) file.outputs.push_back({output.name, graph.type(output.value)});
  file.graph = std::move(graph);
  file.device = std::move(device);
  return file;
}

Engine::Engine(const EngineInfo& info, Graph graph, int threads, const DeviceSettings& settings)
    : Engine(unplanned(info, std::move(graph), threads, open_device(info.device, settings))) {}

Engine::Engine(PlanFile file, const DeviceSettings& settings, const std::vector<std::string>& files)
    : info_(std::move(file.info)),
      graph_(std::move(file.graph)),
      graph_text_(std::move(file.graph_text)),
      threads_(file.threads),
      device_(file.device ? std::move(*file.device) : open_device(info_.device, settings)),
      inputs_(std::move(file.inputs)),
      outputs_(std::move(file.outputs)),
      timings_(std::move(file.timings)) {
  for (const std::string& path : files) files_.push_back(std::filesystem::absolute(path).string());
  for (int32_t v = 0; graph_ && v < graph_->value_count(); ++v)
    if (const Tensor* constant = graph_->constant({v})) known_.insert(constant->raw().data());
  for (auto& plan : file.plans) keep(std::move(plan));
}

// Of those that it is made of.
void Engine::keep(PlanRef plan) {
  for (const auto& constant : plan->constants) {
    packs_.know(constant);
    known_.insert(constant->raw().data());
  }
  step_threads_.know(*plan);
  const auto shapes = shapes_of(*plan);
  plans_.put(shapes, std::move(plan), true);
}

std::shared_ptr<const Engine> Engine::load(const std::string& path, const LoadOptions& options) {
  return std::make_shared<const Engine>(
      read_plan_file(path, {.map_file = options.map_file, .settings = options.settings, .device = options.device}),
      options.settings, std::vector<std::string>{path});
}

std::shared_ptr<const Engine> Engine::from_bytes(std::span<const std::byte> plan, const DeviceSettings& settings,
                                                 const std::string& device) {
  const auto copy = std::make_shared<const AlignedBytes>(plan.begin(), plan.end());
  return std::make_shared<const Engine>(read_plan(*copy, copy, {.settings = settings, .device = device}), settings);
}

const Graph& Engine::graph() const {
  if (!graph_) fail(ErrorKind::usage, "a plan of fixed shapes keeps no graph; use the model");
  return *graph_;
}

bool Engine::is_dynamic() const { return graph_ && !is_one_partition(*graph_); }

PlanFile plan_file_of(const Engine& engine) {
  PlanFile file;
  file.info = engine.info();
  file.threads = engine.threads();
  file.inputs = engine.inputs();
  file.outputs = engine.outputs();
  if (engine.is_dynamic()) file.graph = engine.graph();
  else file.graph_text = engine.graph_text();
  file.timings = engine.timings();
  file.plans = engine.plans();
  return file;
}

void save_engine(const Engine& engine, const std::string& path, bool force) {
  check_outputs(engine.files(), {{path, FileKind::plan, force}});
  write_plan_file(path, plan_file_of(engine), force);
}

std::string plan_bytes_of(const Engine& engine) {
  std::string bytes;
  write_plan(plan_file_of(engine), [&](std::span<const std::byte> part) {
    bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
  });
  return bytes;
}

std::string description_of(const Engine& engine, const DescribeOptions& options) {
  PlanFile file = plan_file_of(engine);
  file.graph_text = engine.graph_text();
  return strict::dump(describe(file, options));
}

std::vector<std::shared_ptr<const Plan>> Engine::plans() const {
  const std::lock_guard lock(mutex_);
  std::vector<PlanRef> list;
  plans_.each([&](const PlanRef& plan) { list.push_back(plan); });
  return list;
}

void Engine::set_limits(const ShapeLimits& limits) const {
  if (std::min({limits.plans, limits.plan_bytes, limits.prepared, limits.prepared_bytes}) < 1)
    fail(ErrorKind::usage, "a limit of plans, shapes or bytes is at least 1");
  std::vector<PlanRef> gone;  // ends behind the lock
  const std::lock_guard lock(mutex_);
  limits_ = limits;
  gone = beyond_limits();
}

ShapeLimits Engine::limits() const {
  const std::lock_guard lock(mutex_);
  return limits_;
}

EngineStatistics Engine::statistics() const {
  const std::lock_guard lock(mutex_);
  return {int64_t(plans_.size()), bytes_.total(), plans_made_, evictions_};
}

std::vector<Engine::PlanRef> Engine::beyond_limits() const {
  std::vector<PlanRef> gone;
  while (int64_t(plans_.removable()) > limits_.plans || bytes_.total() > limits_.plan_bytes) {
    auto plan = plans_.take_oldest();
    if (!plan) break;
    bytes_.remove(**plan);
    ++evictions_;
    gone.push_back(std::move(*plan));
  }
  return gone;
}

static std::string expected(const PortInfo& port, const ShapeRange* range) {
  std::string out = concat("'", port.name, "': ", port.type);
  if (range && range->min != range->max) out += concat(" from ", range->min, " to ", range->max);
  return out;
}

void Engine::check_shapes(const std::vector<Dims>& shapes) const {
  auto list = [&] {
    std::string out;
    for (const PortInfo& port : inputs_) {
      auto it = info_.shapes.find(port.name);
      out += concat(out.empty() ? "" : "; ", expected(port, it == info_.shapes.end() ? nullptr : &it->second));
    }
    return out;
  };
  if (shapes.size() != inputs_.size())
    fail(ErrorKind::usage, shapes.size(), " inputs were given; expected are ", list());
  for (size_t i = 0; i < shapes.size(); ++i) {
    auto refuse = [&] {
      fail(ErrorKind::usage, "input '", inputs_[i].name, "' was given the shape ", shapes[i], "; expected are ",
           list());
    };
    const Shape& known = inputs_[i].type.shape;
    if (shapes[i].size() != known.size()) refuse();
    auto it = info_.shapes.find(inputs_[i].name);
    for (size_t axis = 0; axis < known.size(); ++axis) {
      if (known[axis].is_constant() && known[axis].value() != shapes[i][axis]) refuse();
      if (it != info_.shapes.end() &&
          (shapes[i][axis] < it->second.min[axis] || shapes[i][axis] > it->second.max[axis]))
        refuse();
    }
  }
  const auto within = [&](const std::map<std::string, ShapeRange>& profile) {
    for (size_t i = 0; i < shapes.size(); ++i) {
      const ShapeRange& range = profile.at(inputs_[i].name);
      for (size_t axis = 0; axis < shapes[i].size(); ++axis)
        if (shapes[i][axis] < range.min[axis] || shapes[i][axis] > range.max[axis]) return false;
    }
    return true;
  };
  if (!info_.profiles.empty() && std::none_of(info_.profiles.begin(), info_.profiles.end(), within)) {
    std::string given;
    for (const Dims& dims : shapes) given += concat(given.empty() ? "" : ", ", dims);
    fail(ErrorKind::usage, "the shapes ", given, " are in none of the engine's ", info_.profiles.size(), " profiles");
  }
}

std::vector<TensorType> Engine::output_types(const std::vector<Dims>& shapes) const {
  check_shapes(shapes);
  std::vector<TensorType> types;
  for (const PortInfo& port : outputs_) types.push_back(port.type);
  const auto is_known = [](const TensorType& type) {
    return std::all_of(type.shape.begin(), type.shape.end(), [](const Dim& dim) { return dim.is_constant(); });
  };
  if (!graph_ || std::all_of(types.begin(), types.end(), is_known)) return types;
  const Bindings bindings = bind_shapes(*graph_, shapes);
  for (TensorType& type : types)
    for (Dim& dim : type.shape) dim = dim.substitute(bindings);
  if (std::all_of(types.begin(), types.end(), is_known)) return types;
  // What follows from shapes through the elements of small tensors is known of the specialised graph only.
  const Graph concrete = specialize(*graph_, bindings);
  for (size_t i = 0; i < types.size(); ++i) types[i] = concrete.type(concrete.outputs()[i].value);
  return types;
}

std::shared_ptr<const Plan> Engine::plan_for(const std::vector<Dims>& shapes, bool* made) const {
  if (made) *made = false;
  std::promise<PlanRef> promise;
  std::shared_future<PlanRef> of_another;
  {
    const std::lock_guard lock(mutex_);
    if (const PlanRef* plan = plans_.find(shapes)) return *plan;
    check_shapes(shapes);
    if (const auto it = planning_.find(shapes); it != planning_.end()) of_another = it->second;
    else planning_.emplace(shapes, promise.get_future().share());
  }
  if (of_another.valid()) {
    try {
      return of_another.get();
    } catch (const Error& error) {
      throw Error(error);  // its own: whoever passes it on adds to the text
    }
  }
  PlanRef plan;
  try {
    plan = plan_now(shapes);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    planning_.erase(shapes);
    try {
      throw;
    } catch (const Error& error) { promise.set_exception(std::make_exception_ptr(Error(error))); } catch (...) {
      promise.set_exception(std::current_exception());
    }
    throw;
  }
  std::vector<PlanRef> gone;
  {
    const std::lock_guard lock(mutex_);
    planning_.erase(shapes);
    if (plan) {
      bytes_.add(*plan);
      plans_.put(shapes, plan);
      gone = beyond_limits();
    }
    promise.set_value(plan);
  }
  if (!gone.empty()) {
    gone.clear();
    forget_unused();
  }
  if (made) *made = plan != nullptr;
  return plan;
}

// Of shapes that are inside the profile.
std::shared_ptr<const Plan> Engine::plan_now(const std::vector<Dims>& shapes) const {
  log(LogLevel::debug, "planning for ", shapes);
  const Graph concrete = specialize(graph(), bind_shapes(graph(), shapes));
  return is_one_partition(concrete) ? make_plan(concrete) : nullptr;
}

std::shared_ptr<const Plan> Engine::make_plan(const Graph& concrete) const {
  PlanOptions options;
  options.threads = threads_;
  options.packs = &packs_;
  {
    const std::lock_guard lock(times_mutex_);
    if (!times_) times_ = nearest_times(timings_, device_);
    options.times = times_.get();  // it stays as it is from here on
    options.threads_of = [this](const Problem& problem) { return step_threads_.of(problem); };
  }
  auto plan = std::make_shared<const Plan>(build_plan(concrete, find_backend(info_.device), device_, options));
  ++plans_made_;
  return plan;
}

Session::Session(std::shared_ptr<const Engine> engine, Arena::Source memory)
    : engine_(std::move(engine)), arena_(engine_->device(), std::move(memory)), bytes_(engine_->known_constants()) {}
Session::~Session() = default;

const Plan& Session::current_plan() const {
  if (!current_) fail(ErrorKind::usage, "the session has no shapes yet: call prepare() or run() first");
  if (!current_->plan)
    fail(ErrorKind::usage, "shapes or branches inside this model depend on data: it has no single plan");
  return *current_->plan;
}

Session::Prepared& Session::one_partition() {
  if (!current_) fail(ErrorKind::usage, "prepare() must come first");
  if (!current_->plan)
    fail(ErrorKind::unsupported,
         "shapes or branches inside this model depend on data, so its outputs cannot be given buffers beforehand: use "
         "run()");
  return *current_;
}

Session::Prepared& Session::make_ready(const std::vector<Dims>& shapes) {
  bool made = false;
  Prepared prepared;
  prepared.plan = engine_->plan_for(shapes, &made);
  if (made) ++statistics_.plans_made;
  if (!prepared.plan) {
    if (!partitioned_) partitioned_ = std::make_unique<PartitionedRunner>(*engine_, arena_, engine_->graph());
  } else {
    prepared.executor = make_executor(*prepared.plan, engine_->device(), arena_);
    prepared.shared = shared_places(*prepared.plan);
    bytes_.add(*prepared.plan);
    kernel_bytes_ += kernel_bytes(*prepared.plan);
  }
  Prepared& ready = prepared_.put(shapes, std::move(prepared));
  const ShapeLimits limits = engine_->limits();
  while (int64_t(prepared_.removable()) > limits.prepared || bytes_.total() + kernel_bytes_ > limits.prepared_bytes) {
    const auto oldest = prepared_.take_oldest();
    if (!oldest) break;
    if (!oldest->plan) continue;
    bytes_.remove(*oldest->plan);
    kernel_bytes_ -= kernel_bytes(*oldest->plan);
    ++statistics_.evictions;
  }
  return ready;
}

SessionStatistics Session::statistics() const {
  SessionStatistics all = statistics_;
  prepared_.each([&](const Prepared& prepared) { all.prepared += prepared.plan != nullptr; });
  all.prepared_bytes = bytes_.total() + kernel_bytes_;
  if (partitioned_) partitioned_->add_to(all);
  return all;
}

std::vector<TensorType> Session::prepare(const std::vector<Dims>& shapes) {
  Prepared* known = prepared_.find(shapes);
  current_ = known ? known : &make_ready(shapes);
  std::vector<TensorType> types;
  for (const PortInfo& output : current_->plan ? current_->plan->outputs : engine_->outputs())
    types.push_back(output.type);
  return types;
}

std::vector<Tensor> Session::run(const std::vector<Tensor>& inputs) {
  std::vector<Dims> shapes;
  std::vector<const void*> in;
  std::vector<char> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool kept = !inputs[i].defined() && is_state(i);
    if (!kept && i < engine_->inputs().size() && inputs[i].dtype() != engine_->inputs()[i].type.dtype)
      fail(ErrorKind::usage, "input '", engine_->inputs()[i].name, "' was given ", inputs[i].type(), "; expected is ",
           engine_->inputs()[i].type);
    shapes.push_back(inputs[i].dims());
    in.push_back(kept ? nullptr : inputs[i].raw().data());
    given.push_back(!kept);
  }
  if (!states_.empty() && inputs.size() == engine_->inputs().size()) add_state_shapes(given, shapes);
  const std::vector<TensorType> types = prepare(shapes);
  if (!current_->plan) {
    ++statistics_.runs;
    return states_.empty() ? partitioned_->run(inputs) : run_partitioned(inputs);
  }
  std::vector<Tensor> outputs(types.size());
  std::vector<void*> out;
  for (size_t o = 0; o < types.size(); ++o) {
    const auto kept = [&](const State& state) { return state.output == o; };
    if (std::none_of(states_.begin(), states_.end(), kept)) outputs[o] = Tensor(types[o].dtype, types[o].dims());
    out.push_back(outputs[o].raw_mutable());
  }
  run_prepared(in, out);
  return outputs;
}

// A model of several partitions, whose values lie in the host's memory.
std::vector<Tensor> Session::run_partitioned(std::vector<Tensor> inputs) {
  for (const State& kept : states_)
    if (Tensor& input = inputs[kept.input]; !input.defined()) input = kept.resident ? state(kept.input) : kept.now;
  std::vector<Tensor> outputs = partitioned_->run(inputs);
  for (State& kept : states_) {
    kept.now = std::exchange(outputs[kept.output], {});
    kept.dims = kept.now.dims();
    kept.begun = true;
    kept.resident = false;
  }
  return outputs;
}

bool Session::is_state(size_t input) const {
  return std::any_of(states_.begin(), states_.end(), [&](const State& state) { return state.input == input; });
}

void Session::run_prepared(std::span<const void* const> inputs, std::span<void* const> outputs) {
  Executor& executor = *one_partition().executor;
  if (states_.empty()) {
    executor.run(inputs, outputs);
  } else {
    DeviceExecutor* const device = executor.on_device();
    use_states(inputs, outputs, device != nullptr);
    if (device) device->run_partly_there(in_, out_, in_there_, out_there_);
    else executor.run(in_, out_);
    states_ran(device != nullptr);
  }
  ++statistics_.runs;
}

void* Session::input_memory(size_t index) {
  if (!current_)
    fail(ErrorKind::usage, "prepare() must come first: memory for an input is of the shapes prepared last");
  const Plan& plan = *one_partition().plan;
  if (index >= plan.inputs.size())
    fail(ErrorKind::usage, "there is no input ", index, "; the engine has ", plan.inputs.size());
  if (is_state(index))
    fail(ErrorKind::usage, "the input '", plan.inputs[index].name, "' is state, which the session keeps");
  if (DeviceExecutor* const device = current_->executor->on_device()) return device->staging_of(index);
  input_memory_.resize(plan.inputs.size());
  const TensorType& type = plan.inputs[index].type;
  const auto bytes = size_t(std::max<int64_t>(byte_count(type.dtype, type.dims()), 1));
  if (input_memory_[index].size() < bytes) {
    input_memory_[index] = {};  // before the larger one is asked for
    input_memory_[index].resize(bytes);
  }
  return input_memory_[index].data();
}

void Session::start_prepared(std::span<const void* const> inputs, std::span<void* const> outputs) {
  DeviceExecutor* const device = one_partition().executor->on_device();
  if (!device || !states_.empty()) return run_prepared(inputs, outputs);
  device->start(inputs, outputs);
  started_ = device;
  ++statistics_.runs;
}

void Session::finish() {
  if (DeviceExecutor* const device = std::exchange(started_, nullptr)) device->finish();
}

void Session::keep_state(const std::vector<StateBinding>& bindings) { states_ = states_of(bindings, *engine_); }

void Session::reset_state() {
  for (State& kept : states_) {
    kept.begun = kept.resident = false;
    kept.now = {};  // it may be another's, too
  }
}

std::unique_ptr<Session> Session::fork() {
  auto other = std::make_unique<Session>(engine_);
  other->copy_states(*this);
  return other;
}

void Session::copy_states(Session& from) {
  if (engine_ != from.engine_) fail(ErrorKind::usage, "the states are of a session of another engine");
  std::vector<State> states = from.states_;
  for (State& kept : states) {
    kept.next = {};
    kept.next_there.reset();
    kept.next_there_bytes = 0;
    const Tensor now = std::exchange(kept.now, {});
    if (now.defined() && !kept.resident) {
      kept.now = Tensor(now.dtype(), now.dims());
      std::copy(now.raw().begin(), now.raw().end(), kept.now.raw_mutable());
    }
    const std::shared_ptr<void> there = std::exchange(kept.there, nullptr);
    const int64_t bytes = std::exchange(kept.there_bytes, 0);
    if (!kept.resident) continue;
    from.queue().wait();
    kept.there = queue().allocate(bytes);
    kept.there_bytes = bytes;
    queue().copy_on_device(kept.there.get(), there.get(), bytes);
    queue().wait();  // the other session may write there next
  }
  states_ = std::move(states);
}

void Session::add_state_shapes(const std::vector<char>& given, std::vector<Dims>& shapes) {
  add_first_shapes(states_, given, *engine_, shapes);
  for (State& kept : states_) {
    if (given[kept.input]) continue;
    Dims& dims = shapes[kept.input];
    if (kept.begun) {
      dims = kept.dims;
    } else if (!kept.now.defined() || kept.dims != dims) {
      kept.now = Tensor(engine_->inputs()[kept.input].type.dtype, dims);
      kept.dims = dims;
    }
  }
}

Tensor Session::state(size_t input) {
  const auto kept =
      std::find_if(states_.begin(), states_.end(), [&](const State& state) { return state.input == input; });
  if (kept == states_.end()) fail(ErrorKind::usage, "the session keeps no state for input ", input);
  if (!kept->begun) return {};
  Tensor copy(engine_->inputs()[input].type.dtype, kept->dims);
  if (kept->resident) {
    queue().copy_to_host(copy.raw_mutable(), kept->there.get(), copy.bytes());
    queue().wait();
  } else {
    std::copy(kept->now.raw().begin(), kept->now.raw().end(), copy.raw_mutable());
  }
  return copy;
}

// Says where a run with states reads and writes: in_ and out_ in the host's memory, or *_there_ in the device's.
void Session::use_states(std::span<const void* const> inputs, std::span<void* const> outputs, bool there) {
  const Plan& plan = *one_partition().plan;
  in_.assign(inputs.begin(), inputs.end());
  out_.assign(outputs.begin(), outputs.end());
  in_there_.assign(plan.inputs.size(), nullptr);
  out_there_.assign(plan.outputs.size(), nullptr);
  const auto grow = [&](std::shared_ptr<void>& memory, int64_t& has, int64_t bytes) {
    if (memory && has >= bytes) return;
    queue().wait();  // a run that nobody waited for may still use what goes
    memory = queue().allocate(std::max<int64_t>(bytes, 1));
    has = bytes;
  };
  for (State& kept : states_) {
    const TensorType& type = plan.outputs[kept.output].type;
    if (out_[kept.output])
      fail(ErrorKind::usage, "the output '", plan.outputs[kept.output].name,
           "' is state and stays in the session: it is given no memory");
    if (!in_[kept.input]) {
      const TensorType& of_input = plan.inputs[kept.input].type;
      if (!kept.begun && (!kept.now.defined() || kept.now.type() != of_input)) {
        kept.now = Tensor(of_input.dtype, of_input.dims());
        kept.dims = kept.now.dims();
      }
      if (kept.dims != of_input.dims())
        fail(ErrorKind::usage, "the state '", plan.inputs[kept.input].name, "' is ", kept.dims,
             " by now, and the session is prepared for ", of_input.dims());
    }
    // A value that the caller gives stays as it is: then the new one has memory of its own.
    const auto& shared = current_->shared;
    kept.stays =
        !in_[kept.input] && std::find(shared.begin(), shared.end(), std::pair(kept.input, kept.output)) != shared.end();
    if (!there) {
      if (!in_[kept.input]) in_[kept.input] = kept.now.raw().data();
      if (kept.stays) {
        out_[kept.output] = kept.now.raw_mutable();
        continue;
      }
      if (!kept.next.defined() || kept.next.type() != type) kept.next = Tensor(type.dtype, type.dims());
      out_[kept.output] = kept.next.raw_mutable();
      continue;
    }
    if (!in_[kept.input]) {
      if (!kept.resident) {
        grow(kept.there, kept.there_bytes, kept.now.bytes());
        queue().copy_to_device(kept.there.get(), kept.now.raw().data(), kept.now.bytes());
        queue().wait();
      }
      in_there_[kept.input] = kept.there.get();
    }
    if (kept.stays) {
      out_there_[kept.output] = kept.there.get();
      kept.begun = kept.resident = true;  // and stays there where the run fails: what it holds is not in `now`
      continue;
    }
    grow(kept.next_there, kept.next_there_bytes, byte_count(type.dtype, type.dims()));
    out_there_[kept.output] = kept.next_there.get();
  }
}

void Session::states_ran(bool there) {
  for (State& kept : states_) {
    kept.dims = current_->plan->outputs[kept.output].type.dims();
    kept.begun = true;
    kept.resident = there;
    if (std::exchange(kept.stays, false)) continue;
    if (there) {
      std::swap(kept.there, kept.next_there);
      std::swap(kept.there_bytes, kept.next_there_bytes);
    } else {
      std::swap(kept.now, kept.next);
    }
  }
}

Queue& Session::queue() {
  if (!arena_.queue())
    fail(ErrorKind::usage, "the engine runs on ", engine_->info().device,
         ", which works on the host's memory: give inputs that lie there");
  return *arena_.queue();
}

std::span<void* const> Session::run_resident(std::span<const void* const> inputs, std::span<void* const> outputs,
                                             std::optional<void*> stream) {
  queue();
  DeviceExecutor& executor = on_device(*one_partition().executor);
  if (states_.empty()) {
    const auto results = executor.run_resident(inputs, outputs, stream);
    ++statistics_.runs;
    return results;
  }
  if (stream && queue().is_captured(*stream))
    fail(
        ErrorKind::unsupported,
        "a run whose state changes places cannot become part of a graph: every launch would begin from the same state");
  const std::vector<void*> none(current_->plan->outputs.size(), nullptr);
  use_states(inputs, outputs.empty() ? std::span<void* const>(none) : outputs, true);
  for (size_t i = 0; i < in_.size(); ++i)
    if (in_there_[i]) in_[i] = in_there_[i];
  for (size_t o = 0; o < out_.size(); ++o)
    if (out_there_[o]) out_[o] = out_there_[o];
  const auto results = executor.run_resident(in_, out_, stream);
  states_ran(true);
  ++statistics_.runs;
  return results;
}

std::vector<double> Session::run_on_device(int times, bool recorded) {
  return on_device(*one_partition().executor).run_on_device(times, recorded);
}

double Session::run_clocked(std::span<const void* const> inputs, std::span<void* const> outputs) {
  return on_device(*one_partition().executor).run_clocked(inputs, outputs);
}

void Session::run_timed(std::span<const void* const> inputs, std::span<void* const> outputs,
                        std::vector<std::vector<double>>& ms) {
  one_partition().executor->run_timed(inputs, outputs, ms);
}

std::vector<Partition> Session::partitions(const std::vector<Dims>& shapes) {
  prepare(shapes);
  if (!is_partitioned()) return {};
  partitioned_->explore(shapes);
  return partitions();
}

std::vector<Partition> Session::partitions() const {
  return partitioned_ ? partitioned_->partitions() : std::vector<Partition>();
}

void Session::time_partitions(bool timed) {
  if (partitioned_) partitioned_->time_runs(timed);
}

void Session::run_observed(std::span<const void* const> inputs, std::span<void* const> outputs,
                           const Executor::Observer& observer) {
  one_partition().executor->run_observed(inputs, outputs, observer);
  ++statistics_.runs;
}

}  // namespace temper
