// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit integers by constant weights on AMX's tiles (tiles.h). Weights lie in panels of 32 columns. The
// sums of a block stay in L1 until its epilogue is through, functions such as GELU included, and the next panel comes
// to L2 meanwhile: with few rows, memory is what there is to wait for.
#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/cpu/cpu.h"
#include "backends/cpu/int8_results.h"
#include "backends/cpu/panel_product.h"
#include "backends/cpu/tiles.h"

namespace temper {

namespace {

constexpr int64_t kRowBytes = 1 << 20;  // of the left matrix that are to stay in L2 while panels pass by
constexpr int64_t kParallel = 1 << 19;  // operations worth a thread
constexpr int64_t kHalf = kSumColumns;
static_assert(kTileBlock == 2 * kHalf);

using BytePanels = TilePanels<int8_t>;
using Sizes = PanelProductSizes<BytePanels>;

std::optional<IntegerEpilogue> epilogue_of(const Problem& problem) {
  return Int8Results::absorb(problem, problem.op.get<ops::MatMul>().epilogue, problem.outputs[0].dims().size() - 1,
                             Layout::plain);
}

// `rest` as a program of its first input alone; nothing where it reads others.
std::optional<Program> alone(const Program& rest) {
  for (const Step& step : rest.steps)
    for (int a = 0; a < arity_of(step.op); ++a)
      if (const int arg = step.args[size_t(a)]; arg > 0 && arg < rest.inputs) return std::nullopt;
  std::vector<int> mapping(size_t(rest.inputs), 0);
  return remap_inputs(rest, mapping, 1);
}

// What is left of an epilogue behind the scale, for the floats of a block: it reads nothing else, and runs before they
// leave L1. One object a thread.
struct BlockTail {
  std::unique_ptr<Kernel> kernel;
  int64_t element;  // bytes of a result
  alignas(64) float floats[kTileBlock * kTileBlock] = {};
  alignas(64) std::byte results[kTileBlock * kTileBlock * sizeof(double)];
  std::vector<const void*> inputs{floats};
  std::vector<void*> outputs{results};

  BlockTail(const Program& program, DType to)
      : kernel(make_pointwise_kernel(program, {type_of(DType::f32, {kTileBlock * kTileBlock})},
                                     type_of(to, {kTileBlock * kTileBlock}), Layout::plain, 1)),
        element(size_of(to)) {}

  // y: the block's first result; `pitch` elements to the next row.
  void run(std::byte* y, int64_t pitch, int64_t rows, int64_t columns) {
    kernel->launch({inputs, outputs, nullptr});
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(y + r * pitch * element, results + r * kTileBlock * element, size_t(columns * element));
  }
};

class TilesInt8Kernel final : public Kernel {
 public:
  TilesInt8Kernel(const Problem& problem, const Config& config, std::span<const std::byte> packed)
      : s_(problem),
        rows_are_(problem.inputs[0].type.dtype == DType::u8 ? TileRows::u8 : TileRows::i8),
        shares_(std::max(1, problem.threads), s_.panels.count(), s_.m, ceil_div(s_.m * s_.panels.depth, kRowBytes),
                kTileBlock),
        weights_(packed.data()) {
    const Config plain = uniform_config(problem, Layout::plain);
    expect_layouts(config, plain.inputs, plain.outputs);
    expect_packed(packed, size_t(s_.panels.elements()));
    auto epilogue = epilogue_of(problem);
    if (!epilogue) fail(ErrorKind::bad_file, "its epilogue is not supported");
    const DType to = problem.outputs[0].type.dtype;
    if (const auto program = alone(epilogue->rest);
        program && !program->is_identity() && epilogue->stored == DType::f32) {
      for (int i = 0; i < std::max(1, problem.threads); ++i)
        block_tails_.push_back(std::make_unique<BlockTail>(*program, to));
      epilogue->rest.steps.clear();
      tail_ = EpilogueTail(problem, to, epilogue->rest, Layout::plain);
    } else {
      tail_ = EpilogueTail(problem, epilogue->stored, epilogue->rest, Layout::plain);
    }
    results_.emplace(problem, *epilogue, s_.panels.columns, block_tails_.empty() ? s_.panels.columns : kTileBlock);
  }

  int64_t workspace() const override { return tail_.workspace(0); }
  bool reads(size_t input) const override { return input != 1; }

  void launch(const Buffers& buffers) override {
    const void* const residual = results_->residual(buffers);
    auto* const y = static_cast<std::byte*>(tail_.destination(buffers));
    shares_.run_by_pieces(2 * kTileBlock * s_.panels.depth, kParallel, [&](int member, auto pieces) {
      TileMultiplier multiplier(rows_are_);
      pieces([&](int64_t row, int64_t first, int64_t last) {
        run(multiplier, static_cast<const std::byte*>(buffers.inputs[0]), row, first, last,
            [&](const int32_t* sums, int64_t r, int64_t rows, int64_t column) {
              finish(member, sums, r, rows, column, residual, y);
            });
      });
    });
    tail_.run(buffers);
  }

 private:
  // A chunk of rows from `row` on by the panels [first, last). finish(sums, row, rows, column) for each block.
  template <class Finish>
  void run(TileMultiplier& multiplier, const std::byte* a, int64_t row, int64_t first, int64_t last,
           Finish finish) const {
    const int64_t depth = s_.panels.depth, end = std::min(s_.m, row + shares_.chunk()), of_panel = s_.panels.of_panel(),
                  lines = of_panel / 64, each = ceil_div(lines, ceil_div(end - row, kTileBlock));
    alignas(64) int32_t sums[kTileBlock * kTileBlock];  // [half][row][column]
    for (int64_t panel = first; panel < last; ++panel) {
      const std::byte* const weights = weights_ + panel * of_panel;
      int64_t fetched = panel + 1 < last ? 0 : lines;
      for (int64_t r = row; r < end; r += kTileBlock) {
        const int64_t rows = std::min(kTileBlock, end - r), fetch = std::min(each, lines - fetched);
        multiplier.multiply({a + r * depth, depth, rows, weights, s_.panels.steps(), sums,
                             kHalf * int64_t(sizeof(int32_t)), kTileBlock * kHalf * int64_t(sizeof(int32_t)), r == row,
                             weights + of_panel + fetched * 64, fetch});
        fetched += fetch;
        finish(sums, r, rows, panel * kTileBlock);
      }
    }
  }

  // The epilogue of a block, and where it goes.
  void finish(int member, const int32_t* sums, int64_t row, int64_t rows, int64_t column, const void* residual,
              std::byte* y) const {
    const int64_t n = s_.panels.columns, columns = std::min(kTileBlock, n - column), at = row * n + column;
    BlockTail* const tail = block_tails_.empty() ? nullptr : block_tails_[size_t(member)].get();
    for (int64_t begin = 0; begin < columns; begin += kHalf)
      results_->write(sums + begin * kTileBlock, rows, column + begin, std::min(kHalf, columns - begin), residual,
                      tail ? static_cast<void*>(tail->floats) : y, tail ? begin : at + begin);
    if (tail) tail->run(y + at * tail->element, n, rows, columns);
  }

  Sizes s_;
  TileRows rows_are_;
  PanelShares shares_;
  const std::byte* weights_;
  std::optional<Int8Results> results_;
  std::vector<std::unique_ptr<BlockTail>> block_tails_;  // one a thread; none where the rest is a second pass, or none
  EpilogueTail tail_;
};

Support supports(const Problem& problem, const Device& device) {
  if (auto s = needs_op<ops::MatMul>(problem); !s.yes()) return s;
  if (!may_use_tiles(device)) return refused("this CPU has no tiles of 8-bit integers");
  const DType x = problem.inputs[0].type.dtype;
  if (x != DType::i8 && x != DType::u8) return refused("only i8 and u8, not ", x);
  if (problem.inputs[1].type.dtype != DType::i8) return refused("only i8 weights");
  if (auto s = panel_product_supported(problem); !s.yes()) return s;
  if (const int64_t depth = problem.inputs[0].dims().back(); depth % kTileStep != 0)
    return refused("rows of ", depth, " bytes are no multiple of ", kTileStep);
  if (!epilogue_of(problem)) return refused("its epilogue is not supported");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device&) { return {uniform_config(problem, Layout::plain)}; }

Packed build(const Problem& problem, const Config&, const Device&) {
  const BytePanels panels = Sizes(problem).panels;
  return packed_panels<int8_t>(problem, panels, panels.elements());
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView& packed,
                             const Device& device) {
  if (!may_use_tiles(device))
    fail(ErrorKind::unsupported, "this CPU has no tiles of 8-bit integers; build the plan again here");
  return std::make_unique<TilesInt8Kernel>(problem, config, packed);
}

}  // namespace

extern const Tactic cpu_matmul_int8_tiles;
const Tactic cpu_matmul_int8_tiles{"cpu.matmul.int8_tiles", 1, supports, configs, build, load};

}  // namespace temper
