// SPDX-License-Identifier: Apache-2.0
// Transposes and reshapes that are no step: the layouts on their two sides hold the same bytes.
#include "plan/views.h"

#include <algorithm>

#include "../draw.h"
#include "base/hash.h"
#include "graph/ops/reshape.h"
#include "graph/ops/transpose.h"
#include "helpers.h"
#include "plan/check.h"
#include "plan/view_layouts.h"

namespace temper {
namespace {

using Pairs = std::vector<std::pair<Layout, Layout>>;
constexpr Layout kPlain = Layout::plain, kLast = Layout::channels_last;

Pairs pairs_of(Op op, Dims from, Dims to) {
  Problem problem;
  problem.op = std::move(op);
  problem.inputs = {{TensorType{DType::f32, Shape(from.begin(), from.end())}}};
  problem.outputs = {{TensorType{DType::f32, Shape(to.begin(), to.end())}}};
  Pairs pairs;
  for (const Config& config : view_configs(problem)) pairs.emplace_back(config.inputs[0], config.outputs[0]);
  return pairs;
}
Pairs of_transpose(std::vector<int64_t> perm, Dims from) {
  Dims to;
  for (int64_t axis : perm) to.push_back(from[size_t(axis)]);
  return pairs_of(ops::Transpose{perm}, from, to);
}
Pairs of_reshape(Dims from, Dims to) {
  ops::Reshape op;
  op.shape = Shape(to.begin(), to.end());
  return pairs_of(op, from, to);
}

TEST(Views, ATransposeOfChannelsIsAViewBetweenPlainAndChannelsLast) {
  EXPECT_EQ(of_transpose({0, 2, 3, 1}, {2, 5, 3, 4}), (Pairs{{kLast, kPlain}}));
  EXPECT_EQ(of_transpose({0, 3, 1, 2}, {2, 3, 4, 5}), (Pairs{{kPlain, kLast}}));
  EXPECT_EQ(of_transpose({0, 2, 1}, {2, 5, 12}), (Pairs{{kPlain, kLast}, {kLast, kPlain}}));
  EXPECT_EQ(of_transpose({0, 2, 1, 3}, {2, 3, 4, 5}), Pairs());
  EXPECT_EQ(of_transpose({0, 1, 3, 2}, {2, 3, 4, 5}), Pairs());
  EXPECT_EQ(of_transpose({1, 0}, {4, 5}), Pairs());
  // An axis of size 1 lies anywhere: here only 3 and 5 are in another order.
  EXPECT_EQ(of_transpose({0, 2, 1, 3}, {2, 3, 5, 1}), (Pairs{{kPlain, kLast}, {kLast, kPlain}}));
  EXPECT_EQ(of_transpose({0, 2, 3, 1}, {0, 5, 3, 4}), Pairs());
}

TEST(Views, AReshapeThatKeepsTheChannelsIsAViewInChannelsLastToo) {
  EXPECT_EQ(of_reshape({2, 5, 3, 4}, {2, 5, 12}), (Pairs{{kPlain, kPlain}, {kLast, kLast}}));
  EXPECT_EQ(of_reshape({2, 5, 12}, {2, 5, 3, 4}), (Pairs{{kPlain, kPlain}, {kLast, kLast}}));
  EXPECT_EQ(of_reshape({2, 5, 3, 4}, {2, 5, 2, 6}), (Pairs{{kPlain, kPlain}}));  // 3 and 2 do not divide each other
  EXPECT_EQ(of_reshape({2, 6, 3, 4}, {2, 2, 3, 12}), (Pairs{{kPlain, kPlain}}));
  EXPECT_EQ(of_reshape({2, 5, 4}, {10, 4}), (Pairs{{kPlain, kPlain}}));
  EXPECT_EQ(of_reshape({2, 5, 1, 1}, {2, 5}), (Pairs{{kPlain, kPlain}, {kLast, kPlain}}));
  EXPECT_EQ(of_reshape({0, 5, 4}, {0, 20}), (Pairs{{kPlain, kPlain}}));
}

// By what the layout of the first output is, or drawn at random from the candidate and a seed.
struct LayoutTimes final : TimeSource {
  uint32_t seed;
  explicit LayoutTimes(uint32_t its_seed) : seed(its_seed) {}
  CandidateTime time(const Problem& problem, const Tactic& tactic, const Config& config, int) override {
    if (!seed) return CandidateTime::of(config.outputs[0] == kLast ? 0.001 : 1);
    std::string text = concat(problem.text(), tactic.name, config.text, seed);
    for (Layout layout : config.inputs) text += concat(layout);
    for (Layout layout : config.outputs) text += concat(layout);
    return CandidateTime::of(1e-3 * double(1 + xxh3(text) % 1000));
  }
};

// Builds for the CPU with such times, holds the answers against the reference's, and returns the plan.
Plan checked_plan(const std::string& text, const std::vector<Tensor>& blobs, uint32_t seed,
                  const std::vector<SegmentSpec>& segments = {}) {
  const Graph graph = parse_graph("graph \"g\"\n" + text, blobs);
  std::vector<Tensor> inputs;
  for (ValueId input : graph.inputs()) inputs.push_back(noise(graph.type(input).dims(), 1 + uint32_t(inputs.size())));
  std::vector<Tensor> answers[2];
  Plan plan;
  for (const bool reference : {true, false}) {
    const Engine empty(info_of(reference ? "reference" : "cpu"), graph, 1);
    LayoutTimes times(seed);
    PlanOptions options;
    options.times = &times;
    if (!reference) options.segments = segments;
    plan = build_plan(graph, find_backend(empty.info().device), empty.device(), options);
    answers[reference] = Session(with_plan(empty, plan)).run(inputs);
  }
  expect_close(answers[0], answers[1], 1e-4);
  check_plan(plan, find_backend("cpu"));  // as it is when its file is read
  return plan;
}

std::vector<std::string> steps_of(const Plan& plan) {
  std::vector<std::string> steps;
  for (const Segment& segment : plan.segments)
    for (const PlanStep& step : segment.steps) steps.push_back(step.node);
  return steps;
}

TEST(Views, TokensAreConvolvedInChannelsLastWithoutACopy) {
  const std::string text =
      "input %x: f32[2,12,16]\n"
      "const %w: f32[16,1,3,3] = #0\n"
      "const %m: f32[16,16] = #1\n"
      "%a: f32[2,12,16] = matmul(%x, %m)\n"
      "%t: f32[2,16,12] = transpose(%a) perm=[0,2,1]\n"
      "%i: f32[2,16,3,4] = reshape(%t) shape=[2,16,3,4]\n"
      "%c: f32[2,16,3,4] = conv(%i, %w) strides=[1,1] dilations=[1,1] pads=[1,1,1,1] group=16\n"
      "%f: f32[2,16,12] = reshape(%c) shape=[2,16,12]\n"
      "%b: f32[2,12,16] = transpose(%f) perm=[0,2,1]\n"
      "%y: f32[2,12,16] = matmul(%b, %m)\n"
      "output \"y\" = %y\n";
  const std::vector<Tensor> blobs{noise({16, 1, 3, 3}, 7), noise({16, 16}, 8)};
  EXPECT_EQ(steps_of(checked_plan(text, blobs, 0)), (std::vector<std::string>{"a", "c", "y"}));
  EXPECT_EQ(steps_of(checked_plan(text, blobs, 0, {{0, 6, 1, false}})), (std::vector<std::string>{"a", "c", "y"}));
  EXPECT_EQ(steps_of(checked_plan(text, blobs, 0, {{0, 2, 0, false}, {3, 6, 1, false}})),
            (std::vector<std::string>{"a", "c", "y"}));
}

TEST(Views, AnOutputThatIsAViewOfChannelsLastIsWrittenInPlace) {
  const Plan plan = checked_plan(
      "input %x: f32[2,16,3,4]\n"
      "const %w: f32[16,16,1,1] = #0\n"
      "%c: f32[2,16,3,4] = conv(%x, %w) strides=[1,1] dilations=[1,1] pads=[0,0,0,0]\n"
      "%y: f32[2,3,4,16] = transpose(%c) perm=[0,2,3,1]\n"
      "output \"y\" = %y\n",
      {noise({16, 16, 1, 1}, 7)}, 0);
  EXPECT_EQ(plan.segments.back().steps.back().node, "c");
  EXPECT_EQ(plan.segments.back().steps.back().outputs[0].kind, BufferRef::Kind::output);
}

// The grid of a detector, which stands beside what a convolution in channels last made.
TEST(Views, AConstantThatAStepBringsIntoAnotherLayoutIsNoConstantOfItsReader) {
  const Plan plan = checked_plan(
      "input %x: f32[1,16,3,4]\n"
      "const %w: f32[16,16,1,1] = #0\n"
      "const %grid: f32[1,16,3,4] = #1\n"
      "%c: f32[1,16,3,4] = conv(%x, %w) strides=[1,1] dilations=[1,1] pads=[0,0,0,0]\n"
      "%y: f32[1,16,3,4] = pointwise(%c, %grid) program=\"(2) 2=add.f32(0,1)\"\n"
      "output \"y\" = %y\n",
      {noise({16, 16, 1, 1}, 7), noise({1, 16, 3, 4}, 8)}, 0);
  const std::vector<std::string> steps = steps_of(plan);
  EXPECT_EQ(std::count(steps.begin(), steps.end(), "reorder of grid"), 1);
  const PlanStep& reader = step_of(plan, "y");
  EXPECT_FALSE(reader.problem.inputs[1].is_constant);
  EXPECT_NE(reader.inputs[1].kind, BufferRef::Kind::constant);
}

// Values of [2, 16 channels, 6 x 4] as images, as [N,C,HW], and as tokens of both ranks.
class RandomViews {
 public:
  RandomViews(uint32_t seed, bool joins) : draw_{std::mt19937_64(seed)}, joins_(joins) {}

  std::string text() {
    out_ = "input %v0: f32[2,16,6,4]\nconst %w: f32[16,1,3,3] = #0\nconst %u: f32[16,16,1,1] = #1\n";
    forms_ = {0};
    const int64_t nodes = draw_(6, 14);
    for (int64_t n = 0; n < nodes; ++n) add();
    out_ += concat("output \"y\" = %v", forms_.size() - 1, "\n");
    if (draw_(0, 1)) out_ += concat("output \"z\" = %v", draw_(1, int64_t(forms_.size()) - 1), "\n");
    return out_;
  }
  int nodes() const { return int(forms_.size()) - 1 + extra_; }

 private:
  testing::Draw draw_;
  const bool joins_;  // with concats, which run on the whole batch
  int extra_ = 0;
  std::string out_;
  std::vector<int> forms_;  // of each value
  static constexpr std::string_view kShapes[] = {"[2,16,6,4]", "[2,16,24]", "[2,6,4,16]", "[2,24,16]"};

  static int channels_of(int form) { return form < 2 ? 1 : form == 2 ? 3 : 2; }
  // The halves of the channels change places.
  void swap_halves(int form, const std::string& x) {
    std::string half(kShapes[form]), starts(form % 2 ? "[0,0,0]" : "[0,0,0,0]"),
        steps(form % 2 ? "[1,1,1]" : "[1,1,1,1]");
    half.replace(half.find("16"), 2, "8");
    const std::string n = concat(forms_.size());
    const auto slice = [&](std::string_view name) {
      out_ += concat("%", name, n, ": f32", half, " = slice(", x, ") starts=", starts, " sizes=", half,
                     " steps=", steps, "\n");
    };
    slice("a");
    starts[size_t(1 + 2 * channels_of(form))] = '8';
    slice("b");
    extra_ += 2;
    put(form, concat("concat(%b", n, ", %a", n, ") axis=", channels_of(form)));
  }
  void put(int form, const std::string& what) {
    out_ += concat("%v", forms_.size(), ": f32", kShapes[form], " = ", what, "\n");
    forms_.push_back(form);
  }
  void add() {
    const int64_t last = int64_t(forms_.size()) - 1, at = draw_.chance(75) ? last : draw_(0, last);
    const int form = forms_[size_t(at)];
    const std::string x = concat("%v", at);
    switch (draw_(joins_ ? -1 : 0, 6)) {
      case -1: return swap_halves(form, x);
      case 0: return put(form, concat("pointwise(", x, ") program=\"(1) 1=neg.f32(0)\""));
      case 1: return put(form, concat("softmax(", x, ") axis=", channels_of(form)));
      case 2:
        for (size_t other = forms_.size(); other-- > 0;)
          if (forms_[other] == form && int64_t(other) != at)
            return put(form, concat("pointwise(", x, ", %v", other, ") program=\"(2) 2=add.f32(0,1)\""));
        return;
      case 3:
        if (form == 0)
          return put(0, concat("conv(", x, draw_(0, 1) ? ", %w) group=16 pads=[1,1,1,1]" : ", %u) pads=[0,0,0,0]",
                               " strides=[1,1] dilations=[1,1]"));
        [[fallthrough]];
      case 4:
        // The other rank of the same order.
        return put(form ^ 1, concat("reshape(", x, ") shape=", kShapes[form ^ 1]));
      default:
        return put(form ^ 2, concat("transpose(", x, ") perm=",
                                    form == 0   ? "[0,2,3,1]"
                                    : form == 2 ? "[0,3,1,2]"
                                                : "[0,2,1]"));
    }
  }
};

TEST(Views, RandomGraphsInRandomLayoutsAnswerAsTheReference) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomViews random(seed, seed % 3 == 0);
    const std::string text = random.text();
    const int last = random.nodes() - 1, cut = int(seed) % (last + 1);
    const std::vector<SegmentSpec> segments[] = {
        {}, {{0, last, 1, false}}, {{0, cut, 0, false}, {cut + 1, last, 1, false}}};
    checked_plan(text, {noise({16, 1, 3, 3}, 7), noise({16, 16, 1, 1}, 8)}, seed, segments[seed % 3]);
    if (HasFailure()) FAIL() << text;
  }
}

}  // namespace
}  // namespace temper
