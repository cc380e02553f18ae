// SPDX-License-Identifier: Apache-2.0
// Reads an ONNX TensorProto (an initializer, an attribute, a .pb file) as a Tensor. Every size is checked against the
// bytes that are there before anything is allocated.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "graph/tensor.h"

namespace onnx {
class TensorProto;
}

namespace temper {

// TensorProto.DataType as a DType. Complex types are refused by name (Error{unsupported}); a number that ONNX does
// not define is Error{bad_file}. `what` names the owner in the message.
DType dtype_from_onnx(int32_t data_type, std::string_view what);
int32_t onnx_from_dtype(DType dtype);

// The bytes of a tensor whose data_location is EXTERNAL, as read by onnx/read. `owner` keeps them alive.
struct ExternalBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

// `external` must be given exactly where the proto says data_location = EXTERNAL; with an owner the tensor is a view of
// those bytes if they are aligned for the dtype, in all other cases it is a copy. Throws Error{bad_file} (the message
// starts with the tensor's name) where dims, dtype and data contradict, Error{unsupported} for dtypes that Temper has
// not.
Tensor tensor_from_proto(const onnx::TensorProto& proto, const std::optional<ExternalBytes>& external = std::nullopt);

// The bytes of a tensor in a file: its own, or those that elements of 4 and 2 bits fill, first element lowest.
std::string file_bytes(const Tensor& tensor);

// A file that holds one serialized TensorProto, as ONNX's own test data does. The name inside it is put in `name`.
Tensor read_tensor_proto_file(const std::string& path, std::string* name = nullptr);

}  // namespace temper
