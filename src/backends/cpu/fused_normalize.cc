// SPDX-License-Identifier: Apache-2.0
// fused_normalize on CPUs: a few rows at a time go through prologue, normalisation and epilogue while they are in L1.
// The results are bit for bit those of the three steps apart in the same layout.
#include <algorithm>
#include <optional>

#include "backends/axes.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/normalize_row.h"
#include "backends/cpu/pointwise_threads.h"
#include "base/checked.h"
#include "base/threads.h"
#include "graph/ops/fused.h"

namespace temper {

namespace {

constexpr int64_t kBlock = 6144;  // elements of the rows that are taken together: 24 KiB, which L1 holds

// Rows run along the last axis of the plain layout, or along channels that lie last.
std::optional<Layout> layout_of(const Problem& problem, const ops::Normalize& op) {
  const Dims dims = problem.outputs[0].dims();
  if (op.groups != 1 || op.axes.size() != 1) return std::nullopt;
  if (op.axes[0] + 1 == int64_t(dims.size())) return Layout::plain;
  if (op.axes[0] == 1 && layout_fits(dims, Layout::channels_last)) return Layout::channels_last;
  return std::nullopt;
}

// An operand of a program over rows of n elements, [rows..., n] in memory: where a row's part of it begins.
struct Operand {
  bool each_row = true, no_row = true;  // a part for each row, one behind the other; one for all rows; else by strides
  Dims strides;                         // bytes, for each axis of the rows
  int64_t part = 1;                     // elements of a row's part: n or 1
  int64_t bytes = 0;                    // of a row's part
};

// Nothing where a row's part does not lie in one piece. Operands that repeat are plain in every layout.
std::optional<Operand> operand_of(const TensorType& type, const Dims& dims, Layout layout) {
  const Dims sizes = physical_dims(dims, layout);
  const Dims strides = type.dims() == dims
                           ? row_major_strides(sizes)
                           : physical_strides(broadcast_strides(type.dims(), dims), layout);  // 0 where it repeats
  const int64_t bytes = size_of(type.dtype);
  if (sizes.back() != 1 && strides.back() > 1) return std::nullopt;
  Operand operand;
  operand.part = strides.back() ? sizes.back() : 1;
  operand.bytes = operand.part * bytes;
  operand.strides.assign(sizes.size() - 1, 0);
  int64_t behind = operand.part;  // elements of all parts along the axes behind this one, if there is one for each
  for (size_t axis = sizes.size() - 1; axis-- > 0; behind *= sizes[axis]) {
    if (sizes[axis] == 1) continue;
    if (strides[axis] != behind) operand.each_row = false;
    if (strides[axis] != 0) operand.no_row = false;
    operand.strides[axis] = strides[axis] * bytes;
  }
  return operand;
}

// A program over blocks of rows, for one thread.
class RowProgram {
 public:
  // `rows`: of a block; `rest`: of the last one, where it has fewer.
  // Inputs are `types`, where `operands` say; `dims` are the rows' as they lie in memory.
  RowProgram(const Program& program, const std::vector<TensorType>& types, std::vector<Operand> operands, DType result,
             const Dims& dims, int64_t rows, int64_t rest)
      : dims_(dims), rows_(rows), operands_(std::move(operands)), inputs_(types.size()) {
    const auto make = [&](int64_t count) {
      std::vector<TensorType> parts;
      for (size_t i = 0; i < types.size(); ++i)
        parts.push_back(type_of(types[i].dtype, {operands_[i].no_row ? 1 : count, operands_[i].part}));
      return make_pointwise_kernel(program, parts, type_of(result, {count, dims.back()}), Layout::plain, 1);
    };
    kernel_ = make(rows);
    if (rest) rest_ = make(rest);
  }

  // Rows `first` to `first + count` of the operands from `from` on; an operand that `given` stands for begins there.
  void run(std::span<const void* const> from, const void* given, int64_t first, int64_t count, void* to) {
    for (size_t i = 0; i < operands_.size(); ++i)
      inputs_[i] = i == 0 && given ? given : static_cast<const std::byte*>(from[i]) + offset(operands_[i], first);
    void* outputs[] = {to};
    (count == rows_ ? kernel_ : rest_)->launch({inputs_, outputs});
  }

 private:
  Dims dims_;
  int64_t rows_;
  std::vector<Operand> operands_;
  std::vector<const void*> inputs_;
  std::unique_ptr<Kernel> kernel_, rest_;

  int64_t offset(const Operand& operand, int64_t row) const {
    if (operand.no_row) return 0;
    if (operand.each_row) return row * operand.bytes;
    int64_t bytes = 0;
    for (size_t axis = operand.strides.size(); axis-- > 0; row /= dims_[axis])
      bytes += row % dims_[axis] * operand.strides[axis];
    return bytes;
  }
};

class FusedNormalizeKernel final : public Kernel {
 public:
  FusedNormalizeKernel(const Problem& problem, const ops::FusedNormalize& op, Layout layout)
      : op_(op), out_size_(size_of(problem.outputs[0].type.dtype)), own_(size_t(op.prologue.inputs)) {
    const Dims dims = problem.outputs[0].dims(), lie = physical_dims(dims, layout);
    n_ = lie.back();
    const int64_t elements = element_count(dims);
    count_ = n_ ? elements / n_ : 0;
    threads_ = pointwise_threads(elements, problem.threads);
    std::vector<TensorType> types;
    std::vector<Operand> operands;
    for (const Port& port : problem.inputs) {
      types.push_back(port.type);
      operands.push_back(operand_of(port.type, dims, layout).value());
    }
    const auto by_strides = [](const Operand& operand) { return !operand.no_row && !operand.each_row; };
    if (count_ && std::ranges::none_of(operands, by_strides))
      rows_ = std::clamp<int64_t>(kBlock / n_, 1, ceil_div<int64_t>(count_, threads_));
    const auto own = int64_t(own_);
    const std::vector<TensorType> before(types.begin(), types.begin() + own);
    const std::vector<Operand> operands_before(operands.begin(), operands.begin() + own);
    // The epilogue begins at the rows, in the place of the last input of the prologue.
    types[own_ - 1] = type_of(DType::f32, dims);
    operands[own_ - 1] = operand_of(types[own_ - 1], dims, layout).value();
    const std::vector<TensorType> behind(types.begin() + own - 1, types.end());
    const std::vector<Operand> operands_behind(operands.begin() + own - 1, operands.end());
    for (int t = 0; count_ && t < threads_; ++t) {
      if (!op.prologue.is_identity())
        before_.emplace_back(op.prologue, before, operands_before, DType::f32, lie, rows_, count_ % rows_);
      if (!op.epilogue.is_identity())
        behind_.emplace_back(op.epilogue, behind, operands_behind, problem.outputs[0].type.dtype, lie, rows_,
                             count_ % rows_);
    }
  }

  int64_t workspace() const override { return threads_ * scratch(); }

  void launch(const Buffers& buffers) override {
    if (!count_) return;
    parallel_for_threads(threads_, ceil_div(count_, rows_),
                         std::max<int64_t>(1, kPointwisePerThread / std::max<int64_t>(1, rows_ * n_)),
                         [&](int thread, int64_t begin, int64_t end) {
                           for (int64_t block = begin; block < end; ++block) run_block(buffers, thread, block * rows_);
                         });
  }

 private:
  ops::FusedNormalize op_;
  int64_t out_size_;                      // bytes of an element
  int64_t n_ = 0, count_ = 0, rows_ = 1;  // elements of a row; rows; of which so many are taken together
  size_t own_;                            // inputs of the prologue
  int threads_ = 1;
  std::vector<RowProgram> before_, behind_;  // for each thread

  int64_t scratch() const { return round_up<int64_t>(rows_ * n_ * int64_t(sizeof(float)), 64) + 64; }

  void run_block(const Buffers& buffers, int thread, int64_t first) {
    const int64_t count = std::min(rows_, count_ - first), at = first * n_;
    auto* const scratch_rows =
        reinterpret_cast<float*>(static_cast<std::byte*>(buffers.workspace) + thread * scratch());
    const float* x = static_cast<const float*>(buffers.inputs[0]) + at;
    if (!before_.empty()) {
      float* const given = op_.gives_input ? static_cast<float*>(buffers.outputs[1]) + at : scratch_rows;
      before_[size_t(thread)].run(buffers.inputs, nullptr, first, count, given);
      x = given;
    } else if (op_.gives_input) {
      std::copy_n(x, count * n_, static_cast<float*>(buffers.outputs[1]) + at);
    }
    float* const y = behind_.empty() ? static_cast<float*>(buffers.outputs[0]) + at : scratch_rows;
    for (int64_t r = 0; r < count; ++r)
      normalize_row(x + r * n_, y + r * n_, n_, float(op_.normalize.epsilon), op_.normalize.center);
    if (behind_.empty()) return;
    auto* const out = static_cast<std::byte*>(buffers.outputs[0]) + at * out_size_;
    // Input 0 of the epilogue is y; the others follow those of the prologue.
    behind_[size_t(thread)].run(buffers.inputs.subspan(own_ - 1), y, first, count, out);
  }
};

Support supports(const Problem& problem, const Device&) {
  if (auto s = needs_op<ops::FusedNormalize>(problem); !s.yes()) return s;
  const auto& op = problem.op.get<ops::FusedNormalize>();
  // Of other axes the normalisation alone offers more layouts than rows have.
  const auto layout = layout_of(problem, op.normalize);
  if (!layout) return refused("it is neither over the last axis nor over channels alone");
  std::vector<DType> dtypes;
  dtypes.reserve(size_t(op.prologue.inputs));
  for (int i = 0; i < op.prologue.inputs; ++i) dtypes.push_back(problem.inputs[size_t(i)].type.dtype);
  if (op.prologue.infer(dtypes) != DType::f32) return refused("what is normalised is not f32");
  for (const Port& port : problem.inputs)
    if (!operand_of(port.type, problem.outputs[0].dims(), *layout))
      return refused("an operand ", port.type, " does not lie along the rows");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device&) {
  const Layout layout = *layout_of(problem, problem.op.get<ops::FusedNormalize>().normalize);
  Config config = uniform_config(problem, layout);
  for (size_t i = 0; i < problem.inputs.size(); ++i)
    if (problem.inputs[i].dims() != problem.outputs[0].dims()) config.inputs[i] = Layout::plain;
  return {config};
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView&, const Device&) {
  return std::make_unique<FusedNormalizeKernel>(problem, problem.op.get<ops::FusedNormalize>(), config.outputs.at(0));
}

}  // namespace

extern const Tactic cpu_fused_normalize;
const Tactic cpu_fused_normalize{"cpu.fused_normalize", 2, supports, configs, nullptr, load};

}  // namespace temper
