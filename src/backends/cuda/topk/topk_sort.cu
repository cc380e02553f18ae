// SPDX-License-Identifier: Apache-2.0
// Sorts chunks of rows, whose size is a power of two, and keeps the first elements of each: a bitonic network (Batcher
// 1968) in shared memory, over pairs of a key and an index, no two of which are equal, so that the order is one.
// Short chunks share a block. Generated before this text: what topk.cuh needs.
#include "backends/cuda/topk/topk.cuh"

struct Parameters {
  u32 chunks;              // in all
  u32 n, k, kept;          // elements of a row; wanted of it; of a chunk at most
  u32 size, log_threads;   // elements of a chunk; threads that share one, 2^log_threads
  Divisor per_row, inner;  // chunks of a row; neighbours of rows
};

extern "C" __global__ void __launch_bounds__(1024)
    topk_sort(const Element* x, Element* values, i64* indices, Key* keys_of_runs, u32* places_of_runs,
              const Parameters p) {
  wait_for_inputs();
  const u32 threads = 1u << p.log_threads, lane = threadIdx.x & (threads - 1), slot = threadIdx.x >> p.log_threads,
            slots = blockDim.x >> p.log_threads, chunk = blockIdx.x * slots + slot;
  Key* keys = reinterpret_cast<Key*>(dynamic_shared()) + slot * p.size;
  u32* places = reinterpret_cast<u32*>(reinterpret_cast<Key*>(dynamic_shared()) + slots * p.size) + slot * p.size;
  const u32 row = divide(chunk, p.per_row), in_row = chunk - row * p.per_row.divisor;
  const u32 outer = divide(row, p.inner), beside = row - outer * p.inner.divisor, inner = p.inner.divisor;
  const u32 first = in_row * p.size;
  const u32 count = chunk >= p.chunks ? 0 : p.n - first < p.size ? p.n - first : p.size;
  const Element* from = x + (i64(outer) * p.n * inner + beside);
  for (u32 i = lane; i < p.size; i += threads) {
    // What fills a chunk up comes behind all that is in it.
    keys[i] = i < count ? key_of(from[i64(first + i) * inner]) : Key(-1);
    places[i] = i < count ? first + i : ~0u;
  }
  for (u32 run = 2; run <= p.size; run *= 2)
    for (u32 apart = run / 2; apart > 0; apart /= 2) {
      __syncthreads();
      for (u32 pair = lane; pair < p.size / 2; pair += threads) {
        const u32 a = 2 * pair - (pair & (apart - 1)), b = a + apart;
        const Key key_a = keys[a], key_b = keys[b];
        const u32 place_a = places[a], place_b = places[b];
        const bool turned = key_b < key_a || (key_b == key_a && place_b < place_a);
        if (turned == ((a & run) == 0)) {
          keys[a] = key_b, keys[b] = key_a;
          places[a] = place_b, places[b] = place_a;
        }
      }
    }
  __syncthreads();
  for (u32 i = lane; i < p.kept && i < count; i += threads) {
    if (p.per_row.divisor == 1) {
      const i64 to = (i64(outer) * p.k + i) * inner + beside;
      values[to] = from[i64(places[i]) * inner];
      indices[to] = places[i];
    } else {
      const i64 to = i64(chunk) * p.kept + i;
      keys_of_runs[to] = keys[i];
      places_of_runs[to] = places[i];
    }
  }
}
