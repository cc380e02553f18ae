// SPDX-License-Identifier: Apache-2.0
// Processes that compile kernels for this one; the other side of the conversation is serve_kernels.h.
#pragma once
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/child_process.h"

namespace temper::cuda {

// Thread-safe.
class CompileProcesses {
 public:
  // Starts `most` processes of `command`. `greeting`: the line with which each has to begin.
  CompileProcesses(std::vector<std::string> command, int most, std::string greeting);

  // A process compiles the text meanwhile. False where all are busy or ended, or the text does not compile: the caller
  // tries it himself.
  bool compile(const std::string& text, const std::vector<std::string>& options, const std::string& architecture,
               std::string& log, std::vector<std::byte>& cubin);

 private:
  struct Process {
    ChildProcess child;
    bool has_greeted = false;
  };
  const std::string greeting_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Process>> idle_;
};

}  // namespace temper::cuda
