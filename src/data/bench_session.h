// SPDX-License-Identifier: Apache-2.0
// Runs an engine on seeded numbers, for bench and for the measurement at the end of a build.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "measure/clock.h"
#include "runtime/engine.h"

namespace temper {

// Inputs of seeded random numbers (graph/random.h). Integers wider than a byte are 0: they may be positions in a table
// of any length. A text's mask (tokens.h) of such integers is 1: of rows without a token nobody says what a model
// answers, and engines differ.
std::vector<Tensor> random_inputs(const Engine& engine, const std::vector<Dims>& shapes, uint64_t seed = 0);

// A session ready to run with such inputs.
class BenchSession {
 public:
  BenchSession(std::shared_ptr<const Engine> engine, const std::vector<Dims>& shapes, uint64_t seed = 0);
  // On these inputs, of the shapes' and the engine's types; those of a state are its first value.
  BenchSession(std::shared_ptr<const Engine> engine, std::vector<Tensor> inputs,
               const std::vector<StateBinding>& states = {});
  void run() {
    if (session_.is_partitioned()) session_.run(inputs_);
    else session_.run_prepared(in_, out_);
    if (begins_) go_on();
  }
  // On a device with memory of its own, after a first run(): milliseconds there, without transfers, of `times` runs one
  // behind the other.
  std::vector<double> run_on_device(int times, bool recorded) { return session_.run_on_device(times, recorded); }
  // run() on such a device; the milliseconds of the steps there, without the transfers around them.
  double run_clocked() { return session_.run_clocked(in_, out_); }
  // Runs once, step by step, and adds each step's milliseconds to its samples, by segment and step. Of one stage only.
  void sample_steps(std::vector<std::vector<std::vector<double>>>& samples);
  bool is_partitioned() const { return session_.is_partitioned(); }
  Session& session() { return session_; }

 private:
  Session session_;
  std::vector<Tensor> inputs_, outputs_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
  bool begins_ = false;  // the states have their first values

  void go_on();
};

// The GPU's own clock for run() of a session. The first call, the cold one, is the host's, with transfers: only then
// inputs are on the GPU.
class DeviceClock final : public Clock {
 public:
  DeviceClock(BenchSession& session, bool recorded) : session_(session), recorded_(recorded) {}
  double now_ms() override { return host_clock().now_ms(); }
  double elapsed_ms(const std::function<void()>& body, int calls) override {
    if (!std::exchange(started_, true)) return host_clock().elapsed_ms(body, 1);
    double ms = 0;
    for (double one : session_.run_on_device(calls, recorded_)) ms += one;
    return ms;
  }

 private:
  BenchSession& session_;
  bool recorded_, started_ = false;
};

// The host's clock for run() of a session on a GPU, with transfers. Each reading's share of the GPU, by the GPU's own
// clock, goes to device_ms.
class BothClocks final : public Clock {
 public:
  explicit BothClocks(BenchSession& session) : session_(session) {}
  double now_ms() override { return host_clock().now_ms(); }
  double elapsed_ms(const std::function<void()>&, int calls) override {
    double ms = 0;
    const double start = now_ms();
    for (int i = 0; i < calls; ++i) ms += session_.run_clocked();
    device_ms.push_back(ms / calls);
    return now_ms() - start;
  }
  std::vector<double> device_ms;  // of one run, by reading

 private:
  BenchSession& session_;
};

}  // namespace temper
