// SPDX-License-Identifier: Apache-2.0
// Any bytes either end in an Error or become a graph that passes its own verification; and what is refused of them can
// be listed.
#include "external_folder.h"
#include "onnx/import.h"
#include "onnx/read.h"
#include "onnx_mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace temper;
  static const ExternalFolder folder;  // no input may make the harness read other files
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    verify(import_onnx_bytes(bytes, folder.path()).graph);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) return 0;
    try {
      refusals_of(parse_onnx(bytes, folder.path()), {});
    } catch (const Error&) {}
  }
  return 0;
}
