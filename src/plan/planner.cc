// SPDX-License-Identifier: Apache-2.0
#include "plan/planner.h"

#include <algorithm>
#include <unordered_map>

#include "base/checked.h"
#include "plan/choose.h"
#include "plan/memory.h"
#include "plan/parts.h"
#include "plan/place.h"
#include "plan/views.h"
#include "plan/walk_order.h"

namespace temper {

namespace {

class Builder {
 public:
  Builder(const Graph& graph, const Backend& backend, const Device& device, const PlanOptions& options)
      : graph_(graph),
        backend_(backend),
        device_(device),
        options_(options),
        packs_(options.packs ? *options.packs : own_packs_) {}

  Plan run() {
    for (ValueId id : graph_.inputs()) {
      if (!graph_.type(id).is_concrete())
        fail(ErrorKind::usage, "input '", graph_.value(id).name, "' is ", graph_.type(id),
             ": only concrete shapes can be planned");
      plan_.inputs.push_back({graph_.value(id).name, graph_.type(id)});
    }
    for (const GraphOutput& output : graph_.outputs())
      plan_.outputs.push_back({output.name, graph_.type(output.value)});
    plan_.threads = options_.threads;
    batch_ = analyze_batch(graph_);
    specs_ = options_.segments;
    if (specs_.empty()) specs_.push_back({0, graph_.node_count() - 1, 0, false});
    check_specs();
    choices_ = choose_tactics(graph_, batch_, slices_, backend_, device_, options_);
    place_outputs();
    parts_ = find_parts(graph_, choices_);
    std::vector<PackCache::Wanted> wanted;  // as they are from here on: what is packed may depend on parts
    for (const NodeChoice& choice : choices_)
      if (choice.chosen.tactic) wanted.push_back({&choice.problem, choice.chosen.tactic, &choice.chosen.config});
    packs_.prepare(wanted, device_);
    parts_of_.resize(parts_.size());
    for (size_t v = 0; v < parts_.size(); ++v)
      if (parts_[v].whole.valid()) parts_of_[size_t(parts_[v].whole.index)].push_back({int32_t(v)});
    for (size_t s = 0; s < specs_.size(); ++s) emit_segment(int(s));
    emit_remaining_outputs();
    plan_.shared_bytes = round_up<int64_t>(place_buffers(shared_), 4096);
    for (Segment& segment : plan_.segments)
      for (PlanStep& step : segment.steps) {
        for (BufferRef& ref : step.inputs) resolve(ref);
        for (BufferRef& ref : step.outputs) resolve(ref);
      }
    choose_walk_order(plan_);
    return std::move(plan_);
  }

 private:
  const Graph& graph_;
  const Backend& backend_;
  const Device& device_;
  const PlanOptions& options_;
  PackCache own_packs_;
  PackCache& packs_;
  Plan plan_;
  BatchInfo batch_;
  std::vector<SegmentSpec> specs_;
  std::vector<SliceOf> slices_;  // by node
  std::vector<int> segment_of_;  // by node
  std::vector<NodeChoice> choices_;
  const Views views_{graph_, choices_};
  int reader_threads_ = 1;  // of the step that asks for a reorder

  // Refs of kind shared and local hold an index of these until memory is placed.
  std::vector<Lifetime> shared_;
  std::vector<int> output_of_root_;             // by value id: the user's output buffer it is written to, -1 none
  std::vector<BufferRef> stored_;               // by root value id
  std::vector<Part> parts_;                     // by value id
  std::vector<std::vector<ValueId>> parts_of_;  // by value id of the whole
  std::vector<char> output_done_;
  std::unordered_map<const Tensor*, int> constant_index_;

  std::vector<Lifetime> locals_;  // of the segment being emitted, and its workspace
  int64_t workspace_ = 0;

  ValueId root(ValueId id) const { return views_.root(id); }

  void check_specs() {
    int32_t next = 0;
    segment_of_.assign(size_t(graph_.node_count()), 0);
    slices_.assign(size_t(graph_.node_count()), {});
    for (size_t s = 0; s < specs_.size(); ++s) {
      SegmentSpec& spec = specs_[s];
      if (spec.first != next || spec.last < spec.first - 1 || spec.last >= graph_.node_count())
        throw std::logic_error("segments do not tile the graph");
      next = spec.last + 1;
      if (spec.slice >= batch_.batch) spec.slice = 0;
      if (spec.slice && batch_.batch % spec.slice) throw std::logic_error("a slice does not divide the batch");
      for (int32_t n = spec.first; n <= spec.last; ++n) {
        if (spec.slice && !batch_.node_sliceable[size_t(n)])
          throw std::logic_error("a segment holds a node that cannot be sliced");
        segment_of_[size_t(n)] = int(s);
        slices_[size_t(n)] = {spec.slice, spec.slice ? batch_.batch / spec.slice : 1, spec.parallel && spec.slice};
      }
    }
    if (next != graph_.node_count()) throw std::logic_error("segments do not cover the graph");
  }

  // What was chosen for the node that makes the value, and which of its outputs that is; null where no node makes it.
  std::pair<const NodeChoice*, size_t> made_by(ValueId id) const {
    const Node* node = graph_.producer(id);
    if (!node) return {nullptr, 0};
    const size_t output = size_t(std::find(node->outputs.begin(), node->outputs.end(), id) - node->outputs.begin());
    return {&choices_[size_t(graph_.value(id).producer.index)], output};
  }
  Layout layout_of(ValueId id) const { return views_.layout_of(id); }
  int64_t pitch_of(ValueId id) const {
    const auto [choice, output] = made_by(id);
    return choice ? choice->problem.outputs[output].pitch : 0;
  }
  const TensorType& type(ValueId id) const { return graph_.type(id); }
  int64_t bytes_of(const TensorType& t, Layout layout) const { return layout_bytes(t.dtype, t.dims(), layout); }

  // A root that is computed here, with the bytes that the output has in the plain layout, may be written straight into
  // the user's buffer. A root may serve one output; a second output of the same value is copied.
  void place_outputs() {
    output_of_root_.assign(size_t(graph_.value_count()), -1);
    stored_.assign(size_t(graph_.value_count()), {});
    output_done_.assign(graph_.outputs().size(), 0);
    for (size_t o = 0; o < graph_.outputs().size(); ++o) {
      const ValueId r = root(graph_.outputs()[o].value);
      if (!graph_.value(r).producer.valid() || output_of_root_[size_t(r.index)] >= 0) continue;
      if (!views_.root_layout(graph_.outputs()[o].value, Layout::plain)) continue;
      output_of_root_[size_t(r.index)] = int(o);
      output_done_[o] = 1;
    }
  }

  BufferRef constant_ref(const Tensor* tensor) {
    auto [it, fresh] = constant_index_.emplace(tensor, int(plan_.constants.size()));
    if (fresh) plan_.constants.push_back(std::make_shared<const Tensor>(*tensor));
    return {BufferRef::Kind::constant, it->second, 0};
  }

  int64_t slice_bytes(ValueId id, Layout layout, int segment) const {
    const SegmentSpec& spec = specs_[size_t(segment)];
    if (!spec.slice || !batch_.value_batched[size_t(id.index)]) return 0;
    const TensorType slice = slice_type(type(id), spec.slice);
    const int64_t pitch = pitch_of(id), row = pitch ? row_of(slice.dims(), layout) : 1;
    return bytes_of(slice, layout) / row * (pitch ? pitch : 1);
  }
  TensorType segment_type(ValueId id, int segment) const {
    const SegmentSpec& spec = specs_[size_t(segment)];
    return spec.slice && batch_.value_batched[size_t(id.index)] ? slice_type(type(id), spec.slice) : type(id);
  }

  // The last segment that reads what `r` holds (directly, through views or as a part of it); beyond the end where an
  // output is copied from it.
  int last_segment(ValueId r) const {
    int last = segment_of_[size_t(graph_.value(r).producer.index)];
    std::vector<ValueId> work{r};
    while (!work.empty()) {
      const ValueId id = work.back();
      work.pop_back();
      work.insert(work.end(), parts_of_[size_t(id.index)].begin(), parts_of_[size_t(id.index)].end());
      for (size_t o = 0; o < graph_.outputs().size(); ++o)
        if (graph_.outputs()[o].value == id && !output_done_[o]) last = int(specs_.size());
      for (NodeId user : graph_.value(id).users) {
        last = std::max(last, segment_of_[size_t(user.index)]);
        if (views_.is_view(user)) work.push_back(graph_.node(user).outputs[0]);
      }
    }
    return last;
  }

  void resolve(BufferRef& ref) const {
    if (ref.kind == BufferRef::Kind::shared) ref.at = shared_[size_t(ref.at)].offset;
  }

  int add_local(int64_t bytes, int step) {
    locals_.push_back({bytes, step, step, 0});
    return int(locals_.size()) - 1;
  }

  void touch(const BufferRef& ref, int step, int segment) {
    if (ref.kind == BufferRef::Kind::local) {
      Lifetime& l = locals_[size_t(ref.at)];
      l.last = std::max(l.last, step);
    } else if (ref.kind == BufferRef::Kind::shared) {
      Lifetime& l = shared_[size_t(ref.at)];
      l.last = std::max(l.last, segment);
    }
  }

  // Where value `id` can be read as `wanted` in this segment; adds a reorder step if it must.
  using Reordered = std::map<std::pair<int32_t, Layout>, BufferRef>;
  BufferRef read(ValueId id, Layout wanted, int segment, Segment& out, Reordered& reordered) {
    if (const Tensor* constant = graph_.constant(id)) {
      if (wanted == Layout::plain || same_memory(constant->dims(), Layout::plain, wanted))
        return constant_ref(constant);
      return reorder(id, Layout::plain, wanted, segment, out, reordered, [&] { return constant_ref(constant); });
    }
    const Layout have = layout_of(id);
    const NodeId producer = graph_.value(id).producer;
    // A view: its input in the layout in which it shows it (often that is no work), then read as the view's shape.
    const auto stored = [&] {
      return views_.is_view(producer)
                 ? read(graph_.node(producer).inputs[0], choices_[size_t(producer.index)].chosen.config.inputs[0],
                        segment, out, reordered)
                 : ref_of_root(id, segment, out);
    };
    return same_memory(type(id).dims(), have, wanted) ? stored()
                                                      : reorder(id, have, wanted, segment, out, reordered, stored);
  }
  BufferRef ref_of_root(ValueId id, int segment, const Segment& out) {
    BufferRef ref = stored_[size_t(id.index)];
    if (ref.kind == BufferRef::Kind::none) {  // a graph input
      const auto& inputs = graph_.inputs();
      ref = {BufferRef::Kind::input, std::find(inputs.begin(), inputs.end(), id) - inputs.begin(), 0};
    }
    if (ref.kind != BufferRef::Kind::local) ref.slice_bytes = slice_bytes(id, layout_of(id), segment);
    touch(ref, int(out.steps.size()), segment);
    return ref;
  }

  template <class Source>
  BufferRef reorder(ValueId id, Layout from, Layout to, int segment, Segment& out, Reordered& reordered,
                    Source&& source) {
    if (auto it = reordered.find({id.index, to}); it != reordered.end()) {
      touch(it->second, int(out.steps.size()), segment);
      return it->second;
    }
    const TensorType t = segment_type(id, segment);
    const BufferRef input = source();
    const int step = int(out.steps.size());
    BufferRef result{BufferRef::Kind::local, add_local(bytes_of(t, to), step), 0};
    add_copy(concat("reorder of ", graph_.value(id).name), t, from, to, input, result, out, segment, reader_threads_);
    locals_[size_t(result.at)].last = int(out.steps.size());
    reordered[{id.index, to}] = result;
    return result;
  }

  void add_copy(std::string name, const TensorType& t, Layout from, Layout to, const BufferRef& input,
                const BufferRef& output, Segment& out, int segment, int threads) {
    const SegmentSpec* spec = segment < int(specs_.size()) ? &specs_[size_t(segment)] : nullptr;
    PlanStep step;
    step.node = std::move(name);
    step.problem.threads = spec && spec->parallel && spec->slice ? 1 : threads;
    step.problem.inputs = {{t}};
    step.problem.outputs = {{t}};
    step.config = {"", {from}, {to}};
    step.inputs = {input};
    step.outputs = {output};
    step.code = index_of(packs_.reorder_code(step.reorder(), backend_, device_));
    step.workspace = backend_.reorder(step.reorder(), plan_.packed_of(step).code, device_)->workspace();
    workspace_ = std::max(workspace_, step.workspace);
    out.steps.push_back(std::move(step));
  }

  void emit_segment(int index) {
    const SegmentSpec& spec = specs_[size_t(index)];
    Segment out;
    out.slices = spec.slice ? batch_.batch / spec.slice : 1;
    out.parallel = spec.parallel && spec.slice;
    locals_.clear();
    workspace_ = 0;
    Reordered reordered;
    for (int32_t n = spec.first; n <= spec.last; ++n) {
      const Node& node = graph_.node({n});
      if (views_.is_view({n})) continue;
      if (const ValueId id = node.outputs[0]; parts_[size_t(id.index)].slice) {
        const Part& part = parts_[size_t(id.index)];
        stored_[size_t(id.index)] = stored_[size_t(part.whole.index)];
        stored_[size_t(id.index)].offset += part.offset;
        continue;
      }
      NodeChoice& choice = choices_[size_t(n)];
      with_context([&] { return concat(name_of(node.op), " '", node.name, "'"); },
                   [&] { emit_step(node, n, choice, index, out, reordered); });
    }
    finish(out);
  }

  void finish(Segment& out) {
    out.local_bytes = place_buffers(locals_);
    out.workspace_at = out.local_bytes;
    out.local_bytes = round_up<int64_t>(out.local_bytes + workspace_, 4096);
    for (PlanStep& step : out.steps) {
      auto place = [&](BufferRef& ref) {
        if (ref.kind == BufferRef::Kind::local) ref.at = locals_[size_t(ref.at)].offset;
      };
      for (BufferRef& ref : step.inputs) place(ref);
      for (BufferRef& ref : step.outputs) place(ref);
    }
    if (!out.steps.empty()) plan_.segments.push_back(std::move(out));
  }

  // Input `i` of node `n` is a buffer of this segment as its value was written, and nobody reads it after it or at the
  // same time: the node may write over it.
  bool dies_here(const Node& node, size_t i, const PlanStep& step, int32_t n) const {
    const ValueId id = node.inputs[i];
    if (step.inputs[i].kind != BufferRef::Kind::local || root(id) != id ||
        step.inputs[i] != stored_[size_t(id.index)] || step.config.inputs[i] != step.config.outputs[0] ||
        graph_.type(id) != graph_.type(node.outputs[0]))
      return false;
    for (size_t other = 0; other < step.inputs.size(); ++other)
      if (other != i && step.inputs[other] == step.inputs[i]) return false;
    if (parts_[size_t(id.index)].whole.valid()) return false;
    std::vector<std::pair<ValueId, int32_t>> work{{id, n}};  // and the last node that may read it
    while (!work.empty()) {
      const auto [next, last] = work.back();
      const Value& value = graph_.value(next);
      work.pop_back();
      for (ValueId part : parts_of_[size_t(next.index)]) work.push_back({part, n - 1});  // it is another input of `n`
      if (value.output_uses > 0) return false;
      for (NodeId user : value.users) {
        if (user.index > last) return false;
        if (views_.is_view(user)) work.push_back({graph_.node(user).outputs[0], last});
      }
    }
    return true;
  }

  void emit_step(const Node& node, int32_t n, NodeChoice& choice, int segment, Segment& out, Reordered& reordered) {
    PlanStep step;
    step.node = node.name;
    step.tactic = choice.chosen.tactic->name;
    step.tactic_version = choice.chosen.tactic->version;
    step.config = choice.chosen.config;
    step.problem = choice.problem;
    step.ms = choice.chosen.ms;
    step.losers = std::move(choice.losers);
    reader_threads_ = step.problem.threads;
    const std::vector<bool> consumed = pack(choice, step);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].valid() || (i < consumed.size() && consumed[i])) step.inputs.push_back({});
      else step.inputs.push_back(read(node.inputs[i], step.config.inputs[i], segment, out, reordered));
    }
    const int index = int(out.steps.size());  // reorders have been added before it
    for (const BufferRef& ref : step.inputs) touch(ref, index, segment);
    // Constants that were packed are not needed at load; the others are the plan's own, which outlives the graph.
    for (size_t i = 0; i < step.problem.inputs.size(); ++i) {
      Port& port = step.problem.inputs[i];
      if (port.is_constant)
        port.constant = step.inputs[i].kind == BufferRef::Kind::constant
                            ? plan_.constants[size_t(step.inputs[i].at)].get()
                            : nullptr;
    }
    if (copies_nothing(step.problem)) step.ms = std::min(step.ms, 0.0);
    const auto kernel = choice.chosen.tactic->load(step.problem, step.config, plan_.packed_of(step), device_);
    step.workspace = kernel->workspace();
    workspace_ = std::max(workspace_, step.workspace);
    step.backwards = kernel->go_backwards();  // it could; choose_walk_order says whether it shall
    const int shared_input = kernel->in_place();
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId id = node.outputs[o];
      const Layout layout = step.config.outputs[o];
      // What is a part of another value finds that one's memory, or is the first to need it.
      ValueId whole = id;
      int64_t offset = 0;
      for (; parts_[size_t(whole.index)].whole.valid(); whole = parts_[size_t(whole.index)].whole)
        offset += parts_[size_t(whole.index)].offset;
      BufferRef ref = stored_[size_t(whole.index)];
      const int last = last_segment(whole);
      if (ref.kind != BufferRef::Kind::none) {
        touch(ref, index, segment);
      } else if (const int output = output_of_root_[size_t(whole.index)]; output >= 0) {
        ref = {BufferRef::Kind::output, output};
      } else if (last == segment && whole == id && o == 0 && shared_input >= 0 &&
                 dies_here(node, size_t(shared_input), step, n)) {
        ref = step.inputs[size_t(shared_input)];
      } else if (last == segment) {
        ref = {BufferRef::Kind::local, add_local(bytes_of(segment_type(whole, segment), layout_of(whole)), index)};
      } else {
        shared_.push_back({bytes_of(type(whole), layout_of(whole)), segment, last, 0});
        ref = {BufferRef::Kind::shared, int64_t(shared_.size()) - 1};
      }
      stored_[size_t(whole.index)] = ref;
      ref.offset = offset;
      if (ref.kind != BufferRef::Kind::local) ref.slice_bytes = slice_bytes(id, layout, segment);
      stored_[size_t(id.index)] = ref;
      step.outputs.push_back(ref);
    }
    out.steps.push_back(std::move(step));
  }

  int index_of(const std::shared_ptr<const Tensor>& constant) {
    if (!constant) return -1;
    auto [found, fresh] = constant_index_.emplace(constant.get(), int(plan_.constants.size()));
    if (fresh) plan_.constants.push_back(constant);
    return found->second;
  }

  // Which inputs are not needed once they are packed. What the kernel reads itself and another step brings into its
  // layout is no constant any more.
  std::vector<bool> pack(const NodeChoice& choice, PlanStep& step) {
    const bool packs = choice.chosen.tactic->build != nullptr;
    PackCache::Entry entry;
    if (packs) entry = packs_.get(step.problem, *choice.chosen.tactic, step.config, device_);
    bool moved = false;
    for (size_t i = 0; i < step.problem.inputs.size(); ++i) {
      Port& port = step.problem.inputs[i];
      const Layout layout = step.config.inputs[i];
      if (!port.is_constant || (i < entry.consumed.size() && entry.consumed[i]) || layout == Layout::plain ||
          same_memory(port.dims(), Layout::plain, layout))
        continue;
      port.is_constant = false;
      port.constant = nullptr;
      moved = true;
    }
    if (!packs) return {};
    if (moved) entry = packs_.get(step.problem, *choice.chosen.tactic, step.config, device_);
    step.packed = index_of(entry.packed);
    step.code = index_of(entry.code);
    return entry.consumed;
  }

  // Outputs that are graph inputs, constants, second names of a value, or stored in another layout.
  void emit_remaining_outputs() {
    Segment out;
    locals_.clear();
    workspace_ = 0;
    specs_.push_back({graph_.node_count(), graph_.node_count() - 1, 0, false});
    Reordered reordered;
    for (size_t o = 0; o < graph_.outputs().size(); ++o) {
      if (output_done_[o]) continue;
      const ValueId id = graph_.outputs()[o].value;
      const BufferRef to{BufferRef::Kind::output, int64_t(o), 0};
      const int segment = int(specs_.size()) - 1;
      const ValueId r = root(id);
      const bool direct = id == r && !graph_.constant(id);  // one reorder straight into the user's buffer
      const Layout from = direct ? layout_of(id) : Layout::plain;
      // What reads it is not known: as many threads as wrote it.
      const NodeId producer = graph_.value(r).producer;
      reader_threads_ = producer.valid() && !slices_[size_t(producer.index)].parallel
                            ? choices_[size_t(producer.index)].problem.threads
                            : options_.threads;
      const BufferRef source = read(id, from, segment, out, reordered);
      add_copy(concat("copy to output ", graph_.outputs()[o].name), type(id), from, Layout::plain, source, to, out,
               segment, reader_threads_);
      touch(source, int(out.steps.size()) - 1, segment);
    }
    finish(out);
  }
};

}  // namespace

Plan build_plan(const Graph& graph, const Backend& backend, const Device& device, const PlanOptions& options) {
  return Builder(graph, backend, device, options).run();
}

}  // namespace temper
