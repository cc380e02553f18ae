// SPDX-License-Identifier: Apache-2.0
// Products of few rows by constant weights, at the speed of memory, with a normalisation of the rows before them
// (matmul_rows.cu). Weights in blocks of 8 or 4 bits are read as they are.
#include <algorithm>
#include <cstring>

#include "backends/axes.h"
#include "backends/blocked_weights.h"
#include "backends/cuda/gemm/gemm.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/host_transpose.h"
#include "backends/cuda/support/program_code.h"
#include "base/checked.h"
#include "graph/ops/blocked_matmul.h"
#include "graph/ops/fused_decode.h"
#include "graph/ops/pointwise.h"

namespace temper::cuda {

namespace {

// More rows are faster on the matrix units.
constexpr int64_t kMostRows = 8;
constexpr int64_t kChunk = 8, kMostDepth = 1 << 16;
constexpr int kWarps = 4;
constexpr int64_t kMostNormalized = 1 << 14;  // elements of all rows, in shared memory

// Columns of a warp, and warps that share them.
struct Shares {
  int columns, split;
  std::string text() const { return concat("columns=", columns, split > 1 ? concat(" split=", split) : ""); }
};
constexpr Shares kShares[] = {{1, 1}, {2, 1}, {1, 2}, {4, 1}, {2, 2}, {1, 4}, {8, 1}, {4, 2}};

const ops::NormalizedMatMul* normalized(const Problem& problem) { return problem.op.get_if<ops::NormalizedMatMul>(); }
// The product by weights in blocks; nothing where they are floats.
std::optional<ops::BlockedMatMul> blocked(const Problem& problem) {
  if (const auto* op = normalized(problem))
    return op->in_blocks() ? std::optional(op->blocked_product()) : std::nullopt;
  const auto* op = problem.op.get_if<ops::BlockedMatMul>();
  return op ? std::optional(*op) : std::nullopt;
}
ops::MatMul op_of(const Problem& problem) {
  if (const auto* op = normalized(problem)) return op->product;
  if (const auto* op = problem.op.get_if<ops::BlockedMatMul>()) return op->product();
  if (const auto* op = problem.op.get_if<ops::MatMul>()) return *op;
  fail(ErrorKind::bad_file, name_of(problem.op), " is no matrix product");
}
// Which input the weights are, or their integers, and the first of the epilogue's.
size_t weights_at(const Problem& problem) {
  const auto* op = normalized(problem);
  return op ? op->normalize_inputs() : 1;
}
size_t extras_at(const Problem& problem) {
  return weights_at(problem) + (blocked(problem) ? ops::BlockedMatMul::kOwnInputs - 1 : 1);
}

struct Sizes {
  int64_t rows, columns, depth;
};
Sizes sizes_of(const Problem& problem) {
  const Dims out = problem.outputs[0].dims();
  return {element_count(Dims(out.begin(), out.end() - 1)), out.back(), problem.inputs[0].dims().back()};
}

// How a kernel reads weights: 16 bits are floats of the rows' dtype.
struct Form {
  Shares shares;
  int bits = 16;
  std::string text() const { return shares.text() + (bits == 16 ? "" : concat(" bits=", bits)); }
};

// Weights in blocks, where they lie in what is packed: the integers of each column, along the depth, then a scale and a
// zero point for each block of each column.
struct Blocks {
  int64_t length = 0;  // of a block, along the depth: a multiple of kChunk, or the whole depth
  int64_t count = 0;   // of a column
  bool has_zeros = false;
  int64_t scales_at = 0, zeros_at = 0, bytes = 0;
};
Blocks blocks_of(const Problem& problem, int bits) {
  const ops::BlockedMatMul op = *blocked(problem);
  const Sizes s = sizes_of(problem);
  Blocks out;
  out.length = std::min(op.transpose_b ? op.block_columns : op.block_rows, s.depth);
  out.count = ceil_div(s.depth, out.length);
  out.has_zeros = problem.inputs[weights_at(problem) + 2].present;
  const int64_t numbers = s.columns * out.count * int64_t(sizeof(float));
  out.scales_at = round_up<int64_t>(s.columns * s.depth * bits / 8, 16);
  out.zeros_at = round_up<int64_t>(out.scales_at + numbers, 16);
  out.bytes = out.has_zeros ? out.zeros_at + numbers : out.scales_at + numbers;
  return out;
}

// Added to integers of 4 bits, which are unsigned where they are packed.
int offset_of(const Problem& problem) { return problem.inputs[weights_at(problem)].type.dtype == DType::i8 ? 8 : 0; }

bool fits_4_bits(const Problem& problem) {
  const Tensor& integers = *problem.inputs[weights_at(problem)].constant;
  const std::span<const std::byte> raw = integers.raw();
  const auto offset = uint8_t(offset_of(problem));
  return std::all_of(raw.begin(), raw.end(), [&](std::byte each) { return uint8_t(uint8_t(each) + offset) < 16; });
}

// Strides of the output or of an input of the epilogue from row to row and from column to column, where all of its rows
// lie at one distance.
struct Strides {
  int64_t row, column;
};
std::optional<Strides> strides_of(const Port& port, const Dims& out) {
  const Dims strides = port.pitch ? logical_strides(port, Layout::plain) : broadcast_strides(port.dims(), out);
  Axes rows{Dims(out.begin(), out.end() - 1), {Dims(strides.begin(), strides.end() - 1)}};
  merge_axes(rows);
  if (rows.sizes.size() > 1) return std::nullopt;
  return Strides{rows.sizes.empty() ? 0 : rows.strides[0][0], strides.back()};
}

// A normalisation along the depth, with constants of a row between it and the product.
Support normalization_supports(const Problem& problem) {
  const auto* op = normalized(problem);
  if (!op) return supported();
  const size_t rank = problem.inputs[0].dims().size();
  if (op->normalize.groups != 1 || op->normalize.axes != std::vector<int64_t>{int64_t(rank) - 1})
    return refused("a normalisation along other axes than the depth");
  if (op->between.inputs > 5 || op->between.steps.size() > 100)
    return refused("a program of ", op->between.steps.size(), " steps between normalisation and product");
  const Sizes s = sizes_of(problem);
  if (s.rows * s.depth > kMostNormalized) return refused(s.rows, " rows of ", s.depth, " elements to normalise");
  for (size_t i = 1; i < weights_at(problem); ++i) {
    const Port& port = problem.inputs[i];
    if (!port.is_constant || !is_float(port.type.dtype) || port.type.dtype == DType::f64 || port.dims().empty() ||
        port.dims().back() != s.depth || element_count(port.dims()) != s.depth)
      return refused(port.type, " between a normalisation and a product");
  }
  return supported();
}

Support blocks_supports(const Problem& problem) {
  const auto op = blocked(problem);
  if (!op) return supported();
  for (size_t i = weights_at(problem); i < extras_at(problem); ++i)
    if (problem.inputs[i].present && !problem.inputs[i].is_constant) return refused("weights that are not constant");
  const int64_t along = op->transpose_b ? op->block_columns : op->block_rows;
  if (along < sizes_of(problem).depth && along % kChunk)
    return refused("blocks of ", along, " along the depth, no multiple of ", kChunk);
  return supported();
}

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::MatMul, ops::NormalizedMatMul, ops::BlockedMatMul>()) return refused("not a matrix product");
  const ops::MatMul op = op_of(problem);
  const size_t weights = weights_at(problem);
  const Port &a = problem.inputs[0], &b = problem.inputs[weights];
  const Dims a_dims = a.dims(), b_dims = b.dims(), out = problem.outputs[0].dims();
  const DType b_dtype = blocked(problem) ? a.type.dtype : b.type.dtype;
  if (a.type.dtype != b_dtype || (a.type.dtype != DType::f16 && a.type.dtype != DType::bf16))
    return refused("a product of ", a.type.dtype, " and ", b.type.dtype);
  if (op.transpose_a || !b.is_constant || element_count(Dims(b_dims.begin(), b_dims.end() - 2)) != 1 ||
      Dims(a_dims.begin(), a_dims.end() - 2) != Dims(out.begin(), out.end() - 2))
    return refused("not rows by one matrix of constants");
  const Sizes s = sizes_of(problem);
  if (s.rows > kMostRows) return refused(s.rows, " rows; at most ", kMostRows);
  if (s.depth % kChunk || a.pitch % kChunk || s.depth == 0 || s.depth > kMostDepth)
    return refused("a depth of ", s.depth, " elements");
  if (!strides_of(problem.outputs[0], out)) return refused("rows that lie at several distances");
  for (size_t i = extras_at(problem); i < problem.inputs.size(); ++i)
    if (!strides_of(problem.inputs[i], out)) return refused("an epilogue's input ", problem.inputs[i].type);
  if (Support support = normalization_supports(problem); !support.yes()) return support;
  if (Support support = blocks_supports(problem); !support.yes()) return support;
  return gemm_supports(a.type.dtype, a.type.dtype, s.rows, s.columns, s.depth, op.epilogue);
}

std::vector<Config> configs(const Problem& problem, const GpuProperties&) {
  const Sizes s = sizes_of(problem);
  std::vector<int> widths{16};
  if (blocked(problem)) {  // where a plan is loaded, nobody sees how many bits they have
    const bool known = problem.inputs[weights_at(problem)].constant;
    widths = known ? std::vector<int>{fits_4_bits(problem) ? 4 : 8} : std::vector<int>{4, 8};
  }
  std::vector<Config> out;
  for (const int bits : widths)
    for (const Shares& shares : kShares)
      if (s.rows * shares.columns <= 16 &&
          (shares.split == 1 || ceil_div<int64_t>(s.depth, 32 * kChunk) >= shares.split))
        out.push_back(plain_config(problem, Form{shares, bits}.text()));
  return out;
}

Form form_of(const Problem& problem, const Config& config) {
  for (const int bits : blocked(problem) ? std::vector<int>{4, 8} : std::vector<int>{16})
    for (const Shares& shares : kShares)
      if (const Form form{shares, bits}; form.text() == config.text) return form;
  fail(ErrorKind::bad_file, "cuda.matmul.rows has no '", config.text, "'");
}

double expected_clocks(const Problem& problem, const Config& config, const GpuProperties& gpu) {
  const Sizes s = sizes_of(problem);
  const Form form = form_of(problem, config);
  constexpr double kStart = 2000, kFromMemory = 18;  // clocks; bytes that memory gives an SM in one
  const int64_t bytes = form.bits == 16 ? s.columns * s.depth * 2 : blocks_of(problem, form.bits).bytes;
  return kStart + double(bytes) / (kFromMemory * gpu.sms) * std::max(1.0, double(s.rows) / 4);
}

// Adds to a kernel's text what an epilogue reads for a result: `given` when previous kernels have ended.
struct ExtrasText {
  std::string parameters, fields, constant, given, arguments;
  void add(const Port& port, size_t o) {
    const std::string name = concat('e', o);
    const std::string_view type = memory_type(port.type.dtype);
    parameters += concat("const ", type, "* ", name, ", ");
    fields += concat(type, ' ', name, "; ");  // as it was loaded: what computes with it would wait for it
    (port.is_constant ? constant : given) +=
        concat("(to).", name, " = ", name, "[(row) * p.row_stride[", o, "] + (column) * p.column_stride[", o, "]]; ");
    arguments += concat(", hold((extras).", name, ')');
  }
};

// The same of what stands between a normalisation and the product, for the elements of a chunk.
std::string between_text(const Problem& problem, std::vector<Slot>& slots) {
  const auto* op = normalized(problem);
  if (!op) return concat(macro("NORMALIZED", 0), "#define BETWEEN_EXTRAS\n");
  std::string parameters, fields, load, arguments;
  std::vector<DType> dtypes{DType::f32};
  for (size_t i = 1; i < weights_at(problem); ++i) {
    const DType dtype = problem.inputs[i].type.dtype;
    const std::string_view type = memory_type(dtype);
    dtypes.push_back(dtype);
    parameters += concat("const ", type, "* n", i, ", ");
    fields += concat("Vec<", type, ", 8> n", i, "; ");
    load += concat("(to).n", i, " = load_vector<8>(n", i, " + (k)); ");
    arguments += concat(", hold((fixed).n", i, ".at[j])");
    slots.push_back({Slot::Kind::input, int(i), 0});
  }
  return concat(macro("NORMALIZED", 1), bool_constants({{"CENTER", op->normalize.center}}),
                program_code(op->between, dtypes, "between"), "struct Fixed { ", fields, "};\n",
                macro("BETWEEN_EXTRAS", parameters), macro("LOAD_FIXED(to, k)", concat("{ ", load, "}")),
                macro("BETWEEN(value, fixed, j)", concat("between(value", arguments, ")")));
}

// What is packed of weights in blocks.
AlignedBytes packed_blocks(const Problem& problem, int bits, bool transposed) {
  const Sizes s = sizes_of(problem);
  const Blocks blocks = blocks_of(problem, bits);
  const ops::BlockedMatrix matrix = blocked_weights(problem, *blocked(problem), weights_at(problem));
  if (bits == 4 && !fits_4_bits(problem)) fail(ErrorKind::bad_file, "weights of more than 4 bits");
  AlignedBytes out(size_t(blocks.bytes), std::byte{0});
  std::vector<std::byte> turned;  // as rows of columns
  const std::byte* integers = matrix.integers.raw().data();
  if (!transposed) {
    turned.resize(size_t(s.columns * s.depth));
    transpose_on_host(integers, s.depth, s.columns, 1, turned.data(), s.depth);
    integers = turned.data();
  }
  if (bits == 8) {
    std::copy_n(integers, s.columns * s.depth, out.data());
  } else {
    const int offset = offset_of(problem);
    for (int64_t i = 0; i < s.columns * s.depth; ++i)
      out[size_t(i / 2)] |= std::byte((int(integers[i]) + offset) << (i % 2 * 4) & (i % 2 ? 0xf0 : 0x0f));
  }
  auto put = [&](int64_t at, int64_t which, float number) {
    std::memcpy(out.data() + at + which * int64_t(sizeof(float)), &number, sizeof(float));
  };
  for (int64_t c = 0; c < s.columns; ++c)
    for (int64_t b = 0; b < blocks.count; ++b) {
      const int64_t k = b * blocks.length, r = transposed ? c : k, column = transposed ? k : c;
      put(blocks.scales_at, c * blocks.count + b, matrix.scale_of(r, column));
      if (blocks.has_zeros) put(blocks.zeros_at, c * blocks.count + b, matrix.zero_of(r, column));
    }
  return out;
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const ops::MatMul op = op_of(problem);
  const size_t weights = weights_at(problem);
  const Port &a = problem.inputs[0], &b = problem.inputs[weights];
  const Sizes s = sizes_of(problem);
  const Form form = form_of(problem, config);
  const bool in_blocks = form.bits != 16;
  Recipe::Work out;
  if (s.rows * s.columns == 0) return out;
  out.consumed.assign(problem.inputs.size(), false);
  for (size_t i = weights; i < extras_at(problem); ++i) out.consumed[i] = problem.inputs[i].present;
  const int64_t size = size_of(b.type.dtype);
  const Blocks blocks = in_blocks ? blocks_of(problem, form.bits) : Blocks{};
  out.packed_bytes = in_blocks ? blocks.bytes : s.columns * s.depth * size;
  if (b.constant && in_blocks) {
    out.packed = packed_blocks(problem, form.bits, op.transpose_b);
  } else if (b.constant) {  // as rows of columns
    out.packed.resize(size_t(out.packed_bytes));
    const std::byte* from = b.constant->raw().data();
    if (op.transpose_b) std::copy_n(from, out.packed_bytes, out.packed.data());
    else transpose_on_host(from, s.depth, s.columns, size, out.packed.data(), s.depth);
  }

  const DType accumulator = ops::accumulator_of(a.type.dtype, a.type.dtype);
  Job job;
  job.entry = "matmul_rows";
  job.overlap = true;
  job.slots = {{Slot::Kind::input, 0, 0}, {Slot::Kind::packed, 0, 0}};
  if (in_blocks) job.slots.push_back({Slot::Kind::packed, 0, blocks.scales_at});
  if (blocks.has_zeros) job.slots.push_back({Slot::Kind::packed, 0, blocks.zeros_at});
  const std::string between = between_text(problem, job.slots);
  std::vector<DType> dtypes{accumulator};
  ExtrasText extras;
  std::vector<Strides> strides{*strides_of(problem.outputs[0], problem.outputs[0].dims())};
  for (size_t i = extras_at(problem); i < problem.inputs.size(); ++i) {
    const Port& port = problem.inputs[i];
    dtypes.push_back(port.type.dtype);
    extras.add(port, strides.size());
    strides.push_back(*strides_of(port, problem.outputs[0].dims()));
    job.slots.push_back({Slot::Kind::input, int(i), 0});
  }
  job.slots.push_back({Slot::Kind::output, 0, 0});
  // Sums of f16 are f16 in the graph: rounded once, here.
  const std::string_view round = accumulator == DType::f16 ? "op::round_f16" : "";
  ProgramNumbers numbers;
  const ProgramCode code = finished_code(op.epilogue, dtypes, "epilogue", numbers);
  std::string blocks_text = macro("BLOCKS_EXTRAS", "");
  if (in_blocks)
    blocks_text =
        concat(macro("BLOCKS_EXTRAS",
                     blocks.has_zeros ? "const float* scales, const float* zeros, " : "const float* scales, "),
               type_alias("Integer", memory_type(b.type.dtype)), bool_constants({{"ZEROS", blocks.has_zeros}}),
               int_constants({{"BLOCK", blocks.length}, {"BLOCKS", blocks.count}}),
               macro("ZERO_AT(i)", blocks.has_zeros ? "zeros[i]" : "0.0f"));
  job.source.text = concat("#include \"backends/cuda/support/memory.cuh\"\n", code.text, macro("IN_BLOCKS", in_blocks),
                           macro("NUMBERS", numbers.text()), type_alias("A", memory_type(a.type.dtype)),
                           type_alias("Output", memory_type(problem.outputs[0].type.dtype)), between,
                           int_constants({{"ROWS", s.rows},
                                          {"DEPTH", s.depth},
                                          {"COLUMNS", form.shares.columns},
                                          {"SPLIT", form.shares.split},
                                          {"BITS", form.bits},
                                          {"WARPS", kWarps},
                                          {"OPERANDS", int64_t(strides.size())}}),
                           blocks_text, "struct Extras { ", extras.fields, "};\n", macro("EXTRAS", extras.parameters),
                           macro("LOAD_CONSTANT(to, row, column)", concat("{ ", extras.constant, "}")),
                           macro("LOAD_GIVEN(to, row, column)", concat("{ ", extras.given, "}")),
                           macro("EPILOGUE(sum, extras)", concat(code.call, round, "(sum)", extras.arguments, ")")),
                           "#include \"backends/cuda/matmul/matmul_rows.cu\"\n");
  const double epsilon = normalized(problem) ? normalized(problem)->normalize.epsilon : 0;
  ParameterWriter writer;
  writer.put(uint32_t(s.columns)).put(float(1.0 / double(s.depth))).put(float(epsilon));
  writer.put(a.pitch ? a.pitch : s.depth);
  for (const Strides& one : strides) writer.put(one.row);
  for (const Strides& one : strides) writer.put(one.column);
  job.parameters = writer.put_numbers(numbers.values()).finish();
  job.shape.block = {uint32_t(kWarps) * 32, 1, 1};
  job.shape.grid = {blocks_for(ceil_div<int64_t>(s.columns, form.shares.columns), kWarps / form.shares.split), 1, 1};
  out.jobs.push_back(std::move(job));
  return out;
}

bool takes_parts(const Problem& problem, const Config&) {
  for (size_t i = 1; i < problem.inputs.size(); ++i)
    if (problem.inputs[i].pitch && (i < extras_at(problem) || problem.inputs[i].dims() != problem.outputs[0].dims()))
      return false;
  return true;
}

}  // namespace

extern const Recipe matmul_rows_recipe;
const Recipe matmul_rows_recipe{"cuda.matmul.rows", 5,       supports, configs,        work, {},
                                takes_parts,        nullptr, false,    expected_clocks};

}  // namespace temper::cuda
