// SPDX-License-Identifier: Apache-2.0
#include "onnx/write.h"

#include <onnx/checker.h>
#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/file.h"
#include "base/version.h"
#include "graph/onnx_form.h"
#include "onnx/read.h"
#include "onnx/tensor_proto.h"
#include "onnx/writer.h"

namespace temper {

namespace {

// Opset 21 is the first whose quantization knows 16 bits; the newer ones are taken where an op or a dtype needs them.
constexpr int kLowestOpset = 21, kHighestOpset = 26;
// ONNX Runtime 1.31 moves quantization past reshapes, and forgets the zero point's type where the opset knows
// output_dtype, from 21 on: it takes i8 for u8 (its issues 25526 and 27845). Models with Q/DQ are written in this one,
// if they mean the same there.
constexpr int kQuantizedOpset = 19;
int ir_version_of(int opset) { return opset <= 20 ? 9 : opset <= 22 ? 10 : opset == 23 ? 11 : opset == 24 ? 12 : 13; }

bool means_the_same(const onnx::GraphProto& graph, int opset, int later) {
  // What came to these between the two are dtypes, which the checker knows.
  static const char* const more_dtypes[] = {
      "Cast",  "Constant", "ConstantOfShape", "DequantizeLinear", "Flatten",   "Identity", "IsInf",
      "IsNaN", "Pad",      "QuantizeLinear",  "ReduceMax",        "ReduceMin", "Reshape",  "Shape",
      "Size",  "Squeeze",  "Transpose",       "Unsqueeze"};
  return std::all_of(graph.node().begin(), graph.node().end(), [&](const onnx::NodeProto& node) {
    const auto* const now = onnx::OpSchemaRegistry::Schema(node.op_type(), opset, node.domain());
    const auto* const then = onnx::OpSchemaRegistry::Schema(node.op_type(), later, node.domain());
    return now && then &&
           (now->since_version() == then->since_version() ||
            std::find(std::begin(more_dtypes), std::end(more_dtypes), node.op_type()) != std::end(more_dtypes));
  });
}

// A sum is written as exporters write it, and as import reads it; any other expression stays open, since ONNX would
// take it for one more symbol.
bool is_sum(const std::string& text) { return text.find_first_of("*(,-") == std::string::npos; }

void set_type(onnx::ValueInfoProto& info, const std::string& name, const TensorType& type) {
  info.set_name(name);
  auto* tensor = info.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(onnx_from_dtype(type.dtype));
  tensor->mutable_shape();
  for (const Dim& dim : type.shape) {
    auto* d = tensor->mutable_shape()->add_dim();
    if (dim.is_constant()) d->set_dim_value(dim.value());
    else if (dim.is_symbol() || is_sum(dim.text())) d->set_dim_param(dim.text());
  }
}

}  // namespace

OnnxWriter::OnnxWriter(const Graph& graph)
    : graph_(graph), model_(std::make_unique<onnx::ModelProto>()), proto_(model_->mutable_graph()) {
  names_.resize(size_t(graph.value_count()));
  written_.resize(size_t(graph.value_count()), 0);
}
OnnxWriter::~OnnxWriter() = default;

std::string OnnxWriter::fresh(std::string_view wanted) {
  std::string name(wanted.empty() ? "value" : wanted);
  if (used_.insert(name).second) return name;
  for (int i = 1;; ++i)
    if (std::string candidate = concat(name, '.', i); used_.insert(candidate).second) return candidate;
}

// Inputs and outputs are the model's interface: they come first. Then every other value gets its own name or one like
// it.
void OnnxWriter::choose_names() {
  for (ValueId id : graph_.inputs()) {
    names_[size_t(id.index)] = graph_.value(id).name;
    if (graph_.value(id).name.empty() || !used_.insert(graph_.value(id).name).second)
      fail(ErrorKind::unsupported, "two inputs have the name '", graph_.value(id).name, "'");
  }
  for (const GraphOutput& output : graph_.outputs()) {
    std::string& name = names_[size_t(output.value.index)];
    if (name == output.name && !name.empty()) continue;
    if (output.name.empty() || !used_.insert(output.name).second)
      fail(ErrorKind::unsupported, "the output name '", output.name, "' belongs to an input or another output already");
    if (name.empty() && graph_.value(output.value).producer.valid()) name = output.name;
  }
  for (int32_t v = 0; v < graph_.value_count(); ++v)
    if (names_[size_t(v)].empty()) names_[size_t(v)] = fresh(graph_.value({v}).name);
}

void OnnxWriter::write_inputs() {
  for (ValueId id : graph_.inputs()) {
    set_type(*proto_->add_input(), names_[size_t(id.index)], type(id));
    learn_symbols(id);
  }
}

void OnnxWriter::write_outputs() {
  for (const GraphOutput& output : graph_.outputs()) {
    node_name_ = output.name;
    if (name(output.value) != output.name) node("Identity", {name(output.value)}, {output.name});
    set_type(*proto_->add_output(), output.name, type(output.value));
  }
}

void OnnxWriter::learn_symbols(ValueId id) {
  const Shape& shape = type(id).shape;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (shape[axis].is_symbol())
      symbols_.emplace(shape[axis].text(), std::pair(names_[size_t(id.index)], int64_t(axis)));
}

std::string OnnxWriter::name(ValueId id) {
  if (!id.valid()) return "";
  const std::string& name = names_[size_t(id.index)];
  if (const Tensor* tensor = graph_.constant(id); tensor && !written_[size_t(id.index)]) {
    written_[size_t(id.index)] = 1;
    used_.erase(name);
    constant(*tensor, name);
  }
  return name;
}

std::vector<std::string> OnnxWriter::names(const std::vector<ValueId>& ids) {
  std::vector<std::string> out;
  out.reserve(ids.size());
  for (ValueId id : ids) out.push_back(name(id));
  return out;
}

onnx::NodeProto& OnnxWriter::node(std::string_view op_type, const std::vector<std::string>& inputs,
                                  const std::vector<std::string>& outputs) {
  onnx::NodeProto& node = *proto_->add_node();
  std::string name = node_name_;
  for (int i = 1; !used_nodes_.insert(name).second; ++i) name = concat(node_name_, '/', i);
  node.set_name(name);
  node.set_op_type(std::string(op_type));
  size_t count = inputs.size();
  while (count > 0 && inputs[count - 1].empty()) --count;  // trailing absent inputs are left out
  for (size_t i = 0; i < count; ++i) node.add_input(inputs[i]);
  for (const std::string& output : outputs) node.add_output(output);
  return node;
}

std::string OnnxWriter::emit(std::string_view op_type, const std::vector<std::string>& inputs,
                             onnx::NodeProto** written) {
  std::string output = fresh(concat(node_name_, '/', op_type));
  onnx::NodeProto& result = node(op_type, inputs, {output});
  if (written) *written = &result;
  return output;
}

std::string OnnxWriter::constant(const Tensor& tensor, std::string_view wanted) {
  bytes_ = checked_add(bytes_, tensor.bytes());
  if (bytes_ > kMaxModelBytes)
    fail(ErrorKind::unsupported, "the constants have more than ", kMaxModelBytes,
         " bytes, the most that one ONNX file holds; external data is not written");
  std::string name = fresh(wanted);
  auto& proto = *proto_->add_initializer();
  proto.set_name(name);
  proto.set_data_type(onnx_from_dtype(tensor.dtype()));
  for (int64_t dim : tensor.dims()) proto.add_dims(dim);
  proto.set_raw_data(file_bytes(tensor));
  return name;
}

std::string OnnxWriter::reshaped_constant(ValueId id, const Dims& dims) {
  const std::string& name = names_[size_t(id.index)];
  if (graph_.has_single_use(id)) used_.erase(name);
  return constant(graph_.constant(id)->reshaped(dims), name);
}

std::string OnnxWriter::scalar(DType dtype, double number, int64_t integer) {
  Tensor tensor(dtype, {});
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) tensor.data<T>()[0] = static_cast<T>(integer);
    else tensor.data<T>()[0] = static_cast<T>(number);
  });
  // Found again by its bits: two NaNs differ, two zeros of different sign are not one.
  const std::string bits =
      concat(dtype, std::string_view(reinterpret_cast<const char*>(tensor.raw().data()), tensor.raw().size()));
  std::string& name = scalars_[bits];
  if (name.empty()) name = constant(tensor, concat("scalar.", dtype, '.', scalars_.size()));
  return name;
}

std::string OnnxWriter::ints(const std::vector<int64_t>& values) {
  std::string& name = ints_[values];
  if (name.empty())
    name = constant(Tensor::of<int64_t>({int64_t(values.size())}, values), concat("ints.", ints_.size()));
  return name;
}

// The text of a dimension (base/dim.h gives its grammar) as ONNX arithmetic on i64 [1].
struct DimWriter {
  OnnxWriter& writer;
  std::string_view text;
  size_t at = 0;

  char peek() const { return at < text.size() ? text[at] : '\0'; }
  std::string sum() {
    const bool negative = peek() == '-';
    at += negative;
    std::string result = product();
    if (negative) result = writer.emit("Neg", {result});
    while (peek() == '+' || peek() == '-') {
      const char sign = text[at++];
      result = writer.emit(sign == '-' ? "Sub" : "Add", {result, product()});
    }
    return result;
  }
  std::string product() {
    std::string result = factor();
    while (peek() == '*') ++at, result = writer.emit("Mul", {result, factor()});
    return result;
  }
  std::string factor() {
    const size_t start = at;
    while (peek() && std::string_view("+-*(),").find(peek()) == std::string_view::npos) ++at;
    const std::string word(text.substr(start, at - start));
    if (peek() == '(') {
      const size_t open = ++at;
      const std::string a = sum();
      const Dim left = Dim::parse(text.substr(open, at - open));
      ++at;  // ','
      const std::string b = sum();
      ++at;  // ')'
      if (word != "floor") return writer.emit(word == "max" ? "Max" : "Min", {a, b});
      if (left.is_non_negative()) return writer.emit("Div", {a, b});
      // ONNX's Div truncates; its Mod has the sign of the divisor.
      return writer.emit("Div", {writer.emit("Sub", {a, writer.emit("Mod", {a, b})}), b});
    }
    if (!word.empty() && word[0] >= '0' && word[0] <= '9') return writer.ints({Dim::parse(word).value()});
    std::string& known = writer.symbol_dims_[word];
    if (!known.empty()) return known;
    const auto source = writer.symbols_.find(word);
    if (source == writer.symbols_.end())
      fail(ErrorKind::unsupported, "the dimension '", word,
           "' is no axis of any value before; give a fixed shape with --shapes");
    onnx::NodeProto* node = nullptr;
    const std::string name = writer.emit("Shape", {source->second.first}, &node);
    set_attribute(*node, "start", source->second.second);
    set_attribute(*node, "end", source->second.second + 1);
    return writer.symbol_dims_[word] = name;
  }
};

std::string OnnxWriter::dim(const Dim& dim) {
  if (dim.is_constant()) return ints({dim.value()});
  const std::string text = dim.text();
  return DimWriter{*this, text}.sum();
}

std::string OnnxWriter::dims(const Shape& shape) {
  std::vector<int64_t> values;
  for (const Dim& dim : shape)
    if (dim.is_constant()) values.push_back(dim.value());
  if (values.size() == shape.size()) return ints(values);
  std::vector<std::string> parts;
  for (const Dim& dim : shape) parts.push_back(this->dim(dim));
  if (parts.size() == 1) return parts[0];
  onnx::NodeProto* node = nullptr;
  std::string name = emit("Concat", parts, &node);
  set_attribute(*node, "axis", int64_t(0));
  return name;
}

std::string OnnxWriter::run(const std::string& source_sha256) {
  model_->set_producer_name("temper");
  if (!source_sha256.empty()) {
    auto* entry = model_->add_metadata_props();
    entry->set_key(std::string(kSourceKey));
    entry->set_value(source_sha256);
  }
  model_->set_producer_version(std::string(version()));
  proto_->set_name(graph_.name.empty() ? "graph" : graph_.name);
  choose_names();
  write_inputs();
  for (int32_t n = 0; n < graph_.node_count(); ++n) {
    const Node& node = graph_.node({n});
    node_name_ = node.name;
    with_context([&] { return concat(name_of(node.op), " '", node.name, "'"); }, [&] { write_op(*this, node); });
    for (ValueId output : node.outputs) learn_symbols(output);
  }
  write_outputs();
  if (model_->ByteSizeLong() > size_t(kMaxModelBytes))
    fail(ErrorKind::unsupported, "the model would have ", int64_t(model_->ByteSizeLong()),
         " bytes; an ONNX file holds ", kMaxModelBytes);
  auto* opset = model_->add_opset_import();
  std::string first_refusal;
  const bool quantized = std::any_of(proto_->node().begin(), proto_->node().end(),
                                     [](const onnx::NodeProto& node) { return node.op_type() == "DequantizeLinear"; });
  std::vector<int> opsets;
  if (quantized && means_the_same(*proto_, kQuantizedOpset, kLowestOpset)) opsets.push_back(kQuantizedOpset);
  for (int version = kLowestOpset; version <= kHighestOpset; ++version) opsets.push_back(version);
  for (const int version : opsets) {
    opset->set_version(version);
    model_->set_ir_version(ir_version_of(version));
    try {
      onnx::checker::check_model(*model_, true);
      return model_->SerializeAsString();
    } catch (const std::exception& error) {  // ONNX reports through several exception types of its own
      if (first_refusal.empty()) first_refusal = error.what();
    }
  }
  fail(ErrorKind::unsupported, "ONNX cannot hold this graph in opset ", kLowestOpset, " to ", kHighestOpset, ": ",
       first_refusal);
}

std::string onnx_bytes(const Graph& graph, const std::string& source_sha256) {
  return with_context([&] { return concat("writing '", graph.name, "' as ONNX"); },
                      [&] { return OnnxWriter(graph).run(source_sha256); });
}

void write_onnx(const Graph& graph, const std::string& path, const std::string& source_sha256, bool force) {
  write_file_atomically({path, FileKind::our_onnx, force}, onnx_bytes(graph, source_sha256));
}

void set_attribute(onnx::NodeProto& node, std::string_view name, int64_t value) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(std::string(name));
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}
void set_attribute(onnx::NodeProto& node, std::string_view name, double value) {
  if (double(float(value)) != value && value == value)
    fail(ErrorKind::unsupported, name, " is ", value, ", which a 32-bit attribute does not hold exactly");
  auto& attribute = *node.add_attribute();
  attribute.set_name(std::string(name));
  attribute.set_type(onnx::AttributeProto::FLOAT);
  attribute.set_f(float(value));
}
void set_attribute(onnx::NodeProto& node, std::string_view name, std::string_view value) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(std::string(name));
  attribute.set_type(onnx::AttributeProto::STRING);
  attribute.set_s(std::string(value));
}
void set_attribute(onnx::NodeProto& node, std::string_view name, const std::vector<int64_t>& values) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(std::string(name));
  attribute.set_type(onnx::AttributeProto::INTS);
  for (int64_t value : values) attribute.add_ints(value);
}
void set_attribute(onnx::NodeProto& node, std::string_view name, const std::vector<double>& values) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(std::string(name));
  attribute.set_type(onnx::AttributeProto::FLOATS);
  for (double value : values) {
    if (double(float(value)) != value)
      fail(ErrorKind::unsupported, name, " has ", value, ", which a 32-bit attribute does not hold exactly");
    attribute.add_floats(float(value));
  }
}
void set_attribute(onnx::NodeProto& node, const OnnxAttribute& attribute) {
  std::visit(
      [&]<class T>(const T& value) {
        if constexpr (std::is_same_v<T, bool>) set_attribute(node, attribute.name, int64_t(value));
        else if constexpr (std::is_same_v<T, DType>)
          set_attribute(node, attribute.name, int64_t(onnx_from_dtype(value)));
        else set_attribute(node, attribute.name, value);
      },
      attribute.value);
}

}  // namespace temper
