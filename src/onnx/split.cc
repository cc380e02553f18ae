// SPDX-License-Identifier: Apache-2.0
#include "onnx/split.h"

#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "onnx/used_files.h"
namespace temper {

namespace {

using NameSet = std::set<std::string>;

// They only move elements, or say sizes.
const NameSet kMoves{"Cast", "Expand", "Flatten", "Gather",  "Identity", "Reshape",   "Shape",
                     "Size", "Slice",  "Split",   "Squeeze", "Tile",     "Transpose", "Unsqueeze"};
const NameSet kByOneNumber{"Add", "Div", "Mul", "Sub"};
// They differ from run to run.
const NameSet kRandom{"Bernoulli",        "Multinomial",   "RandomNormal",
                      "RandomNormalLike", "RandomUniform", "RandomUniformLike"};

bool is_of(const onnx::NodeProto& node, const NameSet& ops) {
  return (node.domain().empty() || node.domain() == "ai.onnx") && ops.contains(node.op_type());
}

bool is_one_number(const onnx::TensorProto& tensor) {
  return std::all_of(tensor.dims().begin(), tensor.dims().end(), [](int64_t dim) { return dim == 1; });
}

class Splitter {
 public:
  Splitter(const OnnxModel& model, const std::vector<std::string>& inputs)
      : model_(*model.proto), graph_(model_.graph()), named_(inputs.begin(), inputs.end()) {}

  SplitModel run() {
    find_values();
    for (const auto& output : graph_.output()) {
      const bool follows = kind_.at(output.name()) == Kind::once;
      (follows ? outputs_of_first_ : outputs_of_rest_).push_back(output.name());
    }
    if (outputs_of_rest_.empty())
      fail(ErrorKind::usage, "all outputs follow from ", list(named_), " alone: there is nothing to split");
    for (const std::string& output : outputs_of_rest_) need_in_rest(output);
    if (between_.empty())
      fail(ErrorKind::usage, "nothing that the other outputs need is computed from ", list(named_),
           " alone: there is nothing to compute beforehand");
    std::vector<std::string> from_first = outputs_of_first_;
    for (const std::string& value : between_)
      if (std::find(from_first.begin(), from_first.end(), value) == from_first.end()) from_first.push_back(value);
    for (const std::string& value : from_first) need_in_first(value);

    SplitModel split;
    split.between = between_;
    split.nodes = graph_.node_size();
    split.first_nodes = std::count(in_first_.begin(), in_first_.end(), 1);
    split.rest_nodes = std::count(in_rest_.begin(), in_rest_.end(), 1);
    for (const auto& input : graph_.input())
      if (named_.contains(input.name()) && in_rest_values_.contains(input.name()))
        split.inputs_of_rest.push_back(input.name());
    split.first = part("first", in_first_, in_first_values_, {}, from_first);
    split.rest = part("rest", in_rest_, in_rest_values_, between_, outputs_of_rest_);
    return split;
  }

 private:
  enum class Kind { constant, once, rest };  // what a value depends on: nothing, the named inputs alone, more

  const onnx::ModelProto& model_;
  const onnx::GraphProto& graph_;
  const NameSet named_;
  std::map<std::string, Kind> kind_;
  std::map<std::string, int> producer_;          // by value
  std::vector<std::vector<std::string>> reads_;  // by node, with what its subgraphs capture
  NameSet numbers_;                              // constants of one element
  NameSet random_functions_;
  std::map<std::string, const onnx::ValueInfoProto*> types_;
  onnx::ModelProto inferred_;
  std::vector<char> in_first_, in_rest_;
  NameSet in_first_values_, in_rest_values_;  // inputs and constants that a part reads
  std::vector<std::string> outputs_of_first_, outputs_of_rest_, between_;
  NameSet cut_;

  static std::string list(const NameSet& names) {
    std::string text;
    for (const std::string& name : names) text += concat(text.empty() ? "'" : ", '", name, "'");
    return text;
  }

  // Names that are read inside, whoever makes them.
  static void add_reads(const onnx::GraphProto& graph, std::vector<std::string>& names) {
    for (const auto& node : graph.node()) add_reads(node, names);
    for (const auto& output : graph.output()) names.push_back(output.name());
  }
  static void add_reads(const onnx::NodeProto& node, std::vector<std::string>& names) {
    names.insert(names.end(), node.input().begin(), node.input().end());
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) add_reads(attribute.g(), names);
      for (const auto& graph : attribute.graphs()) add_reads(graph, names);
    }
  }
  bool is_random(const onnx::NodeProto& node) const {
    if (is_of(node, kRandom) || random_functions_.contains(concat(node.domain(), '/', node.op_type()))) return true;
    if (is_of(node, {"Dropout"}) && node.input_size() > 2) return true;  // it may train
    const auto any = [&](const onnx::GraphProto& graph) {
      return std::any_of(graph.node().begin(), graph.node().end(), [&](const auto& inner) { return is_random(inner); });
    };
    return std::any_of(node.attribute().begin(), node.attribute().end(), [&](const onnx::AttributeProto& attribute) {
      return (attribute.has_g() && any(attribute.g())) ||
             std::any_of(attribute.graphs().begin(), attribute.graphs().end(), any);
    });
  }
  void find_random_functions() {
    for (bool more = true; more;) {
      more = false;
      for (const auto& function : model_.functions())
        if (std::any_of(function.node().begin(), function.node().end(), [&](const auto& n) { return is_random(n); }))
          more |= random_functions_.insert(concat(function.domain(), '/', function.name())).second;
    }
  }

  void find_values() {
    find_random_functions();
    for (const auto& tensor : graph_.initializer()) {
      kind_[tensor.name()] = Kind::constant;
      if (is_one_number(tensor)) numbers_.insert(tensor.name());
    }
    for (const auto& tensor : graph_.sparse_initializer()) kind_[tensor.values().name()] = Kind::constant;
    NameSet known;
    for (const auto& input : graph_.input()) {
      types_[input.name()] = &input;
      known.insert(input.name());
      if (named_.contains(input.name())) kind_[input.name()] = Kind::once;
      else kind_.try_emplace(input.name(), Kind::rest);  // an initializer that a caller may replace is a constant here
    }
    for (const std::string& name : named_)
      if (!known.contains(name))
        fail(ErrorKind::usage, "the model has no input ", "'", name, "'; it has ", list(known));
    for (const auto& value : graph_.value_info()) types_[value.name()] = &value;
    for (const auto& output : graph_.output()) types_[output.name()] = &output;
    for (int n = 0; n < graph_.node_size(); ++n) {
      const auto& node = graph_.node(n);
      std::vector<std::string> reads;
      add_reads(node, reads);
      Kind kind = is_random(node) ? Kind::rest : Kind::constant;
      std::erase_if(reads, [&](const std::string& name) { return !kind_.contains(name); });
      for (const std::string& name : reads) kind = std::max(kind, kind_.at(name));
      reads_.push_back(std::move(reads));
      for (const std::string& output : node.output()) {
        if (output.empty()) continue;
        kind_[output] = kind;
        producer_[output] = n;
        if (node.op_type() == "Constant" && kind == Kind::constant && is_number(node)) numbers_.insert(output);
      }
    }
    in_first_.assign(size_t(graph_.node_size()), 0);
    in_rest_.assign(size_t(graph_.node_size()), 0);
  }
  static bool is_number(const onnx::NodeProto& node) {
    return std::any_of(node.attribute().begin(), node.attribute().end(), [](const onnx::AttributeProto& attribute) {
      return (attribute.name() == "value" && is_one_number(attribute.t())) || attribute.name() == "value_float";
    });
  }

  // As the file says it, or as ONNX infers it from its inputs.
  const onnx::ValueInfoProto& type_of(const std::string& name) {
    const auto is_known = [&] {
      const auto found = types_.find(name);
      return found != types_.end() && found->second->type().has_tensor_type() &&
             found->second->type().tensor_type().elem_type() != 0 && found->second->type().tensor_type().has_shape();
    };
    if (!is_known() && !inferred_.has_graph()) {
      inferred_ = model_;
      try {
        onnx::shape_inference::InferShapes(inferred_);
      } catch (const std::exception& error) {  // ONNX reports through several exception types of its own
        fail(ErrorKind::unsupported, "the type of '", name,
             "' is not in the model, and ONNX cannot infer it: ", std::string_view(error.what()));
      }
      for (const auto& value : inferred_.graph().value_info()) types_[value.name()] = &value;
    }
    if (!is_known())
      fail(ErrorKind::unsupported, "the model would be cut at '", name,
           "', which is no tensor of a type and rank that the model says or ONNX infers");
    return *types_.at(name);
  }
  bool is_float(const std::string& name) {
    switch (type_of(name).type().tensor_type().elem_type()) {
      case onnx::TensorProto::FLOAT:
      case onnx::TensorProto::DOUBLE:
      case onnx::TensorProto::FLOAT16:
      case onnx::TensorProto::BFLOAT16: return true;
      default: return false;
    }
  }
  // Whether the rest makes it again.
  bool is_light(int n, const std::string& value) {
    const auto& node = graph_.node(n);
    const auto others = std::count_if(node.input().begin(), node.input().end(),
                                      [&](const std::string& input) { return !numbers_.contains(input); });
    return is_of(node, kMoves) || (is_of(node, kByOneNumber) && others == 1) || !is_float(value);
  }

  void need_in_rest(const std::string& wanted) {
    for (std::vector<std::string> open{wanted}; !open.empty();) {
      const std::string name = open.back();
      open.pop_back();
      const auto made = producer_.find(name);
      if (made == producer_.end()) {
        in_rest_values_.insert(name);
        continue;
      }
      if (kind_.at(name) == Kind::once && !is_light(made->second, name)) {
        if (cut_.insert(name).second) between_.push_back(name);
        continue;
      }
      if (std::exchange(in_rest_[size_t(made->second)], 1)) continue;
      const auto& reads = reads_[size_t(made->second)];
      open.insert(open.end(), reads.rbegin(), reads.rend());
    }
  }
  void need_in_first(const std::string& wanted) {
    for (std::vector<std::string> open{wanted}; !open.empty();) {
      const std::string name = open.back();
      open.pop_back();
      const auto made = producer_.find(name);
      if (made == producer_.end()) {
        in_first_values_.insert(name);
        continue;
      }
      if (std::exchange(in_first_[size_t(made->second)], 1)) continue;
      const auto& reads = reads_[size_t(made->second)];
      open.insert(open.end(), reads.begin(), reads.end());
    }
  }

  std::string part(const std::string& name, const std::vector<char>& nodes, const NameSet& values,
                   const std::vector<std::string>& more_inputs, const std::vector<std::string>& outputs) {
    onnx::ModelProto model;
    model.set_ir_version(model_.ir_version());
    *model.mutable_opset_import() = model_.opset_import();
    *model.mutable_functions() = model_.functions();
    model.set_producer_name(model_.producer_name());
    model.set_producer_version(model_.producer_version());
    for (const auto& entry : model_.metadata_props())
      if (!entry.key().starts_with("temper.")) *model.add_metadata_props() = entry;
    auto& note = *model.add_metadata_props();
    note.set_key("temper.source_part");  // also says that Temper wrote it
    note.set_value(name);
    onnx::GraphProto& graph = *model.mutable_graph();
    graph.set_name(concat(graph_.name(), '.', name));
    NameSet there(more_inputs.begin(), more_inputs.end());
    for (const auto& input : graph_.input())
      if (values.contains(input.name())) *graph.add_input() = input;
    for (const std::string& input : more_inputs) *graph.add_input() = type_of(input);
    for (const std::string& output : outputs) *graph.add_output() = type_of(output);
    for (const auto& tensor : graph_.initializer())
      if (values.contains(tensor.name())) *graph.add_initializer() = tensor;
    for (const auto& tensor : graph_.sparse_initializer())
      if (values.contains(tensor.values().name())) *graph.add_sparse_initializer() = tensor;
    there.insert(outputs.begin(), outputs.end());
    for (int n = 0; n < graph_.node_size(); ++n)
      if (nodes[size_t(n)]) *graph.add_node() = graph_.node(n);
    for (const auto& value : graph_.value_info()) {
      const auto made = producer_.find(value.name());
      if (made != producer_.end() && nodes[size_t(made->second)] && !there.contains(value.name()))
        *graph.add_value_info() = value;
    }
    return model.SerializeAsString();
  }
};

}  // namespace

SplitModel split_onnx(const OnnxModel& model, const std::vector<std::string>& inputs) {
  if (inputs.empty()) fail(ErrorKind::usage, "no input is named to split by");
  return Splitter(model, inputs).run();
}

SplitModel split_onnx_file(const std::string& path, const std::vector<std::string>& inputs, const Output& first,
                           const Output& rest, const ModelLimits& limits) {
  check_files({{path}, {}, {first, rest}});
  const OnnxModel model = read_onnx(path, limits);
  // Both parts go on reading the weights where they lie, which must be inside of their own folders.
  for (const Output* output : {&first, &rest}) {
    std::error_code error;
    if (!model.external.empty() && !std::filesystem::equivalent(folder_of(output->path), folder_of(path), error))
      fail(ErrorKind::usage, output->option, output->option.empty() ? "'" : " '", output->path,
           "': the model's weights lie in files beside it, which both parts read; write them into '", folder_of(path),
           "'");
  }
  SplitModel parts = with_context([&] { return path; }, [&] { return split_onnx(model, inputs); });
  write_file_atomically(first, parts.first);
  write_file_atomically(rest, parts.rest);
  return parts;
}

}  // namespace temper
