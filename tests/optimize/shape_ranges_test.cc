// SPDX-License-Identifier: Apache-2.0
// The shapes that a build takes where it is told batches, ranges, or neither.
#include "optimize/shape_ranges.h"

#include <gtest/gtest.h>

#include "../data/helpers.h"
#include "optimize/build_engine.h"

namespace temper {
namespace {

Graph taking(const char* type) {
  return parse_graph(concat("graph \"g\"\ninput %x: ", type, "\n%y: ", type,
                            " = pointwise(%x) program=\"(1) 1=relu.f32(0)\"\noutput \"y\" = %y\n"));
}

TEST(ShapeRanges, BucketsOpenTheFirstAxisFromTheLeastToTheLargest) {
  std::vector<std::string> notes;
  const auto shapes = complete_shapes(taking("f32[batch,4]"), {}, {8, 1, 32}, notes);
  EXPECT_EQ(text_of(shapes.at("x")), "1x4:32x4:32x4");
  EXPECT_CONTAINS(notes.at(0), "is open: built for 1 to 32;");
}

TEST(ShapeRanges, WithoutBucketsAnOpenFirstAxisIsOne) {
  std::vector<std::string> notes;
  EXPECT_EQ(text_of(complete_shapes(taking("f32[batch,4]"), {}, {}, notes).at("x")), "1x4");
  EXPECT_CONTAINS(notes.at(0), "is open: built for 1;");
}

TEST(ShapeRanges, ARangeStaysWhatItIsUnderBuckets) {
  std::vector<std::string> notes;
  const std::map<std::string, ShapeRange> given{{"x", {{1, 4}, {2, 4}, {64, 4}}}};
  EXPECT_EQ(text_of(complete_shapes(taking("f32[batch,4]"), given, {1, 32}, notes).at("x")), "1x4:2x4:64x4");
  EXPECT_TRUE(notes.empty());
}

TEST(ShapeRanges, BucketsThatNoInputTakesAreRefused) {
  std::vector<std::string> notes;
  const auto refused = [&](const char* type, const std::vector<int64_t>& buckets) {
    return error_of(ErrorKind::usage, [&] { complete_shapes(taking(type), {}, buckets, notes); });
  };
  EXPECT_CONTAINS(refused("f32[2,4]", {1, 8}), "plans for batches 1 to 8 are asked for");
  EXPECT_CONTAINS(refused("f32[2,4]", {8}), "plans for batches 8 to 8 are asked for");
  EXPECT_CONTAINS(refused("f32[batch,4]", {0, 8}), "a plan for batch 0 is asked for");
  EXPECT_EQ(text_of(complete_shapes(taking("f32[2,4]"), {}, {2}, notes).at("x")), "2x4");
}

TEST(ShapeRanges, WhereTheyAreReplacedBucketsGoAndUnknownNamesStay) {
  BuildOptions options;
  options.shapes = {{"", {{1, 4}, {2, 4}, {8, 4}}}, {"other", {}}};
  options.buckets = {1, 8};
  options.replace_shapes(std::map<std::string, Dims>{});
  EXPECT_EQ(options.buckets.size(), 2u) << "no input has another shape";
  options.replace_shapes(std::map<std::string, Dims>{{"x", {3, 4}}});
  EXPECT_TRUE(options.buckets.empty());
  ASSERT_EQ(options.shapes.size(), 2u);
  EXPECT_EQ(text_of(options.shapes.at("x")), "3x4");
  EXPECT_TRUE(options.shapes.contains("other"));
}

}  // namespace
}  // namespace temper
