// SPDX-License-Identifier: Apache-2.0
// The plan file: written atomically, read into memory, checked before anything in it is believed. The format is
// described in docs/plan-file.md.
#pragma once
#include <optional>

#include "plan/container.h"
#include "plan/info.h"
#include "plan/plan.h"

namespace temper {

struct PlanFile {
  EngineInfo info;
  int threads = 1;
  std::vector<PortInfo> inputs, outputs;  // types may have symbolic dimensions
  // The optimised graph as text. `graph` itself only where an input has a symbolic dimension: then plans for other
  // shapes are made from it, and its constants are in the file; otherwise the text alone is kept, to be looked at.
  std::string graph_text;
  std::optional<Graph> graph;
  std::map<std::string, double> timings;  // those that a plan for another shape may need
  std::vector<std::shared_ptr<const Plan>> plans;

  // Of a file that was read.
  std::optional<Device> device;  // that it is for; absent with `foreign` where there is none here
  int64_t file_bytes = 0, constant_bytes = 0,
          graph_bytes = 0;  // constant: what the plans use; graph: what only it does
  std::string refusal;      // with `foreign`: why this program cannot run it here, empty if it can
  bool complete = true;     // false: plans, graph and timings could not be read, because another version wrote them
};

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
};
// Constants of the result look into the copy of the file (or the map), which lives as long as they do. What becomes of
// the file afterwards does not matter; a file that is changed while it is read is Error{bad_file}. Throws
// Error{bad_file} for what is damaged or not a plan; Error{unsupported}, with the command that builds it again, for one
// of another version, build or machine.
PlanFile read_plan_file(const std::string& path, const ReadPlanOptions& options = {});
// The same on bytes at a 64-byte aligned address that `owner` keeps alive.
PlanFile read_plan(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                   const ReadPlanOptions& options = {});

// Whether the file begins as a plan does: what tells a MODEL from a PLAN. Throws Error{bad_file} for what cannot be
// opened.
bool is_plan(const std::string& path);

}  // namespace temper
