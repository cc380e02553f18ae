// SPDX-License-Identifier: Apache-2.0
// How a model is read for a build.
#include "optimize/model_source.h"

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "../plan/helpers.h"

namespace temper {
namespace {

// Whether 'batch' is 1 decides how many axes are left.
std::string squeezed() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(11);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("squeezed");
  const auto value = [](onnx::ValueInfoProto& info, const std::string& name) {
    info.set_name(name);
    info.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
    return info.mutable_type()->mutable_tensor_type()->mutable_shape();
  };
  auto* shape = value(*graph.add_input(), "x");
  shape->add_dim()->set_dim_param("batch");
  shape->add_dim()->set_dim_value(1);
  shape->add_dim()->set_dim_value(3);
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type("Squeeze");
  node.add_input("x");
  node.add_output("squeezed");
  onnx::NodeProto& flatten = *graph.add_node();
  flatten.set_op_type("Flatten");
  onnx::AttributeProto& axis = *flatten.add_attribute();
  axis.set_name("axis");
  axis.set_type(onnx::AttributeProto::INT);
  axis.set_i(1);
  flatten.add_input("squeezed");
  flatten.add_output("y");
  auto* out = value(*graph.add_output(), "y");
  out->add_dim()->set_dim_param("rows");
  out->add_dim()->set_dim_param("columns");
  return model.SerializeAsString();
}

TEST(ModelSource, AFixedShapeDecidesWhatAnOpenOneLeavesToTheRun) {
  const ModelSource source{"<bytes>", squeezed(), {}};
  BuildOptions options;
  options.measure = false;
  const auto run = [&](int64_t batch) { return Session(build_engine(source, options)).run({noise({batch, 1, 3}, 1)}); };
  EXPECT_EQ(run(1).at(0).dims(), Dims({3, 1})) << "an open batch that nobody gives is one";
  for (const int64_t batch : {1, 2}) {
    for (const int64_t most : {batch, int64_t(4)}) {
      options.shapes = {{"x", {{most == batch ? batch : 1, 1, 3}, {batch, 1, 3}, {most, 1, 3}}}};
      EXPECT_EQ(run(batch).at(0).dims(), batch == 1 ? Dims({3, 1}) : Dims({2, 3})) << "up to " << most;
    }
  }
}

}  // namespace
}  // namespace temper
