// SPDX-License-Identifier: Apache-2.0
// What CUDA C++ has no word for, in PTX: this file and mma.cuh hold all of it. Tests replace both by the same functions
// for a CPU (tests/backends/cuda/emulator), so that every kernel runs where there is no GPU.
#pragma once

DEVICE u16 f16_bits(float x) {
  u16 r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
}
DEVICE float float_of_f16(u16 bits) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(bits));
  return r;
}

#if __CUDA_ARCH__ >= 890
DEVICE u32 codes_of_f8e4m3fn(float low, float high) {
  u16 r;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %2, %1;" : "=h"(r) : "f"(low), "f"(high));
  return r;
}
DEVICE float float_of_f8e4m3fn(u8 code) {
  u32 r;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(u16(code)));
  return float_of_f16(u16(r));
}
#endif

// Rounds to the nearest, half to even, and saturates; NaN is 0.
DEVICE i32 rounded_to_i8(float x) {
  i32 r;
  asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}
DEVICE i32 rounded_to_u8(float x) {
  i32 r;
  asm("cvt.rni.sat.u8.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}

// The same to 32 bits.
DEVICE i32 rounded_to_i32(float x) {
  i32 r;
  asm("cvt.rni.s32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}
// Four numbers as four bytes, a in the lowest; beyond what a byte holds they saturate.
DEVICE u32 saturated_i8x4(i32 a, i32 b, i32 c, i32 d) {
  u32 r;
  asm("{.reg .b32 t; cvt.pack.sat.s8.s32.b32 t, %4, %3, 0; cvt.pack.sat.s8.s32.b32 %0, %2, %1, t;}"
      : "=r"(r)
      : "r"(a), "r"(b), "r"(c), "r"(d));
  return r;
}
DEVICE u32 saturated_u8x4(i32 a, i32 b, i32 c, i32 d) {
  u32 r;
  asm("{.reg .b32 t; cvt.pack.sat.u8.s32.b32 t, %4, %3, 0; cvt.pack.sat.u8.s32.b32 %0, %2, %1, t;}"
      : "=r"(r)
      : "r"(a), "r"(b), "r"(c), "r"(d));
  return r;
}

// 2^x, at most 2^-22 of it off; results below 2^-126 are zero in the second.
DEVICE float exp2_fast(float x) {
  float r;
  asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
DEVICE float exp2_flushed(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
// 1 / x, at most 1 ulp off; below 2^-126, x and the result are zero.
DEVICE float reciprocal_fast(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
// 1 / sqrt(x), at most 2^-22 of it off.
DEVICE float reciprocal_root_fast(float x) {
  float r;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
// At most 2^-11 of the result off.
DEVICE float tanh_fast(float x) {
  float r;
  asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// x, which the compiler takes for another number than before, and does not move across other calls of renewed().
DEVICE u32 renewed(u32 x) {
  asm volatile("" : "+r"(x));
  return x;
}
// x, which is the same for all threads of the warp: the compiler may keep what follows from it once for all of them.
DEVICE u32 same_for_warp(u32 x) { return __shfl_sync(0xffffffffu, x, 0); }
// x in a register of its own: ptxas makes a constant anew for each use, with an instruction each. What is added are
// bits of the SM's number that are always zero, which it does not know.
DEVICE u32 kept(u32 x) {
  u32 r;
  asm volatile("{.reg .b32 t; mov.u32 t, %%smid; shr.u32 t, t, 24; or.b32 %0, t, %1;}" : "=r"(r) : "r"(x));
  return r;
}
DEVICE void renew(float& x) { asm volatile("" : "+f"(x)::"memory"); }
DEVICE void renew(i32& x) { asm volatile("" : "+r"(x)::"memory"); }

// Programmatic dependent launch (PDL): the next kernel of the stream may start; what previous kernels wrote is visible.
DEVICE void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
DEVICE void wait_for_previous_kernel() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// 16 bytes of global memory, asked for where this stands: the compiler puts loads off until behind what may end the
// kernel.
template <class T>
DEVICE T load_here(const T* from) {
  static_assert(sizeof(T) == 16, "a load of 16 bytes");
  T out;
  u32* const to = reinterpret_cast<u32*>(&out);
  asm volatile("{.reg .b64 there; cvta.to.global.u64 there, %4; ld.global.v4.u32 {%0, %1, %2, %3}, [there];}"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "l"(from)
               : "memory");
  return out;
}

// The block's dynamic shared memory.
DEVICE u8* dynamic_shared() {
  extern __shared__ __align__(1024) u8 shared[];
  return shared;
}
// Addresses in shared memory as instructions want them.
DEVICE u32 shared_address(const void* in_shared) { return u32(__cvta_generic_to_shared(in_shared)); }

DEVICE void store_chunk(u32 to, u32 x, u32 y, u32 z, u32 w) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
// 16 bytes to device memory at once. Of a store of several words the compiler makes several where much is computed
// between them.
DEVICE void store_words(void* to, u32 x, u32 y, u32 z, u32 w) {
  asm volatile("{.reg .b64 there; cvta.to.global.u64 there, %0; st.global.v4.u32 [there], {%1, %2, %3, %4};}" ::"l"(to),
               "r"(x), "r"(y), "r"(z), "r"(w)
               : "memory");
}
// Four matrices of eight rows by 16 bytes; lane l gives the address of row l % 8 of matrix l / 8.
DEVICE void load_matrices(u32* to, u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}
// The first two of them, at the addresses that lanes 0 to 15 give.
DEVICE void load_two_matrices(u32* to, u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(from)
               : "memory");
}
// The same as load_matrices, of elements of 16 bits with rows and columns exchanged: a lane gets two of a column, where
// load_matrices gives it two of a row.
DEVICE void load_matrices_transposed(u32* to, u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}
// What GPUs have from compute capability 8.0 on; turing.cuh has the same for 7.5.
#if __CUDA_ARCH__ < 800
#include "backends/cuda/support/turing.cuh"
#else
DEVICE u16 bf16_bits(float x) {
  u16 r;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
}
// Two results in a word, `low` in the lower half.
DEVICE u32 f16x2_bits(float low, float high) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
DEVICE u32 bf16x2_bits(float low, float high) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
// The bits of f32, rounded to the 19 of TF32: to the nearest, half away from zero.
DEVICE u32 rounded_to_tf32(u32 bits) {
  u32 r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(__uint_as_float(bits)));
  return r;
}

// The larger one of each pair, and NaN where one is NaN.
DEVICE u32 max_nan_f16x2(u32 a, u32 b) {
  asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  return a;
}
DEVICE u32 max_nan_bf16x2(u32 a, u32 b) {
  asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  return a;
}
DEVICE float max_nan(float a, float b) {
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
  return a;
}
DEVICE float min_nan(float a, float b) {
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
  return a;
}

// 16 bytes to shared memory, when they come; zeros if not `valid`.
DEVICE void copy_chunk(u32 to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0)
               : "memory");
}
DEVICE void close_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
DEVICE void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
#endif

// Makes what this thread wrote to shared memory visible to wgmma and to TMA (the async proxy).
DEVICE void publish_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// So many threads, which are whole warps, meet; all have the same `number`, at most 14, and no others have it.
DEVICE void meet_warps(u32 number, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number + 1), "r"(threads) : "memory");
}

// The same place in the shared memory of block `rank` of the cluster.
template <class T>
DEVICE T* in_block(T* shared, u32 rank) {
  u64 there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(shared), "r"(rank));
  return reinterpret_cast<T*>(there);
}
DEVICE void meet_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Barriers (mbarrier) of 8 bytes in shared memory. A phase ends when as many threads have arrived as the barrier was
// made for, and the bytes that they said to expect have come. `parity` of a phase: 0 for the first, then alternating.
DEVICE void barrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes initialised barriers visible to TMA; a barrier of the threads follows.
DEVICE void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEVICE void arrive(u32 barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory"); }
// At the same barrier of block `rank` of the cluster. It says that the matrix units or TMA have read something, which
// they have been waited for: of what threads write, the other block may see nothing by it. A release for the cluster
// would be a fence of all memory (MEMBAR.ALL.GPU): a ring of stages took twice as long with one in each.
DEVICE void arrive_in_block(u32 barrier, u32 rank) {
  asm volatile(
      "{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [there];}" ::
          "r"(barrier),
      "r"(rank)
      : "memory");
}
// To that place of block `rank` of the cluster, whose same barrier counts the 4 bytes when they are there.
DEVICE void send_to_block(u32 to, float value, u32 barrier, u32 rank) {
  asm volatile(
      "{.reg .b32 there, its_barrier; mapa.shared::cluster.u32 there, %0, %3; mapa.shared::cluster.u32 its_barrier, "
      "%2, %3; st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [there], %1, [its_barrier];}" ::"r"(to),
      "r"(__float_as_uint(value)), "r"(barrier), "r"(rank)
      : "memory");
}
DEVICE void arrive_expecting(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Until the phase of this parity has ended.
DEVICE void wait_for_phase(u32 barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred ended;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n@ended bra over;\n"
      "bra again;\nover:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// CUtensorMap: how a tensor lies in memory, and in which boxes TMA copies it.
struct alignas(64) TensorMap {
  u64 opaque[16];
};
DEVICE void prefetch_map(const TensorMap& map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }
// TMA loads a box of a matrix, `x` along its rows, to shared memory; the bytes count for the barrier.
DEVICE void load_tile(u32 to, const TensorMap& map, i32 x, i32 y, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}
// Where the instruction does not say that a place is in this block, code for GPUs after Hopper asks whether it is; for
// Hopper there is no such word.
#if __CUDA_ARCH__ >= 1000
#define OWN_SHARED "shared::cta"
#else
#define OWN_SHARED "shared::cluster"
#endif
// The same as load_tile of four axes, innermost first.
DEVICE void load_box(u32 to, const TensorMap& map, i32 x, i32 y, i32 z, i32 w, u32 barrier) {
  asm volatile("cp.async.bulk.tensor.4d." OWN_SHARED
               ".global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
               "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier)
               : "memory");
}
// The same as load_tile, to that place of the first `blocks` blocks of the cluster; the bytes count for the barrier
// there, too.
DEVICE void load_tile_for_blocks(u32 to, const TensorMap& map, i32 x, i32 y, u32 barrier, u32 blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"(u16((1u << blocks) - 1))
      : "memory");
}
// The same as load_tile, but only to L2.
DEVICE void prefetch_tile(const TensorMap& map, i32 x, i32 y) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(&map), "r"(x), "r"(y)
               : "memory");
}
// TMA stores a box of shared memory to a matrix, except beyond its ends. publish_shared() came before, in every thread
// that wrote to the box.
DEVICE void store_tile(const TensorMap& map, i32 x, i32 y, u32 from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(x),
               "r"(y), "r"(from)
               : "memory");
}
DEVICE void store_box(const TensorMap& map, i32 x, i32 y, i32 z, i32 w, u32 from) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(&map),
               "r"(x), "r"(y), "r"(z), "r"(w), "r"(from)
               : "memory");
}
// Brings the line of an address to L2.
DEVICE void prefetch_line(const void* from) {
  asm volatile("{.reg .b64 there; cvta.to.global.u64 there, %0; prefetch.global.L2 [there];}" ::"l"(from));
}
// Brings bytes to L2: a multiple of 16 from an address that is one.
DEVICE void prefetch_bytes(const void* from, u32 bytes) {
  asm volatile(
      "{.reg .b64 there; cvta.to.global.u64 there, %0; cp.async.bulk.prefetch.L2.global [there], %1;}" ::"l"(from),
      "r"(bytes)
      : "memory");
}
DEVICE void close_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until TMA has read the boxes of this thread's stores, so that they may be overwritten.
DEVICE void wait_for_stores() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
// Waits until they are in memory: what this block stores later overwrites them.
DEVICE void finish_stores() { asm volatile("cp.async.bulk.wait_group 0;\nfence.proxy.async;" ::: "memory"); }
// TMA loads pixels of images (im2col mode), from the base position (w, h) of image n on, each read `by_w` and `by_h`
// further; see TensorMapSpec.
DEVICE void load_pixels(u32 to, const TensorMap& map, i32 channel, i32 w, i32 h, i32 n, u16 by_w, u16 by_h,
                        u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
      "%5}], [%6], {%7, %8};" ::"r"(to),
      "l"(&map), "r"(channel), "r"(w), "r"(h), "r"(n), "r"(barrier), "h"(by_w), "h"(by_h)
      : "memory");
}

// Sets the number of registers of each thread of the warpgroup from here on; all of its warps must call it.
template <int N>
DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N>
DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
