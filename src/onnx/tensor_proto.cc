// SPDX-License-Identifier: Apache-2.0
#include "onnx/tensor_proto.h"

#include <onnx/onnx_pb.h>

#include <bit>
#include <cstring>
#include <limits>

#include "base/file.h"
#include "base/small_types.h"
#include "base/threads.h"
#include "graph/strings.h"

namespace temper {
namespace {

using onnx::TensorProto;
static_assert(std::endian::native == std::endian::little, "raw_data is little-endian and is copied as it is");

std::string describe(const TensorProto& proto) {
  return proto.name().empty() ? std::string("a tensor without a name")
                              : concat("tensor '", proto.name().substr(0, 200), "'");
}

// How many values all typed fields hold together.
size_t typed_values(const TensorProto& proto) {
  return size_t(proto.float_data_size()) + size_t(proto.int32_data_size()) + size_t(proto.int64_data_size()) +
         size_t(proto.double_data_size()) + size_t(proto.uint64_data_size()) + size_t(proto.string_data_size());
}

// Where onnx.proto keeps the values of each dtype when they are not in raw_data.
template <class T>
const auto& typed_field(const TensorProto& proto) {
  if constexpr (std::is_same_v<T, float>) return proto.float_data();
  else if constexpr (std::is_same_v<T, double>) return proto.double_data();
  else if constexpr (std::is_same_v<T, int64_t>) return proto.int64_data();
  else if constexpr (std::is_same_v<T, uint64_t> || std::is_same_v<T, uint32_t>) return proto.uint64_data();
  else return proto.int32_data();
}

template <class T, class V>
T checked_value(V value, const TensorProto& proto) {
  if constexpr (std::is_same_v<T, V>) {
    return value;
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {  // int32_data holds the 16 bits
    if (value < 0 || value > 0xffff)
      fail(ErrorKind::bad_file, describe(proto), ": ", value, " is not the bits of a ", dtype_of<T>);
    T result;
    result.bits = uint16_t(value);
    return result;
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != 0;
  } else {
    if (!std::in_range<T>(value))
      fail(ErrorKind::bad_file, describe(proto), ": the value ", value, " does not fit in ", dtype_of<T>);
    return T(value);
  }
}

// Elements of 4 and 2 bits share bytes in a file; in memory each has one.
int64_t file_byte_count(DType dtype, const Dims& dims) {
  const int per_byte = 8 / std::min(8, bits_of_code(dtype));
  return per_byte == 1 ? byte_count(dtype, dims) : (element_count(dims) + per_byte - 1) / per_byte;
}

void check_bytes(const TensorProto& proto, DType dtype, const Dims& dims, size_t given, std::string_view where) {
  const int64_t needed = file_byte_count(dtype, dims);
  if (uint64_t(needed) != given)
    fail(ErrorKind::bad_file, describe(proto), ": ", dtype, dims, " needs ", needed, " bytes and ", where, " has ",
         given);
}

// byte_at gives the bytes of the file one after the other, which hold codes of 4 or 2 bits.
template <class ByteAt>
Tensor unpacked(DType dtype, const Dims& dims, ByteAt byte_at) {
  Tensor tensor(dtype, dims);
  auto* codes = reinterpret_cast<uint8_t*>(tensor.raw_mutable());
  const int bits = bits_of_code(dtype), per_byte = 8 / bits,
            sign = carrier_of(dtype) == DType::i8 ? 1 << (bits - 1) : 0;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const int code = (byte_at(i / per_byte) >> (i % per_byte * bits)) & ((1 << bits) - 1);
    codes[i] = uint8_t((code ^ sign) - sign);  // the highest bit of a signed one is its sign
  }
  return tensor;
}

Tensor copy_of(DType dtype, const Dims& dims, const void* bytes) {
  if (bits_of_code(dtype) < 8)
    return unpacked(dtype, dims, [&](int64_t i) { return int(static_cast<const uint8_t*>(bytes)[i]); });
  Tensor tensor(dtype, dims);
  // Large ones on all threads: what takes long is the memory's first touch.
  parallel_for(tensor.bytes(), int64_t(1) << 20, [&](int64_t begin, int64_t end) {
    std::memcpy(tensor.raw_mutable() + begin, static_cast<const std::byte*>(bytes) + begin, size_t(end - begin));
  });
  if (dtype == DType::boolean) {  // a bool object may hold nothing but 0 and 1
    auto* values = reinterpret_cast<uint8_t*>(tensor.raw_mutable());
    for (int64_t i = 0; i < tensor.count(); ++i) values[i] = values[i] != 0;
  }
  return tensor;
}

// int32_data has the codes of 8-bit floats one by one, and those of types of fewer bits as bytes that hold several.
Tensor from_codes(const TensorProto& proto, DType dtype, const Dims& dims) {
  const int64_t needed = file_byte_count(dtype, dims);
  if (needed != proto.int32_data_size() || size_t(needed) != typed_values(proto))
    fail(ErrorKind::bad_file, describe(proto), ": ", dtype, dims, " needs ", needed, " bytes of codes; int32_data has ",
         proto.int32_data_size(), ", other fields ", typed_values(proto) - size_t(proto.int32_data_size()));
  std::string bytes;
  for (int32_t value : proto.int32_data()) {
    if (value < 0 || value > 0xff)
      fail(ErrorKind::bad_file, describe(proto), ": ", value, " is no byte of codes of ", dtype);
    bytes += char(value);
  }
  return copy_of(dtype, dims, bytes.data());
}

Tensor from_strings(const TensorProto& proto, const Dims& dims) {
  const int64_t needed = element_count(dims);
  if (needed != proto.string_data_size() || size_t(needed) != typed_values(proto))
    fail(ErrorKind::bad_file, describe(proto), ": ", DType::string, dims, " needs ", needed, " strings; it has ",
         proto.string_data_size());
  const std::vector<std::string> values(proto.string_data().begin(), proto.string_data().end());
  return tensor_of_strings(dims, values);
}

Tensor from_typed_field(const TensorProto& proto, DType dtype, const Dims& dims) {
  if (dtype == DType::string) return from_strings(proto, dims);
  if (is_stored_only(dtype)) return from_codes(proto, dtype, dims);
  return visit_dtype(dtype, [&]<class T>() {
    const auto& field = typed_field<T>(proto);
    const int64_t needed = element_count(dims);
    if (needed != field.size() || size_t(needed) != typed_values(proto))
      fail(ErrorKind::bad_file, describe(proto), ": ", dtype, dims, " needs ", needed, " values; it holds ",
           field.size(), " in the field for ", dtype, " and ", typed_values(proto) - size_t(field.size()),
           " in others");
    Tensor tensor(dtype, dims);
    T* out = tensor.data<T>();
    for (int64_t i = 0; i < needed; ++i) out[i] = checked_value<T>(field.Get(int(i)), proto);
    return tensor;
  });
}

}  // namespace

DType dtype_from_onnx(int32_t data_type, std::string_view what) {
  switch (data_type) {
    case TensorProto::FLOAT: return DType::f32;
    case TensorProto::FLOAT16: return DType::f16;
    case TensorProto::BFLOAT16: return DType::bf16;
    case TensorProto::DOUBLE: return DType::f64;
    case TensorProto::INT8: return DType::i8;
    case TensorProto::UINT8: return DType::u8;
    case TensorProto::INT16: return DType::i16;
    case TensorProto::UINT16: return DType::u16;
    case TensorProto::INT32: return DType::i32;
    case TensorProto::UINT32: return DType::u32;
    case TensorProto::INT64: return DType::i64;
    case TensorProto::UINT64: return DType::u64;
    case TensorProto::BOOL: return DType::boolean;
    case TensorProto::FLOAT8E4M3FN: return DType::f8e4m3fn;
    case TensorProto::FLOAT8E4M3FNUZ: return DType::f8e4m3fnuz;
    case TensorProto::FLOAT8E5M2: return DType::f8e5m2;
    case TensorProto::FLOAT8E5M2FNUZ: return DType::f8e5m2fnuz;
    case TensorProto::FLOAT8E8M0: return DType::f8e8m0;
    case TensorProto::FLOAT4E2M1: return DType::f4e2m1;
    case TensorProto::INT4: return DType::i4;
    case TensorProto::UINT4: return DType::u4;
    case TensorProto::INT2: return DType::i2;
    case TensorProto::UINT2: return DType::u2;
    case TensorProto::STRING: return DType::string;
    default: break;
  }
  if (data_type == TensorProto::UNDEFINED) fail(ErrorKind::bad_file, what, " has no element type");
  if (!TensorProto::DataType_IsValid(data_type))
    fail(ErrorKind::bad_file, what, " has the element type ", data_type, ", which ONNX does not define");
  fail(ErrorKind::unsupported, what, " has the element type ", TensorProto::DataType_Name(data_type),
       ", which Temper does not have; those of real numbers, BOOL and STRING are supported");
}

int32_t onnx_from_dtype(DType dtype) {
  switch (dtype) {
    case DType::f32: return TensorProto::FLOAT;
    case DType::f16: return TensorProto::FLOAT16;
    case DType::bf16: return TensorProto::BFLOAT16;
    case DType::f64: return TensorProto::DOUBLE;
    case DType::i8: return TensorProto::INT8;
    case DType::u8: return TensorProto::UINT8;
    case DType::i16: return TensorProto::INT16;
    case DType::u16: return TensorProto::UINT16;
    case DType::i32: return TensorProto::INT32;
    case DType::u32: return TensorProto::UINT32;
    case DType::i64: return TensorProto::INT64;
    case DType::u64: return TensorProto::UINT64;
    case DType::boolean: return TensorProto::BOOL;
    case DType::string: return TensorProto::STRING;
    case DType::u2: return TensorProto::UINT2;
    case DType::i2: return TensorProto::INT2;
    case DType::u4: return TensorProto::UINT4;
    case DType::i4: return TensorProto::INT4;
    case DType::f4e2m1: return TensorProto::FLOAT4E2M1;
    case DType::f8e8m0: return TensorProto::FLOAT8E8M0;
    case DType::f8e5m2fnuz: return TensorProto::FLOAT8E5M2FNUZ;
    case DType::f8e5m2: return TensorProto::FLOAT8E5M2;
    case DType::f8e4m3fnuz: return TensorProto::FLOAT8E4M3FNUZ;
    case DType::f8e4m3fn: return TensorProto::FLOAT8E4M3FN;
  }
  __builtin_unreachable();
}

Tensor tensor_from_proto(const TensorProto& proto, const std::optional<ExternalBytes>& external) {
  const DType dtype = dtype_from_onnx(proto.data_type(), describe(proto));
  const Dims dims(proto.dims().begin(), proto.dims().end());
  with_context([&] { return describe(proto); }, [&] { return byte_count(dtype, dims); });
  if (proto.has_segment())
    fail(ErrorKind::unsupported, describe(proto), " is split in segments; save the model with whole tensors");

  const bool is_external = proto.data_location() == TensorProto::EXTERNAL;
  if (is_external != external.has_value())
    fail(ErrorKind::bad_file, describe(proto),
         is_external ? " has its data in another file, which cannot be read in this place"
                     : " holds its own data and external data too");
  if (dtype == DType::string && (external || proto.has_raw_data()))
    fail(ErrorKind::bad_file, describe(proto), " holds strings as bytes; ONNX has them in string_data alone");
  if (proto.has_raw_data() && typed_values(proto) > 0)
    fail(ErrorKind::bad_file, describe(proto), " holds raw_data and typed values too");
  if (external) {
    if (proto.has_raw_data() || typed_values(proto) > 0)
      fail(ErrorKind::bad_file, describe(proto), " holds its own data and external data too");
    check_bytes(proto, dtype, dims, external->bytes.size(), "its external data");
    const bool aligned = reinterpret_cast<uintptr_t>(external->bytes.data()) % uintptr_t(size_of(dtype)) == 0;
    if (aligned && external->owner && dtype != DType::boolean && bits_of_code(dtype) >= 8)
      return Tensor::view(dtype, dims, external->bytes.data(), external->owner);
    return copy_of(dtype, dims, external->bytes.data());
  }
  if (proto.has_raw_data()) {
    check_bytes(proto, dtype, dims, proto.raw_data().size(), "raw_data");
    return copy_of(dtype, dims, proto.raw_data().data());
  }
  return from_typed_field(proto, dtype, dims);
}

std::string file_bytes(const Tensor& tensor) {
  const auto raw = tensor.raw();
  const int bits = bits_of_code(tensor.dtype()), per_byte = 8 / std::min(8, bits);
  if (per_byte == 1) return std::string(reinterpret_cast<const char*>(raw.data()), raw.size());
  std::string bytes(size_t(file_byte_count(tensor.dtype(), tensor.dims())), '\0');
  for (size_t i = 0; i < raw.size(); ++i) {
    const int code = int(raw[i]) & ((1 << bits) - 1);
    bytes[i / size_t(per_byte)] |= char(code << (i % size_t(per_byte) * size_t(bits)));
  }
  return bytes;
}

Tensor read_tensor_proto_file(const std::string& path, std::string* name) {
  MappedFile file(path);
  return with_context([&] { return concat("'", path, "'"); },
                      [&] {
                        const auto bytes = file.bytes();
                        if (bytes.size() > size_t(std::numeric_limits<int>::max()))
                          fail(ErrorKind::bad_file, bytes.size(),
                               " bytes; a protobuf message cannot be longer than 2 GiB");
                        TensorProto proto;
                        if (bytes.empty() || !proto.ParseFromArray(bytes.data(), int(bytes.size())))
                          fail(ErrorKind::bad_file, "not a serialized ONNX TensorProto");
                        if (name) *name = proto.name();
                        return tensor_from_proto(proto);
                      });
}

}  // namespace temper
