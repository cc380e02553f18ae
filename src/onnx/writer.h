// SPDX-License-Identifier: Apache-2.0
// The function that writes one op sees this: the model being written, under the names that its values have there.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace onnx {
class GraphProto;
class ModelProto;
class NodeProto;
}  // namespace onnx

namespace temper {

struct OnnxAttribute;

class OnnxWriter {
 public:
  explicit OnnxWriter(const Graph& graph);
  ~OnnxWriter();
  std::string run(const std::string& source_sha256);

  // ---- for the ops ----
  const Graph& graph() const { return graph_; }
  const TensorType& type(ValueId id) const { return graph_.type(id); }
  // The value's name in the model, "" for an absent one. A constant becomes an initializer when it is first asked for.
  std::string name(ValueId id);
  std::vector<std::string> names(const std::vector<ValueId>& ids);
  // A node with exactly these outputs. Its own name is that of the graph's node being written, made unique.
  onnx::NodeProto& node(std::string_view op_type, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs);
  // A node with one output of a new name.
  std::string emit(std::string_view op_type, const std::vector<std::string>& inputs,
                   onnx::NodeProto** written = nullptr);
  std::string fresh(std::string_view wanted);  // a name that nothing has
  std::string constant(const Tensor& tensor, std::string_view wanted);
  // The constant `id` in another shape. It takes the name where nothing else needs the constant as it is.
  std::string reshaped_constant(ValueId id, const Dims& dims);
  std::string scalar(DType dtype, double number, int64_t integer);
  std::string ints(const std::vector<int64_t>& values);  // i64 [n]
  // i64 [n]: the dimensions; symbolic ones are computed from the shapes of values that were written before.
  std::string dims(const Shape& shape);
  // The steps of `program` from `first` on. `values` names its inputs and, for first > 0, the results of the steps
  // before. The result, broadcast to `shape`, gets the name `output`.
  void program(const Program& program, std::vector<std::string> values, std::vector<TensorType> types,
               const Shape& shape, const std::string& output);
  template <class... Parts>
  [[noreturn]] void unsupported(const Parts&... parts) const {
    fail(ErrorKind::unsupported, parts..., "; ONNX has no op with exactly this meaning");
  }

 private:
  const Graph& graph_;
  std::unique_ptr<onnx::ModelProto> model_;
  onnx::GraphProto* proto_;
  std::vector<std::string> names_;  // by value; "" while unnamed
  std::vector<char> written_;       // constants: as initializers
  std::set<std::string, std::less<>> used_, used_nodes_;
  std::map<std::string, std::pair<std::string, int64_t>, std::less<>> symbols_;  // -> value and axis of that size
  std::map<std::string, std::string, std::less<>> symbol_dims_, scalars_;
  std::map<std::vector<int64_t>, std::string> ints_;
  std::string node_name_;
  int64_t bytes_ = 0;

  void choose_names();
  void write_inputs();
  void write_outputs();
  void learn_symbols(ValueId id);
  std::string dim(const Dim& dim);  // i64 [1]
  friend struct DimWriter;
};

// Writes the node by its op's onnx_form (graph/op.h) or by a function for that op. Throws Error{unsupported} for an op
// that has neither, and for what ONNX does not say exactly.
void write_op(OnnxWriter& writer, const Node& node);
bool has_write_function(const Op& op);
// Attributes; a float that ONNX's 32 bits do not hold exactly is refused.
void set_attribute(onnx::NodeProto& node, std::string_view name, int64_t value);
void set_attribute(onnx::NodeProto& node, std::string_view name, double value);
void set_attribute(onnx::NodeProto& node, std::string_view name, std::string_view value);
void set_attribute(onnx::NodeProto& node, std::string_view name, const std::vector<int64_t>& values);
void set_attribute(onnx::NodeProto& node, std::string_view name, const std::vector<double>& values);
void set_attribute(onnx::NodeProto& node, const OnnxAttribute& attribute);

}  // namespace temper
