// SPDX-License-Identifier: Apache-2.0
// The functions of src/backends/cuda/support/mma.cuh for a CPU: rows of 32 bytes, whatever they hold.
#pragma once

#if MATRIX == 1
using Factor = u16;
#elif MATRIX == 2
using Factor = u16;
#elif MATRIX == 3
using Factor = i8;
#elif MATRIX == 4 || MATRIX == 6
using Factor = u8;
#else
using Factor = u32;
#endif
DEVICE Sum factor(Factor x) {
#if MATRIX == 1
  return float_of_f16(x);
#elif MATRIX == 2
  return __uint_as_float(u32(x) << 16);
#elif MATRIX == 5
  return __uint_as_float(x & 0xffffe000);
#elif MATRIX == 6
  return float_of_f8e4m3fn(x);
#else
  return x;
#endif
}
#if MATRIX == 4
using FactorOfB = i8;
DEVICE Sum factor(FactorOfB x) { return x; }
#else
using FactorOfB = Factor;
#endif
// 32 bytes of a row as they are multiplied: each is converted once, not once for each product.
struct Factors {
  Sum at[32 / sizeof(Factor)];
};
template <class Element>
DEVICE Factors factors_of(const void* row) {
  Element elements[32 / sizeof(Factor)];
  memcpy(elements, row, sizeof elements);
  Factors out;
  for (u32 i = 0; i < 32 / sizeof(Factor); ++i) out.at[i] = factor(elements[i]);
  return out;
}
DEVICE Sum product_of(const Factors& a, const Factors& b, Sum sum) {
  for (u32 i = 0; i < 32 / sizeof(Factor); ++i) sum = sum + a.at[i] * b.at[i];
  return sum;
}

#if __CUDA_ARCH__ >= 800
DEVICE void multiply(Sum (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  struct Mine {
    Sum* c;
    const u32* a;
    u32 b[2];
  } mine{c, a, {b0, b1}};
  temper_machine->together(32, &mine, [](void** all) {
    u32 a[16][8], b[8][8];
    for (int lane = 0; lane < 32; ++lane) {
      const Mine& from = *static_cast<Mine*>(all[lane]);
      const int g = lane / 4, t = lane % 4;
      a[g][t] = from.a[0];
      a[g + 8][t] = from.a[1];
      a[g][t + 4] = from.a[2];
      a[g + 8][t + 4] = from.a[3];
      b[g][t] = from.b[0];
      b[g][t + 4] = from.b[1];
    }
    Factors rows[16], columns[8];
    for (int r = 0; r < 16; ++r) rows[r] = factors_of<Factor>(a[r]);
    for (int c = 0; c < 8; ++c) columns[c] = factors_of<FactorOfB>(b[c]);
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 4; ++i) {
        Sum& c = static_cast<Mine*>(all[lane])->c[i];
        c = product_of(rows[lane / 4 + i / 2 * 8], columns[lane % 4 * 2 + i % 2], c);
      }
  });
}
#if MATRIX <= 2
DEVICE void multiply_shallow(Sum (&c)[4], u32 a0, u32 a1, u32 b) { multiply(c, {a0, a1, 0, 0}, b, 0); }
#endif
#else
DEVICE Sum product_of(u32 const (&a)[4], u32 const (&b)[4], Sum sum) {
  for (u32 i = 0; i < sizeof a / sizeof(Factor); ++i)
    sum = sum + factor(reinterpret_cast<const Factor*>(a)[i]) * factor(reinterpret_cast<const FactorOfB*>(b)[i]);
  return sum;
}
// A warp's product of ROWS by 8, 16 bytes deep: each lane has a word of each eight rows and of the columns, and two
// sums of each eight rows.
template <int ROWS>
DEVICE void multiply_warp(Sum* const (&c)[ROWS / 8 * 2], const u32 (&a)[ROWS / 8], u32 b) {
  struct Mine {
    Sum* const* c;
    const u32* a;
    u32 b;
  } mine{c, a, b};
  temper_machine->together(32, &mine, [](void** all) {
    u32 a[ROWS][4], b[8][4];
    for (int lane = 0; lane < 32; ++lane) {
      const Mine& from = *static_cast<Mine*>(all[lane]);
      for (int eight = 0; eight < ROWS / 8; ++eight) a[eight * 8 + lane / 4][lane % 4] = from.a[eight];
      b[lane / 4][lane % 4] = from.b;
    }
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < ROWS / 8 * 2; ++i) {
        Sum& c = *static_cast<Mine*>(all[lane])->c[i];
        c = product_of(a[lane / 4 + i / 2 * 8], b[lane % 4 * 2 + i % 2], c);
      }
  });
}
#if MATRIX == 1
DEVICE void multiply_shallow(Sum (&c)[4], u32 a0, u32 a1, u32 b) {
  multiply_warp<16>({&c[0], &c[1], &c[2], &c[3]}, {a0, a1}, b);
}
#else
DEVICE void multiply_shallow(Sum& c0, Sum& c1, u32 a, u32 b) { multiply_warp<8>({&c0, &c1}, {a}, b); }
#endif
#include "backends/cuda/support/turing_mma.cuh"
#endif

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
DEVICE void begin_products() {}
DEVICE void commit_products() { temper_machine->close_products(); }
template <int N>
DEVICE void wait_for_products() {
  temper_machine->wait_for_products(N);
}

// 32 bytes of a row of a matrix in shared memory: rows of 32, 64 or 128 bytes swizzled by as much, or core matrices of
// eight rows of 16 bytes (PTX ISA, "Matrix descriptor format": address, offset from one core matrix of a row to the
// next, stride of eight rows, swizzling).
DEVICE void row_of_matrix(u8 (&to)[32], u64 descriptor, u32 row, const u8* shared) {
  const u32 start = u32(descriptor & 0x3fff) << 4, stride = u32(descriptor >> 32 & 0x3fff) << 4,
            mode = u32(descriptor >> 62);  // 0: none, 1: 128 bytes, 2: 64, 3: 32
  if (mode == 0) {
    const u32 at = start + row / 8 * stride + row % 8 * 16;
    memcpy(to, shared + at, 16);
    memcpy(to + 16, shared + at + (u32(descriptor >> 16 & 0x3fff) << 4), 16);
    return;
  }
  const u32 pitch = 256 >> mode, mask = mode == 1 ? 7 : mode == 2 ? 3 : 1;
  for (u32 chunk = 0; chunk < 2; ++chunk) {
    const u32 at = start + row / 8 * stride + row % 8 * pitch + chunk * 16;
    memcpy(to + chunk * 16, shared + (at ^ (at >> 7 & mask) << 4), 16);
  }
}
template <int COUNT>
DEVICE void add_products(void* const* sums, const u8 (&rows)[64][32], const u8 (&columns)[COUNT * 2][32], u32 add) {
  Factors factors[64], of_columns[COUNT * 2];
  for (int r = 0; r < 64; ++r) factors[r] = factors_of<Factor>(rows[r]);
  for (int c = 0; c < COUNT * 2; ++c) of_columns[c] = factors_of<FactorOfB>(columns[c]);
  for (int t = 0; t < 128; ++t)
    for (int i = 0; i < COUNT; ++i) {
      const int r = t / 32 * 16 + i / 2 % 2 * 8 + t % 32 / 4, c = i / 4 * 8 + t % 4 * 2 + i % 2;
      Sum& sum = static_cast<Sum*>(sums[t])[i];
      sum = product_of(factors[r], of_columns[c], add ? sum : Sum(0));
    }
}
template <int COUNT>
DEVICE void multiply_group(Sum (&d)[COUNT], u64 a, u64 b, u32 add = 1) {
  temper_machine->product(
      [](void* const* sums, const void* const*, u64 a, u64 b, u32 add, const u8* shared) {
        u8 rows[64][32], columns[COUNT * 2][32];
        for (int r = 0; r < 64; ++r) row_of_matrix(rows[r], a, r, shared);
        for (int c = 0; c < COUNT * 2; ++c) row_of_matrix(columns[c], b, c, shared);
        add_products<COUNT>(sums, rows, columns, add);
      },
      d, nullptr, a, b, add);
}
// Column `column` of a matrix that lies by rows of columns, in pieces of 64 columns of 16 bits.
DEVICE void column_of_matrix(u8 (&to)[32], u64 descriptor, u32 column, const u8* shared) {
  const u32 start = u32(descriptor & 0x3fff) << 4, piece = u32(descriptor >> 16 & 0x3fff) << 4,
            stride = u32(descriptor >> 32 & 0x3fff) << 4;
  if (descriptor >> 62 != 1) __builtin_trap();
  for (u32 row = 0; row < 16; ++row) {
    const u32 at = start + column / 64 * piece + row / 8 * stride + row % 8 * 128 + column % 64 * 2;
    memcpy(to + row * 2, shared + (at ^ (at >> 7 & 7) << 4), 2);
  }
}
// Rows of a in registers: row and row + 8 of the left half, then of the right one.
DEVICE void rows_of_lanes(u8 (&rows)[64][32], const void* const* from) {
  for (int t = 0; t < 128; ++t)
    for (int i = 0; i < 4; ++i)
      memcpy(rows[t / 32 * 16 + i % 2 * 8 + t % 32 / 4] + i / 2 * 16 + t % 4 * 4, static_cast<const u32*>(from[t]) + i,
             4);
}
template <int COUNT>
DEVICE void multiply_group(Sum (&d)[COUNT], const u32 (&a)[4], u64 b, u32 add) {
  temper_machine->product(
      [](void* const* sums, const void* const* from, u64, u64 b, u32 add, const u8* shared) {
        u8 rows[64][32], columns[COUNT * 2][32];
        rows_of_lanes(rows, from);
        for (int c = 0; c < COUNT * 2; ++c) row_of_matrix(columns[c], b, c, shared);
        add_products<COUNT>(sums, rows, columns, add);
      },
      d, a, 0, b, add);
}
template <int COUNT>
DEVICE void multiply_group_by_rows(Sum (&d)[COUNT], u64 a, u64 b, u32 add = 1) {
  temper_machine->product(
      [](void* const* sums, const void* const*, u64 a, u64 b, u32 add, const u8* shared) {
        u8 rows[64][32], columns[COUNT * 2][32];
        for (int r = 0; r < 64; ++r) row_of_matrix(rows[r], a, r, shared);
        for (int c = 0; c < COUNT * 2; ++c) column_of_matrix(columns[c], b, c, shared);
        add_products<COUNT>(sums, rows, columns, add);
      },
      d, nullptr, a, b, add);
}
template <int COUNT>
DEVICE void multiply_group_by_rows(Sum (&d)[COUNT], const u32 (&a)[4], u64 b, u32 add) {
  temper_machine->product(
      [](void* const* sums, const void* const* from, u64, u64 b, u32 add, const u8* shared) {
        u8 rows[64][32], columns[COUNT * 2][32];
        rows_of_lanes(rows, from);
        for (int c = 0; c < COUNT * 2; ++c) column_of_matrix(columns[c], b, c, shared);
        add_products<COUNT>(sums, rows, columns, add);
      },
      d, a, 0, b, add);
}
#endif
