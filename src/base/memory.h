// SPDX-License-Identifier: Apache-2.0
// Says how much of the machine's memory this process may still use.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace temper {

// Bytes: what the machine has left (swap counted), less where a control group (of version 1 or 2, those above it too)
// or `ulimit -v` leaves less. What the system keeps of files only because there is room counts as left.
int64_t free_memory();

// Throws Error{machine} where `bytes` are more than that: "out of memory: `what` 3.0 GiB, and 1.0 GiB are free". Asks
// only for what is large, as the answer takes some tens of microseconds.
void check_free_memory(int64_t bytes, std::string_view what);

// "3.2 GiB", "180.0 MiB", "17 bytes".
std::string readable_bytes(int64_t bytes);

}  // namespace temper
