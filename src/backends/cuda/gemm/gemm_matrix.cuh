// SPDX-License-Identifier: Apache-2.0
// GEMM tiles on the tensor cores. K slices of 128 bytes a row are copied to shared memory asynchronously, DISTANCE
// slices ahead, into a ring of STAGES buffers. Chunk c (16 bytes) of row r lies at r * 128 + (c ^ r % 8) * 16: eight
// neighbouring rows then have the same chunk in different banks. wgmma calls this order 128-byte swizzling.
//
// Generated before this text: STAGES, DISTANCE, IN_FLIGHT (slices whose products may be in flight when the next one
// begins), MASKED (VECTOR_A, and the taps of a row are bits of a word), WARP_M and WARP_N (a warp's part of the tile,
// for mma.sync), GROUPS (wgmma multiplies where the GPU has it), BY_ROWS (16 bytes along N are one aligned load of B).
//
// With BY_ROWS, B lies there as it comes: 64 rows of K, in pieces of 64 columns, and the same order of chunks in each
// row. The matrix units turn it as they read it.
#pragma once
#include "backends/cuda/support/wgmma.cuh"

constexpr int SLICE = 128, PER_SLICE = SLICE / sizeof(A), STEPS = SLICE / 32;
constexpr int AT_ONCE = THREADS / 8, LOADS_A = TILE_M / AT_ONCE, LOADS_B = TILE_N / AT_ONCE;
static_assert(LOADS_A > 0 && LOADS_B > 0 && AT_ONCE % 8 == 0, "tiles are whole chunks for every thread");
constexpr int STAGE = (TILE_M + TILE_N) * SLICE;
static_assert(!BY_ROWS || (sizeof(B) == 2 && TILE_N % 64 == 0), "rows of B are pieces of 64 columns");

DEVICE void place_chunk(u32 to, const Chunk& x) { store_chunk(to, x.word[0], x.word[1], x.word[2], x.word[3]); }

// A row where MASKED: its first tap, and a bit for each tap that lies inside.
struct MaskedRow {
  const A* at;
  u32 taps;
};
DEVICE MaskedRow masked_row(const A* a, const Parameters& p, u32 row) {
  const RowOfA r = row_of_a(p, row);
  MaskedRow out{a + r.base, r.inside ? 1u : 0u};
  if constexpr (CONV) {
    const ConvParameters& c = p.conv;
    out.at += r.origin[0] * c.spatial_stride[0] + r.origin[1] * c.spatial_stride[1] + r.origin[2] * c.spatial_stride[2];
    u32 across = 0, shift = 0;
    for (u32 w = 0; w < c.kernel_w.divisor; ++w)
      across |= u32(u32(r.origin[2] + i32(w) * c.dilation[2]) < u32(c.size[2])) << w;
    out.taps = 0;
    for (i32 d = 0; d < c.kernel_d; ++d)
      for (u32 h = 0; h < c.kernel_h.divisor; ++h, shift += c.kernel_w.divisor)
        if (u32(r.origin[0] + d * c.dilation[0]) < u32(c.size[0]) &&
            u32(r.origin[1] + i32(h) * c.dilation[1]) < u32(c.size[1]))
          out.taps |= across << shift;
    if (!r.inside) out.taps = 0;
  }
  return out;
}
// Where k lies behind a row's first tap, and its tap's bit; no bit beyond the last k.
struct PlaceInRow {
  i64 offset;
  u32 tap;
};
DEVICE PlaceInRow place_in_row(const Parameters& p, u32 k) {
  if constexpr (!CONV) {
    return {i64(k), k < p.depth ? 1u : 0u};
  } else {
    const ConvParameters& c = p.conv;
    const u32 tap = divide(k, c.channels), th = divide(tap, c.kernel_w), td = divide(th, c.kernel_h);
    return {i64(i32(td) * c.dilation[0]) * c.spatial_stride[0] +
                i64(i32(th - td * c.kernel_h.divisor) * c.dilation[1]) * c.spatial_stride[1] +
                i64(i32(tap - th * c.kernel_w.divisor) * c.dilation[2]) * c.spatial_stride[2] +
                i64(k - tap * c.channels.divisor),
            k < p.depth ? 1u << tap : 0u};
  }
}

#if GROUPS && defined(__CUDA_ARCH_FEAT_SM90_ALL)
// A warpgroup (128 threads) multiplies 64 rows by all columns of the tile at a time, both from shared memory.
constexpr int LEAST_BLOCKS = MIN_BLOCKS;
constexpr int BLOCKS_M = TILE_M / 64 / (THREADS / 128);
static_assert(BLOCKS_M > 0, "every warpgroup has rows");
struct Sums {
  Sum at[BLOCKS_M][TILE_N / 2];
};
DEVICE void accumulate(Sums& sums, u32 tile_a, u32 tile_b) {
  const u32 rows = tile_a + threadIdx.x / 128 * (BLOCKS_M * 64 * SLICE);
#if BY_ROWS
  multiply_slice_by_rows(sums.at, rows, tile_b);
#else
  multiply_slice<SLICE>(sums.at, rows, tile_b);
#endif
}
template <int N>
DEVICE void finish() {
  wait_for_products<N>();
}
DEVICE void fence(Sums& sums) { renew(sums.at); }
DEVICE void publish() { publish_shared(); }
// f(row, column, sum, sum of the next column) for each pair that this thread has.
template <class F>
DEVICE void each_pair(const Sums& sums, F&& f) {
  const int row = threadIdx.x / 128 * (BLOCKS_M * 64) + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
  for (int m = 0; m < BLOCKS_M; ++m)
#pragma unroll
    for (int n = 0; n < TILE_N / 8; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        f(row + m * 64 + half * 8, n * 8 + threadIdx.x % 4 * 2, sums.at[m][n * 4 + half * 2],
          sums.at[m][n * 4 + half * 2 + 1]);
}
#else
constexpr int LEAST_BLOCKS = (MIN_BLOCKS + 1) / 2;  // fragments need registers, too
constexpr int WARPS_ACROSS = TILE_N / WARP_N, FRAGMENTS_M = WARP_M / 16, FRAGMENTS_N = WARP_N / 8;
static_assert(TILE_M / WARP_M * WARPS_ACROSS * 32 == THREADS && FRAGMENTS_N % 2 == 0, "warps cover the tile");
struct Sums {
  Sum at[FRAGMENTS_M][FRAGMENTS_N][4];
};
template <int N>
DEVICE void round_words(u32 (&words)[N]) {
#if MATRIX == 5
#pragma unroll
  for (int i = 0; i < N; ++i) words[i] = rounded_to_tf32(words[i]);
#endif
}
// Rows of 32 bytes are the fragments of every type: lane g * 4 + t holds word t (and t + 4) of row g (and g + 8).
DEVICE void accumulate(Sums& sums, u32 tile_a, u32 tile_b) {
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, columns = warp % WARPS_ACROSS * WARP_N;
  const u32 a_at = tile_a + (warp / WARPS_ACROSS * WARP_M + lane % 16) * SLICE, a_chunk = (lane / 16 ^ lane % 8) * 16;
#if BY_ROWS
  const u32 b_at = tile_b + columns / 64 * (64 * SLICE) + lane % 16 * SLICE,
            b_chunk = (columns % 64 / 8 + lane / 16 ^ lane % 8) * 16;
#else
  const u32 b_at = tile_b + (columns + lane % 8 + lane / 16 * 8) * SLICE, b_chunk = (lane / 8 % 2 ^ lane % 8) * 16;
#endif
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    u32 a[FRAGMENTS_M][4], b[FRAGMENTS_N][2];
#pragma unroll
    for (int m = 0; m < FRAGMENTS_M; ++m) load_matrices(a[m], a_at + m * 16 * SLICE + (a_chunk ^ step * 32));
#pragma unroll
    for (int n = 0; n < FRAGMENTS_N; n += 2)
#if BY_ROWS
      load_matrices_transposed(b[n], b_at + step * 16 * SLICE + (b_chunk ^ n * 16));
#else
      load_matrices(b[n], b_at + n * 8 * SLICE + (b_chunk ^ step * 32));
#endif
#pragma unroll
    for (int m = 0; m < FRAGMENTS_M; ++m) round_words(a[m]);
#pragma unroll
    for (int n = 0; n < FRAGMENTS_N; ++n) round_words(b[n]);
#pragma unroll
    for (int m = 0; m < FRAGMENTS_M; ++m)
#pragma unroll
      for (int n = 0; n < FRAGMENTS_N; ++n) multiply(sums.at[m][n], a[m], b[n][0], b[n][1]);
  }
}
template <int N>
DEVICE void finish() {}
DEVICE void fence(Sums&) {}
DEVICE void publish() {}
template <class F>
DEVICE void each_pair(const Sums& sums, F&& f) {
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const int row = warp / WARPS_ACROSS * WARP_M + g, column = warp % WARPS_ACROSS * WARP_N + t * 2;
#pragma unroll
  for (int m = 0; m < FRAGMENTS_M; ++m)
#pragma unroll
    for (int n = 0; n < FRAGMENTS_N; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        f(row + m * 16 + half * 8, column + n * 8, sums.at[m][n][half * 2], sums.at[m][n][half * 2 + 1]);
}
#endif

// The sums over the slices from `slice` to `end` (one at least), into the front of `shared`.
DEVICE void sum_tile(u8* shared, const A* a, const B* b, const Parameters& p, u32 row, u32 column, u32 slice, u32 end) {
  // Thread t loads chunk t % 8 of rows t / 8, t / 8 + AT_ONCE, ...
  const u32 chunk = threadIdx.x % 8, first = threadIdx.x / 8;
  const u32 tiles = shared_address(shared), mine = first * SLICE + (chunk ^ first % 8) * 16;
  const B* b_at = b + i64(column + first) * p.b_column;
  MaskedRow rows[LOADS_A];
  if constexpr (MASKED) {
#pragma unroll
    for (int i = 0; i < LOADS_A; ++i) rows[i] = masked_row(a, p, row + first + i * AT_ONCE);
  }
  auto copy_b = [&](u32 s, u32 stage) {
    const u32 k = s * PER_SLICE + chunk * PER_CHUNK, to = tiles + stage * STAGE + TILE_M * SLICE + mine;
    if constexpr (BY_ROWS) {
#pragma unroll
      for (int i = 0; i < LOADS_B; ++i) {
        const u32 row_of_b = s * PER_SLICE + first + i * AT_ONCE % 64, c = column + i * AT_ONCE / 64 * 64 + chunk * 8;
        copy_chunk(to + i * AT_ONCE * SLICE, b + i64(row_of_b) * p.b_k + c, c < p.columns && row_of_b < p.depth);
      }
    } else if constexpr (VECTOR_B) {
#pragma unroll
      for (int i = 0; i < LOADS_B; ++i)
        copy_chunk(to + i * AT_ONCE * SLICE, b_at + i64(i * AT_ONCE) * p.b_column + k,
                   column + first + i * AT_ONCE < p.columns && k < p.depth);
    } else {
#pragma unroll 1
      for (int i = 0; i < LOADS_B; ++i)
        place_chunk(to + i * AT_ONCE * SLICE, load_b(b, p, column + first + i * AT_ONCE, k));
    }
  };
  auto copy_a = [&](u32 s, u32 stage) {
    const u32 k = s * PER_SLICE + chunk * PER_CHUNK, to = tiles + stage * STAGE + mine;
    if constexpr (MASKED) {
      const PlaceInRow place = place_in_row(p, k);
#pragma unroll
      for (int i = 0; i < LOADS_A; ++i)
        copy_chunk(to + i * AT_ONCE * SLICE, rows[i].at + place.offset, (rows[i].taps & place.tap) != 0);
    } else {
#pragma unroll 1
      for (int i = 0; i < LOADS_A; ++i)
        place_chunk(to + i * AT_ONCE * SLICE, load_a(a, p, row_of_a(p, row + first + i * AT_ONCE), k));
    }
  };

  Sums sums = {};
  // Constants do not depend on the previous kernel (PDL).
  if constexpr (CONSTANT_B) {
#pragma unroll
    for (u32 s = 0; s < DISTANCE; ++s)
      if (slice + s < end) copy_b(slice + s, s);
  }
  wait_for_inputs();
#pragma unroll
  for (u32 s = 0; s < DISTANCE; ++s) {
    if (slice + s < end) {
      if constexpr (!CONSTANT_B) copy_b(slice + s, s);
      copy_a(slice + s, s);
    }
    close_group();
  }
  fence(sums);
  u32 stage = 0, next = DISTANCE % STAGES;
#pragma unroll 1
  do {
    wait_for_groups<DISTANCE - 1>();
    publish();
    __syncthreads();  // the slice is there, and the buffer of the one that comes next is used no more
    accumulate(sums, tiles + stage * STAGE, tiles + stage * STAGE + TILE_M * SLICE);
    if (slice + DISTANCE < end) {
      copy_b(slice + DISTANCE, next);
      copy_a(slice + DISTANCE, next);
    }
    close_group();
    finish<IN_FLIGHT>();
    stage = stage + 1 == STAGES ? 0 : stage + 1;
    next = next + 1 == STAGES ? 0 : next + 1;
  } while (++slice < end);
  finish<0>();
  fence(sums);
  __syncthreads();  // the buffers are free for the sums
  Staged* to = reinterpret_cast<Staged*>(shared);
  each_pair(sums, [&](int r, int c, Sum x, Sum y) {
    Vec<Staged, 2> pair;
    pair.at[0] = to_staged(x);
    pair.at[1] = to_staged(y);
    store_vector(to + r * PITCH + c, pair);
  });
}
