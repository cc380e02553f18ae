// SPDX-License-Identifier: Apache-2.0
// NVIDIA's libraries take long to open: they are opened in the background before they are first needed.
#pragma once
#include "backends/backend.h"

namespace temper::cuda {

// Begins to open the libraries that the kernels of a plan call, and the GPU for them, on threads of its own; each
// library once in a process. `manifest`: see Backend::preload. A hint: what fails is silent, and whoever needs the
// library hears of it. The process waits for it before it ends.
void preload(std::string_view manifest, int ordinal, const DeviceSettings& settings);

}  // namespace temper::cuda
