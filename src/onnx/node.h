// SPDX-License-Identifier: Apache-2.0
// The import function of one ONNX op sees this: the node, its inputs as graph values, its attributes, and the graph to
// build into. Attributes that no import function asked for are refused by name afterwards: nothing is ignored silently.
#pragma once
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "onnx/limits.h"
#include "onnx/value.h"

namespace onnx {
class NodeProto;
class GraphProto;
class AttributeProto;
}  // namespace onnx

namespace temper {

class Importer;

class OnnxNode {
 public:
  OnnxNode(Importer& importer, const onnx::NodeProto& proto, int64_t opset);

  int64_t opset() const { return opset_; }  // of the node's domain
  const std::string& op_type() const;
  const std::string& name() const { return name_; }  // unique; derived from the first output where the node has none
  Graph& graph();

  // Inputs. An absent optional input has no value.
  size_t input_count() const { return inputs_.size(); }
  std::string input_name(size_t i) const;  // for messages
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i].valid(); }
  ValueId input(size_t i) const;  // throws where absent or no tensor
  ValueId optional_input(size_t i) const { return has(i) ? input(i) : ValueId{}; }
  OnnxValue value(size_t i) const { return i < inputs_.size() ? inputs_[i] : OnnxValue{}; }
  const OnnxSequence& sequence(size_t i) const;  // throws where it is none
  const TensorType& type(size_t i) const;
  const Tensor* constant(size_t i) const;    // null: absent or not constant
  const Contents* contents(size_t i) const;  // null: absent or depends on data
  // Integers of an input that must be known at import; `what` goes into the refusal.
  std::vector<int64_t> constant_ints(size_t i, std::string_view what) const;
  std::vector<double> constant_doubles(size_t i, std::string_view what) const;

  // Attributes; asking marks them as understood.
  bool has_attribute(const char* name) const;
  int64_t int_attribute(const char* name, int64_t standard) const;
  int64_t int_attribute(const char* name) const;  // required
  double float_attribute(const char* name, double standard) const;
  std::string string_attribute(const char* name, std::string standard) const;
  std::vector<int64_t> ints_attribute(const char* name, std::vector<int64_t> standard) const;
  std::vector<double> floats_attribute(const char* name, std::vector<double> standard) const;
  std::vector<std::string> strings_attribute(const char* name, std::vector<std::string> standard) const;
  std::optional<Tensor> tensor_attribute(const char* name) const;
  const onnx::GraphProto* graph_attribute(const char* name) const;  // null where absent
  void ignore_attribute(const char* name) const;                    // for those without a meaning at inference

  // Outputs.
  size_t output_count() const;
  bool wants_output(size_t i) const;  // named in the model
  void set_output(size_t i, OnnxValue value);

  // Building. Nodes and values get names derived from this node's.
  ValueId add(Op op, std::vector<ValueId> inputs);
  // A convolution or matrix product of floats of one dtype; the result has it too, whatever the accumulator is.
  ValueId product(Op op, std::vector<ValueId> operands);
  std::vector<ValueId> add_many(Op op, std::vector<ValueId> inputs);
  ValueId constant(Tensor tensor);
  ValueId scalar(DType dtype, double value);         // rank 0
  ValueId number(int64_t value);                     // i64, rank 0
  ValueId ints(const std::vector<int64_t>& values);  // i64 [n]
  ValueId reshape(ValueId x, Shape shape);           // x itself when the shape is the same
  ValueId cast(ValueId x, DType dtype);              // x itself when the dtype is the same
  // One-step program on broadcast inputs: pointwise(Scalar::add, {a, b}); `result` only where it is not the first
  // input's.
  ValueId pointwise(Scalar op, std::vector<ValueId> inputs, std::optional<DType> result = std::nullopt);
  ValueId program(Program program, std::vector<ValueId> inputs);

  // The import function has done nothing: the function body that ONNX gives for the op is imported in its place.
  void use_function_body() { function_body_ = true; }

  // Imports a body that is written in the text form of ONNX (onnx/defs/parser.h), "(a, b) => (y) { y = Add(a, b) }"
  // with ops of opset 22, for these inputs; returns its outputs. An input without a value is absent.
  std::vector<ValueId> body(const std::string& text, const std::vector<ValueId>& inputs);
  // Imports a subgraph's nodes in place; returns its outputs, none of which is an OnnxEither.
  std::vector<OnnxValue> inline_graph(const onnx::GraphProto& graph, const std::vector<OnnxValue>& inputs);
  // The same of one whose outputs may be.
  std::vector<OnnxValue> inline_open(const onnx::GraphProto& graph, const std::vector<OnnxValue>& inputs);
  // The same of the side of an If, whose condition is input 0.
  std::vector<OnnxValue> inline_branch(const onnx::GraphProto& graph, bool then);
  const ModelLimits& limits() const;
  // The iterations of the loops whose bodies are being imported, innermost last.
  std::vector<ValueId>& loops();
  // A body is imported once more, because its types were not right: loops inside of loops may make that many times.
  void count_loop_again();
  // Steps of a regular expression (ops::pattern_steps): a megabyte of such text may ask for minutes.
  void count_pattern(int64_t steps);
  // Of two ways that exclude each other: whether the first is taken. The import is tried with it, and with the other
  // where that fails.
  bool takes_first_side();
  // The import has met functions or subgraphs nested deeper than it may: what failed is no matter of shapes.
  bool is_too_deep() const;

  template <class... Parts>
  [[noreturn]] void unsupported(const Parts&... what) const {
    refuse(what..., " is not supported. Write it as other ops, or export the model without it");
  }
  // The same in words of its own, which say what to do.
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(ErrorKind::unsupported, parts...);
  }
  template <class... Parts>
  [[noreturn]] void bad(const Parts&... parts) const {
    fail(ErrorKind::bad_file, parts...);
  }

  void check_all_attributes_used() const;  // called by the importer

 private:
  friend class Importer;
  Importer& importer_;
  const onnx::NodeProto& proto_;
  int64_t opset_;
  std::string name_;
  std::vector<OnnxValue> inputs_;
  mutable std::set<std::string> used_;
  int counter_ = 0;
  bool function_body_ = false;

  const onnx::AttributeProto* find(const char* name) const;
  std::string fresh_name();
};

// A small language for writing programs: values are indices, operators push steps.
//   ProgramBuilder b({DType::f32}); auto x = b.input(0); b.result(b.mul(x, b.sigmoid(x)));
class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::vector<DType> inputs) : dtypes_(std::move(inputs)) {
    program_.inputs = int(dtypes_.size());
  }
  int input(int i) const { return i; }
  int constant(DType dtype, double value) { return push(constant_step(dtype, value)); }
  // The result has the dtype of the (last) argument, or bool for comparisons; cast names its own.
  int op(Scalar op, int a, int b = -1, int c = -1);
  int cast(int a, DType dtype) { return dtype_of(a) == dtype ? a : push({Scalar::cast, dtype, {a, -1, -1}}); }
  DType dtype_of(int value) const { return dtypes_[size_t(value)]; }
  // `value` must be the last step or the only input; otherwise an identity cast is appended.
  Program result(int value);

 private:
  Program program_;
  std::vector<DType> dtypes_;
  int push(Step step);
};

using ImportFunction = void (*)(OnnxNode& node);

// THE import list is in ops.cc: null when ONNX's op has no entry (then its function body is expanded, if it has one).
ImportFunction find_import(std::string_view domain, std::string_view op_type);

}  // namespace temper
