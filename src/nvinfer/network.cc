// SPDX-License-Identifier: Apache-2.0
#include "nvinfer/network.h"

#include <onnx/defs/schema.h>

#include <algorithm>
#include <utility>

#include "base/half.h"
#include "graph/op.h"
#include "graph/ops/broadcast.h"
#include "nvinfer/node_settings.h"
#include "nvinfer/types.h"
#include "onnx/import.h"
#include "onnx/input_dims.h"
#include "onnx/node.h"
#include "onnx/tensor_proto.h"

namespace temper::nvinfer {

namespace {

// All that is refused of a model, where an import ends with the first.
std::vector<std::string> refusals_in(const ModelSource& source) {
  std::vector<std::string> texts;
  const OnnxModel model = source.bytes.empty() ? read_onnx(source.path) : parse_onnx(source.bytes, "");
  for (const Refused& refused : refusals_of(model, {}).refused)
    texts.push_back(concat("node '", refused.node, "' (", refused.op, "): ", refused.reason));
  return texts;
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

bool knows_operator(const std::string& name) {
  constexpr int kOpset = 22;
  const auto knows = [&](const char* domain) {
    const onnx::OpSchema* const schema = onnx::OpSchemaRegistry::Schema(name, kOpset, domain);
    return find_import(domain, name) || (schema && (schema->HasFunction() || schema->HasContextDependentFunction()));
  };
  return knows("") || knows("com.microsoft");
}

bool Network::judge(const std::string& onnx, const std::string& path, std::vector<std::string>& errors,
                    std::vector<Subgraph>& subgraphs) {
  const bool is_read = parse(onnx, path, errors);
  judged_ = judged_ || is_read;
  try {
    const OnnxModel model = onnx.empty() ? read_onnx(path) : parse_onnx(onnx, "");
    std::set<int64_t> refused;
    if (!is_read) {
      const Refusals found = refusals_of(model, {});
      refused.insert(found.nodes.begin(), found.nodes.end());
    }
    const int64_t count = model.proto->graph().node_size();
    for (int64_t place = 0; place < count; ++place) {
      // What no single node is to blame for is said of all of them.
      const bool fits = is_read || (!refused.empty() && !refused.contains(place));
      if (subgraphs.empty() || subgraphs.back().is_read != fits) subgraphs.push_back({{}, fits});
      subgraphs.back().nodes.push_back(place);
    }
  } catch (const Error&) { subgraphs.clear(); }  // a broken file has no nodes; `errors` has the reason
  return is_read;
}

bool Network::parse(std::string onnx, const std::string& path, std::vector<std::string>& errors) {
  if (judged_ && !edited_) *this = Network(rules_);
  ModelSource source{path.empty() ? "<bytes>" : path, path.empty() ? std::move(onnx) : std::string(), std::nullopt};
  ImportedModel model;
  try {
    // TensorRT puts it beside what there is.
    if (parsed_ || edited_) {
      end_builds("a model was parsed into a network that had inputs or layers: not in Temper");
      fail(ErrorKind::unsupported, "a model is read into a network that has no inputs and layers yet");
    }
    if (path.empty() && source.bytes.empty()) fail(ErrorKind::bad_file, "the model has no bytes");
    model = source.import();
  } catch (const Error& error) {
    std::vector<std::string> texts;
    if (error.kind() == ErrorKind::unsupported && !parsed_ && !edited_) texts = refusals_in(source);
    if (texts.empty()) texts.emplace_back(error.what());
    errors.insert(errors.end(), texts.begin(), texts.end());
    return false;
  }
  // Numbers of tensors and layers are those of the model's values and nodes.
  const Graph& graph = model.graph;
  Network read(rules_);
  for (int32_t v = 0; v < graph.value_count(); ++v) {
    Held& tensor = read.tensors_.emplace_back();
    tensor.name = graph.value({v}).name;
    read.value_names_.push_back(tensor.name);
    tensor.layer = graph.value({v}).producer.index;
  }
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node({n});
    Layer& layer = read.layers_.emplace_back();
    layer.name = node.name;
    layer.type = word_for(node.op);
    for (ValueId id : node.inputs) layer.inputs.push_back(id.index);
    for (ValueId id : node.outputs) layer.outputs.push_back(id.index);
  }
  read.seen_inputs_.emplace();
  for (ValueId id : graph.inputs()) {
    read.inputs_.push_back(id.index);
    read.seen_inputs_->push_back({graph.value(id).name, graph.type(id)});
  }
  read.model_inputs_ = *read.seen_inputs_;
  read.seen_outputs_.emplace();
  for (const GraphOutput& output : graph.outputs()) {
    read.outputs_.push_back(output.value.index);
    read.model_outputs_.push_back(output.value.index);
    read.tensors_[size_t(output.value.index)].name = output.name;
    read.seen_outputs_->push_back({output.name, graph.type(output.value)});
  }
  read.parsed_layers_ = read.layers();
  read.parsed_ = true;
  read.name_ = graph.name;
  read.source_ = std::move(source);
  *this = std::move(read);
  // The parser of such a release knows no integers of 64 bits: programs give and get them with 32.
  if (rules_.integers_are_int32)
    for (const std::vector<int>& ports : {inputs_, outputs_})
      for (int tensor : ports)
        if (this->tensor(tensor).dtype == DType::i64) put_type(tensor, DType::i32);
  return true;
}

void Network::end_builds(const std::string& why) {
  if (ended_.empty()) ended_ = why;
}

ModelSource Network::source() const {
  if (!ended_.empty()) fail(ErrorKind::unsupported, "the network was edited by what was refused: ", ended_);
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
    if (tensor != -1) held(tensor);
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
  if (input < 0 || input > 64) fail(ErrorKind::usage, "there is no input ", input, " of '", old.name, "'");
  held(tensor);
  if (is_parsed(index)) {
    if (size_t(input) >= old.inputs.size() || old.inputs[size_t(input)] < 0)
      fail(ErrorKind::unsupported, "input ", input, " of '", old.name, "', where the model has none: not in Temper");
    if (old.inputs[size_t(input)] == tensor) return;
    rewired_.insert(index);
  }
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
  const bool of_types = setting == "precision" || setting == "compute_precision";
  if (of_types && is_strongly_typed())
    throw Rejected(concat("the ", setting, " of '", old.name,
                          "' is not set: the network is strongly typed; cast the layer's inputs instead"));
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

// Of a node of the model, which is asked for what its layer in TensorRT has.
std::optional<Setting> Network::setting_of_node(int index, std::string_view name) const {
  if (name == "precision" || name == "metadata") return std::nullopt;
  const std::string& layer = layers_[size_t(index)].name;
  const Graph& from = model();
  if (from.node_count() != parsed_layers_ || word_for(from.node({index}).op) != layers_[size_t(index)].type)
    fail(ErrorKind::unsupported, "'", layer,
         "' is no more in the model, read for the dimensions that its inputs were given: not in Temper");
  if (auto found = setting_of(from, from.node({index}), name)) return found;
  fail(ErrorKind::unsupported, "'", layer, "' is a node of the model, which does not tell its ", name,
       ": not in Temper");
}

std::optional<Setting> Network::setting(int index, std::string_view name) const {
  const Layer& of = layer(index);
  if (const auto it = of.settings.find(name); it != of.settings.end()) return it->second;
  if (is_parsed(index)) return setting_of_node(index, name);
  if (of.inputs.empty() || of.inputs[0] < 0 || !setting_by_rank(of, name, 0)) return std::nullopt;
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
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i] != tensor) continue;
    if (seen_inputs_) return take((*seen_inputs_)[i].type);
    // One input after the other may get new dimensions, and the model hold only when all have them.
    if (i >= model_inputs_.size()) break;
    take(model_inputs_[i].type);
    if (has_dims_of_its_own(i)) seen.dims = of.dims;
    return seen;
  }
  for (size_t i = 0; seen_outputs_ && i < outputs_.size(); ++i)
    if (outputs_[i] == tensor) return take((*seen_outputs_)[i].type);
  const Lowered& at = of.layer < 0 ? lowered_inputs() : lowered(of.layer);
  return take(at.graph.type(value_of(at, tensor)));
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
  if (is_strongly_typed() && !is_input(tensor)) {
    const DType its = this->tensor(tensor).dtype;
    if (its == dtype) return;
    throw Rejected(concat("the type of '", held(tensor).name, "' stays ", its,
                          ": the network is strongly typed; put a cast behind it instead"));
  }
  put_type(tensor, dtype);
}

void Network::put_type(int tensor, DType dtype) {
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
  if (!is_input(tensor)) fail(ErrorKind::usage, "the dimensions of '", of.name, "' follow from its layer");
  if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < -1; }))
    fail(ErrorKind::usage, "the input '", of.name, "' gets the dimensions ", dims);
  const Dims now = this->tensor(tensor).dims;
  if (dims == now) return;
  if (!of.is_added_input && dims.size() != now.size())
    fail(ErrorKind::unsupported, "'", of.name, "' gets ", dims.size(), " dimensions; the model's has ", now.size());
  edit(Edit::graph);
  if (of.is_added_input) of.dim_names.resize(dims.size());
  else model_.reset();
  of.dims = dims;
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
  const std::string& name = held(tensor).name;
  if (is_output(tensor)) return;
  if (is_input(tensor))
    fail(ErrorKind::usage, "'", name,
         "' is an input of the network, which is no output; put an identity layer behind it");
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

bool Network::has_dims_of_its_own(size_t input) const {
  return input < model_inputs_.size() && !tensors_[size_t(inputs_[input])].dims.empty();
}

const Graph& Network::model() const {
  if (model_) return *model_;
  std::map<std::string, Dims> given;
  for (size_t i = 0; i < model_inputs_.size(); ++i)
    if (has_dims_of_its_own(i)) given[model_inputs_[i].name] = tensors_[size_t(inputs_[i])].dims;
  if (given.empty()) {
    model_ = std::make_shared<const Graph>(source_.import().graph);
    return *model_;
  }
  OnnxModel file = source_.bytes.empty() ? read_onnx(source_.path) : parse_onnx(source_.bytes, "");
  set_input_dims(file, given);
  Graph read = import_onnx(std::move(file), {}).graph;
  if (read.inputs().size() != model_inputs_.size() || read.outputs().size() != model_outputs_.size())
    fail(ErrorKind::unsupported,
         "the model has other inputs or outputs with the dimensions that its inputs were given");
  model_ = std::make_shared<const Graph>(std::move(read));
  return *model_;
}

ValueId Network::value_of(const Lowered& from, int tensor) const {
  const ValueId value = from.values[size_t(tensor)];
  if (!value.valid())
    fail(ErrorKind::unsupported, "'", tensors_[size_t(tensor)].name,
         "' is no more in the model, read for the dimensions that its inputs were given: not in Temper");
  return value;
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
  // Values and nodes have the numbers of tensors and layers. Read for other dimensions, the model may have others, and
  // then its inputs and outputs alone are known again: names within it may be those of something else.
  bool is_same = size_t(from.value_count()) == value_names_.size() && from.node_count() == parsed_layers_;
  for (int32_t v = 0; is_same && v < from.value_count(); ++v) is_same = from.value({v}).name == value_names_[size_t(v)];
  if (!is_same && !rewired_.empty())
    fail(ErrorKind::unsupported, "an input of '", layers_[size_t(*rewired_.begin())].name,
         "' was set, and the model has other nodes with the dimensions that its inputs were given: not in Temper");
  std::vector<ValueId> values(size_t(from.value_count()));
  for (size_t i = 0; i < from.inputs().size(); ++i) {
    const ValueId id = from.inputs()[i];
    values[size_t(id.index)] = add_input_to(made.graph, tensors_[size_t(inputs_[i])], from.type(id));
    made.values[size_t(inputs_[i])] = values[size_t(id.index)];
  }
  for (int32_t v = 0; v < from.value_count(); ++v)
    if (const Value& value = from.value({v}); value.constant)
      values[size_t(v)] = made.graph.add_constant(value.name, *value.constant);
  for (int32_t n = 0; n < from.node_count(); ++n) {
    const Node& node = from.node({n});
    std::vector<ValueId> inputs;
    std::vector<std::string> names;
    for (ValueId id : node.inputs) inputs.push_back(id.valid() ? values[size_t(id.index)] : ValueId{});
    for (ValueId id : node.outputs) names.push_back(from.value(id).name);
    for (size_t i = 0; rewired_.contains(n) && i < inputs.size(); ++i) {
      const int wanted = layers_[size_t(n)].inputs[i];
      if (wanted == node.inputs[i].index) continue;
      const Shape shape = made.graph.type(inputs[i]).shape;
      inputs[i] = made.graph.add_single(ops::Broadcast{shape}, {inputs[i]}, concat(layers_[size_t(n)].name, "/input"));
      made.rewired.push_back({inputs[i], n, wanted});
    }
    const std::vector<ValueId> outputs =
        made.graph.add(node.op, inputs, is_same ? layers_[size_t(n)].name : node.name, names);
    for (size_t i = 0; i < outputs.size(); ++i) values[size_t(node.outputs[i].index)] = outputs[i];
  }
  if (is_same) std::copy(values.begin(), values.end(), made.values.begin());
  for (size_t i = 0; i < model_outputs_.size(); ++i)
    made.values[size_t(model_outputs_[i])] = values[size_t(from.outputs()[i].value.index)];
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
    const bool is_narrow = is_half(*of.dtype);
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
      if (tensor < 0 || inputs.back().valid()) continue;
      const int maker = tensors_[size_t(tensor)].layer;
      if (maker < 0 || to.has[size_t(maker)]) value_of(to, tensor);  // fails
      open.push_back(maker);
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

// Puts the tensors that the program wants in the places of those that stand in.
void Network::rewire(Graph& whole, const Lowered& from) const {
  for (const Rewired& place : from.rewired) {
    const std::string& layer = layers_[size_t(place.layer)].name;
    const ValueId given = value_of(from, place.tensor);
    const TensorType &wanted = whole.type(place.stands_in), &type = whole.type(given);
    if (type != wanted)
      fail(ErrorKind::unsupported, "layer '", layer, "' gets '", tensors_[size_t(place.tensor)].name, "' ", type,
           " in the place of ", wanted, ", for which the model was read: not in Temper");
    whole.replace(place.stands_in, given);
    // What computes a value from the one that it takes the place of keeps that.
    if (!whole.value(place.stands_in).users.empty())
      fail(ErrorKind::usage, "layer '", layer, "' needs what it gives itself");
  }
}

Graph Network::graph() const {
  // TensorRT looks at all layers: one that is wrong ends the build where no output needs it, too.
  for (int index = 0; index < layers(); ++index) lowered(index);
  const Lowered& from = lowered_inputs();
  Graph whole = from.graph;
  whole.name = name_;
  std::set<std::string> names;
  const auto take_name = [&](const std::string& name) {
    if (!names.insert(name).second) fail(ErrorKind::usage, "two inputs or outputs have the name '", name, "'");
  };
  for (int input : inputs_) take_name(tensors_[size_t(input)].name);
  for (int output : outputs_) {
    const Held& of = tensors_[size_t(output)];
    if (!is_input(output)) take_name(of.name);  // one that a model gives as it takes it has one name
    ValueId value = value_of(from, output);
    if (of.dtype && whole.type(value).dtype != *of.dtype)
      value = add_onnx(whole, concat("(x) => (y) { y = Cast <to = ", onnx_from_dtype(*of.dtype), "> (x) }"), {value},
                       concat(of.name, "/cast"))[0];
    whole.add_output(of.name, value);
  }
  rewire(whole, from);
  try {
    whole.compact();
  } catch (const std::logic_error&) {  // a circle
    if (from.rewired.empty()) throw;
    fail(ErrorKind::usage, "layer '", layers_[size_t(from.rewired[0].layer)].name, "' needs what it gives itself");
  }
  return whole;
}

}  // namespace temper::nvinfer
