// SPDX-License-Identifier: Apache-2.0
// Whatever is thrown, the program ends with a documented exit code and one line that says why.
#pragma once
#include <functional>
#include <string>

namespace temper::cli {

// Runs `body`; 0, or the exit code of what it threw, said on standard error: that of an Error; 5 (the machine failed)
// for anything of the standard library or of a library underneath, such as std::system_error where no thread can be
// started.
int exit_code_of(const std::function<void()>& body);

// "temper: LINE" on standard error, in one line, without what a terminal would take as a command, long words without
// their middle.
void print_error(const std::string& line);

// A library that ends the process by exit() (libgomp does, where it gets no thread) must not look like a check that
// failed: from now on exit() ends with 5. main itself ends without it.
void claim_exit();

}  // namespace temper::cli
