// SPDX-License-Identifier: Apache-2.0
// Stands in for src/backends/cpu/, whose kernels no fuzzer runs (and whose vector extensions are GCC's).
#include "backends/backend.h"

namespace temper {

static Device no_device() { fail(ErrorKind::unsupported, "the fuzzers have no CPU backend"); }
static std::span<const Tactic* const> no_tactics() { return {}; }
static std::unique_ptr<Kernel> no_reorder(const TensorType&, Layout, Layout, int) {
  fail(ErrorKind::unsupported, "the fuzzers have no CPU backend");
}

extern const Backend cpu_backend;
const Backend cpu_backend{"cpu", no_device, no_tactics, no_reorder};

}  // namespace temper
