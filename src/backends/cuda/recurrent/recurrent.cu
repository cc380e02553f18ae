// SPDX-License-Identifier: Apache-2.0
// A recurrent net whose inputs are multiplied already, all steps in one launch. A cluster of CLUSTER blocks has some
// rows of the batch in one direction; each block has UNITS of the units with all of their gates, and its part of the
// weights, which stay in registers where they fit (RESIDENT; Diamos et al., "Persistent RNNs", 2016). After each step a
// block writes its units' states to the shared memory of all blocks, and the cluster meets: nothing goes through global
// memory but the inputs and the results.
//
// PARTS threads share a column (a unit's gate): each has every PARTS-th four of the state's elements. Then a thread has
// a unit of a row, whose gates it applies. A gru whose reset gate multiplies the state (RESETS_STATE) meets twice in a
// step.
//
// Defined before this text: KIND (0: lstm, 1: gru, 2: rnn), GATES, HIDDEN, UNITS, CLUSTER, PARTS, COLUMN_THREADS
// (columns at a time; the block has as many times PARTS threads), ROWS (of the batch), RESIDENT, RESETS_STATE, COUPLED
// (lstm: the forget gate is one minus the input gate), the functions function_f, function_g and function_h, and
// ARGUMENTS: x, weights (packed), bias, lengths, h0, c0, peepholes (null where there are none), y, last_h, last_c,
// fault.
#include "backends/cuda/support/memory.cuh"

struct Parameters {
  i32 steps, batch, directions;
  u32 reverse;  // the first direction runs backwards; a second one always does
  float clip;   // 0: none
};

constexpr int COLUMNS = GATES * UNITS, THREADS = COLUMN_THREADS * PARTS,
              TURNS = (COLUMNS + COLUMN_THREADS - 1) / COLUMN_THREADS;
constexpr int DEPTH = (HIDDEN + 4 * PARTS - 1) / (4 * PARTS) * 4;  // elements of the state of a thread
constexpr int STATE = DEPTH * PARTS;                               // of a row in shared memory
constexpr int ITEMS = (UNITS * ROWS + THREADS - 1) / THREADS;      // units of rows of a thread
constexpr int CANDIDATE = 2;                                       // gru: the gate that the reset gate acts on
static_assert(!RESIDENT || TURNS == 1, "weights in registers are those of one column");

// States of two steps, and what the reset gate leaves of them: element e of a row belongs to part e / 4 % PARTS. The
// columns' products.
struct Shared {
  alignas(16) float state[2][ROWS][STATE];
  alignas(16) float reset[RESETS_STATE ? ROWS : 1][STATE];
  float product[ROWS][COLUMNS];
};

DEVICE float clipped(float x, const Parameters& p) { return p.clip > 0 ? fminf(fmaxf(x, -p.clip), p.clip) : x; }
DEVICE void meet() {
#if CLUSTER > 1
  meet_cluster();
#else
  __syncthreads();
#endif
}
// To the same place in all blocks.
DEVICE void spread(float* to, float value) {
#if CLUSTER > 1
#pragma unroll
  for (u32 rank = 0; rank < CLUSTER; ++rank) *in_block(to, rank) = value;
#else
  *to = value;
#endif
}

struct Weights {
  float at[RESIDENT ? DEPTH : 1];
};

// Products of the columns from gate `first` to before gate `end` with the states `from`.
DEVICE void multiply(Shared& shared, const float (*from)[STATE], const Weights& resident, const float* weights,
                     int first, int end) {
  const int part = int(threadIdx.x) % PARTS;
#pragma unroll 1
  for (int turn = 0; turn < TURNS; ++turn) {
    const int column = turn * COLUMN_THREADS + int(threadIdx.x) / PARTS;
    const bool mine = column >= first * UNITS && column < end * UNITS;
    float sum[ROWS];
#pragma unroll
    for (int row = 0; row < ROWS; ++row) sum[row] = 0;
    if (mine) {
      const float* const of_turn = weights + turn * DEPTH * THREADS + threadIdx.x;
#pragma unroll(RESIDENT ? DEPTH / 4 : 4)
      for (int k = 0; k < DEPTH; k += 4) {
        float w[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) w[i] = RESIDENT ? resident.at[RESIDENT ? k + i : 0] : of_turn[(k + i) * THREADS];
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
          const Vec<float, 4> h = *reinterpret_cast<const Vec<float, 4>*>(&from[row][k * PARTS + part * 4]);
#pragma unroll
          for (int i = 0; i < 4; ++i) sum[row] = fmaf(w[i], h.at[i], sum[row]);
        }
      }
    }
#pragma unroll
    for (int row = 0; row < ROWS; ++row) {
#pragma unroll
      for (int far = 1; far < PARTS; far *= 2) sum[row] += __shfl_xor_sync(0xffffffffu, sum[row], far);
      if (mine && part == 0) shared.product[row][column] = sum[row];
    }
  }
}

#if CLUSTER > 1
#define DIMENSIONS __cluster_dims__(CLUSTER, 1, 1)
#else
#define DIMENSIONS
#endif

extern "C" __global__ void DIMENSIONS __launch_bounds__(THREADS) recurrent(ARGUMENTS, const Parameters p) {
  Shared& shared = *reinterpret_cast<Shared*>(dynamic_shared());
  const int rank = int(blockIdx.x) % CLUSTER, first_row = int(blockIdx.x) / CLUSTER * ROWS, direction = int(blockIdx.y);
  const float* const weights = packed + (i64(direction) * CLUSTER + rank) * (TURNS * DEPTH * THREADS);
  Weights resident;
#pragma unroll
  for (int k = 0; k < (RESIDENT ? DEPTH : 0); ++k) resident.at[k] = weights[k * THREADS + threadIdx.x];
  wait_for_inputs();

  const bool backwards = direction == 1 || p.reverse != 0;
  for (int i = int(threadIdx.x); i < ROWS * STATE; i += THREADS) {
    const int row = i / STATE, unit = i % STATE;
    const bool there = h0 != nullptr && first_row + row < p.batch && unit < HIDDEN;
    shared.state[0][row][unit] = there ? h0[(i64(direction) * p.batch + first_row + row) * HIDDEN + unit] : 0.0f;
    shared.state[1][row][unit] = 0;  // the elements behind the last unit
    if (RESETS_STATE) shared.reset[row][unit] = 0;
  }

  // This thread's units of rows.
  int unit[ITEMS], row[ITEMS], length[ITEMS];
  float h[ITEMS], c[ITEMS], biases[ITEMS][GATES];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int item = int(threadIdx.x) + i * THREADS;
    row[i] = item / UNITS;
    unit[i] = rank * UNITS + item % UNITS;
    length[i] = -1;  // there is none
    h[i] = c[i] = 0;
    if (row[i] >= ROWS || first_row + row[i] >= p.batch || unit[i] >= HIDDEN) continue;
    const i64 at = (i64(direction) * p.batch + first_row + row[i]) * HIDDEN + unit[i];
    length[i] = lengths ? lengths[first_row + row[i]] : p.steps;
    if (length[i] < 0 || length[i] > p.steps) {
      fault->index = length[i];
      fault->size = p.steps + 1;
      fault->raised = kIndexOutside;
      length[i] = 0;
    }
    if (h0) h[i] = h0[at];
    if (c0) c[i] = c0[at];
#pragma unroll
    for (int gate = 0; gate < GATES; ++gate)
      biases[i][gate] = bias ? bias[(i64(direction) * GATES + gate) * HIDDEN + unit[i]] : 0.0f;
  }
  meet();  // before it no block may write to another's shared memory

  for (int step = 0; step < p.steps; ++step) {
    const int now = step % 2;
    float input[ITEMS][GATES];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
#pragma unroll
      for (int gate = 0; gate < GATES; ++gate) {
        const int t = backwards ? length[i] - 1 - step : step;
        input[i][gate] =
            step < length[i]
                ? x[((i64(t) * p.batch + first_row + row[i]) * p.directions + direction) * (GATES * HIDDEN) +
                    gate * HIDDEN + unit[i]]
                : 0.0f;
      }
    multiply(shared, shared.state[now], resident, weights, 0, RESETS_STATE ? CANDIDATE : GATES);
    __syncthreads();
    float update[ITEMS];
    if constexpr (RESETS_STATE) {
#pragma unroll
      for (int i = 0; i < ITEMS; ++i) {
        if (step >= length[i]) continue;
        const float* const products = shared.product[row[i]] + (unit[i] - rank * UNITS);
        update[i] = function_f(clipped(input[i][0] + (products[0] + biases[i][0]), p));
        const float reset = function_f(clipped(input[i][1] + (products[UNITS] + biases[i][1]), p));
        spread(&shared.reset[row[i]][unit[i]], reset * h[i]);
      }
      meet();
      multiply(shared, shared.reset, resident, weights, CANDIDATE, GATES);
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      if (length[i] < 0) continue;
      const i64 place = (i64(direction) * p.batch + first_row + row[i]) * HIDDEN + unit[i];
      const i64 per_step = i64(p.directions) * p.batch * HIDDEN;
      if (step >= length[i]) {  // the sequence has ended
        y[step * per_step + place] = 0;
        continue;
      }
      const float* const products = shared.product[row[i]] + (unit[i] - rank * UNITS);
      float gate[GATES];
#pragma unroll
      for (int g = 0; g < GATES; ++g) gate[g] = products[g * UNITS] + biases[i][g];
      if constexpr (KIND == 0) {
        const float* const peep = peepholes ? peepholes + i64(direction) * 3 * HIDDEN + unit[i] : nullptr;
        const float before = c[i];
        const float in = function_f(clipped(input[i][0] + gate[0] + (peep ? peep[0] * before : 0.0f), p));
        const float forget =
            COUPLED ? 1.0f - in
                    : function_f(clipped(input[i][2] + gate[2] + (peep ? peep[2 * HIDDEN] * before : 0.0f), p));
        c[i] = forget * before + in * function_g(clipped(input[i][3] + gate[3], p));
        const float out = function_f(clipped(input[i][1] + gate[1] + (peep ? peep[HIDDEN] * c[i] : 0.0f), p));
        h[i] = out * function_h(clipped(c[i], p));
      } else if constexpr (KIND == 1) {
        if constexpr (!RESETS_STATE) update[i] = function_f(clipped(input[i][0] + gate[0], p));
        const float back = RESETS_STATE ? gate[2] : gate[2] * function_f(clipped(input[i][1] + gate[1], p));
        const float candidate = function_g(clipped(input[i][2] + back, p));
        h[i] = (1.0f - update[i]) * candidate + update[i] * h[i];
      } else {
        h[i] = function_f(clipped(input[i][0] + gate[0], p));
      }
      const int t = backwards ? length[i] - 1 - step : step;
      y[t * per_step + place] = h[i];
      spread(&shared.state[now ^ 1][row[i]][unit[i]], h[i]);
    }
    meet();
  }
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    if (length[i] < 0) continue;
    const i64 place = (i64(direction) * p.batch + first_row + row[i]) * HIDDEN + unit[i];
    last_h[place] = h[i];
    if constexpr (KIND == 0) last_c[place] = c[i];
  }
}
