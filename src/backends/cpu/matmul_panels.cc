// SPDX-License-Identifier: Apache-2.0
// Products of f32 with constant weights, packed in panels of 48 columns (panels.h).
#include <cstring>

#include "backends/cpu/cpu.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/panels.h"
#include "base/threads.h"
#include "graph/ops/matmul.h"

namespace temper {

namespace {

constexpr int64_t kChunk = 192;  // rows that a thread takes through all its panels

struct Sizes {
  int64_t m;
  Panels panels;
  explicit Sizes(const Problem& problem) : panels{problem.inputs[0].dims().back(), problem.outputs[0].dims().back()} {
    m = element_count(problem.outputs[0].dims()) / panels.columns;
  }
};

AbsorbedEpilogue epilogue_of(const Problem& problem) {
  const Dims y = problem.outputs[0].dims();
  return absorb_epilogue(problem.op.get<ops::MatMul>().epilogue, DType::f32, extra_types(problem, 2),
                         problem.outputs[0].type, y.size() - 1, Layout::plain, Absorb::bias_only);
}

class PanelsKernel final : public Kernel {
 public:
  PanelsKernel(const Problem& problem, const Config& config, std::span<const std::byte> packed)
      : s_(problem), threads_(std::max(1, problem.threads)), weights_(reinterpret_cast<const float*>(packed.data())) {
    const Config plain = uniform_config(problem, Layout::plain);
    expect_layouts(config, plain.inputs, plain.outputs);
    expect_packed(packed, size_t(s_.panels.floats()) * sizeof(float));
    const AbsorbedEpilogue epilogue = epilogue_of(problem);
    bias_ = epilogue.bias >= 0 ? epilogue.bias + 2 : -1;
    tail_ = EpilogueTail(problem, DType::f32, epilogue.rest, Layout::plain);
    // Threads share out the panels; where those are few, chunks of rows too, all of nearly one size.
    const int64_t panels = s_.panels.count();
    by_panels_ = panels % threads_ == 0 || panels >= 4 * threads_;
    int64_t chunks = ceil_div(s_.m, kChunk);
    if (!by_panels_) chunks = std::max(chunks, ceil_div<int64_t>(4 * threads_, panels));
    chunk_ = round_up(ceil_div(s_.m, chunks), kPanelRows);
    slice_ = panel_slice(s_.panels.depth, chunk_);
  }

  int64_t workspace() const override { return tail_.workspace(0); }
  bool reads(size_t input) const override { return input != 1; }

  void launch(const Buffers& buffers) override {
    const float* const a = static_cast<const float*>(buffers.inputs[0]);
    const float* const bias = bias_ >= 0 ? static_cast<const float*>(buffers.inputs[size_t(bias_)]) : nullptr;
    float* const y = static_cast<float*>(tail_.destination(buffers));
    const int64_t panels = s_.panels.count(), chunks = ceil_div(s_.m, chunk_), each = 2 * kPanel * s_.panels.depth;
    if (by_panels_) {
      parallel_for_threads(threads_, panels, std::max<int64_t>(1, kParallel / (each * s_.m)),
                           [&](int, int64_t begin, int64_t end) {
                             for (int64_t i = 0; i < chunks; ++i) run(a, bias, y, i * chunk_, begin, end);
                           });
      return tail_.run(buffers);
    }
    parallel_for_threads(threads_, panels * chunks, std::max<int64_t>(1, kParallel / (each * chunk_)),
                         [&](int, int64_t begin, int64_t end) {
                           while (begin < end) {
                             const int64_t first = begin % panels, last = std::min(panels, first + end - begin);
                             run(a, bias, y, begin / panels * chunk_, first, last);
                             begin += last - first;
                           }
                         });
    tail_.run(buffers);
  }

 private:
  static constexpr int64_t kParallel = 1 << 16;  // operations worth a thread

  // Rows from `row` on by the panels [first, last), a slice of k after the other.
  void run(const float* a, const float* bias, float* y, int64_t row, int64_t first, int64_t last) const {
    const int64_t k = s_.panels.depth, n = s_.panels.columns;
    multiply_panels(s_.panels, {a + row * k, k, weights_, bias, y + row * n, n, std::min(chunk_, s_.m - row), slice_},
                    first, last);
  }

  Sizes s_;
  int threads_;
  const float* weights_;
  int bias_ = -1;
  bool by_panels_ = false;
  int64_t chunk_ = 0, slice_ = 0;
  EpilogueTail tail_;
};

Support supports(const Problem& problem, const Device&) {
  if (auto s = needs_op<ops::MatMul>(problem); !s.yes()) return s;
  const Dims b = problem.inputs[1].dims();
  if (problem.inputs[0].type.dtype != DType::f32) return refused("not of f32");
  if (problem.op.get<ops::MatMul>().transpose_a) return refused("the left operand is transposed");
  if (!problem.inputs[1].is_constant) return refused("the weights are not constant");
  for (size_t i = 0; i + 2 < b.size(); ++i)
    if (b[i] != 1) return refused("a batch of weights");
  if (problem.inputs[0].dims().size() != problem.outputs[0].dims().size()) return refused("the weights have more axes");
  if (element_count(problem.outputs[0].dims()) == 0 || element_count(problem.inputs[0].dims()) == 0)
    return refused("an empty tensor");
  if (auto s = EpilogueTail::supports(problem, DType::f32, epilogue_of(problem).rest, Layout::plain); !s.yes())
    return refused("its epilogue: ", s.reason);
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device&) { return {uniform_config(problem, Layout::plain)}; }

Packed build(const Problem& problem, const Config&, const Device&) {
  const Panels panels = Sizes(problem).panels;
  const bool transposed = problem.op.get<ops::MatMul>().transpose_b;
  const float* const from = problem.inputs[1].constant->data<float>();
  Packed packed;
  packed.bytes.resize(size_t(panels.floats()) * sizeof(float));
  std::memset(packed.bytes.data(), 0, packed.bytes.size());
  float* const to = reinterpret_cast<float*>(packed.bytes.data());
  for (int64_t column = 0; column < panels.columns; ++column)
    for (int64_t k = 0; k < panels.depth; ++k)
      to[panels.place(k, column)] = from[transposed ? column * panels.depth + k : k * panels.columns + column];
  packed.consumed.assign(problem.inputs.size(), false);
  packed.consumed[1] = true;
  return packed;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView& packed, const Device&) {
  return std::make_unique<PanelsKernel>(problem, config, packed);
}

}  // namespace

extern const Tactic cpu_matmul_panels;
const Tactic cpu_matmul_panels{"cpu.matmul.panels", 2, supports, configs, build, load};

}  // namespace temper
