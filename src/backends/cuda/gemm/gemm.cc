// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/gemm/gemm.h"

#include <algorithm>

#include "backends/cuda/gemm/gemm_tiles.h"
#include "backends/cuda/gemm/image_epilogue.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"
#include "base/checked.h"
#include "base/half.h"

namespace temper::cuda {

namespace {

bool multiples_of(const Dims& strides, int64_t of) {
  for (int64_t stride : strides)
    if (stride % of) return false;
  return true;
}
bool multiples_of(const GemmOperand& operand, int64_t of) {
  return multiples_of(operand.row_strides, of) && multiples_of(operand.batch_strides, of);
}

std::string_view sum_type(bool matrix, DType accumulator) {
  if (matrix) return accumulator == DType::i32 ? "i32" : "float";
  if (accumulator == DType::f16 || accumulator == DType::f32) return "float";
  if (accumulator == DType::f64) return "double";
  return size_of(accumulator) == 8 ? "u64" : "u32";
}

// The constants that gemm.cuh is compiled with; it says what they mean.
struct GemmConstants {
  std::string_view a, b, output, acc, sum, staged;  // types
  int matrix, splits;
  bool groups, by_rows;
  int64_t tile_m, tile_n, threads, min_blocks, warp_m, warp_n, stages, distance, in_flight, v, row_rank, batch_rank,
      operands;
  bool conv, vector_a, vector_b, masked, constant_b, rows_first;
  std::string column_fields, row_fields, extras, column_loads, row_loads, epilogue;

  std::string text() const;
};

std::string GemmConstants::text() const {
  const std::string types = concat(type_alias("A", a), type_alias("B", b), type_alias("Output", output),
                                   type_alias("Acc", acc), type_alias("Sum", sum), type_alias("Staged", staged));
  const std::string numbers = int_constants({{"TILE_M", tile_m},
                                             {"TILE_N", tile_n},
                                             {"THREADS", threads},
                                             {"MIN_BLOCKS", min_blocks},
                                             {"WARP_M", warp_m},
                                             {"WARP_N", warp_n},
                                             {"STAGES", stages},
                                             {"DISTANCE", distance},
                                             {"IN_FLIGHT", in_flight},
                                             {"V", v},
                                             {"ROW_RANK", row_rank},
                                             {"BATCH_RANK", batch_rank},
                                             {"OPERANDS", operands}});
  const std::string flags = bool_constants({{"CONV", conv},
                                            {"VECTOR_A", vector_a},
                                            {"VECTOR_B", vector_b},
                                            {"MASKED", masked},
                                            {"CONSTANT_B", constant_b},
                                            {"ROWS_FIRST", rows_first}});
  return concat(types, macro("MATRIX", matrix), macro("SPLITS", splits), macro("GROUPS", int(groups)),
                macro("BY_ROWS", int(by_rows)), numbers, flags, "struct ColumnExtras { ", column_fields,
                "};\nstruct RowExtras { ", row_fields, "};\n", macro("EXTRAS", extras),
                macro("LOAD_COLUMN_EXTRAS(to)", column_loads), macro("LOAD_ROW_EXTRAS(to)", row_loads),
                macro("EPILOGUE(sum, columns, row, v)", epilogue));
}

}  // namespace

bool epilogue_takes_parts(const Problem& problem) {
  for (size_t i = 1; i < problem.inputs.size(); ++i)
    if (problem.inputs[i].pitch &&
        (i == 1 || (problem.inputs[i].dims() != problem.outputs[0].dims() && !along_images(problem, i))))
      return false;
  return true;
}

bool on_matrix_units(DType a, DType b, bool tf32) {
  return (tf32 && a == DType::f32 && b == DType::f32) || (a == b && (is_half(a) || a == DType::f8e4m3fn)) ||
         ((a == DType::i8 || a == DType::u8) && b == DType::i8);
}

bool on_matrix_units(DType a, DType b, bool tf32, const GpuProperties& gpu) {
  if (gpu.capability < 80 && (a == DType::f32 || a == DType::bf16)) return false;
  if (gpu.capability < 89 && a == DType::f8e4m3fn) return false;
  return on_matrix_units(a, b, tf32);
}

int matrix_units(DType a) {
  switch (a) {
    case DType::f16: return 1;
    case DType::bf16: return 2;
    case DType::i8: return 3;
    case DType::u8: return 4;
    case DType::f32: return 5;
    case DType::f8e4m3fn: return 6;
    default: return 0;
  }
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

Job gemm_job(const Gemm& gemm, const std::string& text, const GpuProperties& gpu) {
  const bool matrix = on_matrix_units(gemm.a, gemm.b, gemm.tf32, gpu);
  const GemmChoice choice = gemm_choice(matrix, text);
  const GemmTile& tile = *choice.tile;
  const int splits = choice.splits;
  const int64_t rows = element_count(gemm.row_sizes), batches = element_count(gemm.batch_sizes);
  const int64_t row_tiles = ceil_div(rows, int64_t(tile.rows)),
                column_tiles = ceil_div(gemm.columns, int64_t(tile.columns));
  const int64_t slice_bytes = matrix ? 128 : 64,
                slices = ceil_div(ceil_div(gemm.depth, slice_bytes / size_of(gemm.a)), int64_t(splits));

  // As many neighbours as 16 bytes of the output are, where they are neighbours in every row.
  const GemmOperand& result = gemm.operands[0];
  int64_t vector = std::clamp<int64_t>(16 / size_of(result.dtype), 1, 8);
  if (result.column_stride != 1 || gemm.columns % vector || !multiples_of(result, vector)) vector = 1;

  Job job;
  job.entry = "gemm";
  job.overlap = true;
  job.slots = {gemm.a_slot, gemm.b_slot};
  std::vector<DType> dtypes{gemm.accumulator};
  std::string extras, call, fields[2], loads[2];  // of columns, of rows
  for (size_t o = 1; o < gemm.operands.size(); ++o) {
    const GemmOperand& operand = gemm.operands[o];
    const bool of_rows =
        std::any_of(operand.row_strides.begin(), operand.row_strides.end(), [](int64_t s) { return s; });
    const bool vectors = operand.column_stride == 1 && multiples_of(operand, vector),
               bytes = vectors && vector % 4 == 0 && wants_bytes_as_floats(*gemm.epilogue, int(o), operand.dtype);
    dtypes.push_back(bytes ? DType::f32 : operand.dtype);
    const std::string_view type = memory_type(operand.dtype);
    extras += concat("const ", type, "* e", o, ", ");
    fields[of_rows] += concat(bytes ? "Bytes<" : "Vec<", type, ", V> x", o, "; ");
    const std::string from = concat("(e", o, " + ", of_rows ? "at" : "start", '[', of_rows ? o : o + 2, ']'),
                      loaded = concat(of_rows ? "(row).x" : "(columns).x", o);
    loads[of_rows] += concat("(to).x", o, " = ");
    if (operand.column_stride == 0) loads[of_rows] += concat("load_splat<V>", from, "); ");
    else if (vectors) loads[of_rows] += concat(bytes ? "load_bytes<V>" : "load_vector<V>", from, " + c); ");
    else
      loads[of_rows] +=
          concat("load_strided<V>", from, " + i64(c) * p.column_stride[", o, "], p.column_stride[", o, "]); ");
    call += bytes ? byte_argument(type, loaded) : concat(", hold(", loaded, ".at[v])");
    if (bytes) want_byte_pattern(fields[0], loads[0]);
    job.slots.push_back({Slot::Kind::input, operand.input, 0});
  }
  job.slots.push_back({Slot::Kind::output, 0, 0});
  // Sums of f16 are f16 in the graph: rounded once, here.
  const std::string_view round = gemm.accumulator == DType::f16 ? "op::round_f16" : "";
  const int units = matrix ? matrix_units(gemm.a) : 0;
  // wgmma would read operands that nothing has rounded.
  const bool groups = tile.groups && gemm.a != DType::f32;
  const std::string_view sum = sum_type(matrix, gemm.accumulator);
  // Not with products in flight: ptxas then takes the conversions for reads of unfinished sums, and lets none overlap.
  const bool half_sums = matrix && gemm.accumulator == DType::f16 && splits == 1 && tile.in_flight == 0;
  int64_t taps = 1;
  if (gemm.conv)
    for (int64_t size : gemm.conv->kernel) taps *= size;
  const int most_stages = gemm_stages(tile, gpu);
  const int64_t distance = std::clamp<int64_t>(slices, 1, std::max(1, most_stages - 1 - tile.in_flight));
  // Without clusters a block sums the slices of all parts: then the ring goes round.
  const int64_t stages = std::clamp<int64_t>(splits > 1 ? distance + 1 + tile.in_flight : slices, 1, most_stages);
  ProgramNumbers numbers;
  const ProgramCode code = finished_code(*gemm.epilogue, dtypes, "epilogue", numbers);
  const GemmConstants constants{
      .a = memory_type(gemm.a),
      .b = memory_type(gemm.b),
      .output = memory_type(result.dtype),
      .acc = held_type(gemm.accumulator),
      .sum = sum,
      .staged = half_sums ? "f16" : sum,
      .matrix = units,
      .splits = splits,
      .groups = groups,
      .by_rows = gemm.b_by_rows,
      .tile_m = tile.rows,
      .tile_n = tile.columns,
      .threads = tile.threads,
      .min_blocks = tile.blocks,
      .warp_m = tile.warp_rows,
      .warp_n = tile.warp_columns,
      .stages = stages,
      .distance = distance,
      .in_flight = tile.in_flight,
      .v = vector,
      .row_rank = int64_t(gemm.row_sizes.size()),
      .batch_rank = int64_t(gemm.batch_sizes.size()),
      .operands = int64_t(gemm.operands.size()),
      .conv = gemm.conv != nullptr,
      .vector_a = gemm.vector_a,
      .vector_b = gemm.vector_b,
      .masked = gemm.vector_a && taps <= 32,
      .constant_b = gemm.b_slot.kind == Slot::Kind::packed,
      .rows_first = result.column_stride != 1,
      .column_fields = fields[0],
      .row_fields = fields[1],
      .extras = extras,
      .column_loads = loads[0],
      .row_loads = loads[1],
      .epilogue = concat(code.call, round, "(sum)", call, ")"),
  };
  job.source.text =
      concat("#include \"backends/cuda/support/memory.cuh\"\n", code.text, macro("NUMBERS", numbers.text()),
             constants.text(), "#include \"backends/cuda/gemm/gemm.cuh\"\n");

  ParameterWriter writer;
  writer.put(uint32_t(rows))
      .put(uint32_t(gemm.columns))
      .put(uint32_t(gemm.depth))
      .put(uint32_t(slices))
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
  writer.put(int32_t(conv.kernel[0])).put(conv.batch_stride);
  for (int64_t stride : conv.spatial_stride) writer.put(stride);
  job.parameters = writer.put_numbers(numbers.values()).finish();
  job.shape.block = {uint32_t(tile.threads), 1, 1};
  const int64_t blocks = row_tiles * column_tiles * batches;
  if (!small_positions(blocks))
    fail(ErrorKind::unsupported, "a product of ", blocks, " tiles; a GPU takes at most 2147483647");
  job.shape.grid = {uint32_t(blocks), uint32_t(splits), 1};
  const int sum_bytes = half_sums ? 2 : sum == "double" || sum == "u64" ? 8 : 4;
  job.shape.shared_bytes = uint32_t(gemm_shared_bytes(tile, matrix, stages, sum_bytes));
  return job;
}

}  // namespace temper::cuda
