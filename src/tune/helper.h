// SPDX-License-Identifier: Apache-2.0
// Candidates of libraries that are not ours are timed in a process of their own. After a fault of a kernel (an address
// that does not exist, say) the driver refuses everything to the process until it ends; no call brings the GPU back,
// and the library may have crashed on the host as well. So the process that is lost had better not be the one that
// builds.
#pragma once
#include <string>
#include <vector>

#include "backends/backend.h"
#include "base/child_process.h"

namespace temper {

// The other side is serve_timings (bench/serve_timings.h), in the same program.
class TimingHelper {
 public:
  // `command`: the program that serves timings, with its first arguments; the name of the device and the folders of
  // libraries are added. Empty: there is no such program, and every answer is `unavailable`.
  TimingHelper(std::vector<std::string> command, std::string device, const DeviceSettings& settings);
  ~TimingHelper();  // ends the process
  TimingHelper(const TimingHelper&) = delete;

  // Begins to start the process, beside the caller; time() does where this was not called.
  void start();

  struct Answer {
    // unavailable: no process can be had, or the candidate failed there without a fault: the caller times it itself.
    enum class Kind { timed, too_much_workspace, faulted, unavailable } kind = Kind::unavailable;
    double ms = 0;
    std::string text;  // of a fault: what happened
  };
  // `key`: timing_key() of the candidate. `best_ms` of its rivals so far, for giving up early.
  Answer time(const std::string& key, double best_ms, int64_t workspace_limit);

  // The lines of the conversation.
  static std::string greeting();  // first, by the process: who it is

 private:
  std::vector<std::string> command_;
  ChildProcess process_;
  bool ready_ = false, given_up_ = false;

  // Ends the process; how it ended, in words, and whether by its own doing rather than by somebody who needed its
  // memory.
  std::string end(bool& by_itself);
};

}  // namespace temper
