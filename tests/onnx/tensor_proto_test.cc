// SPDX-License-Identifier: Apache-2.0
#include "onnx/tensor_proto.h"

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <fstream>

#include "graph/strings.h"

namespace temper {
namespace {

using onnx::TensorProto;

TensorProto proto_of(int type, std::vector<int64_t> dims) {
  TensorProto proto;
  proto.set_name("w");
  proto.set_data_type(type);
  for (int64_t dim : dims) proto.add_dims(dim);
  return proto;
}

// The kind and message of what `body` throws; a body that does not throw fails the test.
template <class F>
std::string message_of(ErrorKind kind, F&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(int(error.kind()), int(kind)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(TensorProto, RawDataAndTypedFieldsGiveTheSameTensor) {
  auto raw = proto_of(TensorProto::FLOAT, {2, 2}), typed = raw;
  const float values[] = {1.5f, -2, 0, 4};
  raw.set_raw_data(std::string(reinterpret_cast<const char*>(values), sizeof values));
  for (float value : values) typed.add_float_data(value);
  EXPECT_TRUE(tensor_from_proto(raw).same_bits(tensor_from_proto(typed)));
  EXPECT_TRUE(tensor_from_proto(raw).same_bits(Tensor::of<float>({2, 2}, {1.5f, -2, 0, 4})));
}

TEST(TensorProto, SmallIntegersAndHalvesLiveInInt32Data) {
  auto half = proto_of(TensorProto::FLOAT16, {2});
  half.add_int32_data(0x3c00);
  half.add_int32_data(0xc000);
  EXPECT_EQ(tensor_from_proto(half).to_doubles(), (std::vector<double>{1, -2}));
  auto flags = proto_of(TensorProto::BOOL, {2});
  flags.add_int32_data(0);
  flags.add_int32_data(7);
  EXPECT_EQ(tensor_from_proto(flags).to_ints(), (std::vector<int64_t>{0, 1}));
  auto bytes = proto_of(TensorProto::INT8, {1});
  bytes.add_int32_data(200);
  EXPECT_NE(message_of(ErrorKind::bad_file, [&] { tensor_from_proto(bytes); }).find("200 does not fit in i8"),
            std::string::npos);
}

TEST(TensorProto, RawBoolsAreNormalised) {
  auto proto = proto_of(TensorProto::BOOL, {3});
  proto.set_raw_data(std::string("\x00\x02\xff", 3));
  const Tensor tensor = tensor_from_proto(proto);
  EXPECT_EQ(int(reinterpret_cast<const uint8_t*>(tensor.raw().data())[1]), 1);
  EXPECT_EQ(tensor.to_ints(), (std::vector<int64_t>{0, 1, 1}));
}

TEST(TensorProto, CodesOfFourAndTwoBitsAreUnpackedFirstElementLowest) {
  auto proto = proto_of(TensorProto::INT4, {3});
  proto.set_raw_data(std::string("\x8f\x07", 2));
  EXPECT_EQ(tensor_from_proto(proto).to_ints(), (std::vector<int64_t>{-1, -8, 7}));
  EXPECT_EQ(file_bytes(tensor_from_proto(proto)), proto.raw_data());
  auto two = proto_of(TensorProto::UINT2, {5});
  two.add_int32_data(0xe4);
  two.add_int32_data(0x02);
  EXPECT_EQ(tensor_from_proto(two).to_ints(), (std::vector<int64_t>{0, 1, 2, 3, 2}));
  EXPECT_EQ(file_bytes(tensor_from_proto(two)), "\xe4\x02");
  auto four = proto_of(TensorProto::FLOAT4E2M1, {2});
  four.set_raw_data("\xf1");
  EXPECT_EQ(tensor_from_proto(four).to_doubles(), (std::vector<double>{0.5, -6}));
  auto eight = proto_of(TensorProto::FLOAT8E4M3FN, {2});
  eight.add_int32_data(0x7e);
  eight.add_int32_data(0x81);
  EXPECT_EQ(tensor_from_proto(eight).to_doubles(), (std::vector<double>{448, -0x1p-9}));
  eight.set_int32_data(0, 256);
  EXPECT_NE(message_of(ErrorKind::bad_file, [&] { tensor_from_proto(eight); }).find("256 is no byte"),
            std::string::npos);
  two.add_int32_data(0);
  EXPECT_NE(message_of(ErrorKind::bad_file, [&] { tensor_from_proto(two); }).find("needs 2 bytes"), std::string::npos);
  proto.set_raw_data("1");
  EXPECT_NE(message_of(ErrorKind::bad_file, [&] { tensor_from_proto(proto); }).find("needs 2 bytes"),
            std::string::npos);
}

TEST(TensorProto, AScalarAndAnEmptyTensorAreRead) {
  auto scalar = proto_of(TensorProto::INT64, {});
  scalar.add_int64_data(-5);
  EXPECT_EQ(tensor_from_proto(scalar).rank(), 0);
  EXPECT_EQ(tensor_from_proto(scalar).to_ints(), std::vector<int64_t>{-5});
  const Tensor empty = tensor_from_proto(proto_of(TensorProto::FLOAT, {0, 3}));
  EXPECT_TRUE(empty.defined());
  EXPECT_EQ(empty.dims(), (Dims{0, 3}));
}

TEST(TensorProto, ContradictionsAreRefused) {
  auto proto = proto_of(TensorProto::FLOAT, {3});
  EXPECT_NE(message_of(ErrorKind::bad_file, [&] { tensor_from_proto(proto); }).find("tensor 'w'"), std::string::npos);
  proto.set_raw_data("12345678");
  EXPECT_NE(
      message_of(ErrorKind::bad_file, [&] { tensor_from_proto(proto); }).find("needs 12 bytes and raw_data has 8"),
      std::string::npos);
  proto.add_float_data(1);
  message_of(ErrorKind::bad_file, [&] { tensor_from_proto(proto); });

  auto negative = proto_of(TensorProto::FLOAT, {-1});
  message_of(ErrorKind::bad_file, [&] { tensor_from_proto(negative); });
  auto huge = proto_of(TensorProto::FLOAT, {int64_t(1) << 40, int64_t(1) << 40});
  message_of(ErrorKind::bad_file, [&] { tensor_from_proto(huge); });
  auto large = proto_of(TensorProto::FLOAT, {int64_t(1) << 36});  // would be 256 GiB: refused before allocating
  large.set_raw_data("");
  message_of(ErrorKind::bad_file, [&] { tensor_from_proto(large); });
  auto wrong_field = proto_of(TensorProto::INT64, {1});
  wrong_field.add_float_data(1);
  message_of(ErrorKind::bad_file, [&] { tensor_from_proto(wrong_field); });
}

TEST(TensorProto, StringsStandInTheirOwnField) {
  auto proto = proto_of(TensorProto::STRING, {2});
  proto.add_string_data("a");
  EXPECT_NE(message_of(ErrorKind::bad_file, [&] { tensor_from_proto(proto); }).find("needs 2 strings; it has 1"),
            std::string::npos);
  proto.add_string_data(std::string("b\0c", 3));
  EXPECT_EQ(strings_of(tensor_from_proto(proto)), (std::vector<std::string>{"a", std::string("b\0c", 3)}));
  auto raw = proto_of(TensorProto::STRING, {1});
  raw.set_raw_data("12345678");  // the size of an element here, and of none in a file
  message_of(ErrorKind::bad_file, [&] { tensor_from_proto(raw); });
}

TEST(TensorProto, UnsupportedElementTypesAreRefusedByName) {
  for (auto [type, name] : {std::pair{TensorProto::COMPLEX64, "COMPLEX64"}, {TensorProto::COMPLEX128, "COMPLEX128"}})
    EXPECT_NE(message_of(ErrorKind::unsupported, [type = type] { tensor_from_proto(proto_of(type, {})); }).find(name),
              std::string::npos);
  message_of(ErrorKind::bad_file, [&] { tensor_from_proto(proto_of(TensorProto::UNDEFINED, {})); });
  message_of(ErrorKind::bad_file, [&] { tensor_from_proto(proto_of(999, {})); });
}

TEST(TensorProto, ExternalBytesAreViewedWhenAlignedAndCopiedWhenNot) {
  auto proto = proto_of(TensorProto::INT32, {2});
  proto.set_data_location(TensorProto::EXTERNAL);
  auto memory = std::make_shared<std::vector<int32_t>>(std::vector<int32_t>{7, 8, 9});
  const std::span<const std::byte> all(reinterpret_cast<const std::byte*>(memory->data()), 12);
  const Tensor view = tensor_from_proto(proto, ExternalBytes{all.first(8), memory});
  EXPECT_EQ(static_cast<const void*>(view.raw().data()), static_cast<const void*>(memory->data()));
  const Tensor copy = tensor_from_proto(proto, ExternalBytes{all.subspan(1, 8), memory});
  EXPECT_EQ(copy.data<int32_t>()[0], 0x08000000);
  message_of(ErrorKind::bad_file, [&] { tensor_from_proto(proto, ExternalBytes{all, memory}); });
  message_of(ErrorKind::bad_file, [&] { tensor_from_proto(proto); });
}

TEST(TensorProto, AFileIsReadWithItsNameAndADamagedOneIsRefused) {
  const std::string path = ::testing::TempDir() + "/tensor.pb";
  auto proto = proto_of(TensorProto::DOUBLE, {2});
  proto.add_double_data(1);
  proto.add_double_data(2);
  const std::string text = proto.SerializeAsString();
  std::string name;
  std::ofstream(path) << text;
  EXPECT_EQ(read_tensor_proto_file(path, &name).to_doubles(), (std::vector<double>{1, 2}));
  EXPECT_EQ(name, "w");
  for (size_t cut = 0; cut < text.size(); ++cut) {
    std::ofstream(path, std::ios::trunc) << text.substr(0, cut);
    EXPECT_THROW(read_tensor_proto_file(path), Error) << cut;
  }
}

}  // namespace
}  // namespace temper
