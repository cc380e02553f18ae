// SPDX-License-Identifier: Apache-2.0
#include "nvinfer/network.h"

#include <algorithm>
#include <utility>

#include "graph/op.h"
#include "nvinfer/types.h"
#include "onnx/import.h"
#include "onnx/tensor_proto.h"

namespace temper::nvinfer {

namespace {

std::string_view word_for(OpKind kind) {
  switch (kind) {
    case OpKind::convolution: return "CONVOLUTION";
    case OpKind::matmul: return "MATRIX_MULTIPLY";
    case OpKind::pooling: return "POOLING";
    case OpKind::reduction: return "REDUCE";
    case OpKind::pointwise: return "ELEMENTWISE";
    case OpKind::softmax: return "SOFTMAX";
    case OpKind::normalization: return "NORMALIZATION";
    case OpKind::movement: return "SHUFFLE";
    case OpKind::quantize: return "QUANTIZE";
    case OpKind::dequantize: return "DEQUANTIZE";
    case OpKind::recurrent:
    case OpKind::attention:
    case OpKind::string:
    case OpKind::other: return "";
  }
  return "";
}

bool is_symbol_name(const std::string& name) {
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

std::string symbol_of(const std::string& name, size_t axis) {
  std::string symbol;
  for (char c : concat(name, "_", axis)) symbol += is_symbol_name(concat("x", c)) ? c : '_';
  return is_symbol_name(symbol) ? symbol : "d" + symbol;
}

}  // namespace

bool is_open(const TensorType& type) {
  return std::any_of(type.shape.begin(), type.shape.end(), [](const Dim& dim) { return !dim.is_constant(); });
}

bool Network::parse(std::string onnx, const std::string& path, std::vector<std::string>& errors) {
  ModelSource source{path.empty() ? "<bytes>" : path, path.empty() ? std::move(onnx) : std::string(), std::nullopt};
  ImportedModel model;
  try {
    if (edited_) fail(ErrorKind::unsupported, "a model is read into a network that has no inputs and layers yet");
    if (path.empty() && source.bytes.empty()) fail(ErrorKind::bad_file, "the model has no bytes");
    model = source.import();
  } catch (const Error& error) {
    errors.emplace_back(error.what());
    return false;
  }
  // Numbers of tensors and layers are those of the model's values and nodes.
  const Graph& graph = model.graph;
  Network read(rules_);
  for (int32_t v = 0; v < graph.value_count(); ++v) {
    Held& tensor = read.tensors_.emplace_back();
    tensor.name = graph.value({v}).name;
    tensor.layer = graph.value({v}).producer.index;
  }
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node({n});
    Layer& layer = read.layers_.emplace_back();
    layer.name = node.name;
    layer.type = word_for(kind_of(node.op));
    for (ValueId id : node.inputs) layer.inputs.push_back(id.index);
    for (ValueId id : node.outputs) layer.outputs.push_back(id.index);
  }
  read.seen_inputs_.emplace();
  for (ValueId id : graph.inputs()) {
    read.inputs_.push_back(id.index);
    read.seen_inputs_->push_back({graph.value(id).name, graph.type(id)});
  }
  read.seen_outputs_.emplace();
  for (const GraphOutput& output : graph.outputs()) {
    read.outputs_.push_back(output.value.index);
    read.tensors_[size_t(output.value.index)].name = output.name;
    read.seen_outputs_->push_back({output.name, graph.type(output.value)});
  }
  read.parsed_layers_ = read.layers();
  read.parsed_ = true;
  read.name_ = graph.name;
  read.source_ = std::move(source);
  *this = std::move(read);
  return true;
}

ModelSource Network::source() const {
  if (parsed_ && !edited_) return source_;
  return {"<layers>", "", graph()};
}

const std::vector<PortInfo>& Network::inputs() const {
  if (!seen_inputs_) {
    seen_inputs_.emplace();
    const Graph& of = lowered_inputs().graph;
    for (ValueId id : of.inputs()) seen_inputs_->push_back({of.value(id).name, of.type(id)});
  }
  return *seen_inputs_;
}
const std::vector<PortInfo>& Network::outputs() const {
  if (!seen_outputs_) {
    const Graph whole = graph();
    seen_outputs_.emplace();
    for (const GraphOutput& output : whole.outputs()) seen_outputs_->push_back({output.name, whole.type(output.value)});
  }
  return *seen_outputs_;
}

bool Network::is_quantized() const {
  return std::any_of(layers_.begin(), layers_.end(),
                     [](const Layer& layer) { return layer.type == "QUANTIZE" || layer.type == "DEQUANTIZE"; });
}

// ---- layers ----

const Layer& Network::layer(int index) const {
  if (index < 0 || index >= layers()) fail(ErrorKind::usage, "there is no layer ", index);
  return layers_[size_t(index)];
}

int Network::add_layer(const std::string& type, const std::vector<int>& inputs) {
  const size_t outputs = layer_outputs(type);
  for (int tensor : inputs)
    if (tensor >= 0) held(tensor);
  edit(Edit::ports);
  const int index = layers();
  Layer layer;
  layer.type = type;
  layer.name = concat("(Unnamed Layer* ", index, ") [", title_of(type), "]");
  layer.inputs = inputs;
  for (size_t i = 0; i < outputs; ++i) {
    layer.outputs.push_back(int(tensors_.size()));
    Held& tensor = tensors_.emplace_back();
    tensor.name = concat(layer.name, "_output", i ? concat("_", i) : "");
    tensor.layer = index;
  }
  layers_.push_back(std::move(layer));
  return index;
}

void Network::set_input(int index, int input, int tensor) {
  const Layer& old = layer(index);
  if (is_parsed(index)) fail(ErrorKind::unsupported, "inputs of '", old.name, "' are the model's: not in Temper");
  if (input < 0 || input > 64) fail(ErrorKind::usage, "there is no input ", input, " of '", old.name, "'");
  held(tensor);
  edit_layer(index);
  std::vector<int>& inputs = layers_[size_t(index)].inputs;
  if (inputs.size() <= size_t(input)) inputs.resize(size_t(input) + 1, -1);
  inputs[size_t(input)] = tensor;
}

void Network::rename_layer(int index, const std::string& name) {
  layer(index);
  edit_layer(index);
  layers_[size_t(index)].name = name;
}

void Network::set(int index, const std::string& setting, Setting value) {
  const Layer& old = layer(index);
  if (setting != "precision") {
    if (is_parsed(index)) fail(ErrorKind::unsupported, "'", old.name, "' is a node of the model, which stays as it is");
    edit_layer(index);
  }
  layers_[size_t(index)].settings[setting] = std::move(value);
}

void Network::reset(int index, const std::string& setting) {
  if (!layer(index).settings.contains(setting)) return;
  if (setting != "precision") edit_layer(index);
  layers_[size_t(index)].settings.erase(setting);
}

std::optional<Setting> Network::setting(int index, std::string_view name) const {
  const Layer& of = layer(index);
  if (const auto it = of.settings.find(name); it != of.settings.end()) return it->second;
  if (is_parsed(index) || of.inputs.empty() || of.inputs[0] < 0 || !setting_by_rank(of, name, 0)) return std::nullopt;
  return setting_by_rank(of, name, int64_t(tensor(of.inputs[0]).dims.size()));
}

// ---- tensors ----

const Network::Held& Network::held(int tensor) const {
  if (tensor < 0 || size_t(tensor) >= tensors_.size()) fail(ErrorKind::usage, "there is no tensor ", tensor);
  return tensors_[size_t(tensor)];
}
Network::Held& Network::held(int tensor) { return const_cast<Held&>(std::as_const(*this).held(tensor)); }

std::string Network::tensor_name(int tensor) const { return held(tensor).name; }
bool Network::is_input(int tensor) const { return std::find(inputs_.begin(), inputs_.end(), tensor) != inputs_.end(); }
bool Network::is_output(int tensor) const {
  return std::find(outputs_.begin(), outputs_.end(), tensor) != outputs_.end();
}

NetworkTensor Network::tensor(int tensor) const {
  const Held& of = held(tensor);
  NetworkTensor seen{of.name, DType::f32, {}};
  const auto take = [&](const TensorType& type) {
    seen.dtype = of.dtype.value_or(type.dtype);
    for (const Dim& dim : type.shape) seen.dims.push_back(dim.is_constant() ? dim.value() : -1);
    return seen;
  };
  for (size_t i = 0; seen_inputs_ && i < inputs_.size(); ++i)
    if (inputs_[i] == tensor) return take((*seen_inputs_)[i].type);
  for (size_t i = 0; seen_outputs_ && i < outputs_.size(); ++i)
    if (outputs_[i] == tensor) return take((*seen_outputs_)[i].type);
  const Lowered& at = of.layer < 0 ? lowered_inputs() : lowered(of.layer);
  return take(at.graph.type(at.values[size_t(tensor)]));
}

int Network::add_input(const std::string& name, DType dtype, const Dims& dims) {
  for (int input : inputs_)
    if (held(input).name == name) fail(ErrorKind::usage, "there is an input '", name, "' already");
  if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < -1; }))
    fail(ErrorKind::usage, "the input '", name, "' has the dimensions ", dims);
  edit(Edit::ports);
  const int number = int(tensors_.size());
  Held& tensor = tensors_.emplace_back();
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.is_added_input = true;
  tensor.dims = dims;
  tensor.dim_names.resize(dims.size());
  inputs_.push_back(number);
  return number;
}

void Network::rename(int tensor, const std::string& name) {
  if (held(tensor).name == name) return;
  edit(is_input(tensor) ? Edit::graph : Edit::ports);
  held(tensor).name = name;
}

void Network::set_type(int tensor, DType dtype) {
  Held& of = held(tensor);
  if (of.dtype == dtype) return;
  const bool is_identity = of.layer >= parsed_layers_ && layers_[size_t(of.layer)].type == "IDENTITY";
  const bool is_port = is_input(tensor) || is_output(tensor);
  if (is_port && !is_identity && !of.dtype && this->tensor(tensor).dtype == dtype) return;
  if (is_port && !is_identity && dtype == DType::i8)
    fail(ErrorKind::unsupported, "INT8 for '", of.name,
         "' needs a scale, and a tensor has none: quantize it by a layer");
  if (is_identity) set(of.layer, "output_type", std::vector<int64_t>{type_number(dtype)});
  else if (is_port) edit(is_input(tensor) ? Edit::graph : Edit::ports);
  of.dtype = dtype;
}

void Network::reset_type(int tensor) {
  Held& of = held(tensor);
  if (!of.dtype || of.is_added_input) return;
  if (of.layer >= parsed_layers_) reset(of.layer, "output_type");
  edit(is_input(tensor) ? Edit::graph : Edit::ports);
  of.dtype.reset();
}

void Network::set_dims(int tensor, const Dims& dims) {
  Held& of = held(tensor);
  if (!of.is_added_input)
    fail(ErrorKind::unsupported, "the dimensions of '", of.name, "' follow from the model, or from its layer");
  edit(Edit::graph);
  of.dims = dims;
  of.dim_names.resize(dims.size());
}

void Network::name_dim(int tensor, int axis, const std::string& name) {
  Held& of = held(tensor);
  if (!of.is_added_input)
    fail(ErrorKind::unsupported, "dimensions of '", of.name, "' are named in the model, or follow from its layer");
  if (axis < 0 || size_t(axis) >= of.dims.size()) fail(ErrorKind::usage, "'", of.name, "' has no dimension ", axis);
  edit(Edit::graph);
  of.dim_names[size_t(axis)] = name;
}

std::string Network::dim_name(int tensor, int axis) const {
  const Held& of = held(tensor);
  return axis >= 0 && size_t(axis) < of.dim_names.size() ? of.dim_names[size_t(axis)] : "";
}

void Network::mark_output(int tensor) {
  held(tensor);
  if (is_output(tensor)) return;
  edit(Edit::ports);
  outputs_.push_back(tensor);
}

void Network::unmark_output(int tensor) {
  if (!is_output(tensor)) return;
  edit(Edit::ports);
  std::erase(outputs_, tensor);
}

// ---- what becomes of it ----

void Network::edit(Edit what) {
  edited_ = true;
  seen_inputs_.reset();
  seen_outputs_.reset();
  if (what == Edit::graph) lowered_.reset();
}

void Network::edit_layer(int layer) {
  const bool is_in = lowered_ && size_t(layer) < lowered_->has.size() && lowered_->has[size_t(layer)];
  edit(is_in ? Edit::graph : Edit::ports);
}

const Graph& Network::model() const {
  if (!model_) model_ = std::make_shared<const Graph>(source_.import().graph);
  return *model_;
}

// The input as the program gives it; the value has the type that is computed with.
ValueId Network::add_input_to(Graph& graph, const Held& input, TensorType wanted) const {
  const DType computed = wanted.dtype;
  if (input.dtype) wanted.dtype = *input.dtype;
  const ValueId given = graph.add_input(input.name, std::move(wanted));
  if (graph.type(given).dtype == computed) return given;
  return add_onnx(graph, concat("(x) => (y) { y = Cast <to = ", onnx_from_dtype(computed), "> (x) }"), {given},
                  concat(input.name, "/cast"))[0];
}

// The model of the parser, without outputs: which they are is up to the program.
Network::Lowered Network::start() const {
  Lowered made;
  made.graph.name = name_;
  made.values.resize(tensors_.size());
  if (!parsed_) return made;
  const Graph& from = model();
  for (ValueId id : from.inputs())
    made.values[size_t(id.index)] = add_input_to(made.graph, tensors_[size_t(id.index)], from.type(id));
  for (int32_t v = 0; v < from.value_count(); ++v)
    if (const Value& value = from.value({v}); value.constant)
      made.values[size_t(v)] = made.graph.add_constant(value.name, *value.constant);
  for (int32_t n = 0; n < from.node_count(); ++n) {
    const Node& node = from.node({n});
    std::vector<ValueId> inputs;
    std::vector<std::string> names;
    for (ValueId id : node.inputs) inputs.push_back(id.valid() ? made.values[size_t(id.index)] : ValueId{});
    for (ValueId id : node.outputs) names.push_back(from.value(id).name);
    const std::vector<ValueId> outputs = made.graph.add(node.op, inputs, layers_[size_t(n)].name, names);
    for (size_t i = 0; i < outputs.size(); ++i) made.values[size_t(node.outputs[i].index)] = outputs[i];
  }
  made.has.assign(size_t(parsed_layers_), true);
  return made;
}

Network::Lowered& Network::lowered_inputs() const {
  if (!lowered_) lowered_ = start();
  Lowered& to = *lowered_;
  to.values.resize(tensors_.size());
  to.has.resize(layers_.size());
  for (int input : inputs_) {
    const Held& of = tensors_[size_t(input)];
    if (!of.is_added_input || to.values[size_t(input)].valid()) continue;
    const bool is_narrow = *of.dtype == DType::f16 || *of.dtype == DType::bf16;
    TensorType type{is_narrow && !rules_.keeps_float_types ? DType::f32 : *of.dtype, {}};
    for (size_t axis = 0; axis < of.dims.size(); ++axis) {
      const std::string& named = of.dim_names[axis];
      type.shape.push_back(of.dims[axis] >= 0 ? Dim(of.dims[axis])
                                              : Dim::symbol(is_symbol_name(named) ? named : symbol_of(of.name, axis)));
    }
    to.values[size_t(input)] = add_input_to(to.graph, of, std::move(type));
  }
  return to;
}

const Network::Lowered& Network::lowered(int wanted) const {
  Lowered& to = lowered_inputs();
  std::vector<int> open = {wanted};  // a layer, and above it what it needs still
  while (!open.empty()) {
    const int index = open.back();
    const Layer& layer = layers_[size_t(index)];
    if (to.has[size_t(index)]) {
      open.pop_back();
      continue;
    }
    std::vector<ValueId> inputs;
    const size_t before = open.size();
    for (int tensor : layer.inputs) {
      inputs.push_back(tensor >= 0 ? to.values[size_t(tensor)] : ValueId{});
      if (tensor >= 0 && !inputs.back().valid()) open.push_back(tensors_[size_t(tensor)].layer);
    }
    if (open.size() > before) {
      // Without a circle there are a path of layers and, of each of them, no more than its inputs.
      size_t most = layers_.size();
      for (const Layer& each : layers_) most += each.inputs.size();
      if (open.size() > most) fail(ErrorKind::usage, "layer '", layer.name, "' needs what it gives itself");
      continue;
    }
    const std::vector<ValueId> outputs = nvinfer::add_layer(to.graph, layer, inputs, rules_);
    for (size_t i = 0; i < outputs.size(); ++i) to.values[size_t(layer.outputs[i])] = outputs[i];
    to.has[size_t(index)] = true;
    open.pop_back();
  }
  return to;
}

Graph Network::graph() const {
  // TensorRT looks at all layers: one that is wrong ends the build where no output needs it, too.
  for (int index = 0; index < layers(); ++index) lowered(index);
  const Lowered& from = lowered_inputs();
  Graph whole = from.graph;
  whole.name = name_;
  for (int output : outputs_) {
    const Held& of = tensors_[size_t(output)];
    ValueId value = from.values[size_t(output)];
    if (of.dtype && whole.type(value).dtype != *of.dtype)
      value = add_onnx(whole, concat("(x) => (y) { y = Cast <to = ", onnx_from_dtype(*of.dtype), "> (x) }"), {value},
                       concat(of.name, "/cast"))[0];
    whole.add_output(of.name, value);
  }
  whole.compact();
  return whole;
}

}  // namespace temper::nvinfer
