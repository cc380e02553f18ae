// SPDX-License-Identifier: Apache-2.0
#include "bench/bench_engine.h"

#include <set>

#include "bench/gpu_sampler.h"
#include "measure/energy.h"
#include "measure/load.h"

namespace temper {

std::vector<Dims> shapes_for_batch(const Engine& engine, int64_t batch, const GivenInputs& given) {
  const std::vector<InputSpec> inputs = input_specs(engine);
  Bindings bindings = bindings_of(given, inputs);
  if (const std::string symbol = batch_symbol(inputs); batch > 0 && !symbol.empty()) bindings[symbol] = batch;
  std::vector<Dims> shapes;
  for (const PortInfo& input : engine.inputs()) {
    if (const auto found = given.find(input.name); found != given.end()) {
      shapes.push_back(found->second.dims());
      continue;
    }
    const auto range = engine.info().shapes.find(input.name);
    Dims dims;
    for (size_t axis = 0; axis < input.type.shape.size(); ++axis) {
      const Dim dim = input.type.shape[axis].substitute(bindings);
      if (dim.is_constant()) dims.push_back(dim.value());
      else if (range != engine.info().shapes.end() && axis < range->second.opt.size())
        dims.push_back(range->second.opt[axis]);
      else
        fail(ErrorKind::usage, "the dimension '", dim, "' of input '", input.name,
             "' is open; build a plan with --shapes ", input.name, "=...");
    }
    shapes.push_back(std::move(dims));
  }
  if (batch > 0 && batch_of(shapes) != batch)
    fail(ErrorKind::usage, "the model's batch is fixed to ", batch_of(shapes), ", ", batch, " cannot be run");
  engine.check_shapes(shapes);
  return shapes;
}

ProgressStep step_of(const TimerOptions& timer, const std::string& what, int samples, double seconds) {
  if (samples == 0) return {concat(what, what.empty() ? "" : ": ", "warming up")};
  if (timer.iterations > 0) return {what, double(samples), double(timer.iterations), "runs"};
  return {what, seconds, timer.max_seconds, "s", concat(samples, " runs")};
}

int64_t batch_of(const std::vector<Dims>& shapes) {
  for (const Dims& dims : shapes)
    if (!dims.empty()) return dims[0];
  return 1;
}

// Bytes of a GPU's memory that a session takes: the arena, buffers for inputs and outputs, constants.
static int64_t device_bytes_of(const Plan& plan) {
  int64_t bytes = plan.arena_bytes();
  for (const auto* ports : {&plan.inputs, &plan.outputs})
    for (const PortInfo& port : *ports) bytes += byte_count(port.type.dtype, port.type.dims());
  std::set<int64_t> constants;
  for (const Segment& segment : plan.segments)
    for (const PlanStep& step : segment.steps) {
      if (step.packed >= 0) constants.insert(step.packed);
      for (const BufferRef& ref : step.inputs)
        if (ref.kind == BufferRef::Kind::constant) constants.insert(ref.at);
    }
  for (int64_t index : constants) bytes += plan.constants[size_t(index)]->bytes();
  return bytes;
}

BenchRun describe_run(const Engine& engine, const std::vector<Dims>& shapes, const GivenInputs& given) {
  BenchRun run;
  bool made = false;
  const auto plan = engine.plan_for(shapes, &made);
  const EngineInfo& info = engine.info();
  run.device = info.device;
  run.backend = info.device;
  run.precision = info.precision;
  if (info.placeholder)
    run.notes["precision"] = "calibrated on noise: what this plan answers is meaningless for accuracy";
  run.batch = batch_of(shapes);
  for (size_t i = 0; i < shapes.size(); ++i) run.shapes[engine.inputs()[i].name] = shapes[i];
  run.notes["shapes"] = text_of(engine, given);
  run.threads = engine.threads();
  if (info.model_sha256.empty()) {
    run.notes["model_sha256"] = run.notes["source_sha256"] = "the engine was not made from a file";
  } else {
    run.model_sha256 = info.model_sha256;
    run.source_sha256 = info.source_sha256;
  }
  if (engine.device().gpu) {  // as a session's run is measured, unless the GPU's own time is taken
    run.transfers = "included";
    run.cuda_graph = plan != nullptr;
    run.notes["transfers"] = "the times are the host's, with the copies in and out";
  }
  if (!engine.device().gpu) run.notes["peak_device_bytes"] = "no device memory: the CPU ran it";
  else if (plan) run.peak_device_bytes = device_bytes_of(*plan);
  else run.notes["peak_device_bytes"] = "shapes depend on data: each stage has its own";
  if (plan) {
    run.workspace_bytes = plan->arena_bytes();
  } else {
    run.notes["workspace_bytes"] = "shapes depend on data: each stage has its own";
    run.notes["first_run_ms"] =
        "shapes depend on data: it holds the planning of stages whose shapes were not seen before";
  }
  if (made)
    run.notes["latency_ms"] =
        "the plan holds no tuned choices for these shapes: made from the nearest timings, without measuring";
  return run;
}

BenchRun bench_engine(const std::shared_ptr<const Engine>& engine, const std::vector<Dims>& shapes,
                      const TimerOptions& timer, const LoadPattern& load, const GivenInputs& given) {
  const bool reset = reset_peak_resident();
  BenchRun run = describe_run(*engine, shapes, given);  // before the sessions: it notes whether the plan had to be made
  std::vector<std::unique_ptr<BenchSession>> sessions;
  std::vector<std::function<void()>> bodies;
  for (int i = 0; i < load.streams; ++i) {
    sessions.push_back(
        std::make_unique<BenchSession>(engine, first_inputs(*engine, shapes, given, load.states), load.states));
    bodies.push_back([session = sessions.back().get()] { session->run(); });
  }
  run.streams = load.streams;
  std::string states;
  for (const StateBinding& state : load.states)
    states += concat(states.empty() ? "" : ", ", state.input, "=", state.output);
  if (!states.empty()) run.notes["state"] = concat("kept from run to run: ", states);
  const bool on_device =
      engine->device().gpu && !load.transfers && load.states.empty() && !sessions[0]->is_partitioned();
  if (on_device && (load.streams > 1 || load.request_rate_per_s > 0))
    fail(ErrorKind::usage,
         "the GPU's own times are of one stream, back to back; --transfers measures streams and rates");
  if (on_device) {
    run.cuda_graph = load.cuda_graph;
    run.transfers = "excluded";
    run.notes["transfers"] = "the times are the GPU's own, by events";
    run.notes["first_run_ms"] = "the host's time, with the copies in and out and the capture of the graph";
  }
  GpuSampler gpu_sampler(engine->device());
  const EnvironmentSampler sampler(engine->threads());
  const EnergyMeter energy;
  if (load.request_rate_per_s > 0)
    set_samples(run,
                measure_open(bodies, {load.request_rate_per_s, timer.max_seconds, timer.warmup, 0, timer.progress}));
  else if (load.streams > 1) set_samples(run, measure_streams(bodies, timer));
  else if (on_device) {
    DeviceClock clock(*sessions[0], load.cuda_graph);
    set_samples(run, measure(bodies[0], timer, clock));
  } else if (load.device_ms && !sessions[0]->is_partitioned()) {
    BothClocks clock(*sessions[0]);
    const Samples samples = measure(bodies[0], timer, clock);
    load.device_ms->assign(clock.device_ms.end() - ptrdiff_t(samples.ms.size()), clock.device_ms.end());
    set_samples(run, samples);
  } else set_samples(run, measure(bodies[0], timer));
  if (!engine->device().gpu) run.cpu_watts_mean = energy.watts();
  std::string why_no_state;
  run.gpu = gpu_sampler.finish(why_no_state);
  if (!why_no_state.empty()) run.notes["gpu_clock_mhz_median"] = why_no_state;
  run.load_by_others = sampler.finish().load_by_others;
  if (!run.load_by_others) run.notes["load_by_others"] = "n/a (needs half a second, and a kernel that shows it)";
  run.peak_host_bytes = peak_resident_bytes();
  if (!run.peak_host_bytes) run.notes["peak_host_bytes"] = "the kernel does not show it";
  else if (!reset) run.notes["peak_host_bytes"] = "of the whole process: the kernel does not let it be reset";
  return run;
}

}  // namespace temper
