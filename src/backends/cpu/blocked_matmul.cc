// SPDX-License-Identifier: Apache-2.0
// Products of f32 by constant weights of few bits. cpu.matmul.blocks reads the integers: few rows unpack them in
// registers, many multiply by a panel that was unpacked once for all of them, so that one weight serves both.
// cpu.matmul.floats makes floats of them when the plan is built, and is what the products of floats are.
#include "graph/ops/blocked_matmul.h"

#include <cstring>

#include "backends/blocked_weights.h"
#include "backends/cpu/block_panels.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/onednn.h"
#include "base/threads.h"

namespace temper {

extern const Tactic cpu_matmul_onednn, cpu_matmul_panels;

namespace {

using ops::BlockedMatMul;

// The product of floats that it means, and its buffers. `floats`: the weights; null where they are packed.
Problem product_of(const Problem& problem, const Tensor* floats = nullptr) {
  Problem product = problem;
  product.op = problem.op.get<BlockedMatMul>().product();
  product.inputs.erase(product.inputs.begin() + 2, product.inputs.begin() + BlockedMatMul::kOwnInputs);
  product.inputs[1].type.dtype = DType::f32;
  product.inputs[1].constant = floats;
  return product;
}

Config product_config(const Config& config, std::string text) {
  Config out{std::move(text), config.inputs, config.outputs};
  if (out.inputs.size() < BlockedMatMul::kOwnInputs) fail(ErrorKind::bad_file, "it has too few layouts");
  out.inputs.erase(out.inputs.begin() + 2, out.inputs.begin() + BlockedMatMul::kOwnInputs);
  return out;
}

class ProductBuffers {
 public:
  Buffers of(const Buffers& buffers) {
    inputs_.assign(buffers.inputs.begin(), buffers.inputs.end());
    inputs_.erase(inputs_.begin() + 2, inputs_.begin() + BlockedMatMul::kOwnInputs);
    Buffers out = buffers;
    out.inputs = inputs_;
    return out;
  }

 private:
  std::vector<const void*> inputs_;
};

bool is_weights(size_t input) { return input > 0 && input < BlockedMatMul::kOwnInputs; }

std::vector<bool> consumed(const Problem& problem) {
  std::vector<bool> all(problem.inputs.size(), false);
  for (size_t i = 1; i < BlockedMatMul::kOwnInputs; ++i) all[i] = problem.inputs[i].present;
  return all;
}

ops::BlockedMatrix matrix_of(const Problem& problem) {
  return blocked_weights(problem, problem.op.get<BlockedMatMul>(), 1);
}

Support supports_any(const Problem& problem) {
  if (auto s = needs_op<BlockedMatMul>(problem); !s.yes()) return s;
  if (problem.inputs[0].type.dtype != DType::f32) return refused("rows ", problem.inputs[0].type);
  for (size_t i = 1; i < BlockedMatMul::kOwnInputs; ++i)
    if (problem.inputs[i].present && !problem.inputs[i].is_constant) return refused("the weights are not constant");
  return supported();
}

// ---- floats ----

constexpr const Tactic* kProducts[] = {&cpu_matmul_onednn, &cpu_matmul_panels};

Support supports_floats(const Problem& problem, const Device& device) {
  if (auto s = supports_any(problem); !s.yes()) return s;
  const Problem product = product_of(problem);
  Support last;
  for (const Tactic* tactic : kProducts)
    if (last = tactic->supports(product, device); last.yes()) break;
  return last;
}

// "cpu.matmul.onednn inner_product"
std::vector<Config> configs_floats(const Problem& problem, const Device& device) {
  const Problem product = product_of(problem);
  std::vector<Config> all;
  for (const Tactic* tactic : kProducts) {
    if (!tactic->supports(product, device).yes()) continue;
    for (Config& config : tactic->configs(product, device)) {
      config.text = concat(tactic->name, ' ', config.text);
      config.inputs.insert(config.inputs.begin() + 2, BlockedMatMul::kOwnInputs - 2, Layout::plain);
      all.push_back(std::move(config));
    }
  }
  return all;
}

std::pair<const Tactic*, Config> product_tactic(const Problem& product, const Config& config, const Device& device) {
  for (const Tactic* tactic : kProducts)
    if (config.text.starts_with(concat(tactic->name, ' ')) && tactic->supports(product, device).yes())
      return {tactic, product_config(config, config.text.substr(tactic->name.size() + 1))};
  fail(ErrorKind::bad_file, "cpu.matmul.floats: the configuration '", config.text, "' is not one of its own");
}

Packed build_floats(const Problem& problem, const Config& config, const Device& device) {
  const Tensor floats = ops::floats_of(matrix_of(problem));
  const Problem product = product_of(problem, &floats);
  const auto [tactic, own] = product_tactic(product, config, device);
  Packed packed = tactic->build(product, own, device);
  if (!packed.consumed.at(1)) fail(ErrorKind::unsupported, tactic->name, " does not pack these weights");
  packed.consumed = consumed(problem);
  return packed;
}

class FloatsKernel final : public Kernel {
 public:
  explicit FloatsKernel(std::unique_ptr<Kernel> product) : product_(std::move(product)) {}
  int64_t workspace() const override { return product_->workspace(); }
  bool reads(size_t input) const override {
    return input == 0 || (!is_weights(input) && product_->reads(input + 2 - BlockedMatMul::kOwnInputs));
  }
  void launch(const Buffers& buffers) override { product_->launch(buffers_.of(buffers)); }

 private:
  std::unique_ptr<Kernel> product_;
  ProductBuffers buffers_;
};

std::unique_ptr<Kernel> load_floats(const Problem& problem, const Config& config, const PackedView& packed,
                                    const Device& device) {
  const Problem product = product_of(problem);
  const auto [tactic, own] = product_tactic(product, config, device);
  return std::make_unique<FloatsKernel>(tactic->load(product, own, packed, device));
}

// ---- blocks ----

// "few 4 32 zeros": the way to multiply, bits, steps of k in a block.
struct Form {
  bool few;
  BlockPanels panels;
};

Panels panels_of(const Problem& problem) { return {problem.inputs[0].dims().back(), problem.outputs[0].dims().back()}; }
int64_t rows_of(const Problem& problem) {
  return element_count(problem.outputs[0].dims()) / problem.outputs[0].dims().back();
}

std::string text_of(const Form& form) {
  return concat(form.few ? "few " : "unpacked ", form.panels.bits, ' ', form.panels.block,
                form.panels.zeros ? " zeros" : "");
}

// Steps of k that share a scale.
int64_t block_of(const Problem& problem) {
  const auto& op = problem.op.get<BlockedMatMul>();
  return std::min(op.transpose_b ? op.block_columns : op.block_rows, panels_of(problem).depth);
}

// The element at (k, column) as it is packed: a whole number is subtracted from u8, 8 where all are below 16 and 128
// otherwise, and from the zero points.
struct Elements {
  ops::BlockedMatrix matrix;
  bool turned;
  int offset = 0;
  BlockElement at(int64_t k, int64_t column) const {
    const int64_t r = turned ? column : k, c = turned ? k : column;
    return {int(matrix.integer(r, c)) - offset, matrix.zero_of(r, c) - float(offset), matrix.scale_of(r, c)};
  }
};

struct Found {
  Elements elements;
  Form form;
};

// How these weights are packed; nothing where a fractional zero point would be rounded.
std::optional<Found> find(const Problem& problem) {
  Found found{{matrix_of(problem), problem.op.get<BlockedMatMul>().transpose_b, 0},
              {false, {panels_of(problem), 8, block_of(problem), false}}};
  const ops::BlockedMatrix& m = found.elements.matrix;
  int64_t least = 127, most = -128;
  for (int64_t i = 0; i < m.integers.count(); ++i) {
    const int64_t value = m.integer(i / m.columns(), i % m.columns());
    least = std::min(least, value), most = std::max(most, value);
  }
  const bool is_unsigned = m.integers.dtype() == DType::u8;
  if (is_unsigned) found.elements.offset = most < 16 ? 8 : 128;
  if ((found.form.panels.block % 8 == 0 || found.form.panels.blocks() == 1) && least - found.elements.offset >= -8 &&
      most - found.elements.offset <= 7)
    found.form.panels.bits = 4;
  const int64_t count = m.zero.defined() ? m.zero.count() : 0;
  if (!m.zero.defined()) found.form.panels.zeros = is_unsigned;
  for (int64_t i = 0; i < count; ++i) {
    const float zero = m.zero.data<float>()[i], moved = zero - float(found.elements.offset);
    if (moved + float(found.elements.offset) != zero) return std::nullopt;
    found.form.panels.zeros |= moved != 0;
  }
  return found;
}

AbsorbedEpilogue epilogue_of(const Problem& product) {
  const Dims y = product.outputs[0].dims();
  return absorb_epilogue(product.op.get<ops::MatMul>().epilogue, DType::f32, extra_types(product, 2),
                         product.outputs[0].type, y.size() - 1, Layout::plain, Absorb::bias_only);
}

constexpr int64_t kLeastBlock = 8;  // steps of k: below, scales cost more than they are multiplied for

Support supports_blocks(const Problem& problem, const Device&) {
  if (auto s = supports_any(problem); !s.yes()) return s;
  if (problem.inputs[0].dims().size() != problem.outputs[0].dims().size()) return refused("the weights have more axes");
  if (element_count(problem.outputs[0].dims()) == 0 || element_count(problem.inputs[0].dims()) == 0)
    return refused("an empty tensor");
  if (const int64_t block = block_of(problem), depth = panels_of(problem).depth;
      block < depth && (block < kLeastBlock || block % 4 != 0))
    return refused("blocks of ", block, " along the sums");
  const Problem product = product_of(problem);
  if (auto s = EpilogueTail::supports(product, DType::f32, epilogue_of(product).rest, Layout::plain); !s.yes())
    return refused("its epilogue: ", s.reason);
  if (problem.inputs[1].constant && !find(problem)) return refused("zero points that are fractions");
  return supported();
}

std::vector<Config> configs_blocks(const Problem& problem, const Device&) {
  Form form = find(problem).value().form;
  std::vector<Config> all;
  for (const bool few : {true, false}) {
    form.few = few;
    if (!few || rows_of(problem) <= kFewRows) all.push_back(uniform_config(problem, Layout::plain, text_of(form)));
  }
  return all;
}

Form parse_form(const Problem& problem, const Config& config) {
  for (const bool few : {true, false})
    for (const int64_t bits : {4, 8})
      for (const bool zeros : {false, true}) {
        const Form form{few, {panels_of(problem), bits, block_of(problem), zeros}};
        if (config.text == text_of(form) && (!few || rows_of(problem) <= kFewRows)) return form;
      }
  fail(ErrorKind::bad_file, "cpu.matmul.blocks: the configuration '", config.text, "' is not one of its own");
}

Packed build_blocks(const Problem& problem, const Config&, const Device&) {
  const Found found = find(problem).value();
  const BlockPanels& panels = found.form.panels;
  Packed packed;
  packed.bytes.resize(size_t(panels.bytes()));
  std::memset(packed.bytes.data(), 0, packed.bytes.size());
  parallel_for(panels.panels.count(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t column = begin * kPanel; column < std::min(end * kPanel, panels.panels.columns); ++column)
      for (int64_t k = 0; k < panels.panels.depth; ++k)
        put_element(panels, packed.bytes.data(), k, column, found.elements.at(k, column));
  });
  packed.consumed = consumed(problem);
  return packed;
}

class BlocksKernel final : public Kernel {
 public:
  BlocksKernel(const Problem& problem, const Config& config, std::span<const std::byte> packed)
      : form_(parse_form(problem, config)),
        rows_(rows_of(problem)),
        threads_(std::max(1, problem.threads)),
        weights_(packed.data()) {
    const Config plain = uniform_config(problem, Layout::plain);
    expect_layouts(config, plain.inputs, plain.outputs);
    expect_packed(packed, size_t(form_.panels.bytes()));
    const Problem product = product_of(problem);
    const AbsorbedEpilogue epilogue = epilogue_of(product);
    bias_ = epilogue.bias >= 0 ? epilogue.bias + 2 : -1;
    tail_ = EpilogueTail(product, DType::f32, epilogue.rest, Layout::plain);
    slice_ = panel_slice(form_.panels.panels.depth, std::min(kChunk, rows_));
    panel_floats_ = round_up<int64_t>(form_.panels.panels.depth * kPanel, 16);
  }

  int64_t workspace() const override {
    return tail_.workspace(form_.few ? 0 : threads_ * panel_floats_ * int64_t(sizeof(float)));
  }
  bool reads(size_t input) const override { return !is_weights(input); }

  void launch(const Buffers& all) override {
    const Buffers buffers = buffers_.of(all);
    const Panels& panels = form_.panels.panels;
    const float* const a = static_cast<const float*>(buffers.inputs[0]);
    const float* const bias = bias_ >= 0 ? static_cast<const float*>(buffers.inputs[size_t(bias_)]) : nullptr;
    float* const y = static_cast<float*>(tail_.destination(buffers));
    float* const scratch = static_cast<float*>(tail_.scratch(buffers));
    const int64_t depth = panels.depth, n = panels.columns;
    parallel_for_threads(threads_, panels.count(), std::max<int64_t>(1, kParallel / (2 * kPanel * depth * rows_)),
                         [&](int member, int64_t begin, int64_t end) {
                           for (int64_t panel = begin; panel < end; ++panel) {
                             const int64_t column = panel * kPanel;
                             const float* const start = bias ? bias + column : nullptr;
                             if (form_.few) {
                               multiply_blocks(form_.panels, weights_, panel, {a, depth, start, y + column, n, rows_});
                               continue;
                             }
                             float* const own = scratch + member * panel_floats_;
                             unpack_panel(form_.panels, weights_, panel, own);
                             for (int64_t row = 0; row < rows_; row += kChunk)
                               multiply_panels({depth, std::min(kPanel, n - column)},
                                               {a + row * depth, depth, own, start, y + row * n + column, n,
                                                std::min(kChunk, rows_ - row), slice_},
                                               0, 1);
                           }
                         });
    tail_.run(buffers);
  }

 private:
  static constexpr int64_t kParallel = 1 << 16;  // operations worth a thread
  static constexpr int64_t kChunk = 192;         // rows that pass by a panel at once

  Form form_;
  int64_t rows_;
  int threads_;
  const std::byte* weights_;
  int bias_ = -1;
  int64_t slice_ = 0, panel_floats_ = 0;
  EpilogueTail tail_;
  ProductBuffers buffers_;
};

std::unique_ptr<Kernel> load_blocks(const Problem& problem, const Config& config, const PackedView& packed,
                                    const Device&) {
  return std::make_unique<BlocksKernel>(problem, config, packed);
}

}  // namespace

extern const Tactic cpu_matmul_blocks, cpu_matmul_floats;
const Tactic cpu_matmul_blocks{"cpu.matmul.blocks", 1, supports_blocks, configs_blocks, build_blocks, load_blocks};
const Tactic cpu_matmul_floats{"cpu.matmul.floats", 1, supports_floats, configs_floats, build_floats, load_floats};

}  // namespace temper
