// SPDX-License-Identifier: Apache-2.0
#include "plan/step_ranges.h"

#include <dlfcn.h>

#include <cstdint>

#include "base/error.h"

namespace temper {

std::atomic<const StepRangeCalls*> step_range_calls{nullptr};

namespace {

// What a profiler's library fills in, by NVTX 3's interface for that (nvtx3/nvtxDetail/nvtxTypes.h): it asks for a
// table of places to put its functions in, of which two are ours.
using Function = void (*)();
constexpr uint32_t kCallbacks = 1;  // the one export that is answered
constexpr int kCoreModule = 1, kRangePushA = 9, kRangePop = 11, kCoreFunctions = 16;

Function functions[kCoreFunctions];
Function* places[kCoreFunctions];

int function_table(int module, Function*** table, unsigned* size) {
  if (module != kCoreModule) return 0;
  for (int i = 0; i < kCoreFunctions; ++i) places[i] = &functions[i];
  *table = places;
  if (size) *size = kCoreFunctions;
  return 1;
}

struct Callbacks {
  size_t struct_size = sizeof(Callbacks);
  int (*function_table)(int, Function***, unsigned*) = temper::function_table;
};

const void* export_of(uint32_t id) {
  static const Callbacks callbacks;
  return id == kCallbacks ? &callbacks : nullptr;
}

StepRangeCalls by_injection(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_LAZY);
  if (!library) fail(ErrorKind::unsupported, "the profiler's library '", path, "' cannot be opened: ", dlerror());
  const auto initialise =
      reinterpret_cast<int (*)(const void* (*)(uint32_t))>(dlsym(library, "InitializeInjectionNvtx2"));
  if (!initialise || !initialise(export_of) || !functions[kRangePushA] || !functions[kRangePop])
    fail(ErrorKind::unsupported, "'", path, "' takes no ranges of NVTX 3");
  return {reinterpret_cast<int (*)(const char*)>(functions[kRangePushA]),
          reinterpret_cast<int (*)()>(functions[kRangePop])};
}

StepRangeCalls by_library(const std::string& name) {
  void* const library = dlopen(name.c_str(), RTLD_LAZY);
  if (!library)
    fail(ErrorKind::unsupported, "there is no NVTX: ", dlerror(),
         "; run it under a profiler (nsys profile), or install libnvToolsExt");
  const StepRangeCalls calls{reinterpret_cast<int (*)(const char*)>(dlsym(library, "nvtxRangePushA")),
                             reinterpret_cast<int (*)()>(dlsym(library, "nvtxRangePop"))};
  if (!calls.push || !calls.pop) fail(ErrorKind::unsupported, "'", name, "' is no library of NVTX");
  return calls;
}

}  // namespace

void open_step_ranges(const std::string& injection, const std::string& library) {
  static StepRangeCalls calls;
  if (step_range_calls.load()) return;
  calls = injection.empty() ? by_library(library) : by_injection(injection);
  step_range_calls.store(&calls);
}

}  // namespace temper
