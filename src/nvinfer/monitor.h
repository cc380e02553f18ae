// SPDX-License-Identifier: Apache-2.0
// Tells a program for TensorRT how far a build is, in TensorRT's terms: phases inside phases, each with steps.
#pragma once
#include <functional>
#include <string>

#include "base/progress.h"

namespace temper::nvinfer {

// The program's functions; each may throw, which ends the build. Phases have names; the outermost has no `parent`.
struct ProgressMonitor {
  std::function<void(const std::string& phase, const std::string& parent, int steps)> phase_start;
  std::function<bool(const std::string& phase, int step)> step_complete;  // false ends the build
  std::function<void(const std::string& phase)> phase_finish;
};

// While it lives there is an outermost phase "Building an engine", of one step. What counts ("calibrating: 3 of 10") is
// a step of the phase that its words name; where it does not say of how many, a phase ends after 100 and the next one
// says where it goes on. Anything else is a phase of one step. The monitor outlives it.
class MonitoredBuild {
 public:
  explicit MonitoredBuild(const ProgressMonitor& monitor);
  Progress progress();  // throws Error{usage} where the program ends the build
  void finish();        // the build is done

 private:
  const ProgressMonitor& monitor_;
  std::string words_, phase_;  // of the phase that is open, "": none
  int steps_ = 0, done_ = 0, before_ = 0;
  double at_ = 0;  // ProgressStep::done of the last one

  void tell(const ProgressStep& step_of);
  void begin(std::string phase, int steps);
  void step();
  void end();
};

}  // namespace temper::nvinfer
