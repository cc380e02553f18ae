// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "../run_node.h"
#include "base/error.h"

namespace temper {
namespace {

NodeCase decoder(const char* format, std::string_view file) {
  Tensor x(DType::u8, {int64_t(file.size())});
  std::copy(file.begin(), file.end(), reinterpret_cast<char*>(x.raw_mutable()));
  NodeCase test{"ImageDecoder", 20, {x}};
  if (*format) test.attributes = [=](onnx::NodeProto& node) { set_attribute(node, "pixel_format", format); };
  return test;
}

TEST(ImageDecoderImport, TakesTheThreeFormatsAndNoOther) {
  constexpr std::string_view file = "P6 2 1 255\n\x01\x02\x03\xff\xff\xff";
  using Ints = std::vector<int64_t>;
  EXPECT_EQ(run_node(decoder("", file))[0].to_ints(), (Ints{1, 2, 3, 255, 255, 255}));
  EXPECT_EQ(run_node(decoder("RGB", file))[0].to_ints(), (Ints{1, 2, 3, 255, 255, 255}));
  EXPECT_EQ(run_node(decoder("BGR", file))[0].to_ints(), (Ints{3, 2, 1, 255, 255, 255}));
  EXPECT_EQ(run_node(decoder("Grayscale", file))[0].to_ints(), (Ints{2, 255}));
  EXPECT_EQ(import_error(decoder("RGBA", file)), ErrorKind::bad_file);
}

}  // namespace
}  // namespace temper
