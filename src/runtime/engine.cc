// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine.h"

#include <algorithm>
#include <filesystem>

#include "backends/backend.h"
#include "base/file.h"
#include "base/log.h"
#include "base/version.h"
#include "plan/execute.h"
#include "plan/nearest.h"
#include "plan/planner.h"
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

Engine::Engine(EngineInfo info, Graph graph, int threads, const DeviceSettings& settings)
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
      read_plan_file(path, {.map_file = options.map_file, .settings = options.settings}), options.settings,
      std::vector<std::string>{path});
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

Session::Session(std::shared_ptr<const Engine> engine)
    : engine_(std::move(engine)), arena_(engine_->device()), bytes_(engine_->known_constants()) {}
Session::~Session() = default;

const Plan& Session::current_plan() const {
  if (!current_) fail(ErrorKind::usage, "the session has no shapes yet: call prepare() or run() first");
  if (!current_->plan) fail(ErrorKind::usage, "shapes inside this model depend on data: it has no single plan");
  return *current_->plan;
}

Session::Prepared& Session::one_partition() {
  if (!current_) fail(ErrorKind::usage, "prepare() must come first");
  if (!current_->plan)
    fail(ErrorKind::unsupported,
         "shapes inside this model depend on data, so its outputs cannot be given buffers beforehand: use run()");
  return *current_;
}

Session::Prepared& Session::make_ready(const std::vector<Dims>& shapes) {
  bool made = false;
  Prepared prepared;
  prepared.plan = engine_->plan_for(shapes, &made);
  if (made) ++statistics_.plans_made;
  if (!prepared.plan) {
    if (!partitioned_) partitioned_ = std::make_unique<PartitionedRunner>(*engine_, arena_);
  } else {
    prepared.executor = make_executor(*prepared.plan, engine_->device(), arena_);
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
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i < engine_->inputs().size() && inputs[i].dtype() != engine_->inputs()[i].type.dtype)
      fail(ErrorKind::usage, "input '", engine_->inputs()[i].name, "' was given ", inputs[i].type(), "; expected is ",
           engine_->inputs()[i].type);
    shapes.push_back(inputs[i].dims());
    in.push_back(inputs[i].raw().data());
  }
  const std::vector<TensorType> types = prepare(shapes);
  if (!current_->plan) {
    ++statistics_.runs;
    return partitioned_->run(inputs);
  }
  std::vector<Tensor> outputs;
  std::vector<void*> out;
  for (const TensorType& type : types) {
    outputs.emplace_back(type.dtype, type.dims());
    out.push_back(outputs.back().raw_mutable());
  }
  run_prepared(in, out);
  return outputs;
}

void Session::run_prepared(std::span<const void* const> inputs, std::span<void* const> outputs) {
  one_partition().executor->run(inputs, outputs);
  ++statistics_.runs;
}

Queue& Session::queue() {
  if (!arena_.queue())
    fail(ErrorKind::usage, "the engine runs on ", engine_->info().device,
         ", which works on the host's memory: give inputs that lie there");
  return *arena_.queue();
}

std::span<void* const> Session::run_resident(std::span<const void* const> inputs, std::span<void* const> outputs) {
  queue();
  const auto results = on_device(*one_partition().executor).run_resident(inputs, outputs);
  ++statistics_.runs;
  return results;
}

std::vector<double> Session::run_on_device(int times, bool recorded) {
  return on_device(*one_partition().executor).run_on_device(times, recorded);
}

void Session::run_timed(std::span<const void* const> inputs, std::span<void* const> outputs,
                        std::vector<std::vector<double>>& ms) {
  one_partition().executor->run_timed(inputs, outputs, ms);
}

void Session::run_observed(std::span<const void* const> inputs, std::span<void* const> outputs,
                           const Executor::Observer& observer) {
  one_partition().executor->run_observed(inputs, outputs, observer);
  ++statistics_.runs;
}

}  // namespace temper
