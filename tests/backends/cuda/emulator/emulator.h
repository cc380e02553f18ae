// SPDX-License-Identifier: Apache-2.0
// Runs kernels that the compiler of this folder (nvrtc.cc) made for the CPU. Every thread of a block is a fiber, and
// the order in which they go on is drawn anew for every launch, as is when what goes on behind their back is done
// (cp.async, bulk copies, wgmma): at once, at some time, or when it is waited for. A kernel that does not wait for what
// it needs, or overwrites what is still read, gives wrong results then; one that waits for what never comes is told of.
#pragma once
#include <memory>
#include <string>

#include "machine.h"

namespace temper::emulator {

struct LaunchOptions {
  Three grid, block;
  unsigned shared_bytes = 0;
  uint64_t seed = 0;
};

// A shared library that was loaded from memory.
class KernelLibrary {
 public:
  // Null where the bytes are no library for this processor.
  static std::shared_ptr<KernelLibrary> load(const void* bytes);
  ~KernelLibrary();
  // Null where there is no such kernel.
  std::unique_ptr<Bound> bind(const std::string& kernel, void** arguments) const;
  bool has(const std::string& kernel) const;
  // Runs all blocks, one cluster after another. The text of what went wrong, or nothing.
  std::string run(const std::string& kernel, Bound& bound, const LaunchOptions& options) const;

 private:
  void* handle_ = nullptr;
};

}  // namespace temper::emulator
