// SPDX-License-Identifier: Apache-2.0
#include "plan/check.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "graph/ops/concat.h"
#include "plan/memory.h"

namespace temper {

namespace {

constexpr int64_t kRounding = 4096;

[[noreturn]] void bad(const auto&... why) { fail(ErrorKind::bad_file, why...); }

class Checker {
 public:
  Checker(const Plan& plan, const Backend& backend) : plan_(plan), backend_(backend) {}

  void run() {
    if (plan_.threads < 1 || plan_.threads > 1024) bad("the plan is for ", plan_.threads, " threads");
    for (const PortInfo& port : plan_.inputs)
      with_context([&] { return concat("input '", port.name, "'"); }, [&] { check_concrete(port.type); });
    for (const PortInfo& port : plan_.outputs)
      with_context([&] { return concat("output '", port.name, "'"); }, [&] { check_concrete(port.type); });
    written_.assign(plan_.outputs.size(), false);
    for (const auto& constant : plan_.constants)
      if (!constant || !constant->defined()) bad("a constant is missing");
    // What lies behind it begins where it ends.
    if (plan_.shared_bytes < 0 || plan_.shared_bytes > kMaxTensorBytes || plan_.shared_bytes % kBufferAlignment)
      bad("the shared part of its arena has ", plan_.shared_bytes, " bytes");
    int64_t shared_end = 0;
    for (const Segment& segment : plan_.segments) {
      segment_ = &segment;
      local_end_ = workspace_ = 0;
      check_segment();
      shared_end = std::max(shared_end, shared_end_);
    }
    for (double ms : {plan_.whole.ms, plan_.whole.low, plan_.whole.high, plan_.whole.load})
      if (!std::isfinite(ms)) bad("its measured time is not a number");
    // An arena of just the size that its buffers need: a plan must not ask for memory that it cannot use.
    if (plan_.shared_bytes > shared_end + kBufferAlignment + kRounding)
      bad("the shared part of its arena has ", plan_.shared_bytes, " bytes where ", shared_end, " are used");
    for (size_t o = 0; o < written_.size(); ++o)
      if (!written_[o]) bad("no step writes the output '", plan_.outputs[o].name, "'");
  }

 private:
  const Plan& plan_;
  const Backend& backend_;
  const Segment* segment_ = nullptr;
  int64_t shared_end_ = 0, local_end_ = 0, workspace_ = 0;
  std::vector<bool> written_;

  void check_segment() {
    const Segment& s = *segment_;
    // Slices are parts of the batch: there are no more of them than samples.
    const int64_t most = plan_.inputs.empty() || plan_.inputs[0].type.shape.empty()
                             ? 1
                             : std::max<int64_t>(1, plan_.inputs[0].type.shape[0].value());
    if (s.slices < 1 || s.slices > most) bad("a segment has ", s.slices, " slices of a batch of ", most);
    if (s.local_bytes < 0 || s.local_bytes > kMaxTensorBytes || s.workspace_at < 0 || s.workspace_at > s.local_bytes ||
        s.workspace_at % kBufferAlignment || s.local_bytes % kBufferAlignment)
      bad("a segment has a workspace at ", s.workspace_at, " of ", s.local_bytes, " bytes");
    const int64_t chains = s.parallel ? plan_.threads : 1;
    if (checked_add(plan_.shared_bytes, checked_mul(s.local_bytes, chains)) > kMaxTensorBytes)
      bad("its arena is larger than ", kMaxTensorBytes, " bytes");
    for (const PlanStep& step : s.steps)
      with_context([&] { return concat("step '", step.node, "'"); }, [&] { check_step(step); });
    if (local_end_ > s.workspace_at) bad("a segment's buffers reach into its workspace");
    if (s.local_bytes > local_end_ + workspace_ + 2 * (kBufferAlignment + kRounding))
      bad("a segment has ", s.local_bytes, " bytes where ", local_end_ + workspace_, " are used");
  }

  void check_step(const PlanStep& step) {
    const Problem& problem = step.problem;
    if (problem.threads < 1 || problem.threads > (segment_->parallel ? 1 : plan_.threads))
      bad("it is for ", problem.threads, " threads");
    if (problem.inputs.size() != step.inputs.size() || step.config.inputs.size() != step.inputs.size())
      bad("its inputs differ in number");
    if (problem.outputs.size() != step.outputs.size() || step.config.outputs.size() != step.outputs.size() ||
        step.outputs.empty())
      bad("its outputs differ in number");
    for (int index : {step.packed, step.code})
      if (index < -1 || index >= int64_t(plan_.constants.size())) bad("its packed constant ", index, " does not exist");
    if (!std::isfinite(step.ms)) bad("its time is not a number");
    const Tactic* tactic = nullptr;
    if (!step.is_reorder()) {
      for (const Tactic* candidate : backend_.tactics())
        if (candidate->name == step.tactic) tactic = candidate;
      if (!tactic || tactic->version != step.tactic_version)
        fail(ErrorKind::unsupported, "this build has no tactic ", step.tactic, " version ", step.tactic_version,
             " for the device '", backend_.name, "'");
    }
    if (step.packed >= 0 && !(tactic && tactic->build)) bad("it has a packed constant that nothing reads");
    if (step.code >= 0 && !(tactic ? tactic->build != nullptr : backend_.compile_reorder != nullptr))
      bad("it has code that nothing runs");
    for (size_t i = 0; i < step.inputs.size(); ++i)
      with_context([&] { return concat("input ", i); }, [&] { check_input(step, i, tactic && tactic->build); });
    for (size_t o = 0; o < step.outputs.size(); ++o)
      with_context([&] { return concat("output ", o); }, [&] { check_output(step, o); });
    if (step.is_reorder()) check_reorder(step);
    else check_types(step);
    if (step.workspace < 0 || step.workspace > segment_->local_bytes - segment_->workspace_at)
      bad("its workspace of ", step.workspace, " bytes does not fit");
    workspace_ = std::max(workspace_, step.workspace);
  }

  void check_input(const PlanStep& step, size_t i, bool packs) {
    const Port& port = step.problem.inputs[i];
    const BufferRef& ref = step.inputs[i];
    if (!port.present) {
      if (ref != BufferRef{} || port.is_constant || port.pitch || port.in_place) bad("it is absent, but has a buffer");
      return;
    }
    check_concrete(port.type);
    if (ref.kind == BufferRef::Kind::none) {
      if (!port.is_constant || !packs || port.pitch || port.in_place || ref != BufferRef{}) bad("it has no buffer");
      return;
    }
    check_ref(ref, port, step.config.inputs[i]);
    if (port.in_place) check_in_place(step, i);
    if (!port.is_constant) return;
    if (ref.kind != BufferRef::Kind::constant || plan_.constants[size_t(ref.at)].get() != port.constant ||
        port.constant->type() != port.type)
      bad("it is not the constant that it claims to be");
  }

  void check_output(const PlanStep& step, size_t o) {
    const Port& port = step.problem.outputs[o];
    const BufferRef& ref = step.outputs[o];
    if (!port.present || port.is_constant || port.in_place) bad("an output cannot be absent, constant or in place");
    check_concrete(port.type);
    if (ref.kind != BufferRef::Kind::output && ref.kind != BufferRef::Kind::shared &&
        ref.kind != BufferRef::Kind::local)
      bad("it has no buffer to write to");
    check_ref(ref, port, step.config.outputs[o]);
    if (ref.kind == BufferRef::Kind::output) written_[size_t(ref.at)] = true;
  }

  // A concat's input that nobody copies lies where it would be copied to.
  void check_in_place(const PlanStep& step, size_t input) {
    const auto* op = step.problem.op.get_if<ops::Concat>();
    if (step.is_reorder() || !op || step.outputs.empty()) bad("nothing but an input of a concat is in place");
    check_concrete(step.problem.outputs[0].type);
    const Dims dims = step.problem.outputs[0].dims();
    const auto axis = size_t(op->axis);
    const Layout layout = step.config.outputs[0];
    if (axis >= dims.size() || !layout_fits(dims, layout))
      bad("it is in place along the axis ", op->axis, " of ", step.problem.outputs[0].type);
    Dims front = dims;
    front[axis] = 0;
    for (size_t i = 0; i < input; ++i) {
      const Dims before = step.problem.inputs[i].dims();
      if (before.size() != dims.size()) bad("its ranks differ");
      front[axis] = checked_add(front[axis], before[axis]);
    }
    if (front[axis] > dims[axis]) bad("it is in place behind the end of the output");
    // With a pitch it begins within the first row of the output.
    const int64_t elements = step.problem.inputs[input].pitch ? front[axis] : layout_elements(front, layout);
    BufferRef part = step.outputs[0];
    part.offset = checked_add(part.offset, elements * size_of(step.problem.outputs[0].type.dtype));
    if (step.inputs[input] != part) bad("it is in place, but not where the output has it");
  }

  void check_ref(const BufferRef& ref, const Port& port, Layout layout) {
    const TensorType& type = port.type;
    const Dims dims = type.dims();
    if (ref.offset < 0 || port.pitch < 0 || port.pitch > kMaxTensorBytes || !pitch_fits(dims, layout, port.pitch))
      bad("rows that are ", port.pitch, " elements apart do not fit ", type);
    const int64_t alignment = port.pitch ? kPartAlignment : kBufferAlignment;
    if (ref.offset % alignment || port.pitch * size_of(type.dtype) % kPartAlignment)
      bad("a part of a larger tensor is at ", ref.offset, ", its rows ", port.pitch,
          " elements apart: no multiples of ", alignment, " bytes");
    if (ref.offset && (ref.kind == BufferRef::Kind::input || ref.kind == BufferRef::Kind::constant))
      bad("a part of an input or constant");
    if (!layout_fits(dims, layout)) bad(type, " cannot be in the layout ", layout);
    if (ref.at < 0 || ref.slice_bytes < 0) bad("an offset is negative");
    if (ref.slice_bytes % size_of(type.dtype)) bad("a slice starts inside an element");
    const int64_t bytes = layout_bytes(type.dtype, dims, layout, port.pitch);
    const int64_t extent =
        checked_add(ref.offset, checked_add(checked_mul(segment_->slices - 1, ref.slice_bytes), bytes));
    auto within = [&](int64_t at, int64_t size, std::string_view what) {
      if (checked_add(at, extent) > size)
        bad(what, " has ", size, " bytes; the bytes ", at, " to ", at + extent, " are wanted");
    };
    auto user_buffer = [&](const std::vector<PortInfo>& ports, std::string_view what) {
      if (ref.at >= int64_t(ports.size())) bad("there is no ", what, ' ', ref.at);
      const TensorType& whole = ports[size_t(ref.at)].type;
      within(0, byte_count(whole.dtype, whole.dims()), what);
    };
    switch (ref.kind) {
      case BufferRef::Kind::none: bad("it has no buffer");
      case BufferRef::Kind::input: return user_buffer(plan_.inputs, "input");
      case BufferRef::Kind::output: return user_buffer(plan_.outputs, "output");
      case BufferRef::Kind::constant:
        if (ref.at >= int64_t(plan_.constants.size())) bad("there is no constant ", ref.at);
        return within(0, plan_.constants[size_t(ref.at)]->bytes(), "the constant");
      case BufferRef::Kind::shared:
        within(ref.at, plan_.shared_bytes, "the arena");
        shared_end_ = std::max(shared_end_, ref.at + extent);
        break;
      case BufferRef::Kind::local:
        if (ref.slice_bytes) bad("a buffer of one slice has a distance between slices");
        within(ref.at, segment_->local_bytes, "the segment");
        local_end_ = std::max(local_end_, ref.at + extent);
        break;
    }
    if (ref.at % kBufferAlignment) bad("the offset ", ref.at, " is not a multiple of ", kBufferAlignment);
  }

  void check_reorder(const PlanStep& step) {
    const Problem& problem = step.problem;
    if (problem.inputs.size() != 1 || problem.outputs.size() != 1 || !problem.inputs[0].present ||
        problem.inputs[0].is_constant || problem.inputs[0].type != problem.outputs[0].type || problem.has_parts())
      bad("it is no reorder of one tensor");
  }

  // The types of the outputs, as a graph of this one node has them.
  void check_types(const PlanStep& step) {
    Graph graph;
    std::vector<ValueId> inputs;
    for (const Port& port : step.problem.inputs) {
      if (!port.present) inputs.push_back({});
      else if (port.constant) inputs.push_back(graph.add_constant("constant", *port.constant));
      else inputs.push_back(graph.add_input("input", port.type));
    }
    const std::vector<ValueId> outputs = graph.add(step.problem.op, inputs, step.node);
    if (outputs.size() != step.problem.outputs.size()) bad("its op has ", outputs.size(), " outputs");
    for (size_t o = 0; o < outputs.size(); ++o)
      if (graph.type(outputs[o]) != step.problem.outputs[o].type)
        bad("output ", o, " is ", graph.type(outputs[o]), ", not ", step.problem.outputs[o].type);
  }
};

}  // namespace

void check_concrete(const TensorType& type) {
  if (!type.is_concrete()) bad(type, " has dimensions that are not known");
  if (type.shape.size() > 64) bad("a tensor of rank ", type.shape.size());
  // Empty tensors count too: their strides must not overflow either.
  int64_t bytes = size_of(type.dtype);
  for (const Dim& dim : type.shape) {
    if (dim.value() < 0) bad(type, " has a negative dimension");
    bytes = checked_mul(bytes, std::max<int64_t>(1, dim.value()));
  }
  if (bytes > kMaxTensorBytes) bad(type, " is larger than ", kMaxTensorBytes, " bytes");
}

void check_plan(const Plan& plan, const Backend& backend) { Checker(plan, backend).run(); }

}  // namespace temper
