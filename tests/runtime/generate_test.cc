// SPDX-License-Identifier: Apache-2.0
// Tokens by a model with caches, beside the same model that reads everything anew.
#include "runtime/generate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../graph/ops/host_sampler.h"
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
  ASSERT_EQ(places.size(), 3u);  // keys, values and the tokens themselves
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
  EXPECT_NE(error_of([&] { Generator(reader, {std::vector<int64_t>(9, 1)}, {}); }).find("does not fit"),
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

// The same seed draws what the host drew from whole logits, token by token.
TEST(Generator, DrawsWhatAHostDrawsFromTheLogits) {
  const auto engine = engine_of(2, 48, 4);
  for (const SampleOptions& sample :
       {SampleOptions{.temperature = 2, .seed = 1}, SampleOptions{.temperature = 3, .top_k = 5, .seed = 2},
        SampleOptions{.temperature = 3, .top_p = 0.8, .seed = 3},
        SampleOptions{.temperature = 4, .top_k = 9, .top_p = 0.9, .repetition_penalty = 1.4, .seed = 4},
        SampleOptions{.repetition_penalty = 1.3}}) {
    TokenReader reader(engine), judge(engine);
    Generator generator(reader, {{3, 1, 4}, {10}}, {.sample = sample, .most = 40});
    std::vector<std::vector<int64_t>> rows{{3, 1, 4}, {10}};
    judge.read(rows);
    std::vector<std::vector<double>> draws(2, std::vector<double>(40));
    for (int64_t row = 0; row < 2; ++row) fill_draws(sample.seed, row, draws[size_t(row)]);
    for (size_t step = 0; step < 40; ++step) {
      std::vector<int64_t> want;
      for (size_t row = 0; row < 2; ++row) {
        const auto logits = judge.logits(int64_t(row));
        want.push_back(testing::sample_on_host({logits.begin(), logits.end()}, rows[row], sample, draws[row][step]));
        rows[row].push_back(want.back());
      }
      ASSERT_EQ(generator.next(), want) << step;
      judge.read({{want[0]}, {want[1]}});
    }
  }
}

TEST(Generator, GivesTheSameTokensForTheSameSeed) {
  const auto engine = engine_of(2, 32, 4);
  const auto drawn = [&](uint64_t seed) {
    TokenReader reader(engine);
    Generator generator(reader, {{3, 1}, {3, 1}}, {.sample = {.temperature = 5, .seed = seed}, .most = 20});
    return all_of(generator, 2);
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
  EXPECT_NE(drawn(1)[0], drawn(1)[1]);
}

TEST(Generator, AForkIsDrawnByASeedOfItsOwn) {
  const auto engine = engine_of(2, 32, 4);
  const std::vector<std::vector<int64_t>> prompts{{3, 1, 4}, {10}};
  GenerateOptions options{.sample = {.temperature = 4, .top_k = 8, .seed = 1}, .most = 12};
  TokenReader reader(engine);
  Generator read(reader, prompts, options);
  for (const uint64_t seed : {1, 2}) {
    const auto by_fork = reader.fork();
    const auto fork = read.fork(*by_fork, seed);
    options.sample.seed = seed;
    TokenReader alone(engine);
    Generator generator(alone, prompts, options);
    EXPECT_EQ(all_of(*fork, 2), all_of(generator, 2)) << seed;
  }
  read.next(), read.next();
  const auto by_fork = reader.fork();
  const auto same = read.fork(*by_fork);
  EXPECT_EQ(all_of(*same, 2), all_of(read, 2));
}

TEST(TokenReader, HasLogitsWhereTheyWereAskedFor) {
  TokenReader reader(engine_of(2, 16, 4));
  EXPECT_NE(error_of([&] { reader.logits(0); }).find("not asked for"), std::string::npos);
  reader.read({{3, 1}, {4}});
  expect_logits(reader.logits(0), TinyGpt{}.logits_of({3, 1}).back());
  reader.read({{4}, {}}, false);
  EXPECT_EQ(reader.next(0), greedy({3, 1, 4}, 1)[0]);
  EXPECT_NE(error_of([&] { reader.logits(0); }).find("not asked for"), std::string::npos);
  expect_logits(reader.logits(1), TinyGpt{}.logits_of({4}).back());
}

TEST(TokenReader, AForkDrawsAsItsReaderDoes) {
  TokenReader reader(engine_of(1, 16, 4));
  reader.sample_by({.temperature = 5, .seed = 7}, {3});
  reader.read({{1, 2, 3}}, false);
  const auto other = reader.fork();
  for (int i = 0; i < 8; ++i) {
    const int64_t token = reader.next(0);
    ASSERT_EQ(other->next(0), token);
    reader.read({{token}}, false), other->read({{token}}, false);
  }
}

}  // namespace
}  // namespace temper
