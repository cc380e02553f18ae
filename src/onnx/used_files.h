// SPDX-License-Identifier: Apache-2.0
// The files that a command reads and writes, held against each other before anything takes time.
#pragma once
#include <string>
#include <vector>

#include "base/file.h"

namespace temper {

struct UsedFiles {
  std::vector<std::string> models;  // ONNX models, whose external data is read, too, or plans
  std::vector<std::string> reads;   // other files, and folders; "" and what does not exist pass
  std::vector<Output> writes;
};

// Throws what check_outputs throws.
void check_files(const UsedFiles& files);

}  // namespace temper
