// SPDX-License-Identifier: Apache-2.0
// Products of few rows by constant weights, on the emulated GPU: depths of less and of more than a round, columns that
// do not fill a block, rows of several batches, parts of tensors.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "../../draw.h"
#include "../../graph/ops/host_sampler.h"
#include "../../passes/tiny_gpt.h"
#include "check_cases.h"
#include "emulated_gpu.h"
#include "graph/ops/fused_decode.h"
#include "onnx/import.h"
#include "optimize/build_engine.h"
#include "quantize/weights.h"
#include "random_blocks.h"
#include "runtime/generate.h"
#include "zoo/networks.h"

namespace temper {
namespace {

constexpr std::string_view kLines =
    R"text(reference matmul(f16[1,768], f16[768,21]*, f32[21]*, f16[1,21]) epilogue="(3) 3=add.f32(0,1) 4=cast.f32(2) 5=add.f32(3,4) 6=cast.f16(5)"
reference matmul(f16[1,1,3080], f16[3080,9]*, f32[9]*) epilogue="(2) 2=add.f32(0,1) 3=relu.f32(2) 4=cast.f16(3)"
reference matmul(f16[3,1,264], f16[13,264]*, f16[3,1,13]) transpose_b=true epilogue="(2) 2=cast.f32(1) 3=add.f32(0,2)"
matmul(bf16[2,4,520], bf16[520,7]*) epilogue="(1) 1=cast.bf16(0)"
matmul(bf16[2,9000], bf16[9000,3]*, bf16[2,1]) epilogue="(2) 2=cast.f32(1) 3=mul.f32(0,2) 4=cast.bf16(3)"
reference matmul(f16[2,8], f16[8,5]*) epilogue="(1) 1=round.f32(0) 2=cast.i8(1)"
)text";

TEST(EmulatedMatmulRows, AgreeWithTheReference) {
  const testing::EmulatedGpu emulated;
  testing::check_lines("rows", std::string(kLines), emulated.compiler(), emulated.gpu(),
                       {.recipes = "cuda.matmul.rows"});
}

constexpr std::string_view kAttentions =
    R"text(attention(f16[2,1,128], f16[2,300,128], f16[2,300,128], _, i64[2]=[290,3]) heads=2 kv_heads=2 scale=0.125
attention(f16[1,1,128], f16[1,1100,64], f16[1,1100,64]) heads=2 scale=0.125 right=0 from_end=true
attention(bf16[2,1,64], bf16[2,40,32], bf16[2,40,32], _, i64[2]=[40,0]) heads=2 scale=0.25 softcap=2 zero_nan=true
attention(f16[1,1,256], f16[1,70,256], f16[1,70,256]) heads=2 kv_heads=2 scale=-0.1
attention(bf16[1,1,256], bf16[1,90,256], bf16[1,90,256], _, i64[1]=[77]) scale=0.0625 left=20 right=0 from_end=true
)text";

TEST(EmulatedAttentionOne, AgreesWithTheReference) {
  const testing::EmulatedGpu emulated;
  testing::check_lines("one", std::string(kAttentions), emulated.compiler(), emulated.gpu(),
                       {.recipes = "cuda.attention.one"});
}

TEST(EmulatedLongRows, HaveTheirBestElementFound) {
  const testing::EmulatedGpu emulated;
  const std::string lines =
      "arg_reduce(f32[2,3000]) axis=1\narg_reduce(f16[1,20000]) axis=1 last=true\n"
      "arg_reduce(i64[3,2048]) axis=1 kind=min keepdims=false\narg_reduce(f32[2100]) axis=0\n";
  testing::check_lines("long", lines, emulated.compiler(), emulated.gpu(), {.recipes = "cuda.arg_reduce"});
  testing::check_lines("nan", lines.substr(0, lines.find('\n') + 1), emulated.compiler(), emulated.gpu(),
                       {.recipes = "cuda.arg_reduce", .put = {std::numeric_limits<double>::quiet_NaN()}});
}

// Of random settings, by clusters of blocks and by one; bins that hold more tokens than are compared with one another.
TEST(EmulatedSample, DrawsWhatTheReferenceDraws) {
  testing::Draw draw{std::mt19937_64(19)};
  std::string lines;
  const auto number = [&](int64_t low, int64_t high, double by) { return double(draw(low, high)) * by; };
  for (int i = 0; i < 24; ++i) {
    const int64_t vocabulary = i % 3 == 0 ? draw(600, 2000) : draw(2000, 20000);
    const int64_t spread = i % 4 == 0 ? 2 : 40;
    lines += concat("sample(f32[1,", vocabulary, "]{0..", spread, "}, i64[1,2,1]=[", draw(0, vocabulary - 1), ',',
                    draw(0, vocabulary - 1), "], i64[1]=[2], f64[1,4]=[", number(1, 40, 0.25), ',',
                    i % 2 ? draw(0, vocabulary) : 0, ',', i % 3 ? number(1, 20, 0.05) : 1.0, ',',
                    i % 5 ? 1.0 : number(4, 9, 0.25), "], f64[1,2]=[0.5,", number(0, 999, 0.001), "])\n");
  }
  for (const int capability : {90, 80}) {
    const testing::EmulatedGpu emulated(capability);
    testing::check_lines("sample", lines, emulated.compiler(), emulated.gpu(), {.recipes = "cuda.sample"});
  }
  const testing::EmulatedGpu emulated;
  testing::check_cases("sample", emulated.compiler(), emulated.gpu(), {.recipes = "cuda.sample"});
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity()})
    testing::check_cases("sample", emulated.compiler(), emulated.gpu(), {.recipes = "cuda.sample", .put = {value}});
}

// Rows of a width that fills no step of a warp, and of more than registers hold; several in a batch; products of few
// and of shared columns; roots of squares alone; scale and shift of 16 bits.
constexpr std::string_view kNormalized =
    R"text(normalized_matmul(f16[1,1,768], f32[768]*, f32[768]*, f16[768,21]*, f16[21]*) axes=[2] epsilon=1e-05 between="(3) 3=mul.f32(0,1) 4=add.f32(3,2) 5=cast.f16(4)" epilogue="(2) 2=cast.f32(1) 3=add.f32(0,2) 4=cast.f16(3)"
normalized_matmul(f16[3,264], f32[1,264]*, f16[264]*, f16[13,264]*, f16[3,13]) axes=[1] between="(3) 3=mul.f32(0,1) 4=cast.f32(2) 5=add.f32(3,4) 6=cast.f16(5)" transpose_b=true epilogue="(2) 2=cast.f32(1) 3=add.f32(0,2) 4=cast.f16(3)"
normalized_matmul(bf16[2,4,72], bf16[72]*, bf16[72,7]*) axes=[2] center=false epsilon=0.01 between="(2) 2=cast.f32(1) 3=mul.f32(0,2) 4=cast.bf16(3)" epilogue="(1) 1=cast.bf16(0)"
normalized_matmul(f16[2,3080], f16[3080,5]*) axes=[1] between="(1) 1=cast.f16(0)" epilogue="(1) 1=cast.f16(0)"
)text";

TEST(EmulatedMatmulRows, NormaliseTheirRowsBefore) {
  const testing::EmulatedGpu emulated;
  testing::check_lines("normalized", std::string(kNormalized), emulated.compiler(), emulated.gpu(),
                       {.recipes = "cuda.matmul.rows"});
}

// Weights of few bits, as tests/cases has them, with every configuration.
TEST(EmulatedMatmulRows, ReadWeightsOf8And4Bits) {
  const testing::EmulatedGpu emulated;
  testing::check_cases("blocked_matmul", emulated.compiler(), emulated.gpu(),
                       {.recipes = "cuda.matmul.rows", .one_config = true});
  const std::string fused = read_file(paths::source_folder() + "/tests/cases/fused.cases");
  testing::check_lines("fused", fused.substr(fused.find("# by weights in blocks")), emulated.compiler(), emulated.gpu(),
                       {.recipes = "cuda.matmul.rows", .one_config = true});
}

TEST(EmulatedMatmulRows, ReadWeightsInBlocksOfRandomShapes) {
  const testing::EmulatedGpu emulated;
  testing::check_lines("random", testing::random_blocked_products(testing::shapes_asked_for().value_or(6)),
                       emulated.compiler(), emulated.gpu(), {.recipes = "cuda.matmul.rows", .one_config = true});
}

// The first and the last position of a cache, one in the middle; heads that share keys; windows; sizes of heads.
constexpr std::string_view kAppending =
    R"text(appending_attention(f16[2,1,128], f16[2,300,128], f16[2,1,128], f16[2,300,128], f16[2,1,128], i64[2]=[299,0], _, i64[2]=[300,1]) heads=2 kv_heads=2 scale=0.125 right=0 from_end=true
appending_attention(f16[1,1,256], f16[1,1100,64], f16[1,1,64], f16[1,1100,64], f16[1,1,64], i64[1]=[700], _, i64[1]=[701]) heads=4 scale=0.125 left=300 right=0 from_end=true
appending_attention(f16[2,1,128], f16[2,300,128], f16[2,1,128], f16[2,300,128], f16[2,1,128], i64[2]=[299,0]) heads=2 kv_heads=2 scale=0.125 right=0 from_end=true behind_new=true given=true
appending_attention(f16[1,1,256], f16[1,1100,64], f16[1,1,64], f16[1,1100,64], f16[1,1,64], i64[1]=[700], _, i64[1]=[701]) heads=4 scale=0.125 left=300 right=0 from_end=true given=true
appending_attention(bf16[1,1,64], bf16[1,40,32], bf16[1,1,32], bf16[1,40,32], bf16[1,1,32], i64[1]=[7]) heads=2 scale=0.25 softcap=2
appending_attention(bf16[1,1,256], bf16[1,90,256], bf16[1,1,256], bf16[1,90,256], bf16[1,1,256], i64[1]=[76], _, i64[1]=[77]) scale=0.0625
)text";

TEST(EmulatedAttentionOne, AppendsToItsCaches) {
  const testing::EmulatedGpu emulated;
  testing::check_lines("appending", std::string(kAppending), emulated.compiler(), emulated.gpu(),
                       {.recipes = "cuda.attention.one"});
}

using EmulatedDecode = testing::EmulatedBuilds;

std::shared_ptr<Engine> gpt2(const std::string& device, const std::string& precision,
                             std::optional<WeightFormat> weights = std::nullopt, int64_t piece = 4, int layers = 2) {
  zoo::Builder builder("gpt2", 1, 17);
  Graph graph =
      import_onnx_bytes(zoo::gpt2(builder, {.layers = layers, .heads = 2, .words = 60, .positions = 32}), ".").graph;
  if (weights) quantize_weights(graph, *weights);
  BuildOptions options;
  options.device = device;
  options.precision = precision;
  options.measure = false;
  options.threads = 1;
  options.cache = 32;
  options.shapes["input_ids"] = {{1, 1}, {1, piece}, {1, piece}};
  return build_engine(graph, {}, options);
}

// Caches are in fp16 and so is what is appended: nothing of them is cast.
TEST_F(EmulatedDecode, ATokenOfGpt2TakesFiveStepsALayer) {
  const auto engine = gpt2("cuda:0", "fp16");
  std::map<std::string, int> steps;
  int all = 0;
  for (const Segment& segment : engine->plans().at(0)->segments)
    for (const PlanStep& step : segment.steps) ++steps[step.tactic], ++all;
  EXPECT_EQ(all, 2 * 5 + 6);
  EXPECT_EQ(steps["cuda.matmul.rows"], 2 * 4 + 1);
  EXPECT_EQ(steps["cuda.attention.one"], 2);
  EXPECT_EQ(steps["cuda.append"], 1);  // of the token itself
  EXPECT_EQ(steps["cuda.sample"], 1);
  EXPECT_EQ(steps["cuda.normalize"], 1);  // that of the sum of embeddings
  TokenReader halves(engine), floats(gpt2("cpu", "fp32"));
  for (int64_t at = 0; at < 6; ++at) {
    for (TokenReader* reader : {&halves, &floats}) reader->read({{at * 17 % 60}});
    float largest = 0, apart = 0;
    for (size_t i = 0; i < 60; ++i) {
      largest = std::max(largest, std::abs(floats.logits(0)[i]));
      apart = std::max(apart, std::abs(floats.logits(0)[i] - halves.logits(0)[i]));
    }
    EXPECT_LT(apart, 5e-3f * largest) << at;
  }
}

// The largest difference of logits, of the largest of `wanted`.
void expect_same_answers(const std::shared_ptr<Engine>& engine, const std::shared_ptr<Engine>& wanted,
                         const std::vector<std::vector<int64_t>>& pieces) {
  TokenReader reader(engine), other(wanted);
  for (const std::vector<int64_t>& tokens : pieces) {
    for (TokenReader* each : {&reader, &other}) each->read({tokens});
    float largest = 0, apart = 0;
    for (size_t i = 0; i < 60; ++i) {
      largest = std::max(largest, std::abs(other.logits(0)[i]));
      apart = std::max(apart, std::abs(other.logits(0)[i] - reader.logits(0)[i]));
    }
    EXPECT_LT(apart, 5e-3f * largest) << "a piece of " << tokens.size();
  }
}

// Steps that read weights in blocks; nothing of these is computed on the host.
int steps_in_blocks(const Plan& plan) {
  int count = 0;
  for (const Segment& segment : plan.segments)
    for (const PlanStep& step : segment.steps) {
      EXPECT_NE(step.tactic, "cuda.host") << step.node;
      const auto* normalized = step.problem.op.get_if<ops::NormalizedMatMul>();
      count += step.problem.op.is<ops::BlockedMatMul>() || (normalized && normalized->in_blocks());
    }
  return count;
}

TEST_F(EmulatedDecode, ATokenOfGpt2ReadsWeightsOfFewBitsAsTheyAre) {
  for (const WeightFormat& format : {WeightFormat{8, 32}, WeightFormat{4, 32}}) {
    const auto engine = gpt2("cuda:0", "fp16", format);
    for (const auto& plan : engine->plans()) EXPECT_EQ(steps_in_blocks(*plan), 2 * 4 + 1);
    expect_same_answers(engine, gpt2("cpu", "fp32", format), {{3, 14, 15, 9}, {17}, {34}, {51, 8}, {25}});
  }
}

// A plan for more rows than the kernel takes multiplies by floats; the one for a token beside it does not.
TEST_F(EmulatedDecode, ManyRowsAreMultipliedByFloatsOfTheSameWeights) {
  const auto engine = gpt2("cuda:0", "fp16", WeightFormat{4, 32}, 16, 1);
  std::set<int> counts;
  for (const auto& plan : engine->plans()) counts.insert(steps_in_blocks(*plan));
  EXPECT_EQ(counts, (std::set<int>{1, 4 + 1}));  // logits are of one row in both
  const std::vector<int64_t> prompt{3, 14, 15, 9, 26, 5, 35, 8, 9, 7, 9, 3, 2, 38, 46, 2};
  expect_same_answers(engine, gpt2("cpu", "fp32", WeightFormat{4, 32}, 16, 1), {prompt, {41}});
  // A plan that is made when its shapes are first seen finds weights that kernels for any rows read.
  std::vector<Dims> shapes;
  for (const PortInfo& port : engine->inputs()) {
    shapes.emplace_back();
    for (const Dim& dim : port.type.shape) shapes.back().push_back(dim.is_constant() ? dim.value() : 12);
  }
  EXPECT_EQ(steps_in_blocks(*engine->plan_for(shapes)), 1);
}

// What was begun with a token that turns out not to be read next counts for nothing.
TEST_F(EmulatedDecode, TheNextTokenIsBegunBeforeTheLastIsKnown) {
  const auto engine = gpt2("cuda:0", "fp16", std::nullopt, 4, 1);
  const auto runs = [](TokenReader& reader) { return reader.session().statistics().runs; };
  const std::vector<int64_t> prompt{3, 14, 15};
  TokenReader by_itself(engine);
  std::vector<int64_t> want;
  by_itself.read({prompt});
  while (want.size() < 10) {
    want.push_back(by_itself.next(0));
    by_itself.read({{want.back()}});
  }
  TokenReader reader(engine);
  Generator generator(reader, {prompt}, {.most = 10});
  const int64_t before = runs(reader);
  std::vector<int64_t> got;
  for (std::vector<int64_t> chosen; !(chosen = generator.next()).empty();) {
    got.push_back(chosen[0]);
    const auto behind = int64_t(got.size()) - 1;  // of the prompt's last token, which is there already
    EXPECT_EQ(runs(reader) - before, behind + (behind > 0 && behind < 9)) << "one is begun, unless it is the last";
    EXPECT_EQ(reader.length(0), 3 + behind);
  }
  EXPECT_EQ(got, want);

  // It is left in the middle: other tokens are read, logits are asked for, and what was read stays so.
  reader.reset();
  Generator left(reader, {prompt}, {.most = 10, .end_with = {want[3]}});
  std::vector<int64_t> first;
  for (std::vector<int64_t> chosen; !(chosen = left.next()).empty();) first.push_back(chosen[0]);
  EXPECT_EQ(first, std::vector<int64_t>(want.begin(), std::find(want.begin(), want.end(), want[3]) + 1));
  std::vector<int64_t> all = prompt;
  all.insert(all.end(), first.begin(), first.end() - 1);
  EXPECT_EQ(reader.length(0), int64_t(all.size()));
  const auto other = reader.fork();
  for (TokenReader* each : {&reader, other.get()}) {
    const int64_t token = each == &reader ? 41 : 7;
    std::vector<int64_t> anew = all;
    anew.push_back(token);
    each->read({{token}});
    by_itself.reset();
    by_itself.read({{anew.begin(), anew.begin() + 3}});
    for (size_t i = 3; i < anew.size(); ++i) by_itself.read({{anew[i]}});
    EXPECT_TRUE(std::ranges::equal(each->logits(0), by_itself.logits(0))) << token;
  }
}

// Drawn tokens, too, by numbers that were there before.
TEST_F(EmulatedDecode, TheNextTokenIsDrawnBeforeTheLastIsKnown) {
  const auto engine = gpt2("cuda:0", "fp16", std::nullopt, 4, 1);
  for (const SampleOptions& sample :
       {SampleOptions{.temperature = 3, .seed = 5},
        SampleOptions{.temperature = 2, .top_k = 40, .top_p = 0.9, .repetition_penalty = 1.2, .seed = 6}}) {
    std::vector<int64_t> rows{3, 14, 15};
    std::vector<double> draws(12);
    fill_draws(sample.seed, 0, draws);
    TokenReader judge(engine);
    judge.read({rows});
    TokenReader reader(engine);
    Generator generator(reader, {rows}, {.sample = sample, .most = 12});
    for (size_t step = 0; step < 12; ++step) {
      const auto logits = judge.logits(0);
      rows.push_back(testing::sample_on_host({logits.begin(), logits.end()}, rows, sample, draws[step]));
      ASSERT_EQ(generator.next(), std::vector<int64_t>{rows.back()}) << step;
      judge.read({{rows.back()}});
    }
  }
}

TEST_F(EmulatedDecode, LogitsThatAreNoNumbersEndIt) {
  BuildOptions options;
  options.device = "cuda:0";
  options.measure = false;
  options.threads = 1;
  options.cache = 16;
  options.shapes["input_ids"] = {{1, 1}, {1, 4}, {1, 4}};
  const auto engine = build_engine(testing::TinyGpt{.broken = 5}.graph(), {}, options);
  for (const double temperature : {0.0, 1.0}) {
    TokenReader reader(engine);
    Generator generator(reader, {{3, 1, 4}}, {.sample = {.temperature = temperature}});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(generator.next().size(), 1u);
    for (int again = 0; again < 2; ++again) {
      try {
        generator.next();
        ADD_FAILURE() << "a token came of NaN";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::bad_file);
        EXPECT_NE(std::string(error.what()).find("is NaN"), std::string::npos) << error.what();
      }
    }
    EXPECT_EQ(reader.length(0), 6);
    reader.reset();
    Generator anew(reader, {{3, 1}}, {.most = 2});
    EXPECT_EQ(anew.next().size(), 1u);
    EXPECT_EQ(anew.next().size(), 1u);
  }
}

// Each call of the driver that fails leaves the rows as they were.
TEST_F(EmulatedDecode, GoesOnAfterAFailureWithATokenUnderWay) {
  TokenReader reader(gpt2("cuda:0", "fp16", std::nullopt, 4, 1)), other(reader.session().shared_engine());
  other.read({{3, 14, 15}});
  std::vector<int64_t> want;
  for (int i = 0; i < 12; ++i) {
    want.push_back(other.next(0));
    other.read({{want.back()}});
  }
  reader.read({{3, 14, 15}});
  int failed = 0;
  for (size_t at = 0; at < want.size(); ++at) {
    bool read = false;
    for (const int64_t call : {1 + int64_t(at) % 5, int64_t(0)}) {
      if (read) break;
      cuda::planned_failures().other = call;
      try {
        reader.read({{want[at]}}, false, true);
        read = true;
      } catch (const Error&) {
        ++failed;
        EXPECT_EQ(reader.length(0), int64_t(3 + at));
      }
      cuda::planned_failures().other = 0;
    }
    EXPECT_TRUE(read);
    EXPECT_EQ(reader.length(0), int64_t(4 + at));
    if (at + 1 < want.size()) { EXPECT_EQ(reader.next(0), want[at + 1]) << at; }
  }
  EXPECT_GT(failed, 0);
}

}  // namespace
}  // namespace temper
