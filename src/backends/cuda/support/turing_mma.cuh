// SPDX-License-Identifier: Apache-2.0
// The product that later GPUs have an instruction for, of the smaller ones of compute capability 7.5: mma.cuh includes
// it there. Words 0 and 1 of `a` are rows g and g + 8 of its first 16 bytes, words 2 and 3 of its last (PTX ISA,
// "Matrix fragments for mma.m16n8k16", "m16n8k8", "m8n8k16"); f32 and bf16 have none there.
#pragma once

#if MATRIX == 1
DEVICE void multiply(Sum (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  multiply_shallow(c, a[0], a[1], b0);
  multiply_shallow(c, a[2], a[3], b1);
}
#elif MATRIX == 3 || MATRIX == 4
DEVICE void multiply(Sum (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  multiply_shallow(c[0], c[1], a[0], b0);
  multiply_shallow(c[2], c[3], a[1], b0);
  multiply_shallow(c[0], c[1], a[2], b1);
  multiply_shallow(c[2], c[3], a[3], b1);
}
#else
#error "compute capability 7.5 has no matrix units for bf16 and TF32"
#endif
