// SPDX-License-Identifier: Apache-2.0
// Refuses by name the requests of TensorRT's API that Temper does not implement.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "nvinfer/flags.h"

namespace temper::nvinfer {

// By TensorRT's numbers; what is here is 0.
struct Asked {
  Flags flags;
  bool on_dla = false;
  int capability = 0, hardware_compatibility = 0, platform = 0;
};

// A text for each thing that is not here: its name, why, and what to do instead.
std::vector<std::string> refusals(const Asked& asked);

}  // namespace temper::nvinfer
