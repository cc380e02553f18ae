// SPDX-License-Identifier: Apache-2.0
// Groups of channels that cross a block: a sample is [POSITIONS, CHANNELS] in memory, and what is normalised together
// are GROUP channels at all of its positions. In channels_last a sample is an image; a row that lies without gaps is a
// sample of one group, whose channels are a vector. A block takes TILE channels, which are whole groups, of a part of
// the positions: ACROSS threads lie along the tile, V channels each, and DOWN share the positions. Generated before
// this text: those constants, PITCH (elements from one position of input 0 to the next), HELD (rounds of positions that
// stay in shared memory), AHEAD (positions that a thread loads before it uses the first), GIVEN_BYTES (of struct
// Given), FIXED_OF_CHANNELS (what the epilogue reads of all samples is the same for all positions), CENTER, EXACT, and
// what row_programs.cuh needs; a row is a sample.
#pragma once
#include "backends/cuda/rows/row_programs.cuh"

constexpr u32 GROUPS = TILE / GROUP, TILES = CHANNELS / TILE;
using Statistic = decltype([] {
  if constexpr (EXACT) return double();
  else return float();
}());

// The mean of a part of a group, and the sum of the squares of what is left. Parts are joined by the formula of Chan,
// Golub and LeVeque (1979), which loses no digits where the mean is large.
struct Moments {
  Statistic mean, squares;
};

// The channels of a thread belong to at most SLOTS groups.
constexpr u32 SLOTS = GROUP % V == 0 ? 1 : V % GROUP == 0 ? V / GROUP : (V - 2) / GROUP + 2;
DEVICE u32 group_of(u32 across, u32 k) {
  return GROUPS == 1 ? 0 : GROUP % V == 0 ? across / (GROUP / V) : (across * V + k) / GROUP;
}
DEVICE u32 slot_of(u32 across, u32 k) {
  return GROUP % V == 0 ? 0 : V % GROUP == 0 ? k / GROUP : group_of(across, k) - group_of(across, 0);
}

DEVICE u32 begin_of(u32 part, u32 parts) { return u32(u64(POSITIONS) * part / parts); }

// Where a block and a thread work: block `index` of `parts` for each tile of each sample, which lie side by side.
struct Place {
  Index sample;
  u32 tile, part;
  u32 across, down;
  u32 channel;     // the first one of the thread, in the sample
  u32 begin, end;  // positions of the block
  bool active;
  DEVICE_MEMBER u32 count_of(u32 row) const { return begin + row < end ? (end - begin - row + DOWN - 1) / DOWN : 0u; }
  DEVICE_MEMBER u32 position(u32 round) const { return begin + down + round * DOWN; }
};
DEVICE Place place_of(u32 index, u32 parts) {
  Place place;
  place.part = index % parts;
  place.tile = index / parts % TILES;
  place.sample = Index(index / parts / TILES);
  place.across = threadIdx.x % ACROSS;
  place.down = threadIdx.x / ACROSS;
  place.channel = place.tile * TILE + place.across * V;
  place.begin = begin_of(place.part, parts);
  place.end = begin_of(place.part + 1, parts);
  place.active = place.down < DOWN;
  return place;
}
DEVICE RowTensors sample_of(const RowParameters& p, const RowTensors& tensors, const Place& place) {
  i64 at[OPERANDS];
  walk_offsets<KEPT, OPERANDS>(p.kept, place.sample, at);
  if (PITCH != CHANNELS) at[0] = at[0] / CHANNELS * PITCH;
  return moved(tensors, at, place.sample);
}

// Shared memory: what is held of the input, then what the threads have of their groups, what the groups have of all
// parts (PARTS_KEPT of them), and what is made of it.
struct Shared {
  Given* held;
  Moments *of_threads, *of_parts;
  Value *means, *rests, *factors;
};
template <int PARTS_KEPT>
DEVICE Shared shared_places() {
  static_assert(sizeof(Given) == GIVEN_BYTES, "the host counts the same bytes");
  Shared shared;
  shared.held = reinterpret_cast<Given*>(dynamic_shared());
  shared.of_threads = reinterpret_cast<Moments*>(dynamic_shared() + HELD * BLOCK * GIVEN_BYTES);
  shared.of_parts = shared.of_threads + BLOCK * SLOTS;
  shared.means = reinterpret_cast<Value*>(shared.of_parts + PARTS_KEPT * GROUPS);
  shared.rests = shared.means + GROUPS;
  shared.factors = shared.rests + GROUPS;
  return shared;
}

// Loads the positions of rounds round, round + 1, ... of `count`.
DEVICE void read_positions(const RowParameters& p, const RowTensors& row, const Place& place, u32 round, u32 count,
                           Given (&given)[AHEAD]) {
#pragma unroll
  for (u32 i = 0; i < AHEAD; ++i)
    if (round + i < count) read_given(p, row, i64(place.position(round + i)) * PITCH + place.channel, true, given[i]);
}

template <u32 LANES>
DEVICE Statistic sum_of_lanes(Statistic x) {
  return across_threads<LANES>(x, [](Statistic a, Statistic b) { return a + b; });
}

// Reads the block's part, keeps HELD rounds of it, and calls found(group, moments) for each group of the tile, in one
// thread. A thread sums differences from its first element.
template <class Found>
DEVICE void collect(const RowParameters& p, const RowTensors& row, const Place& place, const Shared& shared,
                    Found&& found) {
  if (place.active) {
    const u32 count = place.count_of(place.down);
    typename SumOf<Value, EXACT>::type sums[V], products[V];
    Value shift[V];
#pragma unroll
    for (int k = 0; k < V; ++k) shift[k] = 0;
#pragma unroll 1
    for (u32 round = 0; round < count; round += AHEAD) {
      Given given[AHEAD];
      read_positions(p, row, place, round, count, given);
      if (CENTER && round == 0) take_given(p, given[0], shift);
#pragma unroll
      for (u32 i = 0; i < AHEAD; ++i) {
        if (round + i >= count) continue;
        if (HELD > 0 && round + i < HELD) shared.held[(round + i) * BLOCK + threadIdx.x] = given[i];
        Value x[V];
        take_given(p, given[i], x);
#pragma unroll
        for (int k = 0; k < V; ++k) {
          const Value d = x[k] - shift[k];
          if (CENTER) sums[k].add(d);
          products[k].add_square(d);
        }
      }
    }
    const Statistic each = Statistic(count), inverse = count > 0 ? 1 / each : Statistic(0);
    Moments mine[V];
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const Statistic sum = Statistic(sums[k].value()), mean = sum * inverse;
      mine[k] = {Statistic(shift[k]) + mean, Statistic(products[k].value()) - sum * mean};
    }
#pragma unroll
    for (u32 slot = 0; slot < SLOTS; ++slot) {
      Statistic channels = 0, mean = 0, squares = 0;
#pragma unroll
      for (int k = 0; k < V; ++k)
        if (slot_of(place.across, u32(k)) == slot) channels += 1, mean += mine[k].mean;
      mean = channels > 0 ? mean / channels : Statistic(0);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        if (slot_of(place.across, u32(k)) != slot) continue;
        const Statistic d = mine[k].mean - mean;
        squares += mine[k].squares + (CENTER ? each * d * d : 0);
      }
      shared.of_threads[threadIdx.x * SLOTS + slot] = {mean, squares};
    }
  }
  __syncthreads();
  const u32 lane = threadIdx.x % 32;
#pragma unroll 1
  for (u32 group = threadIdx.x / 32; group < GROUPS; group += BLOCK / 32) {
    const u32 begin = group * GROUP, end = begin + GROUP, first = begin / V,
              across = GROUP % V == 0   ? GROUP / V
                       : V % GROUP == 0 ? 1
                                        : (end - 1) / V - first + 1;
    // f(moments, how many elements they are of) for what the threads of this lane have
    const auto each = [&](auto&& f) {
      const auto thread = [&](u32 down, u32 at) {
        const u32 from = at * V > begin ? at * V : begin, to = at * V + V < end ? at * V + V : end;
        f(shared.of_threads[(down * ACROSS + at) * SLOTS + group - group_of(at, 0)],
          Statistic(place.count_of(down) * (to - from)));
      };
      if constexpr (DOWN >= 32) {
        for (u32 down = lane; down < DOWN; down += 32)
          for (u32 at = first; at < first + across; ++at) thread(down, at);
      } else {
#pragma unroll 2
        for (u32 i = lane; i < DOWN * across; i += 32) thread(i / across, first + i % across);
      }
    };
    Statistic mean = 0, squares = 0;
    if (CENTER) {
      each([&](const Moments& m, Statistic elements) { mean += elements * m.mean; });
      mean = sum_of_lanes<32>(mean) / (Statistic(place.end - place.begin) * GROUP);
    }
    each([&](const Moments& m, Statistic elements) {
      const Statistic d = m.mean - mean;
      squares += m.squares + (CENTER ? elements * d * d : 0);
    });
    squares = sum_of_lanes<32>(squares);
    found(group, Moments{mean, squares});
  }
}

// Joins the moments of PARTS parts, of which moments_of(part, group) gives one; all threads of the block may read the
// groups' means and factors then. `number` is epsilon.
template <u32 PARTS, class MomentsOf>
DEVICE void join_parts(const RowParameters& p, const Shared& shared, MomentsOf&& moments_of) {
  constexpr Statistic kInverse = Statistic(1) / (Statistic(GROUP) * Statistic(POSITIONS));
  constexpr u32 LANES = PARTS > 16 ? 32 : PARTS > 8 ? 16 : PARTS > 4 ? 8 : PARTS > 2 ? 4 : PARTS;
  const auto elements_of = [](u32 part) {
    return Statistic(begin_of(part + 1, PARTS) - begin_of(part, PARTS)) * GROUP;
  };
#pragma unroll 1
  for (u32 first = 0; first < GROUPS; first += BLOCK / LANES) {
    const u32 group = first + threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const bool active = group < GROUPS;
    Statistic mean = 0, total = 0;
    if (CENTER) {
      for (u32 i = lane; active && i < PARTS; i += LANES) mean += elements_of(i) * moments_of(i, group).mean;
      mean = sum_of_lanes<LANES>(mean) * kInverse;
    }
    for (u32 i = lane; active && i < PARTS; i += LANES) {
      const Moments part = moments_of(i, group);
      const Statistic d = part.mean - mean;
      total += part.squares + (CENTER ? elements_of(i) * d * d : 0);
    }
    total = sum_of_lanes<LANES>(total);
    if (active && lane == 0) {
      shared.means[group] = Value(mean);
      shared.rests[group] = Value(mean - Statistic(shared.means[group]));
      shared.factors[group] = Value(1 / op::sqrt(total * kInverse + Statistic(p.number)));
    }
  }
  __syncthreads();
}

// Writes the results of the block's part: of what is not held, from its end, which was read last and is likeliest in
// L2; then of what is. REST: not all is held.
template <bool REST>
DEVICE void write_results(const RowParameters& p, const RowTensors& row, const Place& place, const Shared& shared) {
  if (!place.active) return;
  Value mean[V], rest[V], factor[V];
#pragma unroll
  for (int k = 0; k < V; ++k) {
    const u32 group = group_of(place.across, u32(k));
    mean[k] = shared.means[group];
    rest[k] = shared.rests[group];
    factor[k] = shared.factors[group];
  }
  Fixed fixed;
  if (FIXED_OF_CHANNELS) read_fixed(p, row, place.channel, true, fixed);
  const auto write = [&](u32 round, const Given& given) {
    const i64 first = i64(place.position(round)) * CHANNELS + place.channel;
    Value x[V], y[V];
    take_given(p, given, x);
#pragma unroll
    for (int k = 0; k < V; ++k) y[k] = (EXACT ? (x[k] - mean[k]) - rest[k] : x[k] - mean[k]) * factor[k];
    if (!FIXED_OF_CHANNELS) read_fixed(p, row, first, true, fixed);
    write_row(p, row, first, true, fixed, x, y);
  };
  const u32 count = place.count_of(place.down);
  if (REST) {
    const u32 left = count > HELD ? (count - HELD + AHEAD - 1) / AHEAD : 0;
#pragma unroll 1
    for (u32 batch = left; batch > 0; --batch) {
      const u32 round = HELD + (batch - 1) * AHEAD;
      Given given[AHEAD];
      read_positions(p, row, place, round, count, given);
#pragma unroll
      for (u32 i = 0; i < AHEAD; ++i)
        if (round + i < count) write(round + i, given[i]);
    }
  }
  if (HELD > 0) {
#pragma unroll 2
    for (u32 round = 0; round < (count < HELD ? count : HELD); ++round)
      write(round, shared.held[round * BLOCK + threadIdx.x]);
  }
}
