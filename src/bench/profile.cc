// SPDX-License-Identifier: Apache-2.0
#include "bench/profile.h"

#include <algorithm>
#include <iterator>

#include "bench/bench_engine.h"
#include "graph/ops/fused.h"
#include "measure/clock.h"
#include "measure/load_watch.h"
#include "measure/statistics.h"

namespace temper {

namespace {

double rate_of(const Peaks& peaks, DType operands) {
  // Matrix units that know FP8 multiply it as fast (NVIDIA's data sheets of Ada and Hopper).
  if (operands == DType::i8 || operands == DType::u8 || operands == DType::f8e4m3fn) return peaks.i8_per_s;
  if (operands == DType::f16) return peaks.f16_per_s;
  return operands == DType::bf16 ? peaks.bf16_per_s : operands == DType::f32 ? peaks.f32_per_s : 0;
}

}  // namespace

Profile steps_of(std::shared_ptr<const Plan> plan) {
  Profile profile;
  for (size_t s = 0; s < plan->segments.size(); ++s) {
    const Segment& segment = plan->segments[s];
    for (const PlanStep& step : segment.steps) {
      StepProfile row;
      row.plan = plan.get();
      row.segment = s;
      row.step = &step;
      row.bytes = bytes_of(*plan, segment, step);
      row.operations = operations_of(segment, step);
      row.to = step.problem.outputs[0].type.dtype;
      // A fused convolution multiplies values that are made of its input and have the type of its weights.
      const auto& inputs = step.problem.inputs;
      const bool fused = step.problem.op.is<ops::FusedConv>();
      row.from = inputs.empty() ? row.to : inputs[fused ? 1 : 0].type.dtype;
      profile.steps.push_back(row);
    }
  }
  profile.plan = std::move(plan);
  return profile;
}

// Runs whole and step by step in turns; what a run takes is known afterwards.
static Profile profile_partitions(BenchSession& session, const Peaks& peaks, double seconds) {
  Profile profile;
  Clock& clock = host_clock();
  for (int i = 0; i < 3; ++i) session.run();
  std::vector<double> whole;
  const LoadWatch watch;
  const double start = clock.now_ms();
  do {
    whole.push_back(clock.elapsed_ms([&] { session.run(); }, 1));
    session.session().time_partitions(true);
    session.run();
    session.session().time_partitions(false);
  } while (clock.now_ms() - start < seconds * 1e3 || whole.size() < 5);
  profile.load_by_others = watch.load();
  profile.runs = int(whole.size());
  profile.run_ms = median(whole);
  const auto runs = double(whole.size());
  for (Partition& partition : session.session().partitions()) {
    if (partition.runs == 0) continue;
    Profile own = steps_of(partition.plan);
    size_t next = 0;
    for (const auto& segment : partition.ms)
      for (double ms : segment) {
        StepProfile& row = own.steps[next++];
        row.where = partition.where;
        row.calls = double(partition.runs) / runs;
        row.ms = ms / runs;
        profile.steps_ms += row.ms;
      }
    for (Partition::Between& node : partition.between) {
      node.ms /= runs;
      profile.steps_ms += node.ms;
    }
    std::move(own.steps.begin(), own.steps.end(), std::back_inserter(profile.steps));
    profile.partitions.push_back(std::move(partition));
  }
  for (StepProfile& row : profile.steps) row.share = profile.steps_ms > 0 ? row.ms / profile.steps_ms : 0;
  hold_against(profile, peaks);
  return profile;
}

Profile profile_engine(const std::shared_ptr<const Engine>& engine, const std::vector<Dims>& shapes, const Peaks& peaks,
                       double seconds, const GivenInputs& given) {
  BenchSession session(engine, with_random(*engine, shapes, given));
  if (session.is_partitioned()) return profile_partitions(session, peaks, seconds);
  Profile profile = steps_of(engine->plan_for(shapes));
  Clock& clock = host_clock();
  for (int i = 0; i < 3; ++i) session.run();
  std::vector<std::vector<std::vector<double>>> taken;  // by segment and step, a time a run
  std::vector<double> whole;
  const LoadWatch watch;
  const double start = clock.now_ms();
  do {
    whole.push_back(engine->device().gpu ? session.run_on_device(1, true)[0]
                                         : clock.elapsed_ms([&] { session.run(); }, 1));
    session.sample_steps(taken);
  } while (clock.now_ms() - start < seconds * 1e3 || whole.size() < 5);
  profile.load_by_others = watch.load();
  profile.runs = int(whole.size());
  profile.run_ms = median(whole);
  size_t next = 0;
  for (const auto& segment : taken)
    for (const std::vector<double>& times : segment) {
      StepProfile& row = profile.steps[next++];
      row.ms = median(times);
      profile.steps_ms += row.ms;
    }
  for (StepProfile& row : profile.steps) row.share = profile.steps_ms > 0 ? row.ms / profile.steps_ms : 0;
  hold_against(profile, peaks);
  return profile;
}

void hold_against(Profile& profile, const Peaks& peaks) {
  for (StepProfile& row : profile.steps) {
    row.of_arithmetic = row.of_memory = 0;
    const double s_taken = row.ms / row.calls / 1e3;
    if (s_taken <= 0) continue;
    const bool product = product_operations_of(row.plan->segments[row.segment], *row.step) > 0;
    const double rate = rate_of(peaks, product ? row.from : DType::f32);
    if (row.operations && rate > 0) row.of_arithmetic = double(*row.operations) / rate / s_taken;
    if (peaks.bytes_per_s > 0) row.of_memory = double(row.bytes) / peaks.bytes_per_s / s_taken;
  }
}

std::vector<const StepProfile*> above_limits(const Profile& profile, int64_t cache_bytes) {
  constexpr double kMost = 1.1, kLeastMs = 0.01;
  std::vector<const StepProfile*> above;
  for (const StepProfile& row : profile.steps) {
    // cuDNN chooses Winograd by itself.
    const bool fewer = row.step->config.text.find("winograd") != std::string::npos ||
                       row.step->tactic.find("cudnn") != std::string::npos;
    const double from_memory = row.bytes > 0 ? std::max(0.0, 1 - double(cache_bytes) / double(row.bytes)) : 0;
    if (row.ms / row.calls >= kLeastMs &&
        ((row.of_arithmetic > kMost && !fewer) || row.of_memory * from_memory > kMost))
      above.push_back(&row);
  }
  return above;
}

const Candidate* runner_up(const PlanStep& step) {
  const Candidate* best = nullptr;
  for (const Candidate& c : step.losers)
    if (c.refusal.empty() && c.ms >= 0 && (!best || c.ms < best->ms)) best = &c;
  return best;
}

}  // namespace temper
