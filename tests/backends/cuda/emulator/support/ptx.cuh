// SPDX-License-Identifier: Apache-2.0
// The functions of src/backends/cuda/support/ptx.cuh for a CPU.
#pragma once

DEVICE u16 f16_bits(float x) { return bits_as<u16>(_Float16(x)); }
DEVICE float float_of_f16(u16 bits) { return float(bits_as<_Float16>(bits)); }

#if __CUDA_ARCH__ >= 890
// Both by what the codes count: from 2^exponent on, eighths of it.
DEVICE float float_of_f8e4m3fn(u8 code) {
  const int exponent = (code >> 3 & 15) - 7, eighths = code & 7;
  const float x = (code & 127) == 127 ? NAN
                  : exponent == -7    ? ldexpf(float(eighths), -9)
                                      : ldexpf(8.f + float(eighths), exponent - 3);
  return code & 128 ? -x : x;
}
DEVICE u32 code_of_f8e4m3fn(float x) {
  if (x != x) return 127;
  u32 best = 0;
  for (u32 code = 0; code < 127; ++code) {
    const double off = fabs(double(fabsf(x)) - double(float_of_f8e4m3fn(u8(code)))),
                 least = fabs(double(fabsf(x)) - double(float_of_f8e4m3fn(u8(best))));
    if (off < least || (off == least && code % 2 == 0)) best = code;
  }
  return best | (__float_as_uint(x) >> 31 << 7);
}
DEVICE u32 codes_of_f8e4m3fn(float low, float high) { return code_of_f8e4m3fn(low) | code_of_f8e4m3fn(high) << 8; }
#endif

DEVICE i32 rounded_to_i8(float x) { return x != x ? 0 : int(fminf(fmaxf(rintf(x), -128), 127)); }
DEVICE i32 rounded_to_u8(float x) { return x != x ? 0 : int(fminf(fmaxf(rintf(x), 0), 255)); }

DEVICE u32 kept(u32 x) { return x; }
DEVICE i32 rounded_to_i32(float x) {
  const float r = rintf(x);
  return x != x ? 0 : r >= 0x1p31f ? 0x7fffffff : r < -0x1p31f ? -0x7fffffff - 1 : i32(r);
}
DEVICE u32 saturated_x4(i32 low, i32 high, const i32 (&x)[4]) {
  u32 r = 0;
  for (int i = 0; i < 4; ++i) r |= u32((x[i] < low ? low : x[i] > high ? high : x[i]) & 255) << (8 * i);
  return r;
}
DEVICE u32 saturated_i8x4(i32 a, i32 b, i32 c, i32 d) { return saturated_x4(-128, 127, {a, b, c, d}); }
DEVICE u32 saturated_u8x4(i32 a, i32 b, i32 c, i32 d) { return saturated_x4(0, 255, {a, b, c, d}); }

// As far off as the instruction may be, one way or the other by the bits of its argument.
DEVICE float off_by(double exact, double part, float argument) {
  const bool up = (__float_as_uint(argument) * 0x9e3779b1u) >> 31;
  return float(exact * (up ? 1 + part : 1 - part));
}
DEVICE float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }
DEVICE float exp2_fast(float x) { return off_by(exp2(double(x)), 0x1p-22, x); }
DEVICE float exp2_flushed(float x) { return flushed(exp2_fast(flushed(x))); }
DEVICE float reciprocal_fast(float x) { return flushed(off_by(1 / double(flushed(x)), 0x1p-23, x)); }
DEVICE float reciprocal_root_fast(float x) { return off_by(1 / sqrt(double(x)), 0x1p-22, x); }
DEVICE float tanh_fast(float x) {
  return x != x || fabsf(x) < 0x1p-126f ? x : fmaxf(-1, fminf(off_by(tanh(double(x)), 0x1p-11, x), 1));
}
DEVICE u32 renewed(u32 x) { return x; }
DEVICE void renew(float&) {}
DEVICE void renew(i32&) {}

template <class T>
DEVICE T load_here(const T* from) {
  return *from;
}

DEVICE void launch_dependents() {}
DEVICE void wait_for_previous_kernel() {}

DEVICE u8* dynamic_shared() { return temper_machine->shared; }
DEVICE u32 shared_address(const void* in_shared) {
  return u32(static_cast<const u8*>(in_shared) - temper_machine->shared);
}

DEVICE void store_chunk(u32 to, u32 x, u32 y, u32 z, u32 w) {
  const u32 words[] = {x, y, z, w};
  memcpy(temper_machine->shared + to, words, 16);
}
DEVICE void store_words(void* to, u32 x, u32 y, u32 z, u32 w) {
  const u32 words[] = {x, y, z, w};
  memcpy(to, words, 16);
}
#if __CUDA_ARCH__ < 800
#include "backends/cuda/support/turing.cuh"
#else
DEVICE u16 bf16_bits(float x) {
  const u32 bits = __float_as_uint(x);
  return x != x ? u16(0x7fff) : u16((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
DEVICE u32 f16x2_bits(float low, float high) { return f16_bits(low) | u32(f16_bits(high)) << 16; }
DEVICE u32 bf16x2_bits(float low, float high) { return bf16_bits(low) | u32(bf16_bits(high)) << 16; }
DEVICE u32 rounded_to_tf32(u32 bits) { return (bits & 0x7f800000) == 0x7f800000 ? bits : (bits + 0x1000) & 0xffffe000; }

DEVICE float max_nan(float a, float b) { return a != a || b != b ? __int_as_float(0x7fffffff) : a > b ? a : b; }
DEVICE float min_nan(float a, float b) { return a != a || b != b ? __int_as_float(0x7fffffff) : a < b ? a : b; }

DEVICE u32 max_nan_f16x2(u32 a, u32 b) {
  u32 r = 0;
  for (int i = 0; i < 32; i += 16)
    r |= u32(f16_bits(max_nan(float_of_f16(u16(a >> i)), float_of_f16(u16(b >> i))))) << i;
  return r;
}
DEVICE u32 max_nan_bf16x2(u32 a, u32 b) {
  u32 r = 0;
  for (int i = 0; i < 32; i += 16)
    r |= u32(bf16_bits(max_nan(__uint_as_float(a >> i << 16), __uint_as_float(b >> i << 16)))) << i;
  return r;
}

DEVICE void copy_chunk(u32 to, const void* from, bool valid) {
  temper_machine->copy(temper_machine->shared + to, from, 16, valid ? 16 : 0);
}
DEVICE void close_group() { temper_machine->close_copies(); }
template <int N>
DEVICE void wait_for_groups() {
  temper_machine->wait_for_copies(N);
}
#endif

// A lane gets four bytes of each matrix, in elements of BYTES: element i of lane l lies in row row(l, i), from byte
// column(l, i) on.
template <int BYTES, class Row, class Column>
DEVICE void gather_matrices(u32* to, u32 from, Row row, Column column) {
  struct Mine {
    u32* to;
    const u8* from;
    Row row;
    Column column;
  } mine{to, temper_machine->shared + from, row, column};
  temper_machine->together(32, &mine, [](void** all) {
    for (int lane = 0; lane < 32; ++lane)
      for (int matrix = 0; matrix < 4; ++matrix)
        for (int i = 0; i < 4 / BYTES; ++i) {
          const Mine& its = *static_cast<Mine*>(all[lane]);
          memcpy(reinterpret_cast<u8*>(its.to + matrix) + i * BYTES,
                 static_cast<Mine*>(all[matrix * 8 + its.row(lane, i)])->from + its.column(lane, i), BYTES);
        }
  });
}
DEVICE void load_matrices(u32* to, u32 from) {
  gather_matrices<4>(to, from, [](int lane, int) { return lane / 4; }, [](int lane, int) { return lane % 4 * 4; });
}
DEVICE void load_two_matrices(u32* to, u32 from) {
  u32 four[4];
  load_matrices(four, from);
  to[0] = four[0], to[1] = four[1];
}
DEVICE void load_matrices_transposed(u32* to, u32 from) {
  gather_matrices<2>(
      to, from, [](int lane, int i) { return lane % 4 * 2 + i; }, [](int lane, int) { return lane / 4 * 2; });
}
DEVICE u32 same_for_warp(u32 x) { return x; }
DEVICE void publish_shared() {}
DEVICE void meet_warps(u32 number, u32 threads) { temper_machine->meet_warps(number, threads); }

template <class T>
DEVICE T* in_block(T* shared, u32 rank) {
  const u8* at = reinterpret_cast<const u8*>(shared);
  return reinterpret_cast<T*>(const_cast<u8*>(temper_machine->shared_of(rank) + (at - temper_machine->shared)));
}
DEVICE void meet_cluster() { temper_machine->meet_cluster(); }

DEVICE void barrier_init(u32 barrier, u32 arrivals) { temper_machine->barrier_init(barrier, arrivals); }
DEVICE void publish_barriers() {}
DEVICE void arrive(u32 barrier) { temper_machine->barrier_arrive_at(barrier, 0, nullptr); }
DEVICE void arrive_in_block(u32 barrier, u32 rank) { temper_machine->barrier_arrive_at(barrier, 0, &rank); }
DEVICE void send_to_block(u32 to, float value, u32 barrier, u32 rank) {
  temper_machine->send_to_block(to, __float_as_uint(value), barrier, rank);
}
DEVICE void arrive_expecting(u32 barrier, u32 bytes) { temper_machine->barrier_arrive_at(barrier, bytes, nullptr); }
DEVICE void wait_for_phase(u32 barrier, u32 parity) { temper_machine->barrier_wait_at(barrier, parity); }

struct alignas(64) TensorMap {
  u64 opaque[16];
};
DEVICE void prefetch_map(const TensorMap&) {}
DEVICE void prefetch_bytes(const void*, u32) {}
DEVICE void prefetch_line(const void*) {}
DEVICE void load_tile(u32 to, const TensorMap& map, i32 x, i32 y, u32 barrier) {
  const int at[] = {x, y};
  temper_machine->load_tensor(to, &map, at, nullptr, barrier, 0);
}
DEVICE void load_tile_for_blocks(u32 to, const TensorMap& map, i32 x, i32 y, u32 barrier, u32 blocks) {
  const int at[] = {x, y};
  temper_machine->load_tensor(to, &map, at, nullptr, barrier, blocks);
}
DEVICE void load_box(u32 to, const TensorMap& map, i32 x, i32 y, i32 z, i32 w, u32 barrier) {
  const int at[] = {x, y, z, w};
  temper_machine->load_tensor(to, &map, at, nullptr, barrier, 0);
}
DEVICE void prefetch_tile(const TensorMap& map, i32, i32) {
  if (reinterpret_cast<const temper::emulator::TensorMap&>(map).rank != 2) __builtin_trap();
}
DEVICE void store_tile(const TensorMap& map, i32 x, i32 y, u32 from) {
  const int at[] = {x, y};
  temper_machine->store_tensor(from, &map, at);
}
DEVICE void store_box(const TensorMap& map, i32 x, i32 y, i32 z, i32 w, u32 from) {
  const int at[] = {x, y, z, w};
  temper_machine->store_tensor(from, &map, at);
}
DEVICE void close_stores() {}
DEVICE void wait_for_stores() { temper_machine->wait_for_stores(); }
DEVICE void finish_stores() { temper_machine->wait_for_stores(); }
DEVICE void load_pixels(u32 to, const TensorMap& map, i32 channel, i32 w, i32 h, i32 n, u16 by_w, u16 by_h,
                        u32 barrier) {
  const int at[] = {channel, w, h, n};
  const u16 offsets[] = {by_w, by_h};
  temper_machine->load_tensor(to, &map, at, offsets, barrier, 0);
}

template <int N>
DEVICE void give_registers() {}
template <int N>
DEVICE void take_registers() {}
