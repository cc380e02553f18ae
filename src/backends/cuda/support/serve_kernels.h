// SPDX-License-Identifier: Apache-2.0
// The process that compiles kernels for another one, which builds (compile_processes.h).
#pragma once
#include <string>
#include <vector>

namespace temper::cuda {

// The first of the arguments with which a process of the program does this and does not serve timings.
constexpr const char* kServeKernels = "kernels";

// Descriptor 0 is a socket. Says Compiler::greeting(), then reads questions and answers each until the other side ends.
// A question is a line of JSON, {"architecture", "options", "text": its bytes}, and the text behind it; an answer a
// line of JSON and what it tells of, {"log": bytes, "cubin": bytes}, or {"failed": why}. `arguments`, behind
// kServeKernels: "system" or "folders" (LibrarySearch::system), and the folders. The exit code of the process.
int serve_kernels(const std::vector<std::string>& arguments);

}  // namespace temper::cuda
