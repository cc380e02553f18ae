// SPDX-License-Identifier: Apache-2.0
// There are no plugins; programs that register those of TensorRT find nothing missing.
#pragma once
#include "NvInfer.h"

// True: there is nothing to register.
inline bool initLibNvInferPlugins(void*, char const*) noexcept { return true; }
