// SPDX-License-Identifier: Apache-2.0
// GEMM tiles by multiply-add with one rounding each, for dtypes that the tensor cores do not take as they are. Slices
// of A and B pass through shared memory in words of 4 bytes, K innermost, 16 words a row. There are two buffers, so
// that the next slice is loaded while one is used.
#pragma once

constexpr int WORDS = 16, WORD_PITCH = WORDS + 4;  // of a row in shared memory: no two rows of eight meet in a bank
constexpr int PER_SLICE = WORDS * 4 / sizeof(A);
constexpr int CHUNKS_A = TILE_M * WORDS / 4 / THREADS, CHUNKS_B = TILE_N * WORDS / 4 / THREADS;
static_assert(CHUNKS_A > 0 && CHUNKS_B > 0 && THREADS == 256, "tiles are whole chunks for every thread");
constexpr int LEAST_BLOCKS = MIN_BLOCKS;
constexpr int PER_THREAD_M = TILE_M / 16, PER_THREAD_N = TILE_N / 16;

DEVICE float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
DEVICE double multiply_add(double a, double b, double c) { return __fma_rn(a, b, c); }
template <class I>
DEVICE I multiply_add(I a, I b, I c) {
  return a * b + c;
}

DEVICE void accumulate(Sum (&sums)[PER_THREAD_M][PER_THREAD_N], const u32* tile_a, const u32* tile_b) {
  const u32* mine_a = tile_a + threadIdx.x / 16 * WORD_PITCH;
  const u32* mine_b = tile_b + threadIdx.x % 16 * WORD_PITCH;
#pragma unroll
  for (int word = 0; word < WORDS; word += 4) {
    ChunkOf<B> b[PER_THREAD_N];
#pragma unroll
    for (int n = 0; n < PER_THREAD_N; ++n)
      b[n].chunk = *reinterpret_cast<const Chunk*>(mine_b + n * 16 * WORD_PITCH + word);
#pragma unroll
    for (int m = 0; m < PER_THREAD_M; ++m) {
      ChunkOf<A> a;
      a.chunk = *reinterpret_cast<const Chunk*>(mine_a + m * 16 * WORD_PITCH + word);
#pragma unroll
      for (int n = 0; n < PER_THREAD_N; ++n)
#pragma unroll
        for (int i = 0; i < PER_CHUNK; ++i)
          sums[m][n] = multiply_add(Sum(hold(a.at[i])), Sum(hold(b[n].at[i])), sums[m][n]);
    }
  }
}

// The sums over the slices from `slice` to `end` (one at least), into the front of `shared`.
DEVICE void sum_tile(u8* shared, const A* a, const B* b, const Parameters& p, u32 row, u32 column, u32 slice, u32 end) {
  constexpr int BUFFER = (TILE_M + TILE_N) * WORD_PITCH;
  u32* buffers = reinterpret_cast<u32*>(shared);
  // Thread t loads chunk t % 4 of rows t / 4, t / 4 + 64, ...
  const u32 chunk = threadIdx.x % 4, first = threadIdx.x / 4;
  RowOfA rows[CHUNKS_A];
#pragma unroll
  for (int i = 0; i < CHUNKS_A; ++i) rows[i] = row_of_a(p, row + first + i * (THREADS / 4));
  Chunk next_a[CHUNKS_A], next_b[CHUNKS_B];
  auto fetch = [&](u32 s) {
    const u32 k = s * PER_SLICE + chunk * PER_CHUNK;
#pragma unroll
    for (int i = 0; i < CHUNKS_A; ++i) next_a[i] = load_a(a, p, rows[i], k);
#pragma unroll
    for (int i = 0; i < CHUNKS_B; ++i) next_b[i] = load_b(b, p, column + first + i * (THREADS / 4), k);
  };
  auto place = [&](int buffer) {
    u32* to = buffers + buffer * BUFFER + first * WORD_PITCH + chunk * 4;
#pragma unroll
    for (int i = 0; i < CHUNKS_A; ++i) *reinterpret_cast<Chunk*>(to + i * (THREADS / 4) * WORD_PITCH) = next_a[i];
#pragma unroll
    for (int i = 0; i < CHUNKS_B; ++i)
      *reinterpret_cast<Chunk*>(to + (TILE_M + i * (THREADS / 4)) * WORD_PITCH) = next_b[i];
  };

  Sum sums[PER_THREAD_M][PER_THREAD_N] = {};
  wait_for_inputs();
  fetch(slice);
  place(0);
  __syncthreads();
  int buffer = 0;
  for (; slice < end; ++slice) {
    const bool more = slice + 1 < end;
    if (more) fetch(slice + 1);
    accumulate(sums, buffers + buffer * BUFFER, buffers + buffer * BUFFER + TILE_M * WORD_PITCH);
    if (more) place(buffer ^ 1);
    __syncthreads();
    buffer ^= 1;
  }
  Staged* to = reinterpret_cast<Staged*>(shared);
#pragma unroll
  for (int m = 0; m < PER_THREAD_M; ++m)
#pragma unroll
    for (int n = 0; n < PER_THREAD_N; ++n)
      to[(threadIdx.x / 16 + m * 16) * PITCH + threadIdx.x % 16 + n * 16] = to_staged(sums[m][n]);
}
