// SPDX-License-Identifier: Apache-2.0
// Products of matrices, and convolutions as such (implicit GEMM): rows are the rows of a, or the output's positions;
// columns are those of b, or output channels; k runs over what is summed: for a convolution over taps and within them
// over channels. Tiles pass through shared memory in words of 4 bytes, k innermost, 16 words a row; two buffers, so
// that the next tile is on its way while one is used. Products of f16, bf16 and 8-bit integers go to the matrix units
// (mma.sync), all others to plain multiply-add with one rounding each.
//
// Generated in front (gemm.cc): A, B (element types), Output, Acc (held), MATRIX (0: none, 1: f16, 2: bf16, 3: s8, 4:
// u8 by s8), ROWS and COLUMNS of a block's tile, WARP_ROWS and WARP_COLUMNS (of a warp's part, with MATRIX), CONV,
// VECTOR_A and VECTOR_B (16 bytes along k are one load), ROW_RANK, BATCH_RANK, OPERANDS (the output and the epilogue's
// inputs), EXTRAS (their parameters), EPILOGUE(x) (of the sum x at `at` and column c).
#pragma once
#include "backends/cuda/support/memory.cuh"

constexpr int THREADS = 256, WORDS = 16,
              PITCH = WORDS + 4;  // of a row in shared memory: no two rows of eight meet in a bank
constexpr int PER_CHUNK = 16 / sizeof(A), PER_ROW = WORDS * 4 / sizeof(A);
constexpr int CHUNKS_A = ROWS * WORDS / 4 / THREADS, CHUNKS_B = COLUMNS * WORDS / 4 / THREADS;
static_assert(sizeof(A) == sizeof(B) && CHUNKS_A > 0 && CHUNKS_B > 0, "tiles are whole chunks for every thread");

struct ConvParameters {
  Divisor channels, kernel_w, kernel_h;  // k = ((kd * kernel_h + kh) * kernel_w + kw) * channels + c
  Divisor out_w, out_h, out_d;           // row = ((n * out_d + d) * out_h + h) * out_w + w
  i32 stride[3], pad[3], dilation[3], size[3];
  i64 batch_stride, spatial_stride[3];  // of x
};
struct Parameters {
  u32 rows, columns, depth;
  Divisor column_tiles, row_tiles;
  i64 a_row, a_k, b_column, b_k, b_tap;  // strides; a_row of a product only; b_tap of a convolution
  i64 column_stride[OPERANDS];
  Walk<ROW_RANK, OPERANDS> row_walk;
  Walk<BATCH_RANK, OPERANDS + 2> batch_walk;  // a, b, then the operands
  ConvParameters conv;
};

struct alignas(16) Chunk {
  u32 word[4];
};
template <class T>
union ChunkOf {
  T at[16 / sizeof(T)];
  Chunk chunk;
};

// What a thread knows of a row of a that it loads.
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

#if MATRIX
#if MATRIX == 1
#define INSTRUCTION "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#elif MATRIX == 2
#define INSTRUCTION "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#elif MATRIX == 3
#define INSTRUCTION "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
#else
#define INSTRUCTION "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32"
#endif
#if MATRIX <= 2
using Sum = float;
#define SUM "+f"
#else
using Sum = i32;
#define SUM "+r"
#endif
DEVICE void multiply(Sum (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm volatile(INSTRUCTION " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : SUM(c[0]), SUM(c[1]), SUM(c[2]), SUM(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
constexpr int WARPS_ACROSS = COLUMNS / WARP_COLUMNS, TILES_M = WARP_ROWS / 16, TILES_N = WARP_COLUMNS / 8;
static_assert(ROWS / WARP_ROWS * WARPS_ACROSS * 32 == THREADS, "warps cover the tile");
struct Sums {
  Sum at[TILES_M][TILES_N][4];
};

// Rows of 32 bytes are the fragments of every type: lane g * 4 + t holds word t (and t + 4) of row g (and g + 8).
DEVICE void accumulate(Sums& sums, const u32* tile_a, const u32* tile_b) {
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const u32* mine_a = tile_a + (warp / WARPS_ACROSS * WARP_ROWS + g) * PITCH + t;
  const u32* mine_b = tile_b + (warp % WARPS_ACROSS * WARP_COLUMNS + g) * PITCH + t;
#pragma unroll
  for (int step = 0; step < WORDS; step += 8) {
    u32 a[TILES_M][4], b[TILES_N][2];
#pragma unroll
    for (int m = 0; m < TILES_M; ++m) {
      const u32* row = mine_a + m * 16 * PITCH + step;
      a[m][0] = row[0];
      a[m][1] = row[8 * PITCH];
      a[m][2] = row[4];
      a[m][3] = row[8 * PITCH + 4];
    }
#pragma unroll
    for (int n = 0; n < TILES_N; ++n) {
      const u32* row = mine_b + n * 8 * PITCH + step;
      b[n][0] = row[0];
      b[n][1] = row[4];
    }
#pragma unroll
    for (int m = 0; m < TILES_M; ++m)
#pragma unroll
      for (int n = 0; n < TILES_N; ++n) multiply(sums.at[m][n], a[m], b[n]);
  }
}
// f(row, columns), where columns(each) calls each(column, sum), for each row that this thread has sums of.
template <class F>
DEVICE void each_row(const Sums& sums, u32 row, u32 column, F&& f) {
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  row += warp / WARPS_ACROSS * WARP_ROWS + g;
  column += warp % WARPS_ACROSS * WARP_COLUMNS + t * 2;
#pragma unroll
  for (int m = 0; m < TILES_M; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      f(row + m * 16 + half * 8, [&](auto&& each) {
#pragma unroll
        for (int n = 0; n < TILES_N; ++n) {
          each(column + n * 8, sums.at[m][n][half * 2]);
          each(column + n * 8 + 1, sums.at[m][n][half * 2 + 1]);
        }
      });
}
#else
template <class T>
struct SumType {
  using type = u32;
};
template <>
struct SumType<float> {
  using type = float;
};
template <>
struct SumType<double> {
  using type = double;
};
template <>
struct SumType<i64> {
  using type = u64;
};
template <>
struct SumType<u64> {
  using type = u64;
};
using Sum = SumType<A>::type;
constexpr int PER_THREAD_M = ROWS / 16, PER_THREAD_N = COLUMNS / 16;
struct Sums {
  Sum at[PER_THREAD_M][PER_THREAD_N];
};
DEVICE float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
DEVICE double multiply_add(double a, double b, double c) { return __fma_rn(a, b, c); }
template <class I>
DEVICE I multiply_add(I a, I b, I c) {
  return a * b + c;
}

DEVICE void accumulate(Sums& sums, const u32* tile_a, const u32* tile_b) {
  const u32* mine_a = tile_a + threadIdx.x / 16 * PITCH;
  const u32* mine_b = tile_b + threadIdx.x % 16 * PITCH;
#pragma unroll
  for (int word = 0; word < WORDS; word += 4) {
    ChunkOf<B> b[PER_THREAD_N];
#pragma unroll
    for (int n = 0; n < PER_THREAD_N; ++n) b[n].chunk = *reinterpret_cast<const Chunk*>(mine_b + n * 16 * PITCH + word);
#pragma unroll
    for (int m = 0; m < PER_THREAD_M; ++m) {
      ChunkOf<A> a;
      a.chunk = *reinterpret_cast<const Chunk*>(mine_a + m * 16 * PITCH + word);
#pragma unroll
      for (int n = 0; n < PER_THREAD_N; ++n)
#pragma unroll
        for (int i = 0; i < PER_CHUNK; ++i) sums.at[m][n] = multiply_add(Sum(a.at[i]), Sum(b[n].at[i]), sums.at[m][n]);
    }
  }
}
template <class F>
DEVICE void each_row(const Sums& sums, u32 row, u32 column, F&& f) {
#pragma unroll
  for (int m = 0; m < PER_THREAD_M; ++m)
    f(row + threadIdx.x / 16 + m * 16, [&](auto&& each) {
#pragma unroll
      for (int n = 0; n < PER_THREAD_N; ++n) each(column + threadIdx.x % 16 + n * 16, sums.at[m][n]);
    });
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    gemm(const A* a, const B* b, EXTRAS Output* out, const Parameters p) {
  __shared__ __align__(16) u32 tiles_a[2][ROWS * PITCH];
  __shared__ __align__(16) u32 tiles_b[2][COLUMNS * PITCH];
  const u32 row_block = divide(u32(blockIdx.x), p.column_tiles),
            column = (blockIdx.x - row_block * p.column_tiles.divisor) * COLUMNS;
  const u32 batch = divide(row_block, p.row_tiles), row = (row_block - batch * p.row_tiles.divisor) * ROWS;
  i64 start[OPERANDS + 2];
  walk_offsets<BATCH_RANK, OPERANDS + 2>(p.batch_walk, batch, start);
  a += start[0];
  b += start[1];

  // Thread t loads chunk t % 4 of rows t / 4, t / 4 + 64, ...
  const u32 chunk = threadIdx.x % 4, first = threadIdx.x / 4;
  RowOfA rows[CHUNKS_A];
#pragma unroll
  for (int i = 0; i < CHUNKS_A; ++i) rows[i] = row_of_a(p, row + first + i * (THREADS / 4));
  Chunk next_a[CHUNKS_A], next_b[CHUNKS_B];
  auto fetch = [&](u32 k) {
#pragma unroll
    for (int i = 0; i < CHUNKS_A; ++i) next_a[i] = load_a(a, p, rows[i], k + chunk * PER_CHUNK);
#pragma unroll
    for (int i = 0; i < CHUNKS_B; ++i)
      next_b[i] = load_b(b, p, column + first + i * (THREADS / 4), k + chunk * PER_CHUNK);
  };
  auto place = [&](int buffer) {
#pragma unroll
    for (int i = 0; i < CHUNKS_A; ++i)
      *reinterpret_cast<Chunk*>(&tiles_a[buffer][(first + i * (THREADS / 4)) * PITCH + chunk * 4]) = next_a[i];
#pragma unroll
    for (int i = 0; i < CHUNKS_B; ++i)
      *reinterpret_cast<Chunk*>(&tiles_b[buffer][(first + i * (THREADS / 4)) * PITCH + chunk * 4]) = next_b[i];
  };

  Sums sums = {};
  fetch(0);
  place(0);
  __syncthreads();
  int buffer = 0;
  for (u32 k = 0; k < p.depth; k += PER_ROW) {
    const bool more = k + PER_ROW < p.depth;
    if (more) fetch(k + PER_ROW);
    accumulate(sums, tiles_a[buffer], tiles_b[buffer]);
    if (more) place(buffer ^ 1);
    __syncthreads();
    buffer ^= 1;
  }

  each_row(sums, row, column, [&](u32 r, auto&& columns) {
    if (r >= p.rows) return;
    i64 at[OPERANDS];
    walk_offsets<ROW_RANK, OPERANDS>(p.row_walk, r, at);
#pragma unroll
    for (int o = 0; o < OPERANDS; ++o) at[o] += start[o + 2];
    columns([&](u32 c, Sum sum) {
      if (c < p.columns) out[at[0] + i64(c) * p.column_stride[0]] = store_as<Output>(EPILOGUE(Acc(sum)));
    });
  });
}
