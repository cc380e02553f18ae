// SPDX-License-Identifier: Apache-2.0
// Functions that products by constant weights in panels of columns share. They say which problems they take, how the
// weights are packed, and how threads share out panels and rows.
#pragma once
#include <algorithm>
#include <cstring>

#include "backends/tactic.h"
#include "base/checked.h"
#include "base/threads.h"
#include "graph/ops/matmul.h"

namespace temper {

// Rows of the left operand, and the panels of the right one, which are {depth, columns}.
template <class Panels>
struct PanelProductSizes {
  int64_t m;
  Panels panels;
  explicit PanelProductSizes(const Problem& problem)
      : panels{problem.inputs[0].dims().back(), problem.outputs[0].dims().back()} {
    m = element_count(problem.outputs[0].dims()) / panels.columns;
  }
};

// For a MatMul: one constant matrix at the right of whatever is not empty. Types and the epilogue are the caller's.
inline Support panel_product_supported(const Problem& problem) {
  const Dims b = problem.inputs[1].dims();
  if (problem.op.get<ops::MatMul>().transpose_a) return refused("the left operand is transposed");
  if (!problem.inputs[1].is_constant) return refused("the weights are not constant");
  for (size_t i = 0; i + 2 < b.size(); ++i)
    if (b[i] != 1) return refused("a batch of weights");
  if (problem.inputs[0].dims().size() != problem.outputs[0].dims().size()) return refused("the weights have more axes");
  if (element_count(problem.outputs[0].dims()) == 0 || element_count(problem.inputs[0].dims()) == 0)
    return refused("an empty tensor");
  return supported();
}

// The weights, of T, in `elements` of the panels, with zeros between.
template <class T, class Panels>
Packed packed_panels(const Problem& problem, const Panels& panels, int64_t elements) {
  const bool transposed = problem.op.get<ops::MatMul>().transpose_b;
  const T* const from = problem.inputs[1].constant->data<T>();
  Packed packed;
  packed.bytes.resize(size_t(elements) * sizeof(T));
  std::memset(packed.bytes.data(), 0, packed.bytes.size());
  T* const to = reinterpret_cast<T*>(packed.bytes.data());
  for (int64_t column = 0; column < panels.columns; ++column)
    for (int64_t k = 0; k < panels.depth; ++k)
      to[panels.place(k, column)] = from[transposed ? column * panels.depth + k : k * panels.columns + column];
  packed.consumed.assign(problem.inputs.size(), false);
  packed.consumed[1] = true;
  return packed;
}

// Threads share out the panels; where those are few, chunks of rows too, all of nearly one size.
class PanelShares {
 public:
  // `chunks`: the fewest that the rows are cut into; each is a multiple of `multiple` rows, but the last.
  PanelShares(int threads, int64_t panels, int64_t rows, int64_t chunks, int64_t multiple)
      : threads_(threads), panels_(panels), rows_(rows), by_panels_(panels % threads == 0 || panels >= 4 * threads) {
    if (!by_panels_) chunks = std::max(chunks, ceil_div<int64_t>(4 * threads, panels));
    chunk_ = round_up(ceil_div(rows, chunks), multiple);
  }
  int64_t chunk() const { return chunk_; }

  // body(member, pieces) on each thread; pieces(use) calls use(row, first, last) for its chunks, which begin at `row`,
  // and panels [first, last). `operations`: of a row by a panel; `worth`: operations that are worth a thread.
  template <class Body>
  void run(int64_t operations, int64_t worth, Body body) const {
    parallel_for_threads(threads_, items(), grain(operations, worth),
                         [&](int member, int64_t begin, int64_t end) { share(member, begin, end, body); });
  }
  // The same with less at a time and body() more often, so that no thread waits long for one whose core others
  // use, too: 197x3072x768 of f32 beside a loop that takes a third of one of two cores takes 6.2 ms for 8 to 10.
  template <class Body>
  void run_by_pieces(int64_t operations, int64_t worth, Body body) const {
    parallel_for_pieces(threads_, items(), grain(operations, worth),
                        [&](int member, int64_t begin, int64_t end) { share(member, begin, end, body); });
  }

 private:
  int64_t items() const { return by_panels_ ? panels_ : panels_ * ceil_div(rows_, chunk_); }
  int64_t grain(int64_t operations, int64_t worth) const {
    return std::max<int64_t>(1, worth / (operations * (by_panels_ ? rows_ : chunk_)));
  }
  template <class Body>
  void share(int member, int64_t begin, int64_t end, Body& body) const {
    body(member, [&](auto use) {
      if (by_panels_)
        for (int64_t row = 0; row < rows_; row += chunk_) use(row, begin, end);
      else
        for (int64_t at = begin; at < end;) {
          const int64_t first = at % panels_, last = std::min(panels_, first + end - at);
          use(at / panels_ * chunk_, first, last);
          at += last - first;
        }
    });
  }

  int threads_;
  int64_t panels_, rows_, chunk_ = 0;
  bool by_panels_;
};

}  // namespace temper
