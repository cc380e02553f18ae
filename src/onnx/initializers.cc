// SPDX-License-Identifier: Apache-2.0
#include "onnx/initializers.h"

#include <onnx/onnx_pb.h>

#include <unordered_map>

#include "onnx/tensor_proto.h"

namespace temper {

namespace {

onnx::ModelProto model_of(std::string_view bytes) {
  onnx::ModelProto model;
  if (bytes.size() > size_t(INT32_MAX) || !model.ParseFromArray(bytes.data(), int(bytes.size())))
    fail(ErrorKind::bad_file, "this is not an ONNX model (protobuf cannot read it)");
  for (const auto& tensor : model.graph().initializer())
    if (tensor.data_location() == onnx::TensorProto::EXTERNAL)
      fail(ErrorKind::unsupported, "'", tensor.name(), "' lies in a file beside the model; save the model as one file");
  return model;
}

bool is_float(int32_t type) {
  return type == onnx::TensorProto::FLOAT || type == onnx::TensorProto::FLOAT16 || type == onnx::TensorProto::BFLOAT16;
}

}  // namespace

std::vector<Initializer> float_initializers(std::string_view bytes) {
  const onnx::ModelProto model = model_of(bytes);
  struct Use {
    const onnx::NodeProto* node;
    int input;
  };
  std::unordered_map<std::string_view, Use> first_uses;
  for (const auto& node : model.graph().node())
    for (int i = 0; i < node.input_size(); ++i) first_uses.try_emplace(node.input(i), Use{&node, i});
  std::vector<Initializer> all;
  for (const auto& tensor : model.graph().initializer()) {
    if (!is_float(tensor.data_type())) continue;
    Initializer& of = all.emplace_back();
    of.name = tensor.name();
    of.dtype = dtype_from_onnx(tensor.data_type(), tensor.name());
    of.count = element_count(Dims(tensor.dims().begin(), tensor.dims().end()));
    if (const auto use = first_uses.find(tensor.name()); use != first_uses.end())
      of.node = use->second.node->name(), of.op = use->second.node->op_type(), of.input = use->second.input;
  }
  return all;
}

std::string with_initializers(std::string_view bytes, const std::map<std::string, Tensor>& replaced) {
  onnx::ModelProto model = model_of(bytes);
  for (auto& tensor : *model.mutable_graph()->mutable_initializer()) {
    const auto it = replaced.find(tensor.name());
    if (it == replaced.end()) continue;
    onnx::TensorProto other;
    other.set_name(tensor.name());
    other.set_data_type(onnx_from_dtype(it->second.dtype()));
    *other.mutable_dims() = tensor.dims();
    other.set_raw_data(file_bytes(it->second));
    tensor = std::move(other);
  }
  return model.SerializeAsString();
}

}  // namespace temper
