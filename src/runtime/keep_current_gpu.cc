// SPDX-License-Identifier: Apache-2.0
#include "runtime/keep_current_gpu.h"

#include <dlfcn.h>

#include <atomic>

namespace temper {

namespace {

// Of the driver that the process has opened; null where none is.
struct Contexts {
  int (*get)(void**) = nullptr;
  int (*set)(void*) = nullptr;
  int (*device)(int*) = nullptr;  // of the current one
  int (*primary_state)(int, unsigned*, int*) = nullptr;
  int (*primary_retain)(void**, int) = nullptr;
  int (*primary_release)(int) = nullptr;
};

template <class Function>
void find(void* driver, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(driver, name));
}

const Contexts& contexts() {
  static std::atomic<const Contexts*> known{nullptr};
  static const Contexts none;
  if (const Contexts* const found = known) return *found;
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!driver) return none;
  static const Contexts all = [driver] {
    Contexts found;
    find(driver, "cuCtxGetCurrent", found.get);
    find(driver, "cuCtxSetCurrent", found.set);
    find(driver, "cuCtxGetDevice", found.device);
    find(driver, "cuDevicePrimaryCtxGetState", found.primary_state);
    find(driver, "cuDevicePrimaryCtxRetain", found.primary_retain);
    find(driver, "cuDevicePrimaryCtxRelease_v2", found.primary_release);
    return found;
  }();
  known = &all;
  return all;
}

}  // namespace

KeepCurrentGpu::KeepCurrentGpu(bool of_gpu) : keeps_(of_gpu) {
  if (!keeps_) return;
  if (const Contexts& driver = contexts(); driver.get && driver.get(&before_) != 0) keeps_ = false;
}
KeepCurrentGpu::~KeepCurrentGpu() { put_back(); }

void KeepCurrentGpu::put_back() const {
  if (!keeps_) return;
  const Contexts& driver = contexts();
  void* now = nullptr;
  if (driver.get && driver.set && driver.get(&now) == 0 && now != before_) driver.set(before_);
}

void* KeepCurrentGpu::own_context() const {
  const Contexts& driver = contexts();
  if (!keeps_ || !before_ || !driver.device || !driver.primary_state || !driver.primary_retain ||
      !driver.primary_release)
    return nullptr;
  put_back();
  int device = 0, is_active = 0;
  unsigned flags = 0;
  void* primary = nullptr;
  if (driver.device(&device) != 0 || driver.primary_state(device, &flags, &is_active) != 0) return nullptr;
  if (!is_active) return before_;
  if (driver.primary_retain(&primary, device) != 0) return nullptr;
  driver.primary_release(device);
  return primary == before_ ? nullptr : before_;
}

}  // namespace temper
