// SPDX-License-Identifier: Apache-2.0
// The layers of a plan in the form that explain reads.
#include <algorithm>
#include <map>

#include "bench/layers.h"
#include "bench/profile.h"
#include "bench/table.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/pool.h"
#include "graph/ops/reduce.h"
#include "measure/load_watch.h"

namespace temper {

namespace {

constexpr double kBusy = 1.5, kUneven = 1.3;

std::string precision_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return "fp32";
    case DType::f16: return "fp16";
    case DType::bf16: return "bf16";
    case DType::f64: return "fp64";
    case DType::i8: return "int8";
    case DType::u8: return "uint8";
    case DType::i16: return "int16";
    case DType::u16: return "uint16";
    case DType::i32: return "int32";
    case DType::u32: return "uint32";
    case DType::i64: return "int64";
    case DType::u64: return "uint64";
    case DType::boolean: return "bool";
    case DType::f8e4m3fn: return "fp8";
    default: return std::string(name_of(dtype));
  }
}

LayerKind layer_kind(OpKind kind) {
  switch (kind) {
    case OpKind::convolution: return LayerKind::convolution;
    case OpKind::matmul: return LayerKind::matmul;
    case OpKind::recurrent: return LayerKind::recurrent;
    case OpKind::pooling: return LayerKind::pooling;
    case OpKind::reduction: return LayerKind::reduction;
    case OpKind::pointwise: return LayerKind::pointwise;
    case OpKind::softmax: return LayerKind::softmax;
    case OpKind::attention: return LayerKind::attention;
    case OpKind::normalization: return LayerKind::normalization;
    case OpKind::movement: return LayerKind::movement;
    case OpKind::quantize: return LayerKind::quantize;
    case OpKind::dequantize: return LayerKind::dequantize;
    case OpKind::string:
    case OpKind::other: return LayerKind::other;
  }
  return LayerKind::other;
}

LayerKind kind_of_layer(const PlanStep& step, const EngineLayer& layer) {
  if (step.is_reorder()) return LayerKind::reformat;
  const LayerKind kind = layer_kind(kind_of(step.problem.op));
  if (kind != LayerKind::pointwise || layer.inputs.size() != 1) return kind;
  // A program on one tensor that changes the type: quantization has a few steps (scale, round, cast), a cast none else.
  const Program& program = step.problem.op.get<ops::Pointwise>().program;
  if (program.steps.size() > 8) return kind;
  if (is_float(layer.from) && is_low(layer.to)) return LayerKind::quantize;
  if (is_low(layer.from) && is_float(layer.to)) return LayerKind::dequantize;
  const bool only_casts =
      std::all_of(program.steps.begin(), program.steps.end(), [](const Step& s) { return s.op == Scalar::cast; });
  return only_casts && layer.from != layer.to ? LayerKind::reformat : kind;
}

// Whether the last word of the kernel's configuration says that it leaves work to a second step (backends/cpu: Absorb,
// IntegerAbsorb). An integer product that writes floats has all that it needs in its scale.
bool has_second_step(const PlanStep& step, const EngineLayer& layer) {
  if (!is_product(layer.kind) || step.tactic == "cpu.matmul.onednn") return false;
  const std::string& text = step.config.text;
  const std::string word = text.substr(text.rfind(' ') + 1);
  if (word == "scale") return is_low(layer.to);
  return word == "bias" || word == "relu" || word == "nothing";
}

// For want of a kernel: on the device "reference" that is what was asked for.
bool is_on_reference(const PlanStep& step, const EngineInfo& info) {
  return info.device != "reference" && step.tactic == "reference";
}

// Names for buffers: a buffer is reused, so that a value is the buffer since it was written last.
class Values {
 public:
  Values(const Plan& plan, std::string where) : plan_(plan), where_(std::move(where)) {}
  std::string read(size_t segment, const BufferRef& ref) {
    auto [it, fresh] = names_.try_emplace(key(segment, ref));
    if (fresh) it->second = text(segment, ref);
    return it->second;
  }
  std::string write(size_t segment, const BufferRef& ref) {
    if (ref.kind == BufferRef::Kind::output) return read(segment, ref);
    return names_[key(segment, ref)] = concat(text(segment, ref), ".", ++writes_);
  }

 private:
  using Key = std::array<int64_t, 4>;
  const Plan& plan_;
  std::string where_;  // of a partition: its buffers are its own, its inputs and outputs are the model's values
  std::map<Key, std::string> names_;
  int64_t writes_ = 0;
  static Key key(size_t segment, const BufferRef& ref) {
    return {int64_t(ref.kind), ref.kind == BufferRef::Kind::local ? int64_t(segment) : -1, ref.at, ref.offset};
  }
  static std::string part(const std::string& name, const BufferRef& ref) {
    return ref.offset ? concat(name, "+", ref.offset) : name;
  }
  // Inputs and outputs of the engine by their names.
  std::string text(size_t segment, const BufferRef& ref) const {
    if (ref.kind == BufferRef::Kind::input) return part(plan_.inputs[size_t(ref.at)].name, ref);
    if (ref.kind == BufferRef::Kind::output) return part(plan_.outputs[size_t(ref.at)].name, ref);
    const auto [kind, where, at, offset] = key(segment, ref);
    return concat(where_, where_.empty() ? "buffer " : ": buffer ", kind, ":", where, ":", at,
                  offset ? concat("+", offset) : "");
  }
};

}  // namespace

EngineLayers layers_of(const Profile& profile, const EngineInfo& info, const Peaks& peaks, std::string name) {
  EngineLayers engine;
  engine.name = std::move(name);
  engine.is_plan = true;
  engine.asked = info.precision.substr(0, info.precision.find('+'));  // of int8 with 16 bits: what is lowest
  engine.command = info.command;
  engine.run_ms = profile.run_ms;
  engine.runs = profile.runs;
  engine.peaks = peaks;
  engine.kept = info.not_lowered;
  // Both say that the machine was not left alone; they explain numbers that no rule can.
  const double whole = profile.run_ms, steps = profile.steps_ms;
  // What those on the reference take is a finding, for which no other process is to blame.
  double with_kernels = 0, tuned = 0;
  for (const StepProfile& row : profile.steps)
    if (!is_on_reference(*row.step, info)) with_kernels += row.ms;
  if (profile.plan)
    for (const Segment& segment : profile.plan->segments)
      for (const PlanStep& step : segment.steps)
        if (!is_on_reference(step, info)) tuned += std::max(0.0, step.ms);
  const int64_t untimed = profile.plan ? profile.plan->untimed_steps() : 0;
  const std::string others =
      profile.load_by_others.value_or(0) >= kLoadThatCounts
          ? concat("other processes used ", format_number(*profile.load_by_others, 2), " cores meanwhile")
          : "";
  if (!profile.plan)
    engine.notes.push_back(concat("branches, loops or shapes inside the model depend on data: it ran in ",
                                  profile.partitions.size(),
                                  " partitions, each planned without measuring; other "
                                  "inputs may take others"));
  else if (untimed > 0)
    engine.notes.push_back(
        concat(untimed, " of ", profile.steps.size(), " steps were not timed when the plan was built; here they were"));
  else if (tuned > 0 && with_kernels > kBusy * tuned)
    engine.notes.push_back(concat("the steps ", with_kernels < steps ? "with a kernel " : "", "take ",
                                  format_number(with_kernels / tuned, 2),
                                  " times what they took when they were "
                                  "tuned: ",
                                  others.empty() ? "the clock is lower, or other processes were at work" : others,
                                  "; explain it again when the machine is quiet"));
  else if (whole > kUneven * steps || steps > kUneven * whole)
    engine.notes.push_back(concat("a whole run takes ", format_number(whole), " ms and its steps ",
                                  format_number(steps), others.empty() ? "" : ": ", others));
  else if (!others.empty()) engine.notes.push_back(others);
  engine.disturbed = !engine.notes.empty() && untimed == 0 && profile.plan;
  std::map<const Plan*, Values> values_of_plans;
  for (const StepProfile& row : profile.steps) {
    const PlanStep& step = *row.step;
    const Segment& segment = row.plan->segments[row.segment];
    Values& values = values_of_plans.try_emplace(row.plan, *row.plan, row.where).first->second;
    EngineLayer layer;
    layer.name = row.where.empty() ? step.node : concat(step.node, " (", row.where, ")");
    layer.op = op_of(step);
    auto tensor = [&](const Port& port, const BufferRef& ref, Layout layout, std::string value) {
      LayerTensor t{std::move(value), precision_of(port.type.dtype), std::string(name_of(layout)), port.dims(), {}};
      t.bytes = layout_bytes(port.type.dtype, t.dims, layout) * segment.slices;
      if (ref.kind == BufferRef::Kind::input) engine.inputs.push_back(t.name);
      if (ref.kind == BufferRef::Kind::output) engine.outputs.push_back(t.name);
      return t;
    };
    const Program* epilogue = step.is_reorder() ? nullptr : epilogue_of(step.problem.op);
    const size_t extras = epilogue ? size_t(epilogue->inputs - 1) : 0;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const BufferRef& ref = step.inputs[i];
      const Port& port = step.problem.inputs[i];
      if (ref.kind == BufferRef::Kind::none || ref.kind == BufferRef::Kind::constant || port.is_constant) continue;
      if (i + extras >= step.inputs.size() && port.dims() == step.problem.outputs[0].dims())
        layer.addend = int(layer.inputs.size());
      layer.inputs.push_back(tensor(port, ref, step.config.inputs[i], values.read(row.segment, ref)));
    }
    for (size_t i = 0; i < step.outputs.size(); ++i)
      if (step.outputs[i].kind != BufferRef::Kind::none)
        layer.outputs.push_back(tensor(step.problem.outputs[i], step.outputs[i], step.config.outputs[i],
                                       values.write(row.segment, step.outputs[i])));
    layer.from = precision_of(row.from);
    layer.to = precision_of(row.to);
    layer.kind = kind_of_layer(step, layer);
    if (!is_product(layer.kind)) layer.addend = -1;
    if (!step.is_reorder()) {
      if (const auto* pool = step.problem.op.get_if<ops::Pool>()) layer.average = pool->kind == ops::PoolKind::average;
      if (const auto* reduce = reduce_of(step.problem.op)) layer.average = reduce->kind == ops::ReduceKind::mean;
    }
    layer.ms = row.ms;
    layer.bytes = row.bytes;
    layer.operations = row.operations;
    layer.of_arithmetic = row.of_arithmetic;
    layer.of_memory = row.of_memory;
    layer.tactic =
        step.is_reorder() || step.config.text.empty() ? step.tactic : concat(step.tactic, ' ', step.config.text);
    layer.reference = is_on_reference(step, info);
    layer.second_step = has_second_step(step, layer);
    engine.layers.push_back(std::move(layer));
  }
  return engine;
}

}  // namespace temper
