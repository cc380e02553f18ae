// SPDX-License-Identifier: Apache-2.0
// The process that times candidates for another one, which builds (tune/helper.h).
#pragma once
#include <string>
#include <vector>

namespace temper {

// Reads questions from descriptor 0 and answers each on descriptor 1, both lines of JSON, until the input ends or the
// device is lost. `arguments`: the device's name and folders of libraries; or those of
// a process that compiles kernels (backends/cuda/support/serve_kernels.h). The exit code of the process.
int serve_timings(const std::vector<std::string>& arguments);

}  // namespace temper
