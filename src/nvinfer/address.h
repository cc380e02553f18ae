// SPDX-License-Identifier: Apache-2.0
// Addresses as programs give them: numbers, of memory that may be a GPU's
#pragma once
#include <bit>
#include <cstdint>
#include <string>

namespace temper::nvinfer {

inline void* at_address(uintptr_t address) { return std::bit_cast<void*>(address); }

// Throws Error{usage} that names `what` where one of these bytes of the host's memory is not mapped: a number that is
// no address is then an error and not a crash. It takes less than a microsecond. A wrong address inside of the
// process's memory is not found.
void check_mapped(uintptr_t address, int64_t bytes, const std::string& what);

}  // namespace temper::nvinfer
