// SPDX-License-Identifier: Apache-2.0
// What is known about a built model beside its plans.
#pragma once
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
  std::string source_path;
  std::string producer;
  std::string precision = "fp32";
  std::string device;        // "cpu"
  // The machine and program that the plans are for. An Engine fills them in from the process it is made in.
  std::string fingerprint;
  std::string version, revision;
  std::string command;       // that builds it again
  double build_s = 0;
  std::map<std::string, ShapeRange> shapes;  // by input
  std::vector<std::string> notes;
  bool operator==(const EngineInfo&) const = default;
};

}  // namespace temper
