// SPDX-License-Identifier: Apache-2.0
#include "onnx/import.h"

#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cctype>
#include <unordered_map>
#include <unordered_set>

#include "base/checked.h"
#include "base/hash.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reshape.h"
#include "onnx/functions.h"
#include "onnx/node.h"
#include "onnx/read.h"
#include "onnx/write.h"

namespace temper {

namespace {

constexpr std::string_view kInstead = ". Write it as ops that are supported, or give it a function body in the model";

std::string domain_of(const onnx::NodeProto& node) { return node.domain() == "ai.onnx" ? "" : node.domain(); }

// ONNX allows any text as the name of a dimension.
std::string symbol_name(std::string_view text) {
  std::string out;
  for (char c : text)
    out += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ? c : '_';
  if (out.empty() || (out[0] >= '0' && out[0] <= '9')) out.insert(0, "d");
  return out;
}

}  // namespace

class Importer {
 public:
  Importer(const OnnxModel& model, const ImportOptions& options)
      : model_(model), options_(options), functions_(functions_of(*model.proto)) {}

  // The graph has more than the outputs need: it must be compacted.
  ImportedModel run() {
    const onnx::ModelProto& proto = *model_.proto;
    result_.sha256 = result_.source_sha256 = model_.sha256;
    for (const auto& entry : proto.metadata_props())
      if (entry.key() == kSourceKey && is_sha256_hex(entry.value())) result_.source_sha256 = entry.value();
    result_.files = model_.files;
    result_.producer =
        concat(proto.producer_name(), proto.producer_version().empty() ? "" : " ", proto.producer_version());
    result_.graph.name = proto.graph().name();
    Scope scope{nullptr, {}, opsets_of(proto.opset_import()), {}};
    scope_ = &scope;
    for (const auto& tensor : proto.graph().initializer())
      scope.values[tensor.name()] = graph().add_constant(tensor.name(), tensor_of(tensor));
    if (proto.graph().sparse_initializer_size()) fail(ErrorKind::unsupported, "sparse initializers are not supported");
    for (const auto& input : proto.graph().input())
      if (!scope.values.count(input.name())) add_input(input);
    std::unordered_set<std::string_view> names;
    for (ValueId id : graph().inputs()) names.insert(graph().value(id).name);
    for (const auto& [name, shape] : options_.shapes) {
      if (!names.contains(name))
        fail(ErrorKind::usage, "a shape was given for the input '", name,
             "', which the model does not have. Its inputs: ", input_list());
    }
    import_nodes(proto.graph().node());
    if (proto.graph().output_size() == 0) fail(ErrorKind::bad_file, "the model has no outputs");
    for (const auto& output : proto.graph().output()) graph().add_output(output.name(), lookup(output.name()));
    scope_ = nullptr;
    return std::move(result_);
  }

  Graph& graph() { return result_.graph; }

  ValueId lookup(const std::string& name) {
    for (const Scope* scope = scope_; scope; scope = scope->parent)
      if (auto it = scope->values.find(name); it != scope->values.end()) return it->second;
    fail(ErrorKind::bad_file, "the value '", name, "' is used but nothing produces it");
  }

  void define(const std::string& name, ValueId value) { scope_->values[name] = value; }

  Tensor tensor_of(const onnx::TensorProto& tensor) {
    auto it = model_.external.find(&tensor);
    return tensor_from_proto(tensor, it == model_.external.end() ? std::nullopt : std::optional(it->second));
  }

  // Attributes of a function's nodes may refer to attributes of the call.
  const onnx::AttributeProto* resolve(const onnx::AttributeProto& attribute) {
    const onnx::AttributeProto* current = &attribute;
    for (const Scope* scope = scope_; scope && !current->ref_attr_name().empty();) {
      if (!scope->call) {
        scope = scope->parent;
        continue;
      }
      auto it = scope->attributes.find(current->ref_attr_name());
      return it == scope->attributes.end() ? nullptr : it->second;
    }
    return current->ref_attr_name().empty() ? current : nullptr;
  }

  std::vector<ValueId> inline_graph(const onnx::GraphProto& body, const std::vector<ValueId>& inputs) {
    Scope scope{scope_, {}, scope_->opsets, {}};
    const DepthGuard guard(*this, &scope);
    if (body.sparse_initializer_size()) fail(ErrorKind::unsupported, "sparse initializers are not supported");
    for (const auto& tensor : body.initializer())
      scope.values[tensor.name()] = graph().add_constant(tensor.name(), tensor_of(tensor));
    if (int(inputs.size()) != body.input_size())
      fail(ErrorKind::bad_file, "a subgraph of ", body.input_size(), " inputs was given ", inputs.size());
    for (int i = 0; i < body.input_size(); ++i) scope.values[body.input(i).name()] = inputs[size_t(i)];
    import_nodes(body.node());
    std::vector<ValueId> outputs;
    for (const auto& output : body.output()) outputs.push_back(lookup(output.name()));
    return outputs;
  }

 private:
  using Opsets = std::map<std::string, int64_t>;
  struct Scope {
    Scope* parent;  // null for the model and for a function body, which sees nothing of its caller
    std::unordered_map<std::string, ValueId> values;
    Opsets opsets;
    std::map<std::string, const onnx::AttributeProto*> attributes;  // of the call, inside a function
    bool call = false;
  };
  struct DepthGuard {
    DepthGuard(Importer& guarded, Scope* scope) : importer(guarded), before(guarded.scope_) {
      if (++guarded.depth_ > kMaxGraphDepth) {
        --guarded.depth_;
        fail(ErrorKind::bad_file, "functions and subgraphs are nested deeper than ", kMaxGraphDepth, " (recursion?)");
      }
      guarded.scope_ = scope;
    }
    ~DepthGuard() {
      importer.scope_ = before;
      --importer.depth_;
    }
    Importer& importer;
    Scope* before;
  };

  const OnnxModel& model_;
  const ImportOptions& options_;
  ImportedModel result_;
  const Functions functions_;
  Scope* scope_ = nullptr;
  int depth_ = 0;
  int64_t imported_ = 0;  // nodes so far

  template <class List>
  static Opsets opsets_of(const List& list) {
    Opsets opsets;
    for (const auto& opset : list) opsets[opset.domain() == "ai.onnx" ? "" : opset.domain()] = opset.version();
    return opsets;
  }

  std::string input_list() {
    std::string out;
    for (ValueId id : graph().inputs())
      out += concat(out.empty() ? "" : ", ", graph().value(id).name, ": ", graph().type(id));
    return out;
  }

  void add_input(const onnx::ValueInfoProto& info) {
    with_context([&] { return concat("input '", info.name(), "'"); },
                 [&] {
                   if (!info.type().has_tensor_type())
                     fail(ErrorKind::unsupported, "only tensors are supported, no sequences, maps or optionals");
                   const auto& proto = info.type().tensor_type();
                   TensorType type{dtype_from_onnx(proto.elem_type(), "the input"), {}};
                   const auto given = options_.shapes.find(info.name());
                   if (given != options_.shapes.end()) {
                     bool fits = !proto.has_shape() || int64_t(given->second.size()) == proto.shape().dim_size();
                     for (int i = 0; fits && i < proto.shape().dim_size(); ++i)
                       fits = !proto.shape().dim(i).has_dim_value() || proto.shape().dim(i).dim_value() == -1 ||
                              proto.shape().dim(i).dim_value() == given->second[size_t(i)];
                     if (!fits)
                       fail(ErrorKind::usage, "the given shape ", given->second, " contradicts the model's ",
                            proto.shape().ShortDebugString());
                     type.shape.assign(given->second.begin(), given->second.end());
                   } else {
                     if (!proto.has_shape())
                       fail(ErrorKind::usage, "the model gives it no shape; add --shapes ", info.name(), "=1x…");
                     for (int i = 0; i < proto.shape().dim_size(); ++i) {
                       const auto& dim = proto.shape().dim(i);
                       if (dim.has_dim_value() && dim.dim_value() != -1) {  // some exporters write -1 for an open axis
                         if (dim.dim_value() < 0)
                           fail(ErrorKind::bad_file, "dimension ", i, " is ", int64_t(dim.dim_value()));
                         type.shape.push_back(int64_t(dim.dim_value()));
                       } else {
                         // A name without a letter or digit ("?") is a placeholder: two of them need not be equal.
                         const bool named = std::any_of(dim.dim_param().begin(), dim.dim_param().end(),
                                                        [](unsigned char c) { return std::isalnum(c); });
                         const std::string name = named ? dim.dim_param() : concat(info.name(), "_", i);
                         type.shape.push_back(Dim::symbol(symbol_name(name)));
                       }
                     }
                   }
                   scope_->values[info.name()] = graph().add_input(info.name(), std::move(type));
                 });
  }

  template <class Nodes>
  void import_nodes(const Nodes& nodes) {
    // The nodes that the file's nodes expand to were counted before (onnx/limits.h), but for ONNX's own functions.
    if ((imported_ += nodes.size()) > kMaxNodes)
      fail(ErrorKind::bad_file, "with functions in the place of their calls the model has more than ", kMaxNodes,
           " nodes, which is the limit");
    for (const auto& node : nodes)
      with_context(
          [&] {
            return concat("node '", node.name().empty() && node.output_size() ? node.output(0) : node.name(), "' (",
                          node.op_type(), ")");
          },
          [&] { import_node(node); });
  }

  void import_node(const onnx::NodeProto& node) {
    const std::string domain = domain_of(node);
    if (auto it = functions_.empty() ? functions_.end() : functions_.find(function_key(node)); it != functions_.end())
      return expand(node, *it->second, scope_->opsets);
    auto version = scope_->opsets.find(domain);
    if (version == scope_->opsets.end())
      fail(ErrorKind::unsupported, "the domain '", domain, "' is not declared in the model's opset_import");
    if (ImportFunction import = find_import(domain, node.op_type())) {
      OnnxNode wrapped(*this, node, version->second);
      import(wrapped);
      if (!wrapped.function_body_) {
        wrapped.check_all_attributes_used();
        for (int i = 0; i < node.output_size(); ++i)
          if (!node.output(i).empty() && !scope_->values.count(node.output(i)))
            fail(ErrorKind::unsupported, "output ", i, " ('", node.output(i), "') is not supported");
        return;
      }
    }
    const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(node.op_type(), int(version->second), domain);
    if (!schema)
      fail(ErrorKind::unsupported, "the op ", domain.empty() ? "" : concat(domain, "."), node.op_type(),
           " is not known in opset ", version->second, kInstead);
    onnx::FunctionProto body;
    if (schema->HasFunction()) {
      if (const auto* found = schema->GetFunction(int(version->second))) body = *found;
    }
    if (body.node_size() == 0 && schema->HasContextDependentFunction()) {
      std::vector<onnx::TypeProto> types;
      for (const auto& input : node.input()) {
        onnx::TypeProto& type = types.emplace_back();
        if (input.empty()) continue;
        const TensorType& known = graph().type(lookup(input));
        type.mutable_tensor_type()->set_elem_type(onnx_from_dtype(known.dtype));
        auto* shape = type.mutable_tensor_type()->mutable_shape();
        for (const Dim& dim : known.shape) {
          auto* d = shape->add_dim();
          if (dim.is_constant()) d->set_dim_value(dim.value());
          else d->set_dim_param(dim.text());
        }
      }
      onnx::NodeProto resolved = node;
      resolve_attributes(node, resolved);
      const onnx::FunctionBodyBuildContextImpl context(resolved, types);
      if (!schema->BuildContextDependentFunction(context, body, int(version->second))) body.Clear();
    }
    if (body.node_size() == 0)
      fail(ErrorKind::unsupported, "the op ", domain.empty() ? "" : concat(domain, "."), node.op_type(),
           " is not supported", kInstead);
    // The body refers to attributes that the call may leave at the schema's defaults.
    for (const auto& [name, attribute] : schema->attributes())
      if (attribute.default_value.type() != onnx::AttributeProto::UNDEFINED) {
        auto* standard = body.add_attribute_proto();
        *standard = attribute.default_value;
        standard->set_name(name);
      }
    Opsets opsets = opsets_of(body.opset_import());
    for (const auto& [name, number] : scope_->opsets) opsets.emplace(name, number);
    try {
      expand(node, body, opsets);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::bad_file) throw;
      // The node is as ONNX wants it, but what ONNX says it means does not hold for these inputs.
      fail(ErrorKind::unsupported, "ONNX defines ", node.op_type(),
           " by other ops, which do not take these inputs: ", std::string_view(error.what()),
           ". Give it the attributes that fit them, or write it as those ops");
    }
  }

  void resolve_attributes(const onnx::NodeProto& node, onnx::NodeProto& resolved) {
    resolved.clear_attribute();
    for (const auto& attribute : node.attribute())
      if (const auto* value = resolve(attribute)) {
        auto* copy = resolved.add_attribute();
        *copy = *value;
        copy->set_name(attribute.name());
        copy->clear_ref_attr_name();
      }
  }

  void expand(const onnx::NodeProto& node, const onnx::FunctionProto& function, const Opsets& outer) {
    Scope scope{nullptr, {}, function.opset_import_size() ? opsets_of(function.opset_import()) : outer, {}, true};
    for (const auto& [name, number] : outer) scope.opsets.emplace(name, number);
    for (int i = 0; i < function.input_size(); ++i)
      scope.values[function.input(i)] =
          i < node.input_size() && !node.input(i).empty() ? lookup(node.input(i)) : ValueId{};
    for (const auto& attribute : function.attribute_proto()) scope.attributes[attribute.name()] = &attribute;
    for (const auto& attribute : node.attribute())
      if (const auto* value = resolve(attribute)) scope.attributes[attribute.name()] = value;
    std::vector<ValueId> outputs;
    {
      const DepthGuard guard(*this, &scope);
      import_nodes(function.node());
      for (int i = 0; i < node.output_size() && i < function.output_size(); ++i)
        outputs.push_back(node.output(i).empty() ? ValueId{} : lookup(function.output(i)));
    }
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].valid()) define(node.output(int(i)), outputs[i]);
  }
};

// ---- OnnxNode ----

OnnxNode::OnnxNode(Importer& importer, const onnx::NodeProto& proto, int64_t opset)
    : importer_(importer),
      proto_(proto),
      opset_(opset),
      name_(!proto.name().empty() ? proto.name()
            : proto.output_size() ? proto.output(0)
                                  : proto.op_type()) {
  for (const auto& input : proto.input()) inputs_.push_back(input.empty() ? ValueId{} : importer.lookup(input));
}

const std::string& OnnxNode::op_type() const { return proto_.op_type(); }
Graph& OnnxNode::graph() { return importer_.graph(); }

ValueId OnnxNode::input(size_t i) const {
  if (!has(i)) bad("input ", i, " is missing");
  return inputs_[i];
}
const TensorType& OnnxNode::type(size_t i) const { return importer_.graph().type(input(i)); }
const Tensor* OnnxNode::constant(size_t i) const { return has(i) ? importer_.graph().constant(inputs_[i]) : nullptr; }
const Contents* OnnxNode::contents(size_t i) const {
  return has(i) ? importer_.graph().value(inputs_[i]).contents.get() : nullptr;
}

std::vector<int64_t> OnnxNode::constant_ints(size_t i, std::string_view what) const {
  if (const Tensor* tensor = constant(i)) return tensor->to_ints();
  if (const Contents* known = contents(i)) {
    std::vector<int64_t> values;
    for (const Dim& dim : *known) {
      if (!dim.is_constant())
        refuse(what, " (input ", i, ") depends on the shape of an input: '", dim,
               "'; give a fixed shape with --shapes");
      values.push_back(dim.value());
    }
    return values;
  }
  refuse(what, " (input ", i, ") must be a constant; export the model with fixed shapes, or fold its constants first");
}
std::vector<double> OnnxNode::constant_doubles(size_t i, std::string_view what) const {
  if (const Tensor* tensor = constant(i)) return tensor->to_doubles();
  refuse(what, " (input ", i, ") must be a constant; export the model with fixed shapes, or fold its constants first");
}

const onnx::AttributeProto* OnnxNode::find(const char* name) const {
  used_.insert(name);
  for (const auto& attribute : proto_.attribute())
    if (attribute.name() == name) return importer_.resolve(attribute);
  return nullptr;
}

static void expect_type(const onnx::AttributeProto& attribute, int wanted, std::string_view kind) {
  if (attribute.type() != wanted) fail(ErrorKind::bad_file, "the attribute '", attribute.name(), "' is not ", kind);
}

bool OnnxNode::has_attribute(const char* name) const { return find(name) != nullptr; }
int64_t OnnxNode::int_attribute(const char* name, int64_t standard) const {
  const auto* attribute = find(name);
  if (!attribute) return standard;
  expect_type(*attribute, onnx::AttributeProto::INT, "an integer");
  return attribute->i();
}
int64_t OnnxNode::int_attribute(const char* name) const {
  if (!find(name)) bad("the attribute '", std::string_view(name), "' is missing");
  return int_attribute(name, 0);
}
double OnnxNode::float_attribute(const char* name, double standard) const {
  const auto* attribute = find(name);
  if (!attribute) return standard;
  expect_type(*attribute, onnx::AttributeProto::FLOAT, "a float");
  return double(attribute->f());
}
std::string OnnxNode::string_attribute(const char* name, std::string standard) const {
  const auto* attribute = find(name);
  if (!attribute) return standard;
  expect_type(*attribute, onnx::AttributeProto::STRING, "a string");
  return attribute->s();
}
std::vector<int64_t> OnnxNode::ints_attribute(const char* name, std::vector<int64_t> standard) const {
  const auto* attribute = find(name);
  if (!attribute) return standard;
  expect_type(*attribute, onnx::AttributeProto::INTS, "a list of integers");
  return {attribute->ints().begin(), attribute->ints().end()};
}
std::vector<double> OnnxNode::floats_attribute(const char* name, std::vector<double> standard) const {
  const auto* attribute = find(name);
  if (!attribute) return standard;
  expect_type(*attribute, onnx::AttributeProto::FLOATS, "a list of floats");
  return {attribute->floats().begin(), attribute->floats().end()};
}
std::vector<std::string> OnnxNode::strings_attribute(const char* name, std::vector<std::string> standard) const {
  const auto* attribute = find(name);
  if (!attribute) return standard;
  expect_type(*attribute, onnx::AttributeProto::STRINGS, "a list of strings");
  return {attribute->strings().begin(), attribute->strings().end()};
}
std::optional<Tensor> OnnxNode::tensor_attribute(const char* name) const {
  const auto* attribute = find(name);
  if (!attribute) return std::nullopt;
  expect_type(*attribute, onnx::AttributeProto::TENSOR, "a tensor");
  return importer_.tensor_of(attribute->t());
}
const onnx::GraphProto* OnnxNode::graph_attribute(const char* name) const {
  const auto* attribute = find(name);
  if (!attribute) return nullptr;
  expect_type(*attribute, onnx::AttributeProto::GRAPH, "a graph");
  return &attribute->g();
}
void OnnxNode::ignore_attribute(const char* name) const { used_.insert(name); }

void OnnxNode::check_all_attributes_used() const {
  for (const auto& attribute : proto_.attribute())
    if (!used_.count(attribute.name()))
      refuse("the attribute '", attribute.name(), "' of ", proto_.op_type(), " is not supported in opset ", opset_,
             "; export the model without it");
}

size_t OnnxNode::output_count() const { return size_t(proto_.output_size()); }
bool OnnxNode::wants_output(size_t i) const { return int(i) < proto_.output_size() && !proto_.output(int(i)).empty(); }
void OnnxNode::set_output(size_t i, ValueId value) {
  if (wants_output(i)) importer_.define(proto_.output(int(i)), value);
}

std::string OnnxNode::fresh_name() { return counter_++ == 0 ? name_ : concat(name_, "/", counter_ - 1); }

ValueId OnnxNode::add(Op op, std::vector<ValueId> inputs) { return add_many(std::move(op), std::move(inputs)).at(0); }
ValueId OnnxNode::product(Op op, std::vector<ValueId> operands) {
  const DType dtype = graph().type(operands.at(0)).dtype;
  return cast(add(std::move(op), std::move(operands)), dtype);
}
std::vector<ValueId> OnnxNode::add_many(Op op, std::vector<ValueId> inputs) {
  return graph().add_folded(std::move(op), std::move(inputs), fresh_name());
}
ValueId OnnxNode::constant(Tensor tensor) { return graph().add_constant(concat(name_, "/const"), std::move(tensor)); }
ValueId OnnxNode::scalar(DType dtype, double value) {
  Tensor tensor(dtype, {});
  visit_dtype(dtype, [&]<class T>() { tensor.data<T>()[0] = static_cast<T>(value); });
  return constant(std::move(tensor));
}
ValueId OnnxNode::ints(const std::vector<int64_t>& values) {
  return constant(Tensor::of<int64_t>({int64_t(values.size())}, values));
}
ValueId OnnxNode::reshape(ValueId x, Shape shape) {
  if (graph().type(x).shape == shape) return x;
  ops::Reshape op;
  op.shape = std::move(shape);
  return add(op, {x});
}
ValueId OnnxNode::cast(ValueId x, DType dtype) {
  return graph().type(x).dtype == dtype ? x : pointwise(Scalar::cast, {x}, dtype);
}
ValueId OnnxNode::pointwise(Scalar op, std::vector<ValueId> inputs, std::optional<DType> result) {
  std::vector<DType> dtypes;
  for (ValueId id : inputs) dtypes.push_back(graph().type(id).dtype);
  ProgramBuilder builder(dtypes);
  const int value = op == Scalar::cast ? builder.cast(0, *result)
                                       : builder.op(op, 0, inputs.size() > 1 ? 1 : -1, inputs.size() > 2 ? 2 : -1);
  return program(builder.result(value), std::move(inputs));
}
ValueId OnnxNode::program(Program program, std::vector<ValueId> inputs) {
  ops::Pointwise op;
  op.program = std::move(program);
  return add(op, std::move(inputs));
}
std::vector<ValueId> OnnxNode::inline_graph(const onnx::GraphProto& body, const std::vector<ValueId>& inputs) {
  return importer_.inline_graph(body, inputs);
}

// ---- ProgramBuilder ----

int ProgramBuilder::push(Step step) {
  dtypes_.push_back(step.dtype);
  return program_.push(step);
}
int ProgramBuilder::op(Scalar op, int a, int b, int c) {
  const bool to_bool = op >= Scalar::equal && op <= Scalar::is_inf;
  return push({op, to_bool ? DType::boolean : dtype_of(op == Scalar::where ? b : a), {a, b, c}});
}
Program ProgramBuilder::result(int value) {
  if (value != program_.result()) push({Scalar::cast, dtype_of(value), {value, -1, -1}});
  return program_;
}

static ImportedModel import_model(OnnxModel model, const ImportOptions& options) {
  ImportedModel imported = Importer(model, options).run();
  model = {};  // its messages take as much memory as the graph
  imported.graph.compact();
  return imported;
}

ImportedModel import_onnx(const std::string& path, const ImportOptions& options) {
  OnnxModel model = read_onnx(path, options.memory_limit);
  return with_context([&] { return path; }, [&] { return import_model(std::move(model), options); });
}
ImportedModel import_onnx_bytes(std::string_view bytes, const std::string& folder, const ImportOptions& options) {
  return import_model(parse_onnx(bytes, folder, options.memory_limit), options);
}

}  // namespace temper
