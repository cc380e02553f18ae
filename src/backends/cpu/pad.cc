// SPDX-License-Identifier: Apache-2.0
// pad on CPUs: padding with a constant copies the box that is left of the input and fills the boxes around it. The
// other modes read the input through one table of positions for each axis.
#include "graph/ops/pad.h"

#include <algorithm>

#include "backends/cpu/box_copy.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/table_copy.h"

namespace temper {

namespace {

// The part of the input that is kept, and where it lies in both tensors.
struct Kept {
  Dims sizes;
  BoxSide from, to;
};

Kept kept_box(const Problem& problem, Layout layout) {
  const auto& op = problem.op.get<ops::Pad>();
  const Dims dims = problem.inputs[0].dims();
  Kept kept{{}, {dims, layout, {}, {}}, {problem.outputs[0].dims(), layout, {}, {}}};
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t before = op.before[i].value(), after = op.after[i].value();
    kept.sizes.push_back(std::max<int64_t>(0, dims[i] + std::min<int64_t>(0, before) + std::min<int64_t>(0, after)));
    kept.from.start.push_back(std::max<int64_t>(0, -before));
    kept.to.start.push_back(std::max<int64_t>(0, before));
  }
  return kept;
}

class ConstantPadKernel final : public Kernel {
 public:
  ConstantPadKernel(const Problem& problem, Layout layout) : threads_(problem.threads) {
    const int64_t size = size_of(problem.outputs[0].type.dtype);
    const Kept kept = kept_box(problem, layout);
    const Dims dims = problem.outputs[0].dims();
    copy_ = BoxCopy(kept.sizes, kept.from, kept.to, size);
    // Axis by axis: the slabs before and behind, over all of the later axes but only the kept part of the earlier ones.
    Dims start(dims.size(), 0), sizes = dims;
    for (size_t i = 0; i < dims.size(); ++i) {
      const int64_t first = kept.to.start[i], last = first + kept.sizes[i];
      for (auto [at, length] : {std::pair{int64_t(0), first}, {last, dims[i] - last}}) {
        start[i] = at;
        sizes[i] = length;
        if (length > 0) fills_.push_back(BoxCopy(sizes, {dims, layout, {}, {}, true}, {dims, layout, start, {}}, size));
      }
      start[i] = first;
      sizes[i] = kept.sizes[i];
    }
    padding_ = ZeroPadding(dims, layout, size);
  }
  void launch(const Buffers& buffers) override {
    static constexpr int64_t zero = 0;
    const void* value = buffers.inputs.size() > 1 && buffers.inputs[1] ? buffers.inputs[1] : &zero;
    for (const BoxCopy& fill : fills_) fill.run(value, buffers.outputs[0], threads_);
    copy_.run(buffers.inputs[0], buffers.outputs[0], threads_);
    padding_.run(buffers.outputs[0]);
  }

 private:
  BoxCopy copy_;
  std::vector<BoxCopy> fills_;
  ZeroPadding padding_;
  int threads_;
};

// The input's position for each position of the output along an axis.
Dims position_table(ops::PadKind kind, int64_t size, int64_t before, int64_t after) {
  const int64_t low = std::max<int64_t>(0, -before), n = size - low - std::max<int64_t>(0, -after);
  auto wrap = [](int64_t a, int64_t m) { return ((a % m) + m) % m; };
  Dims out;
  for (int64_t i = 0; i < size + before + after; ++i) {
    int64_t position = i - before - low;
    if (kind == ops::PadKind::edge) position = std::clamp<int64_t>(position, 0, n - 1);
    else if (kind == ops::PadKind::wrap) position = wrap(position, n);
    else if (n == 1) position = 0;
    else if (position = wrap(position, 2 * (n - 1)); position >= n) position = 2 * (n - 1) - position;
    out.push_back(position + low);
  }
  return out;
}

class TablePadKernel final : public Kernel {
 public:
  TablePadKernel(const Problem& problem, Layout layout) : threads_(problem.threads) {
    const auto& op = problem.op.get<ops::Pad>();
    const Dims dims = problem.inputs[0].dims();
    std::vector<Dims> logical;
    for (size_t i = 0; i < dims.size(); ++i) {
      const int64_t before = op.before[i].value(), after = op.after[i].value();
      logical.push_back(before == 0 && after == 0 ? Dims{} : position_table(op.kind, dims[i], before, after));
    }
    // Channels stay as they are in layouts other than plain, so their pieces have no table.
    std::vector<Dims> tables = logical;
    if (layout != Layout::plain) {
      tables.erase(tables.begin() + 1);
      if (block_of(layout) > 1) tables.insert(tables.begin() + 1, Dims{});
      tables.push_back({});
    }
    copy_ = TableCopy(physical_dims(dims, layout), tables, size_of(problem.inputs[0].type.dtype));
  }
  void launch(const Buffers& buffers) override { copy_.run(buffers.inputs[0], buffers.outputs[0], threads_); }

 private:
  TableCopy copy_;
  int threads_;
};

Support supports(const Problem& problem, const Device&) {
  if (auto s = needs_op<ops::Pad>(problem); !s.yes()) return s;
  if (problem.inputs.size() > 2) return refused("its amounts are data");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device& device) {
  const auto& op = problem.op.get<ops::Pad>();
  std::vector<Config> out;
  for (Layout layout : useful_layouts(problem.outputs[0].dims(), device)) {
    const Kept kept = kept_box(problem, layout);
    const bool channels = layout != Layout::plain && (op.before[1].value() != 0 || op.after[1].value() != 0);
    if (op.kind == ops::PadKind::constant ? !can_copy_box(kept.sizes, kept.from) ||
                                                !can_copy_box(kept.sizes, kept.to) || (channels && block_of(layout) > 1)
                                          : channels)
      continue;
    Config config{"", {layout}, {layout}};
    if (problem.inputs.size() > 1) config.inputs.push_back(Layout::plain);
    out.push_back(std::move(config));
  }
  return out;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView&, const Device&) {
  if (problem.op.get<ops::Pad>().kind == ops::PadKind::constant)
    return std::make_unique<ConstantPadKernel>(problem, config.outputs.at(0));
  return std::make_unique<TablePadKernel>(problem, config.outputs.at(0));
}

}  // namespace

extern const Tactic cpu_pad;
const Tactic cpu_pad{"cpu.pad", 1, supports, configs, nullptr, load};

}  // namespace temper
