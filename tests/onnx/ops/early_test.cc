// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "../run_node.h"

namespace temper {
namespace {

NodeCase of_microsoft(const std::string& op, std::vector<Tensor> inputs) {
  return {op, 1, std::move(inputs), [](onnx::NodeProto& node) { node.set_domain("com.microsoft"); }};
}

TEST(ImportEarly, NodesWithTooFewOrTooManyInputsAreRefused) {
  const Tensor x(DType::f32, {2, 2});
  for (const char* op : {"ExpandDims", "Pad", "Range", "GridSample", "CDist"})
    EXPECT_EQ(import_error(of_microsoft(op, {x})), ErrorKind::bad_file) << op;
  for (const char* op : {"Unique", "Trilu"}) EXPECT_EQ(import_error(of_microsoft(op, {})), ErrorKind::bad_file) << op;
  EXPECT_EQ(import_error(of_microsoft("Unique", {x, x})), ErrorKind::bad_file);
  EXPECT_EQ(run_node(of_microsoft("Unique", {Tensor::of<float>({3}, {2, 1, 2})}))[0].to_doubles(),
            (std::vector<double>{2, 1}));
}

TEST(ImportEarly, TheCheckersTextIsOneLine) {
  NodeCase test{"Mystery", 21, {Tensor(DType::f32, {1})}};
  try {
    import_node(test);
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_NE(text.find("No Op registered for Mystery"), text.npos) << text;
    EXPECT_EQ(text.find('\n'), text.npos) << text;
  }
}

}  // namespace
}  // namespace temper
