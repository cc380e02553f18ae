// SPDX-License-Identifier: Apache-2.0
// The token that sample draws, by its reference and on a CPU, beside a sampler that computes in doubles.
#include "graph/ops/sample.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>

#include "../../backends/run_tactic.h"
#include "backends/cpu/cpu.h"
#include "graph/op.h"
#include "host_sampler.h"

namespace temper {
namespace {

namespace sampling = ops::sampling;
constexpr float kInfiniteLogit = std::numeric_limits<float>::infinity();

struct Given {
  std::vector<float> logits;
  std::vector<int64_t> seen;
  SampleOptions options;
  double draw = 0;
};
struct Chosen {
  int64_t token, flaw;
  bool operator==(const Chosen&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Chosen& chosen) {
  return out << chosen.token << " (" << chosen.flaw << ")";
}

std::vector<Tensor> inputs_of(const Given& given) {
  const auto vocabulary = int64_t(given.logits.size()), count = int64_t(given.seen.size());
  std::vector<int64_t> tokens = given.seen;
  tokens.push_back(0);  // behind those that were seen
  std::vector<double> draws(tokens.size(), 0.123);
  draws[size_t(std::max<int64_t>(count - 1, 0))] = given.draw;
  const SampleOptions& o = given.options;
  return {Tensor::of<float>({1, vocabulary}, given.logits), Tensor::of<int64_t>({1, count + 1, 1}, tokens),
          Tensor::of<int64_t>({1}, {count}),
          Tensor::of<double>({1, 4}, {o.temperature, double(o.top_k), o.top_p, o.repetition_penalty}),
          Tensor::of<double>({1, count + 1}, draws)};
}

Chosen by_reference(const Given& given) {
  const auto inputs = inputs_of(given);
  const auto out = reference(ops::Sample{}, inputs, infer(ops::Sample{}, InferContext(TensorOperands(inputs), "n")));
  return {out[0].data<int64_t>()[0], out[1].data<int64_t>()[0]};
}

Chosen on_cpu(const Given& given, int threads) {
  const auto inputs = inputs_of(given);
  Problem problem{ops::Sample{}, {}, {}, threads};
  for (const Tensor& input : inputs) problem.inputs.push_back({input.type()});
  for (TensorType& type : infer(problem.op, InferContext(TensorOperands(inputs), "n")))
    problem.outputs.push_back({std::move(type)});
  for (const Tactic* tactic : find_backend("cpu").tactics()) {
    if (tactic->name != "cpu.sample") continue;
    const auto out =
        testing::run_tactic(*tactic, problem, tactic->configs(problem, cpu_device())[0], inputs, cpu_device());
    return {out[0].data<int64_t>()[0], out[1].data<int64_t>()[0]};
  }
  ADD_FAILURE() << "there is no cpu.sample";
  return {};
}

// Both, which must agree.
Chosen chosen(const Given& given) {
  const Chosen got = by_reference(given);
  EXPECT_EQ(on_cpu(given, 1), got);
  return got;
}

std::vector<float> normal_logits(size_t count, float spread, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

TEST(Sample, DrawsWhatASamplerInDoublesDraws) {
  std::mt19937_64 random(1);
  std::vector<std::vector<float>> of;
  for (const size_t count : {7, 300, 2000}) of.push_back(normal_logits(count, 3, count));
  of.emplace_back(500, 1.0f);  // all equal
  of.push_back(normal_logits(400, 3, 9));
  for (size_t i = 0; i < 400; i += 3) of.back()[i] = -kInfiniteLogit;
  of.push_back(normal_logits(900, 2, 10));
  for (float& logit : of.back()) logit = std::round(logit);  // many equal ones
  for (size_t which = 0; which < of.size(); ++which)
    for (const double temperature : {0.0, 1e-6, 0.7, 1.0, 30.0})
      for (const int64_t top_k : {0, 1, 5, 299, 5000})
        for (const double top_p : {1e-12, 0.3, 0.95, 1.0})
          for (const double penalty : {1.0, 1.3}) {
            SCOPED_TRACE(concat("logits ", which, ", temperature ", temperature, ", top-k ", top_k, ", top-p ", top_p,
                                ", penalty ", penalty));
            const double draw = double(random() >> 11) * 0x1p-53;
            Given given{of[which], {}, {temperature, top_k, top_p, penalty}, draw};
            for (size_t i = 0; i < random() % 9; ++i) given.seen.push_back(int64_t(random() % of[which].size()));
            const Chosen want{testing::sample_on_host(given.logits, given.seen, given.options, draw), 0};
            ASSERT_EQ(by_reference(given), want);
            ASSERT_EQ(on_cpu(given, 1 + int(random() % 2)), want);
          }
}

TEST(Sample, TwoThreadsDrawWhatOneDraws) {
  const std::vector<float> logits = normal_logits(20000, 3, 4);
  for (int i = 0; i < 20; ++i)
    for (const double top_p : {0.97, 1.0}) {
      const Given given{logits, {}, {.temperature = 1.3, .top_p = top_p}, i / 20.0};
      ASSERT_EQ(on_cpu(given, 1), on_cpu(given, 2));
    }
}

TEST(Sample, FollowsTheDistribution) {
  // Probabilities 8/15, 4/15, 2/15, 1/15: logits are logarithms of 2.
  const std::vector<float> logits{0, 2.0794415f, 0.6931472f, 1.3862944f};
  const auto shares = [&](const SampleOptions& options) {
    std::vector<double> drawn(4, 0);
    constexpr int kDraws = 3000;
    for (int i = 0; i < kDraws; ++i)
      drawn[size_t(by_reference({logits, {}, options, (i + 0.5) / kDraws}).token)] += 1.0 / kDraws;
    return drawn;
  };
  const auto near = [](const std::vector<double>& got, const std::vector<double>& want) {
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 0.001) << i;
  };
  near(shares({.temperature = 1}), {1 / 15., 8 / 15., 2 / 15., 4 / 15.});
  near(shares({.temperature = 1, .top_k = 2}), {0, 2 / 3., 0, 1 / 3.});
  near(shares({.temperature = 1, .top_p = 0.9}), {0, 8 / 14., 2 / 14., 4 / 14.});
  near(shares({.temperature = 0.5}), {1 / 85., 64 / 85., 4 / 85., 16 / 85.});
}

TEST(Sample, TakesTheLargestLogitAndTheFirstOfSeveral) {
  const std::vector<float> logits{1, 3, 3, -1};
  EXPECT_EQ(chosen({logits, {}, {}, 0.9}).token, 1);
  EXPECT_EQ(chosen({logits, {}, {.temperature = 2, .top_k = 1}, 0.9}).token, 1);
  EXPECT_EQ(chosen({logits, {}, {.temperature = 2, .top_p = 0.01}, 0.9}).token, 1);
  EXPECT_EQ(chosen({logits, {}, {.temperature = 1e-300}, 0.1}).token, 1);
  EXPECT_EQ(chosen({{-0.0f, 0.0f}, {}, {}, 0}).token, 0);
}

TEST(Sample, NeverDrawsWhatIsImpossible) {
  const std::vector<float> logits{-kInfiniteLogit, 1, -kInfiniteLogit, 0, -kInfiniteLogit};
  for (int i = 0; i < 100; ++i)
    for (const double top_p : {0.99, 1.0}) {
      const int64_t token = chosen({logits, {}, {.temperature = 100, .top_p = top_p}, i / 100.0}).token;
      EXPECT_TRUE(token == 1 || token == 3) << token;
    }
}

TEST(Sample, PenalisesWhatWasSeenOnce) {
  EXPECT_EQ(chosen({{2, 3, -1, -1.5}, {1, 1}, {.repetition_penalty = 2}, 0}).token, 0);
  EXPECT_EQ(chosen({{-1, -1.5}, {0}, {.repetition_penalty = 2}, 0}).token, 1);
  EXPECT_EQ(chosen({{2, 3}, {1}, {.repetition_penalty = 0}, 0}).token, 1);  // settings of zeros take the largest
  EXPECT_EQ(chosen({{4, 3}, {0, 0, 0}, {.repetition_penalty = 1.25}, 0}).token, 0);  // 3.2; three times were 2.05
}

TEST(Sample, SaysWhatIsWrongWithLogits) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const double temperature : {0.0, 1.0}) {
    const SampleOptions options{.temperature = temperature, .top_p = 0.9};
    EXPECT_EQ(chosen({{1, nan, 7, nan}, {}, options, 0.5}), (Chosen{1, sampling::kNan}));
    EXPECT_EQ(chosen({{1, 2, kInfiniteLogit}, {}, options, 0.5}), (Chosen{2, sampling::kInfinite}));
    EXPECT_EQ(chosen({{-kInfiniteLogit, -kInfiniteLogit}, {}, options, 0.5}), (Chosen{0, sampling::kInfinite}));
  }
}

TEST(Sample, WeightsAreThoseOfExpAndTheirSumsFit) {
  const int bits = sampling::weight_bits(50257);
  EXPECT_EQ(sampling::weight_of(0, bits), uint64_t(1) << bits);
  for (double power = 0; power > -20; power -= 0.0137)
    EXPECT_NEAR(double(sampling::weight_of(power, bits)) / std::exp2(power + bits), 1, 0x1p-24) << power;
  EXPECT_EQ(sampling::weight_of(-1e300, bits), 0u);
  EXPECT_EQ(sampling::weight_of(-kInfiniteLogit, bits), 0u);
  EXPECT_EQ(sampling::weight_of(std::nan(""), bits), 0u);
  for (const int64_t vocabulary : {int64_t(1), int64_t(2), int64_t(65535), sampling::kMostTokens})
    EXPECT_LT(double(vocabulary) * std::exp2(sampling::weight_bits(vocabulary)), 0x1p62);
}

TEST(Sample, RefusesTypesThatDoNotFit) {
  const auto refused = [](std::vector<Tensor> inputs) {
    try {
      infer(ops::Sample{}, InferContext(TensorOperands(inputs), "n"));
    } catch (const Error& error) { return error.kind() == ErrorKind::bad_file; }
    return false;
  };
  const auto inputs = inputs_of({{1, 2}, {0}, {}, 0});
  EXPECT_FALSE(refused(inputs));
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto others = inputs;
    others[i] = Tensor(inputs[i].dtype(), {3, 4, 5, 6});
    EXPECT_TRUE(refused(others)) << i;
    others[i] = Tensor(DType::i32, inputs[i].dims());
    EXPECT_TRUE(refused(others)) << i;
  }
}

}  // namespace
}  // namespace temper
