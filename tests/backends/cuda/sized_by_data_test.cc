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
    EXPECT_EQ(std::ranges::count(gpus.launches, "nonzero_write"), 1);
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
