// SPDX-License-Identifier: Apache-2.0
// Matrix products by the GEMM kernel that matmul and conv share.
#include "graph/ops/matmul.h"

#include "backends/axes.h"
#include "backends/cuda/gemm/gemm.h"
#include "backends/cuda/support/host_transpose.h"
#include "base/checked.h"
#include "base/half.h"
#include "graph/ops/pointwise.h"
#include "graph/product.h"

namespace temper::cuda {

namespace {

const ops::MatMul& op_of(const Problem& problem) { return problem.op.get<ops::MatMul>(); }

struct Shape3 {
  Dims batch;  // of the output
  int64_t m, n, k;
  bool flat;  // the batch belongs to the rows: b is one matrix, and a's matrices lie one behind the other
};

Shape3 shape_of(const Problem& problem) {
  const Dims a = problem.inputs[0].dims(), b = problem.inputs[1].dims(), out = problem.outputs[0].dims();
  Shape3 s;
  s.batch.assign(out.begin(), out.end() - 2);
  s.m = out[out.size() - 2];
  s.n = out.back();
  s.k = a[a.size() - (op_of(problem).transpose_a ? 2 : 1)];
  s.flat = !op_of(problem).transpose_a && Dims(a.begin(), a.end() - 2) == s.batch &&
           element_count(Dims(b.begin(), b.end() - 2)) == 1;
  return s;
}

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::MatMul>()) return refused("not a matrix product");
  const Shape3 s = shape_of(problem);
  return gemm_supports(problem.inputs[0].type.dtype, problem.inputs[1].type.dtype,
                       s.flat ? element_count(s.batch) * s.m : s.m, s.n, s.k, op_of(problem).epilogue);
}

// A constant operand is packed; of two, the second one.
bool packs_a(const Problem& problem) { return problem.inputs[0].is_constant && !problem.inputs[1].is_constant; }

// 16 bytes along K are neighbours and aligned.
bool vector_a(const Problem& problem, const Shape3& s) {
  return packs_a(problem) || (!op_of(problem).transpose_a && s.k % (16 / size_of(problem.inputs[0].type.dtype)) == 0);
}
// Along the columns.
bool b_by_rows(const Problem& problem, const Shape3& s, const GpuProperties& gpu) {
  const DType dtype = problem.inputs[1].type.dtype;
  if (!on_matrix_units(dtype, dtype, false, gpu)) return false;
  return !problem.inputs[1].is_constant && !op_of(problem).transpose_b && is_half(dtype) && s.n % 8 == 0;
}
bool vector_b(const Problem& problem, const Shape3& s) {
  return problem.inputs[1].is_constant ||
         (op_of(problem).transpose_b && s.k % (16 / size_of(problem.inputs[1].type.dtype)) == 0);
}

GemmShape gemm_shape_of(const Problem& problem, const GpuProperties& gpu) {
  const Shape3 s = shape_of(problem);
  GemmShape shape{problem.inputs[0].type.dtype, problem.inputs[1].type.dtype};
  shape.rows = s.flat ? element_count(s.batch) * s.m : s.m;
  shape.columns = s.n;
  shape.depth = s.k;
  shape.batches = s.flat ? 1 : element_count(s.batch);
  shape.result_bytes = gemm_result_bytes(problem);
  shape.tf32 = allows_tf32(problem.op);
  shape.b_by_rows = b_by_rows(problem, s, gpu);
  shape.vector = vector_a(problem, s) && (vector_b(problem, s) || shape.b_by_rows);
  return shape;
}

double expected_clocks(const Problem& problem, const Config& config, const GpuProperties& gpu) {
  return gemm_expected_clocks(gemm_shape_of(problem, gpu), config.text, gpu);
}

std::vector<Config> configs(const Problem& problem, const GpuProperties& gpu) {
  const GemmShape shape = gemm_shape_of(problem, gpu);
  std::vector<Config> out;
  for (std::string& tile : gemm_tiles(shape, 6, gpu)) out.push_back(plain_config(problem, std::move(tile)));
  return out;
}

// Prepacks matrices of n rows or columns by k of sums as [matrices, n, padded k]; `transposed`: they come as [k, n].
AlignedBytes packed(const Tensor& b, bool transposed, int64_t n, int64_t k, int64_t padded) {
  const size_t size = size_t(size_of(b.dtype()));
  const int64_t matrices = n * k == 0 ? 0 : b.count() / (n * k);
  AlignedBytes out(size_t(matrices * n * padded) * size);
  for (int64_t matrix = 0; matrix < matrices; ++matrix) {
    const std::byte* from = b.raw().data() + size_t(matrix * n * k) * size;
    std::byte* to = out.data() + size_t(matrix * n * padded) * size;
    if (transposed) transpose_on_host(from, k, n, int64_t(size), to, padded);
    else
      for (int64_t column = 0; column < n; ++column)
        std::memcpy(to + size_t(column * padded) * size, from + size_t(column * k) * size, size_t(k) * size);
  }
  return out;
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties& gpu) {
  const auto& op = op_of(problem);
  const Shape3 s = shape_of(problem);
  const Port &a = problem.inputs[0], &b = problem.inputs[1];
  const Dims out_dims = problem.outputs[0].dims();
  Recipe::Work out;
  if (element_count(out_dims) == 0) return out;
  const int64_t chunk = 16 / size_of(a.type.dtype), padded = round_up(s.k, chunk);
  const bool pack = b.is_constant, pack_a = packs_a(problem);

  Gemm gemm;
  gemm.a = a.type.dtype;
  gemm.b = b.type.dtype;
  gemm.accumulator = ops::accumulator_of(gemm.a, gemm.b);
  if (pack_a) gemm.a_slot = {Slot::Kind::packed, 0, 0};
  gemm.b_slot = pack ? Slot{Slot::Kind::packed, 0, 0} : Slot{Slot::Kind::input, 1, 0};
  gemm.columns = s.n;
  gemm.depth = s.k;
  const bool across = op.transpose_a && !pack_a;
  const int64_t a_row = pack_a ? padded : a.pitch ? a.pitch : across ? s.m : s.k;  // of the matrix as it lies
  gemm.a_row = across ? 1 : a_row;
  gemm.a_k = across ? a_row : 1;
  gemm.b_column = pack ? padded : op.transpose_b ? s.k : 1;
  gemm.b_k = pack || op.transpose_b ? 1 : s.n;
  gemm.vector_a = vector_a(problem, s);
  gemm.vector_b = vector_b(problem, s);
  gemm.b_by_rows = b_by_rows(problem, s, gpu);
  gemm.tf32 = op.tf32;
  gemm.epilogue = &op.epilogue;
  if (pack || pack_a) {
    const Port& weights = pack ? b : a;
    out.consumed.assign(problem.inputs.size(), false);
    out.consumed[pack ? 1 : 0] = true;
    if (s.k) out.packed_bytes = element_count(weights.dims()) / s.k * padded * size_of(weights.type.dtype);
    if (weights.constant)
      out.packed = pack ? packed(*b.constant, !op.transpose_b, s.n, s.k, padded)
                        : packed(*a.constant, op.transpose_a, s.m, s.k, padded);
  }

  auto batch_strides = [&](const Port& port, int64_t matrix) {
    const Dims dims = port.dims();
    Dims strides = broadcast_strides(Dims(dims.begin(), dims.end() - 2), s.batch);
    for (int64_t& stride : strides) stride *= matrix;
    return strides;
  };
  Axes rows{{s.m}, {}},
      batch{s.batch,
            {batch_strides(a, (across ? s.k : s.m) * a_row), batch_strides(b, pack ? s.n * padded : s.n * s.k)}};
  if (s.flat) rows.sizes.assign(out_dims.begin(), out_dims.end() - 1), batch = {{}, {{}, {}}};
  auto add = [&](DType dtype, const Dims& strides, int input) {
    gemm.operands.push_back({dtype, {}, {}, strides.back(), input});
    rows.strides.emplace_back(s.flat ? strides.begin() : strides.end() - 2, strides.end() - 1);
    batch.strides.emplace_back(strides.begin(), s.flat ? strides.begin() : strides.end() - 2);
  };
  add(problem.outputs[0].type.dtype, logical_strides(problem.outputs[0], config.outputs[0]), -1);
  for (size_t i = 2; i < problem.inputs.size(); ++i)
    add(problem.inputs[i].type.dtype,
        problem.inputs[i].pitch ? logical_strides(problem.inputs[i], config.inputs[i])
                                : broadcast_strides(problem.inputs[i].dims(), out_dims),
        int(i));
  set_axes(gemm, std::move(rows), std::move(batch));
  out.jobs.push_back(gemm_job(gemm, config.text, gpu));
  return out;
}

bool takes_parts(const Problem& problem, const Config&) { return epilogue_takes_parts(problem); }

}  // namespace

extern const Recipe matmul_recipe;
const Recipe matmul_recipe{"cuda.matmul.mma", 8,       supports, configs,        work, {},
                           takes_parts,       nullptr, false,    expected_clocks};

}  // namespace temper::cuda
