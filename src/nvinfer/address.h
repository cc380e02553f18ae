// SPDX-License-Identifier: Apache-2.0
// Addresses as programs give them: numbers, of memory that may be a GPU's
#pragma once
#include <bit>
#include <cstdint>

namespace temper::nvinfer {

inline void* at_address(uintptr_t address) { return std::bit_cast<void*>(address); }

}  // namespace temper::nvinfer
