// SPDX-License-Identifier: Apache-2.0
// The GEMM kernel (gemm.cuh) that matmul and conv share, and how its text and parameters are made.
#pragma once
#include "backends/axes.h"
#include "backends/cuda/recipe.h"

namespace temper::cuda {

struct GemmOperand {  // the output, or an input of the epilogue
  DType dtype;
  Dims row_strides;    // along the row axes, in elements
  Dims batch_strides;  // along the batch axes
  int64_t column_stride = 0;
  int input = -1;  // of the problem; -1 for the output
};

struct GemmConv {        // spatial axes are three; missing ones have size 1
  int64_t channels = 1;  // of a group
  std::array<int64_t, 3> kernel{1, 1, 1}, stride{1, 1, 1}, pad{0, 0, 0}, dilation{1, 1, 1}, size{1, 1, 1}, out{1, 1, 1};
  int64_t batch_stride = 0, b_tap = 0;
  std::array<int64_t, 3> spatial_stride{0, 0, 0};
};

struct Gemm {
  DType a, b, accumulator;
  Slot a_slot{Slot::Kind::input, 0, 0}, b_slot;
  int64_t columns = 0, depth = 0;
  int64_t a_row = 0, a_k = 0, b_column = 0, b_k = 0;  // strides in elements
  Dims row_sizes, batch_sizes, a_batch, b_batch;      // axes, and strides along them
  bool vector_a = false, vector_b = false;            // 16 bytes along K are neighbours and aligned
  bool b_by_rows = false;             // of 16 bits, so are those along the columns (where b_column is 1)
  bool tf32 = false;                  // f32 may be rounded to TF32
  const GemmConv* conv = nullptr;     // null: a product of matrices
  std::vector<GemmOperand> operands;  // the output first, then the epilogue's inputs in order
  const Program* epilogue = nullptr;
};

// The properties of a GEMM that tiles are chosen by.
struct GemmShape {
  DType a, b;
  int64_t rows = 0, columns = 0, depth = 0, batches = 1;
  int64_t result_bytes = 0;  // read and written for each element of the output
  bool vector = true;        // 16 bytes along K are neighbours in A, and in B or along its columns
  bool b_by_rows = false;    // the latter
  bool tf32 = false;         // f32 may be rounded to TF32
};

// GemmShape::result_bytes of a product or convolution whose epilogue's inputs follow its two operands.
int64_t gemm_result_bytes(const Problem& problem);
// Whether the only strided views are the first operand, the output, and epilogue inputs of the output's shape or with
// one value for each channel of each image.
bool epilogue_takes_parts(const Problem& problem);
// Whether the tensor cores of some GPU multiply the dtypes; they do so with f32 where it may be rounded to TF32.
bool on_matrix_units(DType a, DType b, bool tf32 = false);
// Whether those of this GPU do. Below compute capability 8.0 they take neither TF32 nor bf16, below 8.9 no fp8.
bool on_matrix_units(DType a, DType b, bool tf32, const GpuProperties& gpu);
// MATRIX of support/mma.cuh for the dtype of A; 0 if the tensor cores do not multiply it.
int matrix_units(DType a);
// Whether there is a kernel for these dtypes, and the sizes fit its arithmetic.
Support gemm_supports(DType a, DType b, int64_t rows, int64_t columns, int64_t depth, const Program& epilogue);
// At most `most` tiles to choose from, as Config::text, the likeliest to be fast first: "tile=128x256" (M x N),
// "tile=64x64 splits=4" (split K: as many blocks share a tile).
std::vector<std::string> gemm_tiles(const GemmShape& shape, size_t most, const GpuProperties& gpu);
// By that estimate, for Recipe::expected_clocks.
double gemm_expected_clocks(const GemmShape& shape, std::string_view text, const GpuProperties& gpu);
// Sets the axes of rows and batches, merged to as few as possible. `rows` has strides for each operand, `batch` for A,
// for B and then for each operand.
void set_axes(Gemm& gemm, Axes rows, Axes batch);
// The launch. Throws Error{bad_file} for a tile that gemm_tiles does not know.
Job gemm_job(const Gemm& gemm, const std::string& tile, const GpuProperties& gpu);

}  // namespace temper::cuda
