// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/eager.h"

#include <gtest/gtest.h>

#include <limits>

#include "../../draw.h"
#include "backends/backend.h"
#include "backends/cpu/isa.h"
#include "graph/graph.h"
#include "graph/ops/nms.h"
#include "graph/ops/nonzero.h"
#include "graph/ops/reduce.h"
#include "graph/ops/slice.h"
#include "graph/ops/string_tokenize.h"
#include "graph/ops/topk.h"
#include "graph/strings.h"

namespace temper {
namespace {

using testing::Draw;

// On every instruction set of this machine, on one thread and on two.
void expect_as_reference(const Op& op, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> want = run_node(op, inputs, "node");
  const Isa best = best_isa();
  for (Isa isa : {Isa::base, Isa::avx2, Isa::avx512}) {
    if (isa > best) continue;
    set_isa(isa);
    for (int threads : {1, 2}) {
      SCOPED_TRACE(concat("threads=", threads, " isa=", int(isa)));
      const std::vector<Tensor> got = prepare_eager(op, "node", threads)(inputs);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(got[i].same_bits(want[i])) << "output " << i;
    }
  }
  set_isa(best);
}

// Boxes and scores of few different numbers, so that scores are equal, boxes empty, and quotients of sizes lie on the
// threshold; and of many.
TEST(EagerNms, ChoosesTheBoxesOfTheReference) {
  int64_t boxes_chosen = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw{std::mt19937_64(seed)};
    const bool coarse = draw.chance(60), center = draw.chance(40);
    const int64_t batches = draw(1, 2), classes = draw(1, 4), count = draw(0, draw.chance(20) ? 3000 : 150);
    auto number = [&](int64_t most) { return coarse ? float(draw(0, most)) : float(draw(0, most * 65536)) / 65536.f; };
    Tensor boxes(DType::f32, {batches, count, 4}), scores(DType::f32, {batches, classes, count});
    for (int64_t i = 0; i < boxes.count(); ++i) boxes.data<float>()[i] = number(coarse ? 8 : 40);
    for (int64_t i = 0; i < scores.count(); ++i) scores.data<float>()[i] = number(coarse ? 5 : 1) - 0.25f;
    std::vector<Tensor> inputs{boxes, scores};
    static constexpr float thresholds[] = {0, 0.25f, 0.5f, 1.f / 3, 0.45f, 1};
    if (draw.chance(95)) inputs.push_back(Tensor::of<int64_t>({1}, {draw.chance(50) ? draw(-1, 20) : 10000}));
    if (inputs.size() == 3 && draw.chance(90)) inputs.push_back(Tensor::of<float>({}, {thresholds[draw(0, 5)]}));
    if (inputs.size() == 4 && draw.chance(60)) inputs.push_back(Tensor::of<float>({}, {coarse ? 1.75f : 0.2f}));
    const Op op = ops::Nms{center};
    boxes_chosen += run_node(op, inputs, "node")[0].dims()[0];
    expect_as_reference(op, inputs);
  }
  EXPECT_GT(boxes_chosen, 3000);
}

TEST(EagerNms, RefusesWhatDoesNotFitTogether) {
  try {
    prepare_eager(ops::Nms{}, "boxes", 1)({Tensor(DType::f32, {1, 3, 4}), Tensor(DType::f32, {1, 2, 5})});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("nms 'boxes'"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("do not fit together"), std::string::npos) << error.what();
  }
}

TEST(EagerNonZero, FindsWhatTheReferenceFindsInEveryDtypeAndRank) {
  Draw draw{std::mt19937_64(1)};
  for (int d = 0; d < kDTypeCount; ++d)
    for (const Dims& dims : {Dims{}, Dims{0}, Dims{700}, Dims{5, 0, 3}, Dims{7, 90}, Dims{2, 3, 5, 50}})
      for (int one_in : {1, 3, 400}) {
        SCOPED_TRACE(concat(name_of(DType(d)), dims, " one in ", one_in));
        Tensor x(DType(d), dims);
        visit_dtype(DType(d), [&]<class T>() {
          // Of those that are not 0, the smallest and NaN; zeros of both signs.
          const double some[] = {1, -2, 6e-8, std::numeric_limits<double>::quiet_NaN()};
          for (int64_t i = 0; i < x.count(); ++i)
            x.data<T>()[i] = is_float(x.dtype()) ? static_cast<T>(draw(1, one_in) == 1 ? some[draw(0, 3)]
                                                                                       : (draw.chance(50) ? -0.0 : 0.0))
                                                 : static_cast<T>(draw(1, one_in) == 1 ? draw(1, 100) : 0);
        });
        expect_as_reference(ops::NonZero{}, {x});
      }
}

TEST(EagerNodes, ReduceTheAxesThatDataName) {
  Tensor x(DType::f32, {3, 4, 5});
  for (int64_t i = 0; i < x.count(); ++i) x.data<float>()[i] = float(i % 7);
  for (const std::vector<int64_t>& axes : {std::vector<int64_t>{1}, {-1, 0}, {}})
    for (bool none : {false, true}) {
      const Op op = ops::Reduce{.kind = ops::ReduceKind::max, .keepdims = false, .noop_with_empty_axes = none};
      const std::vector<Tensor> inputs{x, Tensor::of<int64_t>({int64_t(axes.size())}, axes)};
      const Dims want = axes.size() == 1 ? Dims{3, 5} : axes.size() == 2 ? Dims{4} : none ? x.dims() : Dims{};
      EXPECT_EQ(prepare_eager(op, "node", 1)(inputs).at(0).dims(), want);
      expect_as_reference(op, inputs);
    }
}

TEST(EagerNodes, ComputeWhatHasSizesThatAreDataAsTheReferenceDoes) {
  Draw draw{std::mt19937_64(1)};
  Tensor x(DType::f32, {3, 40});
  for (int64_t i = 0; i < x.count(); ++i) x.data<float>()[i] = float(draw(0, 30)) / 4;
  for (int64_t k : {0, 1, 17, 40}) expect_as_reference(ops::TopK{.axis = 1}, {x, Tensor::of<int64_t>({1}, {k})});
  EXPECT_THROW(prepare_eager(ops::TopK{.axis = 1}, "node", 1)({x, Tensor::of<int64_t>({1}, {41})}), Error);
}

// A kernel of the CPU, not the reference.
TEST(EagerNodes, AreLeftToTheFirstTacticThatTakesThem) {
  const Problem problem{ops::TopK{.k = 2, .axis = 1},
                        {{type_of(DType::f32, {3, 40})}},
                        {{type_of(DType::f32, {3, 2})}, {type_of(DType::i64, {3, 2})}}};
  EXPECT_EQ(plain_way(problem, open_device("cpu")).tactic->name, "cpu.topk");
}

// One that is prepared once, for rows of other words each time.
TEST(EagerStrings, ATokenizerServesRunAfterRun) {
  const ops::StringTokenize op{{" ", "[,;]+"}, "", 1, true, "#"};
  const RunEager tokenize = prepare_eager(op, "words", 1);
  for (const std::vector<std::string>& texts : {std::vector<std::string>{"a b,;c", "d"}, {"e"}, {"", ";"}}) {
    const Tensor x = tensor_of_strings({int64_t(texts.size())}, texts), want = run_node(op, {x}, "words")[0];
    EXPECT_EQ(tokenize({x}).at(0).dims(), want.dims());
    EXPECT_EQ(strings_of(tokenize({x}).at(0)), strings_of(want));
  }
  EXPECT_THROW(prepare_eager(ops::StringTokenize{{"("}}, "words", 1), Error);
}

}  // namespace
}  // namespace temper
