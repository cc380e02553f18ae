// SPDX-License-Identifier: Apache-2.0
// recurrent nets on CPUs, whose inputs are multiplied already: a step multiplies the state by the weights and applies
// the gates. Weights are packed in panels of kUnits units with all of their gates, [state][gate][unit]: a panel is read
// once from front to back for some rows of the batch, and its sums hold all that the gates of its units need.
#include "graph/ops/recurrent.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/transpose_tiles.h"
#include "backends/cpu/vectors.h"
#include "backends/cpu/vmath.h"
#include "base/checked.h"
#include "base/threads.h"

namespace temper {

namespace {

using ops::Activation, ops::Recurrent, ops::RecurrentKind;

constexpr int64_t kUnits = 16;
constexpr int64_t kMostRows = 36;           // rows of the batch that a thread takes at a time
constexpr int64_t kWorthThreads = 1 << 16;  // products of a step that are worth a join of the threads (1 us)

enum Input : size_t { kX, kW, kR, kB, kLengths, kH0, kC0, kPeepholes };

// sums[m][v * W ...] = sum over k of h[m * h_row + k] * weights[k * step + v * W ...], for M rows and V vectors of W.
template <int W, int M, int V>
inline void multiply_panel(const float* h, int64_t h_row, int64_t depth, const float* weights, int64_t step,
                           float* sums, int64_t sums_row) {
  using Vector = typename VectorOf<W>::Type;
  Vector sum[M * V] = {};
  for (int64_t k = 0; k < depth; ++k, weights += step) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      Vector w;
      load(weights + v * W, w);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) sum[v * M + m] += h[m * h_row + k] * w;
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v)
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) store(sum[v * M + m], sums + m * sums_row + v * W);
}

// `rows` rows, M at a time, all of the panel's G * kUnits columns, V vectors of W at a time.
template <int W, int M, int V>
inline void multiply_rows(const float* h, int64_t h_row, int64_t rows, int64_t depth, const float* weights,
                          int64_t columns, float* sums) {
  for (int64_t c = 0; c < columns; c += V * W)
    for (int64_t m = 0; m + M <= rows; m += M)
      multiply_panel<W, M, V>(h + m * h_row, h_row, depth, weights + c, columns, sums + m * columns + c, columns);
}
template <int W, int V, int... M>
inline void multiply_all(const float* h, int64_t h_row, int64_t rows, int64_t depth, const float* weights,
                         int64_t columns, float* sums, std::integer_sequence<int, M...>) {
  auto take = [&]<int m>() {
    const int64_t whole = rows / m * m;
    multiply_rows<W, m, V>(h, h_row, whole, depth, weights, columns, sums);
    h += whole * h_row, sums += whole * columns, rows -= whole;
  };
  (take.template operator()<M>(), ...);
}

// sums [rows][columns] = h [rows][depth] times a panel [depth][columns]; columns: gates * kUnits.
void multiply_state(const float* h, int64_t h_row, int64_t rows, int64_t depth, const float* weights, int64_t columns,
                    float* sums) {
  const Isa isa = cpu_isa();
  vectorised([=] {
    constexpr std::integer_sequence<int, 6, 2, 1> kRows;
    auto whole = [&]<int gates>() {  // of AVX-512's vectors
      multiply_all<16, gates>(h, h_row, rows, depth, weights, columns, sums, kRows);
    };
    if (isa == Isa::avx512) {
      switch (columns / kUnits) {
        case 1: return whole.template operator()<1>();
        case 2: return whole.template operator()<2>();
        case 3: return whole.template operator()<3>();
        default: return whole.template operator()<4>();
      }
    }
    // A panel that is read for one row alone is read in one go.
    if (rows == 1 && columns == 4 * kUnits)
      return multiply_all<kNarrow, 8>(h, h_row, rows, depth, weights, columns, sums, std::integer_sequence<int, 1>());
    if (rows == 1 && columns == 3 * kUnits)
      return multiply_all<kNarrow, 6>(h, h_row, rows, depth, weights, columns, sums, std::integer_sequence<int, 1>());
    multiply_all<kNarrow, kUnits / kNarrow>(h, h_row, rows, depth, weights, columns, sums, kRows);
  });
}

void activate(Activation kind, float* x, int64_t n, float clip, float alpha, float beta) {
  vectorised([=] {
    auto each = [=](auto function) {
      TEMPER_NO_ALIAS
      for (int64_t i = 0; i < n; ++i) {
        float value = x[i];
        if (clip > 0) value = value < -clip ? -clip : value > clip ? clip : value;
        x[i] = function(value);
      }
    };
    switch (kind) {
      case Activation::tanh: return each([](float v) { return vmath::tanh(v); });
      case Activation::sigmoid: return each([](float v) { return 1.f / (1.f + vmath::exp(-v)); });
      case Activation::relu: return each([](float v) { return v > 0 ? v : 0.f; });
      case Activation::softsign: return each([](float v) { return v / (1.f + vmath::magnitude(v)); });
      case Activation::affine: return each([=](float v) { return alpha * v + beta; });
      case Activation::leaky_relu: return each([=](float v) { return v >= 0 ? v : alpha * v; });
      case Activation::thresholded_relu: return each([=](float v) { return v >= alpha ? v : 0.f; });
      case Activation::scaled_tanh: return each([=](float v) { return alpha * vmath::tanh(beta * v); });
      case Activation::hard_sigmoid:
        return each([=](float v) {
          const float y = alpha * v + beta;
          return y < 0 ? 0.f : y > 1 ? 1.f : y;
        });
      default: throw std::logic_error("an activation that was not refused");
    }
  });
}
bool is_vectorised(Activation kind) { return kind != Activation::softplus && kind != Activation::elu; }

// Gates whose products are taken together, in ONNX's order: a gru whose reset gate multiplies the state has the
// candidate's behind those of the gates.
struct Group {
  int64_t first, count;
};
std::vector<Group> groups_of(const Recurrent& op) {
  if (op.kind == RecurrentKind::gru && !op.linear_before_reset) return {{0, 2}, {2, 1}};
  return {{0, op.gates()}};
}

struct Sizes {
  int64_t steps, batch, hidden, directions, gates;
  explicit Sizes(const Problem& problem) {
    const Dims x = problem.inputs[kX].dims();
    const Recurrent& op = problem.op.get<Recurrent>();
    steps = x[0], batch = x[1], hidden = problem.inputs[kR].dims()[2], directions = op.directions(), gates = op.gates();
  }
  int64_t panels() const { return ceil_div(hidden, kUnits); }
  // Floats of all panels of a direction.
  int64_t packed() const { return panels() * hidden * gates * kUnits; }
};

// Rows of the weights [directions, gates, units, states] become panels, `begin` to `end` of all that there are.
void pack_panels(const Recurrent& op, const Sizes& s, const float* from, float* to, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const int64_t d = i / s.panels(), at = i % s.panels() * kUnits, units = std::min(kUnits, s.hidden - at);
    float* group_of = to + d * s.packed();
    for (const Group& group : groups_of(op)) {
      const int64_t columns = group.count * kUnits;
      float* const panel = group_of + at / kUnits * s.hidden * columns;
      for (int64_t g = 0; g < group.count; ++g) {
        const float* const rows = from + ((d * s.gates + group.first + g) * s.hidden + at) * s.hidden;
        float* const columns_of = panel + g * kUnits;
        const int64_t depth = s.hidden, squares = units == kUnits ? depth / 8 * 8 : 0;
        const auto bytes = [](int64_t floats) { return floats * int64_t(sizeof(float)); };
        vectorised_by_8([=] {
          for (int64_t k = 0; k < squares; k += 8)
            for (int64_t u = 0; u < kUnits; u += 8)
              transpose_8x8(reinterpret_cast<const std::byte*>(rows + u * depth + k), bytes(depth),
                            reinterpret_cast<std::byte*>(columns_of + k * columns + u), bytes(columns));
        });
        for (int64_t k = squares; k < depth; ++k)
          for (int64_t u = 0; u < kUnits; ++u) columns_of[k * columns + u] = u < units ? rows[u * depth + k] : 0.f;
      }
      group_of += s.panels() * s.hidden * columns;
    }
  }
}

class RecurrentKernel final : public Kernel {
 public:
  RecurrentKernel(const Problem& problem, std::span<const std::byte> packed)
      : op_(problem.op.get<Recurrent>()),
        s_(problem),
        threads_(std::max(1, problem.threads)),
        packs_(!problem.inputs[kR].is_constant),
        weights_(reinterpret_cast<const float*>(packed.data())) {
    expect_packed(packed, packs_ ? 0 : size_t(s_.directions * s_.packed()) * sizeof(float));
    for (size_t i = 0; i < problem.inputs.size(); ++i) present_[i] = problem.inputs[i].present;
    // As many rows at a time as leave a task for each thread.
    const int64_t each = ceil_div<int64_t>(s_.batch * s_.directions, threads_);
    rows_ = std::clamp<int64_t>(std::min(each, s_.batch), 1, kMostRows);
    chunks_ = s_.batch > 0 ? ceil_div(s_.batch, rows_) : 0;
  }

  bool reads(size_t input) const override { return input != kR || packs_; }
  // Of a task: the states of two steps, the cells, what the reset gate leaves, the products of all panels. Behind them
  // the panels of weights that are data.
  int64_t workspace() const override {
    return (tasks() * scratch() + (packs_ ? s_.directions * s_.packed() : 0)) * int64_t(sizeof(float));
  }

  void launch(const Buffers& buffers) override {
    if (packs_) {
      float* const panels = static_cast<float*>(buffers.workspace) + tasks() * scratch();
      parallel_for_threads(threads_, s_.directions * s_.panels(),
                           std::max<int64_t>(1, kWorthThreads / (s_.hidden * s_.gates * kUnits + 1)),
                           [&](int, int64_t begin, int64_t end) {
                             pack_panels(op_, s_, static_cast<const float*>(buffers.inputs[kR]), panels, begin, end);
                           });
      weights_ = panels;
    }
    // Few tasks with much to do share out the panels of each step.
    const bool by_panels = tasks() < threads_ && s_.hidden * s_.hidden * s_.gates * rows_ >= kWorthThreads;
    if (by_panels) {
      for (int64_t task = 0; task < tasks(); ++task) run(buffers, task, threads_);
      return;
    }
    parallel_for_threads(threads_, tasks(), 1, [&](int, int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) run(buffers, task, 1);
    });
  }

 private:
  Recurrent op_;
  Sizes s_;
  int threads_;
  bool packs_;  // weights that are data, in each run
  const float* weights_;
  bool present_[8] = {};
  int64_t rows_, chunks_;

  int64_t tasks() const { return s_.directions * chunks_; }
  int64_t padded() const { return s_.panels() * kUnits; }
  int64_t scratch() const { return rows_ * padded() * (4 + s_.gates); }

  const float* floats(const Buffers& buffers, Input input) const {
    return present_[input] ? static_cast<const float*>(buffers.inputs[input]) : nullptr;
  }
  void apply(int which, float* x, int64_t n) const {
    const Activation kind = which == 0 ? op_.f : which == 1 ? op_.g : op_.h;
    activate(kind, x, n, float(op_.clip), op_.alpha.empty() ? 0.f : float(op_.alpha[size_t(which)]),
             op_.beta.empty() ? 0.f : float(op_.beta[size_t(which)]));
  }

  // All steps of some rows of the batch in one direction.
  void run(const Buffers& buffers, int64_t task, int threads) const {
    const int64_t d = task / chunks_, first = task % chunks_ * rows_, rows = std::min(rows_, s_.batch - first);
    const int64_t hidden = s_.hidden, wide = s_.gates * hidden, pad = padded();
    const bool backwards = op_.direction == ops::RecurrentDirection::reverse || d == 1;
    float *h = static_cast<float*>(buffers.workspace) + task * scratch(), *next = h + rows_ * pad,
          *cell = next + rows_ * pad, *reset = cell + rows_ * pad, *sums = reset + rows_ * pad;
    const float *x = floats(buffers, kX), *h0 = floats(buffers, kH0), *c0 = floats(buffers, kC0);
    float* const y = static_cast<float*>(buffers.outputs[0]);
    const int32_t* const lengths = present_[kLengths] ? static_cast<const int32_t*>(buffers.inputs[kLengths]) : nullptr;
    std::fill_n(h, 4 * rows_ * pad, 0.f);
    for (int64_t b = 0; b < rows; ++b) {
      const int64_t from = (d * s_.batch + first + b) * hidden;
      if (h0) std::copy_n(h0 + from, hidden, h + b * pad);
      if (c0) std::copy_n(c0 + from, hidden, cell + b * pad);
      const int64_t length = lengths ? lengths[first + b] : s_.steps;
      if (length < 0 || length > s_.steps)
        fail(ErrorKind::usage, "a sequence of length ", length, " in ", s_.steps, " steps");
      for (int64_t t = length; t < s_.steps; ++t)
        std::fill_n(y + ((t * s_.directions + d) * s_.batch + first + b) * hidden, hidden, 0.f);
    }
    const std::vector<Group> groups = groups_of(op_);
    const int64_t panels = s_.panels();
    const int64_t span = kMostRows / rows;  // panels whose gates are computed at once
    auto sums_of = [=, this](int64_t panel) { return sums + panel * rows_ * s_.gates * kUnits; };
    for (int64_t step = 0; step < s_.steps; ++step) {
      auto time_of = [&](int64_t b) {  // -1: the sequence has ended
        const int64_t length = lengths ? lengths[first + b] : s_.steps;
        return step >= length ? -1 : backwards ? length - 1 - step : step;
      };
      const float* weights = weights_ + d * s_.packed();
      for (const Group& group : groups) {
        const int64_t columns = group.count * kUnits;
        const float* const from = &group == &groups[0] ? h : reset;
        parallel_for_threads(threads, panels, 1, [&](int, int64_t begin, int64_t end) {
          for (int64_t i = begin, count; i < end; i += count) {
            count = std::min(span, end - i);
            // Back and forth: the panels that a step read last are still in the cache.
            const int64_t panel = step % 2 ? begin + end - i - count : i;
            const float* inputs[kMostRows];
            for (int64_t b = 0; b < rows; ++b) {
              const int64_t t = time_of(b);
              inputs[b] = t < 0 ? nullptr : x + ((t * s_.batch + first + b) * s_.directions + d) * wide;
              for (int64_t g = group.first; g < group.first + group.count && t >= 0; ++g)  // read behind the products
                __builtin_prefetch(inputs[b] + g * hidden + panel * kUnits);
            }
            for (int64_t p = panel; p < panel + count; ++p)
              multiply_state(from, pad, rows, hidden, weights + p * hidden * columns, columns, sums_of(p));
            finish(buffers, group, d, panel, count, rows, sums_of(panel), inputs, {h, next, cell, reset});
          }
        });
        weights += panels * hidden * columns;
      }
      for (int64_t b = 0; b < rows; ++b) {
        const int64_t t = time_of(b);
        if (t < 0) continue;
        std::copy_n(next + b * pad, hidden, h + b * pad);
        std::copy_n(next + b * pad, hidden, y + ((t * s_.directions + d) * s_.batch + first + b) * hidden);
      }
    }
    for (int64_t b = 0; b < rows; ++b) {
      const int64_t to = (d * s_.batch + first + b) * hidden;
      std::copy_n(h + b * pad, hidden, static_cast<float*>(buffers.outputs[1]) + to);
      if (op_.kind == RecurrentKind::lstm)
        std::copy_n(cell + b * pad, hidden, static_cast<float*>(buffers.outputs[2]) + to);
    }
  }

  struct States {  // of all rows
    const float* h;
    float *next, *cell, *reset;
  };

  // The gates of the units of `count` panels. `sums`: of each panel [row][gate of the group][unit], as far apart as all
  // rows and gates take; inputs[row]: its products at this step, null where the sequence has ended, whose states stay
  // as they are.
  void finish(const Buffers& buffers, const Group& group, int64_t d, int64_t panel, int64_t count, int64_t rows,
              const float* sums, const float* const* inputs, const States& states) const {
    const int64_t hidden = s_.hidden, pad = padded(), at = panel * kUnits, width = count * kUnits,
                  units = std::min(width, hidden - at), n = rows * width;
    const float *const b = floats(buffers, kB), *const peepholes = floats(buffers, kPeepholes);
    // [gate][row][unit]: the products of the inputs, those of the state added to them but where a gate stands between.
    constexpr int64_t kMost = kMostRows * kUnits;
    alignas(64) float gate[4][kMost], back[kMost], c[kMost];
    float *const gate0 = gate[0], *const gate1 = gate[1], *const gate2 = gate[2], *const gate3 = gate[3],
                 *const products = back, *const cells = c;
    const int64_t columns = group.count * kUnits, apart_by = rows_ * s_.gates * kUnits;
    for (int64_t g = 0; g < group.count; ++g) {
      const int64_t from = (group.first + g) * hidden + at;
      float bias[kMost] = {};
      if (b) std::copy_n(b + d * s_.gates * hidden + from, units, bias);
      if (units < width) std::fill_n(gate[g], n, 0.f);
      for (int64_t row = 0; row < rows; ++row) {
        if (inputs[row]) std::copy_n(inputs[row] + from, units, gate[g] + row * width);
        else std::fill_n(gate[g] + row * width, width, 0.f);
      }
      float* const to = gate[g];
      const float *const sum = sums + g * kUnits, *const added = bias;
      const bool apart = op_.linear_before_reset && g == 2;
      vectorised([=] {
        for (int64_t row = 0; row < rows; ++row)
          for (int64_t p = 0; p < count; ++p) {
            const int64_t place = row * width + p * kUnits;
            const float* const of_panel = sum + p * apart_by + row * columns;
            TEMPER_NO_ALIAS
            for (int64_t u = 0; u < kUnits; ++u) {
              const float of_state = of_panel[u] + added[p * kUnits + u];
              if (apart) products[place + u] = of_state;
              else to[place + u] += of_state;
            }
          }
      });
    }
    // The panel's columns of a state of all rows, and back, of the sequences that go on.
    auto read = [&](const float* state, float* to) {
      for (int64_t row = 0; row < rows; ++row) std::copy_n(state + row * pad + at, width, to + row * width);
    };
    auto write = [&](const float* from, float* state) {
      for (int64_t row = 0; row < rows; ++row)
        if (inputs[row]) std::copy_n(from + row * width, width, state + row * pad + at);
    };
    auto peep = [&](int64_t which, float* to) {
      if (!peepholes) return;
      const float* p = peepholes + (d * 3 + which) * hidden + at;
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t u = 0; u < units; ++u) to[row * width + u] += p[u] * c[row * width + u];
    };
    if (op_.kind == RecurrentKind::lstm) {
      read(states.cell, c);
      peep(0, gate0), peep(2, gate2);
      apply(0, gate0, n), apply(1, gate3, n);
      const bool coupled = op_.couple_input_forget;
      if (!coupled) apply(0, gate2, n);
      vectorised([=] {
        TEMPER_NO_ALIAS
        for (int64_t i = 0; i < n; ++i)
          cells[i] = (coupled ? 1.f - gate0[i] : gate2[i]) * cells[i] + gate0[i] * gate3[i];
      });
      peep(1, gate1);
      apply(0, gate1, n);
      write(c, states.cell);
      apply(2, c, n);
      vectorised([=] {
        TEMPER_NO_ALIAS
        for (int64_t i = 0; i < n; ++i) gate1[i] *= cells[i];
      });
      return write(gate1, states.next);
    }
    if (op_.kind == RecurrentKind::rnn) {
      apply(0, gate0, n);
      return write(gate0, states.next);
    }
    // gru; the state in `c`. The update gate waits in `next`, where the candidate comes behind the product of the reset
    // state.
    read(states.h, c);
    float *candidate = gate0, *update = gate1;
    if (group.first == 0) {
      apply(0, gate0, n), apply(0, gate1, n);
      if (!op_.linear_before_reset) {
        write(gate0, states.next);
        vectorised([=] {
          TEMPER_NO_ALIAS
          for (int64_t i = 0; i < n; ++i) gate1[i] *= cells[i];
        });
        return write(gate1, states.reset);
      }
      vectorised([=] {
        TEMPER_NO_ALIAS
        for (int64_t i = 0; i < n; ++i) gate2[i] += gate1[i] * products[i];
      });
      candidate = gate2, update = gate0;
    } else {
      read(states.next, gate1);
    }
    apply(1, candidate, n);
    vectorised([=] {
      TEMPER_NO_ALIAS
      for (int64_t i = 0; i < n; ++i) candidate[i] = (1.f - update[i]) * candidate[i] + update[i] * cells[i];
    });
    write(candidate, states.next);
  }
};

Support supports(const Problem& problem, const Device& device) {
  if (auto s = needs_op<Recurrent>(problem); !s.yes()) return s;
  const Recurrent& op = problem.op.get<Recurrent>();
  if (!op.projected) return refused("the product of its inputs is not taken out of it");
  if (problem.inputs[kX].type.dtype != DType::f32) return refused("not of f32");
  const bool lstm = op.kind == RecurrentKind::lstm, one = op.kind == RecurrentKind::rnn;
  for (const Activation kind : {op.f, one ? op.f : op.g, lstm ? op.h : op.f})
    if (!is_vectorised(kind)) return refused("the activation ", enum_names(Activation{})[size_t(kind)]);
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device&) { return {uniform_config(problem, Layout::plain)}; }

Packed build(const Problem& problem, const Config&, const Device&) {
  const Sizes s(problem);
  Packed packed;
  packed.consumed.assign(problem.inputs.size(), false);
  if (!problem.inputs[kR].is_constant) return packed;
  packed.bytes.resize(size_t(s.directions * s.packed()) * sizeof(float));
  pack_panels(problem.op.get<Recurrent>(), s, problem.inputs[kR].constant->data<float>(),
              reinterpret_cast<float*>(packed.bytes.data()), 0, s.directions * s.panels());
  packed.consumed[kR] = true;
  return packed;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config&, const PackedView& packed, const Device&) {
  return std::make_unique<RecurrentKernel>(problem, packed);
}

}  // namespace

extern const Tactic cpu_recurrent;
const Tactic cpu_recurrent{"cpu.recurrent", 3, supports, configs, build, load};

}  // namespace temper
