// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace temper {

// As a shell takes it for one word: in quotes where it must be.
std::string shell_quoted(const std::string& text);

}  // namespace temper
