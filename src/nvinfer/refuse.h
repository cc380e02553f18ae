// SPDX-License-Identifier: Apache-2.0
// What a program may ask a build for by TensorRT's API, and is not in Temper.
#pragma once
#include <cstdint>

namespace temper::nvinfer {

// `flags`: 1 << BuilderFlag, by the numbers of 10.x; `capability`: a number of EngineCapability. Throws
// Error{unsupported} with the name of what is refused, why, and what to do instead.
void refuse_what_is_not_here(uint32_t flags, bool on_dla, int capability);

}  // namespace temper::nvinfer
