// SPDX-License-Identifier: Apache-2.0
// The plan file: written atomically, read into memory, checked before anything in it is believed. The format is
// described in docs/plan-file.md.
#pragma once
#include "plan/container.h"
#include "plan/info.h"

namespace temper {

// Throws Error{machine} where the file cannot be written, and Error{usage} where a file of another kind is there and it
// is not forced; then what was there before is unchanged. A plan that would not be accepted on reading is not written.
void write_plan_file(const std::string& path, const PlanFile& file, bool force = false);
void write_plan(const PlanFile& file, const ByteSink& sink);

struct ReadPlanOptions {
  bool candidates = false;  // also PlanStep::losers
  bool foreign = false;     // a plan of another machine or version is no error; see PlanFile::complete
  // The file is mapped instead of copied, so that processes share its pages. Then it must stay as it is while anything
  // of the result lives: a file that is cut ends the process by SIGBUS, and one that is rewritten in place gives other
  // answers.
  bool map_file = false;
  DeviceSettings settings;
  // Not empty: the device that it is to run on, of the plan's kind ("cuda:1" for a plan of "cuda:0"), which becomes
  // info.device. Throws Error{usage} for another kind.
  std::string device = "";
};
// Constants of the result look into the copy of the file (or the map), which lives as long as they do. What becomes of
// the file afterwards does not matter; a file that is changed while it is read is Error{bad_file}. Throws
// Error{bad_file} for what is damaged or not a plan; Error{unsupported}, with the command that builds it again, for one
// of another version, build or machine.
PlanFile read_plan_file(const std::string& path, const ReadPlanOptions& options = {});
// The same on bytes at a 64-byte aligned address that `owner` keeps alive.
PlanFile read_plan(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner,
                   const ReadPlanOptions& options = {});

// Whether the file begins as a plan does: what tells a MODEL from a PLAN. Throws Error{bad_file} for what cannot be
// opened.
bool is_plan(const std::string& path);

}  // namespace temper
