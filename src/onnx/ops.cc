// SPDX-License-Identifier: Apache-2.0
// THE import list: ONNX op -> function. The functions are in ops/, one file per family named after its main op.
#include <string>
#include <unordered_map>

#include "onnx/node.h"

namespace temper {

// One a line, in alphabetical order.
#define TEMPER_IMPORT_LIST(X) \
  X(Add) \
  X(AveragePool) \
  X(Conv) \
  X(Flatten) \
  X(Gemm) \
  X(GlobalAveragePool) \
  X(Identity) \
  X(MatMul) \
  X(MaxPool) \
  X(Relu) \
  X(Reshape) \
  X(Softmax)

#define X(name) void import_##name(OnnxNode& node);
TEMPER_IMPORT_LIST(X)
#undef X

ImportFunction find_import(std::string_view domain, std::string_view op_type) {
#define X(name) {#name, import_##name},
  static const std::unordered_map<std::string_view, ImportFunction> standard = {TEMPER_IMPORT_LIST(X)};
#undef X
  if (!domain.empty()) return nullptr;
  auto it = standard.find(op_type);
  return it == standard.end() ? nullptr : it->second;
}

}  // namespace temper
