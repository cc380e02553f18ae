// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine.h"

#include <algorithm>
#include <filesystem>

#include "backends/backend.h"
#include "base/file.h"
#include "base/version.h"
#include "plan/nearest.h"
#include "runtime/stages.h"

namespace temper {

static std::vector<Dims> shapes_of(const Plan& plan) {
  std::vector<Dims> shapes;
  for (const PortInfo& input : plan.inputs) shapes.push_back(input.type.dims());
  return shapes;
}

Engine::Engine(EngineInfo info, Graph graph, int threads, const DeviceSettings& settings)
    : info_(std::move(info)), graph_(std::move(graph)), threads_(threads), device_(open_device(info_.device, settings)) {
  info_.fingerprint = device_.fingerprint;
  info_.version = version();
  info_.revision = revision();
  for (ValueId id : graph_->inputs()) inputs_.push_back({graph_->value(id).name, graph_->type(id)});
  for (const GraphOutput& output : graph_->outputs()) outputs_.push_back({output.name, graph_->type(output.value)});
}

Engine::Engine(PlanFile file, const DeviceSettings& settings)
    : info_(std::move(file.info)), graph_(std::move(file.graph)), graph_text_(std::move(file.graph_text)), threads_(file.threads),
      device_(file.device ? std::move(*file.device) : open_device(info_.device, settings)), inputs_(std::move(file.inputs)), outputs_(std::move(file.outputs)), timings_(std::move(file.timings)) {
  for (auto& plan : file.plans) {
    for (const auto& constant : plan->constants) packs_.know(constant);
    auto key = shapes_of(*plan);
    plans_[std::move(key)] = std::move(plan);
  }
}

std::shared_ptr<const Engine> Engine::load(const std::string& path, const DeviceSettings& settings) {
  auto engine = std::make_shared<Engine>(read_plan_file(path, {.settings = settings}), settings);
  engine->set_files({path});
  return engine;
}

const Graph& Engine::graph() const {
  if (!graph_) fail(ErrorKind::usage, "a plan of fixed shapes keeps no graph; use the model");
  return *graph_;
}

bool Engine::is_dynamic() const {
  if (graph_) return !is_one_stage(*graph_);
  return false;
}

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

void Engine::set_files(const std::vector<std::string>& files) {
  files_.clear();
  for (const std::string& file : files) files_.push_back(std::filesystem::absolute(file).string());
}

void Engine::add_plan(Plan plan) {
  auto key = shapes_of(plan);
  const std::scoped_lock lock(mutex_, pack_mutex_);
  for (const auto& constant : plan.constants) packs_.know(constant);
  plans_[std::move(key)] = std::make_shared<const Plan>(std::move(plan));
}

std::vector<std::shared_ptr<const Plan>> Engine::plans() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const Plan>> list;
  for (const auto& [shapes, plan] : plans_) list.push_back(plan);
  return list;
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
  if (shapes.size() != inputs_.size()) fail(ErrorKind::usage, shapes.size(), " inputs were given; expected are ", list());
  for (size_t i = 0; i < shapes.size(); ++i) {
    auto refuse = [&] { fail(ErrorKind::usage, "input '", inputs_[i].name, "' was given the shape ", shapes[i], "; expected are ", list()); };
    const Shape& known = inputs_[i].type.shape;
    if (shapes[i].size() != known.size()) refuse();
    auto it = info_.shapes.find(inputs_[i].name);
    for (size_t axis = 0; axis < known.size(); ++axis) {
      if (known[axis].is_constant() && known[axis].value() != shapes[i][axis]) refuse();
      if (it != info_.shapes.end() && (shapes[i][axis] < it->second.min[axis] || shapes[i][axis] > it->second.max[axis])) refuse();
    }
  }
}

std::shared_ptr<const Plan> Engine::plan_for(const std::vector<Dims>& shapes, bool* made) const {
  if (made) *made = false;
  const std::lock_guard lock(mutex_);
  if (auto it = plans_.find(shapes); it != plans_.end()) return it->second;
  check_shapes(shapes);
  const Graph concrete = specialize(graph(), bind_shapes(graph(), shapes));
  if (!is_one_stage(concrete)) return nullptr;
  auto plan = make_plan(concrete);
  if (made) *made = true;
  return plans_[shapes] = std::move(plan);
}

std::shared_ptr<const Plan> Engine::make_plan(const Graph& concrete) const {
  const std::lock_guard lock(pack_mutex_);
  PlanOptions options;
  options.threads = threads_;
  options.packs = &packs_;
  options.time = nearest_times(timings_, device_);
  return std::make_shared<const Plan>(build_plan(concrete, find_backend(info_.device), device_, options));
}

Session::Session(std::shared_ptr<const Engine> engine) : engine_(std::move(engine)), arena_(engine_->device()) {}
Session::~Session() = default;

const Plan& Session::current_plan() const {
  if (!current_) fail(ErrorKind::usage, "the session has no shapes yet: call prepare() or run() first");
  if (!current_->plan) fail(ErrorKind::usage, "shapes inside this model depend on data: it has no single plan");
  return *current_->plan;
}

Session::Prepared& Session::one_stage() {
  if (!current_) fail(ErrorKind::usage, "prepare() must come first");
  if (!current_->plan) fail(ErrorKind::unsupported, "shapes inside this model depend on data, so its outputs cannot be given buffers beforehand: use run()");
  return *current_;
}

std::vector<TensorType> Session::prepare(const std::vector<Dims>& shapes) {
  auto it = prepared_.find(shapes);
  if (it == prepared_.end()) {
    bool made = false;
    Prepared prepared;
    prepared.plan = engine_->plan_for(shapes, &made);
    if (made) ++statistics_.plans_made;
    if (prepared.plan) prepared.executor = std::make_unique<Executor>(*prepared.plan, engine_->device(), arena_);
    else if (!staged_) staged_ = std::make_unique<StagedRunner>(*engine_, arena_);
    it = prepared_.emplace(shapes, std::move(prepared)).first;
  }
  current_ = &it->second;
  std::vector<TensorType> types;
  for (const PortInfo& output : current_->plan ? current_->plan->outputs : engine_->outputs()) types.push_back(output.type);
  return types;
}

std::vector<Tensor> Session::run(const std::vector<Tensor>& inputs) {
  std::vector<Dims> shapes;
  std::vector<const void*> in;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i < engine_->inputs().size() && inputs[i].dtype() != engine_->inputs()[i].type.dtype)
      fail(ErrorKind::usage, "input '", engine_->inputs()[i].name, "' was given ", inputs[i].type(), "; expected is ", engine_->inputs()[i].type);
    shapes.push_back(inputs[i].dims());
    in.push_back(inputs[i].raw().data());
  }
  const std::vector<TensorType> types = prepare(shapes);
  if (!current_->plan) {
    ++statistics_.runs;
    return staged_->run(inputs, statistics_.plans_made);
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
  one_stage().executor->run(inputs, outputs);
  ++statistics_.runs;
}

Queue& Session::queue() {
  if (!arena_.queue()) fail(ErrorKind::usage, "the engine runs on ", engine_->info().device, ", which works on the host's memory: give inputs that lie there");
  return *arena_.queue();
}

std::span<void* const> Session::run_resident(std::span<const void* const> inputs, std::span<void* const> outputs) {
  queue();
  const auto results = one_stage().executor->run_resident(inputs, outputs);
  ++statistics_.runs;
  return results;
}

void Session::run_timed(std::span<const void* const> inputs, std::span<void* const> outputs, std::vector<std::vector<double>>& ms) {
  one_stage().executor->run_timed(inputs, outputs, ms);
}

void Session::run_observed(std::span<const void* const> inputs, std::span<void* const> outputs, const Executor::Observer& observer) {
  one_stage().executor->run_observed(inputs, outputs, observer);
  ++statistics_.runs;
}

}  // namespace temper
