// SPDX-License-Identifier: Apache-2.0
// Matrix products, and convolutions computed as matrix products (implicit GEMM). M runs over the rows of A or the
// output's pixels; N over the columns of B or output channels; K over what is summed: for a convolution over taps, and
// within a tap over channels. A block computes a TILE_M by TILE_N tile of sums (gemm_matrix.cuh on the tensor cores,
// gemm_plain.cuh on the other units), puts them into shared memory and applies the epilogue from there, V neighbouring
// columns at a time, so that the epilogue's reads and writes are wide. With SPLITS > 1 the blocks of a cluster share a
// tile (split K): each block sums a part of K, and finishes a part of the tile's rows, for which it adds the sums of
// all blocks in their order.
//
// Generated before this text (gemm.cc): A, B (element types), Output, Acc (held), Sum, Staged (the type of sums in
// shared memory), MATRIX (0: none, otherwise as in mma.cuh), TILE_M, TILE_N, THREADS, MIN_BLOCKS (per SM), SPLITS, V,
// ROWS_FIRST (neighbouring threads finish neighbouring rows), CONV, VECTOR_A and VECTOR_B (16 bytes along K are one
// aligned load), CONSTANT_B, ROW_RANK, BATCH_RANK, OPERANDS (the output and the epilogue's inputs), EXTRAS (their
// parameters), ColumnExtras and RowExtras (values of those that depend on the column alone, and of the others),
// LOAD_COLUMN_EXTRAS and LOAD_ROW_EXTRAS, EPILOGUE(sum, columns, row, v) (for element v of the extras), and what
// gemm_matrix.cuh or gemm_plain.cuh needs.
#pragma once
#include "backends/cuda/support/cluster_parts.cuh"
#include "backends/cuda/support/memory.cuh"

struct ConvParameters {
  Divisor channels, kernel_w, kernel_h;  // k = ((kd * kernel_h + kh) * kernel_w + kw) * channels + c
  Divisor out_w, out_h, out_d;           // row = ((n * out_d + d) * out_h + h) * out_w + w
  i32 stride[3], pad[3], dilation[3], size[3], kernel_d;
  i64 batch_stride, spatial_stride[3];  // of x
};
struct Parameters {
  u32 rows, columns, depth, slices;  // K slices of each of the SPLITS
  Divisor column_tiles, row_tiles;
  i64 a_row, a_k, b_column, b_k, b_tap;  // strides; a_row of a product only; b_tap of a convolution
  i64 column_stride[OPERANDS];
  Walk<ROW_RANK, OPERANDS> row_walk;
  Walk<BATCH_RANK, OPERANDS + 2> batch_walk;  // a, b, then the operands
  ConvParameters conv;
  NUMBERS
};

struct alignas(16) Chunk {
  u32 word[4];
};
template <class T>
union ChunkOf {
  T at[16 / sizeof(T)];
  Chunk chunk;
};
constexpr int PER_CHUNK = 16 / sizeof(A);
static_assert(sizeof(A) == sizeof(B), "chunks of both have as many elements");

// Per-thread state of a row of A that the thread loads.
struct RowOfA {
  i64 base;
  i32 origin[3];
  bool inside;
};

DEVICE RowOfA row_of_a(const Parameters& p, u32 row) {
  RowOfA r;
  r.inside = row < p.rows;
  r.base = i64(row) * p.a_row;
  if constexpr (CONV) {
    const ConvParameters& c = p.conv;
    const u32 h = divide(row, c.out_w), d = divide(h, c.out_h), n = divide(d, c.out_d);
    r.base = i64(n) * c.batch_stride;
    r.origin[0] = i32(d - n * c.out_d.divisor) * c.stride[0] - c.pad[0];
    r.origin[1] = i32(h - d * c.out_h.divisor) * c.stride[1] - c.pad[1];
    r.origin[2] = i32(row - h * c.out_w.divisor) * c.stride[2] - c.pad[2];
  }
  return r;
}

// Where element k of a row lies; false: it is padding.
DEVICE bool position_of_a(const Parameters& p, const RowOfA& r, u32 k, i64& offset) {
  if (!r.inside || k >= p.depth) return false;
  if constexpr (!CONV) {
    offset = r.base + i64(k) * p.a_k;
    return true;
  } else {
    const ConvParameters& c = p.conv;
    const u32 tap = divide(k, c.channels), channel = k - tap * c.channels.divisor;
    const u32 th = divide(tap, c.kernel_w), td = divide(th, c.kernel_h);
    const i32 d = r.origin[0] + i32(td) * c.dilation[0],
              h = r.origin[1] + i32(th - td * c.kernel_h.divisor) * c.dilation[1],
              w = r.origin[2] + i32(tap - th * c.kernel_w.divisor) * c.dilation[2];
    if (u32(d) >= u32(c.size[0]) || u32(h) >= u32(c.size[1]) || u32(w) >= u32(c.size[2])) return false;
    offset =
        r.base + d * c.spatial_stride[0] + h * c.spatial_stride[1] + w * c.spatial_stride[2] + i64(channel) * p.a_k;
    return true;
  }
}

DEVICE Chunk load_a(const A* a, const Parameters& p, const RowOfA& r, u32 k) {
  ChunkOf<A> out;
  out.chunk = Chunk{{0, 0, 0, 0}};
  i64 offset;
  if constexpr (VECTOR_A) {
    if (position_of_a(p, r, k, offset)) out.chunk = *reinterpret_cast<const Chunk*>(a + offset);
  } else {
#pragma unroll
    for (int i = 0; i < PER_CHUNK; ++i)
      if (position_of_a(p, r, k + i, offset)) out.at[i] = a[offset];
  }
  return out.chunk;
}

DEVICE Chunk load_b(const B* b, const Parameters& p, u32 column, u32 k) {
  ChunkOf<B> out;
  out.chunk = Chunk{{0, 0, 0, 0}};
  if constexpr (VECTOR_B) {
    // Packed rows are padded with zeros to whole chunks.
    if (column < p.columns && k < p.depth)
      out.chunk = *reinterpret_cast<const Chunk*>(b + i64(column) * p.b_column + k);
  } else {
#pragma unroll
    for (int i = 0; i < PER_CHUNK; ++i) {
      if (column >= p.columns || k + i >= p.depth) continue;
      i64 offset = i64(column) * p.b_column;
      if constexpr (CONV) {
        const u32 tap = divide(k + i, p.conv.channels);
        offset += i64(tap) * p.b_tap + i64(k + i - tap * p.conv.channels.divisor) * p.b_k;
      } else {
        offset += i64(k + i) * p.b_k;
      }
      out.at[i] = b[offset];
    }
  }
  return out.chunk;
}

// Sums in shared memory: no two of the eight rows that a warp writes at a time meet in a bank.
constexpr int PITCH = TILE_N + 8;
template <class T>
DEVICE Staged to_staged(T x) {
  if constexpr (sizeof(Staged) == 2) return store_as<Staged>(x);
  else return Staged(x);
}

#if MATRIX
#include "backends/cuda/gemm/gemm_matrix.cuh"
#else
#include "backends/cuda/gemm/gemm_plain.cuh"
#endif

DEVICE const Staged* staged_of(const u8* shared, int part) {
  if constexpr (PARTS == 1) {
    return reinterpret_cast<const Staged*>(shared);
  } else {
    return reinterpret_cast<const Staged*>(in_block(shared, part));
  }
}
DEVICE void meet() {
  if constexpr (PARTS == 1) {
    __syncthreads();
  } else {
    meet_cluster();
  }
}

extern "C" __global__ void CLUSTER __launch_bounds__(THREADS, LEAST_BLOCKS)
    gemm(const A* a, const B* b, EXTRAS Output* out, const Parameters p) {
  u8* const shared = dynamic_shared();
  if (SPLITS > 1 && PARTS == 1 && blockIdx.y > 0) {
    wait_for_inputs();
    return;
  }
  const u32 row_block = divide(u32(blockIdx.x), p.column_tiles),
            column = (blockIdx.x - row_block * p.column_tiles.divisor) * TILE_N;
  const u32 batch = divide(row_block, p.row_tiles), row = (row_block - batch * p.row_tiles.divisor) * TILE_M;
  i64 start[OPERANDS + 2];
  walk_offsets<BATCH_RANK, OPERANDS + 2>(p.batch_walk, batch, start);
  const u32 part = PARTS == 1 ? 0 : blockIdx.y;
  u32 slice = part * p.slices, end = (p.depth + PER_SLICE - 1) / PER_SLICE;
  if (PARTS > 1 && end > slice + p.slices) end = slice + p.slices;
  if (end <= slice) end = slice + 1;  // beyond k there are zeros
  sum_tile(shared, a + start[0], b + start[1], p, row, column, slice, end);
  meet();

  constexpr int PART_ROWS = TILE_M / PARTS, PER_ROW = TILE_N / V;
  constexpr int COUNT = PART_ROWS * PER_ROW < THREADS ? 1 : PART_ROWS * PER_ROW / THREADS;
  // Rows first: row threadIdx.x % PART_ROWS and ever further columns; otherwise the column stays.
  constexpr int STEP = ROWS_FIRST ? THREADS / PART_ROWS : THREADS / PER_ROW;
  static_assert(STEP > 0 && STEP * COUNT >= (ROWS_FIRST ? PER_ROW : PART_ROWS), "threads cover the tile");
  const int my_row = ROWS_FIRST ? threadIdx.x % PART_ROWS : threadIdx.x / PER_ROW,
            my_column = (ROWS_FIRST ? threadIdx.x / PART_ROWS : threadIdx.x % PER_ROW) * V;
  // Loads of several rows are on their way before the first is used.
  constexpr int AHEAD = COUNT % 4 == 0 ? 4 : COUNT % 2 == 0 ? 2 : 1;
  [[maybe_unused]] ColumnExtras columns;
  if (!ROWS_FIRST && column + my_column < p.columns) {
    [[maybe_unused]] const u32 c = column + my_column;
    LOAD_COLUMN_EXTRAS(columns)
  }
  // f(row and column within the part of the tile) if they are results.
  auto visit = [&](int i, auto&& f) {
    const int r = my_row + (ROWS_FIRST ? 0 : i * STEP), c = my_column + (ROWS_FIRST ? i * STEP : 0);
    if (r < PART_ROWS && c < TILE_N && row + part * PART_ROWS + r < p.rows && column + c < p.columns) f(r, c);
  };
#pragma unroll 1
  for (int i = 0; i < COUNT; i += AHEAD) {
    [[maybe_unused]] RowExtras rows[AHEAD];
    i64 to[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; ++j)
      visit(i + j, [&](int local_r, int local_c) {
        const u32 c = column + local_c;
        i64 at[OPERANDS];
        walk_offsets<ROW_RANK, OPERANDS>(p.row_walk, row + part * PART_ROWS + local_r, at);
#pragma unroll
        for (int o = 0; o < OPERANDS; ++o) at[o] += start[o + 2];
        LOAD_ROW_EXTRAS(rows[j])
        to[j] = at[0] + (V > 1 ? i64(c) : i64(c) * p.column_stride[0]);
      });
#pragma unroll
    for (int j = 0; j < AHEAD; ++j)
      visit(i + j, [&](int local_r, int local_c) {
        if constexpr (ROWS_FIRST) {
          [[maybe_unused]] const u32 c = column + local_c;
          LOAD_COLUMN_EXTRAS(columns)
        }
        Sum sums[V];
#pragma unroll
        for (int from = 0; from < PARTS; ++from) {
          const auto some = load_vector<V>(staged_of(shared, from) + (part * PART_ROWS + local_r) * PITCH + local_c);
#pragma unroll
          for (int v = 0; v < V; ++v) sums[v] = from == 0 ? Sum(hold(some.at[v])) : sums[v] + Sum(hold(some.at[v]));
        }
        Finished<Output> results[V];
#pragma unroll
        for (int v = 0; v < V; ++v) results[v] = EPILOGUE(Acc(sums[v]), columns, rows[j], v);
        store_results<Output, V>(out + to[j], results);
      });
  }
  if constexpr (PARTS > 1) meet();  // the others may still read here
}
