// SPDX-License-Identifier: Apache-2.0
// Unpacks what the build packed into the program (cmake/embed.cmake).
#pragma once
#include <string>
#include <string_view>

namespace temper {

// The bytes of a gzip. `what` it is, for the error: Error{machine} where it is damaged, as only the program's file is.
std::string gunzip(std::string_view packed, std::string_view what);

}  // namespace temper
