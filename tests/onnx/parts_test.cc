// SPDX-License-Identifier: Apache-2.0
// A model that is parsed in parts against protobuf's own parser.
#include "onnx/parts.h"

#include <google/protobuf/arena.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <random>

#include "base/concat.h"

namespace temper {
namespace {

constexpr int kDepth = 128;

onnx::ModelProto chain(int nodes) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.mutable_graph()->set_name("g");
  for (int i = 0; i < nodes; ++i) {
    auto& node = *model.mutable_graph()->add_node();
    node.set_op_type("Relu");
    node.add_input(concat("v", i));
    node.add_output(concat("v", i + 1));
    if (i % 7 == 0) node.add_attribute()->mutable_g()->add_node()->set_op_type("Sin");
  }
  for (const char* name : {"a", "b"}) model.mutable_graph()->add_initializer()->set_name(name);
  return model;
}

std::string text_of(const std::string& bytes) {
  std::vector<NodePart> parts;
  const auto model = parse_in_parts(bytes, kDepth, parts);
  return model ? model->SerializeAsString() : "refused";
}
std::string wanted_of(const std::string& bytes) {
  onnx::ModelProto model;
  return model.ParseFromString(bytes) ? model.SerializeAsString() : "refused";
}

TEST(Parts, AreTogetherWhatTheFileSays) {
  const std::string small = chain(3).SerializeAsString(), large = chain(50'000).SerializeAsString();
  for (const std::string& bytes : {std::string(), small, large}) EXPECT_EQ(text_of(bytes), wanted_of(bytes));
  // Fields that protobuf would not write so: a graph in several pieces, and what no ONNX has, a group among them.
  const std::string group("\xfb\x01\x08\x01\xfc\x01", 6);
  onnx::ModelProto nested = chain(2);
  nested.mutable_graph()->GetReflection()->MutableUnknownFields(nested.mutable_graph())->AddGroup(31)->AddVarint(1, 1);
  for (const std::string& bytes : {small + small, group + small, small + group + small,
                                   nested.SerializeAsString() + small, small + nested.SerializeAsString()})
    EXPECT_EQ(text_of(bytes), wanted_of(bytes));
}

TEST(Parts, HoldTheNodesUpToTheirEnd) {
  std::vector<NodePart> parts;
  const auto model = parse_in_parts(chain(50'000).SerializeAsString(), kDepth, parts);
  ASSERT_GT(parts.size(), 2u);
  EXPECT_EQ(parts.back().end, 50'000);
  parts.front().messages.reset();
  for (int i = parts.front().end; i < parts.back().end; ++i)
    ASSERT_EQ(model->graph().node(i).output(0), concat("v", i + 1));
}

TEST(Parts, OfDamagedFilesAreRefusedWhereProtobufRefuses) {
  const std::string whole = chain(8).SerializeAsString();
  std::mt19937 random(1);
  for (int i = 0; i < 5'000; ++i) {
    std::string bytes = whole;
    for (uint32_t times = 1 + random() % 3; times > 0; --times) bytes[random() % bytes.size()] = char(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    ASSERT_EQ(text_of(bytes), wanted_of(bytes)) << i;
  }
}

}  // namespace
}  // namespace temper
