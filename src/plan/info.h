// SPDX-License-Identifier: Apache-2.0
// A built model: its plans, and what else is known about it.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace temper {

// The range of shapes an input may have; all three equal for a fixed one.
struct ShapeRange {
  Dims min, opt, max;
  bool operator==(const ShapeRange&) const = default;
};

// Facts about a build, which `inspect` shows.
struct EngineInfo {
  std::string model_name;
  std::string model_sha256;
  std::string source_sha256;  // of the model that it was derived from, as its file says; otherwise its own
  std::string source_path;
  std::string producer;
  std::string precision = "fp32";
  std::string calibration_sha256;            // of the ranges file; "" where there was none
  std::vector<uint64_t> calibration_hashes;  // of the samples' content, sorted: what it must not be evaluated on
  // By input that takes pictures: how they become tensors (data/preprocess.h reads it); empty where nobody said.
  std::map<std::string, std::string> preprocess;
  bool placeholder = false;  // calibrated on noise: meaningless for accuracy
  // Convolutions and matrix products, and how many of them compute in `precision` where that is below fp32. For each
  // other node that does not, "name (op): reason".
  int64_t products = 0, lowered_products = 0;
  std::vector<std::string> not_lowered;
  std::string device;  // "cpu"
  // The machine and program that the plans are for; unplanned() fills them in from this process.
  std::string fingerprint;
  std::string version, revision;
  std::string command;  // that builds it again
  double build_s = 0;
  std::map<std::string, ShapeRange> shapes;  // by input; of several profiles, what holds all of them
  // Each with a range for every input; empty where `shapes` is the only one. Shapes are taken that one of them holds.
  std::vector<std::map<std::string, ShapeRange>> profiles;
  std::vector<std::string> notes;
  bool operator==(const EngineInfo&) const = default;
};

// The contents of a plan file; an engine is made of them.
struct PlanFile {
  EngineInfo info;
  int threads = 1;
  std::vector<PortInfo> inputs, outputs;  // types may have symbolic dimensions
  // The optimised graph as text. In a file `graph` itself only where an input has a symbolic dimension: then plans for
  // other shapes are made from it, and its constants are in the file; otherwise the text alone is kept, to be looked
  // at. An engine that was built has it in any case.
  std::string graph_text;
  std::optional<Graph> graph;
  std::map<std::string, double> timings;  // those that a plan for another shape may need
  std::vector<std::shared_ptr<const Plan>> plans;

  std::optional<Device> device;  // that it is for; absent in files to write, and with `foreign` where there is none
  // These are of a file that was read.
  int64_t file_bytes = 0, constant_bytes = 0,
          graph_bytes = 0;  // constant: what the plans use; graph: what only it does
  std::string refusal;      // with `foreign`: why this program cannot run it here, empty if it can
  bool complete = true;     // false: plans, graph and timings could not be read, because another version wrote them
};

}  // namespace temper
