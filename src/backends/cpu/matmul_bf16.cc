// SPDX-License-Identifier: Apache-2.0
// Products of bf16 with constant weights in panels (bf16_blocks.h). The sums of a block stay in L1 until its epilogue
// is through, and the next panel comes from memory meanwhile: at few rows, weights are what there is to wait for.
#include <cstring>
#include <vector>

#include "backends/cpu/bf16_blocks.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/panel_product.h"
#include "backends/cpu/vmath.h"

namespace temper {

namespace {

constexpr int64_t kRowBytes = 1 << 20;  // of the left matrix that are to stay in L2 while panels pass by
constexpr int64_t kParallel = 1 << 18;  // operations worth a thread
constexpr float kSqrtHalf = 0x1.6a09e6p-1f;

using Sizes = PanelProductSizes<Bf16Panels>;

AbsorbedEpilogue epilogue_of(const Problem& problem) {
  const Dims y = problem.outputs[0].dims();
  return absorb_epilogue(problem.op.get<ops::MatMul>().epilogue, DType::bf16, extra_types(problem, 2),
                         problem.outputs[0].type, y.size() - 1, Layout::plain, Absorb::all);
}

// One step of what is done to sums: a function of them alone, or with an extra input.
struct Step {
  enum class Kind : uint8_t { function, add, multiply } kind = Kind::function;
  dnnl::algorithm algorithm{};
  float alpha = 0, beta = 0;
  size_t input = 0;             // of the problem
  int64_t row = 0, column = 0;  // its strides in elements
  DType dtype = DType::f32;     // f32 or bf16
};

std::vector<Step> steps_of(const Problem& problem, const AbsorbedEpilogue& epilogue) {
  const Dims y = problem.outputs[0].dims();
  const auto with_extra = [&](Step::Kind kind, int extra) {
    Step step{kind};
    step.input = size_t(extra) + 2;
    const TensorType& type = problem.inputs[step.input].type;
    const Dims own = type.dims();
    step.dtype = type.dtype;
    step.row = own == y ? y.back() : 0;
    step.column = !own.empty() && own.back() == y.back() && y.back() != 1 ? 1 : 0;
    return step;
  };
  std::vector<Step> steps;
  if (epilogue.bias >= 0) steps.push_back(with_extra(Step::Kind::add, epilogue.bias));
  size_t seen = 0;
  for (int p = 0; p < epilogue.post_ops.len(); ++p) {
    dnnl::algorithm algorithm{};
    if (epilogue.post_ops.kind(p) == dnnl::primitive::kind::binary) {
      dnnl::memory::desc desc;
      epilogue.post_ops.get_params_binary(p, algorithm, desc);
      steps.push_back(with_extra(algorithm == dnnl::algorithm::binary_add ? Step::Kind::add : Step::Kind::multiply,
                                 epilogue.binary_inputs[seen++]));
      continue;
    }
    Step step;
    float scale = 1;
    epilogue.post_ops.get_params_eltwise(p, scale, step.algorithm, step.alpha, step.beta);
    steps.push_back(step);
  }
  return steps;
}

// The functions that absorb_epilogue() takes.
bool is_known(dnnl::algorithm algorithm) {
  switch (algorithm) {
    case dnnl::algorithm::eltwise_relu:
    case dnnl::algorithm::eltwise_clip:
    case dnnl::algorithm::eltwise_linear:
    case dnnl::algorithm::eltwise_hardswish:
    case dnnl::algorithm::eltwise_swish:
    case dnnl::algorithm::eltwise_logistic:
    case dnnl::algorithm::eltwise_tanh:
    case dnnl::algorithm::eltwise_gelu_erf: return true;
    default: return false;
  }
}

template <class F>
void each(float* x, int64_t n, F f) {
  vectorised([=] {
    for (int64_t i = 0; i < n; ++i) x[i] = f(x[i]);
  });
}

// x/2 * (erf(x / sqrt(2)) + 1) within 1.2e-5, for results of bf16: erf(a) is a times a
// polynomial of a^2, found by Lawson's iteration (3000 steps, 4000 Chebyshev nodes, error weighted by a^2 + 1/50) up to
// 3.3, where it is 1 but for 3e-6; all coefficients are larger by 4e-6. With it BERT-base of 128 tokens takes 0.96 of
// the time that it takes with vmath::erf().
inline float gelu_of_bf16(float x) {
  constexpr float kEnd = 3.3f;
  float a = x * kSqrtHalf;
  a = a > kEnd ? kEnd : a;
  a = a < -kEnd ? -kEnd : a;
  const float t = a * a * (2 / (kEnd * kEnd)) - 1.f;
  float p = 0x1.864672p-9f;
  p = p * t - 0x1.24803cp-7f;
  p = p * t + 0x1.987efcp-7f;
  p = p * t - 0x1.34b0d6p-6f;
  p = p * t + 0x1.2485d8p-5f;
  p = p * t - 0x1.e087fap-5f;
  p = p * t + 0x1.596e64p-4f;
  p = p * t - 0x1.d55688p-4f;
  p = p * t + 0x1.376848p-3f;
  p = p * t - 0x1.b16e7ep-3f;
  p = p * t + 0x1.b669aep-2f;
  float erf = a * p;
  erf = erf > 1.f ? 1.f : erf;
  erf = erf < -1.f ? -1.f : erf;  // exactly, or numbers far below zero would not become zeros
  const float half = 0.5f * x;
  return half * erf + half;
}

// `narrow`: the result becomes bf16. A NaN compares as false and stays.
void apply(const Step& step, bool narrow, float* x, int64_t n) {
  const float a = step.alpha, b = step.beta;
  switch (step.algorithm) {
    case dnnl::algorithm::eltwise_relu: return each(x, n, [a](float v) { return v < 0 ? v * a : v; });
    case dnnl::algorithm::eltwise_clip:
      return each(x, n, [a, b](float v) {
        v = v < a ? a : v;
        return v > b ? b : v;
      });
    case dnnl::algorithm::eltwise_linear: return each(x, n, [a, b](float v) { return v * a + b; });
    case dnnl::algorithm::eltwise_hardswish:
      return each(x, n, [](float v) {
        float share = v * (1.f / 6) + 0.5f;
        share = share < 0 ? 0 : share;
        return v * (share > 1 ? 1 : share);
      });
    case dnnl::algorithm::eltwise_swish: return each(x, n, [](float v) { return v * vmath::sigmoid(v); });
    case dnnl::algorithm::eltwise_logistic: return each(x, n, [](float v) { return vmath::sigmoid(v); });
    case dnnl::algorithm::eltwise_tanh: return each(x, n, [](float v) { return vmath::tanh(v); });
    default:  // eltwise_gelu_erf, by is_known()
      if (narrow) return each(x, n, [](float v) { return gelu_of_bf16(v); });
      return each(x, n, [](float v) { return vmath::gelu(v); });
  }
}

template <class T>
inline void combine(const Step& step, const void* extra, int64_t first_row, int64_t first_column, float* sums,
                    int64_t rows, int64_t columns) {
  const T* const from = static_cast<const T*>(extra) + first_row * step.row + first_column * step.column;
  const int64_t row = step.row;
  const bool adds = step.kind == Step::Kind::add;
  if (step.column == 0) {
    const float number = static_cast<float>(*from);
    return each(sums, rows * kBf16Columns, [=](float v) { return adds ? v + number : v * number; });
  }
  vectorised([=] {
    for (int64_t r = 0; r < rows; ++r) {
      float* const to = sums + r * kBf16Columns;
      const T* const beside = from + r * row;
      TEMPER_NO_ALIAS
      for (int64_t c = 0; c < columns; ++c) {
        const float number = static_cast<float>(beside[c]);
        to[c] = adds ? to[c] + number : to[c] * number;
      }
    }
  });
}

class Bf16MatMulKernel final : public Kernel {
 public:
  Bf16MatMulKernel(const Problem& problem, const Config& config, std::span<const std::byte> packed,
                   const Device& device)
      : s_(problem),
        shares_(std::max(1, problem.threads), s_.panels.count(), s_.m,
                ceil_div(s_.m * s_.panels.depth * int64_t(sizeof(BFloat16)), kRowBytes), kBf16Rows),
        tiles_(may_use_tiles(device)),
        weights_(reinterpret_cast<const BFloat16*>(packed.data())) {
    const Config plain = uniform_config(problem, Layout::plain);
    expect_layouts(config, plain.inputs, plain.outputs);
    expect_packed(packed, size_t(s_.panels.elements()) * sizeof(BFloat16));
    const AbsorbedEpilogue epilogue = epilogue_of(problem);
    steps_ = steps_of(problem, epilogue);
    stored_ = epilogue.stored;
    tail_ = EpilogueTail(problem, stored_, epilogue.rest, Layout::plain);
  }

  int64_t workspace() const override { return tail_.workspace(0); }
  bool reads(size_t input) const override { return input != 1; }

  void launch(const Buffers& buffers) override {
    shares_.run(2 * kBf16Columns * s_.panels.depth, kParallel, [&](int, auto pieces) {
      Bf16Multiplier multiplier(tiles_);
      pieces([&](int64_t row, int64_t first, int64_t last) { run(multiplier, buffers, row, first, last); });
    });
    tail_.run(buffers);
  }

 private:
  // A chunk of rows from `row` on by the panels [first, last).
  void run(Bf16Multiplier& multiplier, const Buffers& buffers, int64_t row, int64_t first, int64_t last) const {
    const BFloat16* const a = static_cast<const BFloat16*>(buffers.inputs[0]);
    const int64_t k = s_.panels.depth, end = std::min(s_.m, row + shares_.chunk()), of_panel = s_.panels.of_panel(),
                  lines = of_panel * int64_t(sizeof(BFloat16)) / 64,
                  each = ceil_div(lines, ceil_div(end - row, kBf16Rows));
    alignas(64) float sums[kBf16Rows * kBf16Columns];
    for (int64_t panel = first; panel < last; ++panel) {
      const BFloat16* const weights = weights_ + panel * of_panel;
      int64_t fetched = panel + 1 < last ? 0 : lines;
      for (int64_t r = row; r < end; r += kBf16Rows) {
        const int64_t rows = std::min(kBf16Rows, end - r), fetch = std::min(each, lines - fetched);
        multiplier.multiply({a + r * k, k, rows, weights, s_.panels.steps(), sums, kBf16Columns, r == row,
                             weights + of_panel + fetched * 32, fetch});
        fetched += fetch;
        finish(buffers, sums, r, rows, panel * kBf16Columns);
      }
    }
  }

  // The epilogue of a block, and where it goes.
  void finish(const Buffers& buffers, float* sums, int64_t row, int64_t rows, int64_t column) const {
    const int64_t n = s_.panels.columns, columns = std::min(kBf16Columns, n - column);
    for (const Step& step : steps_) {
      if (step.kind == Step::Kind::function) apply(step, stored_ == DType::bf16, sums, rows * kBf16Columns);
      else if (step.dtype == DType::bf16)
        combine<BFloat16>(step, buffers.inputs[step.input], row, column, sums, rows, columns);
      else combine<float>(step, buffers.inputs[step.input], row, column, sums, rows, columns);
    }
    void* const y = tail_.destination(buffers);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at = (row + r) * n + column;
      const float* const from = sums + r * kBf16Columns;
      if (stored_ == DType::bf16) round_row(from, static_cast<BFloat16*>(y) + at, columns);
      else std::memcpy(static_cast<float*>(y) + at, from, size_t(columns) * sizeof(float));
    }
  }

  Sizes s_;
  PanelShares shares_;
  bool tiles_;
  const BFloat16* weights_;
  DType stored_ = DType::f32;
  std::vector<Step> steps_;
  EpilogueTail tail_;
};

Support supports(const Problem& problem, const Device& device) {
  if (auto s = needs_op<ops::MatMul>(problem); !s.yes()) return s;
  if (auto s = bf16_blocks_supported(device); !s.yes()) return s;
  if (problem.inputs[0].type.dtype != DType::bf16 || problem.inputs[1].type.dtype != DType::bf16)
    return refused("not of bf16");
  if (auto s = panel_product_supported(problem); !s.yes()) return s;
  if (const int64_t depth = problem.inputs[0].dims().back(); depth % kBf16Depth != 0)
    return refused("rows of ", depth, " elements are no multiple of ", kBf16Depth);
  const AbsorbedEpilogue epilogue = epilogue_of(problem);
  for (const Step& step : steps_of(problem, epilogue))
    if (step.kind == Step::Kind::function && !is_known(step.algorithm)) return refused("its activation");
  if (auto s = EpilogueTail::supports(problem, epilogue.stored, epilogue.rest, Layout::plain); !s.yes())
    return refused("its epilogue: ", s.reason);
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device&) { return {uniform_config(problem, Layout::plain)}; }

Packed build(const Problem& problem, const Config&, const Device&) {
  const Bf16Panels panels = Sizes(problem).panels;
  return packed_panels<BFloat16>(problem, panels, panels.elements());
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView& packed,
                             const Device& device) {
  return std::make_unique<Bf16MatMulKernel>(problem, config, packed, device);
}

}  // namespace

extern const Tactic cpu_matmul_bf16;
const Tactic cpu_matmul_bf16{"cpu.matmul.bf16", 3, supports, configs, build, load};

}  // namespace temper
