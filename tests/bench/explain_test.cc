// SPDX-License-Identifier: Apache-2.0
#include "bench/explain.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../plan/helpers.h"
#include "base/error.h"
#include "bench/explain_text.h"
#include "bench/profile.h"

namespace temper {
namespace {

// Engines of a few layers, each of 1 ms unless said otherwise; a tensor's precision follows its name: "x:int8".
LayerTensor tensor(const std::string& name, int64_t elements = 1'000'000) {
  LayerTensor t{name, name.substr(name.find(':') + 1), "", {1, elements}, {}};
  t.bytes = elements * bits_of(t.precision) / 8;
  return t;
}

struct Builder {
  EngineLayers engine;
  Builder() { engine.name = "e"; }
  EngineLayer& add(LayerKind kind, const std::string& name, const std::vector<std::string>& inputs,
                   const std::string& output, double ms = 1) {
    EngineLayer layer;
    layer.name = name;
    layer.kind = kind;
    layer.ms = ms;
    int64_t bytes = 0;
    for (const std::string& input : inputs) layer.inputs.push_back(tensor(input));
    layer.outputs.push_back(tensor(output));
    for (const LayerTensor& t : layer.inputs) bytes += *t.bytes;
    layer.bytes = bytes + *layer.outputs[0].bytes;
    layer.from = layer.inputs[0].precision;
    layer.to = layer.outputs[0].precision;
    if (is_product(kind)) {
      layer.operations = 1'000'000'000;
      if (inputs.size() > 1) layer.addend = 1;
    }
    engine.layers.push_back(layer);
    return engine.layers.back();
  }
  EngineLayer& conv(const std::string& name, const std::vector<std::string>& inputs, const std::string& output,
                    double ms = 1) {
    return add(LayerKind::convolution, name, inputs, output, ms);
  }
  Builder& ends(const std::string& input, const std::string& output) {
    engine.inputs = {input};
    engine.outputs = {output};
    return *this;
  }
};

const Finding* find(const Explanation& e, const std::string& id) {
  for (const Finding& f : e.findings)
    if (f.id == id) return &f;
  return nullptr;
}

std::string all_of(const Finding& f) {
  std::string text = f.what;
  for (const std::string& line : f.evidence) text += "; " + line;
  return text + "; " + f.change + "; " + f.estimate;
}

// conv a writes FP16, which conv c adds as a residual and conv b takes quantized.
Builder residual_block(bool quantized) {
  Builder b;
  const std::string wide = quantized ? "int8" : "fp16";
  b.conv("a", {"x:int8"}, "a:" + wide, 1.5);
  const std::string main = quantized ? "a:int8" : "q:int8";
  if (!quantized) b.add(LayerKind::quantize, "q", {"a:fp16"}, "q:int8", 0.5);
  b.conv("b", {main}, "b:int8", 1);
  b.conv("c", {"b:int8", "a:" + wide}, "c:" + wide, 1.25);
  if (!quantized) b.add(LayerKind::quantize, "r", {"c:fp16"}, "r:int8", 0.5);
  b.conv("d", {quantized ? "c:int8" : "r:int8"}, "y:int8", 1);
  return b.ends("x:int8", "y:int8");
}

TEST(Explain, ResidualAdditionsInFloatAreFoundWithTheTimeThatTheyCost) {
  const Explanation e = explain(residual_block(false).engine);
  EXPECT_EQ(e.asked, "int8");
  EXPECT_TRUE(e.asked_is_lowest);
  EXPECT_EQ(e.products.all, 4);
  EXPECT_EQ(e.products.asked, 4);
  EXPECT_EQ(e.products.writing_wider, 2);
  EXPECT_EQ(e.products.for_residuals, 2);
  EXPECT_EQ(e.products.residuals, 1);
  EXPECT_EQ(e.products.residuals_wider, 1);
  const Finding* f = find(e, "residuals_in_float");
  ASSERT_TRUE(f);
  // Both quantize layers go away, and a and c take as long as b, the same work that writes INT8: 0.5 + 0.5 + 0.5 + 0.25
  // of 5.75 ms.
  EXPECT_NEAR(*f->gain_share, 1.75 / 5.75, 1e-12);
  EXPECT_FALSE(f->gain_ms);  // no whole run is known
  EXPECT_FALSE(f->at_most);
  EXPECT_NE(all_of(*f).find("1 of 1 residual inputs are FP16"), std::string::npos) << all_of(*f);
  EXPECT_NE(f->change.find("place Q/DQ on the residual inputs too"), std::string::npos);
  EXPECT_EQ(e.findings[0].id, "residuals_in_float");  // the most valuable one first
}

TEST(Explain, QuantizedResidualsAreNoFinding) {
  const Explanation e = explain(residual_block(true).engine);
  EXPECT_EQ(e.products.residuals, 1);
  EXPECT_EQ(e.products.residuals_wider, 0);
  EXPECT_EQ(e.products.writing_wider, 0);
  EXPECT_TRUE(e.findings.empty()) << e.findings[0].id;
  EXPECT_EQ(e.answer,
            "Yes: all 4 convolutions and products compute in INT8; layers of that precision take 100 % of the time.");
}

TEST(Explain, AResidualThatIsDequantizedBecauseTheKernelWritesFloatIsBlamedOnWhatNeedsTheFloat) {
  Builder b;
  b.conv("a", {"x:int8"}, "a:int8");
  b.add(LayerKind::dequantize, "dq", {"a:int8"}, "af:fp32", 0.25);
  b.conv("b", {"a:int8"}, "b:int8");
  b.conv("c", {"b:int8", "af:fp32"}, "c:fp32", 2);
  b.add(LayerKind::pooling, "gap", {"c:fp32"}, "g:fp32", 0.25).average = true;
  b.add(LayerKind::quantize, "q", {"g:fp32"}, "gq:int8", 0.25);
  b.conv("fc", {"gq:int8"}, "y:fp32");
  b.ends("x:int8", "y:fp32").engine.run_ms = 4;
  const Explanation e = explain(b.engine);
  EXPECT_FALSE(find(e, "residuals_in_float"));
  EXPECT_EQ(e.products.for_averages, 1);
  EXPECT_EQ(e.products.for_outputs, 1);
  const Finding* f = find(e, "average_pool_in_float");
  ASSERT_TRUE(f);
  // dq and q go away, c becomes like b, the pool reads and writes a quarter: 8 MB less 2 at 12 MB/0.25 ms of its own
  // rate.
  const double pool = 6.0 / (8.0 / 0.25);
  EXPECT_NEAR(*f->gain_share, (0.25 + 0.25 + 1 + pool) / e.layers_ms, 1e-9);
  EXPECT_NEAR(*f->gain_ms, *f->gain_share * 4, 1e-12);
  EXPECT_EQ(f->change, "put Q/DQ around the global average pool");
}

TEST(Explain, AnAveragePoolThatGivesTheEnginesOutputIsNoFinding) {
  Builder b;
  b.conv("a", {"x:int8"}, "a:fp32");
  b.add(LayerKind::pooling, "gap", {"a:fp32"}, "y:fp32").average = true;
  const Explanation e = explain(b.ends("x:int8", "y:fp32").engine);
  EXPECT_FALSE(find(e, "average_pool_in_float"));
  EXPECT_EQ(e.products.averages, 1);
  EXPECT_EQ(e.products.averages_wider, 0);
}

TEST(Explain, AQuantizeLayerThatAloneReadsAFloatOutputIsNamed) {
  Builder b;
  b.conv("a", {"x:int8"}, "a:fp16");
  b.add(LayerKind::quantize, "q", {"a:fp16"}, "q:int8");
  b.conv("b", {"q:int8"}, "y:int8");
  EXPECT_TRUE(find(explain(b.ends("x:int8", "y:int8").engine), "quantize_not_fused"));
  Builder fused;
  fused.conv("a", {"x:int8"}, "a:int8");
  fused.conv("b", {"a:int8"}, "y:int8");
  EXPECT_FALSE(find(explain(fused.ends("x:int8", "y:int8").engine), "quantize_not_fused"));
}

TEST(Explain, ProductsThatFellBackAreEstimatedAtTheRateOfTheOthers) {
  Builder b;
  b.conv("a", {"x:int8"}, "a:fp32", 1);
  b.conv("wide", {"a:fp32"}, "w:fp32", 3);
  b.add(LayerKind::quantize, "q", {"w:fp32"}, "q:int8", 0.5);
  b.conv("c", {"q:int8"}, "y:int8", 1);
  const Explanation e = explain(b.ends("x:int8", "y:int8").engine);
  const Finding* f = find(e, "products_in_float");
  ASSERT_TRUE(f);
  EXPECT_EQ(f->layers, std::vector<std::string>{"wide"});
  EXPECT_NEAR(*f->gain_share, (3 - 1) / 5.5, 1e-12);  // equal work at 1 ms
  EXPECT_NE(all_of(*f).find("1 of 3 convolutions and products compute in FP32, not in INT8"), std::string::npos)
      << all_of(*f);
  EXPECT_NE(all_of(*f).find("1 of them have neighbours in INT8"), std::string::npos);
  EXPECT_EQ(e.answer.substr(0, 49), "2 of 3 convolutions and products compute in INT8;");
}

TEST(Explain, WhatWasAskedForDecidesWhatIsWide) {
  Builder b;
  b.conv("a", {"x:fp16"}, "a:fp16");
  b.conv("b", {"a:fp16"}, "y:fp16");
  b.ends("x:fp16", "y:fp16");
  EXPECT_FALSE(find(explain(b.engine), "products_in_float"));
  const Explanation e = explain(b.engine, "int8");
  EXPECT_FALSE(e.asked_is_lowest);
  ASSERT_TRUE(find(e, "products_in_float"));
  EXPECT_FALSE(find(e, "products_in_float")->gain_share);  // nothing in INT8 tells its rate
  EXPECT_EQ(e.answer.substr(0, 57), "No: none of 2 convolutions and products compute in INT8; ");
  EXPECT_THROW(explain(b.engine, "int7"), Error);
  // FP32 among FP16 is as wide as FP16 among INT8.
  b.conv("c", {"y:fp16"}, "z:fp32");
  b.conv("d", {"z:fp32"}, "v:fp32");
  EXPECT_TRUE(find(explain(b.engine), "products_in_float"));
}

TEST(Explain, OtherLayersInFloatBetweenIntegerOnesAreFound) {
  const auto engine = [](const std::string& p) {
    Builder b;
    b.conv("a", {"x:int8"}, "a:int8");
    if (p != "int8") b.add(LayerKind::dequantize, "dq", {"a:int8"}, "af:" + p, 0.5);
    b.add(LayerKind::pooling, "max", {p == "int8" ? "a:int8" : "af:" + p}, "m:" + p);
    if (p != "int8") b.add(LayerKind::quantize, "q", {"m:" + p}, "mq:int8", 0.5);
    b.conv("b", {p == "int8" ? "m:int8" : "mq:int8"}, "y:int8");
    return b.ends("x:int8", "y:int8").engine;
  };
  const Explanation e = explain(engine("fp32"));
  const Finding* f = find(e, "others_in_float");
  ASSERT_TRUE(f);
  EXPECT_EQ(f->layers, std::vector<std::string>{"max"});
  EXPECT_GE(*f->gain_share, 1 / 4.0);  // the conversions alone
  EXPECT_FALSE(find(explain(engine("int8")), "others_in_float"));
}

TEST(Explain, ConversionsCountFromFivePercentOnBesideTheInputs) {
  const auto share = [](double inner, double input) {
    Builder b;
    b.add(LayerKind::quantize, "in", {"x:fp32"}, "xq:int8", input);
    b.conv("a", {"xq:int8"}, "a:int8", 100 - inner - input);
    b.add(LayerKind::reformat, "r", {"a:int8"}, "ar:int8", inner);
    b.conv("b", {"ar:int8"}, "y:int8", 0);
    return explain(b.ends("x:fp32", "y:int8").engine);
  };
  const Explanation e = share(5.1, 10);
  EXPECT_NEAR(e.conversions_share, 0.151, 1e-12);
  EXPECT_EQ(e.conversions, 2);
  ASSERT_TRUE(find(e, "conversions"));
  EXPECT_TRUE(find(e, "conversions")->at_most);
  EXPECT_NEAR(*find(e, "conversions")->gain_share, 0.151, 1e-12);
  EXPECT_FALSE(find(share(4.9, 10), "conversions"));
  ASSERT_TRUE(find(e, "input_conversion"));
  EXPECT_NEAR(*find(e, "input_conversion")->gain_share, 0.10, 1e-12);
  EXPECT_FALSE(find(share(4.9, 1.9), "input_conversion"));
}

TEST(Explain, LaunchingThatTakesAsLongAsComputingIsSaid) {
  Builder b;
  b.conv("a", {"x:int8"}, "y:int8");
  b.ends("x:int8", "y:int8").engine.run_ms = 1;
  b.engine.enqueue_ms = 0.79;
  EXPECT_FALSE(find(explain(b.engine), "launch_bound"));
  b.engine.enqueue_ms = 0.8;
  EXPECT_TRUE(find(explain(b.engine), "launch_bound"));
}

TEST(Explain, ManyTinyLayersAskForALargerBatch) {
  const auto with = [](double ms) {
    Builder b;
    for (int i = 0; i < 6; ++i)
      b.conv("c", {"t" + std::to_string(i) + ":int8"}, "t" + std::to_string(i + 1) + ":int8", ms);
    return explain(b.ends("t0:int8", "t6:int8").engine);
  };
  EXPECT_TRUE(find(with(0.009), "batch_too_small"));
  EXPECT_FALSE(find(with(0.011), "batch_too_small"));
}

// A plan of one convolution, and what the machine can do.
EngineLayers plan_of(const std::string& precision, double of_arithmetic, double of_memory) {
  Builder b;
  EngineLayer& layer = b.conv("conv", {"x:" + precision}, "y:" + precision);
  layer.of_arithmetic = of_arithmetic;
  layer.of_memory = of_memory;
  b.ends("x:" + precision, "y:" + precision).engine.is_plan = true;
  b.engine.asked = precision;
  b.engine.run_ms = 2;
  b.engine.peaks = Peaks{.bytes_per_s = 20e9, .f32_per_s = 100e9, .bf16_per_s = 200e9, .i8_per_s = 400e9};
  return b.engine;
}

TEST(Explain, OnAPlanTheMeasuredPeaksSayWhatALowerPrecisionCouldGive) {
  const Explanation e = explain(plan_of("fp32", 0.9, 0.1));
  ASSERT_TRUE(find(e, "could_be_int8"));
  EXPECT_NEAR(*find(e, "could_be_int8")->gain_share, 0.9 * 0.75, 1e-12);
  EXPECT_NEAR(*find(e, "could_be_int8")->gain_ms, 2 * 0.9 * 0.75, 1e-12);
  EXPECT_NEAR(*find(e, "could_be_bf16")->gain_share, 0.9 * 0.5, 1e-12);
  EXPECT_TRUE(find(explain(plan_of("bf16", 0.9, 0.1)), "could_be_int8"));
  EXPECT_FALSE(find(explain(plan_of("bf16", 0.9, 0.1)), "could_be_bf16"));
  EXPECT_FALSE(find(explain(plan_of("int8", 0.9, 0.1)), "could_be_bf16"));
  EngineLayers same = plan_of("fp32", 0.9, 0.1);
  same.peaks->i8_per_s = 119e9;  // not faster by a fifth
  EXPECT_FALSE(find(explain(same), "could_be_int8"));
}

TEST(Explain, TheNearerLimitOfTheMachineDecidesWhatBoundsAPlansSteps) {
  EXPECT_TRUE(find(explain(plan_of("int8", 0.1, 0.6)), "memory_bound"));
  EXPECT_FALSE(find(explain(plan_of("int8", 0.1, 0.59)), "memory_bound"));
  EXPECT_FALSE(find(explain(plan_of("int8", 0.7, 0.6)), "memory_bound"));
  const Explanation slow = explain(plan_of("int8", 0.29, 0.1));
  ASSERT_TRUE(find(slow, "far_from_limits"));
  EXPECT_NEAR(*find(slow, "far_from_limits")->gain_share, 0.71, 1e-12);
  EXPECT_FALSE(find(explain(plan_of("int8", 0.30, 0.1)), "far_from_limits"));
  EngineLayers disturbed = plan_of("int8", 0.29, 0.1);
  disturbed.disturbed = true;  // by other processes: the step may be nearer to the limit than it looks
  EXPECT_FALSE(find(explain(disturbed), "far_from_limits"));
}

TEST(Explain, WithoutPeaksFewOperationsAByteAreBoundByMemory) {
  const auto with = [](int64_t operations) {
    Builder b;
    b.conv("a", {"x:int8"}, "y:int8").operations = operations;  // 2 MB
    return explain(b.ends("x:int8", "y:int8").engine);
  };
  EXPECT_TRUE(find(with(15'999'999), "memory_bound"));
  EXPECT_FALSE(find(with(16'000'000), "memory_bound"));
}

TEST(Explain, StepsOnTheReferenceAndSecondPassesAreFoundInPlans) {
  EngineLayers plan = plan_of("fp32", 0.9, 0.1);
  EXPECT_FALSE(find(explain(plan), "reference_steps"));
  EXPECT_FALSE(find(explain(plan), "second_steps"));
  plan.layers[0].second_step = true;
  const Explanation e = explain(plan);
  ASSERT_TRUE(find(e, "second_steps"));
  EXPECT_NEAR(*find(e, "second_steps")->gain_share, 2 * 4e6 / 20e9 * 1e3, 1e-12);  // 4 MB there and back, of 1 ms
  plan.layers[0].reference = true;
  EXPECT_EQ(*find(explain(plan), "reference_steps")->gain_share, 1);
}

TEST(Explain, StepsOnTheReferenceComeFirstWithWhatTheyCostAndAreNothingThatInt8WouldSpeedUp) {
  Builder b;
  b.engine.is_plan = true;
  b.engine.asked = "fp32";
  b.engine.run_ms = 315;
  b.engine.peaks.emplace();
  b.engine.peaks->f32_per_s = 1e11;
  b.engine.peaks->i8_per_s = 4e11;
  b.engine.peaks->bytes_per_s = 1e10;
  b.conv("conv", {"x:fp32"}, "a:fp32", 215).of_arithmetic = 0.9;
  EngineLayer& slow = b.conv("up", {"a:fp32"}, "y:fp32", 100);
  slow.reference = true;
  slow.of_arithmetic = 0.9;
  b.ends("x:fp32", "y:fp32");
  const Explanation e = explain(b.engine);
  ASSERT_FALSE(e.findings.empty());
  EXPECT_EQ(e.findings[0].id, "reference_steps");
  EXPECT_NE(e.findings[0].evidence.at(0).find("100 ms"), std::string::npos) << e.findings[0].evidence[0];
  const Finding* lower = find(e, "could_be_int8");
  ASSERT_TRUE(lower);
  EXPECT_EQ(lower->layers, std::vector<std::string>{"conv"});
  EXPECT_NEAR(*lower->gain_ms, 215 * 0.9 * 0.75, 1e-6);
}

TEST(Explain, TheTextNamesAStepOnTheReferenceBeforeNotesAndBlamesNoOtherProcessForIt) {
  EngineInfo info = info_of("cpu");
  auto engine = std::make_shared<Engine>(info, small_graph("2"), 2);
  add_plan(engine, {{2, 3, 8, 8}});
  Plan plan = *engine->plans().at(0);
  for (Segment& segment : plan.segments)
    for (PlanStep& step : segment.steps) {
      step.ms = 1;
      if (step.node == "c1") step.tactic = "reference";
    }
  Profile profile = steps_of(std::make_shared<const Plan>(std::move(plan)));
  for (StepProfile& row : profile.steps) profile.steps_ms += row.ms = row.step->node == "c1" ? 500 : 1;
  profile.run_ms = 2 * profile.steps_ms;  // for a note
  profile.runs = 9;
  profile.load_by_others = 1.5;
  const EngineLayers layers = layers_of(profile, info, {}, "small.plan");
  ASSERT_EQ(layers.notes.size(), 1u);
  EXPECT_EQ(layers.notes[0].find("when they were tuned"), std::string::npos) << layers.notes[0];
  const std::string text = text_of(explain(layers));
  const size_t defect = text.find("Defect: 1 step runs on the scalar reference: there is no kernel for it: c1, 500 ms");
  EXPECT_NE(defect, std::string::npos) << text;
  EXPECT_LT(defect, text.find("Note: ")) << text;

  for (StepProfile& row : profile.steps)
    if (row.step->node != "c1") row.ms = 2;
  const EngineLayers slower = layers_of(profile, info, {}, "small.plan");
  ASSERT_EQ(slower.notes.size(), 1u);
  EXPECT_NE(slower.notes[0].find("the steps with a kernel take 2.0 times what they took when they were tuned"),
            std::string::npos)
      << slower.notes[0];
  info.device = "reference";  // asked for
  EXPECT_EQ(text_of(explain(layers_of(profile, info, {}, "small.plan"))).find("Defect"), std::string::npos);
}

TEST(Explain, ReasonsOfABuildStandBesideTheLayersThatStayed) {
  EngineLayers plan = plan_of("fp32", 0.9, 0.1);
  plan.asked = "int8";
  plan.kept = {"conv (conv): its input has no range", "other (conv): why"};
  const Explanation e = explain(plan);
  ASSERT_TRUE(find(e, "products_in_float"));
  EXPECT_NE(all_of(*find(e, "products_in_float")).find("its input has no range"), std::string::npos);
  EXPECT_EQ(all_of(*find(e, "products_in_float")).find("other (conv)"), std::string::npos);
}

TEST(Explain, EnginesAreOrderedAndTheOneThatIsNoFasterIsNamed) {
  EngineLayers slow = residual_block(false).engine, good = residual_block(true).engine;
  slow.name = "naive";
  slow.run_ms = 4;
  good.name = "careful";
  good.run_ms = 2;
  Builder half;
  half.conv("a", {"x:fp16"}, "y:fp16", 4);
  half.ends("x:fp16", "y:fp16").engine.name = "half";
  half.engine.run_ms = 3.9;
  const ExplainedSet set = compare_engines({explain(good), explain(slow), explain(half.engine)});
  ASSERT_EQ(set.engines.size(), 3u);
  EXPECT_EQ(set.engines[0].name, "half");
  EXPECT_EQ(set.engines[1].name, "naive");
  EXPECT_EQ(set.engines[2].name, "careful");
  ASSERT_EQ(set.answers.size(), 2u);
  EXPECT_EQ(set.answers[0].find("naive is INT8 and no faster than half (FP16): 4.000 ms against 3.900 ms."), 0u)
      << set.answers[0];
  EXPECT_NE(set.answers[1].find("careful has Q/DQ on the residual inputs too"), std::string::npos) << set.answers[1];
  ASSERT_EQ(set.steps.size(), 2u);
  EXPECT_NEAR(*set.steps[1].ratio, 0.5, 1e-12);
  // Faster than the wider one: nothing to say.
  half.engine.run_ms = 4.1;
  EXPECT_EQ(compare_engines({explain(slow), explain(half.engine)}).answers.size(), 0u);
}

TEST(Explain, TheJsonHasEveryNumberAndNullForWhatIsNotKnown) {
  const nlohmann::ordered_json json = json_of(compare_engines({explain(residual_block(false).engine)}));
  EXPECT_EQ(json.at("schema"), "temper.explain/1");
  const auto& e = json.at("engines")[0];
  EXPECT_TRUE(e.at("run_ms").is_null());
  EXPECT_EQ(e.at("products").at("writing_wider"), 2);
  EXPECT_EQ(e.at("findings")[0].at("id"), "residuals_in_float");
  EXPECT_NEAR(e.at("findings")[0].at("gain_share").get<double>(), 1.75 / 5.75, 1e-12);
  EXPECT_TRUE(e.at("findings")[0].at("gain_ms").is_null());
}

TEST(Explain, TheTextMovesNoCursorAndKeepsToAHundredColumns) {
  EngineLayers engine = residual_block(false).engine;
  engine.layers[0].name = "evil\x1b[2J\n" + std::string(300, 'x');
  const std::string text = text_of(explain(engine));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  size_t start = 0;
  for (size_t end; (end = text.find('\n', start)) != text.npos; start = end + 1)
    EXPECT_LE(end - start, 105u) << text.substr(start, end - start);
  EXPECT_NE(text_of(explain(engine), TextStyle::markdown).find("| precision"), std::string::npos);
}

}  // namespace
}  // namespace temper
