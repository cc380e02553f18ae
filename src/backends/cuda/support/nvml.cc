// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/support/nvml.h"

namespace temper::cuda {

// NVML's functions and constants as its documentation declares them.
struct Nvml::Api {
  Library library;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*by_bus)(const char*, void**) = nullptr;
  int (*clock)(void*, int, unsigned*) = nullptr;
  int (*highest_clock)(void*, int, unsigned*) = nullptr;
  int (*temperature)(void*, int, unsigned*) = nullptr;
  int (*power)(void*, unsigned*) = nullptr;
  int (*power_limit)(void*, unsigned*) = nullptr;
  int (*energy)(void*, unsigned long long*) = nullptr;  // null: the driver is too old
  int (*reasons)(void*, unsigned long long*) = nullptr;
  const char* (*error_text)(int) = nullptr;
};

Nvml::Nvml(const LibrarySearch& search) : api_(std::make_unique<Api>()) {
  api_->library = Library::open({"libnvidia-ml.so.1"}, search, "reading a GPU's clocks, power and temperature",
                                "it comes with NVIDIA's driver");
  const Library& library = api_->library;
  library.bind(api_->init, "nvmlInit_v2");
  library.bind(api_->shutdown, "nvmlShutdown");
  library.bind(api_->driver_version, "nvmlSystemGetDriverVersion");
  library.bind(api_->by_bus, "nvmlDeviceGetHandleByPciBusId_v2");
  library.bind(api_->clock, "nvmlDeviceGetClockInfo");
  library.bind(api_->highest_clock, "nvmlDeviceGetMaxClockInfo");
  library.bind(api_->temperature, "nvmlDeviceGetTemperature");
  library.bind(api_->power, "nvmlDeviceGetPowerUsage");
  library.bind(api_->power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  api_->energy = reinterpret_cast<decltype(api_->energy)>(library.find("nvmlDeviceGetTotalEnergyConsumption"));
  library.bind(api_->reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  library.bind(api_->error_text, "nvmlErrorString");
  if (const int result = api_->init(); result != 0) {
    const std::string why = api_->error_text(result);
    fail(ErrorKind::machine, "NVML does not start: ", why, "; check nvidia-smi");
  }
}
Nvml::~Nvml() {
  if (api_) api_->shutdown();
}

const std::string& Nvml::path() const { return api_->library.path(); }

std::string Nvml::driver_version() const {
  char text[81] = {};
  return api_->driver_version(text, 80) == 0 ? text : "unknown";
}

GpuState Nvml::state(const std::string& pci_bus_id) const {
  void* device = nullptr;
  if (const int result = api_->by_bus(pci_bus_id.c_str(), &device); result != 0)
    fail(ErrorKind::machine, "NVML does not know the GPU at ", pci_bus_id, ": ", api_->error_text(result));
  GpuState state;
  auto number = [&](auto&& function, auto... arguments) -> std::optional<int> {
    unsigned value = 0;
    return function(device, arguments..., &value) == 0 ? std::optional(int(value)) : std::nullopt;
  };
  constexpr int kMultiprocessors = 1, kMemory = 2, kDie = 0;
  state.clock_mhz = number(api_->clock, kMultiprocessors);
  state.memory_clock_mhz = number(api_->clock, kMemory);
  state.highest_clock_mhz = number(api_->highest_clock, kMultiprocessors);
  state.highest_memory_clock_mhz = number(api_->highest_clock, kMemory);
  state.celsius = number(api_->temperature, kDie);
  if (const auto milliwatts = number(api_->power)) state.watts = *milliwatts / 1000.0;
  if (const auto milliwatts = number(api_->power_limit)) state.limit_watts = *milliwatts / 1000.0;
  unsigned long long millijoules = 0;
  if (api_->energy && api_->energy(device, &millijoules) == 0) state.millijoules = millijoules;
  unsigned long long reasons = 0;
  if (api_->reasons(device, &reasons) == 0) {
    constexpr std::pair<unsigned long long, const char*> names[] = {
        {0x2, "clocks set by an application"}, {0x4, "power limit"},  {0x8, "hardware slowdown"}, {0x20, "temperature"},
        {0x40, "temperature (hardware)"},      {0x80, "power brake"}, {0x100, "display clocks"}};
    for (const auto& name : names)
      if (reasons & name.first) state.throttled.push_back(name.second);
  }
  return state;
}

}  // namespace temper::cuda
