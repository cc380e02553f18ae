// SPDX-License-Identifier: Apache-2.0
// Formats amounts of memory for people.
#pragma once
#include <string>

namespace temper {

std::string format_bytes(double bytes);  // three digits: "97.7 MiB", "59.8 GiB"; below 1 KiB "512 B"

}  // namespace temper
