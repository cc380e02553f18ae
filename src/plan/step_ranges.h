// SPDX-License-Identifier: Apache-2.0
// Names each step to a profiler while it is launched, by NVTX: Nsight Systems then shows the steps by their nodes. Off
// until open_step_ranges is called; then a step costs one look at a pointer.
#pragma once
#include <atomic>
#include <string>

namespace temper {

// Opens NVTX at run time: the profiler's own library where it hands one in (`injection`, what NVTX_INJECTION64_PATH
// names), otherwise `library`, by default libnvToolsExt.so.1. Throws Error{unsupported} where there is neither. Once a
// process.
void open_step_ranges(const std::string& injection, const std::string& library = "libnvToolsExt.so.1");

struct StepRangeCalls {
  int (*push)(const char*) = nullptr;
  int (*pop)() = nullptr;
};
extern std::atomic<const StepRangeCalls*> step_range_calls;  // null: off

// A range that ends with the object.
class StepRange {
 public:
  explicit StepRange(const std::string& name) : calls_(step_range_calls.load(std::memory_order_relaxed)) {
    if (calls_) calls_->push(name.c_str());
  }
  ~StepRange() {
    if (calls_) calls_->pop();
  }
  StepRange(const StepRange&) = delete;

 private:
  const StepRangeCalls* calls_;
};

}  // namespace temper
