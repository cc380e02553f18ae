// SPDX-License-Identifier: Apache-2.0
#include "passes/lower_precision.h"

#include <cmath>

#include "graph/narrow.h"
#include "graph/ops/dequantize_blocks.h"
#include "graph/ops/pointwise.h"
#include "graph/product.h"
#include "passes/support/simplify.h"
#include "passes/support/squares.h"

namespace temper {

namespace {

// What a node does with its f32 inputs: its op's NarrowRole, where nothing in the graph is against it, or pointwise,
// which reads either dtype, computes in f32 and gives either; a reader gives f32 alone. A product of 8-bit integers
// reads and gives either behind its accumulator.
enum class Role { product, integer_product, pointwise, carrier, reader, other };

class Lowerer {
 public:
  Lowerer(const Graph& graph, DType narrow, const LoweringOptions& options, const BuildTime& time)
      : graph_(graph),
        dtype_(narrow),
        options_(options),
        time_(time),
        squares_(find_squares(graph)),
        roles_(size_t(graph.node_count())),
        carried_(roles_.size()),
        reasons_(roles_.size()) {
    const size_t values = size_t(graph.value_count());
    for (auto* flags : {&read_, &computed_, &after_}) flags->assign(values, 0);
    same_.resize(values);
    narrow_.resize(values);
    wide_.resize(values);
  }

  Lowering run() {
    for (int32_t n = 0; n < graph_.node_count(); ++n) {
      time_.check_at(n);
      roles_[size_t(n)] = role_of(graph_.node({n}), carried_[size_t(n)], reasons_[size_t(n)]);
    }
    for (int32_t n = 0; n < graph_.node_count(); ++n)
      look_back(graph_.node({n}), roles_[size_t(n)], carried_[size_t(n)]);
    for (int32_t n = graph_.node_count(); n-- > 0;)
      look_ahead(graph_.node({n}), roles_[size_t(n)], carried_[size_t(n)]);
    check_names();
    rebuild();
    tabulate();
    return std::move(result_);
  }

 private:
  const Graph& graph_;
  const DType dtype_;  // the narrower one
  const LoweringOptions& options_;
  const BuildTime& time_;
  const Squares squares_;
  Lowering result_;
  std::vector<Role> roles_;
  std::vector<size_t> carried_;       // by node, for Role::carrier: how many of its inputs
  std::vector<std::string> reasons_;  // by node, for Role::other; empty where it does not compute on f32 anyway
  std::vector<char> read_, computed_,
      after_;  // by value: products read it, perhaps moved; read it, computed on; a product is before it
  std::vector<ValueId> same_, narrow_, wide_;  // by value: itself in the new graph; narrow; as f32

  bool survives(const Tensor& tensor) const { return tensor.converted(dtype_).to_doubles() == tensor.to_doubles(); }
  bool stays_finite(const Tensor& tensor) const {
    const std::vector<double> before = tensor.to_doubles(), after = tensor.converted(dtype_).to_doubles();
    for (size_t i = 0; i < before.size(); ++i)
      if (std::isfinite(before[i]) && !std::isfinite(after[i])) return false;
    return true;
  }
  // What ops may ask of their nodes.
  struct Facts final : NarrowNode {
    const Lowerer& lowerer;
    const Node& node;
    Facts(const Lowerer& its_lowerer, const Node& its_node) : lowerer(its_lowerer), node(its_node) {}
    const Tensor* constant(size_t i) const { return has(i) ? lowerer.graph_.constant(node.inputs[i]) : nullptr; }
    DType dtype() const override { return lowerer.dtype_; }
    size_t inputs() const override { return node.inputs.size(); }
    bool has(size_t input) const override { return input < node.inputs.size() && node.inputs[input].valid(); }
    bool is_constant(size_t input) const override { return constant(input); }
    bool survives(size_t input) const override { return constant(input) && lowerer.survives(*constant(input)); }
  };
  bool is_f32(ValueId id) const { return id.valid() && graph_.type(id).dtype == DType::f32; }
  bool is_byte(ValueId id) const {
    if (!id.valid()) return false;
    const DType dtype = graph_.type(id).dtype;
    return dtype == DType::i8 || dtype == DType::u8 || dtype == DType::f8e4m3fn;
  }
  bool flows(ValueId id) const { return is_f32(id) && !graph_.constant(id); }

  // Why a value is stored in f32 although products read it; null: it need not be.
  const std::string* why_wide(ValueId id) const {
    if (!flows(id)) return nullptr;
    const std::string& name = graph_.value(id).name;
    if (const auto it = squares_.values.find(name); it != squares_.values.end()) return &it->second;
    static const std::string kRowScales = "a scale of each row, which stays in fp32";
    if (options_.row_scales.contains(name)) return &kRowScales;
    static const std::string kAsked = "kept by its name";
    if (options_.in_f32.contains(name)) return &kAsked;
    const auto it = options_.wide.find(name);
    return it == options_.wide.end() ? nullptr : &it->second;
  }

  // Why it must not be read in the narrower dtype either.
  const std::string* why_unfit(ValueId id) const {
    return flows(id) && options_.in_f32.contains(graph_.value(id).name) ? nullptr : why_wide(id);
  }

  void check_names() const {
    if (!options_.only) return;
    std::set<std::string> missing = *options_.only;
    for (int32_t n = 0; n < graph_.node_count(); ++n)
      if (roles_[size_t(n)] == Role::product) missing.erase(graph_.node({n}).name);
    if (!missing.empty())
      fail(ErrorKind::usage, "'", *missing.begin(),
           "' is no f32 convolution with constant weights and no matrix product, so it has no ", dtype_, " form");
  }

  Role role_of(const Node& node, size_t& carried, std::string& reason) const {
    const Role role = role_by_op(node, carried, reason);
    if (role == Role::product) {
      for (size_t i : {0, 1})
        if (const std::string* why = why_unfit(node.inputs[i])) reason = concat("its operand ", *why);
    } else if (role == Role::carrier) {  // one dtype in and out
      if (const std::string* why = why_wide(node.outputs[0])) reason = *why;
      for (size_t i = 0; i < carried; ++i)
        if (const std::string* why = why_unfit(node.inputs[i])) reason = *why;
    }
    return reason.empty() || role == Role::reader ? role : Role::other;
  }

  Role role_by_op(const Node& node, size_t& carried, std::string& reason) const {
    if (node.op.is<ops::Pointwise>()) return Role::pointwise;
    if (!options_.only && is_product(node.op) && is_byte(node.inputs[0])) {
      const auto kept = options_.kept.find(node.name);
      if (kept == options_.kept.end()) return Role::integer_product;
      reason = kept->second;
      return Role::other;
    }
    if (node.inputs.empty() || !is_f32(node.inputs[0]) || !is_f32(node.outputs[0])) { return Role::other; }
    if (is_product(node.op) && options_.only && !options_.only->contains(node.name)) {
      reason = "not asked for";
      return Role::other;
    }
    if (is_product(node.op) && options_.kept.contains(node.name)) {
      reason = options_.kept.at(node.name);
      return Role::other;
    }
    if (is_product(node.op) && squares_.products.contains(node.name)) {
      reason = squares_.products.at(node.name);
      return Role::other;
    }
    NarrowForm form = narrow_form(node.op, Facts(*this, node));
    reason = std::move(form.reason);
    carried = std::min(form.carried, node.inputs.size());
    if (options_.narrow_rows && form.reads_narrow) return Role::reader;
    return form.role == NarrowRole::product   ? Role::product
           : form.role == NarrowRole::carrier ? Role::carrier
                                              : Role::other;
  }

  // Is a product before the value, with nothing in between that computes in f32 alone? Bytes are followed through
  // whatever moves them.
  void look_back(const Node& node, Role role, size_t carried) {
    const bool bytes = is_byte(node.outputs[0]);
    if (!bytes && (role == Role::other || !is_f32(node.outputs[0]))) return;
    bool after = role == Role::product || role == Role::integer_product;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (is_byte(node.inputs[i]) || (flows(node.inputs[i]) && (role == Role::pointwise || i < carried)))
        after |= after_[size_t(node.inputs[i].index)] != 0;
    after_[size_t(node.outputs[0].index)] = after;
  }

  // Does a product read the value?
  void look_ahead(const Node& node, Role role, size_t carried) {
    if (role == Role::reader && flows(node.inputs[0])) computed_[size_t(node.inputs[0].index)] = 1;
    if (role == Role::other || role == Role::reader) return;
    // What becomes bytes is what a product of integers will read; what the graph itself rounds to the narrower dtype,
    // like rows for a cache, may be so from the beginning.
    const bool wanted = is_f32(node.outputs[0]) ? is_narrow(node.outputs[0]) || is_row_scale(node.outputs[0])
                                                : !options_.only && role != Role::carrier &&
                                                      (is_byte(node.outputs[0]) || is_rounded(node.outputs[0]));
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (!flows(id)) continue;
      const size_t v = size_t(id.index);
      if (role == Role::product && i < 2) read_[v] = 1;
      else if (wanted && role == Role::carrier && i < carried)
        (read_[size_t(node.outputs[0].index)] ? read_ : computed_)[v] = 1;
      else if (wanted && role != Role::carrier) computed_[v] = 1;
    }
  }

  bool is_row_scale(ValueId id) const { return options_.row_scales.contains(graph_.value(id).name); }
  bool is_rounded(ValueId id) const { return graph_.type(id).dtype == dtype_; }

  // Is it stored in the narrower dtype? Asked after all its users have been looked at.
  bool is_narrow(ValueId id) const {
    const Value& value = graph_.value(id);
    if (!flows(id) || why_wide(id) || !value.producer.valid()) return false;
    if (const Role role = roles_[size_t(value.producer.index)]; role == Role::other || role == Role::reader)
      return false;
    const size_t v = size_t(id.index);
    // A first product's operand is rounded as late as can be without a node of its own.
    return read_[v] || (computed_[v] && after_[v]);
  }

  Graph& out() { return result_.graph; }

  static Program cast_to(DType dtype) {
    Program program;
    program.push({Scalar::cast, dtype, {0, -1, -1}});
    return program;
  }

  // The value in the new graph, in the dtype in which it is stored.
  ValueId stored(ValueId id) {
    if (!id.valid()) return id;
    ValueId& known = same_[size_t(id.index)];
    if (!known.valid())
      known = out().add_constant(graph_.value(id).name, *graph_.constant(id));  // inputs and results are known
    return known;
  }
  ValueId as(ValueId id, DType dtype) {
    if (!is_f32(id)) return stored(id);
    std::vector<ValueId>& list = dtype == dtype_ ? narrow_ : wide_;
    ValueId& known = list[size_t(id.index)];
    if (known.valid()) return known;
    const std::string name = concat(graph_.value(id).name, '/', dtype);
    if (const Tensor* constant = graph_.constant(id))
      return known = dtype == DType::f32 ? stored(id) : out().add_constant(name, constant->converted(dtype));
    if (const Node* node = graph_.producer(id); node && dtype == dtype_ && node->op.is<ops::DequantizeBlocks>()) {
      ops::DequantizeBlocks blocks = node->op.get<ops::DequantizeBlocks>();
      blocks.dtype = dtype;
      std::vector<ValueId> inputs;
      for (ValueId input : node->inputs) inputs.push_back(stored(input));
      return known = out().add(blocks, std::move(inputs), name, {name}).at(0);
    }
    const ValueId from = stored(id);
    return known = out().type(from).dtype == dtype
                       ? from
                       : out().add(ops::Pointwise{cast_to(dtype)}, {from}, name, {name}).at(0);
  }

  // The program on inputs as stored: what became narrow is cast where it is read, the result where that is.
  Program widened(const Program& program, const std::vector<DType>& before, const std::vector<DType>& now,
                  bool narrow_result) const {
    Program result;
    result.inputs = program.inputs;
    std::vector<int> map;
    map.reserve(size_t(program.inputs) + program.steps.size());
    for (int i = 0; i < program.inputs; ++i)
      map.push_back(before[size_t(i)] == now[size_t(i)] ? i
                                                        : result.push({Scalar::cast, before[size_t(i)], {i, -1, -1}}));
    for (Step step : program.steps) {
      for (int a = 0; a < arity_of(step.op); ++a) step.args[size_t(a)] = map[size_t(step.args[size_t(a)])];
      map.push_back(result.push(step));
    }
    const int last = map[size_t(program.result())];
    if (narrow_result) result.push({Scalar::cast, dtype_, {last, -1, -1}});
    else if (last != result.result())
      result.push({Scalar::cast, program.dtype_of_value(program.result(), before), {last, -1, -1}});
    return simplify(result, now);
  }

  void rebuild() {
    out().name = graph_.name;
    for (ValueId id : graph_.inputs())
      same_[size_t(id.index)] = out().add_input(graph_.value(id).name, graph_.type(id));
    for (int32_t n = 0; n < graph_.node_count(); ++n) {
      time_.check_at(n);
      const Node& node = graph_.node({n});
      Op op = node.op;
      std::vector<ValueId> inputs;
      const Role role = roles_[size_t(n)];
      const bool narrow = is_narrow(node.outputs[0]);
      Program* const program = role == Role::product || role == Role::integer_product ? epilogue_of(op)
                               : role == Role::pointwise ? &op.get<ops::Pointwise>().program
                                                         : nullptr;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId id = node.inputs[i];
        if (role == Role::product && i < 2) inputs.push_back(as(id, dtype_));
        else if (role == Role::product && options_.narrow_biases && is_f32(id) && graph_.constant(id) &&
                 stays_finite(*graph_.constant(id)))
          inputs.push_back(as(id, dtype_));
        else if (program) inputs.push_back(stored(id));
        else if (role == Role::carrier && i >= carried_[size_t(n)]) inputs.push_back(stored(id));
        else inputs.push_back(as(id, narrow ? dtype_ : DType::f32));
      }
      if (program) {
        std::vector<DType> before, now;
        const bool accumulates = role == Role::product || role == Role::integer_product;
        const size_t own = node.inputs.size() - size_t(program->inputs - accumulates);
        if (accumulates)
          before = now = {role == Role::product ? DType::f32
                                                : ops::accumulator_of(graph_.type(node.inputs[0]).dtype,
                                                                      graph_.type(node.inputs[1]).dtype)};
        for (size_t i = own; i < inputs.size(); ++i) {
          before.push_back(graph_.type(node.inputs[i]).dtype);
          now.push_back(out().type(inputs[i]).dtype);
        }
        if (narrow || before != now) *program = widened(*program, before, now, narrow);
      }
      // A cast of what is in this dtype by now, or of what the graph has in it.
      if (role == Role::pointwise && program->is_identity() && inputs.size() == 1 &&
          out().type(inputs[0]) ==
              TensorType{narrow ? dtype_ : graph_.type(node.outputs[0]).dtype, graph_.type(node.outputs[0]).shape}) {
        same_[size_t(node.outputs[0].index)] = inputs[0];
        result_.changed |= narrow;
        continue;
      }
      std::vector<std::string> names;
      for (ValueId id : node.outputs) names.push_back(graph_.value(id).name);
      const auto made = out().add(std::move(op), std::move(inputs), node.name, names);
      for (size_t o = 0; o < made.size(); ++o) same_[size_t(node.outputs[o].index)] = made[o];
      result_.changed |= narrow || role == Role::product;
    }
    for (const GraphOutput& output : graph_.outputs()) out().add_output(output.name, as(output.value, DType::f32));
  }

  void tabulate() {
    for (int32_t n = 0; n < graph_.node_count(); ++n) {
      const Node& node = graph_.node({n});
      const Role role = roles_[size_t(n)];
      const bool product = is_product(node.op) && is_f32(node.inputs[0]);
      result_.products += product;
      result_.lowered_products += role == Role::product;
      std::string reason = reasons_[size_t(n)];
      if ((role == Role::pointwise || role == Role::carrier) && is_f32(node.outputs[0]) &&
          !is_narrow(node.outputs[0])) {
        const std::string* why = why_wide(node.outputs[0]);
        reason = why ? *why : "no product reads it";
      }
      result_.nodes.push_back({node.name, std::string(name_of(node.op)), std::move(reason)});
    }
  }
};

}  // namespace

Lowering lower_precision(const Graph& graph, DType dtype, const LoweringOptions& options, const BuildTime& time) {
  if (dtype != DType::bf16 && dtype != DType::f16)
    fail(ErrorKind::usage, "products are lowered to bf16 or f16, not to ", dtype);
  return Lowerer(graph, dtype, options, time).run();
}

}  // namespace temper
