// SPDX-License-Identifier: Apache-2.0
// Shared by kernels that multiply with wgmma: one K slice, which is SLICE bytes (128, 64 or 32) of each row, of 64-row
// blocks of A and of all columns of B. Both operands lie in shared memory and are swizzled by SLICE bytes.
#pragma once
#include "backends/cuda/support/mma.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// Where a producer or a consumer is in a ring of COUNT stages, and the parity of the phase that it waits for there.
template <u32 COUNT>
struct RingPlace {
  u32 stage = 0, phase = 0;
  DEVICE_MEMBER void advance() {
    if (++stage == COUNT) stage = 0, phase ^= 1;
  }
  DEVICE_MEMBER void advance(u32 by) {
    stage += by;
    while (stage >= COUNT) stage -= COUNT, phase ^= 1;
  }
};

// The shared memory descriptor of a matrix at a multiple of 1024 bytes, or from one of its rows on: its address, the
// stride of eight rows, its swizzle, which goes by bits of the address.
template <int SLICE>
DEVICE u64 descriptor(u32 at) {
  constexpr u64 mode = SLICE == 128 ? 1 : SLICE == 64 ? 2 : 3;
  return u64((at & 0x3ffff) >> 4) | u64(1) << 16 | u64(8 * SLICE >> 4) << 32 | mode << 62;
}

// The same without swizzling, of core matrices: eight rows of 16 bytes, one behind the other. The next 16 bytes of a
// row are `along_k` bytes further, the next eight rows `along_rows`.
DEVICE u64 descriptor_of_cores(u32 at, u32 along_k, u32 along_rows) {
  return u64((at & 0x3ffff) >> 4) | u64(along_k >> 4) << 16 | u64(along_rows >> 4) << 32;
}

// The same of a matrix that is read by rows of columns, in pieces of 64 columns of 16 bits: each piece has all rows, of
// 128 bytes. Eight rows are 1024 bytes; from one piece to the next are `piece` bytes (PTX ISA, "Strides": the leading
// dimension byte offset of an N-major operand).
DEVICE u64 descriptor_of_rows(u32 at, u32 piece) {
  return u64((at & 0x3ffff) >> 4) | u64(piece >> 4) << 16 | u64(1024 >> 4) << 32 | u64(1) << 62;
}

// Issues sums += a * b (sums = a * b unless `add`) of a slice that lies at those descriptors, within a wgmma group.
template <int SLICE, int BLOCKS, int COUNT>
DEVICE void issue_slice(Sum (&sums)[BLOCKS][COUNT], u64 a, u64 b, u32 add) {
#pragma unroll
  for (int step = 0; step < SLICE / 32; ++step)
#pragma unroll
    for (int m = 0; m < BLOCKS; ++m)
      multiply_group(sums[m], a + (m * 64 * SLICE + step * 32) / 16, b + step * 32 / 16, step ? 1 : add);
}
// The same as a group of its own, of a slice that lies at those addresses.
template <int SLICE, int BLOCKS, int COUNT>
DEVICE void multiply_slice(Sum (&sums)[BLOCKS][COUNT], u32 at_a, u32 at_b, u32 add = 1) {
  begin_products();
  issue_slice<SLICE>(sums, descriptor<SLICE>(at_a), descriptor<SLICE>(at_b), add);
  commit_products();
}

#if MATRIX <= 2
// The same with columns of b by rows: 64 rows in pieces of 64 columns, one behind the other.
template <int BLOCKS, int COUNT>
DEVICE void multiply_slice_by_rows(Sum (&sums)[BLOCKS][COUNT], u32 at_a, u32 at_b, u32 add = 1) {
  constexpr int SLICE = 128, DEPTH_OF_STEP = 16;
  const u64 a = descriptor<SLICE>(at_a), b = descriptor_of_rows(at_b, 64 * SLICE);
  begin_products();
#pragma unroll
  for (int step = 0; step < SLICE / 32; ++step)
#pragma unroll
    for (int m = 0; m < BLOCKS; ++m)
      multiply_group_by_rows(sums[m], a + (m * 64 * SLICE + step * 32) / 16, b + step * DEPTH_OF_STEP * SLICE / 16,
                             step ? 1 : add);
  commit_products();
}
#endif

// Products are in flight without the knowledge of the compiler: it must not read or move sums across this.
template <int COUNT>
DEVICE void renew(Sum (&sums)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) renew(sums[i]);
}
template <int BLOCKS, int COUNT>
DEVICE void renew(Sum (&sums)[BLOCKS][COUNT]) {
#pragma unroll
  for (int m = 0; m < BLOCKS; ++m) renew(sums[m]);
}
#endif
