// SPDX-License-Identifier: Apache-2.0
// Tiles, prepacked weights and launches of the GEMM kernel for Hopper (hopper_gemm.cu).
#include "backends/cuda/gemm/hopper_gemm.h"

#include <algorithm>
#include <cstring>

#include "backends/cuda/gemm/gemm.h"
#include "backends/cuda/gemm/image_epilogue.h"
#include "backends/cuda/gemm/image_prologue.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"
#include "base/checked.h"
#include "graph/ops/conv.h"
#include "graph/ops/fused.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/window.h"
#include "graph/product.h"

namespace temper::cuda {

std::optional<Problem> product_of_gated(const Problem& problem) {
  const auto* gated = problem.op.get_if<ops::GatedMatMul>();
  if (!gated) return {};
  std::vector<TensorType> types;
  for (const Port& port : problem.inputs) types.push_back(port.type);
  Problem product = problem;
  product.op = gated->product;
  product.outputs = {{gated->product_type(types, problem.outputs[0].type)}};
  return product;
}

HopperGemm hopper_gemm_of(const Problem& problem) {
  HopperGemm s;
  if (const auto product = product_of_gated(problem)) {
    s = hopper_gemm_of(*product);
    s.gated = true;
    s.result = problem.outputs[0].type.dtype;
    s.out_ld = problem.outputs[0].pitch ? problem.outputs[0].pitch : s.columns / 2;
    return s;
  }
  if (const auto conv = conv_behind_prologue(problem)) {
    s = hopper_gemm_of(*conv);
    s.prologue = true;
    return s;
  }
  s.a = problem.inputs[0].type.dtype;
  s.b = problem.inputs[1].type.dtype;
  s.result = problem.outputs[0].type.dtype;
  const Dims out = problem.outputs[0].dims(), in = problem.inputs[0].dims(), weights = problem.inputs[1].dims();
  if (const auto* conv = problem.op.get_if<ops::Conv>()) {
    s.columns = weights[0];
    s.channels = weights[1];
    s.images = in[0];
    s.rows = out[0] * out[2] * out[3];
    const ops::Window window = conv->window(weights);
    for (size_t i = 0; i < 2; ++i) {
      s.kernel[i] = weights[i + 2];
      s.stride[i] = conv->strides[i];
      s.dilation[i] = conv->dilations[i];
      s.pad[i] = ops::window_pads(window, int64_t(i), in[i + 2]).first;
      s.in[i] = in[i + 2];
      s.out[i] = out[i + 2];
      s.im2col |= s.kernel[i] != 1 || s.stride[i] != 1 || s.pad[i] != 0 || s.in[i] != s.out[i];
    }
  } else {
    s.channels = in.back();
    s.columns = out.back();
    s.rows = s.columns ? element_count(out) / s.columns : 0;
    if (const auto* matmul = problem.op.get_if<ops::MatMul>(); matmul && !problem.inputs[1].is_constant) {
      s.computed_b = true;
      s.b_by_rows = !matmul->transpose_b;
      s.rows = out[out.size() - 2];
      s.matrices = element_count(Dims(out.begin(), out.end() - 2));
      s.shared_a = element_count(Dims(in.begin(), in.end() - 2)) == 1;
    }
  }
  for (size_t i = 2; i < problem.inputs.size(); ++i) {
    if (problem.inputs[i].dims() != out) continue;
    s.extra_ld = problem.inputs[i].pitch;
    if (s.extra >= 0 || size_of(problem.inputs[i].type.dtype) != size_of(s.result)) {
      s.extra = -1;
      break;
    }
    s.extra = int(i);
  }
  for (size_t i = 2; i < problem.inputs.size(); ++i) {
    s.arrays += is_channel_array(problem, i);
    if (along_images(problem, i)) s.image_ld = problem.inputs[i].pitch;
  }
  s.a_ld = problem.inputs[0].pitch                         ? problem.inputs[0].pitch
           : s.computed_b && problem.inputs[0].is_constant ? round_up(s.channels, 16 / s.element())
                                                           : s.channels;
  s.out_ld = problem.outputs[0].pitch ? problem.outputs[0].pitch : s.columns;
  if (!s.extra_ld) s.extra_ld = s.columns;
  if (!s.image_ld) s.image_ld = s.columns;
  return s;
}

// The same of a convolution whose operand A is the result of another one in the same kernel.
static HopperGemm hopper_gemm_of_results(const Problem& problem) {
  HopperGemm s = hopper_gemm_of(problem);
  s.of_results = true;
  return s;
}

// The convolution of those inputs, as a problem of its own.
static Problem conv_problem(const ops::Conv& op, std::span<const Port> inputs) {
  std::vector<Operand> operands;
  operands.reserve(inputs.size());
  for (const Port& port : inputs) operands.push_back({port.present ? &port.type : nullptr});
  return {op, {inputs.begin(), inputs.end()}, {{op.infer(InferContext(operands, ops::Conv::name))[0]}}};
}

// The shortcut of those inputs, which joins `conv` at its input `at`.
static Shortcut join_shortcut(Problem& conv, int64_t at, const ops::Conv& op, std::span<const Port> inputs) {
  Shortcut shortcut{conv_problem(op, inputs), int(at)};
  conv.inputs.insert(conv.inputs.begin() + at, shortcut.conv.outputs[0]);
  return shortcut;
}

std::optional<ConvPair> conv_pair_of(const Problem& problem) {
  const auto* op = problem.op.get_if<ops::ConvChain>();
  if (!op) return {};
  const auto own = problem.inputs.begin() + op->first_inputs;
  ConvPair pair;
  pair.first = conv_problem(op->first, std::span(problem.inputs.begin(), own));
  pair.second.op = op->behind(op->then);
  const auto chained = problem.inputs.end() - op->shortcut_inputs,
             third = op->has_third() ? own + op->then_inputs : chained;
  pair.second.inputs = {pair.first.outputs[0]};
  pair.second.inputs.insert(pair.second.inputs.end(), own, third);
  pair.second.outputs = {problem.outputs[0]};
  if (op->has_shortcut())
    pair.shortcut = join_shortcut(pair.second, op->shortcut_at, op->shortcut, std::span(chained, problem.inputs.end()));
  if (!op->has_third()) return pair;
  pair.third.emplace().op = op->behind(op->third);
  pair.third->inputs = {{problem.outputs[0].type}};
  pair.third->inputs.insert(pair.third->inputs.end(), third, chained);
  pair.third->outputs = {problem.outputs[1]};
  return pair;
}

std::optional<WithShortcut> with_shortcut_of(const Problem& problem) {
  const auto* op = problem.op.get_if<ops::ShortcutConv>();
  if (!op) return {};
  const auto theirs = problem.inputs.begin() + op->conv_inputs;
  WithShortcut both{{op->conv, {problem.inputs.begin(), theirs}, problem.outputs}, {}};
  both.shortcut = join_shortcut(both.conv, op->shortcut_at, op->shortcut, std::span(theirs, problem.inputs.end()));
  return both;
}

// Checks what is asked of a gated product in addition to what is asked of a product.
static Support gate_supports(const Problem& product, const HopperGemm& s) {
  if (s.computed_b) return refused("a gate behind a computed second operand");
  if (size_of(s.result) > 4 || s.result == DType::boolean) return refused("results of ", s.result);
  if (s.columns % (8 * s.v())) return refused(s.columns, " columns, not whole groups of ", 8 * s.v());
  for (size_t i = 2; i < product.inputs.size(); ++i)
    if (element_count(product.inputs[i].dims()) != 1 && (!along_channels(product, i) || !product.inputs[i].is_constant))
      return refused("an epilogue input ", product.inputs[i].dims(), " before a gate, not a constant of each column");
  return supported();
}

Support hopper_gemm_supports(const Problem& problem, bool per_image) {
  if (const auto product = product_of_gated(problem)) {
    Support support = hopper_gemm_supports(*product);
    return support.yes() ? gate_supports(*product, hopper_gemm_of(problem)) : support;
  }
  const Port &a = problem.inputs[0], &b = problem.inputs[1];
  if (!on_matrix_units(a.type.dtype, b.type.dtype, allows_tf32(problem.op)))
    return refused("a product of ", a.type.dtype, " and ", b.type.dtype,
                   on_matrix_units(a.type.dtype, b.type.dtype, true) ? ", which may not be rounded to TF32" : "");
  if (!b.is_constant && !problem.op.is<ops::MatMul>()) return refused("its weights are not constant");
  if (!b.is_constant && size_of(b.type.dtype) != 2) return refused("a computed second operand of ", b.type.dtype);
  const HopperGemm s = hopper_gemm_of(problem);
  if (size_of(s.result) > 4 || s.result == DType::boolean) return refused("results of ", s.result);
  const bool packs_a = s.computed_b && a.is_constant;
  if (s.channels == 0 || (s.channels * s.element() % 16 && !(packs_a && s.b_by_rows)))
    return refused(s.channels, " channels of ", s.a, ", not whole multiples of 16 bytes");
  if (s.columns == 0) return refused("no output channels");
  if (s.computed_b && s.columns % 8) return refused(s.columns, " columns of a computed second operand");
  if (Support support = image_epilogue_supports(problem, per_image); !support.yes()) return support;
  // Inputs along the channels are padded when they are prepacked; those along the rows, too, would have to be shifted.
  const Dims out = problem.outputs[0].dims();
  for (size_t i = 2; s.ragged() && i < problem.inputs.size(); ++i) {
    if (problem.inputs[i].dims() == out || along_images(problem, i) ||
        (along_channels(problem, i) && !problem.inputs[i].is_constant))
      return refused(s.columns, " output channels of ", s.result,
                     ", not whole multiples of 16 bytes, with an epilogue input that is not constant");
  }
  return gemm_supports(s.a, s.b, s.rows * s.matrices, s.columns, s.packed_depth(), epilogue_of(problem));
}

Support hopper_prologue_supports(const Problem& problem) {
  const HopperGemm s = hopper_gemm_of(problem);
  // The padding of an image is zero behind its prologue, and that of TMA before it.
  if (s.im2col) return refused("a prologue before a convolution of several taps, strides or padding");
  if (s.a == DType::f32) return refused("a prologue before operands that are rounded to TF32");
  // Each tile of columns computes it anew. Small images are in L2, and their tiles too few to hide it: on an H200 576
  // columns of 14x14 and 192 of 7x7, batch 32 and 128, took 1.2 times as long as with the program in a step of its own.
  constexpr int64_t kMostColumns = 256, kMostSteps = 16, kLeastPositions = 128;
  if (s.columns > kMostColumns) return refused("a prologue before ", s.columns, " columns");
  const size_t steps = prologue_of(problem)->steps.size();
  if (steps > kMostSteps) return refused("a prologue of ", steps, " steps");
  if (prologue_by_image(problem) && s.in[0] * s.in[1] < kLeastPositions)
    return refused("a prologue that differs from image to image of ", s.in[0] * s.in[1], " positions");
  return image_prologue_supports(problem);
}

namespace {

// Shared memory of an SM of compute capability 9.0, the only one that this kernel is for, and the part of it that the
// driver keeps of each block.
constexpr int64_t kSharedOfSm = 228 << 10, kSharedReserved = 1 << 10;

struct Tile {
  std::string_view text;  // M x N
  int rows, columns;      // M and N of a consumer warpgroup
  bool cooperative;       // the consumers split one tile; otherwise they take alternate tiles (ping-pong)
  int consumers = 2;      // consumer warpgroups
  int splits = 1;         // split K: blocks of a cluster that share a tile
  int sharers = 1;        // blocks of a cluster that share the columns of B, and load them together
  bool patches = false;   // taps may read a patch: of the tiles that could, this one won wherever a patch did

  // Blocks per SM. Those with one consumer leave room for another, if its registers hold the sums of half an SM.
  int blocks() const { return consumers == 1 && rows * columns <= 64 * 128 ? 2 : 1; }
  int64_t shared_bytes() const { return kSharedOfSm / blocks() - kSharedReserved; }
  // Registers of a consumer thread, as hopper_gemm.cu sets them (MANY).
  int64_t registers() const { return consumers == 3 ? 160 : consumers == 4 || blocks() == 2 ? 112 : 232; }
};
constexpr Tile kTiles[] = {{"tile=128x128", 128, 128, false},
                           {"tile=64x64", 64, 64, false},
                           {"tile=64x256", 64, 256, false},
                           {"tile=256x128 together", 128, 128, true},
                           {"tile=128x128 shared", 128, 128, false, 2, 1, 2},
                           {"tile=64x128 groups=3", 64, 128, false, 3},
                           {"tile=128x64 groups=3", 128, 64, false, 3, 1, 1, true},
                           {"tile=64x32 groups=1", 64, 32, true, 1},
                           {"tile=64x64 groups=1", 64, 64, true, 1},
                           {"tile=64x128 groups=1", 64, 128, true, 1},
                           {"tile=64x32 splits=2", 64, 32, true, 1, 2},
                           {"tile=64x64 splits=2", 64, 64, true, 1, 2},
                           {"tile=64x64 splits=4", 64, 64, true, 1, 4},
                           {"tile=64x64 splits=8", 64, 64, true, 1, 8},
                           // 3072 and 4096 columns of 384 rows, as of BERT at batch 1, fill the SMs with one of these.
                           {"tile=128x96", 128, 96, false},
                           {"tile=128x96 together", 64, 96, true},
                           // 320, 640 and 1280 columns, as of diffusion models, fill the SMs with one of these.
                           {"tile=128x160", 128, 160, false},
                           {"tile=128x160 shared", 128, 160, false, 2, 1, 2},
                           {"tile=128x160 together", 64, 160, true},
                           {"tile=128x160 splits=2", 128, 160, true, 1, 2},
                           {"tile=128x160 splits=4", 128, 160, true, 1, 4},
                           {"tile=64x160 splits=8", 64, 160, true, 1, 8}};
// Tiles of fused pairs. A tile has all columns of the first convolution.
constexpr Tile kPairTiles[] = {{"tile=64x64 groups=4", 64, 64, false, 4},
                               {"tile=128x64 groups=3", 128, 64, false, 3, 1, 1, true},
                               {"tile=64x128 groups=3", 64, 128, false, 3},
                               {"tile=128x128", 128, 128, false}};
// Tiles of pairs that a third convolution follows, whose sums take registers, too.
constexpr Tile kTilesOfThree[] = {{"tile=64x64 groups=3", 64, 64, false, 3, 1, 1, true},
                                  {"tile=128x64", 128, 64, false, 2, 1, 1, true},
                                  {"tile=64x64", 64, 64, false},
                                  {"tile=64x128", 64, 128, false}};
// Suffixes of a tile: the taps of a convolution read a patch; TMA stores the results.
constexpr std::string_view kPatch = " patch", kStored = " stored";
constexpr int kMostStages = 16, kFewestStages = 2, kTurnBytes = 48;

bool is_of_matrices(const Problem& problem) { return problem.op.is<ops::MatMul, ops::GatedMatMul>(); }

// The GEMMs that one kernel computes: the first; behind it, for a fused pair, a second and perhaps a third one; and
// that of a shortcut. `sms`: the SMs that it runs on.
struct FusedGemm {
  HopperGemm first;
  std::optional<HopperGemm> second, third;
  int sms;
  bool is_product = false;  // not of a convolution
  std::optional<HopperGemm> shortcut = {};
  int64_t joined_bytes = 0;  // of an element of its result
  const HopperGemm& last() const { return second ? *second : first; }
  // K slices of the shortcut: those that go through the ring, and those of a pair, which come ahead as a residual does.
  int64_t ring_slices() const { return shortcut && !second ? shortcut->slices() : 0; }
  int64_t held_slices() const { return shortcut && second ? shortcut->slices() : 0; }
};
void join(FusedGemm& t, HopperGemm& joined, const Shortcut& shortcut) {
  joined.extra = -1;  // it is in registers
  t.shortcut = hopper_gemm_of(shortcut.conv);
  t.joined_bytes = size_of(t.shortcut->result);
  t.shortcut->given_slice = t.first.slice();
  t.shortcut->given_v = joined.v();
}
FusedGemm fused_gemm_of(const ConvPair& pair, int sms) {
  FusedGemm t{hopper_gemm_of(pair.first), hopper_gemm_of_results(pair.second), {}, sms};
  if (pair.third) t.third = hopper_gemm_of_results(*pair.third);
  if (pair.shortcut) join(t, *t.second, *pair.shortcut);
  return t;
}
FusedGemm fused_gemm_of(const WithShortcut& both, int sms) {
  FusedGemm t{hopper_gemm_of(both.conv), {}, {}, sms};
  join(t, t.first, both.shortcut);
  return t;
}
FusedGemm fused_gemm_of(const Problem& problem, const std::optional<ConvPair>& pair, const GpuProperties& gpu) {
  if (const auto both = with_shortcut_of(problem)) return fused_gemm_of(*both, gpu.sms);
  if (!pair) return {hopper_gemm_of(problem), {}, {}, gpu.sms, is_of_matrices(problem)};
  return fused_gemm_of(*pair, gpu.sms);
}

// Bytes that are read and written for each column of a row of the (last) product.
int64_t bytes_of_column(const Problem& problem, const std::optional<ConvPair>& pair) {
  if (const auto conv = conv_behind_prologue(problem)) return gemm_result_bytes(*conv);
  const auto both = with_shortcut_of(problem);
  if (both || (pair && pair->shortcut)) {
    const Shortcut& shortcut = both ? both->shortcut : *pair->shortcut;
    return gemm_result_bytes(both ? both->conv : pair->second) - size_of(shortcut.conv.outputs[0].type.dtype);
  }
  return gemm_result_bytes(pair ? pair->second : problem) / (problem.op.is<ops::GatedMatMul>() ? 2 : 1);
}

// A configuration as this file reads it: a tile, and what follows from it for the GEMMs.
struct Choice {
  const Tile* tile;
  bool patch = false;     // all taps read a patch of A
  bool resident = false;  // B stays in shared memory
  int extra_stages = 0;   // buffers for tiles of the residual
  bool stored = false;    // TMA stores the results
};

int64_t tile_rows(const Tile& tile) { return tile.rows * (tile.cooperative ? tile.consumers : 1); }
// Chunks of N that the second product is computed in.
int64_t chunks_of(const FusedGemm& t, const Tile& tile) {
  return t.second ? ceil_div(t.second->columns, int64_t(tile.columns)) : 1;
}
// Chunks of the residual that are loaded at a time. Rows then have up to 128 bytes; TMA takes as long for a shorter
// one.
int64_t extra_chunks(const FusedGemm& t, const Tile& tile) {
  return std::min(chunks_of(t, tile), std::max<int64_t>(1, 128 / (tile.columns * size_of(t.last().result))));
}
// Columns that the kernel has of the third product, and K slices: all of the chunks that it is multiplied with.
int64_t third_columns(const FusedGemm& t) { return t.third->columns <= 64 ? 64 : 128; }
int64_t third_slices(const FusedGemm& t, const Tile& tile) {
  return ceil_div(chunks_of(t, tile) * tile.columns * t.third->element(), t.third->slice());
}
// Shared memory for the weights of the second product, its shortcut's and the third's.
int64_t bytes_behind(const FusedGemm& t, const Tile& tile) {
  if (!t.second) return 0;
  const int64_t second =
      chunks_of(t, tile) * tile.columns * (t.second->slice() * t.second->slices() + t.first.slice() * t.held_slices());
  return second + (t.third ? third_columns(t) * t.third->slice() * third_slices(t, tile) : 0);
}
int64_t resident_bytes(const FusedGemm& t, const Choice& c) {
  const int64_t slices = t.first.slices() + t.ring_slices();
  return (c.resident ? c.tile->columns * t.first.slice() * slices : 0) + bytes_behind(t, *c.tile);
}
int64_t array_bytes(const FusedGemm& t, const Choice& c) {
  if (c.tile->splits > 1) return 0;
  const int64_t first = t.second ? t.first.arrays * c.tile->columns * 4 : 0,
                third = t.third ? t.third->arrays * third_columns(t) * 4 : 0,
                arrays = t.last().arrays + (t.shortcut ? t.shortcut->arrays : 0),
                last = arrays * chunks_of(t, *c.tile) * c.tile->columns * 4;
  return first + third + last * (c.resident || t.second ? 1 : 2 * c.tile->consumers);
}
// Rows of A that a stage of the ring has: of a patch those of a tile, and as many more as its taps reach.
int64_t stage_rows(const FusedGemm& t, const Choice& c) { return tile_rows(*c.tile) + (c.patch ? t.first.reach() : 0); }
int64_t stage_bytes(const FusedGemm& t, const Choice& c) {
  constexpr int64_t kAlignment = 1024;
  return round_up(stage_rows(t, c) * t.first.slice(), kAlignment) +
         (c.resident ? 0 : c.tile->columns * t.first.slice());
}
int64_t extra_bytes(const FusedGemm& t, const Choice& c) {
  const int64_t row = t.held_slices() ? t.first.slice() * t.held_slices()
                                      : extra_chunks(t, *c.tile) * c.tile->columns * size_of(t.last().result);
  return c.extra_stages * (c.tile->cooperative ? 1 : c.tile->consumers) * (tile_rows(*c.tile) * row + 16);
}
int64_t partial_bytes(const Choice& c) { return c.tile->splits > 1 ? tile_rows(*c.tile) * c.tile->columns * 4 : 0; }
int64_t slices_of_block(const FusedGemm& t, const Choice& c) {
  return ceil_div(t.first.slices(), int64_t(c.tile->splits));
}
// Stages of the ring that a block fills for a tile.
int64_t steps_of(const FusedGemm& t, const Choice& c) {
  return c.patch ? t.first.channel_slices() : slices_of_block(t, c) + t.ring_slices();
}
int64_t stages_of(const FusedGemm& t, const Choice& c) {
  const int64_t room = c.tile->shared_bytes() - kTurnBytes - resident_bytes(t, c) - extra_bytes(t, c) -
                       array_bytes(t, c) - partial_bytes(c);
  // With few slices a shallow ring leaves room for more blocks. Its depth comes in steps, so that shapes share kernels.
  const int64_t slices = steps_of(t, c);
  const int64_t wanted = c.tile->blocks() == 1 ? kMostStages : slices > 4 ? 8 : slices > 2 ? 4 : 2;
  return std::min(wanted, room / (stage_bytes(t, c) + 16));
}
// Blocks of the grid. With a resident B a block stays on one N tile, so their number is a multiple of the N tiles.
int64_t blocks_of(const FusedGemm& t, const Choice& c) {
  const int64_t across = ceil_div(t.first.columns, int64_t(c.tile->columns));
  const int64_t blocks = int64_t(t.sms) / c.tile->sharers * c.tile->sharers * c.tile->blocks();
  return c.resident ? blocks / across * across : blocks;
}
// The number of rows that are cut into tiles.
int64_t rows_of(const FusedGemm& t, const Choice& c) { return c.patch ? t.first.padded_rows() : t.first.rows; }
int64_t tiles_of(const FusedGemm& t, const Choice& c) {
  return t.first.matrices * ceil_div(rows_of(t, c), tile_rows(*c.tile)) *
         ceil_div(t.first.columns, int64_t(c.tile->columns));
}

// Tiles that are walked: those that blocks with the same columns have at a time are one.
int64_t walked_tiles(const FusedGemm& t, const Choice& c) {
  const Tile& tile = *c.tile;
  return t.first.matrices * ceil_div(rows_of(t, c), tile_rows(tile) * tile.sharers) *
         ceil_div(t.first.columns, int64_t(tile.columns));
}

// Whether the sums of a fused pair's products and the operands between them fit into the registers of a thread, beside
// what the loops and epilogues take, as ptxas showed it by what it spilled.
bool registers_fit(const FusedGemm& t, const Tile& tile, bool patch) {
  if (t.third && t.third->columns > 128) return false;
  const int64_t third = t.third ? third_columns(t) / 2 + tile.columns * t.third->element() / 8 : 0,
                between = t.second->slice() * t.second->slices() / 32 * 4,
                joined = t.shortcut ? tile.columns * t.joined_bytes / 8 : 0;
  const int64_t blocks = tile.rows / 64, others = 22 + 10 * blocks + (patch ? 8 : 0);
  return blocks * (tile.columns / 2 + between + third + joined) + others <= tile.registers();
}

// Whether the sums of a product and what a shortcut gives for them fit likewise.
bool shortcut_fits_registers(const FusedGemm& t, const Tile& tile) {
  const int64_t blocks = tile.rows / 64;
  return blocks * (tile.columns / 2 + tile.columns * t.joined_bytes / 8) + 24 + 8 * blocks <= tile.registers();
}

bool columns_fit(const FusedGemm& t, const Tile& tile, bool patch) {
  if (t.shortcut && !t.second && (patch || tile.splits > 1 || tile.sharers > 1 || !shortcut_fits_registers(t, tile)))
    return false;
  if (tile.columns % (4 * t.first.v()) || tile.columns % (4 * t.last().v())) return false;
  if (t.first.gated && tile.columns % (8 * t.first.v())) return false;
  // Where rows begin anywhere, the neighbours' columns take registers, too.
  if (t.last().ragged() && tile.columns > (tile.consumers == 1 ? 64 : 128)) return false;
  return !t.second || (tile.columns >= t.first.columns && tile.columns < 2 * std::max<int64_t>(t.first.columns, 64) &&
                       registers_fit(t, tile, patch));
}

// Whether the taps of the convolution can read a patch: positions that are as far apart in all of the images. The
// limits are those of im2col tensor maps (CUDA driver API, cuTensorMapEncodeIm2col).
bool takes_patch(const HopperGemm& s, int64_t rows) {
  constexpr int64_t kMostPixels = 1024, kMostBehind = 127;
  for (size_t i = 0; i < 2; ++i)
    if (s.stride[i] != 1 || s.pad_behind(i) < 0 || s.padded(i) < s.out[i] || s.padded(i) - s.out[i] > kMostBehind)
      return false;
  return s.kernel[0] * s.kernel[1] > 1 && rows <= kMostPixels;
}

// Nothing if the tile does not fit. A resident B must leave some stages and serve at least two tiles; buffers for the
// residual must leave some stages, too. With a `patch` the first of them may leave the fewest, as a stage has more.
std::optional<Choice> choice_of(const FusedGemm& t, const Tile& tile, bool patch) {
  const int64_t kEnough = patch ? 3 : 4;
  if (!columns_fit(t, tile, patch)) return {};
  Choice choice{&tile};
  choice.extra_stages = t.held_slices() ? 1 : 0;
  choice.patch = choice.resident = patch;
  if (patch && (!tile.patches || !takes_patch(t.first, stage_rows(t, choice)) || blocks_of(t, choice) == 0)) return {};
  if (t.first.computed_b && (tile.splits > 1 || tile.sharers > 1 || tile.columns % 64 != 0)) return {};
  if (t.first.gated && tile.splits > 1) return {};
  if (tile.splits > 1) {
    // Each block has something to sum, and all blocks run at once.
    const bool all = (tile.splits - 1) * slices_of_block(t, choice) < t.first.slices();
    const bool room = tiles_of(t, choice) * tile.splits <= blocks_of(t, choice);
    return all && slices_of_block(t, choice) > 1 && room ? std::optional(choice) : std::nullopt;
  }
  Choice with = choice;
  with.resident = tile.sharers == 1 && !t.first.computed_b;
  if (const int64_t blocks = blocks_of(t, with);
      !patch && with.resident && blocks > 0 && tiles_of(t, with) > blocks && stages_of(t, with) >= kEnough)
    choice = with;
  for (int stages = 1; stages <= (tile.cooperative ? 2 : std::max(2, 6 / tile.consumers)); ++stages) {
    with = choice;
    with.extra_stages = stages;
    if ((t.last().extra >= 0 || t.held_slices()) &&
        stages_of(t, with) >= (patch && stages == 1 ? kFewestStages : kEnough))
      choice = with;
  }
  if (stages_of(t, choice) < kFewestStages) return {};
  return choice;
}

// Stores by TMA are worth it from a number of tiles per consumer on, because a block must wait until TMA has read its
// last tile. On an H200, ResNet-50's residuals took up to 9 % longer with 1 or 2 tiles, and 1 to 5 % less in INT8 with
// 8 or more.
bool worth_storing(const FusedGemm& t, const Choice& c) {
  constexpr int64_t kFewest = 4;
  const int64_t warpgroups = blocks_of(t, c) * (c.tile->cooperative ? 1 : c.tile->consumers);
  return c.extra_stages > 0 && !t.held_slices() && !c.patch && !t.first.computed_b &&
         tiles_of(t, c) >= kFewest * warpgroups;
}

// Whether all SMs load at once, so that less from L2 is worth a cluster. Convolutions have few weights, which stay in
// shared memory.
bool fills_gpu(const FusedGemm& t, const Tile& tile) {
  return t.is_product && !t.first.computed_b && tiles_of(t, {&tile}) >= blocks_of(t, {&tile});
}

// Whether a block has several tiles of patches, so that the weights, which come first, are worth the wait.
bool worth_a_patch(const FusedGemm& t, const Choice& c) { return tiles_of(t, c) > blocks_of(t, c); }

// Of the products of transformers that fill an H200, none was as fast with these tiles as with the best one.
bool is_small(const Tile& tile) {
  return tile.rows * tile.columns < 64 * 128 || tile.consumers == 1 || tile.columns > 160;
}

// The numbers of the estimate below, in clocks unless said otherwise.
struct EstimateNumbers {
  double of_splits;   // what putting parts of sums together takes
  double from_cache;  // bytes per clock that an SM loads from L2 if all SMs do
  double of_peak;     // share of the matrix units' peak that a kernel reaches
  double saved;       // share of the bytes that a neighbour loads for a block that it need not wait for
  double behind;      // how often an epilogue counts that comes behind the products of its tile,
  double beside;      // and one that runs beside those of another
};
// Fitted to 26 products of BERT and ViT on an H200: the first of the ranking was 4 % slower than the best tile on
// average, the best of the first 6 one.
constexpr EstimateNumbers kOfProducts{500, 52, 1 / 1.4, 0.25, 1.5, 0.2};
// With those the large tiles of convolutions in bytes fall behind the first 6. Of 63 convolutions in FP16 the best of
// the first 6 was 0.7 % slower than the best tile with these.
constexpr EstimateNumbers kOfConvolutions{1000, 44, 1, 1, 1, 0};

// A rough estimate in clocks, which ranks candidates; only the top of the ranking is measured. An SM multiplies
// 64 x 64 x 32 bytes in 32 clocks at most. Per clock it loads 64 bytes from L2 at most, and 14 bytes go to and from
// memory.
double expected_clocks(const FusedGemm& t, const Choice& c, int64_t result_bytes) {
  const EstimateNumbers& n = t.is_product ? kOfProducts : kOfConvolutions;
  const Tile& tile = *c.tile;
  const int64_t rows = tile_rows(tile), columns = chunks_of(t, tile) * tile.columns,
                parts = tiles_of(t, c) * tile.splits;
  const int64_t busy = std::clamp<int64_t>(blocks_of(t, c) / tile.blocks(), 1, std::max<int64_t>(1, parts));
  const double wide = double(std::max(tile.columns, 64)) / 64, each = double(ceil_div(parts, busy)),
               from_cache = std::min(64.0, n.from_cache * t.sms / double(busy));
  const double shared_away = n.saved * double(tile.columns * t.first.slice() * (tile.sharers - 1)) / tile.sharers;
  const double second = t.second ? double(columns) / 64 * double(t.second->slice() * t.second->slices()) : 0;
  const int64_t slices = slices_of_block(t, c) + t.ring_slices() + t.held_slices();
  const double products = double(rows) / 64 * (wide * double(t.first.slice()) * double(slices) + second) / n.of_peak,
               loads = (double(stage_bytes(t, c)) - shared_away) * double(steps_of(t, c)) / from_cache,
               memory = double(rows * columns * result_bytes) / 14 / tile.splits,
               epilogue =
                   double(tile.rows * (columns + (t.second || t.shortcut ? tile.columns : 0))) / 128 * 10 / tile.splits;
  return 2000 + (tile.splits > 1 ? n.of_splits : 0) +
         each * (std::max({products, loads, memory, 400.0}) + epilogue * (tile.cooperative ? n.behind : n.beside));
}

// Whether tiles are walked along the rows first: of large weights L2 keeps nothing for the next row of tiles, and they
// are loaded once if it keeps what they are multiplied with. A block with a resident B must stay on its columns.
bool walks_along_rows(const FusedGemm& t, const Choice& c, const GpuProperties& gpu) {
  const int64_t a = t.first.rows * t.first.channels, b = t.first.packed_columns() * t.first.packed_depth();
  return !c.resident && !t.second && !t.first.computed_b && b * t.first.element() > gpu.l2_bytes / 4 && a < b;
}

std::span<const Tile> tiles_for(const FusedGemm& t) {
  if (t.third) return kTilesOfThree;
  if (t.second) return kPairTiles;
  return kTiles;
}

std::vector<Layout> layouts_of_inputs(const Problem& problem, const std::optional<ConvPair>& pair) {
  if (!pair && is_of_matrices(problem)) return std::vector<Layout>(problem.inputs.size(), Layout::plain);
  if (const auto both = with_shortcut_of(problem)) {  // numbers and channels, besides the two images
    std::vector<Layout> layouts(problem.inputs.size(), Layout::plain);
    layouts[0] = layouts[both->conv.inputs.size() - 1] = Layout::channels_last;
    return layouts;
  }
  std::vector<Layout> layouts = image_epilogue_layouts(pair ? pair->first : without_prologue(problem));
  layouts[0] = Layout::channels_last;
  if (!pair) layouts.resize(problem.inputs.size(), Layout::plain);  // numbers or channels, which a prologue reads
  if (pair) {
    const std::vector<Layout> behind = image_epilogue_layouts(pair->second);
    layouts.insert(layouts.end(), behind.begin() + 1, behind.end());
    if (pair->shortcut) layouts.erase(layouts.begin() + int64_t(pair->first.inputs.size()) - 1 + pair->shortcut->at);
    layouts.resize(problem.inputs.size(), Layout::plain);  // weights and numbers of channels
    if (pair->shortcut) layouts[layouts.size() - pair->shortcut->conv.inputs.size()] = Layout::channels_last;
  }
  return layouts;
}

}  // namespace

bool shortcut_fits(const WithShortcut& both) {
  const FusedGemm t = fused_gemm_of(both, 0);
  return std::ranges::any_of(
      kTiles, [&](const Tile& tile) { return columns_fit(t, tile, false) && stages_of(t, {&tile}) >= kFewestStages; });
}

bool pair_fits(const ConvPair& pair) {
  const FusedGemm t = fused_gemm_of(pair, 0);  // shared memory and registers alone decide
  return std::ranges::any_of(tiles_for(t), [&](const Tile& tile) {
    Choice choice{&tile};
    choice.extra_stages = t.held_slices() ? 1 : 0;
    return columns_fit(t, tile, false) && stages_of(t, choice) >= kFewestStages;
  });
}

std::vector<Config> hopper_gemm_configs(const Problem& problem, const GpuProperties& gpu) {
  const auto pair = conv_pair_of(problem);
  const FusedGemm t = fused_gemm_of(problem, pair, gpu);
  const int64_t result_bytes = bytes_of_column(problem, pair);
  std::vector<std::pair<double, std::string>> candidates;
  std::vector<std::string> patches;  // added to them: the estimate does not rank by their loads
  const bool fills = !pair && t.first.columns >= 512 && fills_gpu(t, kTiles[0]);
  for (const Tile& tile : tiles_for(t)) {
    if (tile.sharers > 1 ? !fills_gpu(t, tile) : fills && is_small(tile)) continue;
    if (tile.columns == 96 && !t.is_product) continue;  // of 63 convolutions they won five, by little
    if (const auto choice = choice_of(t, tile, false))
      candidates.push_back(
          {expected_clocks(t, *choice, result_bytes), concat(tile.text, worth_storing(t, *choice) ? kStored : "")});
    if (const auto choice = choice_of(t, tile, true); choice && worth_a_patch(t, *choice))
      patches.push_back(concat(tile.text, kPatch));
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& x, const auto& y) { return x.first < y.first; });
  std::vector<Config> out;
  constexpr size_t kMost = 6;
  const Layout layout = is_of_matrices(problem) ? Layout::plain : Layout::channels_last;
  candidates.resize(std::min(kMost, candidates.size()));
  for (std::string& text : patches) candidates.push_back({0, std::move(text)});
  out.reserve(candidates.size());
  for (const auto& [clocks, text] : candidates)
    out.push_back({text, layouts_of_inputs(problem, pair), std::vector<Layout>(problem.outputs.size(), layout)});
  return out;
}

namespace {

Choice choice_of(const FusedGemm& t, std::string_view text) {
  std::string_view of_tile = text;
  const auto cut = [&](std::string_view suffix) {
    const bool there = of_tile.ends_with(suffix);
    if (there) of_tile.remove_suffix(suffix.size());
    return there;
  };
  const bool stored = cut(kStored), patch = cut(kPatch);
  for (const Tile& tile : tiles_for(t)) {
    if (tile.text != of_tile) continue;
    auto choice = choice_of(t, tile, patch);
    if (!choice || (stored && (!choice->extra_stages || t.held_slices() || patch || t.first.computed_b))) break;
    choice->stored = stored;
    return *choice;
  }
  fail(ErrorKind::bad_file, "there is no '", text, "' for a product of ", t.first.rows, " by ", t.first.columns,
       " elements");
}

// Prepacks weights: a row holds one column of B, tap after tap, and the channels of a tap in whole slices. The order of
// rows within 4 * v makes a thread's sums neighbours of the output: wgmma's accumulators lie as n8 * 8 + quad * 2 + i,
// and thread `quad` shall have columns quad * v to quad * v + v - 1.
template <class Word>
void pack_weights(const HopperGemm& s, const Tensor& w, bool conv, bool transposed, std::span<std::byte> to) {
  const int64_t taps = s.kernel[0] * s.kernel[1], v = s.v(), depth = s.packed_depth(), per_tap = depth / taps;
  auto rounded = [](Word x) {  // f32 to TF32, half away from zero
    if constexpr (sizeof(Word) == 4)
      if ((x & 0x7f800000) != 0x7f800000) return Word((x + 0x1000) & 0xffffe000);
    return x;
  };
  const Word* const from = reinterpret_cast<const Word*>(w.raw().data());
  Word* const out = reinterpret_cast<Word*>(to.data());
  const auto column_at = [&](int64_t r) {
    const int64_t at = r % (4 * v);
    return s.column_of(r - at + at % 8 / 2 * v + at / 8 * 2 + at % 2);
  };
  // A channel's columns are neighbours: those of 4 * v rows are read at once, where they share cache lines.
  if (!conv && !transposed) {
    std::vector<std::pair<const Word*, Word*>> ways;
    for (int64_t first = 0; first < s.packed_columns(); first += 4 * v) {
      ways.clear();
      for (int64_t r = first; r < first + 4 * v; ++r)
        if (const int64_t column = column_at(r); column < s.columns) ways.emplace_back(from + column, out + r * depth);
      for (int64_t c = 0; c < s.channels; ++c) {
        const int64_t place = s.place_of_channel(c);
        for (const auto& [source, row] : ways) row[place] = rounded(source[c * s.columns]);
      }
    }
    return;
  }
  // Channels of a column are neighbours, or `taps` apart.
  for (int64_t r = 0; r < s.packed_columns(); ++r) {
    const int64_t column = column_at(r);
    if (column >= s.columns) continue;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const Word* const source = from + column * s.channels * taps + tap;
      Word* const row = out + r * depth + tap * per_tap;
      if (taps == 1 && !s.of_results) std::transform(source, source + s.channels, row, rounded);
      else
        for (int64_t c = 0; c < s.channels; ++c) row[s.place_of_channel(c)] = rounded(source[c * taps]);
    }
  }
}
AlignedBytes packed_weights(const HopperGemm& s, const Tensor& w, bool conv, bool transposed) {
  AlignedBytes out(size_t(s.packed_columns() * s.packed_depth() * s.element()));
  if (s.element() == 1) pack_weights<uint8_t>(s, w, conv, transposed, out);
  else if (s.element() == 2) pack_weights<uint16_t>(s, w, conv, transposed, out);
  else pack_weights<uint32_t>(s, w, conv, transposed, out);
  return out;
}

// Both prepacked weights, those of a column one behind the other.
AlignedBytes interleaved(const HopperGemm& s, const AlignedBytes& packed, const HopperGemm& shortcut,
                         const Tensor& weights) {
  const AlignedBytes theirs = packed_weights(shortcut, weights, true, false);
  const int64_t row = s.packed_depth() * s.element(), their_row = shortcut.packed_depth() * s.element();
  AlignedBytes out;
  out.reserve(packed.size() + theirs.size());
  for (int64_t r = 0; r < s.packed_columns(); ++r) {
    out.insert(out.end(), packed.begin() + r * row, packed.begin() + (r + 1) * row);
    out.insert(out.end(), theirs.begin() + r * their_row, theirs.begin() + (r + 1) * their_row);
  }
  return out;
}

TensorMapSpec map_of_a(const HopperGemm& s, int64_t rows, bool patch) {
  TensorMapSpec map;
  map.element_bytes = int(s.element());
  map.tf32 = s.a == DType::f32;
  map.swizzle = int(s.slice());
  const uint64_t pitch = uint64_t(s.a_ld * s.element()), per_slice = uint64_t(s.slice() / s.element());
  if (!s.im2col) {
    map.sizes = {uint64_t(s.channels), uint64_t(s.rows * (s.shared_a ? 1 : s.matrices))};
    map.strides = {pitch};
    map.box = {uint32_t(per_slice), uint32_t(rows)};
    map.steps = {1, 1};
    return map;
  }
  map.sizes = {uint64_t(s.channels), uint64_t(s.in[1]), uint64_t(s.in[0]), uint64_t(s.images)};
  map.strides = {pitch, pitch * uint64_t(s.in[1]), pitch * uint64_t(s.in[1] * s.in[0])};
  map.steps = {1, uint32_t(s.stride[1]), uint32_t(s.stride[0]), 1};
  map.channels = uint32_t(per_slice);
  map.pixels = uint32_t(rows);
  for (size_t i : {1, 0}) {
    map.low.push_back(int(-s.pad[i]));
    map.high.push_back(
        int(patch ? s.padded(i) - s.pad[i] - s.in[i] : (s.out[i] - 1) * s.stride[i] - s.pad[i] - (s.in[i] - 1)));
  }
  return map;
}

// Of a row of so many columns, the bytes that TMA moves at a time, which is what it swizzles by. Warps read and write
// 64 bytes of each of eight rows: in pieces as wide they meet in no bank. On an H200 that made residuals of 16 bits 1
// to 4 % faster, and those of bytes, whose stores are twice as many then, up to 2 % slower.
int64_t piece_bytes(int64_t columns, int64_t element) {
  const int64_t row = columns * element, widest = element == 2 || row % 128 != 0 ? 64 : 128;
  return std::min(row, widest);
}

// Rows of a tile as TMA loads them that are positions of `patch`, a convolution: `columns` channels at a time of images
// as large as its output. Those that are no results are zeros.
TensorMapSpec map_of_positions(int64_t element, int64_t channels, int64_t pitch, int64_t rows, int64_t columns,
                               const HopperGemm& patch) {
  TensorMapSpec map;
  map.element_bytes = int(element);
  map.swizzle = int(columns * element);
  const uint64_t step = uint64_t(pitch * element), wide = uint64_t(patch.out[1]), high = uint64_t(patch.out[0]);
  map.sizes = {uint64_t(channels), wide, high, uint64_t(patch.images)};
  map.strides = {step, step * wide, step * wide * high};
  map.steps = {1, 1, 1, 1};
  map.channels = uint32_t(columns);
  map.pixels = uint32_t(rows);
  map.low = {0, 0};
  for (size_t i : {1, 0}) map.high.push_back(int(patch.padded(i) - patch.out[i]));
  return map;
}

// Rows of a tile as TMA loads residuals and stores results. Those of a patch are positions of `patch`, the first
// convolution.
TensorMapSpec map_of_results(const HopperGemm& s, int64_t pitch, int64_t rows, int64_t columns,
                             const HopperGemm* patch = nullptr) {
  const int64_t element = size_of(s.result), piece = piece_bytes(columns, element);
  if (patch) return map_of_positions(element, s.columns, pitch, rows, piece / element, *patch);
  TensorMapSpec map;
  map.element_bytes = int(element);
  map.swizzle = int(piece);
  map.sizes = {uint64_t(s.columns), uint64_t(s.rows * s.matrices)};
  map.strides = {uint64_t(pitch * map.element_bytes)};
  map.box = {uint32_t(map.swizzle / map.element_bytes), uint32_t(rows)};
  map.steps = {1, 1};
  return map;
}

// `depth`: that of a row of the weights, of which those of a shortcut are a part.
TensorMapSpec map_of_weights(const HopperGemm& s, int64_t columns, int64_t depth) {
  TensorMapSpec map;
  map.element_bytes = int(s.element());
  map.sizes = {uint64_t(depth), uint64_t(s.packed_columns())};
  map.strides = {uint64_t(depth * s.element())};
  map.box = {uint32_t(s.slice() / s.element()), uint32_t(columns)};
  map.steps = {1, 1};
  map.swizzle = int(s.slice());
  return map;
}

TensorMapSpec map_of_weights(const HopperGemm& s, int64_t columns) {
  return map_of_weights(s, columns, s.packed_depth());
}

// A computed B, as four axes.
TensorMapSpec map_of_computed(const HopperGemm& s, int64_t columns) {
  const int64_t inner = s.b_by_rows ? s.columns : s.channels, outer = s.b_by_rows ? s.channels : s.columns;
  const uint64_t pitch = uint64_t(inner * s.element()), matrix = pitch * uint64_t(outer);
  TensorMapSpec map;
  map.element_bytes = int(s.element());
  map.sizes = {uint64_t(inner), uint64_t(outer), uint64_t(s.matrices), 1};
  map.strides = {pitch, matrix, matrix * uint64_t(s.matrices)};
  map.box = {uint32_t(s.slice() / s.element()), uint32_t(s.b_by_rows ? s.slice() / s.element() : columns), 1, 1};
  map.steps = {1, 1, 1, 1};
  map.swizzle = int(s.slice());
  return map;
}

// The constants that hopper_gemm.cu is compiled with; it says what they mean.
struct HopperGemmConstants {
  std::string_view sum;  // a type
  int matrix;
  int64_t v, warpgroup_m, tile_n, chunks, extra_chunks, piece, slice, stages, resident, consumers, blocks, element,
      arrays;
  struct Pair {  // of fused convolutions
    int64_t first_arrays, first_v, between, then_slice, then_slices;
  };
  std::optional<Pair> pair;
  struct Third {
    int64_t arrays, v, columns, slice, slices;
  };
  std::optional<Third> third;
  struct Joined {  // the shortcut
    int64_t arrays, slices;
    bool im2col;
  };
  std::optional<Joined> shortcut;
  int splits, sharers, matrices;
  bool gated, prologue, prologue_by_image;
  bool constant_columns, by_image, cooperative, im2col, ragged;
  int64_t patch;
  std::string extras, extra_names;
  int64_t extra_stages;
  bool stored;
  struct Extra {  // read through TMA, where there are stages for it
    int input;
    std::string_view type;
  };
  std::optional<Extra> extra;

  std::string text() const;
};

std::string HopperGemmConstants::text() const {
  std::vector<std::pair<std::string_view, int64_t>> numbers{
      {"V", v},
      {"WARPGROUP_M", warpgroup_m},
      {"TILE_N", tile_n},
      {"CHUNKS", chunks},
      {"EXTRA_CHUNKS", extra_chunks},
      {"PIECE", piece},
      {"SLICE", slice},
      {"STAGES", stages},
      {"RESIDENT", resident},
      {"CONSUMERS", consumers},
      {"LEAST_BLOCKS", blocks},
      {"ELEMENT", element},
      {"PATCH", patch},
      {"ARRAYS", arrays},
      {"FIRST_ARRAYS", pair ? pair->first_arrays : 0},
      {"THIRD_ARRAYS", third ? third->arrays : 0},
      {"SHORTCUT_ARRAYS", shortcut ? shortcut->arrays : 0},
      {"SHORTCUT_SLICES", pair && shortcut ? shortcut->slices : 0}};
  if (pair)
    numbers.insert(numbers.end(), {{"FIRST_V", pair->first_v},
                                   {"BETWEEN", pair->between},
                                   {"THEN_SLICE", pair->then_slice},
                                   {"THEN_SLICES", pair->then_slices}});
  if (third)
    numbers.insert(numbers.end(), {{"THIRD_V", third->v},
                                   {"THIRD_N", third->columns},
                                   {"THIRD_SLICE", third->slice},
                                   {"THIRD_SLICES", third->slices}});
  std::string out = concat(type_alias("Sum", sum), macro("MATRIX", matrix), int_constants(numbers),
                           macro("FUSED_PAIR", int(pair.has_value())), macro("THIRD", int(third.has_value())),
                           macro("SPLITS", splits), macro("SHARERS", sharers), macro("MATRICES", matrices),
                           macro("GATED", int(gated)), macro("RAGGED", int(ragged)), macro("PROLOGUE", int(prologue)),
                           bool_constants({{"PROLOGUE_BY_IMAGE", prologue_by_image},
                                           {"CONSTANT_COLUMNS", constant_columns},
                                           {"BY_IMAGE", by_image},
                                           {"COOPERATIVE", cooperative},
                                           {"IM2COL", im2col}}),
                           macro("EXTRAS", extras), macro("EXTRA_NAMES", extra_names),
                           macro("EXTRA_STAGES", extra_stages), macro("STORED", int(stored)));
  out += macro("SHORTCUT", int(shortcut.has_value()));
  if (shortcut) out += concat(bool_constants({{"SHORTCUT_IM2COL", shortcut->im2col}}), macro("JOINED", kJoined));
  if (extra) out += concat(macro("EXTRA_NAME", concat('e', extra->input)), type_alias("Extra", extra->type));
  return out;
}

}  // namespace

double hopper_gemm_expected_clocks(const Problem& problem, const Config& config, const GpuProperties& gpu) {
  const auto pair = conv_pair_of(problem);
  const FusedGemm t = fused_gemm_of(problem, pair, gpu);
  // What B costs where it is computed is not in the estimate: on an H200 other kernels were faster than those of a
  // third of their clocks.
  if (t.first.computed_b) return -1;
  return expected_clocks(t, choice_of(t, config.text), bytes_of_column(problem, pair));
}

Recipe::Work hopper_gemm_work(const Problem& whole, const Config& config, const GpuProperties& gpu) {
  const auto pair = conv_pair_of(whole);
  const FusedGemm t = fused_gemm_of(whole, pair, gpu);
  const auto behind = conv_behind_prologue(whole);
  const auto both = with_shortcut_of(whole);
  const Problem& problem = both ? both->conv : behind ? *behind : whole;
  const HopperGemm &s = t.first, &last = t.last();
  const Choice choice = choice_of(t, config.text);
  const Tile& tile = *choice.tile;
  Recipe::Work out;
  if (s.rows * s.matrices == 0) return out;
  const auto* gate = problem.op.get_if<ops::GatedMatMul>();
  const auto* matmul = gate ? &gate->product : problem.op.get_if<ops::MatMul>();
  const Shortcut* const joined = both ? &both->shortcut : pair && pair->shortcut ? &*pair->shortcut : nullptr;
  // Where the shortcut's inputs begin, and weights are.
  const size_t theirs = whole.inputs.size() - (joined ? joined->conv.inputs.size() : 0),
               shortcut_weights = joined ? theirs + 1 : 1, second_weights = pair ? pair->first.inputs.size() : 1,
               third_weights =
                   t.third ? second_weights + pair->second.inputs.size() - (joined ? 2 : 1) : second_weights;
  out.consumed.assign(whole.inputs.size(), false);
  for (size_t i : {size_t(1), second_weights, third_weights, shortcut_weights}) out.consumed[i] = !s.computed_b;
  // The weights of a second convolution lie behind those of the first, those of a third behind these, and those of
  // their shortcut at the end. Those of a shortcut of one convolution are beside its own.
  constexpr int64_t kAlignment = 128;
  const auto bytes_of_weights = [](const HopperGemm& gemm) {
    return round_up(gemm.packed_columns() * gemm.packed_depth() * gemm.element(), kAlignment);
  };
  const int64_t first_bytes = (s.computed_b ? 0 : bytes_of_weights(s)) + (both ? bytes_of_weights(*t.shortcut) : 0),
                second_bytes = pair ? bytes_of_weights(last) : 0,
                third_bytes = t.third ? bytes_of_weights(*t.third) : 0,
                shortcut_bytes = pair && joined ? bytes_of_weights(*t.shortcut) : 0;
  const bool packs_a = s.computed_b && problem.inputs[0].is_constant;
  if (packs_a) {
    const int64_t rows = s.rows * (s.shared_a ? 1 : s.matrices), row = s.channels * s.element(),
                  pitch = round_up(row, int64_t(16));
    out.consumed[0] = true;
    out.packed_bytes = rows * pitch;
    if (const Tensor* constant = problem.inputs[0].constant) {
      out.packed.resize(size_t(out.packed_bytes));
      for (int64_t r = 0; r < rows; ++r)
        std::memcpy(out.packed.data() + r * pitch, constant->raw().data() + r * row, size_t(row));
    }
  } else out.packed_bytes = first_bytes + second_bytes + third_bytes + shortcut_bytes;
  if (!s.computed_b && whole.inputs[1].constant && whole.inputs[second_weights].constant &&
      whole.inputs[third_weights].constant && whole.inputs[shortcut_weights].constant) {
    out.packed = packed_weights(s, *whole.inputs[1].constant, !matmul, matmul && matmul->transpose_b);
    if (both) out.packed = interleaved(s, out.packed, *t.shortcut, *whole.inputs[shortcut_weights].constant);
    const auto append = [&](const HopperGemm& gemm, const Tensor& weights, int64_t at) {
      const auto packed = packed_weights(gemm, weights, true, false);
      out.packed.resize(size_t(at));
      out.packed.insert(out.packed.end(), packed.begin(), packed.end());
    };
    if (pair) append(last, *whole.inputs[second_weights].constant, first_bytes);
    if (t.third) append(*t.third, *whole.inputs[third_weights].constant, first_bytes + second_bytes);
    if (shortcut_bytes)
      append(*t.shortcut, *whole.inputs[shortcut_weights].constant, first_bytes + second_bytes + third_bytes);
    out.packed.resize(size_t(out.packed_bytes));
  }

  const DType accumulator = ops::accumulator_of(s.a, s.b);
  const int64_t rows = tile_rows(tile), stages = stages_of(t, choice), columns = tile.columns,
                column_tiles = ceil_div(s.columns, int64_t(tile.columns)), tiles = walked_tiles(t, choice);
  const bool rows_inner = walks_along_rows(t, choice, gpu);
  if (!small_positions(tiles * tile.sharers + 2 * t.sms) || !small_positions(rows_of(t, choice) + rows))
    fail(ErrorKind::unsupported, "a product of ", tiles, " tiles; at most 2147418112");
  Job job;
  job.entry = "pipeline";
  job.overlap = true;
  ProgramNumbers numbers;
  ImageEpilogue first, third, shortcut;  // in a pair or beside one
  if (pair) first = image_epilogue(pair->first, accumulator, s.v(), numbers, EpiloguePart::first);
  if (t.third)
    third =
        image_epilogue(*pair->third, accumulator, t.third->v(), numbers, EpiloguePart::third, {int(third_weights) - 1});
  if (joined)
    shortcut = image_epilogue(joined->conv, accumulator, last.v(), numbers, EpiloguePart::shortcut, {int(theirs)});
  ImagePrologue prologue;
  if (behind) prologue = image_prologue(whole, 16 / s.element(), numbers);
  const int shift = pair ? int(second_weights) - 1 : 0;  // of the inputs of the last product
  bool constant_columns = true, by_image = false;
  for (size_t i = 2; i < problem.inputs.size() && !(pair && i >= theirs); ++i) {
    by_image |= along_images(problem, i);
    constant_columns &= problem.inputs[i].is_constant || problem.inputs[i].dims() == problem.outputs[0].dims();
  }
  for (size_t i = 2; joined && i < joined->conv.inputs.size(); ++i)
    constant_columns &= joined->conv.inputs[i].is_constant;
  const auto gated = product_of_gated(problem);
  ImageEpilogue epilogue = gated ? gated_epilogue(*gated, gate->gate, s.result, accumulator, s.v(), numbers)
                                 : image_epilogue(pair ? pair->second : problem, accumulator, last.v(), numbers,
                                                  EpiloguePart::only, {shift, joined ? joined->at : -1});
  // Vectors of the last columns reach beyond the end of inputs along them; those of a gated product lie as its columns.
  for (size_t i = 2; (s.ragged() || gated) && i < problem.inputs.size(); ++i) {
    if (!along_channels(gated ? *gated : problem, i)) continue;
    const int64_t size = size_of(problem.inputs[i].type.dtype), at = round_up(out.packed_bytes, kAlignment);
    out.packed_bytes = at + s.packed_columns() * size;
    out.consumed[i] = true;
    epilogue.slots[i - 2] = {Slot::Kind::packed, 0, at};
    const Tensor* constant = problem.inputs[i].constant;
    if (out.packed.empty() || !constant) continue;
    out.packed.resize(size_t(out.packed_bytes));
    for (int64_t c = 0; c < s.columns; ++c)
      std::memcpy(out.packed.data() + at + c * size, constant->raw().data() + s.column_of(c) * size, size_t(size));
  }
  const int extra = last.extra + shift;
  const auto for_arrays = [](std::string_view macro, const std::vector<std::string>& arrays) {
    std::string text = concat("#define ", macro, "(f)");
    for (size_t i = 0; i < arrays.size(); ++i) text += concat(" f(", i, ", ", arrays[i], ')');
    return text + "\n";
  };
  job.slots = first.slots;
  job.slots.insert(job.slots.end(), epilogue.slots.begin(), epilogue.slots.end());
  job.slots.insert(job.slots.end(), prologue.slots.begin(), prologue.slots.end());
  job.slots.insert(job.slots.end(), third.slots.begin(), third.slots.end());
  job.slots.insert(job.slots.end(), shortcut.slots.begin(), shortcut.slots.end());
  job.slots.push_back({Slot::Kind::output, 0, 0});
  if (t.third) job.slots.push_back({Slot::Kind::output, 1, 0});
  HopperGemmConstants constants{
      .sum = accumulator == DType::i32 ? "i32" : "float",
      .matrix = matrix_units(s.a),
      .v = last.v(),
      .warpgroup_m = tile.rows,
      .tile_n = tile.columns,
      .chunks = chunks_of(t, tile),
      .extra_chunks = extra_chunks(t, tile),
      .piece = piece_bytes(extra_chunks(t, tile) * columns, size_of(last.result)),
      .slice = s.slice(),
      .stages = stages,
      .resident = choice.resident ? s.slices() + t.ring_slices() : 0,
      .consumers = tile.consumers,
      .blocks = tile.blocks(),
      .element = s.element(),
      .arrays = last.arrays,
      .splits = tile.splits,
      .sharers = tile.sharers,
      .matrices = !s.computed_b ? 0
                  : s.b_by_rows ? 2
                                : 1,
      .gated = s.gated,
      .prologue = s.prologue,
      .prologue_by_image = behind && prologue_by_image(whole),
      .constant_columns = constant_columns,
      .by_image = by_image,
      .cooperative = tile.cooperative,
      .im2col = s.im2col,
      .ragged = last.ragged(),
      .patch = choice.patch ? stage_rows(t, choice) : 0,
      .extras = first.parameters + epilogue.parameters + prologue.parameters + third.parameters + shortcut.parameters,
      .extra_names = first.names + epilogue.names + prologue.names + third.names + shortcut.names,
      .extra_stages = choice.extra_stages,
      .stored = choice.stored,
  };
  if (pair)
    constants.pair = {.first_arrays = s.arrays,
                      .first_v = s.v(),
                      .between = s.columns,
                      .then_slice = last.slice(),
                      .then_slices = last.slices()};
  if (t.third)
    constants.third = {.arrays = t.third->arrays,
                       .v = t.third->v(),
                       .columns = third_columns(t),
                       .slice = t.third->slice(),
                       .slices = third_slices(t, tile)};
  if (joined)
    constants.shortcut = {
        .arrays = t.shortcut->arrays, .slices = t.shortcut->slices(), .im2col = t.shortcut->im2col || choice.patch};
  if (choice.extra_stages && !joined)
    constants.extra = {.input = extra, .type = memory_type(problem.inputs[size_t(extra)].type.dtype)};
  job.source.text = concat(
      "#include \"backends/cuda/support/memory.cuh\"\n", constants.text(), for_arrays("FOR_ARRAYS", epilogue.arrays),
      pair ? for_arrays("FIRST_FOR_ARRAYS", first.arrays) : "",
      t.third ? for_arrays("THIRD_FOR_ARRAYS", third.arrays) : "",
      joined ? for_arrays("SHORTCUT_FOR_ARRAYS", shortcut.arrays) : "", macro("NUMBERS", numbers.text()), first.text,
      epilogue.text, prologue.text, third.text, shortcut.text, "#include \"backends/cuda/gemm/hopper_gemm.cu\"\n");
  ParameterWriter writer;
  writer.put(uint32_t(s.rows))
      .put(uint32_t(last.columns))
      .put(uint32_t(last.out_ld))
      .put(uint32_t(last.extra_ld))
      .put(uint32_t(last.image_ld))
      .put(uint32_t(tiles))
      .put_divisor(rows_inner ? tiles / column_tiles : column_tiles)
      .put(uint32_t(rows_inner))
      .put_backwards(job);
  const auto put_counts = [&](const HopperGemm& gemm) {
    for (int64_t count : {gemm.kernel[0], gemm.kernel[1], gemm.channel_slices()}) writer.put(uint32_t(count));
  };
  const auto put_steps = [&](const HopperGemm& gemm) {
    for (const auto& two : {gemm.stride, gemm.pad, gemm.dilation}) writer.put(int32_t(two[1])).put(int32_t(two[0]));
  };
  put_counts(s);
  writer.put(uint32_t(slices_of_block(t, choice)));
  for (size_t i : {1, 0}) writer.put_divisor(choice.patch ? s.padded(i) : s.out[i]);
  for (size_t i : {1, 0}) writer.put(uint32_t(s.out[i]));
  put_steps(s);
  writer.put_divisor(std::max<int64_t>(1, tiles / s.matrices)).put(uint32_t(s.shared_a ? 0 : s.rows));
  if (s.prologue) writer.put(uint32_t(s.channels));
  if (joined) {
    put_counts(*t.shortcut);
    put_steps(*t.shortcut);
  }
  if (t.third) writer.put(uint32_t(t.third->columns)).put(uint32_t(t.third->out_ld));
  job.parameters = writer.put_numbers(numbers.values()).finish(4);
  job.maps.push_back({packs_a ? Slot{Slot::Kind::packed, 0, 0} : Slot{Slot::Kind::input, 0, 0},
                      map_of_a(s, stage_rows(t, choice), choice.patch)});
  if (s.computed_b) job.maps.push_back({{Slot::Kind::input, 1, 0}, map_of_computed(s, tile.columns)});
  else {
    const int64_t depth = s.packed_depth() + (both ? t.shortcut->packed_depth() : 0);
    job.maps.push_back({{Slot::Kind::packed, 0, 0}, map_of_weights(s, tile.columns / tile.sharers, depth)});
  }
  if (joined)
    job.maps.push_back({{Slot::Kind::input, int(theirs), 0},
                        choice.patch ? map_of_positions(s.element(), t.shortcut->channels, t.shortcut->a_ld, rows,
                                                        s.slice() / s.element(), s)
                                     : map_of_a(*t.shortcut, rows, false)});
  if (choice.extra_stages && !joined) {
    constexpr int64_t kRowsOfWarp = 16;
    const int64_t wide = columns * extra_chunks(t, tile);
    job.maps.push_back(
        {{Slot::Kind::input, extra, 0}, map_of_results(last, last.extra_ld, rows, wide, choice.patch ? &s : nullptr)});
    if (choice.stored)
      job.maps.push_back({{Slot::Kind::output, 0, 0}, map_of_results(last, last.out_ld, kRowsOfWarp, wide)});
  }
  if (pair) job.maps.push_back({{Slot::Kind::packed, 0, first_bytes}, map_of_weights(last, columns)});
  if (t.third)
    job.maps.push_back(
        {{Slot::Kind::packed, 0, first_bytes + second_bytes}, map_of_weights(*t.third, third_columns(t))});
  if (shortcut_bytes)
    job.maps.push_back(
        {{Slot::Kind::packed, 0, first_bytes + second_bytes + third_bytes}, map_of_weights(*t.shortcut, columns)});
  job.shape.block = {uint32_t(128 * (1 + tile.consumers)), 1, 1};
  job.shape.grid = {uint32_t(std::min(tiles * tile.sharers, blocks_of(t, choice))), uint32_t(tile.splits), 1};
  job.shape.shared_bytes =
      uint32_t(stages * (stage_bytes(t, choice) + 16) + resident_bytes(t, choice) + extra_bytes(t, choice) +
               partial_bytes(choice) + array_bytes(t, choice) + kTurnBytes);
  out.jobs.push_back(std::move(job));
  return out;
}

// The kernel has one leading dimension for all epilogue inputs of the output's shape, and one for all of each image.
bool hopper_gemm_takes_parts(const Problem& problem, const Config&) {
  if (const auto pair = conv_pair_of(problem)) {
    for (size_t i = 1; i < pair->first.inputs.size(); ++i)
      if (pair->first.inputs[i].pitch) return false;
    if (pair->third && !hopper_gemm_takes_parts(*pair->third, {})) return false;
    if (pair->shortcut && !hopper_gemm_takes_parts(pair->shortcut->conv, {})) return false;
    return small_positions(pair->first.inputs[0].pitch) && hopper_gemm_takes_parts(pair->second, {});
  }
  if (const auto both = with_shortcut_of(problem))
    return hopper_gemm_takes_parts(both->conv, {}) && hopper_gemm_takes_parts(both->shortcut.conv, {});
  if (const auto conv = conv_behind_prologue(problem)) {
    const auto own = problem.inputs.begin() + int64_t(conv->inputs.size());
    return std::all_of(own, problem.inputs.end(), [](const Port& port) { return !port.pitch; }) &&
           hopper_gemm_takes_parts(*conv, {});
  }
  if (!epilogue_takes_parts(problem) || !problem.inputs[1].is_constant) return false;
  int64_t of_rows = -1, of_images = -1;
  for (size_t i = 2; i < problem.inputs.size(); ++i) {
    const bool whole = problem.inputs[i].dims() == problem.outputs[0].dims();
    if (!whole && !along_images(problem, i)) continue;
    int64_t& pitch = whole ? of_rows : of_images;
    if (pitch >= 0 && problem.inputs[i].pitch != pitch) return false;
    pitch = problem.inputs[i].pitch;
  }
  return small_positions(of_rows) && small_positions(of_images) && small_positions(problem.outputs[0].pitch);
}

}  // namespace temper::cuda
