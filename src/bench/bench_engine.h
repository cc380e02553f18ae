// SPDX-License-Identifier: Apache-2.0
// Measures one engine at one set of shapes.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/progress.h"
#include "bench/results.h"
#include "data/bench_session.h"
#include "data/given_inputs.h"
#include "runtime/engine.h"

namespace temper {

// Concrete shapes of all inputs: `batch` for the symbol that is the first dimension of the first input, wherever it
// occurs; every other open dimension as the profile's opt. batch 0: everything as the profile's opt. What was given
// comes before both. Throws Error{usage} where the batch is fixed to another number, a dimension is left open, or the
// profile refuses the shapes.
std::vector<Dims> shapes_for_batch(const Engine& engine, int64_t batch, const GivenInputs& given = {});
// The message of a timer's callback: `samples` in `seconds`; none: it warms up.
ProgressStep step_of(const TimerOptions& timer, const std::string& what, int samples, double seconds);
int64_t batch_of(const std::vector<Dims>& shapes);  // first dimension of the first input that has one; otherwise 1

// How runs come: back to back in `streams` sessions at a time, or as requests of a rate (measure/load.h).
struct LoadPattern {
  int streams = 1;
  double request_rate_per_s = 0;  // 0: back to back
  // GPUs: whether the copies of inputs and outputs are in the times, which are the host's then; without them they are
  // the GPU's own. Only one stream back to back may leave them out.
  bool transfers = false;
  bool cuda_graph = true;  // of a GPU, without transfers: as one recorded graph, or launch by launch
  // GPUs, with transfers, one stream back to back: gets the GPU's own time in each sample, in their order. Left as it
  // is where shapes depend on data.
  std::vector<double>* device_ms = nullptr;
  std::vector<StateBinding> states;  // that each session keeps; times are the host's, then
};

// Describes a run of the engine before it is measured: device, precision, batch, shapes, threads, hashes, memory of a
// session.
BenchRun describe_run(const Engine& engine, const std::vector<Dims>& shapes, const GivenInputs& given = {});

// Fills every field but model, command, plan_bytes and build_s. The peak of the resident memory is reset before the
// sessions are made where the kernel lets us; otherwise a note says so. On a CPU inputs and outputs stay in place:
// nothing is transferred. timer.relative_error and timer.iterations mean nothing for requests of a rate: they come for
// timer.max_seconds. `given`: what to run on instead of seeded random numbers.
BenchRun bench_engine(const std::shared_ptr<const Engine>& engine, const std::vector<Dims>& shapes,
                      const TimerOptions& timer, const LoadPattern& load = {}, const GivenInputs& given = {});

}  // namespace temper
