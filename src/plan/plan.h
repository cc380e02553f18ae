// SPDX-License-Identifier: Apache-2.0
// A plan: steps for one set of concrete shapes on one machine, with every buffer placed. Nothing is decided at run
// time.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "graph/graph.h"

namespace temper {

struct BufferRef {
  enum class Kind : uint8_t { none, input, output, shared, local, constant } kind = Kind::none;
  // input/output: index. shared: byte offset in the session's arena. local: byte offset in the segment's part of the
  // arena, one part per chain. constant: index into Plan::constants.
  int64_t at = 0;
  int64_t slice_bytes = 0;  // distance between slices of the batch; 0 where every slice sees the same memory
  int64_t offset = 0;       // bytes behind the buffer's beginning, of a part of a larger tensor
  bool operator==(const BufferRef&) const = default;
};

// A candidate that lost against the chosen one, for `inspect --why`.
struct Candidate {
  std::string tactic, config;
  double ms = -1;       // negative: not timed
  std::string refusal;  // not empty: why it is no candidate
};

struct PlanStep {
  std::string node;    // name of the graph's node; "reorder of x" for a change of layout
  std::string tactic;  // "" for a reorder
  int tactic_version = 0;
  Config config;
  Problem problem;  // for a reorder: one input, one output, the op is not used
  std::vector<BufferRef> inputs, outputs;
  int packed = -1, code = -1;  // Packed::bytes and ::code: indices into Plan::constants
  int64_t workspace = 0;       // bytes, at the segment's workspace offset
  bool backwards = false;      // Kernel::go_backwards
  double ms = -1;              // as measured when chosen, by itself or in the plan; negative: nobody timed it
  std::vector<Candidate> losers;
  bool is_reorder() const { return tactic.empty(); }
  Reorder reorder() const {
    return {problem.inputs.at(0).type, config.inputs.at(0), config.outputs.at(0), problem.threads};
  }
};

// Steps that run one slice of the batch at a time, slices one after the other or one chain of them per thread.
struct Segment {
  int64_t slices = 1;
  bool parallel = false;     // each thread runs its own chain on its own slices; its kernels are single-threaded
  int64_t local_bytes = 0;   // of one chain: activations that live inside the segment, and the workspace
  int64_t workspace_at = 0;  // byte offset in the chain's part
  std::vector<PlanStep> steps;
};

struct PortInfo {
  std::string name;
  TensorType type;
};

// The time of one run of a whole plan, as `bench` runs it, measured once at the end of the build.
struct WholeTime {
  double ms = -1;              // the median; negative: nobody measured it
  double low = -1, high = -1;  // its 95 % interval; negative where the runs were too few
  int64_t runs = 0;
  double load = -1;  // cores that other processes used meanwhile; negative: not known
  bool is_measured() const { return ms >= 0; }
  bool operator==(const WholeTime&) const = default;
};

struct Plan {
  std::vector<PortInfo> inputs, outputs;  // concrete
  int threads = 1;
  int64_t shared_bytes = 0;  // arena part for values that cross segments
  std::vector<Segment> segments;
  std::vector<std::shared_ptr<const Tensor>> constants;  // u8 for packed bytes and code; each aligned to 64 bytes
  WholeTime whole;
  std::map<std::string, int64_t> not_measured;  // candidates that the search had no time left for, by tactic

  // The sum of the steps' times, each as it was measured by itself or in the plan; and of how many steps nobody knows
  // the time: with any of those the sum is a bound from below.
  double steps_ms() const;
  int64_t untimed_steps() const;

  PackedView packed_of(const PlanStep& step) const {
    auto bytes = [&](int index) {
      return index < 0 ? std::span<const std::byte>() : constants.at(size_t(index))->raw();
    };
    return {bytes(step.packed), bytes(step.code)};
  }
  int64_t arena_bytes() const {
    int64_t bytes = shared_bytes;
    for (const Segment& s : segments)
      bytes = std::max(bytes, shared_bytes + s.local_bytes * (s.parallel ? threads : 1));
    return bytes;
  }
};

inline double Plan::steps_ms() const {
  double ms = 0;
  for (const Segment& segment : segments)
    for (const PlanStep& step : segment.steps) ms += std::max(0.0, step.ms);
  return ms;
}
inline int64_t Plan::untimed_steps() const {
  int64_t count = 0;
  for (const Segment& segment : segments)
    for (const PlanStep& step : segment.steps) count += step.ms < 0;
  return count;
}

}  // namespace temper
