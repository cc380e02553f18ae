// SPDX-License-Identifier: Apache-2.0
// Ops of which only the data say how large their results are, on an emulated GPU: the kernels, and models with such
// ops between plans.
#include "backends/sized_by_data.h"

#include "../../draw.h"
#include "../../plan/helpers.h"
#include "check_cases.h"
#include "emulated_gpu.h"
#include "runtime/partitions.h"

namespace temper {
namespace {

using testing::Draw;
using testing::ScriptedGpus;

// Random lines of one kind, each on the kernel and by the reference.
template <class Line>
void check_random_lines(int number, Line&& line) {
  Draw draw{std::mt19937_64(1)};
  std::string text;
  for (int i = 0; i < testing::shapes_asked_for().value_or(number); ++i) text += concat("reference ", line(draw), '\n');
  const testing::EmulatedGpu emulated;
  testing::check_lines("random", text, emulated.compiler(), emulated.gpu());
}

TEST(EmulatedSizedByData, NonZeroFindsWhatTheReferenceFindsInRandomShapes) {
  check_random_lines(40, [](Draw& draw) {
    static constexpr const char* types[] = {"f32", "bool", "i8", "f16"};
    Dims dims;
    int64_t count = 1;
    for (int64_t rank = draw(0, 4); rank > 0; --rank) {
      dims.push_back(draw(0, draw.chance(50) ? 5 : 60));
      if (count * dims.back() > 30000) dims.back() = 1;
      count *= dims.back();
    }
    return concat("nonzero(", types[draw(0, 3)], dims, ")");
  });
}

TEST(EmulatedSizedByData, NmsChoosesWhatTheReferenceChoosesInRandomShapes) {
  check_random_lines(40, [](Draw& draw) {
    static constexpr const char* thresholds[] = {"0", "0.25", "0.5", "0.33333334", "0.45", "1"};
    const int64_t batches = draw(1, 2), classes = draw(1, 4), count = draw(0, draw.chance(10) ? 5000 : 600);
    // Few different numbers, so that scores are equal, boxes empty, and quotients of sizes lie on the threshold.
    std::string line = concat("nms(f32[", batches, ',', count, ",4]", draw.chance(50) ? "{0..8}" : "", ", f32[",
                              batches, ',', classes, ',', count, ']');
    const int given = int(draw(0, 9));
    if (given > 0)
      line += concat(", i64[1]", draw.chance(50) ? "*" : "", "=[", draw.chance(60) ? draw(-1, 40) : 10000, ']');
    if (given > 1) line += draw.chance(90) ? concat(", f32[]=[", thresholds[draw(0, 5)], ']') : ", _";
    if (given > 3) line += concat(", f32[1]=[", draw.chance(30) ? "-9" : "1.75", ']');
    return line + (draw.chance(40) ? ") center=true" : ")");
  });
}

TEST(EmulatedSizedByData, UniqueGivesWhatTheReferenceGivesInRandomShapes) {
  check_random_lines(40, [](Draw& draw) {
    static constexpr const char* types[] = {"f32", "i64", "bool", "i32"};
    Dims dims;
    const int64_t rank = draw(1, 3);
    for (int64_t axis = 0; axis < rank; ++axis)
      dims.push_back(draw(0, draw.chance(50) ? 4 : 9000 / (rank * rank * 50)));
    std::string line = concat("unique(", types[draw(0, 3)], dims, draw.chance(50) ? "{0..3}" : "", ')');
    if (draw.chance(60)) line += concat(" axis=", draw(0, rank - 1));
    return line + (draw.chance(50) ? " sorted=false" : "");
  });
}

// NaN of all kinds are one, behind all numbers.
TEST(EmulatedSizedByData, NanIsFoundAndComparedAsTheReferenceDoes) {
  const testing::EmulatedGpu emulated;
  constexpr double inf = std::numeric_limits<double>::infinity();
  testing::check_lines("nan",
                       "reference nonzero(f32[3,50])\nreference unique(f32[3,50])\nreference unique(f64[90]) "
                       "sorted=false\nreference unique(f16[30,2]) axis=0\nreference unique(f32[2,40]) axis=1 "
                       "sorted=false\n",
                       emulated.compiler(), emulated.gpu(),
                       {.put = {std::numeric_limits<double>::quiet_NaN(), inf, -inf, -0.0}});
}

class EmulatedModelsSizedByData : public testing::EmulatedBuilds {
 protected:
  void TearDown() override {
    EXPECT_EQ(gpus.misuses, std::vector<std::string>());
    EmulatedBuilds::TearDown();
  }
  static std::shared_ptr<Engine> engine_of(const std::string& device, const std::string& text,
                                           const std::vector<Tensor>& blobs = {}) {
    return std::make_shared<Engine>(info_of(device), parse_graph(text, blobs), 1);
  }
  ScriptedGpus& gpus = ScriptedGpus::get();
};

Tensor mask(Dims dims, int64_t one_in) {
  Tensor x(DType::f32, std::move(dims));
  for (int64_t i = 0; one_in && i < x.count(); ++i) x.data<float>()[i] = i % one_in == 0 ? float(i % 5 + 1) : -1.0f;
  return x;
}

const std::string kMiddle =
    "graph \"middle\"\n"
    "input %x: f32[40,50]\n"
    "%y: f32[40,50] = pointwise(%x) program=\"(1) 1=relu.f32(0)\"\n"
    "%p: i64[2,$p.0.1] = nonzero(%y)\n"
    "%f: f32[2,$p.0.1] = pointwise(%p) program=\"(1) 1=cast.f32(0)\"\n"
    "%s: f32[2,1] = reduce(%f) kind=sum axes=[1]\n"
    "output \"s\" = %s\n";

TEST_F(EmulatedModelsSizedByData, OfANonZeroInTheMiddleOnlyTheCountIsCopied) {
  const auto gpu = engine_of("cuda:0", kMiddle), cpu = engine_of("cpu", kMiddle);
  Session session(gpu), other(cpu);
  // The first run of a shape, the next, which is captured, others in between, and nothing found.
  for (const int64_t one_in : {7, 7, 7, 1, 7, 0, 40, 7}) {
    const Tensor x = mask({40, 50}, one_in);
    gpus.bytes_to_host = gpus.bytes_to_device = 0;
    gpus.launches.clear();
    const std::vector<Tensor> got = session.run({x}), want = other.run({x});
    expect_close(got, want);
    EXPECT_EQ(gpus.bytes_to_host, 8 + got[0].bytes());
    EXPECT_EQ(gpus.bytes_to_device, x.bytes());
    EXPECT_EQ(std::ranges::count(gpus.launches, "nonzero"), 1);
  }
}

TEST_F(EmulatedModelsSizedByData, WhatIsFoundIsAnOutputToo) {
  const std::string text =
      "graph \"found\"\n"
      "input %x: f32[n,50]\n"
      "%y: f32[n,50] = pointwise(%x) program=\"(1) 1=relu.f32(0)\"\n"
      "%p: i64[2,$p.0.1] = nonzero(%y)\n"
      "%q: i64[2,$q.0.1] = nonzero(%x)\n"
      "%t: i64[$p.0.1,2] = transpose(%p) perm=[1,0]\n"
      "output \"y\" = %y\noutput \"p\" = %p\noutput \"q\" = %q\noutput \"t\" = %t\n";
  Session session(engine_of("cuda:0", text)), other(engine_of("cpu", text));
  for (const int64_t rows : {40, 40, 3, 0, 40})
    for (const int64_t one_in : {3, 0, 1}) {
      const std::vector<Tensor> got = session.run({mask({rows, 50}, one_in)}),
                                want = other.run({mask({rows, 50}, one_in)});
      ASSERT_EQ(got.size(), want.size());
      for (size_t o = 0; o < want.size(); ++o) {
        EXPECT_EQ(got[o].dims(), want[o].dims());
        EXPECT_TRUE(got[o].same_bits(want[o])) << "output " << o;
      }
    }
}

// What the branch reads comes from the plan before, and its condition is read on the host.
TEST_F(EmulatedModelsSizedByData, ANonZeroStandsInsideOfABranch) {
  const std::string text =
      "graph \"branch\"\n"
      "input %c: f32[]\n"
      "input %x: f32[40,50]\n"
      "%n: bool[] = pointwise(%c) program=\"(1) 1=cast.bool(0)\"\n"
      "%y: f32[40,50] = pointwise(%x) program=\"(1) 1=relu.f32(0)\"\n"
      "%p: i64[2,$p.0.1] = nonzero(%y)\n"
      "%s: i64[2,1] = reduce(%p) kind=sum axes=[1]\n"
      "%t: i64[2,1] = pointwise(%s) program=\"(1) 1=neg.i64(0)\"\n"
      "%z: i64[2,1] = choose(%n, %s, %t)\n"
      "output \"z\" = %z\n";
  Session session(engine_of("cuda:0", text)), other(engine_of("cpu", text));
  for (const bool side : {true, false, true, false}) {
    const Tensor c = Tensor::of<float>({}, {side ? 2.0f : 0.0f});
    const Tensor x = mask({40, 50}, 9);
    EXPECT_TRUE(session.run({c, x}).at(0).same_bits(other.run({c, x}).at(0)));
  }
}

TEST_F(EmulatedModelsSizedByData, ANonZeroStandsInsideOfALoop) {
  const std::string text =
      "graph \"loop\"\n"
      "input %m: i64[]\n"
      "input %x: f32[8]\n"
      "%i: i64[], %d: bool[], %s: f32[8] = loop_begin(%m, _, %x) loop=1\n"
      "%h: f32[8] = pointwise(%s) program=\"(1) 1=relu.f32(0)\"\n"
      "%p: i64[1,$p.0.1] = nonzero(%h)\n"
      "%f: f32[1,$p.0.1] = pointwise(%p) program=\"(1) 1=cast.f32(0)\"\n"
      "%q: f32[1,1] = reduce(%f) kind=sum axes=[1]\n"
      "%r: f32[1] = reshape(%q) shape=[1]\n"
      "%t: f32[8] = pointwise(%s, %r) program=\"(2) 2=sub.f32(0,1)\"\n"
      "const %e: bool[] = [1]\n"
      "%y: f32[8] = loop_end(%i, _, %e, %s, %t) carried=1\n"
      "output \"y\" = %y\n";
  Session session(engine_of("cuda:0", text)), other(engine_of("cpu", text));
  for (const int64_t times : {5, 0, 1, 12}) {
    const std::vector<Tensor> inputs{Tensor::of<int64_t>({}, {times}),
                                     Tensor::of<float>({8}, {40, 3, -1, 90, 25, 0, 60, 71})};
    EXPECT_TRUE(session.run(inputs).at(0).same_bits(other.run(inputs).at(0))) << times << " iterations";
  }
}

TEST_F(EmulatedModelsSizedByData, StepsBesideANonZeroAreTimed) {
  Session session(engine_of("cuda:0", kMiddle));
  const Tensor x = mask({40, 50}, 7);
  const Tensor want = session.run({x}).at(0);
  session.time_partitions(true);
  EXPECT_TRUE(session.run({x}).at(0).same_bits(want));
  session.time_partitions(false);
  double steps = 0, between = 0;
  for (const Partition& partition : session.partitions()) {
    EXPECT_EQ(partition.runs, 1);
    for (const auto& segment : partition.ms)
      for (const double ms : segment) steps += ms;
    for (const Partition::Between& node : partition.between) between += node.ms;
  }
  EXPECT_GT(steps, 0);
  EXPECT_GT(between, 0);
}

// As the end of a detector: the best boxes of each class are gathered.
const std::string kDetector =
    "graph \"detector\"\n"
    "input %b: f32[1,n,4]\n"
    "input %l: f32[1,3,m]\n"
    "const %most: i64[1] = [20]\nconst %iou: f32[1] = [0.5]\nconst %least: f32[1] = [0.6]\n"
    "%s: f32[1,3,m] = pointwise(%l) program=\"(1) 1=sigmoid.f32(0)\"\n"
    "%c: i64[$c.0.0,3] = nms(%b, %s, %most, %iou, %least)\n"
    "%i: i64[$c.0.0,1] = slice(%c) starts=[0,2] sizes=[$c.0.0,1] steps=[1,1]\n"
    "%j: i64[$c.0.0] = reshape(%i) shape=[$c.0.0]\n"
    "%r: f32[n,4] = reshape(%b) shape=[n,4]\n"
    "%y: f32[$c.0.0,4] = gather(%r, %j) axis=0\n"
    "output \"c\" = %c\noutput \"y\" = %y\n";

TEST_F(EmulatedModelsSizedByData, OfANonMaxSuppressionOnlyTheCountIsCopied) {
  Session session(engine_of("cuda:0", kDetector)), other(engine_of("cpu", kDetector));
  for (const uint32_t seed : {1, 2, 3, 1}) {
    const std::vector<Tensor> inputs{scaled({1, 500, 4}, seed, 10), scaled({1, 3, 500}, seed + 9, 2)};
    gpus.bytes_to_host = 0;
    const std::vector<Tensor> got = session.run(inputs), want = other.run(inputs);
    EXPECT_GT(want[0].dims()[0], 9);
    for (size_t o = 0; o < want.size(); ++o) EXPECT_TRUE(got[o].same_bits(want[o])) << "output " << o;
    EXPECT_EQ(gpus.bytes_to_host, 8 + got[0].bytes() + got[1].bytes());
  }
}

TEST_F(EmulatedModelsSizedByData, WhatDoesNotFitTogetherIsTheCpusError) {
  std::vector<std::string> errors;
  for (const char* device : {"cpu", "cuda:0"}) {
    try {
      Session(engine_of(device, kDetector)).run({noise({1, 50, 4}, 1), noise({1, 3, 40}, 2)});
    } catch (const Error& error) { errors.emplace_back(error.what()); }
  }
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0], errors[1]);
  EXPECT_NE(errors[0].find("do not fit together"), std::string::npos) << errors[0];
}

TEST_F(EmulatedModelsSizedByData, OfAUniqueOnlyTheCountIsCopied) {
  const std::string text =
      "graph \"groups\"\n"
      "input %x: i64[n]\n"
      "%a: i64[n] = pointwise(%x) program=\"(1) 1=abs.i64(0)\"\n"
      "%v: i64[$v.0.0], %f: i64[$v.0.0], %i: i64[n], %c: i64[$v.0.0] = unique(%a) sorted=false\n"
      "%w: i64[$v.0.0] = pointwise(%v, %c) program=\"(2) 2=mul.i64(0,1)\"\n"
      "%z: i64[n] = gather(%w, %i) axis=0\n"
      "output \"z\" = %z\n";
  Session session(engine_of("cuda:0", text)), other(engine_of("cpu", text));
  for (const int64_t n : {700, 0, 1, 700}) {
    Tensor x(DType::i64, {n});
    for (int64_t i = 0; i < n; ++i) x.data<int64_t>()[i] = i * 37 % 101 - 50;
    gpus.bytes_to_host = 0;
    const Tensor got = session.run({x}).at(0);
    EXPECT_TRUE(got.same_bits(other.run({x}).at(0)));
    EXPECT_EQ(gpus.bytes_to_host, (n ? 8 : 0) + got.bytes());
  }
}

TEST_F(EmulatedModelsSizedByData, WhatLiesBetweenPlansLiesInTheMemoryThatASessionIsGiven) {
  const auto engine = engine_of("cuda:0", kMiddle);
  Session lender(engine);
  int64_t lent = 0, here = 0;
  {
    Session session(engine, [&](int64_t bytes) {
      ++lent, ++here;
      const std::shared_ptr<void> memory = lender.allocate_resident(bytes);
      return std::shared_ptr<void>(memory.get(), [&here, memory](void*) { --here; });
    });
    const Tensor x = mask({40, 50}, 7);
    expect_close(session.run({x}), Session(engine_of("cpu", kMiddle)).run({x}));
  }
  EXPECT_GE(lent, 4) << "what plans work in, what the first gives, the positions, and the kernel's own";
  EXPECT_EQ(here, 0);
}

// Memory of the values between plans goes back to the device once no run needs as much.
TEST_F(EmulatedModelsSizedByData, WhatIsNoLongerNeededBetweenPlansIsGivenBack) {
  const std::string text =
      "graph \"found\"\ninput %x: f32[n]\n%p: i64[1,$p.0.1] = nonzero(%x)\n"
      "%q: i64[1,$p.0.1] = pointwise(%p) program=\"(1) 1=neg.i64(0)\"\noutput \"q\" = %q\n";
  const auto engine = engine_of("cuda:0", text);
  engine->set_limits({.prepared = 1});
  Session session(engine);
  session.run({mask({100}, 3)});
  const int64_t small = gpus.used_bytes(0);
  session.run({mask({60000}, 1)});
  const int64_t large = gpus.used_bytes(0);
  EXPECT_GT(large, small + 480000);
  for (int i = 0; i < 12; ++i) session.run({mask({100}, 3)});
  EXPECT_LT(gpus.used_bytes(0), large - 480000);
}

}  // namespace
}  // namespace temper
