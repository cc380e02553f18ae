// SPDX-License-Identifier: Apache-2.0
// Convolution of f32 as a product by constant weights in panels (panels.h), where channels lie side by side. A chunk of
// pixels is unfolded into rows once, which stay in L2 while panels pass by; a filter of one pixel reads the picture as
// it lies. Groups never share a panel, as they do in int8_panels.cc: a zero weight times another group's NaN is a NaN.
#include <cstring>

#include "backends/cpu/activation.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/panels.h"
#include "backends/cpu/picture.h"
#include "base/threads.h"

namespace temper {

namespace {

constexpr Layout kLayout = Layout::channels_last;
constexpr int64_t kUnfolded = 768 << 10;     // bytes of the rows of a chunk
constexpr int64_t kLeast = 16, kMost = 192;  // rows of a chunk
constexpr int64_t kParallel = 1 << 16;       // operations worth a thread

Config config_of(const Problem& problem) {
  Config config{"", {kLayout, Layout::plain}, {kLayout}};
  for (const TensorType& extra : extra_types(problem, 2))
    config.inputs.push_back(extra_layout(extra, problem.outputs[0].type, kLayout));
  return config;
}

// Whether rows of the left matrix are pixels of the picture, as they lie.
bool is_unfolded(const Picture& picture) {
  const auto whole = [](const PictureAxis& axis) {
    return axis.kernel == 1 && axis.stride == 1 && axis.begin == 0 && axis.in == axis.out;
  };
  return picture.groups == 1 && whole(picture.height) && whole(picture.width);
}

Panels panels_of(const Picture& picture) { return {picture.depth(), picture.group_columns()}; }

class ConvPanelsKernel final : public Kernel {
 public:
  ConvPanelsKernel(const Problem& problem, const Config& config, std::span<const std::byte> packed)
      : picture_(picture_of(problem, 1)),
        panels_(panels_of(picture_)),
        threads_(std::max(1, problem.threads)),
        weights_(reinterpret_cast<const float*>(packed.data())) {
    const Config wanted = config_of(problem);
    expect_layouts(config, wanted.inputs, wanted.outputs);
    expect_packed(packed, size_t(picture_.groups * panels_.floats()) * sizeof(float));
    const ActivatedEpilogue epilogue = activated_epilogue(problem, kLayout, true);
    activation_ = epilogue.activation;
    residual_ = epilogue.residual >= 0 ? epilogue.residual + 2 : -1;
    bias_ = epilogue.absorbed.bias >= 0 ? epilogue.absorbed.bias + 2 : -1;
    tail_ = EpilogueTail(problem, DType::f32, epilogue.absorbed.rest, kLayout);
    unfolded_ = is_unfolded(picture_);
    // Chunks that all threads have the same number of, if there are enough rows.
    const int64_t rows = picture_.pixels(),
                  fit = std::clamp<int64_t>(kUnfolded / (panels_.depth * int64_t(sizeof(float))), kLeast, kMost);
    const int64_t each = ceil_div(ceil_div(rows, fit), int64_t(threads_)) * threads_;
    chunk_ = std::min(round_up(ceil_div(rows, each), kPanelRows), round_up(fit, kPanelRows));
    slice_ = panel_slice(panels_.depth, chunk_);
    // A line of memory more than a row has: rows that are multiples of 4096 bytes apart would share few places in L1.
    stride_ = unfolded_ ? picture_.channels : round_up<int64_t>(panels_.depth, 16) + 16;
    scratch_ = unfolded_ ? 0 : chunk_ * stride_ * int64_t(sizeof(float));
  }

  int64_t workspace() const override { return tail_.workspace(threads_ * scratch_); }
  bool reads(size_t input) const override { return input != 1; }

  void launch(const Buffers& buffers) override {
    const auto* const x = static_cast<const float*>(buffers.inputs[0]);
    const float* const bias = bias_ >= 0 ? static_cast<const float*>(buffers.inputs[size_t(bias_)]) : nullptr;
    const float* const residual =
        residual_ >= 0 ? static_cast<const float*>(buffers.inputs[size_t(residual_)]) : nullptr;
    auto* const y = static_cast<float*>(tail_.destination(buffers));
    auto* const scratch = static_cast<std::byte*>(tail_.scratch(buffers));
    const int64_t blocks = ceil_div(picture_.pixels(), chunk_) * picture_.groups, panels = panels_.count();
    // Where rows are few, threads share out the panels of a chunk.
    const int64_t parts = blocks >= threads_ ? 1 : std::min<int64_t>(panels, ceil_div<int64_t>(threads_, blocks));
    const int64_t each = 2 * chunk_ * panels_.depth * panels_.columns / parts;
    parallel_for_threads(threads_, blocks * parts, std::max<int64_t>(1, kParallel / std::max<int64_t>(1, each)),
                         [&](int thread, int64_t begin, int64_t end) {
                           auto* const rows = reinterpret_cast<float*>(scratch + thread * scratch_);
                           for (int64_t task = begin; task < end; ++task) {
                             const int64_t part = task % parts, block = task / parts;
                             run(x, bias, residual, y, rows, block / picture_.groups * chunk_, block % picture_.groups,
                                 part * panels / parts, (part + 1) * panels / parts);
                           }
                         });
    tail_.run(buffers);
  }

 private:
  Picture picture_;
  Panels panels_;  // of a group
  int threads_;
  const float* weights_;
  Activation activation_;
  int bias_ = -1, residual_ = -1;
  bool unfolded_ = false;
  int64_t chunk_ = 0, slice_ = 0, stride_ = 0, scratch_ = 0;  // rows; steps of k; floats of a row; bytes of a thread
  EpilogueTail tail_;

  // Pixels of the output from `first` on, for columns of panels [begin, end) of a group.
  void run(const float* x, const float* bias, const float* residual, float* y, float* unfolded, int64_t first,
           int64_t group, int64_t begin, int64_t end) const {
    const int64_t rows = std::min(chunk_, picture_.pixels() - first), column = group * panels_.columns;
    if (!unfolded_)
      for (int64_t r = 0; r < rows; ++r)
        gather_row(picture_, x, first + r, group, unfolded + r * stride_, 0.f,
                   [](const float* from, int64_t count, float* to) { std::copy_n(from, count, to); });
    float* const to = y + first * picture_.columns + column;
    multiply_panels(panels_,
                    {unfolded_ ? x + first * picture_.channels : unfolded, stride_, weights_ + group * panels_.floats(),
                     bias ? bias + column : nullptr, to, picture_.columns, rows, slice_},
                    begin, end);
    const int64_t from = begin * kPanel, count = std::min(end * kPanel, panels_.columns) - from;
    for (int64_t r = 0; r < rows; ++r) {
      float* const row = to + r * picture_.columns + from;
      activate_row(activation_, residual ? residual + (row - y) : nullptr, row, count);
    }
  }
};

Support supports(const Problem& problem, const Device&) {
  if (auto s = needs_op<ops::Conv>(problem); !s.yes()) return s;
  if (problem.inputs[0].type.dtype != DType::f32) return refused("not of f32");
  if (problem.inputs[0].dims().size() > 4) return refused("three spatial axes");
  if (!problem.inputs[1].is_constant) return refused("the weights are not constant");
  if (element_count(problem.outputs[0].dims()) == 0 || element_count(problem.inputs[0].dims()) == 0)
    return refused("an empty tensor");
  const AbsorbedEpilogue epilogue = activated_epilogue(problem, kLayout, true).absorbed;
  if (auto s = EpilogueTail::supports(problem, DType::f32, epilogue.rest, kLayout); !s.yes())
    return refused("its epilogue: ", s.reason);
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device&) { return {config_of(problem)}; }

// Packed: the panels of each group.
Packed build(const Problem& problem, const Config&, const Device&) {
  const Picture picture = picture_of(problem, 1);
  const Panels panels = panels_of(picture);
  Packed packed;
  packed.bytes.resize(size_t(picture.groups * panels.floats()) * sizeof(float));
  std::memset(packed.bytes.data(), 0, packed.bytes.size());
  auto* const to = reinterpret_cast<float*>(packed.bytes.data());
  const float* const weights = problem.inputs[1].constant->data<float>();
  each_weight(problem, picture, [&](int64_t k, int64_t column, int64_t from) {
    to[column / panels.columns * panels.floats() + panels.place(k, column % panels.columns)] = weights[from];
  });
  packed.consumed.assign(problem.inputs.size(), false);
  packed.consumed[1] = true;
  return packed;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView& packed, const Device&) {
  return std::make_unique<ConvPanelsKernel>(problem, config, packed);
}

}  // namespace

extern const Tactic cpu_conv_panels;
const Tactic cpu_conv_panels{"cpu.conv.panels", 3, supports, configs, build, load};

}  // namespace temper
