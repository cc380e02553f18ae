// SPDX-License-Identifier: Apache-2.0
// Shared by recipes that normalise rows (softmax, normalisation) between two programs (row_programs.cuh).
#pragma once
#include <vector>

#include "backends/axes.h"
#include "backends/cuda/recipe.h"
#include "graph/ops/fused.h"

namespace temper::cuda {

// In the place of input `input` stands a table of `count` rows, of which an index picks each: row after row of the
// output, which is plain.
struct PickedRow {
  size_t input, index;  // of the problem's inputs
  int64_t count = 0;
};

// The work along the rows of a problem: the op, alone or with programs around it. Input 0 of the problem has the
// shape of its outputs; other inputs broadcast to it.
struct RowsOp {
  Program prologue, epilogue;
  bool gives_input = false;                // ops::FusedNormalize
  std::vector<ops::Normalize::Axis> axes;  // of input 0
  std::string_view entry;                  // the name of the kernel and of its file
  std::string constants;                   // text that comes before the kernel's own
  double number = 0;                       // a constant of the op: epsilon
  std::vector<PickedRow> picked;
  bool wide = false;  // a row has more threads than it has unasked
  bool exact = true;  // sums keep the digits of f32; else those of 16 bits, where a row is held
};

// The dtype that the prologue gives.
DType given_dtype(const Problem& problem, const RowsOp& op);

// Refuses what is not of floats, f64 with programs, and too much of either.
Support supports_rows(const Problem& problem, const RowsOp& op);
constexpr int64_t kMostHeldRow = 24000;  // elements of a row that stay in registers, however it begins

// Whether a configuration with RowsOp::wide may be the faster one: where there are too few rows for a warp each to fill
// the GPU, and too many for each to have a block unasked; and where more threads have room in their registers for what
// all rows have in common.
bool may_be_wide(const Problem& problem, const Config& config, const RowsOp& op, const GpuProperties& gpu);

// Tensors of the output's shape share a layout, others are plain.
std::vector<Config> row_configs(const Problem& problem);
// A problem as the kernels of row_programs.cuh see it, and their texts.
class RowTexts {
 public:
  RowTexts(const Problem& problem, const Config& config, const RowsOp& op);
  Axes kept, reduced;                  // between and within rows, in the order of memory, of all tensors
  int64_t rows = 1, n = 1;             // n: elements of a row
  int64_t inner = 0;                   // the stride of the innermost axis of a row in input 0
  bool contiguous = false;             // rows of input 0 and of the outputs lie alike, without gaps
  bool aligned(int64_t vector) const;  // its rows begin and end at multiples of as many elements
  // The kernel `entry` of src/backends/cuda/FILE.cu. `whole_rows`: it reads vectors of contiguous rows. The grid and
  // the block are left to the caller.
  Job job(std::string_view file, std::string_view entry, int64_t vector, bool whole_rows,
          const std::string& constants) const;

  // Registers that `vector` elements take: of what the prologue reads, and of what the epilogue reads and all rows have
  // in common, which may be constant.
  struct Held {
    int64_t given = 0, fixed = 0;
    bool constant = true;
  };
  Held held(int64_t vector) const;
  // Whether what all rows have in common is the same along all axes within a row but the innermost.
  bool fixed_along_last() const;

  // Input 0, the outputs, the other inputs.
  struct Tensors {
    std::vector<std::string> names, types;  // "in0", "const f16"
    std::vector<Slot> slots;
    std::vector<Dims> strides;  // along the logical axes of input 0
    size_t outputs = 1;
  };

 private:
  const Problem& problem_;
  const RowsOp& op_;
  Tensors tensors_;
  std::string_view access(size_t t, int64_t vector, bool whole_rows) const;
  bool is_fixed(size_t input) const;  // of the epilogue, and the same for all rows
};

// One launch; none if there are no elements.
Recipe::Work row_programs_work(const Problem& problem, const Config& config, const RowsOp& op,
                               const GpuProperties& gpu);

}  // namespace temper::cuda
