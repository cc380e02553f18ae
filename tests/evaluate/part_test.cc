// SPDX-License-Identifier: Apache-2.0
#include "evaluate/part.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "../data/helpers.h"

namespace temper {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A batch of `count` samples whose answers are drawn by the seed; with `broken` one of them is not finite.
ScoredBatch scored(int64_t first, int64_t count, uint64_t seed, bool broken = false) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> draw(-1, 1);
  Batch batch;
  batch.count = count;
  Tensor wanted(DType::f32, {count, 3}), got(DType::f32, {count, 3});
  for (int64_t i = 0; i < 3 * count; ++i) {
    wanted.data<float>()[i] = draw(random);
    got.data<float>()[i] = wanted.data<float>()[i] + 0.3f * draw(random);
  }
  if (broken) got.data<float>()[1] = kNan;
  for (int64_t i = 0; i < count; ++i) {
    batch.samples.push_back(first + i);
    batch.labels.push_back(int64_t(random() % 3));
    batch.names.push_back(std::to_string(first + i));
  }
  Evaluator evaluator({"scores"}, 0, true, true);
  evaluator.add(batch, {wanted}, {got});
  ScoredBatch made{{evaluator.result()}, {}};
  made.broken.look("the output 'scores'", got, batch.names);
  return made;
}

std::vector<ScoredBatch> all_batches() {
  std::vector<ScoredBatch> batches;
  for (int64_t i = 0; i < 11; ++i) batches.push_back(scored(8 * i, i < 10 ? 8 : 3, uint64_t(i), i == 4 || i == 7));
  return batches;
}

std::vector<EvaluatedPart> parts_of(const std::vector<ScoredBatch>& batches, int64_t of) {
  std::vector<EvaluatedPart> parts(static_cast<size_t>(of));
  for (int64_t number = 0; number < of; ++number) {
    EvaluatedPart& part = parts[size_t(number)];
    part.share = {number, of};
    for (size_t i = size_t(number); i < batches.size(); i += size_t(of)) part.batches.push_back(batches[i]);
    part.samples = 83;
    part.compared = true;
    part.precision = "int8";
    part.batch = 8;
    part.left_out.push_back({90, "cat/7.png", Error(ErrorKind::bad_file, "cat/7.png: no picture")});
  }
  return parts;
}

TEST(EvaluatedPart, JoinedPartsAreTheWholeToTheLastBitWhateverTheirNumberAndOrder) {
  const auto batches = all_batches();
  const std::string wanted = json_of(join_parts(parts_of(batches, 1), {}), "m").dump();
  EXPECT_CONTAINS(wanted, "\"samples\":83");
  EXPECT_CONTAINS(wanted, "\"snr_db\":null");  // a value is not finite
  for (int64_t of : {2, 3, 7, 11, 20}) {
    auto parts = parts_of(batches, of);
    std::reverse(parts.begin(), parts.end());
    for (EvaluatedPart& part : parts) part = evaluated_part_from_json(to_json(part));
    EXPECT_EQ(json_of(join_parts(parts, {}), "m").dump(), wanted) << of;
  }
}

TEST(EvaluatedPart, WhatWouldCountTwiceOrNotAtAllIsRefused) {
  const auto batches = all_batches();
  const auto refused = [&](auto change, std::string_view why) {
    auto parts = parts_of(batches, 3);
    change(parts);
    EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { join_parts(parts, {}); }), why);
  };
  refused([](auto& parts) { parts.clear(); }, "no part");
  refused([](auto& parts) { parts.pop_back(); }, "not one of the 2");
  refused([](auto& parts) { parts[1] = parts[0]; }, "part 1 of 3 is there twice");
  refused([](auto& parts) { parts[0].batches.pop_back(); }, "part 1 of 3 lacks a batch");
  refused([](auto& parts) { parts[1].batches.pop_back(); }, "80 of 83 samples");
  refused([](auto& parts) { parts[1].precision = "bf16"; }, "not of one evaluation");
  refused([](auto& parts) { parts[2].batch = 4; }, "not of one evaluation");
  refused([](auto& parts) { parts[2].compared = false; }, "name it as the reference");
  refused([](auto& parts) { parts[2].batches[0].evaluations[0].agreement.reset(); }, "cannot be joined");
}

TEST(EvaluatedPart, AMetricThatDoesNotComeOutIsSaidOfTheWhole) {
  auto parts = parts_of(all_batches(), 2);
  EXPECT_EQ(join_parts(parts, Metric::top1).evaluation.samples, 83);
  for (EvaluatedPart& part : parts)
    for (ScoredBatch& batch : part.batches) batch.evaluations[0].accuracy.reset();
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { join_parts(parts, Metric::top1); }), "--output-name");
}

TEST(EvaluatedPart, DamagedTextIsRefused) {
  const std::string good = to_json(parts_of(all_batches(), 4)[1]);
  for (size_t cut : {size_t(0), size_t(1), good.size() / 2, good.size() - 1})
    error_of(ErrorKind::bad_file, [&] { evaluated_part_from_json(good.substr(0, cut)); });
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { evaluated_part_from_json("{\"number\": -1}"); }), "number");
}

}  // namespace
}  // namespace temper
