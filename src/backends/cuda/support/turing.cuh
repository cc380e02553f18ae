// SPDX-License-Identifier: Apache-2.0
// What GPUs of compute capability 7.5 (Turing) lack and later ones have an instruction for: ptx.cuh includes it there.
// They have no TF32, and no matrix units for bf16. No such GPU has run this yet: tests run it on a CPU and compile it.
#pragma once

// Rounds to the nearest, half to even; every NaN is the one of ptx.cuh.
DEVICE u16 bf16_bits(float x) {
  const u32 bits = __float_as_uint(x);
  return x != x ? u16(0x7fff) : u16((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
DEVICE u32 f16x2_bits(float low, float high) { return f16_bits(low) | u32(f16_bits(high)) << 16; }
DEVICE u32 bf16x2_bits(float low, float high) { return bf16_bits(low) | u32(bf16_bits(high)) << 16; }

DEVICE float max_nan(float a, float b) { return a != a || b != b ? __int_as_float(0x7fffffff) : fmaxf(a, b); }
DEVICE float min_nan(float a, float b) { return a != a || b != b ? __int_as_float(0x7fffffff) : fminf(a, b); }
DEVICE u32 max_nan_f16x2(u32 a, u32 b) {
  return f16x2_bits(max_nan(float_of_f16(u16(a)), float_of_f16(u16(b))),
                    max_nan(float_of_f16(u16(a >> 16)), float_of_f16(u16(b >> 16))));
}
DEVICE u32 max_nan_bf16x2(u32 a, u32 b) {
  return bf16x2_bits(max_nan(__uint_as_float(a << 16), __uint_as_float(b << 16)),
                     max_nan(__uint_as_float(a & 0xffff0000), __uint_as_float(b & 0xffff0000)));
}

// 16 bytes to shared memory through registers: they are there at once, and a group has nothing to wait for.
DEVICE void copy_chunk(u32 to, const void* from, bool valid) {
  struct alignas(16) Four {
    u32 words[4];
  } chunk{};
  if (valid) chunk = *static_cast<const Four*>(from);
  store_chunk(to, chunk.words[0], chunk.words[1], chunk.words[2], chunk.words[3]);
}
DEVICE void close_group() {}
template <int N>
DEVICE void wait_for_groups() {}
