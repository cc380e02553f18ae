// SPDX-License-Identifier: Apache-2.0
#include "nvinfer/monitor.h"

#include "base/error.h"

namespace temper::nvinfer {

namespace {

constexpr const char* kBuild = "Building an engine";
constexpr int kChunk = 100;

}  // namespace

MonitoredBuild::MonitoredBuild(const ProgressMonitor& monitor) : monitor_(monitor) {
  monitor_.phase_start(kBuild, "", 1);
}

Progress MonitoredBuild::progress() {
  return [this](const ProgressStep& step) { tell(step); };
}

void MonitoredBuild::begin(std::string phase, int steps) {
  monitor_.phase_start(phase, kBuild, steps);
  phase_ = std::move(phase);
  steps_ = steps;
  done_ = 0;
}

void MonitoredBuild::step() {
  if (!monitor_.step_complete(phase_, done_++)) fail(ErrorKind::usage, "the build was ended by the progress monitor");
}

void MonitoredBuild::end() {
  if (phase_.empty()) return;
  monitor_.phase_finish(phase_);
  phase_.clear();
}

void MonitoredBuild::tell(const ProgressStep& step_of) {
  const bool counts = step_of.total > 0 || step_of.done > 0 || !step_of.more.empty();
  const bool goes_back = step_of.done < at_;
  at_ = step_of.done;
  if (phase_.empty() || step_of.what != words_ || goes_back) {
    end();
    words_ = step_of.what;
    before_ = 0;
    const bool of_known = step_of.total >= 1 && step_of.total < 1e9;
    begin(words_, of_known ? int(step_of.total) : counts ? kChunk : 1);
  } else if (done_ == steps_) {
    before_ += steps_;
    end();
    begin(concat(words_, " from ", before_ + 1), counts ? kChunk : 1);
  }
  step();
}

void MonitoredBuild::finish() {
  end();
  // Too late to end anything by its answer.
  monitor_.step_complete(kBuild, 0);
  monitor_.phase_finish(kBuild);
}

}  // namespace temper::nvinfer
