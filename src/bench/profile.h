// SPDX-License-Identifier: Apache-2.0
// Finds where the time of a plan goes, step by step, and how far each step is from what the machine can do.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "data/given_inputs.h"
#include "plan/work.h"
#include "runtime/engine.h"
#include "runtime/partitions.h"
#include "tune/peaks.h"

namespace temper {

struct StepProfile {
  std::string where;  // of a model in partitions: Partition::where
  const Plan* plan = nullptr;
  size_t segment = 0;
  const PlanStep* step = nullptr;
  double calls = 1;  // in a run of the model
  double ms = 0;     // of a run of the model: median over the runs, all slices, or of a model in partitions the mean of
                     // all calls together; in segments whose slices run side by side, of one chain
  double share = 0;  // of the sum over the steps
  int64_t bytes = 0;
  std::optional<int64_t> operations;
  DType from = DType::f32, to = DType::f32;  // of the first operand and of the result
  // Time at the machine's peak over the time taken, by arithmetic and by memory; 0 where the peak or the count is not
  // known. By memory it can exceed 1: what lies in a cache is read faster than from memory.
  double of_arithmetic = 0, of_memory = 0;
};

struct Profile {
  std::shared_ptr<const Plan> plan;   // null where the model runs in partitions
  std::vector<Partition> partitions;  // those that ran
  std::vector<StepProfile> steps;     // in the order in which they run
  double run_ms = 0;                  // median of whole runs, not taken apart, between the others
  double steps_ms = 0;                // sum of the steps, and of what runs between plans
  int runs = 0;
  std::optional<double> load_by_others;  // cores, meanwhile; nothing below half a second
};

// The steps of a plan with what they move and compute, not timed.
Profile steps_of(std::shared_ptr<const Plan> plan);
// Runs the plan for `shapes` on what was given, or seeded random numbers, whole and step by step in turns; of a model
// in partitions, the plans that the run takes.
Profile profile_engine(const std::shared_ptr<const Engine>& engine, const std::vector<Dims>& shapes, const Peaks& peaks,
                       double seconds, const GivenInputs& given = {});

// Fills in the shares of these limits.
void hold_against(Profile& profile, const Peaks& peaks);
// Finds steps above 110 % of a limit, by neither Winograd's fewer operations nor bytes that a cache of that size may
// have held: then the limit is wrong.
std::vector<const StepProfile*> above_limits(const Profile& profile, int64_t cache_bytes);

// The fastest candidate that lost, null where none was timed.
const Candidate* runner_up(const PlanStep& step);

}  // namespace temper
