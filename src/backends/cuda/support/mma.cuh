// SPDX-License-Identifier: Apache-2.0
// mma.sync: a warp adds a product of 16 rows by 8 columns to its sums, 32 bytes of depth at a time.
//
// Defined in front: MATRIX (1: f16, 2: bf16, 3: s8 by s8, 4: u8 by s8), Sum (float or i32, as MATRIX has it).
#pragma once

#if MATRIX <= 2
#define SUM "+f"
#else
#define SUM "+r"
#endif
#if MATRIX == 1
#define INSTRUCTION "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#elif MATRIX == 2
#define INSTRUCTION "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#elif MATRIX == 3
#define INSTRUCTION "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
#else
#define INSTRUCTION "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32"
#endif
DEVICE void multiply(Sum (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(INSTRUCTION " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : SUM(c[0]), SUM(c[1]), SUM(c[2]), SUM(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
