// SPDX-License-Identifier: Apache-2.0
// The tiles that a GEMM is cut into.
#pragma once
#include "backends/cuda/gemm/gemm.h"

namespace temper::cuda {

struct GemmTile {
  std::string_view text;
  int rows, columns, threads;   // rows and columns: M and N of the tile
  int stages, in_flight;        // buffers in shared memory; slices whose products may be under way when the next begin
  int blocks;                   // per SM
  int warp_rows, warp_columns;  // of a warp's part, where warps multiply by themselves
  bool groups;                  // four warps multiply together where the GPU can (wgmma)
};

// A configuration of a GEMM, read.
struct GemmChoice {
  const GemmTile* tile = nullptr;
  int splits = 1;
};

// Buffers of the ring, at most. Below compute capability 8.0 a copy to shared memory is over when it returns: two are
// enough.
int gemm_stages(const GemmTile& tile, const GpuProperties& gpu);
// Bytes of shared memory: the buffers, and then the sums in their place (PITCH in gemm.cuh).
int64_t gemm_shared_bytes(const GemmTile& tile, bool matrix, int64_t stages, int64_t sum_bytes);

// Parses a Config::text of gemm_tiles. Throws Error{bad_file} for any other text.
GemmChoice gemm_choice(bool matrix, std::string_view text);

}  // namespace temper::cuda
