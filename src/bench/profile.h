// SPDX-License-Identifier: Apache-2.0
// Finds where the time of a plan goes, step by step, and how far each step is from what the machine can do.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "plan/work.h"
#include "runtime/engine.h"
#include "tune/peaks.h"

namespace temper {

struct StepProfile {
  size_t segment = 0;
  const PlanStep* step = nullptr;
  double ms = 0;     // median over the runs, all slices; in segments whose slices run side by side, of one chain
  double share = 0;  // of the sum over the steps
  int64_t bytes = 0;
  std::optional<int64_t> operations;
  DType from = DType::f32, to = DType::f32;  // of the first operand and of the result
  // Time at the machine's peak over the time taken, by arithmetic and by memory; 0 where the peak or the count is not
  // known. By memory it can exceed 1: what lies in a cache is read faster than from memory.
  double of_arithmetic = 0, of_memory = 0;
};

struct Profile {
  std::shared_ptr<const Plan> plan;
  std::vector<StepProfile> steps;  // in the order in which they run
  double run_ms = 0;               // median of whole runs, not taken apart, between the others
  double steps_ms = 0;             // sum of the steps
  int runs = 0;
  std::optional<double> load_by_others;  // cores, meanwhile; nothing below half a second
};

// Runs the plan for `shapes` on seeded random numbers, whole and step by step in turns. Throws Error{unsupported} for a
// model of several partitions, which has no one plan.
Profile profile_engine(const std::shared_ptr<const Engine>& engine, const std::vector<Dims>& shapes, const Peaks& peaks,
                       double seconds);

// Fills in the shares of these limits.
void hold_against(Profile& profile, const Peaks& peaks);
// Finds steps above 110 % of a limit, by neither Winograd's fewer operations nor bytes that a cache of that size may
// have held: then the limit is wrong.
std::vector<const StepProfile*> above_limits(const Profile& profile, int64_t cache_bytes);

// The fastest candidate that lost, null where none was timed.
const Candidate* runner_up(const PlanStep& step);

}  // namespace temper
