// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/matmul/gemm.h"

#include "backends/cuda/support/program_code.h"
#include "base/checked.h"

namespace temper::cuda {

namespace {

struct Tile {
  std::string_view text;
  int rows, columns, warp_rows, warp_columns;
};
// A block has 256 threads.
constexpr Tile kMatrixTiles[] = {
    {"tile=128x128", 128, 128, 64, 32}, {"tile=128x64", 128, 64, 32, 32}, {"tile=64x64", 64, 64, 32, 16}};
constexpr Tile kPlainTiles[] = {{"tile=128x64", 128, 64, 0, 0}, {"tile=64x64", 64, 64, 0, 0}};

std::span<const Tile> tiles_of(bool matrix) {
  return matrix ? std::span<const Tile>(kMatrixTiles) : std::span<const Tile>(kPlainTiles);
}

}  // namespace

bool on_matrix_units(DType a, DType b) {
  return (a == b && (a == DType::f16 || a == DType::bf16)) || ((a == DType::i8 || a == DType::u8) && b == DType::i8);
}

Support gemm_supports(DType a, DType b, int64_t rows, int64_t columns, int64_t depth, const Program& epilogue) {
  if (!on_matrix_units(a, b) && (a != b || a == DType::boolean)) return refused("a product of ", a, " and ", b);
  for (int64_t size : {rows, columns, depth})
    if (!small_positions(size)) return refused("a product of ", rows, " by ", columns, " by ", depth, " elements");
  if (epilogue.steps.size() > 1000)
    return refused("an epilogue of ", epilogue.steps.size(), " steps; at most 1000 are compiled");
  if (epilogue.inputs > 17) return refused("an epilogue of ", epilogue.inputs, " inputs; at most 17");
  return supported();
}

std::vector<std::string> gemm_tiles(DType a, DType b, int64_t rows, int64_t columns) {
  const auto tiles = tiles_of(on_matrix_units(a, b));
  std::vector<std::string> out;
  for (const Tile& tile : tiles) {
    // A tile that is mostly outside is never the fastest; the smallest always stays.
    if (&tile != &tiles.back() && (rows <= tile.rows / 2 || columns <= tile.columns / 2)) continue;
    out.push_back(std::string(tile.text));
  }
  return out;
}

void set_axes(Gemm& gemm, Axes rows, Axes batch) {
  merge_axes(rows);
  merge_axes(batch);
  gemm.row_sizes = rows.sizes;
  gemm.batch_sizes = batch.sizes;
  gemm.a_batch = batch.strides[0];
  gemm.b_batch = batch.strides[1];
  for (size_t o = 0; o < gemm.operands.size(); ++o) {
    gemm.operands[o].row_strides = rows.strides[o];
    gemm.operands[o].batch_strides = batch.strides[o + 2];
  }
}

Job gemm_job(const Gemm& gemm, const std::string& text) {
  const bool matrix = on_matrix_units(gemm.a, gemm.b);
  const Tile* tile = nullptr;
  for (const Tile& candidate : tiles_of(matrix))
    if (candidate.text == text) tile = &candidate;
  if (!tile) fail(ErrorKind::bad_file, "there is no tile '", text, "'");
  const int64_t rows = element_count(gemm.row_sizes), batches = element_count(gemm.batch_sizes);
  const int64_t row_tiles = ceil_div(rows, int64_t(tile->rows)),
                column_tiles = ceil_div(gemm.columns, int64_t(tile->columns));

  Job job;
  job.entry = "gemm";
  job.slots = {{Slot::Kind::input, 0, 0}, gemm.b_slot};
  std::vector<DType> dtypes{gemm.accumulator};
  std::string extras, call;
  for (size_t o = 1; o < gemm.operands.size(); ++o) {
    const GemmOperand& operand = gemm.operands[o];
    dtypes.push_back(operand.dtype);
    extras += concat("const ", memory_type(operand.dtype), "* e", o, ", ");
    call += concat(", hold(e", o, "[at[", o, "] + i64(c) * p.column_stride[", o, "]])");
    job.slots.push_back({Slot::Kind::input, operand.input, 0});
  }
  job.slots.push_back({Slot::Kind::output, 0, 0});
  // Sums of f16 are f16 in the graph: rounded once, here.
  const std::string_view round = gemm.accumulator == DType::f16 ? "op::round_f16" : "";
  const int units = !matrix ? 0 : gemm.a == DType::f16 ? 1 : gemm.a == DType::bf16 ? 2 : gemm.a == DType::i8 ? 3 : 4;
  job.source.text =
      concat("#include \"backends/cuda/support/scalar.cuh\"\n", program_code(*gemm.epilogue, dtypes, "epilogue"),
             "using A = ", memory_type(gemm.a), ";\nusing B = ", memory_type(gemm.b),
             ";\nusing Output = ", memory_type(gemm.operands[0].dtype), ";\nusing Acc = ", held_type(gemm.accumulator),
             ";\n#define MATRIX ", units, "\nconstexpr int ROWS = ", tile->rows, ", COLUMNS = ", tile->columns,
             ", WARP_ROWS = ", tile->warp_rows, ", WARP_COLUMNS = ", tile->warp_columns,
             ", ROW_RANK = ", gemm.row_sizes.size(), ", BATCH_RANK = ", gemm.batch_sizes.size(),
             ", OPERANDS = ", gemm.operands.size(), ";\nconstexpr bool CONV = ", gemm.conv != nullptr,
             ", VECTOR_A = ", gemm.vector_a, ", VECTOR_B = ", gemm.vector_b, ";\n#define EXTRAS ", extras,
             "\n#define EPILOGUE(x) epilogue(", round, "(x)", call, ")\n#include \"backends/cuda/matmul/gemm.cuh\"\n");

  ParameterWriter writer;
  writer.put(uint32_t(rows))
      .put(uint32_t(gemm.columns))
      .put(uint32_t(gemm.depth))
      .put_divisor(column_tiles)
      .put_divisor(row_tiles);
  writer.put(gemm.a_row).put(gemm.a_k).put(gemm.b_column).put(gemm.b_k).put(gemm.conv ? gemm.conv->b_tap : int64_t(0));
  std::vector<Dims> row_strides, batch_strides{gemm.a_batch, gemm.b_batch};
  for (const GemmOperand& operand : gemm.operands) {
    writer.put(operand.column_stride);
    row_strides.push_back(operand.row_strides);
    batch_strides.push_back(operand.batch_strides);
  }
  // A walk with strides starts and ends on 8 bytes.
  writer.put_walk(gemm.row_sizes, row_strides).put_walk(gemm.batch_sizes, batch_strides);
  const GemmConv conv = gemm.conv ? *gemm.conv : GemmConv{};
  writer.put_divisor(conv.channels).put_divisor(conv.kernel[2]).put_divisor(conv.kernel[1]);
  writer.put_divisor(conv.out[2]).put_divisor(conv.out[1]).put_divisor(conv.out[0]);
  for (const auto& three : {conv.stride, conv.pad, conv.dilation, conv.size})
    for (int64_t value : three) writer.put(int32_t(value));
  writer.put(conv.batch_stride);
  for (int64_t stride : conv.spatial_stride) writer.put(stride);
  job.parameters = writer.finish();
  job.shape.block = {256, 1, 1};
  const int64_t blocks = row_tiles * column_tiles * batches;
  if (!small_positions(blocks))
    fail(ErrorKind::unsupported, "a product of ", blocks, " tiles; a GPU takes at most 2147483647");
  job.shape.grid = {uint32_t(blocks), 1, 1};
  return job;
}

}  // namespace temper::cuda
