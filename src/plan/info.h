// SPDX-License-Identifier: Apache-2.0
// What is known about a built model beside its plans.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/dim.h"

namespace temper {

// The range of shapes an input may have; all three equal for a fixed one.
struct ShapeRange {
  Dims min, opt, max;
  bool operator==(const ShapeRange&) const = default;
};

// What `build` knows and `inspect` shows.
struct EngineInfo {
  std::string model_name;
  std::string model_sha256;
  std::string source_sha256;  // of the model that it was derived from, as its file says; otherwise its own
  std::string source_path;
  std::string producer;
  std::string precision = "fp32";
  std::string calibration_sha256;            // of the ranges file; "" where there was none
  std::vector<uint64_t> calibration_hashes;  // of the samples' content, sorted: what it must not be evaluated on
  bool placeholder = false;                  // calibrated on noise: meaningless for accuracy
  // Convolutions and matrix products, and how many of them compute in `precision` where that is below fp32. For each
  // other node that does not, "name (op): reason".
  int64_t products = 0, lowered_products = 0;
  std::vector<std::string> not_lowered;
  std::string device;  // "cpu"
  // The machine and program that the plans are for. An Engine fills them in from the process it is made in.
  std::string fingerprint;
  std::string version, revision;
  std::string command;  // that builds it again
  double build_s = 0;
  std::map<std::string, ShapeRange> shapes;  // by input
  std::vector<std::string> notes;
  bool operator==(const EngineInfo&) const = default;
};

}  // namespace temper
