// SPDX-License-Identifier: Apache-2.0
// Concats whose inputs are written straight into the output. Pitches are tested with the kernels that take them, in
// tests/backends/cuda.
#include "plan/parts.h"

#include "graph/ops/concat.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/slice.h"
#include "helpers.h"
#include "plan/describe.h"
#include "plan/place.h"

namespace temper {
namespace {

// What is in place of the inputs of the concat named `node`.
std::vector<bool> in_place(const Plan& plan, const std::string& node) {
  std::vector<bool> out;
  for (const Port& input : step_of(plan, node).problem.inputs) out.push_back(input.in_place);
  return out;
}

std::shared_ptr<Engine> engine_of(const std::string& device, const std::string& text,
                                  const std::vector<SegmentSpec>& segments = {}) {
  const Graph graph = parse_graph("graph \"g\"\n" + text, std::vector<Tensor>{noise({64, 1}, 9)});
  std::vector<Dims> shapes;
  for (ValueId input : graph.inputs()) shapes.push_back(graph.type(input).dims());
  auto engine = std::make_shared<Engine>(info_of(device), graph, 2);
  add_plan(engine, shapes, segments);
  return engine;
}

// Builds for the CPU, holds the answers against the reference's, also after saving and loading, and returns the plan.
std::shared_ptr<const Plan> checked_plan(const std::string& text, const std::vector<SegmentSpec>& segments = {}) {
  const auto engine = engine_of("cpu", text, segments);
  const auto reference = engine_of("reference", text);
  std::vector<Tensor> inputs;
  for (const PortInfo& port : engine->plans().at(0)->inputs)
    inputs.push_back(noise(port.type.dims(), 1 + uint32_t(inputs.size())));
  const auto want = Session(reference).run(inputs);
  expect_close(Session(engine).run(inputs), want);
  const Tensor file = file_bytes(*engine);
  expect_close(Session(std::make_shared<const Engine>(read_plan(file.raw(), nullptr))).run(inputs), want);
  return engine->plans().at(0);
}

const std::string kTwice = " program=\"(1) 1=add.f32(0,0)\"\n";
const std::string kNegated = " program=\"(1) 1=neg.f32(0)\"\n";

TEST(Parts, OnePieceOfMemoryIsWrittenByAnyKernel) {
  const auto plan = checked_plan(
      "input %x: f32[1,16,8,8]\n"
      "%a: f32[1,16,8,8] = pointwise(%x)" +
      kTwice + "%b: f32[1,16,8,8] = pointwise(%x)" + kNegated +
      "%c: f32[1,32,8,8] = concat(%a, %b) axis=1\n"
      "%y: f32[1,32,8,8] = pointwise(%c)" +
      kTwice + "output \"y\" = %y\n");
  EXPECT_EQ(in_place(*plan, "c"), (std::vector<bool>{true, true}));
  const PlanStep &a = step_of(*plan, "a"), &b = step_of(*plan, "b"), &c = step_of(*plan, "c");
  EXPECT_EQ(a.outputs[0], c.outputs[0]);
  EXPECT_EQ(b.outputs[0].at, c.outputs[0].at);
  EXPECT_EQ(b.outputs[0].offset, 16 * 8 * 8 * 4);
  EXPECT_EQ(written_in_place(*plan, c), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(c.ms, -1);
}

TEST(Parts, AnOutputOfTheGraphIsWrittenInPartsToo) {
  const auto plan =
      checked_plan("input %x: f32[2,64]\n%a: f32[2,64] = pointwise(%x)" + kTwice + "%b: f32[2,64] = pointwise(%x)" +
                   kNegated + "%y: f32[4,64] = concat(%a, %b) axis=0\noutput \"y\" = %y\n");
  EXPECT_EQ(in_place(*plan, "y"), (std::vector<bool>{true, true}));
  EXPECT_EQ(step_of(*plan, "b").outputs[0], (BufferRef{BufferRef::Kind::output, 0, 0, 2 * 64 * 4}));
}

TEST(Parts, ConcatsInConcatsAreOneBuffer) {
  const auto plan =
      checked_plan("input %x: f32[2,64]\n%a: f32[2,64] = pointwise(%x)" + kTwice + "%b: f32[2,64] = pointwise(%x)" +
                   kNegated + "%i: f32[4,64] = concat(%a, %b) axis=0\n%s: f32[4,64] = pointwise(%i)" + kNegated +
                   "%o: f32[6,64] = concat(%b, %i) axis=0\n%z: f32[6,64] = pointwise(%o)" + kTwice +
                   "output \"s\" = %s\noutput \"z\" = %z\n");
  // The last one is placed first: it has b, so that the inner one copies it.
  EXPECT_EQ(in_place(*plan, "o"), (std::vector<bool>{true, true}));
  EXPECT_EQ(in_place(*plan, "i"), (std::vector<bool>{true, false}));
  EXPECT_EQ(step_of(*plan, "a").outputs[0].offset, 2 * 64 * 4);
  EXPECT_EQ(step_of(*plan, "a").outputs[0].at, step_of(*plan, "o").outputs[0].at);
}

TEST(Parts, AViewIsThePlaceOfWhatItShows) {
  const auto plan =
      checked_plan("input %x: f32[1,16,64]\n%a: f32[1,16,64] = pointwise(%x)" + kTwice +
                   "%v: f32[1,1024] = reshape(%a) shape=[1,1024]\n%b: f32[1,16,64] = pointwise(%x)" + kNegated +
                   "%w: f32[1,1024] = reshape(%b) shape=[1,1024]\n%c: f32[1,2048] = concat(%v, %w) axis=1\n"
                   "%y: f32[1,2048] = pointwise(%c)" +
                   kTwice + "output \"y\" = %y\n");
  EXPECT_EQ(in_place(*plan, "c"), (std::vector<bool>{true, true}));
}

TEST(Parts, WhatHasAnotherPlaceIsCopied) {
  const std::string tail = "%z: f32[6,64] = pointwise(%y)" + kTwice + "output \"z\" = %z\n";
  const std::string head =
      "input %x: f32[2,64]\n%a: f32[2,64] = pointwise(%x)" + kTwice + "%b: f32[2,64] = pointwise(%x)" + kNegated;
  // Twice the same: once in place. Constants and inputs of the graph have memory of their own.
  EXPECT_EQ(in_place(*checked_plan(head + "%y: f32[6,64] = concat(%a, %b, %a) axis=0\n" + tail), "y"),
            (std::vector<bool>{true, true, false}));
  EXPECT_EQ(in_place(*checked_plan(head + "%y: f32[6,64] = concat(%a, %x, %b) axis=0\n" + tail), "y"),
            (std::vector<bool>{true, false, true}));
  EXPECT_EQ(in_place(*checked_plan("input %x: f32[64,1]\nconst %k: f32[64,1] = #0\n%a: f32[64,1] = pointwise(%x)" +
                                   kTwice + "%y: f32[128,1] = concat(%k, %a) axis=0\n%z: f32[128,1] = pointwise(%y)" +
                                   kTwice + "output \"z\" = %z\n"),
                     "y"),
            (std::vector<bool>{false, true}));
  // An output of the graph is written to the user's buffer.
  EXPECT_EQ(
      in_place(*checked_plan(head + "%y: f32[6,64] = concat(%a, %x, %b) axis=0\n" + tail + "output \"a\" = %a\n"), "y"),
      (std::vector<bool>{false, false, true}));
  // A concat of concats that is copied has its own parts.
  EXPECT_EQ(
      in_place(*checked_plan(head + "%i: f32[4,64] = concat(%a, %b) axis=0\n%y: f32[6,64] = concat(%i, %x) axis=0\n" +
                             tail + "output \"i\" = %i\n"),
               "i"),
      (std::vector<bool>{true, true}));
}

TEST(Parts, APartThatBeginsBetweenTheAlignmentsOfBuffersIsCopied) {
  const auto plan = checked_plan(
      "input %x: f32[3,5]\n%a: f32[3,5] = pointwise(%x)" + kTwice + "%b: f32[3,5] = pointwise(%x)" + kNegated +
      "%c: f32[6,5] = concat(%a, %b) axis=0\n%y: f32[6,5] = pointwise(%c)" + kTwice + "output \"y\" = %y\n");
  EXPECT_EQ(in_place(*plan, "c"), (std::vector<bool>{true, false}));
}

TEST(Parts, WhatIsReadLaterIsNotWrittenOverInPlace) {
  // The step "n" could write over its input, were that not a part of what "y" reads.
  const auto plan =
      checked_plan("input %x: f32[2,64]\n%a: f32[2,64] = pointwise(%x)" + kTwice + "%n: f32[2,64] = pointwise(%a)" +
                   kNegated + "%c: f32[4,64] = concat(%a, %n) axis=0\n%m: f32[4,64] = pointwise(%c)" + kNegated +
                   "%z: f32[2,64] = pointwise(%a, %n) program=\"(2) 2=add.f32(0,1)\"\n"
                   "output \"m\" = %m\noutput \"z\" = %z\n");
  EXPECT_EQ(in_place(*plan, "c"), (std::vector<bool>{true, true}));
}

TEST(Parts, SlicesOfTheBatchAreWrittenIntoTheWhole) {
  const auto plan = checked_plan(
      "input %x: f32[4,64]\n%a: f32[4,64] = pointwise(%x)" + kTwice + "%b: f32[4,64] = pointwise(%a)" + kNegated +
          "%c: f32[8,64] = concat(%a, %b) axis=0\n%y: f32[8,64] = pointwise(%c)" + kTwice + "output \"y\" = %y\n",
      {{0, 1, 1, true}, {2, 3, 0, false}});
  ASSERT_EQ(plan->segments.size(), 2u);
  EXPECT_EQ(in_place(*plan, "c"), (std::vector<bool>{true, true}));
  EXPECT_EQ(step_of(*plan, "b").outputs[0].kind, BufferRef::Kind::shared);
  EXPECT_EQ(step_of(*plan, "b").outputs[0].slice_bytes, 64 * 4);
  EXPECT_EQ(step_of(*plan, "b").outputs[0].offset, 4 * 64 * 4);
}

TEST(Parts, BlocksOfChannelsAreNeverCut) {
  const TensorType whole = type_of(DType::f32, {1, 48, 8, 8});
  EXPECT_TRUE(place_in_whole(whole, {1, 16, 8, 8}, 1, 16, Layout::blocked16, 0));
  EXPECT_FALSE(place_in_whole(whole, {1, 24, 8, 8}, 1, 8, Layout::blocked16, 0));
  EXPECT_FALSE(place_in_whole(whole, {1, 24, 8, 8}, 1, 0, Layout::blocked16, 0));
  EXPECT_FALSE(place_in_whole(type_of(DType::f32, {2, 48, 8, 8}), {2, 16, 8, 8}, 1, 16, Layout::blocked16, 0));
}

TEST(Parts, PixelsLieInTheirLargerPixels) {
  const TensorType whole = type_of(DType::f16, {2, 96, 8, 8});
  const auto place = place_in_whole(whole, {2, 32, 8, 8}, 1, 64, Layout::channels_last, 0);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->offset, 64 * 2);
  EXPECT_EQ(place->pitch, 96);
  EXPECT_EQ(place_in_whole(whole, {2, 32, 8, 8}, 1, 64, Layout::channels_last, 256)->pitch, 256);  // in a part itself
  EXPECT_FALSE(place_in_whole(whole, {2, 32, 8, 8}, 1, 8, Layout::channels_last, 0)) << "begins at 16 bytes";
  EXPECT_FALSE(place_in_whole(type_of(DType::f16, {2, 72, 8, 8}), {2, 32, 8, 8}, 1, 32, Layout::channels_last, 0))
      << "144 bytes apart";
  EXPECT_FALSE(place_in_whole(whole, {2, 32, 8, 8}, 1, 64, Layout::plain, 0)) << "images are apart";
  EXPECT_FALSE(place_in_whole(type_of(DType::f16, {2, 96, 16, 8}), {2, 96, 8, 8}, 2, 8, Layout::channels_last, 0));
}

// A backend that computes nothing: two tactics for programs, of which the faster one takes no parts.
struct NoKernel final : Kernel {
  void launch(const Buffers&) override {}
};
template <class O>
Support for_op(const Problem& problem, const Device&) {
  return problem.op.is<O>() ? supported() : refused("another op");
}
std::vector<Config> plain_configs(const Problem& problem, const Device&) {
  return {{"", std::vector<Layout>(problem.inputs.size(), Layout::plain),
           std::vector<Layout>(problem.outputs.size(), Layout::plain)}};
}
std::unique_ptr<Kernel> no_kernel(const Problem&, const Config&, const PackedView&, const Device&) {
  return std::make_unique<NoKernel>();
}
bool has_step(const Plan& plan, const std::string& node) {
  return std::any_of(plan.segments.begin(), plan.segments.end(), [&](const Segment& segment) {
    return std::any_of(segment.steps.begin(), segment.steps.end(),
                       [&](const PlanStep& step) { return step.node == node; });
  });
}

TEST(Parts, ASliceThatIsOnePieceOfMemoryIsReadWhereItLies) {
  // The whole is read once more behind the slice, by a node that could write over it.
  const auto plan =
      checked_plan("input %x: f32[4,64]\n%a: f32[4,64] = pointwise(%x)" + kTwice +
                   "%s: f32[2,64] = slice(%a) starts=[2,0] sizes=[2,64] steps=[1,1]\n"
                   "%z: f32[4,64] = pointwise(%a)" +
                   kNegated + "%y: f32[2,64] = pointwise(%s)" + kTwice + "output \"y\" = %y\noutput \"z\" = %z\n");
  EXPECT_FALSE(has_step(*plan, "s"));
  const BufferRef &a = step_of(*plan, "a").outputs[0], &read = step_of(*plan, "y").inputs[0];
  EXPECT_EQ(read.at, a.at);
  EXPECT_EQ(read.offset, 2 * 64 * 4);
}

TEST(Parts, ASliceOfAViewAndASliceOfASliceAreReadWhereTheyLie) {
  const auto plan =
      checked_plan("input %x: f32[1,16,64]\n%a: f32[1,16,64] = pointwise(%x)" + kTwice +
                   "%v: f32[16,64] = reshape(%a) shape=[16,64]\n"
                   "%s: f32[8,64] = slice(%v) starts=[4,0] sizes=[8,64] steps=[1,1]\n"
                   "%t: f32[2,64] = slice(%s) starts=[2,0] sizes=[2,64] steps=[1,1]\n"
                   "%w: f32[128] = reshape(%t) shape=[128]\n%y: f32[128] = pointwise(%w)" +
                   kNegated + "%z: f32[8,64] = pointwise(%s)" + kTwice + "output \"y\" = %y\noutput \"z\" = %z\n");
  EXPECT_FALSE(has_step(*plan, "s") || has_step(*plan, "t"));
  EXPECT_EQ(step_of(*plan, "y").inputs[0].offset, (4 + 2) * 64 * 4);
}

TEST(Parts, ASliceIsCopiedWhereItHasNoPlaceOfItsOwn) {
  auto is_copied = [](const std::string& slice, const std::string& more = "") {
    return has_step(*checked_plan("input %x: f32[4,64]\n%a: f32[4,64] = pointwise(%x)" + kTwice + slice +
                                  "%y: f32[2,64] = pointwise(%s)" + kNegated + "output \"y\" = %y\n" + more),
                    "s");
  };
  EXPECT_TRUE(is_copied("%s: f32[2,64] = slice(%a) starts=[0,0] sizes=[2,64] steps=[2,1]\n"));
  EXPECT_TRUE(is_copied("%s: f32[2,64] = slice(%a) starts=[3,0] sizes=[2,64] steps=[-1,1]\n"));
  EXPECT_TRUE(is_copied("%s: f32[2,64] = slice(%x) starts=[2,0] sizes=[2,64] steps=[1,1]\n"));  // the user's buffer
  EXPECT_TRUE(is_copied("%s: f32[2,64] = slice(%a) starts=[2,0] sizes=[2,64] steps=[1,1]\n", "output \"s\" = %s\n"));
  // Rows apart, and a reader that needs them side by side.
  EXPECT_TRUE(has_step(*checked_plan("input %x: f32[4,64]\n%a: f32[4,64] = pointwise(%x)" + kTwice +
                                     "%s: f32[4,32] = slice(%a) starts=[0,32] sizes=[4,32] steps=[1,1]\n"
                                     "%y: f32[4,32] = pointwise(%s)" +
                                     kNegated + "output \"y\" = %y\n"),
                       "s"));
}

TEST(Parts, WhatASliceLiesInStaysAsLongAsTheSliceIsRead) {
  // Values come and go between the whole and the last reader of its slice.
  const std::string text =
      "input %x: f32[4,64]\n%a: f32[4,64] = pointwise(%x)" + kTwice +
      "%s: f32[2,64] = slice(%a) starts=[2,0] sizes=[2,64] steps=[1,1]\n%b0: f32[64,4] = transpose(%a) perm=[1,0]\n"
      "%b1: f32[4,64] = transpose(%b0) perm=[1,0]\n%b2: f32[64,4] = transpose(%b1) perm=[1,0]\n"
      "%b3: f32[2,64] = slice(%b1) starts=[0,0] sizes=[2,64] steps=[1,1]\n"
      "%y: f32[2,64] = pointwise(%s, %b3) program=\"(2) 2=add.f32(0,1)\"\n"
      "%z: f32[64,4] = pointwise(%b2)" +
      kTwice + "output \"y\" = %y\noutput \"z\" = %z\n";
  const auto plan = checked_plan(text);
  EXPECT_FALSE(has_step(*plan, "s") || has_step(*plan, "b3"));
  // Also where the batch runs in slices before them: the whole is then kept for the next segment.
  EXPECT_FALSE(has_step(*checked_plan(text, {{0, 0, 2, false}, {1, 7, 0, false}}), "s"));
}

bool all_parts(const Problem&, const Config&) { return true; }
const Tactic quick{"fake.quick", 1, for_op<ops::Pointwise>, plain_configs, nullptr, no_kernel},
    apart{"fake.apart", 1, for_op<ops::Pointwise>, plain_configs, nullptr, no_kernel, false, nullptr, all_parts},
    cut{"fake.cut", 1, for_op<ops::Slice>, plain_configs, nullptr, no_kernel},
    join{"fake.join", 1, for_op<ops::Concat>, plain_configs, nullptr, no_kernel, false, nullptr, all_parts};
const Tactic* const fakes[] = {&quick, &apart, &join, &cut};
const Backend fake{"fake", nullptr, [] { return std::span<const Tactic* const>(fakes); }, nullptr, nullptr, nullptr};

Plan fake_plan(double join_ms, const std::string& more = "") {
  const Graph graph = parse_graph("graph \"g\"\ninput %x: f32[2,8]\n%a: f32[2,8] = pointwise(%x)" + kTwice +
                                  "%b: f32[2,8] = pointwise(%x)" + kNegated +
                                  "%c: f32[2,16] = concat(%a, %b) axis=1\n%y: f32[2,16] = pointwise(%c)" + kTwice +
                                  more + "output \"y\" = %y\n");
  struct Times final : TimeSource {
    double join_ms;
    explicit Times(double ms) : join_ms(ms) {}
    CandidateTime time(const Problem&, const Tactic& tactic, const Config&, int) override {
      return CandidateTime::of(&tactic == &join ? join_ms : &tactic == &quick ? 1.0 : 1.1);
    }
  } times(join_ms);
  PlanOptions options;
  options.times = &times;
  return build_plan(graph, fake, Device{.backend = "fake", .fingerprint = "fake"}, options);
}

TEST(Parts, ATacticThatSavesTheCopyWinsWhereTheCopyTakesLonger) {
  const Plan slow = fake_plan(1), fast = fake_plan(0.1);
  for (const char* node : {"a", "b"}) {
    EXPECT_EQ(step_of(slow, node).tactic, "fake.apart");
    EXPECT_EQ(step_of(fast, node).tactic, "fake.quick");
    EXPECT_EQ(step_of(slow, node).problem.outputs[0].pitch, 16);
    EXPECT_EQ(step_of(fast, node).problem.outputs[0].pitch, 0);
  }
  EXPECT_EQ(step_of(slow, "y").tactic, "fake.quick");
  EXPECT_EQ(step_of(slow, "c").ms, 0);
  EXPECT_EQ(step_of(fast, "c").ms, 0.1);
  EXPECT_NEAR(slow.steps_ms(), 1.1 + 1.1 + 1.0, 1e-9);
  EXPECT_EQ(in_place(slow, "c"), (std::vector<bool>{true, true}));
  EXPECT_EQ(in_place(fast, "c"), (std::vector<bool>{false, false}));
}

TEST(Parts, AReaderThatTakesNoPitchKeepsTheCopy) {
  // It reads a by itself, by the faster tactic.
  const Plan plan = fake_plan(1, "%z: f32[2,8] = pointwise(%a)" + kTwice + "output \"z\" = %z\n");
  EXPECT_EQ(step_of(plan, "z").tactic, "fake.quick");
  EXPECT_EQ(in_place(plan, "c"), (std::vector<bool>{false, true}));
  EXPECT_EQ(step_of(plan, "a").tactic, "fake.quick");
  EXPECT_EQ(step_of(plan, "a").problem.outputs[0].pitch, 0);
  EXPECT_EQ(step_of(plan, "z").problem.inputs[0].pitch, 0);
}

// The readers of columns take them by a pitch where all of them do; %z reads by a tactic that was faster.
TEST(Parts, ColumnsAreReadWhereTheyLieByTacticsThatTakeAPitch) {
  auto plan_of = [](const std::string& more, double apart_ms) {
    const Graph graph = parse_graph("graph \"g\"\ninput %x: f32[2,16]\n%a: f32[2,16] = pointwise(%x)" + kTwice +
                                    "%s: f32[2,8] = slice(%a) starts=[0,8] sizes=[2,8] steps=[1,1]\n"
                                    "%y: f32[2,8] = pointwise(%s)" +
                                    kTwice + more + "output \"y\" = %y\n");
    struct Times final : TimeSource {
      double apart_ms;
      explicit Times(double ms) : apart_ms(ms) {}
      CandidateTime time(const Problem&, const Tactic& tactic, const Config&, int) override {
        return CandidateTime::of(&tactic == &apart ? apart_ms : 1.0);
      }
    } times(apart_ms);
    PlanOptions options;
    options.times = &times;
    return build_plan(graph, fake, Device{.backend = "fake", .fingerprint = "fake"}, options);
  };
  const Plan read = plan_of("", 0.9);
  EXPECT_FALSE(has_step(read, "s"));
  EXPECT_EQ(step_of(read, "y").problem.inputs[0].pitch, 16);
  EXPECT_EQ(step_of(read, "y").inputs[0].offset, 8 * 4);
  EXPECT_EQ(step_of(read, "a").problem.outputs[0].pitch, 0);
  const Plan copied = plan_of("", 1.1);
  EXPECT_TRUE(has_step(copied, "s"));
  EXPECT_EQ(step_of(copied, "y").problem.inputs[0].pitch, 0);
  // A view with the same rows is read by the pitch, too; another one shows contiguous bytes.
  const Plan rows = plan_of(
      "%v: f32[2,1,8] = reshape(%s) shape=[2,1,8]\n%z: f32[2,1,8] = pointwise(%v)" + kTwice + "output \"z\" = %z\n",
      0.9);
  EXPECT_FALSE(has_step(rows, "s"));
  EXPECT_EQ(step_of(rows, "z").problem.inputs[0].pitch, 16);
  EXPECT_EQ(step_of(rows, "z").inputs[0].offset, 8 * 4);
  EXPECT_TRUE(has_step(
      plan_of("%v: f32[16] = reshape(%s) shape=[16]\n%z: f32[16] = pointwise(%v)" + kTwice + "output \"z\" = %z\n",
              0.9),
      "s"));
}

}  // namespace
}  // namespace temper
