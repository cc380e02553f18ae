// SPDX-License-Identifier: Apache-2.0
#include "quantize/placement.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "base/small_types.h"
#include "base/threads.h"
#include "graph/finite.h"
#include "graph/ops/broadcast.h"
#include "graph/ops/dequantize.h"
#include "graph/ops/gather.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pad.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/pool.h"
#include "graph/ops/quantize.h"
#include "graph/ops/reshape.h"
#include "graph/ops/resize.h"
#include "graph/ops/transpose.h"
#include "graph/product.h"
#include "quantize/row_scales.h"

namespace temper {

namespace {

// The effect of an op without arithmetic of its own on its data inputs.
enum class Movement {
  none,
  keeps,
  averages
};  // keeps: each output element is an input element (or the zero of padding)

class Placer {
 public:
  Placer(const Graph& graph, const Ranges& ranges, const PlacementOptions& options, const BuildTime& time)
      : graph_(graph), ranges_(ranges), options_(options), time_(time) {
    group_.resize(size_t(graph.value_count()));
    std::iota(group_.begin(), group_.end(), 0);
    wanted_.resize(group_.size(), 0);
    reasons_.resize(size_t(graph.node_count()));
  }

  Placement run() {
    check_names();
    find_first_and_last();
    for (int32_t n = 0; n < graph_.node_count(); ++n) {
      if (!is_product(graph_.node({n}).op)) continue;
      time_.check();  // its weights are read
      choose_product({n});
    }
    // Consumers come first: what they want decides for the ops in front of them.
    for (int32_t n = graph_.node_count(); n-- > 0;) {
      time_.check_at(n);
      choose_mover({n});
    }
    choose_scales();
    rebuild();
    tabulate();
    return std::move(result_);
  }

 private:
  const Graph& graph_;
  const Ranges& ranges_;
  const PlacementOptions& options_;
  const BuildTime& time_;
  Placement result_;
  std::vector<int32_t> group_;                // by value: union-find of those that share a scale
  std::vector<char> wanted_;                  // by value: gets a quantize and a dequantize node
  std::vector<std::string> reasons_;          // by node: why it stays in f32; empty: it does not
  std::set<int32_t> integer_;                 // nodes that are integer
  std::vector<char> has_before_, has_after_;  // by node: a product on a way to, or from it
  std::map<int32_t, float> scales_;           // by group
  std::set<std::string> warned_;

  int32_t find(int32_t v) {
    while (group_[size_t(v)] != v) v = group_[size_t(v)] = group_[size_t(group_[size_t(v)])];
    return v;
  }
  void unite(ValueId a, ValueId b) { group_[size_t(find(a.index))] = find(b.index); }

  void check_names() const {
    check_kept(graph_, options_.keep_nodes);
    if (ranges_.values.empty() && by_token()) return check_row_products();
    if (ranges_.values.empty()) fail(ErrorKind::usage, "the ranges are empty; calibrate the model again");
    for (int32_t v = 0; v < graph_.value_count(); ++v)
      if (ranges_.values.count(graph_.value({v}).name)) return;
    fail(ErrorKind::usage, "no value of the model has one of the ", ranges_.values.size(),
         " names in the ranges (the first is '", ranges_.values.begin()->first,
         "'); calibrate this model, with the same passes");
  }

  bool by_token() const { return options_.activation_scales == ActivationScales::token; }
  // Of a product that may be one of integers otherwise.
  bool has_row_scales(const Node& node) const { return by_token() && node.op.is<ops::MatMul>(); }
  // Without ranges nothing else would be in 8 bits.
  void check_row_products() const {
    for (int32_t n = 0; n < graph_.node_count(); ++n)
      if (const Node& node = graph_.node({n}); node.op.is<ops::MatMul>() && why_not_weights(node).empty()) return;
    fail(
        ErrorKind::usage,
        "there are no ranges, and no matrix product with constant weights whose activations could have scales for each "
        "token; run `temper calibrate MODEL --data D -o ranges.json` and add --calibration ranges.json");
  }

  void find_first_and_last() {
    std::vector<char> before(size_t(graph_.value_count()), 0), after(before);
    has_before_.resize(size_t(graph_.node_count()), 0);
    has_after_ = has_before_;
    for (int32_t n = 0; n < graph_.node_count(); ++n) {
      const Node& node = graph_.node({n});
      for (ValueId id : node.inputs)
        if (id.valid()) has_before_[size_t(n)] |= before[size_t(id.index)];
      for (ValueId id : node.outputs) before[size_t(id.index)] = has_before_[size_t(n)] || is_product(node.op);
    }
    for (int32_t n = graph_.node_count(); n-- > 0;) {
      const Node& node = graph_.node({n});
      for (ValueId id : node.outputs) has_after_[size_t(n)] |= after[size_t(id.index)];
      for (ValueId id : node.inputs)
        if (id.valid()) after[size_t(id.index)] |= has_after_[size_t(n)] || is_product(node.op);
    }
  }

  // A value that was only moved has the range of what it was moved from, where it has none itself: caches of other
  // tools do not name it.
  const TensorRange* entry_of(ValueId id) const {
    for (;;) {
      if (const auto it = ranges_.values.find(graph_.value(id).name); it != ranges_.values.end()) return &it->second;
      const Node* producer = graph_.producer(id);
      if (!producer || !(producer->op.is<ops::Reshape, ops::Transpose>())) return nullptr;
      id = producer->inputs[0];
    }
  }
  const TensorRange* range_of(ValueId id) const {
    const TensorRange* entry = entry_of(id);
    return entry && entry->is_usable() ? entry : nullptr;
  }
  // Empty where the value can be quantized; otherwise why not, said once as a warning too.
  std::string refusal(ValueId id) {
    const Value& value = graph_.value(id);
    if (value.type.dtype != DType::f32) return concat("'", value.name, "' is ", value.type.dtype);
    if (value.constant) return concat("'", value.name, "' is a constant");
    const TensorRange* entry = entry_of(id);
    std::string why;
    if (ranges_.values.empty()) {
      why = "there are no ranges (--calibration)";
      if (warned_.insert("").second) result_.warnings.push_back(concat(why, "; what needs one stays in fp32"));
      return why;
    }
    if (!entry) why = concat("'", value.name, "' has no range");
    else if (!entry->is_usable()) why = concat("'", value.name, "' has the unusable scale ", entry->scale);
    if (!why.empty() && warned_.insert(value.name).second)
      result_.warnings.push_back(concat(why, "; what needs it stays in fp32"));
    return why;
  }

  std::string why_not_weights(const Node& node) const {
    const Tensor* weights = graph_.constant(node.inputs[1]);
    if (const auto* product = node.op.get_if<ops::MatMul>()) {
      if (graph_.constant(node.inputs[0])) return "its first operand is the constant";
      if (!weights) return "a product of two activations";
      if (weights->rank() != 2) return concat("its weights have rank ", weights->rank());
      if (product->transpose_a) return "its first operand is transposed";
    }
    if (!weights) return "its weights are not constant";
    if (weights->dtype() != DType::f32) return concat("its weights are ", weights->dtype());
    return "";
  }

  std::string why_kept(const Node& node) const {
    const auto it = options_.keep_nodes.find(node.name);
    if (it == options_.keep_nodes.end()) return "";
    return concat("kept in ", kept_word(it->second), " as asked");
  }

  std::string why_not(const Node& node) {
    if (std::string why = why_kept(node); !why.empty()) return why;
    const bool first = !has_before_[index_of(node)], last = !has_after_[index_of(node)];
    if (options_.keep_first && first) return concat("kept out of ", float8() ? "fp8" : "int8", ": a first layer");
    if (options_.keep_last && last) return concat("kept out of ", float8() ? "fp8" : "int8", ": a last layer");
    if (float8() && !node.op.is<ops::MatMul>()) return "a convolution has no form in 8-bit floats";
    if (std::string why = why_not_weights(node); !why.empty()) return why;
    const Tensor* weights = graph_.constant(node.inputs[1]);
    if (!all_finite(*weights)) {
      result_.warnings.push_back(concat("the weights '", graph_.value(node.inputs[1]).name, "' hold NaN or infinity; '",
                                        node.name, "' stays in fp32"));
      return "its weights hold NaN or infinity";
    }
    return has_row_scales(node) ? "" : refusal(node.inputs[0]);
  }
  bool float8() const { return options_.dtype == DType::f8e4m3fn; }
  size_t index_of(const Node& node) const { return size_t(graph_.value(node.outputs[0]).producer.index); }

  void choose_product(NodeId id) {
    const Node& node = graph_.node(id);
    ++result_.products;
    reasons_[size_t(id.index)] = why_not(node);
    if (!reasons_[size_t(id.index)].empty()) return;
    ++result_.integer_products;
    integer_.insert(id.index);
    if (has_row_scales(node)) return;
    wanted_[size_t(node.inputs[0].index)] = 1;
    if (float8()) return;
    // Residuals: what the epilogue reads that is as large as the output.
    const Program& epilogue = *epilogue_of(node.op);
    for (size_t i = node.inputs.size() - size_t(epilogue.inputs - 1); i < node.inputs.size(); ++i)
      if (const ValueId extra = node.inputs[i]; !graph_.constant(extra) &&
                                                graph_.type(extra).shape == graph_.type(node.outputs[0]).shape &&
                                                refusal(extra).empty())
        wanted_[size_t(extra.index)] = 1;
  }

  // Broadcast, gather and the maxima of reductions stay on floats, and so does a mean over axes that are data.
  Movement movement_of(const Node& node) const {
    if (node.outputs.size() != 1) return Movement::none;
    if (float8())
      return flow_of(node.op, 0) == Flow::moved && !node.op.is<ops::Broadcast, ops::Gather, ops::Pad, ops::Resize>()
                 ? Movement::keeps
                 : Movement::none;
    if (const auto* pad = node.op.get_if<ops::Pad>()) {
      if (pad->kind != ops::PadKind::constant || node.inputs.size() < 2 || !node.inputs[1].valid())
        return Movement::keeps;
      const Tensor* value = graph_.constant(node.inputs[1]);
      return value && value->to_doubles() == std::vector<double>{0} ? Movement::keeps : Movement::none;
    }
    switch (flow_of(node.op, 0)) {
      case Flow::moved: return node.op.is<ops::Broadcast, ops::Gather>() ? Movement::none : Movement::keeps;
      case Flow::chosen: return node.op.is<ops::Pool>() ? Movement::keeps : Movement::none;
      case Flow::averaged: return node.inputs.size() == 1 ? Movement::averages : Movement::none;
      default: return Movement::none;
    }
  }

  // In front of a quantized value such an op works on the integers. An average is worth that for its input's sake
  // alone: it reads a quarter of the bytes.
  void choose_mover(NodeId id) {
    const Node& node = graph_.node(id);
    const Movement movement = movement_of(node);
    if (movement == Movement::none || !(wanted_[size_t(node.outputs[0].index)] ||
                                        (movement == Movement::averages &&
                                         (wanted_[size_t(node.inputs[0].index)] || follows_product(node.inputs[0])))))
      return;
    reasons_[size_t(id.index)] = why_kept(node);
    if (!reasons_[size_t(id.index)].empty()) return;
    const size_t data = flow_of(node.op, 1) == Flow::moved ? node.inputs.size() : 1;
    for (size_t i = 0; i < data; ++i)
      if (std::string why = refusal(node.inputs[i]); !why.empty()) {
        reasons_[size_t(id.index)] = std::move(why);
        return;
      }
    integer_.insert(id.index);
    for (size_t i = 0; i < data; ++i) {
      wanted_[size_t(node.inputs[i].index)] = 1;
      if (movement == Movement::keeps) unite(node.inputs[i], node.outputs[0]);
    }
  }
  bool follows_product(ValueId id) const {
    const Value& value = graph_.value(id);
    if (!value.producer.valid() || !integer_.count(value.producer.index)) return false;
    const Node& producer = graph_.node(value.producer);
    return is_product(producer.op) && !has_row_scales(producer);  // whose result is no sum of integers as they stand
  }

  void choose_scales() {
    for (int32_t v = 0; v < graph_.value_count(); ++v)
      if (wanted_[size_t(v)]) {
        float& scale = scales_[find(v)];
        scale = std::max(scale, scale_for(*range_of({v})));
      }
  }

  // Of f8e4m3fn the largest number is 448; where nothing but a scale of i8 is known, what that reaches.
  static constexpr float kMostFloat8 = 448, kMostInteger = 127;
  float scale_for(const TensorRange& range) const {
    if (!float8()) return range.scale;
    const float seen = std::max(std::fabs(range.min), std::fabs(range.max));
    const float scale = (seen > 0 && std::isfinite(seen) ? seen : range.scale * kMostInteger) / kMostFloat8;
    return std::max(scale, std::numeric_limits<float>::min());
  }
  float scale_of_weights(float largest) const {
    if (!float8()) return scale_of(double(largest));
    return largest > 0 ? std::max(largest / kMostFloat8, std::numeric_limits<float>::min()) : 1;
  }
  // One weight in units of its scale, as a byte.
  int8_t weight_as_byte(float weight) const {
    if (float8()) return std::bit_cast<int8_t>(float_to_e4m3(weight));
    return int8_t(std::clamp(std::nearbyint(weight), -kMostInteger, kMostInteger));
  }

  // ---- the new graph ----

  struct QuantizedWeights {
    ValueId integers, scales, dequantized;  // the last one where a node reads it
  };
  std::vector<ValueId> map_;                                         // by old value: what its users read now
  std::map<int32_t, ValueId> scale_constants_;                       // by group
  std::map<std::pair<int32_t, int64_t>, QuantizedWeights> weights_;  // by old value and axis
  std::map<int32_t, QuantizedRows> rows_;                            // by old value

  // The pair for `value`, the new graph's counterpart of `old`; gives what users read.
  ValueId quantized(ValueId old, ValueId value) {
    if (!wanted_[size_t(old.index)]) return value;
    Graph& graph = result_.graph;
    const int32_t group = find(old.index);
    const std::string& name = graph_.value(old).name;
    ValueId& scale = scale_constants_[group];
    if (!scale.valid()) scale = graph.add_constant(concat(name, "/scale"), Tensor::of<float>({}, {scales_.at(group)}));
    const ValueId q =
        graph
            .add(ops::Quantize{options_.dtype}, {value, scale}, concat(name, "/quantize"), {concat(name, "/quantized")})
            .at(0);
    return graph.add(ops::Dequantize{}, {q, scale}, concat(name, "/dequantize"), {concat(name, "/dequantized")}).at(0);
  }

  QuantizedWeights& quantized_weights(ValueId old, int64_t axis) {
    QuantizedWeights& result = weights_[{old.index, axis}];
    if (result.integers.valid()) return result;
    const Tensor& w = *graph_.constant(old);
    const int64_t n = w.dims()[size_t(axis)], inner = row_major_strides(w.dims())[size_t(axis)];
    const int64_t outer = n > 0 && inner > 0 ? w.count() / (n * inner) : 0;
    const float* const from = w.data<float>();
    std::vector<float> scales(static_cast<size_t>(n));
    Tensor integers(options_.dtype, w.dims());
    auto* const to = reinterpret_cast<int8_t*>(integers.raw_mutable());
    constexpr int64_t kWorthAThread = int64_t(1) << 16;  // elements
    parallel_for(n, std::max<int64_t>(1, kWorthAThread / std::max<int64_t>(1, outer * inner)),
                 [&](int64_t begin, int64_t end) {
                   std::vector<float> amax(size_t(end - begin), 0);
                   auto each = [&](auto&& f) {  // element and channel, in the order of memory
                     for (int64_t o = 0; o < outer; ++o)
                       for (int64_t c = begin; c < end; ++c)
                         for (int64_t i = (o * n + c) * inner; i < (o * n + c + 1) * inner; ++i) f(i, c);
                   };
                   each([&](int64_t i, int64_t c) {
                     amax[size_t(c - begin)] = std::max(amax[size_t(c - begin)], std::fabs(from[i]));
                   });
                   for (int64_t c = begin; c < end; ++c) scales[size_t(c)] = scale_of_weights(amax[size_t(c - begin)]);
                   each([&](int64_t i, int64_t c) { to[i] = weight_as_byte(from[i] / scales[size_t(c)]); });
                 });
    const std::string& name = graph_.value(old).name;
    result.integers = result_.graph.add_constant(concat(name, "/quantized"), std::move(integers));
    result.scales = result_.graph.add_constant(concat(name, "/scale"), Tensor::of<float>({n}, scales));
    return result;
  }
  ValueId dequantized_weights(ValueId old, int64_t axis) {
    QuantizedWeights& weights = quantized_weights(old, axis);
    const std::string& name = graph_.value(old).name;
    if (!weights.dequantized.valid())
      weights.dequantized = result_.graph
                                .add(ops::Dequantize{DType::f32, axis}, {weights.integers, weights.scales},
                                     concat(name, "/dequantize"), {concat(name, "/dequantized")})
                                .at(0);
    return weights.dequantized;
  }

  // `value`: what computes the product's first input in the new graph, as it is.
  std::vector<ValueId> row_product(const Node& node, ValueId value, const std::vector<ValueId>& extras,
                                   const std::vector<std::string>& names) {
    QuantizedRows& rows = rows_[node.inputs[0].index];
    if (!rows.integers.valid()) {
      rows = quantize_rows(result_.graph, value, graph_.value(node.inputs[0]).name);
      result_.row_scales.insert(result_.graph.value(rows.scales).name);
    }
    const QuantizedWeights& weights = quantized_weights(node.inputs[1], axis_of_channels(node));
    return add_row_product(result_.graph, node, rows, weights.integers, weights.scales, extras, names);
  }
  static int64_t axis_of_channels(const Node& node) {
    const auto* matmul = node.op.get_if<ops::MatMul>();
    return matmul && !matmul->transpose_b ? 1 : 0;
  }

  void rebuild() {
    Graph& graph = result_.graph;
    graph.name = graph_.name;
    map_.resize(size_t(graph_.value_count()));
    std::vector<ValueId> raw(map_.size());  // as computed
    for (ValueId id : graph_.inputs()) raw[size_t(id.index)] = graph.add_input(graph_.value(id).name, graph_.type(id));
    for (ValueId id : graph_.inputs()) map_[size_t(id.index)] = quantized(id, raw[size_t(id.index)]);
    auto mapped = [&](ValueId id) {
      if (!id.valid()) return ValueId{};
      ValueId& to = map_[size_t(id.index)];
      if (!to.valid()) to = raw[size_t(id.index)] = graph.add_constant(graph_.value(id).name, *graph_.constant(id));
      return to;
    };
    for (int32_t n = 0; n < graph_.node_count(); ++n) {
      time_.check_at(n);
      const Node& node = graph_.node({n});
      const bool product = integer_.count(n) && is_product(node.op), by_rows = product && has_row_scales(node);
      std::vector<ValueId> inputs;
      for (size_t i = by_rows ? 2 : 0; i < node.inputs.size(); ++i)
        inputs.push_back(product && i == 1 ? dequantized_weights(node.inputs[1], axis_of_channels(node))
                                           : mapped(node.inputs[i]));
      std::vector<std::string> names;
      for (ValueId id : node.outputs) names.push_back(graph_.value(id).name);
      const std::vector<ValueId> outputs = by_rows ? row_product(node, raw[size_t(node.inputs[0].index)], inputs, names)
                                                   : graph.add(node.op, std::move(inputs), node.name, names);
      for (size_t i = 0; i < outputs.size(); ++i) {
        raw[size_t(node.outputs[i].index)] = outputs[i];
        map_[size_t(node.outputs[i].index)] = quantized(node.outputs[i], outputs[i]);
      }
    }
    for (const GraphOutput& output : graph_.outputs()) {
      mapped(output.value);
      graph.add_output(output.name, raw[size_t(output.value.index)]);
    }
    graph.compact();
  }

  void tabulate() {
    for (int32_t n = 0; n < graph_.node_count(); ++n) {
      const Node& node = graph_.node({n});
      PlacedNode row{node.name, std::string(name_of(node.op)), integer_.count(n) > 0, reasons_[size_t(n)]};
      if (!row.integer && row.reason.empty()) row.reason = standard_reason(node);
      result_.nodes.push_back(std::move(row));
    }
  }
  std::string standard_reason(const Node& node) const {
    if (graph_.type(node.outputs[0]).dtype != DType::f32) return concat("gives ", graph_.type(node.outputs[0]).dtype);
    if (movement_of(node) != Movement::none) return "no quantized layer follows";
    if (node.op.is<ops::Pointwise>()) {
      bool narrow = wanted_[size_t(node.outputs[0].index)];
      for (ValueId id : node.inputs) narrow |= id.valid() && wanted_[size_t(id.index)];
      return narrow ? "computes in fp32, between 8-bit values" : "computes in fp32";
    }
    return concat(name_of(node.op), float8() ? " has no form in 8-bit floats" : " has no integer form");
  }
};

std::string_view kept_flag(DType dtype) {
  return dtype == DType::f32 ? "--keep-fp32" : dtype == DType::f16 ? "--keep-fp16" : "--keep-bf16";
}

}  // namespace

ActivationScales parse_activation_scales(std::string_view name) {
  for (const auto scales : {ActivationScales::tensor, ActivationScales::token})
    if (name == enum_names(scales)[size_t(scales)]) return scales;
  fail(ErrorKind::usage, "scales of activations are one for each tensor or token, not '", name, "'");
}

Placement place_quantization(const Graph& graph, const Ranges& ranges, const PlacementOptions& options,
                             const BuildTime& time) {
  return Placer(graph, ranges, options, time).run();
}

std::string kept_word(DType dtype) { return std::string(kept_flag(dtype).substr(7)); }  // behind "keep-" and the dashes

void check_kept(const Graph& graph, const KeptNodes& keep) {
  std::set<std::string_view> missing;
  for (const auto& [name, dtype] : keep) missing.insert(name);
  for (int32_t n = 0; n < graph.node_count() && !missing.empty(); ++n) {
    const Node& node = graph.node({n});
    missing.erase(product_name(node.op, node.name).value_or(node.name));
  }
  for (const auto& [name, dtype] : keep)
    if (missing.contains(name))
      fail(
          ErrorKind::usage, kept_flag(dtype), " names '", name,
          "', which is no layer of the optimised graph; build without it, and temper inspect PLAN --layers lists them");
}

}  // namespace temper
