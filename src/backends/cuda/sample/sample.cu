// SPDX-License-Identifier: Apache-2.0
// Draws a token of each row (graph/ops/sample.h), by a cluster of SPLITS blocks that share its vocabulary, each of them
// and each of their warps a part of neighbours. Weights are integers: however threads add them up, sums are the same.
//
// Where tokens are drawn in the order of their logits, none is sorted: what is looked for is the first token at which a
// sum, of weights or of tokens, reaches a goal. Bins of neighbours in that order are counted and summed up, then those
// of the bin that reaches it, until the few tokens of one bin can be compared with one another. The bins of the first
// round are by distance from the largest logit, a sixteenth of a power of 2 each, and serve every goal.
//
// Generated before this text: SPLITS.
#include "backends/cuda/rows/row_sums.cuh"
#include "backends/cuda/support/cluster_parts.cuh"
#include "backends/cuda/support/warp_scan.cuh"

struct Parameters {
  u32 vocabulary, positions;
  u32 span, of_warp;  // tokens of a block and of a warp
  i32 bits;           // the largest logit weighs 2^bits
  u64 powers[16], terms[8];
};

constexpr int THREADS = 512, WARPS = THREADS / 32, UNROLL = 4;
constexpr int BINS = THREADS, MOST = THREADS;  // a thread has one bin, and one of the tokens that are compared
constexpr int DIGIT = 9;                       // bits: one of BINS values

struct Found {
  u32 bin, count;    // a bin that reaches the goal, and its tokens; 0: none does
  u32 count_before;  // tokens and weights of those before it
  u64 weight_before;
};
struct Shared {
  u64 powers[16];
  u64 best, sum;    // of the block
  u64 sums[WARPS];  // of each warp
  u32 counts_of_warps[WARPS];
  Found found;
  u64 token, weight;  // that reaches the goal, and the sum of weights with it
  u32 listed, unused;
  u32 counts[BINS];
  u64 weights[BINS];
  u64 ranks[MOST], rank_weights[MOST];  // of the block
  u64 all_ranks[MOST], all_weights[MOST];
};
static_assert(sizeof(Shared) <= THREADS * (4 + 5 * 8) + 1024, "the recipe asks for less");

// What is there for each row.
struct Row {
  const float* x;
  u32 first, end;  // the warp's tokens
  double most, scale;
};

DEVICE void meet() {
  if constexpr (PARTS > 1) meet_cluster();
  else __syncthreads();
}
template <class T>
DEVICE T* there(T* mine, int block) {
  if constexpr (PARTS > 1) return in_block(mine, u32(block));
  else return mine;
}

DEVICE u32 order_of(float x) {
  if (x != x) return ~0u;
  const u32 bits = __float_as_uint(x + 0.0f);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
DEVICE float of_order(u32 order) {
  if (order == ~0u) return __uint_as_float(0x7fffffffu);
  return __uint_as_float(order >> 31 ? order & 0x7fffffffu : ~order);
}
DEVICE u64 rank_of(float x, u32 token) { return u64(order_of(x)) << 32 | u32(~token); }

DEVICE double power_of(float x, const Row& row) { return (double(x) - row.most) * row.scale; }
DEVICE u64 weight_of(double power, const Shared& s, const Parameters& p) {
  if (!(power > -63)) return 0;
  const i64 fixed = __double2ll_rz(power * 0x1p48);
  const u64 fraction = u64(fixed) << 16, rest = fraction & ((u64(1) << 60) - 1);
  u64 sum = p.terms[7];
#pragma unroll
  for (int i = 6; i >= 0; --i) sum = p.terms[i] + __umul64hi(sum, rest);
  const i64 down = 60 - p.bits - (fixed >> 48);
  return down > 63 ? 0 : __umul64hi(s.powers[fraction >> 60], sum) >> down;
}
DEVICE u32 bin_of(double power) {
  return power > -double(BINS - 1) / 16 ? __double2uint_rz(power * -16) : u32(BINS - 1);
}

// body(x, token) for each of the warp's tokens.
template <class Body>
DEVICE void each_token(const Row& row, Body&& body) {
#pragma unroll 1
  for (u32 begin = row.first + threadIdx.x % 32; begin < row.end; begin += 32 * UNROLL) {
    float x[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      if (begin + 32 * u < row.end) x[u] = row.x[begin + 32 * u];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      if (begin + 32 * u < row.end) body(x[u], begin + 32 * u);
  }
}

// What all threads of the block have together.
template <class Join>
DEVICE u64 of_block(Shared& s, u64 mine, Join&& join) {
  mine = across_threads<32>(mine, join);
  if (threadIdx.x % 32 == 0) s.sums[threadIdx.x / 32] = mine;
  __syncthreads();
  mine = s.sums[0];
  for (int i = 1; i < WARPS; ++i) mine = join(mine, s.sums[i]);
  __syncthreads();
  return mine;
}

// What this thread's bin has in all blocks.
DEVICE void add_up_bin(Shared& s, u32& count, u64& weight) {
  meet();
  count = 0, weight = 0;
#pragma unroll
  for (int block = 0; block < PARTS; ++block) {
    count += there(s.counts, block)[threadIdx.x];
    weight += there(s.weights, block)[threadIdx.x];
  }
  meet();
}
DEVICE void clear_bins(Shared& s) {
  s.counts[threadIdx.x] = 0;
  s.weights[threadIdx.x] = 0;
  __syncthreads();
}

// Of the bins, of which each thread has one, that at which reached(tokens, weights so far) becomes true.
template <class Reached>
DEVICE Found find_bin(Shared& s, u32 count, u64 weight, u32 count_before, u64 weight_before, Reached&& reached) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32 counts = sum_through_lane(count);
  u64 weights = sum_through_lane(weight);
  if (lane == 31) s.counts_of_warps[warp] = counts, s.sums[warp] = weights;
  if (threadIdx.x == 0) s.found = {0, 0, 0, 0};
  __syncthreads();
  counts += count_before, weights += weight_before;
  for (u32 i = 0; i < warp; ++i) counts += s.counts_of_warps[i], weights += s.sums[i];
  if (reached(counts, weights) && !reached(counts - count, weights - weight))
    s.found = {threadIdx.x, count, counts - count, weights - weight};
  __syncthreads();
  const Found found = s.found;
  __syncthreads();
  return found;
}

// The first token, in the order of logits, at which reached(tokens, weights so far) is true: it, and those weights, lie
// in `s` then. False where none reaches it.
template <class Reached>
DEVICE bool find_token(Shared& s, const Row& row, u32 count, u64 weight, const Parameters& p, Reached&& reached) {
  Found found = find_bin(s, count, weight, 0, 0, reached);
  const u32 first = found.bin;
  u64 prefix = 0;
  int shift = 64;  // of ranks: what is above it is `prefix`
  auto is_in = [&](double power, u64 rank) {
    return bin_of(power) == first && (shift == 64 || rank >> shift == prefix);
  };
  while (found.count > MOST) {
    clear_bins(s);
    each_token(row, [&](float x, u32 token) {
      const double power = power_of(x, row);
      const u64 rank = rank_of(x, token);
      if (!is_in(power, rank)) return;
      const u32 bin = BINS - 1 - (u32(rank >> (shift - DIGIT)) & (BINS - 1));
      atomicAdd(&s.counts[bin], 1u);
      atomicAdd(&s.weights[bin], weight_of(power, s, p));
    });
    add_up_bin(s, count, weight);
    found = find_bin(s, count, weight, found.count_before, found.weight_before, reached);
    prefix = prefix << DIGIT | (BINS - 1 - found.bin);
    shift -= DIGIT;
  }
  if (found.count == 0) return false;
  if (threadIdx.x == 0) s.listed = 0;
  __syncthreads();
  each_token(row, [&](float x, u32 token) {
    const double power = power_of(x, row);
    const u64 rank = rank_of(x, token);
    if (!is_in(power, rank)) return;
    const u32 place = atomicAdd(&s.listed, 1u);
    s.ranks[place] = rank;
    s.rank_weights[place] = weight_of(power, s, p);
  });
  meet();
  u32 all = 0;
#pragma unroll 1
  for (int block = 0; block < PARTS; ++block) {
    const u32 listed = *there(&s.listed, block);
    if (threadIdx.x < listed) {
      s.all_ranks[all + threadIdx.x] = there(s.ranks, block)[threadIdx.x];
      s.all_weights[all + threadIdx.x] = there(s.rank_weights, block)[threadIdx.x];
    }
    all += listed;
  }
  meet();
  if (threadIdx.x < all) {
    const u64 rank = s.all_ranks[threadIdx.x], mine = s.all_weights[threadIdx.x];
    u32 counts = found.count_before;
    u64 weights = found.weight_before;
    for (u32 i = 0; i < all; ++i)
      if (s.all_ranks[i] >= rank) ++counts, weights += s.all_weights[i];
    if (reached(counts, weights) && !reached(counts - 1, weights - mine)) s.token = u32(~u32(rank)), s.weight = weights;
  }
  __syncthreads();
  return true;
}

extern "C" __global__ void CLUSTER __launch_bounds__(THREADS, 1)
    sample(const float* logits, const i64* tokens, const i64* lengths, const double* settings, const double* draws,
           i64* out, i64* flaws, float* penalised, const Parameters p) {
  Shared& s = *reinterpret_cast<Shared*>(dynamic_shared());
  wait_for_inputs();
  if (PARTS == 1 && blockIdx.y > 0) return;
  const u32 b = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const bool writes = blockIdx.y == 0 && threadIdx.x == 0;
  const double temperature = settings[b * 4], top_k = settings[b * 4 + 1], top_p = settings[b * 4 + 2],
               penalty = settings[b * 4 + 3];
  const i64 length = lengths[b];
  if (threadIdx.x < 16) s.powers[threadIdx.x] = p.powers[threadIdx.x];

  const u32 begin = op::min(blockIdx.y * p.span, p.vocabulary), end = op::min(begin + p.span, p.vocabulary);
  Row row;
  row.x = logits + i64(b) * p.vocabulary;
  row.first = op::min(begin + warp * p.of_warp, end), row.end = op::min(row.first + p.of_warp, end);
  if (penalty > 0 && penalty != 1) {
    const float* const x = row.x;
    float* const to = penalised + i64(b) * p.vocabulary;
    for (u32 i = begin + threadIdx.x; i < end; i += THREADS) to[i] = x[i];
    __syncthreads();
    const u32 seen = length <= 0 ? 0 : length >= i64(p.positions) ? p.positions : u32(length);
    // What came several times is written as often, and the same each time.
    for (u32 i = threadIdx.x; i < seen; i += THREADS) {
      const i64 token = tokens[i64(b) * p.positions + i];
      if (token < i64(begin) || token >= i64(end)) continue;
      const double logit = x[token];
      to[token] = float(logit > 0 ? logit / penalty : logit * penalty);
    }
    __syncthreads();
    row.x = to;
  }

  u64 best = 0;
  each_token(row, [&](float x, u32 token) {
    const u64 rank = rank_of(x, token);
    best = rank > best ? rank : best;
  });
  auto larger = [](u64 a, u64 b) { return a > b ? a : b; };
  best = of_block(s, best, larger);
  if (threadIdx.x == 0) s.best = best;
  meet();
#pragma unroll
  for (int block = 0; block < PARTS; ++block) best = larger(best, *there(&s.best, block));
  const float most = of_order(u32(best >> 32));
  const bool nan = most != most, infinite = !nan && most - most != 0;
  const u32 kept = !(top_k >= 1) || top_k >= double(p.vocabulary) ? p.vocabulary : __double2uint_rz(top_k);
  if (writes) {
    out[b] = i64(u32(~u32(best)));
    flaws[b] = nan ? 1 : infinite ? 2 : 0;
  }
  if (!(nan || infinite) && temperature > 0 && kept > 1) {
    row.most = most;
    row.scale = 1.4426950408889634 / temperature;
    if (row.scale > 1e300) row.scale = 1e300;
    const i64 at = length - 1;
    double draw = draws[i64(b) * p.positions + (at < 0 ? 0 : at >= i64(p.positions) ? p.positions - 1 : at)];
    if (!(draw > 0)) draw = 0;
    if (kept == p.vocabulary && !(top_p < 1)) {
      u64 sum = 0;
      each_token(row, [&](float x, u32) { sum += weight_of(power_of(x, row), s, p); });
      auto add = [](u64 a, u64 b) { return a + b; };
      sum = across_threads<32>(sum, add);
      if (lane == 0) s.sums[warp] = sum;
      __syncthreads();
      u64 before = 0, of_block = 0;  // weights of the block's warps before this one, and of all
      for (u32 i = 0; i < WARPS; ++i) {
        if (i < warp) before += s.sums[i];
        of_block += s.sums[i];
      }
      if (threadIdx.x == 0) s.sum = of_block;
      meet();
      u64 all = 0;
#pragma unroll
      for (int block = 0; block < PARTS; ++block) {
        const u64 of_other = *there(&s.sum, block);
        if (block < int(blockIdx.y)) before += of_other;
        all += of_other;
      }
      const double drawn = draw * double(all);
      if (double(before) <= drawn && double(before + sum) > drawn) {
        for (u32 first = row.first; first < row.end; first += 32) {
          const u32 token = first + lane;
          const u64 weight = token < row.end ? weight_of(power_of(row.x[token], row), s, p) : 0;
          const u64 sums = before + sum_through_lane(weight);
          if (double(sums) > drawn && double(sums - weight) <= drawn) out[b] = token;
          before = __shfl_sync(0xffffffffu, sums, 31);
        }
      }
    } else {
      clear_bins(s);
      each_token(row, [&](float x, u32) {
        const double power = power_of(x, row);
        const u32 bin = bin_of(power);
        atomicAdd(&s.counts[bin], 1u);
        atomicAdd(&s.weights[bin], weight_of(power, s, p));
      });
      u32 count;
      u64 weight;
      add_up_bin(s, count, weight);
      u64 all;
      if (kept < p.vocabulary) {
        find_token(s, row, count, weight, p, [&](u32 tokens, u64) { return tokens >= kept; });
        all = s.weight;
      } else {
        all = of_block(s, weight, [](u64 a, u64 b) { return a + b; });
      }
      if (top_p < 1) {
        const double goal = top_p * double(all);
        find_token(s, row, count, weight, p, [&](u32, u64 sum) { return sum > 0 && double(sum) >= goal; });
        all = s.weight;
      }
      const double drawn = draw * double(all);
      if (find_token(s, row, count, weight, p, [&](u32, u64 sum) { return double(sum) > drawn; }) && writes)
        out[b] = i64(s.token);
    }
  }
  if constexpr (PARTS > 1) meet_cluster();  // others may still read here
}
