// SPDX-License-Identifier: Apache-2.0
#include "bench/bench_engine.h"

#include "data/random.h"
#include "measure/load.h"

namespace temper {

std::vector<Dims> shapes_for_batch(const Engine& engine, int64_t batch) {
  Bindings bindings;
  for (const PortInfo& input : engine.inputs())
    if (batch > 0 && !input.type.shape.empty() && !input.type.shape[0].is_constant()) {
      std::vector<std::string> symbols;
      input.type.shape[0].collect_symbols(symbols);
      if (Dim::symbol(symbols.at(0)) == input.type.shape[0]) bindings[symbols[0]] = batch;
      break;
    }
  std::vector<Dims> shapes;
  for (const PortInfo& input : engine.inputs()) {
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

int64_t batch_of(const std::vector<Dims>& shapes) {
  for (const Dims& dims : shapes)
    if (!dims.empty()) return dims[0];
  return 1;
}

BenchSession::BenchSession(std::shared_ptr<const Engine> engine, const std::vector<Dims>& shapes, uint64_t seed)
    : session_(std::move(engine)) {
  for (size_t i = 0; i < shapes.size(); ++i)
    inputs_.push_back(random_tensor(session_.engine().inputs().at(i).type.dtype, shapes[i], seed + i));
  const std::vector<TensorType> types = session_.prepare(shapes);
  if (session_.is_staged()) return;
  for (const TensorType& type : types) outputs_.emplace_back(type.dtype, type.dims());
  for (const Tensor& input : inputs_) in_.push_back(input.raw().data());
  for (Tensor& output : outputs_) out_.push_back(output.raw_mutable());
}

BenchRun describe_run(const Engine& engine, const std::vector<Dims>& shapes) {
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
  run.notes["shapes"] = "inputs are seeded random numbers";
  run.threads = engine.threads();
  if (info.model_sha256.empty()) {
    run.notes["model_sha256"] = run.notes["source_sha256"] = "the engine was not made from a file";
  } else {
    run.model_sha256 = info.model_sha256;
    run.source_sha256 = info.source_sha256;
  }
  run.notes["peak_device_bytes"] = "no device memory: the CPU ran it";
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
                      const TimerOptions& timer, const LoadPattern& load) {
  const bool reset = reset_peak_resident();
  BenchRun run = describe_run(*engine, shapes);  // before the sessions: it notes whether the plan had to be made
  std::vector<std::unique_ptr<BenchSession>> sessions;
  std::vector<std::function<void()>> bodies;
  for (int i = 0; i < load.streams; ++i) {
    sessions.push_back(std::make_unique<BenchSession>(engine, shapes));
    bodies.push_back([session = sessions.back().get()] { session->run(); });
  }
  run.streams = load.streams;
  const EnvironmentSampler sampler(engine->threads());
  if (load.request_rate_per_s > 0)
    set_samples(run,
                measure_open(bodies, {load.request_rate_per_s, timer.max_seconds, timer.warmup, 0, timer.progress}));
  else if (load.streams > 1) set_samples(run, measure_streams(bodies, timer));
  else set_samples(run, measure(bodies[0], timer));
  run.load_by_others = sampler.finish().load_by_others;
  if (!run.load_by_others) run.notes["load_by_others"] = "n/a (needs half a second, and a kernel that shows it)";
  run.peak_host_bytes = peak_resident_bytes();
  if (!run.peak_host_bytes) run.notes["peak_host_bytes"] = "the kernel does not show it";
  else if (!reset) run.notes["peak_host_bytes"] = "of the whole process: the kernel does not let it be reset";
  return run;
}

}  // namespace temper
