// SPDX-License-Identifier: Apache-2.0
// Stands in for src/backends/cpu/ and src/backends/cuda/, whose kernels no fuzzer runs (the CPU's vector extensions are
// GCC's).
#include "backends/backend.h"
#include "backends/cpu/eager.h"

namespace temper {

static Device no_device(int, const DeviceSettings&) { fail(ErrorKind::unsupported, "the fuzzers have no such device"); }
static std::span<const Tactic* const> no_tactics() { return {}; }
static std::unique_ptr<Kernel> no_reorder(const Reorder&, std::span<const std::byte>, const Device&) {
  fail(ErrorKind::unsupported, "the fuzzers have no such device");
}

extern const Backend cpu_backend, cuda_backend;
const Backend cpu_backend{.name = "cpu", .device = no_device, .tactics = no_tactics, .reorder = no_reorder};
const Backend cuda_backend{.name = "cuda", .device = no_device, .tactics = no_tactics, .reorder = no_reorder};

RunEager prepare_eager(const Op&, std::string, int) { fail(ErrorKind::unsupported, "the fuzzers have no such device"); }

}  // namespace temper
