// SPDX-License-Identifier: Apache-2.0
// Products of f32 with constant weights, packed in panels of 48 columns (panels.h).
#include "backends/cpu/cpu.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/panel_product.h"
#include "backends/cpu/panels.h"

namespace temper {

namespace {

constexpr int64_t kChunk = 192;  // rows that a thread takes through all its panels

using Sizes = PanelProductSizes<Panels>;

AbsorbedEpilogue epilogue_of(const Problem& problem) {
  const Dims y = problem.outputs[0].dims();
  return absorb_epilogue(problem.op.get<ops::MatMul>().epilogue, DType::f32, extra_types(problem, 2),
                         problem.outputs[0].type, y.size() - 1, Layout::plain, Absorb::bias_only);
}

class PanelsKernel final : public Kernel {
 public:
  PanelsKernel(const Problem& problem, const Config& config, std::span<const std::byte> packed)
      : s_(problem),
        shares_(std::max(1, problem.threads), s_.panels.count(), s_.m, ceil_div(s_.m, kChunk), kPanelRows),
        weights_(reinterpret_cast<const float*>(packed.data())) {
    const Config plain = uniform_config(problem, Layout::plain);
    expect_layouts(config, plain.inputs, plain.outputs);
    expect_packed(packed, size_t(s_.panels.floats()) * sizeof(float));
    const AbsorbedEpilogue epilogue = epilogue_of(problem);
    bias_ = epilogue.bias >= 0 ? epilogue.bias + 2 : -1;
    tail_ = EpilogueTail(problem, DType::f32, epilogue.rest, Layout::plain);
    slice_ = panel_slice(s_.panels.depth, shares_.chunk());
  }

  int64_t workspace() const override { return tail_.workspace(0); }
  bool reads(size_t input) const override { return input != 1; }

  void launch(const Buffers& buffers) override {
    const float* const a = static_cast<const float*>(buffers.inputs[0]);
    const float* const bias = bias_ >= 0 ? static_cast<const float*>(buffers.inputs[size_t(bias_)]) : nullptr;
    float* const y = static_cast<float*>(tail_.destination(buffers));
    shares_.run_by_pieces(2 * kPanel * s_.panels.depth, kParallel, [&](int, auto pieces) {
      pieces([&](int64_t row, int64_t first, int64_t last) { run(a, bias, y, row, first, last); });
    });
    tail_.run(buffers);
  }

 private:
  static constexpr int64_t kParallel = 1 << 16;  // operations worth a thread

  // Rows from `row` on by the panels [first, last), a slice of k after the other.
  void run(const float* a, const float* bias, float* y, int64_t row, int64_t first, int64_t last) const {
    const int64_t k = s_.panels.depth, n = s_.panels.columns;
    multiply_panels(s_.panels,
                    {a + row * k, k, weights_, bias, y + row * n, n, std::min(shares_.chunk(), s_.m - row), slice_},
                    first, last);
  }

  Sizes s_;
  PanelShares shares_;
  const float* weights_;
  int bias_ = -1;
  int64_t slice_ = 0;
  EpilogueTail tail_;
};

Support supports(const Problem& problem, const Device&) {
  if (auto s = needs_op<ops::MatMul>(problem); !s.yes()) return s;
  if (problem.inputs[0].type.dtype != DType::f32) return refused("not of f32");
  if (auto s = panel_product_supported(problem); !s.yes()) return s;
  if (auto s = EpilogueTail::supports(problem, DType::f32, epilogue_of(problem).rest, Layout::plain); !s.yes())
    return refused("its epilogue: ", s.reason);
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device&) { return {uniform_config(problem, Layout::plain)}; }

Packed build(const Problem& problem, const Config&, const Device&) {
  const Panels panels = Sizes(problem).panels;
  return packed_panels<float>(problem, panels, panels.floats());
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView& packed, const Device&) {
  return std::make_unique<PanelsKernel>(problem, config, packed);
}

}  // namespace

extern const Tactic cpu_matmul_panels;
const Tactic cpu_matmul_panels{"cpu.matmul.panels", 3, supports, configs, build, load};

}  // namespace temper
