// SPDX-License-Identifier: Apache-2.0
// Attention of one query to each head, at the speed of memory: LANES lanes share a key of SIZE elements, 16 bytes each,
// so that a warp reads several keys at once, UNROLL times. Every warp has a running softmax of its own (see
// scores.cuh); warps are joined at the end, and with SPLITS > 1 the blocks of a cluster, which share the keys: each
// sends its part to the first one, where a barrier counts what has come, so that nobody waits for a meeting of all.
// With APPENDS there is a new key and value for each head, which is read where it was made; one warp writes it to the
// caches, at the position that `held` says, and where caches get other memory, they are copied.
//
// Keys and values come by asynchronous copies to a ring of STAGES steps in shared memory. Every lane reads there only
// what it copied itself, so that no thread waits for another one, and what is on its way takes no registers: a step
// that loads to registers first computes nothing while it waits, and loads nothing while it computes. Where the caches
// are GIVEN, which nothing before this kernel writes, the ring is filled before the previous kernel has ended; others
// come to L2 then. That is safe with whatever that kernel writes, for all that is written passes L2. No more than the
// ring holds is asked for so early: whole caches of many rows do not fit in L2, and would be read twice.
//
// Defined before this text: what scores.cuh wants but masks, SIZE, WARPS, UNROLL, STAGES, SPLITS, APPENDS, GIVEN,
// BEHIND_NEW (there are as many keys as are held and one more), and ARGUMENTS: q, k, v, the lengths where there are
// some; with APPENDS new_k, new_v, held, to_k, to_v and a fault; y.
using Sum = float;
#include "backends/cuda/attention/scores.cuh"
#include "backends/cuda/support/ptx.cuh"

constexpr int LANES = SIZE / 8, GROUPS = 32 / LANES, PARTS = WARPS;
#if SPLITS > 1
#define CLUSTER __cluster_dims__(1, SPLITS, 1)
#else
#define CLUSTER
#endif

struct Part {
  float most, sum;
  float y[SIZE];
};

// What parts make together of an element: all are on their way at once. Every thread has elements of its own.
struct Joined {
  float most, sum, y;
};
template <int COUNT, class F>
DEVICE Joined join(float unit, u32 element, F&& part_of) {
  float mosts[COUNT], sums[COUNT], ys[COUNT];
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    const Part& part = part_of(i);
    mosts[i] = part.most, sums[i] = part.sum, ys[i] = part.y[element];
  }
  Joined all{nothing(), 0, 0};
#pragma unroll
  for (int i = 0; i < COUNT; ++i) all.most = fmaxf(all.most, mosts[i]);
  const Exponents exponents = exponents_of(all.most, unit);
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    const float by = weight_of(mosts[i], exponents);
    all.sum = fmaf(sums[i], by, all.sum);
    all.y = fmaf(ys[i], by, all.y);
  }
  return all;
}

struct AllParameters {
  Parameters attention;
#if APPENDS
  i64 new_k_batch, new_v_batch;  // elements from row to row
#endif
};

DEVICE i32 within(const Parameters& p, i64 length) { return i32(length < 0 ? 0 : length < p.keys ? length : p.keys); }

// How many keys there are, as far as is known before anything has to be there: a hint.
DEVICE i32 early_length(const Parameters& p, const i64* number) {
  if constexpr (!LENGTHS && !BEHIND_NEW) return p.keys;
  else return within(p, *reinterpret_cast<const volatile i64*>(number) + (BEHIND_NEW ? 1 : 0));
}

// Brings the first `count` keys and values of a head to L2, by the blocks of the cluster.
DEVICE void prefetch_first(const Parameters& p, const Half* k, const Half* v, const Range& range, i32 count) {
  const i32 end = range.end - range.first > count ? range.first + count : range.end;
  for (i32 key = range.first + i32(blockIdx.y * WARPS * 32 + threadIdx.x); key < end; key += SPLITS * WARPS * 32) {
    prefetch_bytes(k + i64(key) * p.k_row, SIZE * 2);
    prefetch_bytes(v + i64(key) * p.v_row, SIZE * 2);
  }
}

#if APPENDS
// A head's rows of a cache with the new one, by the blocks of the cluster, where `to` is other memory than the cache.
DEVICE void append_rows(Half* to, const Half* cache, const Half* fresh, i64 pitch, i64 at, i32 positions) {
  if (to == cache) return;
  for (i32 i = i32(blockIdx.y * WARPS * 32 + threadIdx.x); i < positions * LANES; i += SPLITS * WARPS * 32) {
    const i64 row = i / LANES;
    const i32 piece = i % LANES * 8;
    store_vector(to + row * pitch + piece, load_vector<8>(row == at ? fresh + piece : cache + row * pitch + piece));
  }
}
#endif

extern "C" __global__ void CLUSTER __launch_bounds__(WARPS * 32) attention_one(ARGUMENTS, const AllParameters all) {
  constexpr i32 STEP = WARPS * GROUPS * UNROLL * SPLITS;
  const Parameters& p = all.attention;
  let_next_kernel_start();
  // Shared memory: the ring; parts of the warps; in the first block, then, parts of all blocks, and a barrier.
  constexpr int ROW = WARPS * 32, SLOT = ROW * 2 * UNROLL;  // pieces of 16 bytes: one a thread; of a step
  Vec<Half, 8>* const ring = reinterpret_cast<Vec<Half, 8>*>(dynamic_shared()) + threadIdx.x;
  Part* const parts = reinterpret_cast<Part*>(dynamic_shared() + STAGES * SLOT * 16);
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / LANES, of_key = lane % LANES * 8;
  const u32 batch = divide(blockIdx.x, p.heads), head = blockIdx.x - batch * p.heads.divisor;
  const u32 kv_head = head / p.sharing;
  k += i64(batch) * p.k_batch + i64(kv_head) * SIZE;
  v += i64(batch) * p.v_batch + i64(kv_head) * SIZE;
  const Half *const of_keys = k + of_key, *const of_values = v + of_key;
  // Of a step, this group's keys are GROUPS apart.
  const i32 mine = i32((blockIdx.y * WARPS + warp) * (GROUPS * UNROLL) + group);
#if APPENDS
  const i32 early = early_length(p, BEHIND_NEW ? held + batch : lengths + batch);
#else
  const i32 early = early_length(p, lengths + batch);
#endif
  const auto fetch = [&](int slot, i32 begin, i32 end) {
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      if (const i32 key = begin + u * GROUPS; key < end) {
        copy_chunk(shared_address(ring + slot + (2 * u) * ROW), of_keys + i64(key) * p.k_row, true);
        copy_chunk(shared_address(ring + slot + (2 * u + 1) * ROW), of_values + i64(key) * p.v_row, true);
      }
    close_group();
  };
  const auto fill = [&](const Range& range) {
#pragma unroll
    for (int s = 0; s < STAGES; ++s) fetch(s * SLOT, range.first + mine + s * STEP, range.end);
  };
  const Range expected = keys_of(p, 0, early);
  if constexpr (GIVEN) fill(expected);
  else if (kv_head * p.sharing == head) prefetch_first(p, k, v, expected, STAGES * STEP);
#if SPLITS > 1
  const u32 all_came = shared_address(parts + PARTS + SPLITS);
  if (blockIdx.y == 0 && threadIdx.x == 0) {
    barrier_init(all_came, 1);
    publish_barriers();
    arrive_expecting(all_came, u32(SPLITS * sizeof(Part)));
  }
  meet_cluster();  // the first block and its barrier are there: others write to its memory
#endif
  wait_for_inputs();
  // All that is read of this token is on its way before the first of it is waited for.
  const auto row_here = [&](const Half* row) { return load_here(reinterpret_cast<const Vec<Half, 8>*>(row + of_key)); };
  const Vec<Half, 8> given_query = row_here(q + i64(batch) * p.q_batch + i64(head) * SIZE);
#if APPENDS
  new_k += i64(batch) * all.new_k_batch + i64(kv_head) * SIZE;
  new_v += i64(batch) * all.new_v_batch + i64(kv_head) * SIZE;
  const Vec<Half, 8> new_key = row_here(new_k), new_value = row_here(new_v);
  const i64 at = held[batch];
#endif
  i64 given_length = p.keys;
  if constexpr (LENGTHS) given_length = lengths[batch];
#if APPENDS
  if constexpr (BEHIND_NEW) given_length = at + 1;
#endif
#if APPENDS
  if (at < 0 || at >= p.keys) {
    i64 index = at < 0 ? at - p.keys : at;
    resolve_index(index, p.keys, fault);
    return;
  }
  // Nobody uses what the cache has in the place of the new row: it is written before all that takes time, and the
  // kernel does not end later for it.
  to_k += i64(batch) * p.k_batch + i64(kv_head) * SIZE;
  to_v += i64(batch) * p.v_batch + i64(kv_head) * SIZE;
  const bool appends = kv_head * p.sharing == head;
  if (appends && blockIdx.y == SPLITS - 1 && warp == WARPS - 1 && group == 0) {
    if (to_k == k) store_vector(to_k + at * p.k_row + of_key, new_key);
    if (to_v == v) store_vector(to_v + at * p.v_row + of_key, new_value);
  }
#endif
  const Range range = keys_of(p, 0, i32(given_length < p.keys ? given_length : p.keys));
  float query[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) query[j] = hold(given_query.at[j]);
  float most = nothing(), sum = 0, y_sums[8] = {};
  if (!GIVEN || expected.first != range.first || expected.end != range.end) {
    wait_for_groups<0>();  // two copies to one place would come in any order
    fill(range);
  }
  int slot = 0;
#pragma unroll 1
  for (i32 begin = range.first + mine; begin - i32(group) < range.end; begin += STEP) {
    wait_for_groups<STAGES - 1>();
    Vec<Half, 8> keys[UNROLL], values[UNROLL];
    bool there[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const i32 key = begin + i32(u * GROUPS);
      there[u] = key < range.end;
      keys[u] = ring[slot + (2 * u) * ROW];
      values[u] = ring[slot + (2 * u + 1) * ROW];
#if APPENDS
      if (key == at) keys[u] = new_key, values[u] = new_value;
#endif
      if (!there[u]) keys[u] = {}, values[u] = {};
    }
    float scores[UNROLL], larger = most;
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      float s = 0;
#pragma unroll
      for (int j = 0; j < 8; ++j) s = fmaf(query[j], hold(keys[u].at[j]), s);
#pragma unroll
      for (int far = 1; far < LANES; far *= 2) s += __shfl_xor_sync(0xffffffffu, s, far);
      if constexpr (EARLY) {
        s *= p.scale;
        if constexpr (CAPPED) s = p.cap * ::tanhf(s);
      }
      scores[u] = there[u] ? s : nothing();
      larger = fmaxf(larger, scores[u]);
    }
    // One largest score for the groups of the warp, so that their sums are only added at the end.
#pragma unroll
    for (int far = LANES; far < 32; far *= 2) larger = fmaxf(larger, __shfl_xor_sync(0xffffffffu, larger, far));
    const Exponents exponents = exponents_of(larger, p.unit);
    const float before = weight_of(most, exponents);
    most = larger;
    sum *= before;
#pragma unroll
    for (int j = 0; j < 8; ++j) y_sums[j] *= before;
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const float weight = weight_of(scores[u], exponents);
      sum += weight;
#pragma unroll
      for (int j = 0; j < 8; ++j) y_sums[j] = fmaf(weight, hold(values[u].at[j]), y_sums[j]);
    }
    fetch(slot, begin + STAGES * STEP, range.end);  // what was there is used
    slot = slot == (STAGES - 1) * SLOT ? 0 : slot + SLOT;
  }
  // The groups of a warp hold the same elements in lanes that are LANES apart: of two such lanes each adds up one half.
  u32 first = of_key;
#pragma unroll
  for (int far = LANES, left = 8; far < 32; far *= 2, left /= 2) {
    const bool upper = lane & u32(far);
    sum += __shfl_xor_sync(0xffffffffu, sum, far);
#pragma unroll
    for (int j = 0; j < left / 2; ++j) {
      const float other = upper ? y_sums[j] : y_sums[j + left / 2], own = upper ? y_sums[j + left / 2] : y_sums[j];
      y_sums[j] = own + __shfl_xor_sync(0xffffffffu, other, far);
    }
    if (upper) first += u32(left / 2);
  }
  Part& own = parts[warp];
  if (lane == 0) own.most = most, own.sum = sum;
#pragma unroll
  for (int j = 0; j < 8 / GROUPS; ++j) own.y[first + j] = y_sums[j];
  __syncthreads();
  y += i64(batch) * p.y_batch + i64(head) * SIZE;
  auto store = [&](u32 element, const Joined& all) {
    y[element] = store_as<Half>(is_nothing(p, all.sum) ? 0.0f : all.y / all.sum);
  };
#if SPLITS > 1
  const Part& whole = parts[PARTS + blockIdx.y];  // of the first block, where the blocks' parts are joined
#endif
  for (u32 element = threadIdx.x; element < u32(SIZE); element += WARPS * 32) {
    const Joined joined = join<PARTS>(p.unit, element, [&](int i) -> const Part& { return parts[i]; });
#if SPLITS > 1
    send_to_block(shared_address(&whole.y[element]), joined.y, all_came, 0);
    if (element == 0) {
      send_to_block(shared_address(&whole.most), joined.most, all_came, 0);
      send_to_block(shared_address(&whole.sum), joined.sum, all_came, 0);
    }
#else
    store(element, joined);
#endif
  }
#if SPLITS > 1
  if (blockIdx.y == 0) {
    wait_for_phase(all_came, 0);
    for (u32 element = threadIdx.x; element < u32(SIZE); element += WARPS * 32)
      store(element, join<SPLITS>(p.unit, element, [&](int i) -> const Part& { return parts[PARTS + i]; }));
  }
#endif
#if APPENDS
  if (appends) {
    append_rows(to_k, k, new_k, p.k_row, at, p.keys);
    append_rows(to_v, v, new_v, p.v_row, at, p.keys);
  }
#endif
}
