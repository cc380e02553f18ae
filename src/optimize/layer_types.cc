// SPDX-License-Identifier: Apache-2.0
#include "optimize/layer_types.h"

#include "graph/graph.h"
#include "graph/product.h"
#include "optimize/precision.h"
#include "runtime/engine.h"

namespace temper {

namespace {

// What nodes are kept by (graph/product.h).
std::set<std::string> names_of(const Graph& graph) {
  std::set<std::string> names;
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node({n});
    names.insert(product_name(node.op, node.name).value_or(node.name));
  }
  return names;
}

std::string no_more(const std::string& name) { return concat("'", name, "' is folded or merged into other layers"); }

}  // namespace

void look_up(LayerTypes& types, const Graph& model) {
  if (types.empty()) return;
  const auto all_others = types.of.extract("*");
  const std::map<std::string, DType> asked = types.of;
  for (const auto& [name, dtype] : asked) types.unknown.insert(name);
  for (int32_t n = 0; n < model.node_count(); ++n) {
    const Node& node = model.node({n});
    std::string layer = node.name;
    while (!asked.contains(layer) && layer.find('/') != layer.npos) layer.resize(layer.rfind('/'));
    const auto it = asked.find(layer);
    if (it == asked.end() && !all_others) continue;
    const auto product = product_name(node.op, node.name);
    const std::string& name = product ? *product : node.name;
    types.of[name] = it == asked.end() ? all_others.mapped() : it->second;
    types.unknown.erase(layer);
    if (product) types.products.insert(name);
    for (ValueId id : node.outputs)
      if (id.valid()) types.values[name].insert(model.value(id).name);
  }
}

PlacementOptions placement_with(const LayerTypes& types, const Graph& optimised, const PrecisionParts& parts,
                                PlacementOptions given, std::vector<std::string>& without_effect) {
  if (types.empty()) return given;
  const std::set<std::string> names = names_of(optimised);
  for (const auto& [name, dtype] : types.of) {
    const bool is_there = names.contains(name);
    if (types.unknown.contains(name)) {
      without_effect.push_back(concat("'", name, "' is not in the model"));
    } else if (!types.values.contains(name)) {
      continue;  // it became nodes of other names, which have the type
    } else if (dtype == DType::i8) {
      given.keep_nodes.erase(name);
      if (!parts.bytes) without_effect.push_back(concat("'", name, "' in int8, which this build does not compute in"));
    } else if (dtype != DType::f32 && parts.half != dtype) {
      without_effect.push_back(concat("'", name, "' in ", dtype, ", which this build does not compute in"));
    } else if (parts.bytes || (parts.half && dtype == DType::f32)) {
      if (is_there) given.keep_nodes[name] = dtype;
      else if (types.products.contains(name)) without_effect.push_back(no_more(name));
      if (dtype == DType::f32) given.keep_values.insert(types.values.at(name).begin(), types.values.at(name).end());
    }
  }
  return given;
}

void check_in_bytes(const LayerTypes& types, const std::vector<PlacedNode>& placed,
                    std::vector<std::string>& without_effect) {
  std::set<std::string> seen;
  for (const PlacedNode& node : placed) {
    const auto it = types.of.find(node.node);
    if (it == types.of.end() || it->second != DType::i8) continue;
    seen.insert(node.node);
    if (!node.integer)
      without_effect.push_back(
          concat("'", node.node, "' in int8: ", node.reason.empty() ? "it has no form in 8 bits" : node.reason));
  }
  for (const std::string& name : types.products)
    if (types.of.at(name) == DType::i8 && !seen.contains(name)) without_effect.push_back(no_more(name));
}

void report(const LayerTypes& types, const std::vector<std::string>& without_effect, EngineInfo& info) {
  if (without_effect.empty()) return;
  std::string text = "types that layers are asked for, without effect: ";
  for (size_t i = 0; i < without_effect.size(); ++i) text += concat(i ? "; " : "", without_effect[i]);
  if (types.obeyed) fail(ErrorKind::unsupported, text);
  info.notes.push_back(std::move(text));
}

}  // namespace temper
