// SPDX-License-Identifier: Apache-2.0
// Models with ops of which only the data say how large their results are, on a GPU: the CPU's answers, and how long a
// run takes on each.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "../../plan/helpers.h"
#include "base/threads.h"
#include "run_cuda_tactic.h"
#include "runtime/partitions.h"

namespace temper {
namespace {

// Median of whole runs on data that lie in the host's memory.
double ms_of(Session& session, const std::vector<Tensor>& inputs) {
  std::vector<double> ms;
  for (int run = 0; run < 23; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    session.run(inputs);
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(ms.begin() + 3, ms.end());
  return ms[13];
}

void expect_the_cpus_answers(const std::string& text, const std::vector<Tensor>& inputs) {
  TEMPER_NEEDS_MACHINE(machine);
  Session gpu(std::make_shared<Engine>(info_of("cuda:0"), parse_graph(text), 1)),
      cpu(std::make_shared<Engine>(info_of("cpu"), parse_graph(text), max_threads()));
  const std::vector<Tensor> want = cpu.run(inputs);
  for (int run = 0; run < 3; ++run) {
    const std::vector<Tensor> got = gpu.run(inputs);
    ASSERT_EQ(got.size(), want.size());
    for (size_t o = 0; o < want.size(); ++o) {
      EXPECT_EQ(got[o].dims(), want[o].dims());
      EXPECT_TRUE(got[o].same_bits(want[o])) << "output " << o;
    }
  }
  std::printf("first output %s; a run takes %.3f ms, on %d threads of the CPU %.3f ms\n", want[0].type().text().c_str(),
              ms_of(gpu, inputs), max_threads(), ms_of(cpu, inputs));
  gpu.time_partitions(true);
  gpu.run(inputs);
  for (const Partition& partition : gpu.partitions())
    for (const Partition::Between& node : partition.between)
      std::printf("  %s with the copy of its count: %.3f ms\n", node.op.c_str(), node.ms);
}

TEST(CudaSizedByData, NonZeroOfAMillionElements) {
  Tensor x(DType::f32, {1000, 1000});
  for (int64_t i = 0; i < x.count(); ++i) x.data<float>()[i] = i * 7919 % 11 == 0 ? float(i % 9) : -1.0f;
  expect_the_cpus_answers(
      "graph \"nonzero\"\ninput %x: f32[1000,1000]\n"
      "%y: f32[1000,1000] = pointwise(%x) program=\"(1) 1=relu.f32(0)\"\n"
      "%p: i64[2,$p.0.1] = nonzero(%y)\n"
      "%s: i64[2,1] = reduce(%p) kind=sum axes=[1]\noutput \"s\" = %s\n",
      {x});
}

// The boxes of a detector of 80 classes: some thousand candidates, many of which overlap.
TEST(CudaSizedByData, NmsOfAYoloHead) {
  Tensor boxes(DType::f32, {1, 8400, 4}), scores(DType::f32, {1, 80, 8400});
  const Tensor noise_of_boxes = noise({1, 8400, 4}, 1), noise_of_scores = noise({1, 80, 8400}, 2);
  for (int64_t i = 0; i < 8400; ++i) {
    float* box = boxes.data<float>() + i * 4;
    const float* by = noise_of_boxes.data<float>() + i * 4;
    box[0] = float(i % 29 * 22) + by[0], box[1] = float(i / 29 % 29 * 22) + by[1];
    box[2] = 60 + 9 * by[2], box[3] = 60 + 9 * by[3];
  }
  // Cubed, so that few are near the largest.
  for (int64_t i = 0; i < scores.count(); ++i)
    scores.data<float>()[i] = std::abs(std::pow(noise_of_scores.data<float>()[i], 3.0f));
  expect_the_cpus_answers(
      "graph \"yolo\"\ninput %b: f32[1,8400,4]\ninput %l: f32[1,80,8400]\n"
      "const %most: i64[1] = [300]\nconst %iou: f32[1] = [0.3]\nconst %least: f32[1] = [0.9]\n"
      "%s: f32[1,80,8400] = pointwise(%l) program=\"(1) 1=abs.f32(0)\"\n"
      "%c: i64[$c.0.0,3] = nms(%b, %s, %most, %iou, %least) center=true\n"
      "%i: i64[$c.0.0,1] = slice(%c) starts=[0,2] sizes=[$c.0.0,1] steps=[1,1]\n"
      "%j: i64[$c.0.0] = reshape(%i) shape=[$c.0.0]\n"
      "%r: f32[8400,4] = reshape(%b) shape=[8400,4]\n"
      "%y: f32[$c.0.0,4] = gather(%r, %j) axis=0\noutput \"c\" = %c\noutput \"y\" = %y\n",
      {boxes, scores});
}

TEST(CudaSizedByData, UniqueOfAMillionElements) {
  Tensor x(DType::i64, {1000000});
  for (int64_t i = 0; i < x.count(); ++i) x.data<int64_t>()[i] = i * 7919 % 50021;
  for (const char* sorted : {"true", "false"})
    expect_the_cpus_answers(
        concat("graph \"unique\"\ninput %x: i64[1000000]\n"
               "%v: i64[$v.0.0], %f: i64[$v.0.0], %i: i64[1000000], %c: i64[$v.0.0] = unique(%x) sorted=",
               sorted,
               "\n%w: i64[$v.0.0] = pointwise(%v, %c) program=\"(2) 2=mul.i64(0,1)\"\n"
               "%z: i64[1000000] = gather(%w, %i) axis=0\noutput \"z\" = %z\noutput \"f\" = %f\n"),
        {x});
}

TEST(CudaSizedByData, UniqueRowsOfAPointCloud) {
  Tensor x(DType::i32, {100000, 3});
  for (int64_t i = 0; i < x.count(); ++i) x.data<int32_t>()[i] = int32_t(i / 3 * 7919 % (20 + i % 3 * 7));
  expect_the_cpus_answers(
      "graph \"voxels\"\ninput %x: i32[100000,3]\n"
      "%v: i32[$v.0.0,3], %f: i64[$v.0.0], %i: i64[100000], %c: i64[$v.0.0] = unique(%x) axis=0\n"
      "%m: i64[1] = reduce(%c) kind=max axes=[0]\noutput \"v\" = %v\noutput \"i\" = %i\noutput \"m\" = %m\n",
      {x});
}

}  // namespace
}  // namespace temper
