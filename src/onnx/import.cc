// SPDX-License-Identifier: Apache-2.0
#include "onnx/import.h"

#include <onnx/defs/parser.h>
#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>

#include "base/checked.h"
#include "base/hash.h"
#include "base/string_table.h"
#include "graph/ops/concat.h"
#include "graph/ops/constant_strings.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reshape.h"
#include "onnx/either.h"
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

ValueId add_constant(Graph& graph, const std::string& name, Tensor tensor) {
  if (tensor.dtype() == DType::string) return graph.add(ops::constant_strings(tensor), {}, name, {name})[0];
  return graph.add_constant(name, std::move(tensor));
}

// Of the first output where the node has none.
std::string name_of(const onnx::NodeProto& node) {
  return !node.name().empty() ? node.name() : node.output_size() ? node.output(0) : node.op_type();
}

// So far, of imports that took another way (OnnxNode::takes_first_side), too.
struct Imported {
  int64_t nodes = 0;
  int64_t pattern_steps = 0;  // see OnnxNode::count_pattern
};

}  // namespace

class Importer {
 public:
  // `sides`: see OnnxNode::takes_first_side; the first is taken behind its end.
  // `done`: parts of the model's nodes to let go of once they are imported; null: none.
  Importer(const OnnxModel& model, const ImportOptions& options, std::vector<bool> sides, Imported& imported,
           std::vector<NodePart>* done = nullptr)
      : model_(model),
        done_(done),
        options_(options),
        functions_(functions_of(*model.proto)),
        imported_(imported),
        sides_(std::move(sides)) {}

  // The graph has more than the outputs need: it must be compacted.
  ImportedModel run() {
    read();
    return std::move(result_);
  }

  // Goes on behind what is not supported, and lists it.
  Refusals refusals() {
    Refusals found;
    collected_ = &found;
    read();
    return found;
  }

 private:
  void read() {
    const onnx::ModelProto& proto = *model_.proto;
    result_.sha256 = result_.source_sha256 = model_.sha256;
    for (const auto& entry : proto.metadata_props()) result_.metadata[entry.key()] = entry.value();
    for (const auto& entry : proto.metadata_props())
      if (entry.key() == kSourceKey && is_sha256_hex(entry.value())) result_.source_sha256 = entry.value();
    result_.files = model_.files;
    result_.producer =
        concat(proto.producer_name(), proto.producer_version().empty() ? "" : " ", proto.producer_version());
    result_.graph.name = proto.graph().name();
    Scope scope{nullptr, {}, opsets_of(proto.opset_import()), {}};
    scope_ = &scope;
    scope.values.reserve(size_t(proto.graph().node_size()) + size_t(proto.graph().initializer_size()));
    for (const auto& tensor : proto.graph().initializer())
      attempt(tensor.name(), "initializer",
              [&] { scope.values[tensor.name()] = add_constant(graph(), tensor.name(), tensor_of(tensor)); });
    if (proto.graph().sparse_initializer_size()) fail(ErrorKind::unsupported, "sparse initializers are not supported");
    for (const auto& input : proto.graph().input()) note_axis_names(input);
    for (const auto& input : proto.graph().input())
      if (!scope.values.count(input.name()) && !unknown_.contains(input.name()))
        attempt(input.name(), "input", [&] { add_input(input); });
    std::unordered_set<std::string_view> names;
    for (ValueId id : graph().inputs()) names.insert(graph().value(id).name);
    for (const auto& [name, shape] : options_.shapes) {
      if (!names.contains(name))
        fail(ErrorKind::usage, "a shape was given for the input '", name,
             "', which the model does not have. Its inputs: ", input_list());
    }
    const auto notes_of_labels = notes_of_zip_maps();
    import_parts(proto.graph().node());
    if (proto.graph().output_size() == 0) fail(ErrorKind::bad_file, "the model has no outputs");
    if (!collected_) {
      for (const auto& output : proto.graph().output()) {
        add_output(output);
        if (const auto it = notes_of_labels.find(output.name()); it != notes_of_labels.end())
          result_.notes.push_back(it->second);
      }
      if (graph().outputs().empty())
        fail(ErrorKind::unsupported, "all outputs of the model are sequences without elements");
    }
    scope_ = nullptr;
  }

  // While refusals are collected, one of `what` is listed, and its name is that of a value that nobody knows.
  template <class Body>
  void attempt(const std::string& name, const char* what, const Body& body) {
    if (!collected_) return body();
    try {
      body();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      collected_->refused.push_back({name, what, error.what()});
      unknown_.insert(name);
    }
  }

 public:
  Graph& graph() { return result_.graph; }

  std::vector<ValueId> loops;  // see OnnxNode::loops
  bool too_deep = false;       // see OnnxNode::is_too_deep
  const ModelLimits& limits() const { return options_.limits; }

  void count_loop_again() {
    constexpr int kMost = 1000;
    if (++loops_again_ > kMost)
      fail(ErrorKind::unsupported, "the bodies of loops inside of loops were imported ", kMost,
           " times, and the shapes that they carry are not known yet");
  }
  void count_pattern(int64_t steps) {
    constexpr int64_t kMost = int64_t(1) << 19;
    if ((imported_.pattern_steps += steps) > kMost)
      fail(ErrorKind::unsupported, "regular expressions that are together more than ", kMost,
           " steps, of which 64 are counted for a byte of their text, are not supported");
  }
  bool takes_first_side() {
    if (sides_used_ == sides_.size()) sides_.push_back(true);
    return sides_[sides_used_++];
  }
  // After an import that failed: the next combination of sides; nothing where all were tried, or where parts of the
  // file have been let go of and can not be read a second time.
  std::optional<std::vector<bool>> next_sides() const {
    if (done_) return std::nullopt;
    std::vector<bool> sides = sides_;
    while (!sides.empty() && !sides.back()) sides.pop_back();
    if (sides.empty()) return std::nullopt;
    sides.back() = false;
    return sides;
  }

  // What a value is on the sides of conditions on which nodes are being imported.
  const OnnxValue& decided(const OnnxValue& value) const {
    const OnnxValue* side = &value;
    while (side->either) {
      const auto it = std::find_if(decided_.begin(), decided_.end(),
                                   [&](const auto& each) { return each.first == side->either->condition; });
      if (it == decided_.end()) break;
      side = it->second ? &side->either->then : &side->either->other;
    }
    return *side;
  }

  const OnnxValue& lookup(const std::string& name) {
    for (const Scope* scope = scope_; scope; scope = scope->parent)
      if (auto it = scope->values.find(name); it != scope->values.end()) return decided(it->second);
    if (unknown_.contains(name)) throw NeedsRefused();
    fail(ErrorKind::bad_file, "the value '", name, "' is used but nothing produces it");
  }

  void define(const std::string& name, OnnxValue value) {
    if (value.sequence) {
      // Each is a list of its own: a chain of insertions must not take the square of its length.
      constexpr int64_t kMostElements = int64_t(1) << 23;
      if ((sequence_elements_ += int64_t(value.sequence->elements.size())) > kMostElements)
        fail(ErrorKind::unsupported, "sequences that have together more than ", kMostElements, " elements");
    }
    if (depth_ == 0 && value.tensor.valid() && value.tensor.index >= first_of_node_) take_name(value.tensor, name);
    scope_->values[name] = std::move(value);
  }

  // What a node of the main graph made has the model's name: the names of a calibration cache are the model's.
  void take_name(ValueId value, const std::string& name) {
    if (!graph().value(value).producer.valid() || graph().value(value).name == name) return;
    ValueId holder = graph().find(name);
    if (!holder.valid()) holder = graph().add_constant(name, Tensor(DType::u8, {}));  // which compact() drops
    graph().swap_names(holder, value);
  }

  Tensor tensor_of(const onnx::TensorProto& tensor) {
    // By address: a message of a function's body may lie where one lay that the import has let go of.
    const auto it =
        tensor.data_location() == onnx::TensorProto::EXTERNAL ? model_.external.find(&tensor) : model_.external.end();
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

  std::vector<OnnxValue> inline_graph(const onnx::GraphProto& body, const std::vector<OnnxValue>& inputs) {
    Scope scope{scope_, {}, scope_->opsets, {}};
    const DepthGuard guard(*this, &scope);
    if (body.sparse_initializer_size()) fail(ErrorKind::unsupported, "sparse initializers are not supported");
    for (const auto& tensor : body.initializer())
      scope.values[tensor.name()] = add_constant(graph(), tensor.name(), tensor_of(tensor));
    if (int(inputs.size()) != body.input_size())
      fail(ErrorKind::bad_file, "a subgraph of ", body.input_size(), " inputs was given ", inputs.size());
    for (int i = 0; i < body.input_size(); ++i) scope.values[body.input(i).name()] = inputs[size_t(i)];
    import_nodes(body.node());
    std::vector<OnnxValue> outputs;
    for (const auto& output : body.output()) outputs.push_back(lookup(output.name()));
    return outputs;
  }

  // While it lives, nodes are those of one side of a condition.
  struct OnSide {
    OnSide(Importer& importer, ValueId condition, bool then) : conditions(importer.decided_) {
      conditions.emplace_back(condition, then);
    }
    OnSide(const OnSide&) = delete;
    ~OnSide() { conditions.pop_back(); }
    std::vector<std::pair<ValueId, bool>>& conditions;
  };

  std::vector<ValueId> import_body(const onnx::FunctionProto& body, const std::vector<ValueId>& inputs) {
    Scope scope{nullptr, {}, opsets_of(body.opset_import()), {}, true};
    for (int i = 0; i < body.input_size(); ++i) scope.values[body.input(i)] = inputs.at(size_t(i));
    const DepthGuard guard(*this, &scope);
    import_nodes(body.node());
    std::vector<ValueId> outputs;
    for (const auto& output : body.output()) outputs.push_back(lookup(output).tensor);
    return outputs;
  }

 private:
  using Opsets = std::map<std::string, int64_t>;
  struct Scope {
    Scope* parent;  // null for the model and for a function body, which sees nothing of its caller
    std::unordered_map<std::string, OnnxValue> values;
    Opsets opsets;
    std::map<std::string, const onnx::AttributeProto*> attributes;  // of the call, inside a function
    bool call = false;
  };
  struct NeedsRefused {};  // thrown where a node asks for what a refused one would have computed
  // While it lives, names are those of a scope.
  struct Within {
    Within(Importer& importer, Scope* scope) : current(importer.scope_), before(importer.scope_) { current = scope; }
    Within(const Within&) = delete;
    ~Within() { current = before; }
    Scope*& current;
    Scope* before;
  };
  struct DepthGuard {
    DepthGuard(Importer& guarded, Scope* scope) : importer(guarded), before(guarded.scope_) {
      if (++guarded.depth_ > guarded.limits().depth) {
        --guarded.depth_;
        guarded.too_deep = true;
        refuse_depth(guarded.limits().depth);
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
  std::vector<NodePart>* done_;
  const ImportOptions& options_;
  ImportedModel result_;
  const Functions functions_;
  Scope* scope_ = nullptr;
  int depth_ = 0;
  int32_t first_of_node_ = 0;  // the first value that the node of the main graph has made or will make
  Imported& imported_;
  std::vector<bool> sides_;
  size_t sides_used_ = 0;
  int loops_again_ = 0;
  int64_t sequence_elements_ = 0;
  std::vector<std::pair<ValueId, bool>> decided_;                  // conditions, and on which of their sides nodes are
  Refusals* collected_ = nullptr;                                  // null: the first ends the import
  std::unordered_set<std::string> unknown_;                        // values that refused nodes would have computed
  std::unordered_set<std::string> axis_names_;                     // open axes of the inputs
  std::unordered_map<std::string, std::vector<ValueId>> lengths_;  // see of_each_length; by length and loop
  std::unordered_map<std::string, int64_t> expected_;              // sizes, by symbol
  std::unordered_set<std::string_view> output_names_;              // filled where one is asked for
  std::unordered_map<std::string_view, const onnx::ValueInfoProto*> stated_;  // filled where one is asked for

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

  // An input that is a sequence is one input of the graph for each element, as many as have shapes: NAME[0], NAME[1].
  void add_input(const onnx::ValueInfoProto& info) {
    with_context(
        [&] { return concat("input '", info.name(), "'"); },
        [&] {
          const onnx::TypeProto* type = &info.type();
          if (type->has_optional_type()) type = &type->optional_type().elem_type();
          if (type->has_tensor_type()) {
            scope_->values[info.name()] = add_tensor_input(info.name(), type->tensor_type());
            return;
          }
          if (!type->has_sequence_type() || !type->sequence_type().elem_type().has_tensor_type())
            fail(ErrorKind::unsupported,
                 "only tensors and sequences of tensors are supported, no maps: make vectors of dictionaries in the "
                 "program, and export what follows");
          OnnxSequence sequence;
          for (;;) {
            const std::string element = concat(info.name(), '[', sequence.elements.size(), ']');
            if (!options_.shapes.contains(element)) break;
            sequence.elements.push_back(add_tensor_input(element, type->sequence_type().elem_type().tensor_type()));
          }
          if (sequence.elements.empty())
            fail(ErrorKind::unsupported,
                 "it is a sequence, and nothing says of how many elements; give each a shape: --shapes '", info.name(),
                 "[0]=1x…' --shapes '", info.name(), "[1]=1x…'");
          scope_->values[info.name()] = std::move(sequence);
        });
  }

  void note_axis_names(const onnx::ValueInfoProto& info) {
    for (const auto& dim : info.type().tensor_type().shape().dim())
      if (dim.dim_param().find('+') == std::string::npos) axis_names_.insert(dim.dim_param());
  }

  // ONNX has names of axes alone, and exporters write sums ("past_sequence_length + sequence_length"). Such a text is
  // taken as the sum that it says where each part is a number or the name of an axis of an input.
  Dim open_dim(const std::string& text) const {
    Dim sum = 0;
    for (size_t at = 0, end = 0; end != std::string::npos; at = end + 1) {
      end = text.find('+', at);
      std::string part = text.substr(at, end == std::string::npos ? end : end - at);
      part.erase(0, part.find_first_not_of(' '));
      part.erase(part.find_last_not_of(' ') + 1);
      const bool number =
          !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
      if (!number && !axis_names_.contains(part)) return Dim::symbol(symbol_name(text));
      sum = sum + (number ? Dim(std::stoll(part)) : Dim::symbol(symbol_name(part)));
    }
    return sum;
  }

  ValueId add_tensor_input(const std::string& name, const onnx::TypeProto::Tensor& proto) {
    TensorType type{dtype_from_onnx(proto.elem_type(), "the input"), {}};
    const auto given = options_.shapes.find(name);
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
      if (!proto.has_shape()) fail(ErrorKind::usage, "the model gives it no shape; add --shapes ", name, "=1x…");
      for (int i = 0; i < proto.shape().dim_size(); ++i) {
        const auto& dim = proto.shape().dim(i);
        if (dim.has_dim_value() && dim.dim_value() != -1) {  // some exporters write -1 for an open axis
          if (dim.dim_value() < 0) fail(ErrorKind::bad_file, "dimension ", i, " is ", int64_t(dim.dim_value()));
          type.shape.push_back(int64_t(dim.dim_value()));
        } else {
          // A name without a letter or digit ("?") is a placeholder: two of them need not be equal.
          const bool named = std::any_of(dim.dim_param().begin(), dim.dim_param().end(),
                                         [](unsigned char c) { return std::isalnum(c); });
          const std::string symbol = named ? dim.dim_param() : concat(name, "_", i);
          Dim open = open_dim(symbol);
          if (open.is_symbol() && is_another(open.text(), name, i)) {
            const std::string own = concat(name, "_", i);
            result_.notes.push_back(concat("axis ", i, " of input '", name, "' has the name '", symbol,
                                           "' of an axis that is not as long: here it is '", own, "'"));
            open = Dim::symbol(symbol_name(own));
          }
          type.shape.push_back(open);
        }
      }
    }
    return graph().add_input(name, std::move(type));
  }

  // Exporters name axes that are not equal alike ("width" of all last ones). Whether the shapes that are expected
  // say so.
  bool is_another(const std::string& symbol, const std::string& input, int axis) {
    const auto shape = options_.expected.find(input);
    if (shape == options_.expected.end() || axis >= int(shape->second.size())) return false;
    const int64_t size = shape->second[size_t(axis)];
    return expected_.try_emplace(symbol, size).first->second != size;
  }

  // So is an output. What is in it must be known.
  void add_output(const onnx::ValueInfoProto& info) {
    const std::string& name = info.name();
    OnnxValue value = lookup(name);
    if (value.either) {
      const auto fits = [&](const OnnxValue& side) {
        const auto& type = info.type();
        return !type.has_tensor_type() || !type.tensor_type().has_shape() ||
               (side.tensor.valid() && graph().type(side.tensor).rank() == type.tensor_type().shape().dim_size());
      };
      const auto fit = fitting(graph(), name, value, fits);
      if (const auto open = fit && fit->either ? open_sequence(graph(), name, *fit) : std::nullopt)
        return add_open_sequence(name, *open);
      if (!fit || fit->either)
        fail(ErrorKind::unsupported, "the output '", name, "' is ", text_of(graph(), value), ", as conditions choose",
             fit ? "; outputs of one rank, and sequences of one length, are supported"
                 : ", and not what the model says");
      result_.notes.push_back(concat("the output '", name, "' is ", text_of(graph(), value),
                                     ", as conditions choose: a ", "run in which it is not ", text_of(graph(), *fit),
                                     " ends with an error"));
      value = *fit;
    }
    if (value.tensor.valid()) return graph().add_output(name, value.tensor);
    if (!value.sequence) fail(ErrorKind::unsupported, "the output '", name, "' is an optional without a value");
    if (value.sequence->stacked.valid()) return add_stacked_sequence(name, *value.sequence);
    for (size_t i = 0; i < value.sequence->elements.size(); ++i)
      add_part_of_output(concat(name, '[', i, ']'), value.sequence->elements[i]);
  }

  void add_part_of_output(const std::string& name, ValueId value) {
    if (output_names_.empty())
      for (const auto& output : model_.proto->graph().output()) output_names_.insert(output.name());
    if (output_names_.contains(name))
      fail(ErrorKind::unsupported, "the output '", name, "' has the name that a part of a sequence has; rename it");
    graph().add_output(name, value);
  }

  // A plan has as many outputs in every run.
  void add_open_sequence(const std::string& name, const OpenSequence& open) {
    for (size_t i = 0; i < open.elements.size(); ++i) add_part_of_output(concat(name, '[', i, ']'), open.elements[i]);
    add_part_of_output(concat(name, ".length"), open.length);
    result_.notes.push_back(concat("the output '", name, "' is a sequence of a length that conditions choose: '", name,
                                   ".length' says how many of its ", open.elements.size(), " outputs are elements"));
  }
  // The elements that a loop made are of one shape; so must those in front of them be.
  void add_stacked_sequence(const std::string& name, const OnnxSequence& sequence) {
    std::vector<ValueId> parts;
    const int64_t rank = graph().type(sequence.stacked).rank() - 1;
    for (ValueId element : sequence.elements) {
      if (graph().type(element).rank() != rank)
        fail(ErrorKind::unsupported, "the output '", name, "' is a sequence of elements of ranks ",
             graph().type(element).rank(), " and ", rank, ", and only a run knows of how many");
      ops::Reshape wide;
      wide.shape = graph().type(element).shape;
      wide.shape.insert(wide.shape.begin(), Dim(1));
      parts.push_back(graph().add_folded(wide, {element}, name)[0]);
    }
    parts.push_back(sequence.stacked);
    graph().add_output(name, parts.size() == 1 ? parts[0] : graph().add_folded(ops::Concat{}, parts, name)[0]);
    result_.notes.push_back(concat("the output '", name, "' is a sequence, and only a run knows of how many elements: ",
                                   "they are in one tensor, along a first axis of their number"));
  }

  // By the outputs of the model that they give.
  std::unordered_map<std::string_view, std::string> notes_of_zip_maps() const {
    std::unordered_map<std::string_view, std::string> notes;
    for (const auto& output : model_.proto->graph().output()) notes.try_emplace(output.name());
    for (const auto& node : model_.proto->graph().node())
      if (node.op_type() == "ZipMap" && node.output_size() == 1)
        if (const auto note = notes.find(node.output(0)); note != notes.end() && note->second.empty())
          note->second = note_of_labels(node);
    std::erase_if(notes, [](const auto& note) { return note.second.empty(); });
    return notes;
  }
  // A plan has no maps: an output of ZipMap is the tensor of its scores.
  static std::string note_of_labels(const onnx::NodeProto& zip_map) {
    constexpr int kShown = 100;
    std::string labels;
    int count = 0;
    const auto add = [&](const auto& label) {
      if (++count <= kShown) labels += concat(count > 1 ? ", " : "", label);
    };
    for (const auto& attribute : zip_map.attribute()) {
      for (const int64_t label : attribute.ints()) add(label);
      for (const std::string& label : attribute.strings()) add(label);
    }
    return concat("the output '", zip_map.output(0), "' has a column for each label instead of maps: ", labels,
                  count > kShown ? concat(" and ", count - kShown, " more") : "");
  }

  using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

  void import_parts(const Nodes& nodes) {
    int begin = 0;
    if (done_)
      for (NodePart& part : *done_) {
        import_nodes(nodes, begin, part.end);
        part.messages.reset();
        begin = part.end;
      }
    import_nodes(nodes, begin, nodes.size());
  }

  void import_nodes(const Nodes& nodes) { import_nodes(nodes, 0, nodes.size()); }

  // Those from `begin` to before `end`.
  void import_nodes(const Nodes& nodes, int begin, int end) {
    // The nodes that the file's nodes expand to were counted before (onnx/limits.h), but for ONNX's own functions, and
    // for bodies of loops, which are imported until their types are known.
    if ((imported_.nodes += end - begin) > limits().nodes)
      refuse_nodes(
          "with functions in the place of their calls and bodies of loops taken in turn the model has more nodes",
          limits().nodes);
    for (int n = begin; n < end; ++n) {
      const onnx::NodeProto& node = nodes[n];
      const auto name = [&] { return node.name().empty() && node.output_size() ? node.output(0) : node.name(); };
      if (depth_ == 0) first_of_node_ = graph().value_count();
      if (collected_ && depth_ == 0) collect(node, name(), n);
      else
        with_context([&] { return concat("node '", name(), "' (", node.op_type(), ")"); }, [&] { import_node(node); });
    }
  }

  // A node of the model itself: where it is refused, what the file says of its outputs stands in their place.
  void collect(const onnx::NodeProto& node, const std::string& name, int64_t place) {
    try {
      import_node(node);
      return;
    } catch (const NeedsRefused&) { ++collected_->not_looked_at; } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      const std::string domain = domain_of(node);
      collected_->refused.push_back(
          {name, domain.empty() ? node.op_type() : concat(domain, ".", node.op_type()), error.what()});
    }
    collected_->nodes.push_back(place);
    for (const std::string& output : node.output()) {
      const onnx::ValueInfoProto* stated = stated_type(output);
      try {
        if (!stated) throw NeedsRefused();
        add_input(*stated);
      } catch (const NeedsRefused&) {
        unknown_.insert(output);
      } catch (const Error&) {  // of a type that Temper has not
        unknown_.insert(output);
      }
    }
  }

  const onnx::ValueInfoProto* stated_type(const std::string& name) {
    if (stated_.empty())
      for (const auto& value : model_.proto->graph().value_info())
        if (value.type().has_tensor_type() && value.type().tensor_type().has_shape())
          stated_.try_emplace(value.name(), &value);
    const auto it = stated_.find(name);
    return it == stated_.end() ? nullptr : it->second;
  }

  void import_node(const onnx::NodeProto& node) {
    limits().time.check();
    for (const std::string& input : node.input())
      if (!input.empty())
        if (const auto either = lookup(input).either) return import_on_each_side(node, either->condition);
    if (const auto lists = lists_of_open_length(node); !lists.empty()) return import_for_each_length(node, lists);
    import_for_values(node);
  }

  bool is_list_of_open_length(const std::string& name) {
    if (name.empty()) return false;
    const ValueId list = lookup(name).tensor;
    if (!list.valid()) return false;
    const TensorType& type = graph().type(list);
    return type.rank() == 1 && !type.shape[0].is_constant() && is_int(type.dtype);
  }

  // Inputs that are sizes or axes of which the number decides a rank, and is open.
  std::vector<std::string> lists_of_open_length(const onnx::NodeProto& node) {
    const std::string& op = node.op_type();
    if (!domain_of(node).empty()) return {};
    int begin = 1, end = 2;
    if (op == "ConstantOfShape") begin = 0, end = 1;
    else if (op == "Slice") end = 5;
    else if (op.starts_with("Reduce")) {
      const auto keeps = [&](const onnx::AttributeProto& attribute) {
        const auto* value = resolve(attribute);
        return attribute.name() == "keepdims" && value && value->i() == 0;
      };
      if (std::none_of(node.attribute().begin(), node.attribute().end(), keeps)) return {};
    } else if (op != "Reshape" && op != "Expand" && op != "Squeeze" && op != "Unsqueeze" && op != "Tile" &&
               op != "SplitToSequence") {
      return {};
    }
    std::vector<std::string> lists;
    for (int i = begin; i < std::min(end, node.input_size()); ++i)
      if (is_list_of_open_length(node.input(i))) lists.push_back(node.input(i));
    return lists;
  }

  // The node is imported with lists of each length.
  void import_for_each_length(const onnx::NodeProto& node, const std::vector<std::string>& lists) {
    Scope scope{scope_, {}, scope_->opsets, {}};
    for (const std::string& input : lists) {
      const ValueId list = lookup(input).tensor;
      // Lists of one length are so together.
      const std::string length =
          concat(graph().type(list).shape[0], ' ', loops.empty() ? int64_t(-1) : int64_t(loops.back().index));
      scope.values[input] = of_each_length(graph(), name_of(node), list, lengths_[length]);
    }
    {
      const Within within(*this, &scope);
      import_node(node);
    }
    for (const std::string& output : node.output())
      if (!output.empty()) define(output, scope.values.at(output));
  }

  void import_on_each_side(const onnx::NodeProto& node, ValueId condition) {
    const std::string name = name_of(node);
    const BothSides both = on_both_sides(
        graph(), name, condition,
        [&](bool then) {
          Scope scope{scope_, {}, scope_->opsets, {}};
          const OnSide on_side(*this, condition, then);
          const Within within(*this, &scope);
          import_node(node);
          std::vector<OnnxValue> given;
          for (const std::string& output : node.output())
            given.push_back(output.empty() ? OnnxValue{} : lookup(output));
          return given;
        },
        [&](const Error& error) {
          return (error.kind() == ErrorKind::bad_file || error.kind() == ErrorKind::unsupported) && !too_deep;
        });
    if (both.left_out && both.left_out->kind() == ErrorKind::unsupported)
      result_.notes.push_back(concat("node '", name, "' cannot run where '", graph().value(condition).name, "' is ",
                                     both.then ? "false" : "true", ": ", std::string_view(both.left_out->what())));
    for (int i = 0; i < node.output_size(); ++i)
      if (!node.output(i).empty()) define(node.output(i), both.results[size_t(i)]);
  }

  void import_for_values(const onnx::NodeProto& node) {
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
        const OnnxValue& given = lookup(input);
        if (!given.tensor.valid())
          fail(ErrorKind::unsupported, "the op ", node.op_type(), " of a sequence is not supported", kInstead);
        const TensorType& known = graph().type(given.tensor);
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
          i < node.input_size() && !node.input(i).empty() ? lookup(node.input(i)) : OnnxValue{};
    for (const auto& attribute : function.attribute_proto()) scope.attributes[attribute.name()] = &attribute;
    for (const auto& attribute : node.attribute())
      if (const auto* value = resolve(attribute)) scope.attributes[attribute.name()] = value;
    std::vector<OnnxValue> outputs;
    {
      const DepthGuard guard(*this, &scope);
      import_nodes(function.node());
      for (int i = 0; i < node.output_size() && i < function.output_size(); ++i)
        outputs.push_back(node.output(i).empty() ? OnnxValue{} : lookup(function.output(i)));
    }
    for (size_t i = 0; i < outputs.size(); ++i)
      if (!node.output(int(i)).empty()) define(node.output(int(i)), outputs[i]);
  }
};

static onnx::FunctionProto body_of(const std::string& text, const std::string& owner) {
  onnx::FunctionProto parsed;
  const std::string whole = concat("<opset_import: [\"\" : 22], domain: \"temper\"> body ", text);
  const auto status = onnx::OnnxParser::Parse(parsed, whole.c_str());
  if (!status.IsOK()) throw std::logic_error(concat("the body of ", owner, ": ", status.ErrorMessage()));
  return parsed;
}

// ---- OnnxNode ----

OnnxNode::OnnxNode(Importer& importer, const onnx::NodeProto& proto, int64_t opset)
    : importer_(importer), proto_(proto), opset_(opset), name_(name_of(proto)) {
  for (const auto& input : proto.input()) inputs_.push_back(input.empty() ? OnnxValue{} : importer.lookup(input));
}

const std::string& OnnxNode::op_type() const { return proto_.op_type(); }
Graph& OnnxNode::graph() { return importer_.graph(); }

ValueId OnnxNode::input(size_t i) const {
  if (!has(i)) bad("input ", i, " is missing");
  if (inputs_[i].sequence) bad("input ", i, " is a sequence, not a tensor");
  return inputs_[i].tensor;
}
const OnnxSequence& OnnxNode::sequence(size_t i) const {
  if (!has(i)) bad("input ", i, " is missing");
  if (!inputs_[i].sequence) bad("input ", i, " is a tensor, not a sequence");
  return *inputs_[i].sequence;
}
const TensorType& OnnxNode::type(size_t i) const { return importer_.graph().type(input(i)); }
const Tensor* OnnxNode::constant(size_t i) const { return has(i) ? importer_.graph().constant(input(i)) : nullptr; }
const Contents* OnnxNode::contents(size_t i) const {
  return has(i) ? importer_.graph().value(input(i)).contents.get() : nullptr;
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

std::string OnnxNode::input_name(size_t i) const { return int(i) < proto_.input_size() ? proto_.input(int(i)) : ""; }
size_t OnnxNode::output_count() const { return size_t(proto_.output_size()); }
bool OnnxNode::wants_output(size_t i) const { return int(i) < proto_.output_size() && !proto_.output(int(i)).empty(); }
void OnnxNode::set_output(size_t i, OnnxValue value) {
  if (wants_output(i)) importer_.define(proto_.output(int(i)), std::move(value));
}

std::string OnnxNode::fresh_name() { return counter_++ == 0 ? name_ : concat(name_, "/", counter_ - 1); }

ValueId OnnxNode::add(Op op, std::vector<ValueId> inputs) { return add_many(std::move(op), std::move(inputs)).at(0); }
ValueId OnnxNode::product(Op op, std::vector<ValueId> operands) {
  const DType dtype = graph().type(operands.at(0)).dtype;
  // ONNX has no arithmetic on them. What was dequantized from f8e4m3fn is multiplied so by passes.
  if (is_stored_only(dtype)) unsupported("a product of ", dtype, ", a type that is only stored");
  return cast(add(std::move(op), std::move(operands)), dtype);
}
std::vector<ValueId> OnnxNode::add_many(Op op, std::vector<ValueId> inputs) {
  return graph().add_folded(std::move(op), std::move(inputs), fresh_name());
}
ValueId OnnxNode::constant(Tensor tensor) { return add_constant(graph(), concat(name_, "/const"), std::move(tensor)); }
ValueId OnnxNode::scalar(DType dtype, double value) {
  Tensor tensor(dtype, {});
  visit_dtype(dtype, [&]<class T>() { tensor.data<T>()[0] = static_cast<T>(value); });
  return constant(std::move(tensor));
}
ValueId OnnxNode::number(int64_t value) { return constant(Tensor::of<int64_t>({}, {value})); }
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
  dtypes.reserve(inputs.size());
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
std::vector<ValueId> OnnxNode::body(const std::string& text, const std::vector<ValueId>& inputs) {
  return importer_.import_body(body_of(text, op_type()), inputs);
}
std::vector<OnnxValue> OnnxNode::inline_graph(const onnx::GraphProto& body, const std::vector<OnnxValue>& inputs) {
  std::vector<OnnxValue> outputs = importer_.inline_graph(body, inputs);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].either)
      refuse("output '", body.output(int(i)).name(), "' of its body is ", text_of(graph(), outputs[i]),
             ", as a condition chooses; one rank and, of a sequence, one length are supported there");
  return outputs;
}
std::vector<OnnxValue> OnnxNode::inline_open(const onnx::GraphProto& body, const std::vector<OnnxValue>& inputs) {
  return importer_.inline_graph(body, inputs);
}
std::vector<OnnxValue> OnnxNode::inline_branch(const onnx::GraphProto& branch, bool then) {
  const Importer::OnSide on_side(importer_, input(0), then);
  return importer_.inline_graph(branch, {});
}
std::vector<ValueId>& OnnxNode::loops() { return importer_.loops; }
void OnnxNode::count_loop_again() { importer_.count_loop_again(); }
void OnnxNode::count_pattern(int64_t steps) { importer_.count_pattern(steps); }
bool OnnxNode::takes_first_side() { return importer_.takes_first_side(); }
const ModelLimits& OnnxNode::limits() const { return importer_.limits(); }
bool OnnxNode::is_too_deep() const { return importer_.too_deep; }

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

// Whether one import is all there is: only ops with subgraphs have two sides (OnnxNode::takes_first_side). ONNX's own
// functions may have some inside.
static bool is_imported_once(const onnx::ModelProto& model) {
  if (model.functions_size() > 0) return false;
  std::unordered_set<std::string> known;
  for (const auto& node : model.graph().node()) {
    for (const auto& attribute : node.attribute())
      if (attribute.has_g() || attribute.graphs_size() > 0) return false;
    if (known.contains(node.op_type())) continue;
    if (!find_import(domain_of(node), node.op_type())) return false;
    if (node.domain().empty()) known.insert(node.op_type());
  }
  return true;
}

static ImportedModel import_model(OnnxModel model, const ImportOptions& options) {
  constexpr int kMaxTries = 32;
  std::optional<Error> first;
  std::optional<ImportedModel> done;
  std::vector<bool> sides;
  Imported so_far;
  const bool once = is_imported_once(*model.proto);
  for (int tries = 1; !done; ++tries) {
    Importer importer(model, options, sides, so_far, once ? &model.parts : nullptr);
    try {
      done = importer.run();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::check_failed) throw;  // no other try has any time left
      if (!first) first = error;
      const auto next = importer.next_sides();
      if (!next || tries == kMaxTries) throw Error(*first);
      sides = *next;
    }
  }
  ImportedModel imported = std::move(*done);
  model = {};  // its messages take as much memory as the graph
  imported.graph.compact();
  return imported;
}

// An import alone is a build as far as its time is concerned.
static ImportOptions begun(ImportOptions options) {
  options.limits.time.begin();
  return options;
}

Refusals refusals_of(const OnnxModel& model, const ImportOptions& options) {
  Imported so_far;
  return Importer(model, options, {}, so_far).refusals();
}

ImportedModel import_onnx(OnnxModel model, const ImportOptions& options) {
  StringTable strings;  // of the model's tensors, until they are fields of ops
  const UseStrings used(strings);
  return import_model(std::move(model), begun(options));
}
ImportedModel import_onnx(const std::string& path, const ImportOptions& asked) {
  const ImportOptions options = begun(asked);
  OnnxModel model = read_onnx(path, options.limits);
  return with_context([&] { return path; }, [&] { return import_model(std::move(model), options); });
}
ImportedModel import_onnx_bytes(std::string_view bytes, const std::string& folder, const ImportOptions& asked) {
  const ImportOptions options = begun(asked);
  return import_model(parse_onnx(bytes, folder, options.limits), options);
}

std::vector<ValueId> add_onnx(Graph& graph, const std::string& text, const std::vector<ValueId>& inputs,
                              const std::string& name) {
  OnnxModel none;
  none.proto = std::make_shared<onnx::ModelProto>();
  const ImportOptions options;
  Imported so_far;
  Importer importer(none, options, {}, so_far);
  onnx::FunctionProto body = body_of(text, name);
  for (auto& node : *body.mutable_node()) node.set_name(name);
  struct Lent {
    Lent(Graph& its, Graph& users) : owner(its), user(users) { std::swap(owner, user); }
    Lent(const Lent&) = delete;
    ~Lent() { std::swap(owner, user); }
    Graph &owner, &user;
  };
  const Lent lent(graph, importer.graph());
  return importer.import_body(body, inputs);
}

}  // namespace temper
