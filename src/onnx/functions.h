// SPDX-License-Identifier: Apache-2.0
// The functions that a model brings along. A node calls the one of its domain, name and overload.
#pragma once
#include <onnx/onnx_pb.h>

#include <map>
#include <string>

#include "base/concat.h"

namespace temper {

using Functions = std::map<std::string, const onnx::FunctionProto*>;

inline std::string function_key(std::string_view domain, std::string_view name, std::string_view overload) {
  return concat(domain == "ai.onnx" ? "" : domain, "::", name, ":", overload);
}
inline std::string function_key(const onnx::NodeProto& node) {
  return function_key(node.domain(), node.op_type(), node.overload());
}

inline Functions functions_of(const onnx::ModelProto& model) {
  Functions functions;
  for (const auto& function : model.functions())
    functions[function_key(function.domain(), function.name(), function.overload())] = &function;
  return functions;
}

}  // namespace temper
