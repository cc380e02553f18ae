// SPDX-License-Identifier: Apache-2.0
// Tokens by a model with caches, beside the same model that reads everything anew.
#include "runtime/generate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../passes/tiny_gpt.h"
#include "optimize/build_engine.h"
#include "quantize/ranges.h"

namespace temper {
namespace {

using testing::TinyGpt;

std::shared_ptr<const Engine> engine_of(int64_t batch, int64_t positions, int64_t most, const TinyGpt& model = {}) {
  BuildOptions options;
  options.measure = false;
  options.threads = 1;
  options.cache = positions;
  options.shapes["input_ids"] = {{batch, 1}, {batch, std::min<int64_t>(4, most)}, {batch, most}};
  return build_engine(model.graph(), {}, options);
}

void expect_logits(std::span<const float> got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5) << i;
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) { return error.what(); }
  return "none";
}

std::vector<std::vector<int64_t>> all_of(Generator& generator, size_t rows) {
  std::vector<std::vector<int64_t>> tokens(rows);
  for (std::vector<int64_t> chosen; !(chosen = generator.next()).empty();)
    for (size_t row = 0; row < rows; ++row)
      if (chosen[row] >= 0) tokens[row].push_back(chosen[row]);
  return tokens;
}

// The most likely tokens behind a prompt, by the model without caches.
std::vector<int64_t> greedy(std::vector<int64_t> tokens, int64_t count) {
  std::vector<int64_t> behind;
  for (int64_t i = 0; i < count; ++i) {
    const auto logits = TinyGpt{}.logits_of(tokens).back();
    behind.push_back(std::max_element(logits.begin(), logits.end()) - logits.begin());
    tokens.push_back(behind.back());
  }
  return behind;
}

TEST(TokenReader, GivesTheLogitsOfAModelThatReadsAllAnew) {
  const std::vector<int64_t> tokens{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9};
  const auto want = TinyGpt{}.logits_of(tokens);
  TokenReader reader(engine_of(1, 15, 8));
  size_t at = 0;
  for (const size_t count :
       {size_t(6), size_t(1), size_t(1), size_t(5), size_t(2)}) {  // the last two without room to pad
    reader.read({{tokens.begin() + ptrdiff_t(at), tokens.begin() + ptrdiff_t(at + count)}});
    at += count;
    expect_logits(reader.logits(0), want[at - 1]);
    EXPECT_EQ(reader.length(0), int64_t(at));
  }
  EXPECT_EQ(reader.room(), 0);
  reader.reset();
  reader.read({{3, 1}});
  expect_logits(reader.logits(0), want[1]);
}

TEST(TokenReader, ReadsRowsOfDifferentLengths) {
  const std::vector<int64_t> a{3, 1, 4, 1, 5, 9, 2, 6, 5}, b{2, 7};
  TokenReader reader(engine_of(2, 16, 4));
  reader.read({a, b});
  expect_logits(reader.logits(0), TinyGpt{}.logits_of(a).back());
  expect_logits(reader.logits(1), TinyGpt{}.logits_of(b).back());
  reader.read({{}, {1, 8}});
  expect_logits(reader.logits(0), TinyGpt{}.logits_of(a).back());
  expect_logits(reader.logits(1), TinyGpt{}.logits_of({2, 7, 1, 8}).back());
  EXPECT_EQ(reader.length(0), 9);
  EXPECT_EQ(reader.length(1), 4);
}

TEST(TokenReader, RefusesWhatItCannotReadAndGoesOn) {
  TokenReader reader(engine_of(1, 8, 4));
  reader.read({{1, 2, 3}});
  EXPECT_NE(error_of([&] { reader.read({{4, 11}}); }).find("outside of the vocabulary of 11"), std::string::npos);
  EXPECT_NE(error_of([&] { reader.read({{-1}}); }).find("outside of the vocabulary"), std::string::npos);
  EXPECT_NE(error_of([&] { reader.read({{1, 1, 1, 1, 1, 1}}); }).find("holds 3 of 8 positions"), std::string::npos);
  EXPECT_NE(error_of([&] { reader.read({{1}, {1}}); }).find("a batch of 1"), std::string::npos);
  reader.read({{4}});
  expect_logits(reader.logits(0), TinyGpt{}.logits_of({1, 2, 3, 4}).back());
}

TEST(TokenReader, ForksGoOnByThemselves) {
  TokenReader reader(engine_of(1, 16, 4));
  reader.read({{1, 2, 3}});
  const auto other = reader.fork();
  expect_logits(other->logits(0), TinyGpt{}.logits_of({1, 2, 3}).back());
  reader.read({{4}});
  other->read({{7}});
  reader.read({{5}});
  other->read({{8}});
  expect_logits(reader.logits(0), TinyGpt{}.logits_of({1, 2, 3, 4, 5}).back());
  expect_logits(other->logits(0), TinyGpt{}.logits_of({1, 2, 3, 7, 8}).back());
}

TEST(TokenReader, CachesStayInOnePlace) {
  TokenReader reader(engine_of(1, 16, 4));
  reader.read({{1, 2, 3}});
  std::vector<const void*> places;
  for (const State& state : reader.session().states()) places.push_back(state.now.raw().data());
  ASSERT_EQ(places.size(), 2u);
  reader.read({{4}});
  for (size_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ(reader.session().states()[i].now.raw().data(), places[i]);
    EXPECT_FALSE(reader.session().states()[i].next.defined()) << "a cache has one buffer";
  }
}

TEST(TokenReader, ReadsWithProductsInBytesWhoseScalesAreOfEachToken) {
  BuildOptions options;
  options.measure = false;
  options.threads = 1;
  options.cache = 16;
  options.shapes["input_ids"] = {{1, 1}, {1, 4}, {1, 8}};
  options.precision = "int8";
  options.placement.activation_scales = ActivationScales::token;
  const auto engine = build_engine(TinyGpt{}.graph(), {}, options);
  EXPECT_GT(engine->info().lowered_products, 0);
  const std::vector<int64_t> tokens{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
  const auto want = TinyGpt{}.logits_of(tokens);
  TokenReader reader(engine);
  double apart = 0, largest = 0;
  for (size_t at = 0; at < tokens.size(); at += at == 0 ? 6 : 1) {
    const size_t end = at == 0 ? 6 : at + 1;
    reader.read({{tokens.begin() + ptrdiff_t(at), tokens.begin() + ptrdiff_t(end)}});
    for (size_t i = 0; i < want[end - 1].size(); ++i) {
      apart = std::max(apart, std::abs(reader.logits(0)[i] - want[end - 1][i]));
      largest = std::max(largest, std::abs(want[end - 1][i]));
    }
  }
  EXPECT_GT(apart, 0);
  EXPECT_LT(apart, 0.02 * largest);
  options.placement.activation_scales = ActivationScales::tensor;
  options.ranges = std::make_shared<const Ranges>();
  EXPECT_NE(
      error_of([&] { build_engine(TinyGpt{}.graph(), {}, options); }).find("ranges are of a model without caches"),
      std::string::npos);
}

TEST(TokenReader, RefusesAnEngineWithoutCaches) {
  BuildOptions options;
  options.measure = false;
  options.shapes = {{"x", {{2}, {2}, {2}}}};
  const auto engine =
      build_engine(parse_graph("graph \"g\"\ninput %x: f32[2]\n%y: f32[2] = pointwise(%x) program=\"(1) "
                               "1=neg.f32(0)\"\noutput \"y\" = %y\n"),
                   {}, options);
  EXPECT_NE(error_of([&] { TokenReader reader(engine); }).find("--cache"), std::string::npos);
}

TEST(Generator, TakesTheMostLikelyTokens) {
  TokenReader reader(engine_of(2, 32, 4));
  GenerateOptions options;
  options.most = 6;
  Generator generator(reader, {{3, 1, 4}, {10}}, options);
  const auto tokens = all_of(generator, 2);
  EXPECT_EQ(tokens[0], greedy({3, 1, 4}, 6));
  EXPECT_EQ(tokens[1], greedy({10}, 6));
  EXPECT_EQ(generator.why(0), "most");
  EXPECT_EQ(generator.tokens(), 12);
}

TEST(Generator, EndsWhereItIsToldToAndWhereTheCacheIsFull) {
  const std::vector<int64_t> all = greedy({3, 1, 4}, 13);
  TokenReader reader(engine_of(1, 16, 4));
  GenerateOptions options;
  options.end_with = {all[2]};
  Generator ends(reader, {{3, 1, 4}}, options);
  const auto first = size_t(std::find(all.begin(), all.end(), all[2]) - all.begin());
  EXPECT_EQ(all_of(ends, 1)[0], std::vector<int64_t>(all.begin(), all.begin() + ptrdiff_t(first + 1)));
  EXPECT_EQ(ends.why(0), "end");
  reader.reset();
  Generator fills(reader, {{3, 1, 4}}, {});
  // 16 positions take the prompt and 13 tokens; one more is known by then.
  EXPECT_EQ(all_of(fills, 1)[0], greedy({3, 1, 4}, 14));
  EXPECT_EQ(fills.why(0), "room");
}

TEST(Generator, MayBeLeftInTheMiddle) {
  TokenReader reader(engine_of(1, 32, 4));
  GenerateOptions options;
  options.most = 8;
  const std::vector<int64_t> all = greedy({3, 1, 4}, 8);
  {
    Generator left(reader, {{3, 1, 4}}, options);
    EXPECT_EQ(left.next(), std::vector<int64_t>{all[0]});
    EXPECT_EQ(left.next(), std::vector<int64_t>{all[1]});
  }
  // The caches hold the prompt and the first token; what comes goes on from there.
  EXPECT_EQ(reader.length(0), 4);
  Generator goes_on(reader, {{all[1]}}, {.most = 6});
  EXPECT_EQ(all_of(goes_on, 1)[0], std::vector<int64_t>(all.begin() + 2, all.end()));
  reader.reset();
  Generator anew(reader, {{3, 1, 4}}, options);
  EXPECT_EQ(all_of(anew, 1)[0], all);
}

TEST(Generator, IsAsItWasBehindARefusedPrompt) {
  TokenReader reader(engine_of(1, 8, 4));
  reader.read({{3}});
  EXPECT_NE(error_of([&] { Generator(reader, {std::vector<int64_t>(8, 1)}, {}); }).find("8 tokens more do not fit"),
            std::string::npos);
  EXPECT_NE(error_of([&] { Generator(reader, {{1, 12}}, {}); }).find("token 12 is outside of the vocabulary of 11"),
            std::string::npos);
  EXPECT_EQ(reader.length(0), 1);
  Generator goes_on(reader, {{1, 4}}, {.most = 3});
  EXPECT_EQ(all_of(goes_on, 1)[0], greedy({3, 1, 4}, 3));
}

TEST(Generator, RefusesPromptsAndSettings) {
  TokenReader reader(engine_of(1, 8, 4));
  EXPECT_NE(error_of([&] { Generator(reader, {{}}, {}); }).find("empty"), std::string::npos);
  EXPECT_NE(error_of([&] { Generator(reader, {std::vector<int64_t>(9, 1)}, {}); }).find("do not fit"),
            std::string::npos);
  EXPECT_NE(error_of([&] { Generator(reader, {{1}}, {.end_with = {11}}); }).find("vocabulary"), std::string::npos);
  EXPECT_NE(error_of([&] { Generator(reader, {{1}}, {.sample = {.top_p = 0}}); }).find("top-p"), std::string::npos);
  EXPECT_NE(error_of([&] { Generator(reader, {{1}}, {.most = 0}); }).find("0 tokens"), std::string::npos);
}

TEST(Generator, RefusesLogitsThatAreNoNumbersAndReadsNoTokenTwice) {
  for (const double temperature : {0.0, 1.0}) {
    SCOPED_TRACE(temperature);
    TokenReader reader(engine_of(2, 16, 4, {.broken = 5}));
    GenerateOptions options;
    options.sample = {.temperature = temperature, .top_k = 1};
    Generator generator(reader, {{3, 1, 4}, {10}}, options);
    const std::vector<int64_t> one = greedy({3, 1, 4}, 3), other = greedy({10}, 5);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(generator.next(), (std::vector<int64_t>{one[i], other[i]}));
    for (int again = 0; again < 2; ++again) {
      EXPECT_NE(error_of([&] { generator.next(); }).find("is NaN"), std::string::npos);
      EXPECT_EQ(reader.length(0), 6);
      EXPECT_EQ(reader.length(1), 4);
      EXPECT_EQ(generator.tokens(), 6);
    }
    generator.end(0, "NaN");  // the other row goes on, where it was
    EXPECT_EQ(generator.next(), (std::vector<int64_t>{-1, other[3]}));
    EXPECT_EQ(generator.next(), (std::vector<int64_t>{-1, other[4]}));
    EXPECT_NE(error_of([&] { generator.next(); }).find("is NaN"), std::string::npos);
    reader.reset();
    EXPECT_EQ(all_of(*std::make_unique<Generator>(reader, std::vector<std::vector<int64_t>>{{3, 1}, {3}},
                                                  GenerateOptions{.most = 3}),
                     2)[0],
              greedy({3, 1}, 3));
  }
}

TEST(Generator, RefusesAPromptWhoseLogitsAreNoNumbers) {
  TokenReader reader(engine_of(1, 16, 4, {.broken = 2}));
  Generator generator(reader, {{3, 1, 4}}, {});
  for (int again = 0; again < 2; ++again)
    EXPECT_NE(error_of([&] { generator.next(); }).find("is NaN"), std::string::npos);
}

TEST(Sampler, TakesTheLargestLogitAndTheFirstOfSeveral) {
  const std::vector<float> logits{1, 3, 3, -1};
  EXPECT_EQ(Sampler({}).choose(logits, {}), 1);
  EXPECT_EQ(Sampler({.temperature = 2, .top_k = 1}).choose(logits, {}), 1);
  EXPECT_EQ(Sampler({.temperature = 2, .top_p = 0.01}).choose(logits, {}), 1);
}

TEST(Sampler, PenalisesWhatWasSeen) {
  const std::vector<float> logits{2, 3, -1, -1.5};
  const std::vector<int64_t> seen{1, 1};
  EXPECT_EQ(Sampler({.repetition_penalty = 2}).choose(logits, seen), 0);
  const std::vector<float> negative{-1, -1.5};
  EXPECT_EQ(Sampler({.repetition_penalty = 2}).choose(negative, std::vector<int64_t>{0}), 1);
}

// Probabilities 8/15, 4/15, 2/15, 1/15 of logits that are logarithms of 2.
std::vector<double> shares(const SampleOptions& options, int draws) {
  const std::vector<float> logits{0, 2.0794415f, 0.6931472f, 1.3862944f};
  Sampler sampler(options);
  std::vector<double> shares(4, 0);
  for (int i = 0; i < draws; ++i) shares[size_t(sampler.choose(logits, {}))] += 1.0 / draws;
  return shares;
}

TEST(Sampler, DrawsByTheDistribution) {
  const auto near = [](const std::vector<double>& got, const std::vector<double>& want) {
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 0.02) << i;
  };
  near(shares({.temperature = 1}, 20000), {1 / 15., 8 / 15., 2 / 15., 4 / 15.});
  near(shares({.temperature = 1, .top_k = 2}, 20000), {0, 2 / 3., 0, 1 / 3.});
  near(shares({.temperature = 1, .top_p = 0.9}, 20000), {0, 8 / 14., 2 / 14., 4 / 14.});
  near(shares({.temperature = 0.5}, 20000), {1 / 85., 64 / 85., 4 / 85., 16 / 85.});
}

TEST(Sampler, GivesTheSameTokensForTheSameSeed) {
  const std::vector<float> logits(1000, 0.f);
  const auto drawn = [&](uint64_t seed, int64_t row) {
    Sampler sampler({.temperature = 1, .top_p = 0.99, .seed = seed}, row);
    std::vector<int64_t> tokens;
    for (int i = 0; i < 8; ++i) tokens.push_back(sampler.choose(logits, {}));
    return tokens;
  };
  EXPECT_EQ(drawn(1, 0), drawn(1, 0));
  EXPECT_NE(drawn(1, 0), drawn(2, 0));
  EXPECT_NE(drawn(1, 0), drawn(1, 1));
}

TEST(Sampler, RefusesLogitsThatAreNoNumbers) {
  EXPECT_NE(error_of([] { Sampler({}).choose(std::vector<float>{1, NAN}, {}); }).find("NaN"), std::string::npos);
  EXPECT_NE(error_of([] { Sampler({}).choose(std::vector<float>{-INFINITY}, {}); }).find("infinite"),
            std::string::npos);
}

}  // namespace
}  // namespace temper
