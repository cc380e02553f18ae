// SPDX-License-Identifier: Apache-2.0
// The first convolution of an image model: it has few input channels, reads the plain layout, as images come, and
// writes channels_last. It can also take a 3 by 3 max pool (conv_first.cu).
#include "backends/cuda/conv/conv_first.h"

#include <algorithm>
#include <numeric>

#include "backends/cuda/gemm/gemm.h"
#include "backends/cuda/gemm/image_epilogue.h"
#include "backends/cuda/gemm/image_prologue.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"
#include "base/checked.h"
#include "base/parse.h"
#include "graph/monotone.h"
#include "graph/ops/conv.h"
#include "graph/ops/fused.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/window.h"

namespace temper::cuda {

namespace {

constexpr int64_t kMostChannels = 4, kMostTaps = 12;  // along an axis
constexpr int64_t kTileWidth = 16, kPooledWidth = 7;
constexpr std::string_view kTile = "tile=";  // followed by the rows of a tile

const ops::Conv& op_of(const Problem& problem) { return *conv_of(problem.op); }

// The pool is taken of the sums.
Support pool_supports(const Problem& problem, const Problem& own, const Dims& between) {
  const auto& fused = problem.op.get<ops::FusedConv>();
  if (fused.pool_kernel != Dims{3, 3} || fused.pool_strides != Dims{2, 2} || fused.pool_pads[0] != 1 ||
      fused.pool_pads[1] != 1)
    return refused("a pool that is not of 3 by 3, two apart, padded by one in front");
  const Dims out = problem.outputs[0].dims();
  for (size_t axis : {2, 3})
    if (out[axis] * 2 > between[axis] + 1) return refused("a window that sees nothing but padding");
  std::vector<const Tensor*> others;
  for (size_t i = 2; i < own.inputs.size(); ++i) others.push_back(own.inputs[i].constant);
  if (!never_decreases(fused.conv.epilogue, ops::accumulator_of(conv_operand(problem), problem.inputs[1].type.dtype),
                       others))
    return refused("an epilogue that may not keep the order of its sums, of which the pool takes the largest");
  return supported();
}

}  // namespace

bool first_conv_pools(const Problem& problem) {
  const auto* fused = problem.op.get_if<ops::FusedConv>();
  return fused && fused->pools();
}

Support first_conv_supports(const Problem& problem) {
  if (!conv_of(problem.op)) return refused("not a convolution");
  const auto& op = op_of(problem);
  const Port &x = problem.inputs[0], &w = problem.inputs[1];
  const DType operand = conv_operand(problem);
  const Dims in = x.dims(), weights = w.dims(), out = problem.outputs[0].dims();
  if (in.size() != 4) return refused(in.size() - 2, " spatial axes, not 2");
  if (!on_matrix_units(operand, w.type.dtype)) return refused("a product of ", operand, " and ", w.type.dtype);
  if (!w.is_constant) return refused("its weights are not constant");
  if (op.group != 1) return refused(op.group, " groups");
  if (weights[1] < 1 || weights[1] > kMostChannels) return refused(weights[1], " channels; at most ", kMostChannels);
  if (weights[0] < 2 || weights[0] % 2) return refused("an odd number of output channels");
  for (size_t i = 0; i < 2; ++i) {
    if (weights[i + 2] < 1 || weights[i + 2] > kMostTaps) return refused("a kernel of ", weights[i + 2], " taps");
    if (op.strides[i] < 1 || op.strides[i] > 4) return refused("a stride of ", op.strides[i]);
    if (op.dilations[i] != 1 && weights[i + 2] > 1) return refused("a dilation");
  }
  for (int64_t pad : op.pads)
    if (pad < 0 || pad > kMostTaps) return refused("a padding of ", pad);
  if (!small_positions(element_count(in) / std::max<int64_t>(1, in[0])) ||
      !small_positions(ceil_div(out[3], kPooledWidth) * out[2] * out[0]))
    return refused("more than 2147418112 elements");
  const Problem own = without_prologue(problem);
  for (size_t i = own.inputs.size(); i < problem.inputs.size(); ++i) {
    const Dims strides = broadcast_strides(problem.inputs[i].dims(), in);
    for (size_t axis = 0; axis < in.size(); ++axis)
      if (axis != 1 && strides[axis] != 0) return refused("a prologue along other axes than channels");
  }
  if (own.inputs.size() < problem.inputs.size() && size_of(operand) != 1)
    return refused("a prologue of several inputs before ", operand);
  if (first_conv_pools(problem))
    if (Support support = pool_supports(problem, own, op.output_dims(in, weights)); !support.yes()) return support;
  if (Support support = image_epilogue_supports(own); !support.yes()) return support;
  return gemm_supports(operand, w.type.dtype, 1, weights[0], element_count(weights) / weights[0], op.epilogue);
}

bool may_take_pixels(const Problem& problem) {
  const Dims in = problem.inputs[0].dims();
  return size_of(conv_operand(problem)) == 1 && !same_memory(in, Layout::plain, Layout::channels_last);
}

namespace {

// wgmma has at least 32 columns.
Support wgmma_supports(const Problem& problem) {
  if (Support support = first_conv_supports(problem); !support.yes()) return support;
  const int64_t outputs = problem.inputs[1].dims()[0];
  return outputs > 16 ? supported() : refused(outputs, " output channels; more than 16");
}

// Whether the kernel takes an input in channels_last: bytes, of which a pixel's are a word (PIXEL_WORDS in
// conv_first.cu).
bool takes_pixels(const Problem& problem, const Config& config) {
  if (config.inputs[0] != Layout::channels_last) return false;
  if (!may_take_pixels(problem)) fail(ErrorKind::bad_file, "cuda.conv.first cannot read ", problem.text());
  return true;
}

std::vector<Config> configs_of_rows(const Problem& problem, std::vector<int> rows) {
  const Dims out = problem.outputs[0].dims();
  // Small tiles first where large ones do not fill a GPU.
  if (out[0] * ceil_div(out[2], int64_t(16)) * ceil_div(out[3], kTileWidth) < 256)
    std::reverse(rows.begin(), rows.end());
  std::vector<Config> all;
  for (const Layout from : {Layout::plain, Layout::channels_last}) {
    if (from == Layout::channels_last && !may_take_pixels(problem)) continue;
    for (int tile : rows) {
      all.push_back({concat(kTile, tile, 'x', kTileWidth),
                     image_epilogue_layouts(without_prologue(problem)),
                     {Layout::channels_last}});
      all.back().inputs.resize(problem.inputs.size(), Layout::plain);
      all.back().inputs[0] = from;
    }
  }
  return all;
}

std::vector<Config> mma_configs(const Problem& problem, const GpuProperties&) {
  return configs_of_rows(problem, {16, 8, 4});
}
// A warpgroup has eight rows.
std::vector<Config> wgmma_configs(const Problem& problem, const GpuProperties&) {
  return configs_of_rows(problem, {16, 8});
}

// How a kernel is cut into steps of the tensor cores. The names are those of conv_first.cu.
struct Cut {
  int64_t e, shift, copies, left, width, steps, columns, v, row_words, pitch, patch_rows, copy;
  bool whole_words, pixels, pairs;
  int64_t weights_bytes(int64_t outputs) const { return ceil_div(outputs, columns) * steps * columns * 32; }
};

// Lanes of a warp that meet in one bank of shared memory, at most.
int64_t conflicts(const Cut& cut, int64_t stride) {
  std::array<std::vector<int64_t>, 32> banks;
  int64_t most = 0;
  for (int64_t g = 0; g < 8; ++g)
    for (int64_t t = 0; t < 4; ++t) {
      const int64_t at = g * stride, row_words = cut.width / cut.e;
      const int64_t word = at % cut.e / cut.shift * cut.copy + at / cut.e +
                           (row_words < 4 ? t / row_words * cut.pitch + t % row_words : t);
      auto& bank = banks[size_t(word % 32)];
      if (std::find(bank.begin(), bank.end(), word) == bank.end()) bank.push_back(word);
      most = std::max(most, int64_t(bank.size()));
    }
  return most;
}

Cut cut_of(const Problem& problem, int64_t tile_h, bool pixels) {
  const auto& op = op_of(problem);
  const Dims in = problem.inputs[0].dims(), weights = problem.inputs[1].dims();
  // A word of `pixels` is an element of a single channel.
  const int64_t size = pixels ? 4 : size_of(conv_operand(problem)), stride = op.strides[1];
  const int64_t channels = pixels ? 1 : weights[1];
  const int64_t pad = ops::window_pads(op.window(weights), 1, in[3]).first;
  Cut cut{};
  cut.pixels = pixels;
  cut.e = 4 / size;
  cut.shift = std::gcd(stride, cut.e);
  cut.copies = cut.e / cut.shift;
  // With a pool, tiles begin two columns before what they give, and stand that much closer.
  const bool pool = first_conv_pools(problem);
  const int64_t before = pool ? pad + 2 * stride : pad;
  const int64_t group = pixels ? 4 : cut.e;  // what is read at once
  cut.whole_words = in[3] % group == 0 && (!pool || 2 * kPooledWidth * stride % group == 0);
  cut.left = cut.whole_words ? round_up(before, group) - before : 0;
  cut.width = std::max<int64_t>(4, cut.e);
  while (cut.width < cut.left + weights[3]) cut.width *= 2;
  cut.steps = ceil_div(channels * weights[2] * cut.width, 32 / size);
  cut.pairs = pixels && cut.width == 8 && stride % 2 == 0;
  cut.columns = weights[0] > 32 ? 64 : weights[0] > 16 ? 32 : 16;
  // A prologue's kernel holds the next tile's pixels, a pool's what it gives: what the epilogue reads of columns must
  // be little.
  cut.v = std::clamp<int64_t>(16 / size_of(problem.outputs[0].type.dtype), 2, prologue_of(problem) || pool ? 8 : 16);
  while (weights[0] % cut.v || cut.columns % (4 * cut.v)) cut.v /= 2;
  cut.patch_rows = ((tile_h - 1) * op.strides[0] + weights[2]) * channels;
  cut.row_words = ceil_div((kTileWidth - 1) * stride + cut.width, cut.e);
  if (pixels) cut.row_words = round_up(cut.row_words, group);
  // Rows behind the patch are read, and not used.
  const int64_t all_rows = cut.patch_rows + ceil_div(32 / size, cut.width) + 1;
  int64_t least = 33;
  Cut best = cut;
  for (int64_t pitch = cut.row_words; pitch < cut.row_words + 16 && least > 1; pitch += pixels ? group : 1)
    for (int64_t more = 0; more < (cut.copies > 1 ? 32 : 1) && least > 1; ++more) {
      cut.pitch = pitch;
      cut.copy = all_rows * pitch + more;
      const int64_t found = conflicts(cut, pool ? 2 * stride : stride);
      if (found < least) least = found, best = cut;
    }
  return best;
}

// Prepacks weights by N tile and step. For mma.sync: by pair of 8 columns and lane, words 2t of both halves of the
// step's K, for both. For wgmma: by column, 32 bytes of K, whose halves are exchanged in four of eight columns
// (swizzled, wgmma.cuh). With cut.pixels, of K's bytes four are a tap's channels; with cut.pairs, lanes have words 2t
// and 2t + 1.
AlignedBytes packed_weights(const Tensor& w, const Cut& cut, bool wgmma) {
  const int64_t size = size_of(w.dtype()), outputs = w.dims()[0], channels = w.dims()[1], kernel_h = w.dims()[2],
                kernel_w = w.dims()[3], in_word = 4 / size, per_tap = cut.pixels ? 4 : 1, depth = 32 / size,
                per_group = cut.v / 2;
  AlignedBytes packed(size_t(cut.weights_bytes(outputs)));
  std::byte* to = packed.data();
  for (int64_t first = 0; first < outputs; first += cut.columns)
    for (int64_t step = 0; step < cut.steps; ++step, to += cut.columns * 32)
      for (int64_t column = 0; column < cut.columns; ++column) {
        // Column g of tile n is the sum of lane g / 2, which ends with V neighbours.
        const int64_t n = column / 8, g = column % 8;
        const int64_t m = first + n / per_group * 4 * cut.v + g / 2 * cut.v + n % per_group * 2 + g % 2;
        for (int64_t i = 0; i < depth; ++i) {
          int64_t element = i;
          if (cut.pairs) element = (i / 4 % 4 * 2 + i / 16) * 4 + i % 4;
          const int64_t k = step * depth + element, taps = k / per_tap, row = taps / cut.width,
                        kh = cut.pixels ? row : row / channels, c = cut.pixels ? k % per_tap : row % channels,
                        kw = taps % cut.width - cut.left;
          if (m >= outputs || kh >= kernel_h || kw < 0 || kw >= kernel_w || c >= channels) continue;
          const int64_t lane = g * 4 + i / in_word % 4, word = n % 2 * 2 + i / (4 * in_word);
          const int64_t at =
              wgmma ? column * 32 + (i * size ^ g / 4 * 16) : ((n / 2 * 32 + lane) * 4 + word) * 4 + i % in_word * size;
          std::memcpy(to + at, w.raw().data() + size_t((((m * channels + c) * kernel_h + kh) * kernel_w + kw) * size),
                      size_t(size));
        }
      }
  return packed;
}

// The constants that conv_first.cu is compiled with, besides those of a cut; it says what they mean.
struct FirstConvConstants {
  int matrix;
  bool wgmma;
  int64_t channels, kernel_h, kernel_w, stride_h, stride_w, tile_h, warps, patch_bytes;
  bool pool, alone;
  std::string extras;

  std::string text(const Cut& cut) const;
};

std::string FirstConvConstants::text(const Cut& cut) const {
  const std::string numbers = int_constants({{"C", cut.pixels ? 1 : channels},
                                             {"CHANNELS", channels},
                                             {"KERNEL_H", kernel_h},
                                             {"KERNEL_W", kernel_w},
                                             {"STRIDE_H", stride_h},
                                             {"STRIDE_W", stride_w},
                                             {"LEFT", cut.left},
                                             {"WIDTH", cut.width},
                                             {"TILE_H", tile_h},
                                             {"TILE_W", kTileWidth},
                                             {"WARPS", warps},
                                             {"TILE_N", cut.columns},
                                             {"V", cut.v},
                                             {"STEPS", cut.steps},
                                             {"E", cut.e},
                                             {"SHIFT", cut.shift},
                                             {"COPIES", cut.copies},
                                             {"ROW_WORDS", cut.row_words},
                                             {"PITCH", cut.pitch},
                                             {"PATCH_ROWS", cut.patch_rows},
                                             {"COPY", cut.copy},
                                             {"PATCH_BYTES", patch_bytes}});
  return concat(macro("MATRIX", matrix), macro("WGMMA", int(wgmma)), numbers,
                bool_constants({{"WHOLE_WORDS", cut.whole_words}, {"POOL", pool}, {"ALONE", alone}}),
                macro("PIXEL_WORDS", int(cut.pixels)), macro("PAIRS", int(cut.pairs)), macro("EXTRAS", extras));
}

// The inputs that a prologue reads besides the image: numbers, or one for each channel.
struct OtherInputs {
  int count = 0;
  std::string parameters, names, fields, loads, arguments;

  void add(const TensorType& type) {
    const int i = count++;
    parameters += concat("const ", memory_type(type.dtype), "* o", i, ", ");
    names += concat('o', i, ", ");
    fields += concat(held_type(type.dtype), " x", i, "; ");
    loads += concat("(to).x", i, " = hold(o", i, element_count(type.dims()) == 1 ? "[0]); " : "[c]); ");
    arguments += concat(", (of).x", i);
  }
  std::string text() const {
    return concat("struct Others { ", fields, "};\n", macro("OTHERS", int(count > 0)),
                  macro("OTHER_INPUTS", parameters), macro("OTHER_NAMES", names), macro("LOAD_OTHERS(to, c)", loads),
                  macro("PREPARED(x, of)", concat("prologue(x", arguments, ")")));
  }
};

}  // namespace

std::vector<std::byte> first_conv_parameters(const Problem& problem, int64_t tiles, int64_t block_tiles, int64_t across,
                                             int64_t down, const ProgramNumbers& numbers) {
  const auto& op = op_of(problem);
  const Dims in = problem.inputs[0].dims(), weights = problem.inputs[1].dims(), out = problem.outputs[0].dims(),
             between = op.output_dims(in, weights);
  ParameterWriter writer;
  writer.put(uint32_t(weights[0])).put(uint32_t(tiles));
  for (int64_t value : {in[2], in[3], out[2], out[3]}) writer.put(int32_t(value));
  for (int64_t axis : {0, 1})
    writer.put(int32_t(ops::window_pads(op.window(weights), axis, in[size_t(axis) + 2]).first));
  writer.put(int32_t(between[2])).put(int32_t(between[3])).put(uint32_t(block_tiles));
  return writer.put_divisor(across).put_divisor(down).put_numbers(numbers.values()).finish();
}

std::string first_conv_input(const Problem& problem, bool words, std::vector<Slot>& slots) {
  const Program* prologue = prologue_of(problem);
  std::vector<DType> read = read_by_prologue(problem);
  OtherInputs others;
  for (size_t i = inputs_of_conv(problem); i < problem.inputs.size(); ++i) {
    others.add(problem.inputs[i].type);
    slots.push_back({Slot::Kind::input, int(i), 0});
  }
  const DType dtype = problem.inputs[0].type.dtype;
  const bool as_floats = prologue && words && wants_bytes_as_floats(*prologue, 0, dtype);
  if (as_floats) read[0] = DType::f32;
  return concat("#include \"backends/cuda/support/memory.cuh\"\n", type_alias("In", memory_type(dtype)),
                type_alias("A", memory_type(conv_operand(problem))), macro("PROLOGUE", int(prologue != nullptr)),
                macro("IN_WORDS", int(words)), macro("AS_FLOATS", int(as_floats)),
                finished_code(prologue ? *prologue : Program{}, read, "prologue"), others.text());
}

namespace {

Recipe::Work work(const Problem& problem, const Config& config, bool wgmma) {
  const auto& op = op_of(problem);
  const Port &x = problem.inputs[0], &w = problem.inputs[1];
  const Dims in = x.dims(), weights = w.dims(), out_dims = problem.outputs[0].dims();
  const std::string_view text = config.text;
  const auto rows = text.starts_with(kTile) ? parse_leading<int64_t>(text.substr(kTile.size())) : std::nullopt;
  const int64_t tile_h = rows ? rows->value : 0;
  if ((tile_h != 4 || wgmma) && tile_h != 8 && tile_h != 16)
    fail(ErrorKind::bad_file, "cuda.conv.first", wgmma ? "_wgmma" : "", " has no '", text, "'");
  Recipe::Work out;
  if (element_count(out_dims) == 0) return out;
  const Cut cut = cut_of(problem, tile_h, takes_pixels(problem, config));
  out.consumed.assign(problem.inputs.size(), false);
  out.consumed[1] = true;
  out.packed_bytes = cut.weights_bytes(weights[0]);
  if (w.constant) out.packed = packed_weights(*w.constant, cut, wgmma);

  Job job;
  job.entry = "conv_first";
  job.overlap = true;
  job.slots = {{Slot::Kind::input, 0, 0}, {Slot::Kind::packed, 0, 0}};
  const Problem own = without_prologue(problem);
  const std::string input =
      first_conv_input(problem, cut.pixels && cut.whole_words && size_of(x.type.dtype) == 1, job.slots);
  const DType operand = conv_operand(problem), accumulator = ops::accumulator_of(operand, w.type.dtype);
  ProgramNumbers numbers;
  const ImageEpilogue epilogue = image_epilogue(own, accumulator, cut.v, numbers);
  job.slots.insert(job.slots.end(), epilogue.slots.begin(), epilogue.slots.end());
  job.slots.push_back({Slot::Kind::output, 0, 0});
  const bool pool = first_conv_pools(problem);
  const int64_t across = ceil_div(out_dims[3], pool ? kPooledWidth : kTileWidth);
  int64_t down = ceil_div(out_dims[2], pool ? tile_h / 2 : tile_h), tiles = out_dims[0] * across * down;
  // A block that computes several tiles fetches the weights once; there are enough blocks for any GPU all the same.
  // Going down images, it computes no rows twice but those above its first tile, where those are fewer than the rows
  // that every tile would compute to be alone.
  int64_t block_tiles = std::max<int64_t>(1, tiles / (pool ? 512 : 2048));
  const bool alone = pool && block_tiles < tile_h / 2 - 1;
  if (alone) {
    down = ceil_div(out_dims[2], tile_h / 2 - 1);
    tiles = out_dims[0] * across * down;
    block_tiles = 1;
  }
  if (pool && block_tiles > down) block_tiles -= block_tiles % down;
  const int64_t warps = tile_h / 2, patch_bytes = round_up<int64_t>(cut.copies * cut.copy * 4, 16);
  const FirstConvConstants constants{
      .matrix = matrix_units(operand),
      .wgmma = wgmma,
      .channels = weights[1],
      .kernel_h = weights[2],
      .kernel_w = weights[3],
      .stride_h = op.strides[0],
      .stride_w = op.strides[1],
      .tile_h = tile_h,
      .warps = warps,
      .patch_bytes = patch_bytes,
      .pool = pool,
      .alone = alone,
      .extras = epilogue.parameters,
  };
  job.source.text = concat(input, macro("NUMBERS", numbers.text()), constants.text(cut), epilogue.text,
                           "#include \"backends/cuda/conv/conv_first.cu\"\n");

  job.parameters = first_conv_parameters(problem, tiles, block_tiles, across, down, numbers);
  job.shape.block = {uint32_t(warps * 32), 1, 1};
  job.shape.grid = {uint32_t(ceil_div(tiles, block_tiles)), uint32_t(ceil_div(weights[0], cut.columns)), 1};
  job.shape.shared_bytes =
      uint32_t(cut.steps * cut.columns * 32 + patch_bytes + (pool ? (warps + 1) * cut.columns * 32 : 0));
  out.jobs.push_back(std::move(job));
  return out;
}

Recipe::Work mma_work(const Problem& problem, const Config& config, const GpuProperties&) {
  return work(problem, config, false);
}
Recipe::Work wgmma_work(const Problem& problem, const Config& config, const GpuProperties&) {
  return work(problem, config, true);
}

}  // namespace

extern const Recipe conv_first_recipe, conv_first_wgmma_recipe;

// On Hopper it was faster nowhere.
static Support worth_timing(const Problem& problem, std::string_view architecture) {
  return unless_taken_by(conv_first_wgmma_recipe, problem, architecture);
}

const Recipe conv_first_recipe{"cuda.conv.first", 11,  first_conv_supports, mma_configs, mma_work, {}, nullptr,
                               worth_timing,      true};
const Recipe conv_first_wgmma_recipe{"cuda.conv.first_wgmma", 4, wgmma_supports, wgmma_configs, wgmma_work, "sm_90a"};

}  // namespace temper::cuda
