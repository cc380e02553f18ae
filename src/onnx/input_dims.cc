// SPDX-License-Identifier: Apache-2.0
#include "onnx/input_dims.h"

#include <onnx/onnx_pb.h>

#include "base/error.h"

namespace temper {

void set_input_dims(OnnxModel& model, const std::map<std::string, Dims>& inputs) {
  for (const auto& [name, dims] : inputs) {
    bool is_set = false;
    for (auto& input : *model.proto->mutable_graph()->mutable_input()) {
      if (input.name() != name || !input.type().has_tensor_type()) continue;
      onnx::TensorShapeProto& shape = *input.mutable_type()->mutable_tensor_type()->mutable_shape();
      while (shape.dim_size() < int(dims.size())) shape.add_dim();
      while (shape.dim_size() > int(dims.size())) shape.mutable_dim()->RemoveLast();
      for (int axis = 0; axis < shape.dim_size(); ++axis) {
        onnx::TensorShapeProto::Dimension& dim = *shape.mutable_dim(axis);
        if (dims[size_t(axis)] >= 0) dim.set_dim_value(dims[size_t(axis)]);
        else if (!dim.has_dim_param()) dim.Clear();
      }
      is_set = true;
    }
    if (!is_set) fail(ErrorKind::unsupported, "other dimensions of '", name, "', which is no input of one tensor");
  }
}

}  // namespace temper
