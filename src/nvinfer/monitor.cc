// SPDX-License-Identifier: Apache-2.0
#include "nvinfer/monitor.h"

#include <regex>

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
  return [this](const std::string& line) { tell(line); };
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

void MonitoredBuild::tell(const std::string& line) {
  static const std::regex counted(R"((.*[^,: ])[,:]? \d+ (so far|of (?:at most )?(\d+)).*)");
  std::smatch found;
  const bool counts = std::regex_match(line, found, counted);
  const std::string words = counts ? found[1].str() : line;
  if (phase_.empty() || words != words_) {
    end();
    words_ = words;
    before_ = 0;
    const bool of_known = counts && found[3].matched && found[3].length() < 9;
    begin(words, of_known ? std::max(std::stoi(found[3].str()), 1) : counts ? kChunk : 1);
  } else if (done_ == steps_) {
    before_ += steps_;
    end();
    begin(concat(words, " from ", before_ + 1), counts ? kChunk : 1);
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
