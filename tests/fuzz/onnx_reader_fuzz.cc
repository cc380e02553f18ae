// SPDX-License-Identifier: Apache-2.0
// Any bytes either end in an Error or become a graph that passes its own verification.
#include "onnx/import.h"
#include "onnx_mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace temper;
  // External data is looked for in a place that does not exist: no input may make the harness read real files.
  try {
    verify(import_onnx_bytes({reinterpret_cast<const char*>(data), size}, "/nonexistent").graph);
  } catch (const Error&) {}
  return 0;
}
