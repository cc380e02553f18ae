// SPDX-License-Identifier: Apache-2.0
// A libnvidia-ml.so.1 of two GPUs: 0000:01:00.0 counts its energy, 7,000 mJ more at each call, and 0000:02:00.0 has no
// such counter. Both say 100 W.
#include <cstdio>
#include <cstring>

#define NVML extern "C" __attribute__((visibility("default")))

namespace {
constexpr int kNotSupported = 3, kNotFound = 6;
struct {
  unsigned long long millijoules = 1'000'000'000'000;  // more than 32 bits
} counting, plain;
int says(unsigned value, unsigned* to) {
  *to = value;
  return 0;
}
}  // namespace

NVML int nvmlInit_v2() { return 0; }
NVML int nvmlShutdown() { return 0; }
NVML int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::snprintf(text, length, "1.2.3");
  return 0;
}
NVML int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  *device = std::strcmp(id, "0000:01:00.0") == 0   ? static_cast<void*>(&counting)
            : std::strcmp(id, "0000:02:00.0") == 0 ? static_cast<void*>(&plain)
                                                   : nullptr;
  return *device ? 0 : kNotFound;
}
NVML int nvmlDeviceGetClockInfo(void*, int, unsigned* mhz) { return says(1500, mhz); }
NVML int nvmlDeviceGetMaxClockInfo(void*, int, unsigned* mhz) { return says(1980, mhz); }
NVML int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) { return says(50, celsius); }
NVML int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) { return says(100'000, milliwatts); }
NVML int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* milliwatts) { return says(700'000, milliwatts); }
NVML int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  *reasons = 0x4;
  return 0;
}
NVML int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  if (device != &counting) return kNotSupported;
  *millijoules = counting.millijoules += 7'000;
  return 0;
}
NVML const char* nvmlErrorString(int) { return "scripted"; }
