// SPDX-License-Identifier: Apache-2.0
// Random rolls, slices, joins, splits of axes and transposes, before and after gather_rows.
#include "../draw.h"
#include "../plan/helpers.h"
#include "graph/ops/gather.h"
#include "passes/pass.h"

namespace temper {
namespace {

class RandomMoves {
 public:
  explicit RandomMoves(uint32_t seed) : draw_{std::mt19937_64(seed)} {}

  std::string text() {
    dims_ = {2, draw_(1, 3) * 2, draw_(1, 3) * 2, draw_(1, 3)};
    out_ = concat("graph \"g\"\ninput %v0: f32", shape(), "\n");
    for (int64_t moves = draw_(1, 5); moves > 0; --moves) move();
    return out_ + concat("output \"y\" = %v", last_, "\n");
  }

 private:
  testing::Draw draw_;
  Dims dims_;
  std::string out_;
  int last_ = 0;

  std::string shape() const {
    std::string text = "[";
    for (int64_t size : dims_) text += concat(text.size() > 1 ? "," : "", size);
    return text + "]";
  }
  void put(const std::string& what) { out_ += concat("%v", ++last_, ": f32", shape(), " = ", what, "\n"); }
  std::string list(const Dims& numbers) const {
    std::string text = "[";
    for (int64_t number : numbers) text += concat(text.size() > 1 ? "," : "", number);
    return text + "]";
  }
  // A slice along an axis of value `from`, whose axes are `whole`.
  int slice(int from, const Dims& whole, size_t axis, int64_t start, int64_t size, int64_t step) {
    Dims starts(whole.size(), 0), steps(whole.size(), 1);
    dims_ = whole;
    starts[axis] = start, dims_[axis] = size, steps[axis] = step;
    put(concat("slice(%v", from, ") starts=", list(starts), " sizes=", shape(), " steps=", list(steps)));
    return last_;
  }
  void move() {
    const int from = last_;
    const Dims whole = dims_;
    const size_t rank = whole.size(), axis = size_t(draw_(draw_.chance(5) ? 0 : 1, int64_t(rank) - 2));
    switch (draw_(0, 4)) {
      case 0:
      case 1: {  // a roll
        if (whole[axis] < 2) return;
        const int64_t by = draw_(1, whole[axis] - 1);
        const int a = slice(from, whole, axis, by, whole[axis] - by, 1), b = slice(from, whole, axis, 0, by, 1);
        dims_ = whole;
        return put(concat("concat(%v", a, ", %v", b, ") axis=", axis));
      }
      case 2: {  // every other row beside the ones between, or behind them
        if (whole[axis] % 2) return;
        const int a = slice(from, whole, axis, 0, whole[axis] / 2, 2),
                  b = slice(from, whole, axis, 1, whole[axis] / 2, 2);
        const size_t along = draw_.chance(50) ? rank - 1 : axis;
        dims_ = whole;
        dims_[axis] /= 2, dims_[along] *= 2;
        return put(concat("concat(%v", a, ", %v", b, ") axis=", along));
      }
      case 3: {  // an axis is split
        if (whole[axis] % 2 || rank > 6) return;
        dims_[axis] = 2;
        dims_.insert(dims_.begin() + int64_t(axis) + 1, whole[axis] / 2);
        return put(concat("reshape(%v", from, ") shape=", shape()));
      }
      default: {
        Dims perm;
        for (size_t i = 0; i < rank; ++i) perm.push_back(int64_t(i));
        const size_t first = draw_.chance(5) ? 0 : 1, end = draw_.chance(5) ? rank : rank - 1;
        std::shuffle(perm.begin() + int64_t(first), perm.begin() + int64_t(end), draw_.random);
        for (size_t i = 0; i < rank; ++i) dims_[i] = whole[size_t(perm[i])];
        return put(concat("transpose(%v", from, ") perm=", list(perm)));
      }
    }
  }
};

TEST(GatherRows, RandomMovesGiveTheSameElements) {
  int gathers = 0;
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    const std::string text = RandomMoves(seed).text();
    SCOPED_TRACE(text);
    const Graph graph = parse_graph(text);
    Graph moved = graph;
    if (!gather_rows(moved, {})) continue;
    moved.compact();
    for (int32_t n = 0; n < moved.node_count(); ++n) gathers += moved.node({n}).op.is<ops::Gather>();
    const Dims dims = graph.type(graph.inputs()[0]).dims();
    std::vector<Tensor> answers;
    for (const Graph* g : {&graph, static_cast<const Graph*>(&moved)}) {
      auto engine = std::make_shared<Engine>(info_of("reference"), *g, 1);
      add_plan(engine, {dims});
      answers.push_back(Session(engine).run(std::vector<Tensor>{noise(dims, 3)}).at(0));
    }
    ASSERT_TRUE(answers[0].same_bits(answers[1]));
  }
  EXPECT_GT(gathers, 200);
}

}  // namespace
}  // namespace temper
