// SPDX-License-Identifier: Apache-2.0
#include "quantize/ranges.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "../data/helpers.h"

namespace temper {
namespace {

std::vector<float> normal_values(size_t count, uint32_t seed, float deviation) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

Observed observe(std::span<const float> values) {
  Observed observed;
  observed.histogram.add(values);
  for (float v : values) {
    observed.min = std::min(observed.min, v);
    observed.max = std::max(observed.max, v);
  }
  return observed;
}

Ranges ranges_of(const std::vector<float>& values, std::vector<uint64_t> hashes,
                 const std::string& method = "entropy") {
  Ranges ranges;
  ranges.model_sha256 = "ab12";
  ranges.method = method;
  ranges.samples = int64_t(hashes.size());
  ranges.seed = std::numeric_limits<uint64_t>::max();
  ranges.sample_hashes = std::move(hashes);
  ranges.values["x"] = make_range("x", Method::parse(method), observe(values), ranges.notes);
  ranges.order = {"x"};
  return ranges;
}

TEST(Ranges, AFileReadsBackAsItWasWritten) {
  Ranges ranges = ranges_of(normal_values(1000, 1, 3), {1, 17, ~uint64_t(0)});
  ranges.notes.push_back("a \"note\"\nof two lines");
  ranges.placeholder = true;
  // What TensorRT's caches hold, and numbers without a short decimal form.
  int i = 0;
  for (float scale :
       {0.0f, std::numeric_limits<float>::infinity(), 2.67939e36f, 1.0f / 127, 1e-42f, std::nextafter(0.1f, 1.0f)})
    ranges.values[concat("onnx::MatMul_", ++i, " [Shuffle]: é")] = {
        -127 * std::min(scale, 1.0f), 1, scale, "cache", 0, {}};
  for (const auto& [name, range] : ranges.values) ranges.order.insert(ranges.order.begin(), name);
  ranges.order.erase(std::remove(ranges.order.begin(), ranges.order.end() - 1, "x"), ranges.order.end() - 1);
  ranges.cache_header = "TRT-8501-EntropyCalibration2";
  ranges.values["x"].channels = {0, 1e-42f, 0.1f, std::numeric_limits<float>::max()};
  const std::string path = test_folder() + "r.json";
  save_ranges(path, ranges);
  const Ranges read = load_ranges(path);
  EXPECT_TRUE(read == ranges);
  for (const auto& [name, range] : ranges.values)
    EXPECT_EQ(float_bits(read.values.at(name).scale), float_bits(range.scale)) << name;
}

TEST(Ranges, OnlyPositiveNormalScalesAreUsable) {
  const auto usable = [](float scale) { return TensorRange{0, 0, scale}.is_usable(); };
  EXPECT_TRUE(usable(0.5f));
  EXPECT_TRUE(usable(std::numeric_limits<float>::min()));
  for (float bad :
       {0.0f, -1.0f, 1e-42f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    EXPECT_FALSE(usable(bad)) << bad;
}

TEST(Ranges, TwoHalvesJoinToTheRangesOfTheWhole) {
  const auto first = normal_values(5000, 1, 1), second = normal_values(3000, 2, 40);
  auto whole = first;
  whole.insert(whole.end(), second.begin(), second.end());
  for (const char* method : {"minmax", "percentile:99.9", "mse", "entropy"}) {
    const Ranges a = ranges_of(first, {1, 3}, method), b = ranges_of(second, {2}, method);
    const Ranges expected = ranges_of(whole, {1, 2, 3}, method);
    EXPECT_TRUE(merge({a, b}) == expected) << method;
    EXPECT_TRUE(merge({b, a}) == expected) << method;
    EXPECT_FALSE(a.values.at("x") == expected.values.at("x")) << method;
  }
}

TEST(Ranges, ChannelsJoinToTheirMaxima) {
  Ranges a = ranges_of({1, 2}, {1}), b = ranges_of({3, 4}, {2});
  a.values["x"].channels = {1, 5, 0};
  b.values["x"].channels = {2, 4, 0};
  EXPECT_EQ(merge({a, b}).values.at("x").channels, (std::vector<float>{2, 5, 0}));
  EXPECT_EQ(merge({b, a}).values.at("x").channels, (std::vector<float>{2, 5, 0}));
  b.values["x"].channels.clear();  // of an older version
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { merge({a, b}); }), "has 3 channels in one and 0 in the other");
}

TEST(Ranges, ChannelsAreFiniteFloatsThatAreNotBelowZero) {
  Ranges ranges = ranges_of({1, 2}, {1});
  ranges.values["x"].channels = {1, 2};
  const std::string good = to_json(ranges);
  EXPECT_CONTAINS(good, "\"3f80000040000000\"");
  EXPECT_TRUE(ranges_from_json(good) == ranges);
  for (const char* bad : {"3f8000004000000", "3f800000bf800000", "3f8000007f800000", "3f8000007fc00000",
                          "3f80000080000000", "3f800000-0000000"}) {
    std::string text = good;
    text.replace(text.find("3f80000040000000"), 16, bad);
    error_of(ErrorKind::bad_file, [&] { ranges_from_json(text); });
  }
}

TEST(Ranges, WhatDoesNotBelongTogetherIsNotJoined) {
  const Ranges good = ranges_of({1, 2}, {1}), more = ranges_of({3, 4}, {2});
  const auto refused = [&](auto change, std::string_view why) {
    Ranges other = more;
    change(other);
    EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { merge({good, other}); }), why);
  };
  refused([](Ranges& r) { r.model_sha256 = "cd"; }, "two models");
  refused([](Ranges& r) { r.method = "mse"; }, "methods differ");
  refused([](Ranges& r) { r.precision = "bf16"; }, "observed in fp32");
  refused([](Ranges& r) { r.placeholder = true; }, "placeholder");
  refused([](Ranges& r) { r.sample_hashes = {1}; }, "count twice");
  refused([](Ranges& r) { r.values["y"] = r.values["x"]; }, "only one of them has the tensor 'y'");
  refused([](Ranges& r) { r.values.clear(); }, "only one of them has the tensor 'x'");
  refused([](Ranges& r) { r.values["x"].histogram = {}; }, "no histogram");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { check_model(good, "ff"); }), "another model");
  check_model(good, "ab12");
}

TEST(Ranges, SharesOfOneListJoinToTheBytesOfOneRun) {
  std::vector<float> all;
  std::vector<Ranges> parts;
  for (uint64_t i = 0; i < 7; ++i) {
    const auto values = normal_values(500, uint32_t(i % 3), float(1 + i % 3));  // some twice
    all.insert(all.end(), values.begin(), values.end());
    parts.push_back(ranges_of(values, {i % 3}, "entropy"));
  }
  Ranges whole = ranges_of(all, {0, 1, 2}, "entropy");
  whole.samples = 0;
  for (const Ranges& part : parts) whole.samples += part.samples;
  EXPECT_EQ(to_json(merge(parts, true)), to_json(whole));
  std::reverse(parts.begin(), parts.end());
  EXPECT_EQ(to_json(merge(parts, true)), to_json(whole));
  EXPECT_EQ(to_json(merge({parts[0]}, true)), to_json(parts[0]));
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [] { merge({}, true); }), "there are none");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { merge(parts); }), "count twice");
}

TEST(Ranges, AnAllZeroTensorIsNamedAndKeepsItsNoteWhenJoined) {
  const Ranges zero = ranges_of({0, 0, 0}, {1}), other = ranges_of({0}, {2}), one = ranges_of({0, 1}, {3});
  ASSERT_EQ(zero.notes.size(), 1u);
  EXPECT_CONTAINS(zero.notes[0], "'x' was zero");
  EXPECT_EQ(float_bits(zero.values.at("x").scale), "3c010204");
  EXPECT_EQ(merge({zero, other}).notes.size(), 1u);
  EXPECT_TRUE(merge({zero, one}).notes.empty());
}

TEST(Ranges, ADamagedFileEndsInAnErrorThatNamesIt) {
  const std::string path = test_folder() + "r.json";
  const std::string good = to_json(ranges_of(normal_values(200, 1, 3), {1, 17}));
  damage(path, good, 53, [](const std::string& p) { load_ranges(p); });
  const auto refused = [&](std::string from, std::string to, std::string_view why) {
    std::string text = good;
    ASSERT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
    EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { ranges_from_json(text); }), why);
  };
  refused("temper.ranges/1", "temper.range/1", "it is a file of another kind");
  std::string later = good;
  later.replace(later.find("temper.ranges/1"), 15, "temper.ranges/9");
  EXPECT_CONTAINS(error_of(ErrorKind::unsupported, [&] { ranges_from_json(later); }), "temper calibrate");
  refused("\"placeholder\"", "\"extra\": 1, \"placeholder\"", "extra: unknown field in temper.ranges/1");
  refused("\"clipped_share\"", "\"clipped\"", "values.x.clipped_share: this field is missing");
  refused("\"exponent\":-", "\"exponent\":-99", "an integer from -159 to 117");
  refused("\"0000000000000001\"", "\"00000000000000ff\"", "not in order");
  refused("\"order\": [\"x\"]", "\"order\": []", "does not name every tensor");
  refused("\"order\": [\"x\"]", "\"order\": [\"x\",\"x\"]", "twice");
  refused("\"scale\":[\"", "\"scale\":[\"4", "values.x.scale[0]: ");
}

TEST(FloatBits, HexIsReadWithoutLeadingZerosAndNothingElse) {
  float value = 1;
  EXPECT_TRUE(parse_float_bits("0", value));
  EXPECT_EQ(value, 0);
  EXPECT_TRUE(parse_float_bits("7f800000", value));
  EXPECT_EQ(value, std::numeric_limits<float>::infinity());
  EXPECT_TRUE(parse_float_bits("3C010204", value));
  EXPECT_EQ(value, 1.0f / 127);
  for (const char* bad : {"", "-1", "+1", "0x1", " 1", "1 ", "123456789", "g"})
    EXPECT_FALSE(parse_float_bits(bad, value)) << bad;
}

}  // namespace
}  // namespace temper
