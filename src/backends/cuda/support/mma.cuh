// SPDX-License-Identifier: Apache-2.0
// The matrix units. mma.sync: a warp adds a product of 16 rows by 8 columns to its sums, 32 bytes of depth at a time.
// wgmma (sm_90a alone): a warpgroup of 128 threads adds a product of 64 rows by 32 to 256 columns, 32 bytes of depth at
// a time, while it goes on; both come from shared memory, or rows from registers.
//
// Defined before this text: MATRIX (1: f16, 2: bf16, 3: s8 by s8, 4: u8 by s8, 5: f32 as TF32: the units look at the
// first 19 bits alone, so that who wants them rounded rounds before, 6: f8e4m3fn), Sum (float or i32, as MATRIX has
// it).
#pragma once

#if MATRIX == 3 || MATRIX == 4
#define SUM "+r"
#define AND_SUMS ".s32"
#define SIGNS ""
#define SIGNS_OF_ROWS ""
#else
#define SUM "+f"
#define AND_SUMS ".f32"
#if MATRIX >= 5
#define SIGNS ", 1, 1"
#define SIGNS_OF_ROWS SIGNS
#else
#define SIGNS ", 1, 1, 0, 0"
#define SIGNS_OF_ROWS ", 1, 1, 0"
#endif
#endif
#if MATRIX == 1
#define TYPES "f32.f16.f16"
#elif MATRIX == 2
#define TYPES "f32.bf16.bf16"
#elif MATRIX == 3
#define TYPES "s32.s8.s8"
#elif MATRIX == 4
#define TYPES "s32.u8.s8"
#elif MATRIX == 5
#define TYPES "f32.tf32.tf32"
#else
#define TYPES "f32.e4m3.e4m3"
#endif
#if MATRIX <= 2
#define DEPTH "k16"
#elif MATRIX == 5
#define DEPTH "k8"
#else
#define DEPTH "k32"
#endif
#if __CUDA_ARCH__ >= 800
DEVICE void multiply(Sum (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8" DEPTH ".row.col." TYPES AND_SUMS
               " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : SUM(c[0]), SUM(c[1]), SUM(c[2]), SUM(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif
#if MATRIX == 1 || (MATRIX == 2 && __CUDA_ARCH__ >= 800)
// Half as deep: 16 bytes.
DEVICE void multiply_shallow(Sum (&c)[4], u32 a0, u32 a1, u32 b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col." TYPES ".f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : SUM(c[0]), SUM(c[1]), SUM(c[2]), SUM(c[3])
               : "r"(a0), "r"(a1), "r"(b));
}
#elif __CUDA_ARCH__ < 800 && (MATRIX == 3 || MATRIX == 4)
// Half as deep, and eight rows.
DEVICE void multiply_shallow(Sum& c0, Sum& c1, u32 a, u32 b) {
  asm volatile("mma.sync.aligned.m8n8k16.row.col." TYPES ".s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
               : SUM(c0), SUM(c1)
               : "r"(a), "r"(b));
}
#endif
#if __CUDA_ARCH__ < 800
#include "backends/cuda/support/turing_mma.cuh"
#endif

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// Sums are written behind the compiler's back from the products that are begun until they are waited for.
DEVICE void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until at most N committed groups are under way.
template <int N>
DEVICE void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// d += a * b (d = a * b unless `add`); d[n * 4 + half * 2 + i] of thread t is that of row t / 32 * 16 + half * 8 +
// t % 32 / 4 and column n * 8 + t % 4 * 2 + i. a and b are descriptors (PTX ISA, "Matrix descriptor format").
#define NAMES_0 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define NAMES_1 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define NAMES_2 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define NAMES_3 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define NAMES_4 "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define NAMES_5 "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define NAMES_6 "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define NAMES_7 "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define SUMS_4(d, i) SUM(d[i]), SUM(d[i + 1]), SUM(d[i + 2]), SUM(d[i + 3])
#define SUMS_16(d, i) SUMS_4(d, i), SUMS_4(d, i + 4), SUMS_4(d, i + 8), SUMS_4(d, i + 12)
#define PRODUCT(COLUMNS_OF_B, NAMES, A, B, ADD, SIGNS)                                                        \
  "{.reg .pred p; setp.ne.b32 p, " ADD ", 0; wgmma.mma_async.sync.aligned.m64n" #COLUMNS_OF_B DEPTH "." TYPES \
  " {" NAMES "}, " A ", " B ", p" SIGNS ";}"
#define MULTIPLY_GROUP(COLUMNS_OF_B, NAMES, A, B, ADD, ...)                                                \
  DEVICE void multiply_group(Sum(&d)[COLUMNS_OF_B / 2], u64 a, u64 b, u32 add = 1) {                       \
    asm volatile(PRODUCT(COLUMNS_OF_B, NAMES, A, B, ADD, SIGNS) : __VA_ARGS__ : "l"(a), "l"(b), "r"(add)); \
  }
MULTIPLY_GROUP(32, NAMES_0, "%16", "%17", "%18", SUMS_16(d, 0))
MULTIPLY_GROUP(64, NAMES_0 "," NAMES_1, "%32", "%33", "%34", SUMS_16(d, 0), SUMS_16(d, 16))
MULTIPLY_GROUP(96, NAMES_0 "," NAMES_1 "," NAMES_2, "%48", "%49", "%50", SUMS_16(d, 0), SUMS_16(d, 16), SUMS_16(d, 32))
MULTIPLY_GROUP(128, NAMES_0 "," NAMES_1 "," NAMES_2 "," NAMES_3, "%64", "%65", "%66", SUMS_16(d, 0), SUMS_16(d, 16),
               SUMS_16(d, 32), SUMS_16(d, 48))
MULTIPLY_GROUP(160, NAMES_0 "," NAMES_1 "," NAMES_2 "," NAMES_3 "," NAMES_4, "%80", "%81", "%82", SUMS_16(d, 0),
               SUMS_16(d, 16), SUMS_16(d, 32), SUMS_16(d, 48), SUMS_16(d, 64))
MULTIPLY_GROUP(192, NAMES_0 "," NAMES_1 "," NAMES_2 "," NAMES_3 "," NAMES_4 "," NAMES_5, "%96", "%97", "%98",
               SUMS_16(d, 0), SUMS_16(d, 16), SUMS_16(d, 32), SUMS_16(d, 48), SUMS_16(d, 64), SUMS_16(d, 80))
MULTIPLY_GROUP(224, NAMES_0 "," NAMES_1 "," NAMES_2 "," NAMES_3 "," NAMES_4 "," NAMES_5 "," NAMES_6, "%112", "%113",
               "%114", SUMS_16(d, 0), SUMS_16(d, 16), SUMS_16(d, 32), SUMS_16(d, 48), SUMS_16(d, 64), SUMS_16(d, 80),
               SUMS_16(d, 96))
MULTIPLY_GROUP(256, NAMES_0 "," NAMES_1 "," NAMES_2 "," NAMES_3 "," NAMES_4 "," NAMES_5 "," NAMES_6 "," NAMES_7, "%128",
               "%129", "%130", SUMS_16(d, 0), SUMS_16(d, 16), SUMS_16(d, 32), SUMS_16(d, 48), SUMS_16(d, 64),
               SUMS_16(d, 80), SUMS_16(d, 96), SUMS_16(d, 112))

// The same, with the 16 rows of A of each warp in registers, as `multiply` takes them. They stay as they are until
// the product has been waited for.
#define MULTIPLY_ROWS(COLUMNS_OF_B, NAMES, A, B, ADD, ...)                                  \
  DEVICE void multiply_group(Sum(&d)[COLUMNS_OF_B / 2], const u32(&a)[4], u64 b, u32 add) { \
    asm volatile(PRODUCT(COLUMNS_OF_B, NAMES, A, B, ADD, SIGNS_OF_ROWS)                     \
                 : __VA_ARGS__                                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));           \
  }
MULTIPLY_ROWS(8, "%0,%1,%2,%3", "{%4,%5,%6,%7}", "%8", "%9", SUMS_4(d, 0))
MULTIPLY_ROWS(32, NAMES_0, "{%16,%17,%18,%19}", "%20", "%21", SUMS_16(d, 0))
MULTIPLY_ROWS(64, NAMES_0 "," NAMES_1, "{%32,%33,%34,%35}", "%36", "%37", SUMS_16(d, 0), SUMS_16(d, 16))
MULTIPLY_ROWS(128, NAMES_0 "," NAMES_1 "," NAMES_2 "," NAMES_3, "{%64,%65,%66,%67}", "%68", "%69", SUMS_16(d, 0),
              SUMS_16(d, 16), SUMS_16(d, 32), SUMS_16(d, 48))

#if MATRIX <= 2
// The same, where b has rows of columns (in PTX: "N-major"), as a row-major matrix [depth, columns] lies.
#define MULTIPLY_BY_ROWS(COLUMNS_OF_B, NAMES, A, B, ADD, ...)                                       \
  DEVICE void multiply_group_by_rows(Sum(&d)[COLUMNS_OF_B / 2], const u32(&a)[4], u64 b, u32 add) { \
    asm volatile(PRODUCT(COLUMNS_OF_B, NAMES, A, B, ADD, ", 1, 1, 1")                               \
                 : __VA_ARGS__                                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));                   \
  }
// With both operands in shared memory.
#define MULTIPLY_GROUP_BY_ROWS(COLUMNS_OF_B, NAMES, A, B, ADD, ...)                                                 \
  DEVICE void multiply_group_by_rows(Sum(&d)[COLUMNS_OF_B / 2], u64 a, u64 b, u32 add = 1) {                        \
    asm volatile(PRODUCT(COLUMNS_OF_B, NAMES, A, B, ADD, ", 1, 1, 0, 1") : __VA_ARGS__ : "l"(a), "l"(b), "r"(add)); \
  }
MULTIPLY_GROUP_BY_ROWS(64, NAMES_0 "," NAMES_1, "%32", "%33", "%34", SUMS_16(d, 0), SUMS_16(d, 16))
MULTIPLY_GROUP_BY_ROWS(128, NAMES_0 "," NAMES_1 "," NAMES_2 "," NAMES_3, "%64", "%65", "%66", SUMS_16(d, 0),
                       SUMS_16(d, 16), SUMS_16(d, 32), SUMS_16(d, 48))
MULTIPLY_GROUP_BY_ROWS(256, NAMES_0 "," NAMES_1 "," NAMES_2 "," NAMES_3 "," NAMES_4 "," NAMES_5 "," NAMES_6 "," NAMES_7,
                       "%128", "%129", "%130", SUMS_16(d, 0), SUMS_16(d, 16), SUMS_16(d, 32), SUMS_16(d, 48),
                       SUMS_16(d, 64), SUMS_16(d, 80), SUMS_16(d, 96), SUMS_16(d, 112))
MULTIPLY_BY_ROWS(32, NAMES_0, "{%16,%17,%18,%19}", "%20", "%21", SUMS_16(d, 0))
MULTIPLY_BY_ROWS(48, NAMES_0 ",%16,%17,%18,%19,%20,%21,%22,%23", "{%24,%25,%26,%27}", "%28", "%29", SUMS_16(d, 0),
                 SUMS_4(d, 16), SUMS_4(d, 20))
MULTIPLY_BY_ROWS(64, NAMES_0 "," NAMES_1, "{%32,%33,%34,%35}", "%36", "%37", SUMS_16(d, 0), SUMS_16(d, 16))
MULTIPLY_BY_ROWS(80, NAMES_0 "," NAMES_1 ",%32,%33,%34,%35,%36,%37,%38,%39", "{%40,%41,%42,%43}", "%44", "%45",
                 SUMS_16(d, 0), SUMS_16(d, 16), SUMS_4(d, 32), SUMS_4(d, 36))
MULTIPLY_BY_ROWS(96, NAMES_0 "," NAMES_1 "," NAMES_2, "{%48,%49,%50,%51}", "%52", "%53", SUMS_16(d, 0), SUMS_16(d, 16),
                 SUMS_16(d, 32))
MULTIPLY_BY_ROWS(128, NAMES_0 "," NAMES_1 "," NAMES_2 "," NAMES_3, "{%64,%65,%66,%67}", "%68", "%69", SUMS_16(d, 0),
                 SUMS_16(d, 16), SUMS_16(d, 32), SUMS_16(d, 48))
MULTIPLY_BY_ROWS(160, NAMES_0 "," NAMES_1 "," NAMES_2 "," NAMES_3 "," NAMES_4, "{%80,%81,%82,%83}", "%84", "%85",
                 SUMS_16(d, 0), SUMS_16(d, 16), SUMS_16(d, 32), SUMS_16(d, 48), SUMS_16(d, 64))
MULTIPLY_BY_ROWS(192, NAMES_0 "," NAMES_1 "," NAMES_2 "," NAMES_3 "," NAMES_4 "," NAMES_5, "{%96,%97,%98,%99}", "%100",
                 "%101", SUMS_16(d, 0), SUMS_16(d, 16), SUMS_16(d, 32), SUMS_16(d, 48), SUMS_16(d, 64), SUMS_16(d, 80))
MULTIPLY_BY_ROWS(256, NAMES_0 "," NAMES_1 "," NAMES_2 "," NAMES_3 "," NAMES_4 "," NAMES_5 "," NAMES_6 "," NAMES_7,
                 "{%128,%129,%130,%131}", "%132", "%133", SUMS_16(d, 0), SUMS_16(d, 16), SUMS_16(d, 32), SUMS_16(d, 48),
                 SUMS_16(d, 64), SUMS_16(d, 80), SUMS_16(d, 96), SUMS_16(d, 112))
#endif
#endif
