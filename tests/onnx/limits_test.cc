// SPDX-License-Identifier: Apache-2.0
// Files of some kilobytes that say much more: what they ask for is counted before it is made. None of these cases would
// end, or fit the machine, otherwise.
#include "onnx/limits.h"

#include <onnx/onnx_pb.h>
#include <unistd.h>

#include "../data/helpers.h"
#include "onnx/import.h"
#include "onnx/read.h"
#include "run_node.h"

namespace temper {
namespace {

onnx::ModelProto empty_model() {
  onnx::ModelProto model;
  model.set_ir_version(10);
  model.add_opset_import()->set_version(21);
  auto* own = model.add_opset_import();
  own->set_domain("own");
  own->set_version(1);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("g");
  for (auto [list, name] : {std::pair{graph.add_input(), "x"}, {graph.add_output(), "y"}}) {
    list->set_name(name);
    auto* tensor = list->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(onnx::TensorProto::FLOAT);
    tensor->mutable_shape()->add_dim()->set_dim_value(4);
  }
  return model;
}

template <class Owner>
onnx::NodeProto& add_node(Owner& owner, const std::string& op, const std::string& in, const std::string& out,
                          const std::string& domain = "") {
  onnx::NodeProto& node = *owner.add_node();
  node.set_op_type(op);
  node.set_domain(domain);
  node.add_input(in);
  node.add_output(out);
  return node;
}

onnx::FunctionProto& add_function(onnx::ModelProto& model, const std::string& name) {
  onnx::FunctionProto& function = *model.add_functions();
  function.set_name(name);
  function.set_domain("own");
  function.add_input("a");
  function.add_output("b");
  function.add_opset_import()->set_version(21);
  auto* own = function.add_opset_import();
  own->set_domain("own");
  own->set_version(1);
  return function;
}

ImportedModel import(const onnx::ModelProto& model, const ModelLimits& limits = {}) {
  return import_onnx_bytes(model.SerializeAsString(), "", {{}, limits});
}

TEST(OnnxLimits, FunctionsThatCallEachOtherTwiceAreRefusedByTheirExpandedNumberOfNodes) {
  onnx::ModelProto model = empty_model();
  add_node(add_function(model, "f0"), "Relu", "a", "b");
  for (int i = 1; i <= 31; ++i) {
    onnx::FunctionProto& function = add_function(model, concat("f", i));
    add_node(function, concat("f", i - 1), "a", "t", "own");
    add_node(function, concat("f", i - 1), "t", "b", "own");
  }
  add_node(*model.mutable_graph(), "f31", "x", "y", "own");
  const std::string message = error_of(ErrorKind::bad_file, [&] { import(model); });
  EXPECT_CONTAINS(message, "6442450943 nodes, with its functions in the place of their calls");
  EXPECT_CONTAINS(message, "the limit is 1000000");
}

TEST(OnnxLimits, EachLimitHoldsToTheLastAndIsNamed) {
  onnx::ModelProto chain = empty_model();
  for (int i = 0; i < 40; ++i) add_node(add_function(chain, concat("f", i)), concat("f", i + 1), "a", "b", "own");
  add_node(add_function(chain, "f40"), "Relu", "a", "b");
  add_node(*chain.mutable_graph(), "f0", "x", "y", "own");
  const auto refused = [](const onnx::ModelProto& model, const ModelLimits& limits) {
    return error_of(ErrorKind::bad_file, [&] { import(model, limits); });
  };
  EXPECT_CONTAINS(refused(chain, {}), "nested deeper than 32 (recursion?); --depth-limit N sets another limit");
  EXPECT_CONTAINS(refused(chain, {.depth = 40}), "nested deeper than 40");
  EXPECT_EQ(import(chain, {.depth = 41}).graph.node_count(), 1);
  EXPECT_CONTAINS(refused(chain, {.nodes = 41, .depth = 41}), "the limit is 41; --node-limit N sets another");
  EXPECT_NO_THROW(import(chain, {.nodes = 42, .depth = 41}));
}

TEST(OnnxLimits, LimitsThatAreNoneAreWrongUsage) {
  const auto refused = [](const ModelLimits& limits) {
    return error_of(ErrorKind::usage, [&] { import(empty_model(), limits); });
  };
  EXPECT_CONTAINS(refused({.nodes = 0}), "--node-limit is 0");
  EXPECT_CONTAINS(refused({.depth = -1}), "--depth-limit is -1");
  EXPECT_CONTAINS(refused({.depth = 257}), "the most that it may be is 256");
  EXPECT_CONTAINS(refused({.iterations = 0}), "--loop-limit is 0");
}

TEST(OnnxLimits, AsManySubgraphsInsideOneAnotherAsMayBeSetAreRead) {
  onnx::ModelProto model = empty_model();
  auto* condition = model.mutable_graph()->add_input();
  condition->set_name("c");
  condition->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::BOOL);
  condition->mutable_type()->mutable_tensor_type()->mutable_shape();
  onnx::GraphProto* graph = model.mutable_graph();
  for (int64_t depth = 0; depth < kMostDepth; ++depth) {
    onnx::NodeProto& node = add_node(*graph, "If", "c", depth ? concat("y", depth) : "y");
    for (const char* name : {"then_branch", "else_branch"}) {
      auto* side = node.add_attribute();
      side->set_name(name);
      side->set_type(onnx::AttributeProto::GRAPH);
      side->mutable_g()->set_name(name);
      side->mutable_g()->add_output()->set_name(concat("y", depth + 1));
      side->mutable_g()->mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
          onnx::TensorProto::FLOAT);
    }
    add_node(*node.mutable_attribute(1)->mutable_g(), "Neg", "x", concat("y", depth + 1));
    graph = node.mutable_attribute(0)->mutable_g();
  }
  add_node(*graph, "Relu", "x", concat("y", kMostDepth));
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { import(model, {.depth = kMostDepth - 1}); }), "");
  EXPECT_NO_THROW(import(model, {.depth = kMostDepth}));
}

TEST(OnnxLimits, LargeFunctionsCountAsOftenAsTheyAreCalled) {
  onnx::ModelProto model = empty_model();
  onnx::NodeProto& constant = add_node(add_function(model, "f"), "Constant", "", "c");
  constant.clear_input();
  auto* value = constant.add_attribute();
  value->set_name("value");
  value->set_type(onnx::AttributeProto::TENSOR);
  value->mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
  value->mutable_t()->add_dims(1 << 18);
  value->mutable_t()->set_raw_data(std::string(1 << 20, '\0'));
  add_node(*model.mutable_functions(0), "Relu", "a", "b");
  for (int i = 0; i < 3000; ++i) add_node(*model.mutable_graph(), "f", "x", i ? concat("y", i) : "y", "own");
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { import(model); }),
                  "bytes with its functions in the place of their calls");
}

TEST(OnnxLimits, AFunctionThatCallsItselfIsNamedAsRecursion) {
  onnx::ModelProto model = empty_model();
  add_node(add_function(model, "f"), "f", "a", "b", "own");
  add_node(*model.mutable_graph(), "f", "x", "y", "own");
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { import(model); }), "recursion");
}

TEST(OnnxLimits, ManyCallsOfALocalFunctionAreImportedInOneWalk) {
  onnx::ModelProto model = empty_model();
  onnx::FunctionProto& layer = add_function(model, "layer");
  for (int i = 0; i < 40; ++i)
    add_node(layer, i % 2 ? "Relu" : "Sigmoid", i ? concat("t", i - 1) : "a", i < 39 ? concat("t", i) : "b");
  for (int i = 0; i < 2000; ++i)
    add_node(*model.mutable_graph(), "layer", i ? concat("v", i - 1) : "x", i < 1999 ? concat("v", i) : "y", "own");
  const ImportedModel imported = import(model);
  EXPECT_EQ(imported.graph.node_count(), 80000);
  EXPECT_EQ(imported.graph.value(imported.graph.outputs()[0].value).name, "y");
}

TEST(OnnxLimits, ACallTakesTheFunctionOfItsOverload) {
  onnx::ModelProto model = empty_model();
  add_node(add_function(model, "f"), "Relu", "a", "b");
  onnx::FunctionProto& other = add_function(model, "f");
  other.set_overload("negated");
  add_node(other, "Neg", "a", "b");
  onnx::NodeProto& call = add_node(*model.mutable_graph(), "f", "x", "y", "own");
  const auto result = [&] {
    return run_reference(import(model).graph, {Tensor::of<float>({4}, {-1, 2, -3, 4})})[0].to_doubles();
  };
  EXPECT_EQ(result(), (std::vector<double>{0, 2, 0, 4}));
  call.set_overload("negated");
  EXPECT_EQ(result(), (std::vector<double>{1, -2, 3, -4}));
}

TEST(OnnxLimits, TenMillionEmptyInitializersAreCountedBeforeTheyAreRead) {
  onnx::ModelProto model = empty_model();
  add_node(*model.mutable_graph(), "Relu", "x", "y");
  std::string bytes = model.SerializeAsString(), list;
  for (int i = 0; i < 10'000'000; ++i) list += std::string_view("\x2a\x00", 2);  // field 5 of a graph, no bytes
  std::string size;
  for (size_t n = list.size(); n; n >>= 7) size += char((n & 127) | (n > 127 ? 128 : 0));
  bytes += "\x3a" + size + list;  // field 7 of a model: added to the graph that is there
  EXPECT_GT(message_memory(bytes), int64_t(2) << 30);
  const std::string message = error_of(ErrorKind::bad_file, [&] { parse_onnx(bytes, ""); });
  EXPECT_CONTAINS(message, "once read; the limit is");
  EXPECT_CONTAINS(message, "--memory-limit");
}

TEST(OnnxLimits, MessagesThatAreReadTakeAboutWhatWasCounted) {
  onnx::ModelProto model = empty_model();
  for (int i = 0; i < 20000; ++i) {
    add_node(*model.mutable_graph(), "Relu", i ? concat("v", i - 1) : "x", i < 19999 ? concat("v", i) : "y");
    auto* weight = model.mutable_graph()->add_initializer();
    weight->set_name(concat("weight.of.a.layer.", i));
    weight->set_data_type(onnx::TensorProto::INT64);
    for (int k = 0; k < 5; ++k) weight->add_int64_data(k);
    weight->add_dims(5);
  }
  const std::string bytes = model.SerializeAsString();
  const int64_t counted = message_memory(bytes);
  EXPECT_GT(counted, int64_t(model.SpaceUsedLong()) * 3 / 4);
  EXPECT_LT(counted, int64_t(model.SpaceUsedLong()) * 2);
  EXPECT_LT(counted, kMemoryPerByte * int64_t(bytes.size()) + kMemoryBeside);
  EXPECT_NO_THROW(parse_onnx(bytes, ""));
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { parse_onnx(bytes, "", {.memory = counted - 1}); }),
                  "--memory-limit");
  EXPECT_NO_THROW(parse_onnx(bytes, "", {.memory = counted}));
}

// A model whose only constant lies at `offset` of weights.bin.
std::string model_with_weights(int64_t offset) {
  onnx::ModelProto model = empty_model();
  onnx::NodeProto& node = add_node(*model.mutable_graph(), "Add", "x", "y");
  node.add_input("w");
  auto* weight = model.mutable_graph()->add_initializer();
  weight->set_name("w");
  weight->set_data_type(onnx::TensorProto::FLOAT);
  weight->add_dims(4);
  weight->set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] :
       {std::pair<std::string, std::string>{"location", "weights.bin"}, {"offset", concat(offset)}, {"length", "16"}}) {
    auto* entry = weight->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  return model.SerializeAsString();
}

TEST(OnnxLimits, ExternalDataIsReadUpToItsLastTensorAndHolesAreRefused) {
  const std::string folder = test_folder();
  write_text(folder + "weights.bin", std::string(64, '\1'));
  const OnnxModel whole = parse_onnx(model_with_weights(48), folder), first = parse_onnx(model_with_weights(0), folder);
  ASSERT_EQ(truncate((folder + "weights.bin").c_str(), off_t(1) << 40), 0);  // of holes behind the 64 bytes
  EXPECT_EQ(parse_onnx(model_with_weights(48), folder).sha256, whole.sha256);
  EXPECT_EQ(parse_onnx(model_with_weights(0), folder).sha256, first.sha256);
  const std::string message =
      error_of(ErrorKind::bad_file, [&] { parse_onnx(model_with_weights((int64_t(1) << 40) - 16), folder); });
  EXPECT_CONTAINS(message, "it is made of holes");
}

TEST(OnnxLimits, AFunctionOfOnnxThatDoesNotFitItsInputsIsUnsupportedNotDamaged) {
  NodeCase test{"MeanVarianceNormalization", 17, {Tensor(DType::f32, {2, 3, 4})}};
  const std::string message = error_of(ErrorKind::unsupported, [&] { import_node(test); });
  EXPECT_CONTAINS(message, "ONNX defines MeanVarianceNormalization by other ops");
  EXPECT_CONTAINS(message, "axis 3 does not exist in a tensor of rank 3");
  test.attributes = [](onnx::NodeProto& node) { set_attribute(node, "axes", std::vector<int64_t>{0, 2}); };
  EXPECT_NO_THROW(import_node(test));
}

}  // namespace
}  // namespace temper
