// SPDX-License-Identifier: Apache-2.0
// Prints an ONNX model, for `temper inspect`.
#pragma once
#include <set>

#include "cli/model.h"

namespace temper::cli {

struct InspectModelOptions {
  bool graph = false;   // the text of the graph alone
  bool passes = false;  // of it: after the portable passes
  std::string dump_folder;
};

// Prints the summary, or the graph. Throws Error{unsupported}, behind the summary, for a model that Temper does not
// run.
void inspect_model(const std::string& path, const InspectModelOptions& options, const ModelFlags& flags,
                   const Context& context);

}  // namespace temper::cli
