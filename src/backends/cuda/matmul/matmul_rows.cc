// SPDX-License-Identifier: Apache-2.0
// Products of few rows by constant weights, at the speed of memory, with a normalisation of the rows before them
// (matmul_rows.cu).
#include <algorithm>

#include "backends/axes.h"
#include "backends/cuda/gemm/gemm.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/host_transpose.h"
#include "backends/cuda/support/program_code.h"
#include "base/checked.h"
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
const ops::MatMul& op_of(const Problem& problem) {
  return problem.op.is<ops::NormalizedMatMul>() ? problem.op.get<ops::NormalizedMatMul>().product
                                                : problem.op.get<ops::MatMul>();
}
// Which input the weights are; the epilogue's follow them.
size_t weights_at(const Problem& problem) {
  const auto* op = normalized(problem);
  return op ? op->normalize_inputs() : 1;
}

struct Sizes {
  int64_t rows, columns, depth;
};
Sizes sizes_of(const Problem& problem) {
  const Dims out = problem.outputs[0].dims();
  return {element_count(Dims(out.begin(), out.end() - 1)), out.back(), problem.inputs[0].dims().back()};
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

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::MatMul, ops::NormalizedMatMul>()) return refused("not a matrix product");
  const ops::MatMul& op = op_of(problem);
  const size_t weights = weights_at(problem);
  const Port &a = problem.inputs[0], &b = problem.inputs[weights];
  const Dims a_dims = a.dims(), b_dims = b.dims(), out = problem.outputs[0].dims();
  if (a.type.dtype != b.type.dtype || (a.type.dtype != DType::f16 && a.type.dtype != DType::bf16))
    return refused("a product of ", a.type.dtype, " and ", b.type.dtype);
  if (op.transpose_a || !b.is_constant || element_count(Dims(b_dims.begin(), b_dims.end() - 2)) != 1 ||
      Dims(a_dims.begin(), a_dims.end() - 2) != Dims(out.begin(), out.end() - 2))
    return refused("not rows by one matrix of constants");
  const Sizes s = sizes_of(problem);
  if (s.rows > kMostRows) return refused(s.rows, " rows; at most ", kMostRows);
  if (s.depth % kChunk || a.pitch % kChunk || s.depth == 0 || s.depth > kMostDepth)
    return refused("a depth of ", s.depth, " elements");
  if (!strides_of(problem.outputs[0], out)) return refused("rows that lie at several distances");
  for (size_t i = weights + 1; i < problem.inputs.size(); ++i)
    if (!strides_of(problem.inputs[i], out)) return refused("an epilogue's input ", problem.inputs[i].type);
  if (Support support = normalization_supports(problem); !support.yes()) return support;
  return gemm_supports(a.type.dtype, b.type.dtype, s.rows, s.columns, s.depth, op.epilogue);
}

std::vector<Config> configs(const Problem& problem, const GpuProperties&) {
  const Sizes s = sizes_of(problem);
  std::vector<Config> out;
  for (const Shares& shares : kShares)
    if (s.rows * shares.columns <= 16 && (shares.split == 1 || ceil_div<int64_t>(s.depth, 32 * kChunk) >= shares.split))
      out.push_back(plain_config(problem, shares.text()));
  return out;
}

double expected_clocks(const Problem& problem, const Config&, const GpuProperties& gpu) {
  const Sizes s = sizes_of(problem);
  constexpr double kStart = 2000, kFromMemory = 18;  // clocks; bytes that memory gives an SM in one
  return kStart + double(s.columns * s.depth * 2) / (kFromMemory * gpu.sms) * std::max(1.0, double(s.rows) / 4);
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

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const ops::MatMul& op = op_of(problem);
  const size_t weights = weights_at(problem);
  const Port &a = problem.inputs[0], &b = problem.inputs[weights];
  const Sizes s = sizes_of(problem);
  const auto shares = std::find_if(std::begin(kShares), std::end(kShares),
                                   [&](const Shares& one) { return one.text() == config.text; });
  if (shares == std::end(kShares)) fail(ErrorKind::bad_file, "cuda.matmul.rows has no '", config.text, "'");
  Recipe::Work out;
  if (s.rows * s.columns == 0) return out;
  out.consumed.assign(problem.inputs.size(), false);
  out.consumed[weights] = true;
  const int64_t size = size_of(b.type.dtype);
  out.packed_bytes = s.columns * s.depth * size;
  if (b.constant) {  // as rows of columns
    out.packed.resize(size_t(out.packed_bytes));
    const std::byte* from = b.constant->raw().data();
    if (op.transpose_b) std::copy_n(from, out.packed_bytes, out.packed.data());
    else transpose_on_host(from, s.depth, s.columns, size, out.packed.data(), s.depth);
  }

  const DType accumulator = ops::accumulator_of(a.type.dtype, b.type.dtype);
  Job job;
  job.entry = "matmul_rows";
  job.overlap = true;
  job.slots = {{Slot::Kind::input, 0, 0}, {Slot::Kind::packed, 0, 0}};
  const std::string between = between_text(problem, job.slots);
  std::vector<DType> dtypes{accumulator};
  ExtrasText extras;
  std::vector<Strides> strides{*strides_of(problem.outputs[0], problem.outputs[0].dims())};
  for (size_t i = weights + 1; i < problem.inputs.size(); ++i) {
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
  job.source.text = concat("#include \"backends/cuda/support/memory.cuh\"\n", code.text,
                           macro("NUMBERS", numbers.text()), type_alias("A", memory_type(a.type.dtype)),
                           type_alias("Output", memory_type(problem.outputs[0].type.dtype)), between,
                           int_constants({{"ROWS", s.rows},
                                          {"DEPTH", s.depth},
                                          {"COLUMNS", shares->columns},
                                          {"SPLIT", shares->split},
                                          {"WARPS", kWarps},
                                          {"OPERANDS", int64_t(strides.size())}}),
                           "struct Extras { ", extras.fields, "};\n", macro("EXTRAS", extras.parameters),
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
  job.shape.grid = {blocks_for(ceil_div<int64_t>(s.columns, shares->columns), kWarps / shares->split), 1, 1};
  out.jobs.push_back(std::move(job));
  return out;
}

bool takes_parts(const Problem& problem, const Config&) {
  for (size_t i = 1; i < problem.inputs.size(); ++i)
    if (problem.inputs[i].pitch && (i <= weights_at(problem) || problem.inputs[i].dims() != problem.outputs[0].dims()))
      return false;
  return true;
}

}  // namespace

extern const Recipe matmul_rows_recipe;
const Recipe matmul_rows_recipe{"cuda.matmul.rows", 3,       supports, configs,        work, {},
                                takes_parts,        nullptr, false,    expected_clocks};

}  // namespace temper::cuda
