// SPDX-License-Identifier: Apache-2.0
// Types that are stored only: what casts give where ONNX's evaluators are no judge, and what is refused.
// tests/onnx/types_beside_onnx.py has the rest.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <cmath>

#include "../run_node.h"
#include "base/small_types.h"

namespace temper {
namespace {

using onnx::TensorProto;

NodeCase cast_to(int32_t type, const Tensor& x) {
  return {"Cast", 25, {x}, [=](onnx::NodeProto& node) { set_attribute(node, "to", int64_t(type)); }};
}

std::vector<int> codes(const Tensor& tensor) {
  std::vector<int> out;
  for (std::byte byte : tensor.raw()) out.push_back(int(byte));
  return out;
}

TEST(CastToScales, ZeroInfinityAndDenormalsAreAsTheOperatorsTextSays) {
  const float least = 0x1p-127f, inf = INFINITY;
  const Tensor x = Tensor::of<float>({8}, {0, inf, NAN, least, least / 2, 0x1.8p-127f, 0x1.fp127f, 0x1p-149f});
  const auto run = [&](int64_t saturate, const char* mode) {
    NodeCase test = cast_to(TensorProto::FLOAT8E8M0, x);
    test.attributes = [=](onnx::NodeProto& node) {
      set_attribute(node, "to", int64_t(TensorProto::FLOAT8E8M0));
      set_attribute(node, "saturate", saturate);
      set_attribute(node, "round_mode", mode);
    };
    return codes(run_node(test)[0]);
  };
  EXPECT_EQ(run(1, "up"), (std::vector<int>{0, 254, 255, 0, 0, 1, 254, 0}));
  EXPECT_EQ(run(1, "down"), (std::vector<int>{0, 254, 255, 0, 0, 0, 254, 0}));
  EXPECT_EQ(run(0, "nearest"), (std::vector<int>{255, 255, 255, 0, 255, 1, 255, 255}));
}

TEST(SmallTypes, EveryCodeIsTheNumberThatItsCastGivesBack) {
  for (const auto& [dtype, type] : {std::pair{DType::f8e4m3fn, TensorProto::FLOAT8E4M3FN},
                                    {DType::f8e4m3fnuz, TensorProto::FLOAT8E4M3FNUZ},
                                    {DType::f8e5m2, TensorProto::FLOAT8E5M2},
                                    {DType::f8e5m2fnuz, TensorProto::FLOAT8E5M2FNUZ},
                                    {DType::f4e2m1, TensorProto::FLOAT4E2M1},
                                    {DType::i4, TensorProto::INT4},
                                    {DType::u4, TensorProto::UINT4},
                                    {DType::i2, TensorProto::INT2},
                                    {DType::u2, TensorProto::UINT2}}) {
    const int count = 1 << bits_of_code(dtype);
    Tensor all(carrier_of(dtype), {count});
    for (int i = 0; i < count; ++i) {
      const bool negative = carrier_of(dtype) == DType::i8 && i >= count / 2;
      reinterpret_cast<uint8_t*>(all.raw_mutable())[i] = uint8_t(negative ? i - count : i);
    }
    const Tensor stored = all.with_bits_as(dtype);
    const Tensor numbers = run_node(cast_to(TensorProto::FLOAT, stored))[0];
    EXPECT_TRUE(numbers.same_bits(stored.converted(DType::f32))) << name_of(dtype);
    const Tensor back = run_node(cast_to(type, numbers))[0];
    for (int i = 0; i < count; ++i)
      if (std::isfinite(numbers.data<float>()[i])) {
        EXPECT_EQ(back.raw()[size_t(i)], stored.raw()[size_t(i)]) << name_of(dtype) << i;
      }
  }
}

TEST(SmallTypes, NoElementsAreCastToNone) {
  for (int32_t type : {TensorProto::FLOAT8E5M2, TensorProto::FLOAT8E8M0, TensorProto::INT4}) {
    const Tensor y = run_node(cast_to(type, Tensor(DType::f32, {3, 0})))[0];
    EXPECT_EQ(y.dims(), (Dims{3, 0}));
    EXPECT_EQ(run_node(cast_to(TensorProto::FLOAT, y))[0].dims(), (Dims{3, 0}));
  }
}

TEST(SmallTypes, ArithmeticOnThemIsRefusedByName) {
  for (DType dtype : {DType::f8e4m3fn, DType::f8e8m0, DType::f4e2m1, DType::i4, DType::u2}) {
    const Tensor x(dtype, {2, 2});
    for (const char* op : {"Add", "MatMul", "Relu", "Max", "Equal"}) {
      NodeCase test{op, 22, std::string(op) == "Relu" ? std::vector<Tensor>{x} : std::vector<Tensor>{x, x}};
      try {
        import_node(test);
        ADD_FAILURE() << op << " took " << name_of(dtype);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
        EXPECT_NE(std::string(error.what()).find(name_of(dtype)), std::string::npos) << error.what();
      }
    }
  }
}

TEST(SmallTypes, BitsOfAnotherNumberOfThemAreRefused) {
  NodeCase test{"BitCast", 26, {Tensor(DType::i4, {2})}, [](onnx::NodeProto& node) {
                  set_attribute(node, "to", int64_t(TensorProto::INT8));
                }};
  EXPECT_EQ(import_error(test), ErrorKind::bad_file);
  test.attributes = [](onnx::NodeProto& node) { set_attribute(node, "to", int64_t(TensorProto::UINT4)); };
  EXPECT_EQ(import_error(test), ErrorKind::unsupported);
}

}  // namespace
}  // namespace temper
