// SPDX-License-Identifier: Apache-2.0
#include "quantize/cache.h"

#include <gtest/gtest.h>

#include <limits>

#include "../data/helpers.h"
#include "../paths.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/softmax.h"

namespace temper {
namespace {

const std::string kFixture =
    paths::source_folder() + "/tests/quantize/fixtures/trt7000_entropy2_mnist_sampleINT8_readme.cache";

CalibrationCache cache_with(const std::string& rows, std::vector<std::string>* notes = nullptr) {
  return parse_cache("TRT-8501-EntropyCalibration2\n" + rows, notes);
}
std::string refusal(const std::string& text) {
  return error_of(ErrorKind::bad_file, [&] { parse_cache(text); });
}

TEST(CalibrationCache, TheDocumentedExampleHoldsItsScalesAndIsWrittenBackByteForByte) {
  std::vector<std::string> notes;
  const CalibrationCache cache = load_cache(kFixture, &notes);
  EXPECT_TRUE(notes.empty());
  EXPECT_EQ(cache.header, "TRT-7000-EntropyCalibration2");
  ASSERT_EQ(cache.entries.size(), 8u);
  EXPECT_EQ(cache.entries[0].first, "data");
  EXPECT_FLOAT_EQ(cache.entries[0].second, 0.0078451801f);
  EXPECT_EQ(cache.entries[7].first, "prob");
  EXPECT_FLOAT_EQ(cache.entries[7].second, 0.0078759379f);
  EXPECT_EQ(to_text(cache), read_file(kFixture));
  // Through a file of ranges, too.
  const Ranges ranges = ranges_from_json(to_json(ranges_of(cache, "ab")));
  EXPECT_EQ(to_text(cache_of(ranges)), read_file(kFixture));
  EXPECT_TRUE(cache_of(ranges, "101303").header == "TRT-101303-EntropyCalibration2");
}

TEST(CalibrationCache, NamesWithColonsSpacesAndBracketsAndOddScalesSurvive) {
  const std::string text =
      "TRT-101303-MinMaxCalibration\n"
      "onnx::MatMul_398_output: 3b1df5a4\ninput_1:0: 3f9234fa\n(Unnamed Layer* 64) [Shuffle]_output: 3c010204\na: b: "
      "3c010a14\n"
      "/Sub_output_0: 0\n/encoder/Log_output_0: 7f800000\n/Constant_3_output_0_output: 7c010204\ntiny: ac5\n";
  std::vector<std::string> notes;
  const CalibrationCache cache = parse_cache(text, &notes);
  EXPECT_TRUE(notes.empty()) << notes[0];
  EXPECT_EQ(cache.entries[1].first, "input_1:0");
  EXPECT_EQ(cache.entries[2].first, "(Unnamed Layer* 64) [Shuffle]_output");
  EXPECT_EQ(cache.entries[3].first, "a: b");
  EXPECT_EQ(cache.entries[4].second, 0);
  EXPECT_EQ(cache.entries[5].second, std::numeric_limits<float>::infinity());
  EXPECT_EQ(cache.entries[6].second, std::numeric_limits<float>::max() / 127);
  EXPECT_EQ(to_text(cache), text);
  const Ranges ranges = ranges_from_json(to_json(ranges_of(cache, "ab")));
  EXPECT_EQ(to_text(cache_of(ranges)), text);
  EXPECT_EQ(ranges.notes.size(), 3u);  // zero, infinity and the subnormal cannot quantize anything
}

TEST(CalibrationCache, WhatIsOddButReadableIsNoted) {
  std::vector<std::string> notes;
  const CalibrationCache cache = parse_cache(
      "TRT-8501-EntropyCalibration2\r\na: 0000ac55\r\nb: 3C010204\r\nb: 3c010204\r\n\r\nc: 3c010204", &notes);
  EXPECT_EQ(cache.entries.size(), 3u);
  std::string all;
  for (const std::string& note : notes) all += note + "\n";
  for (const char* part :
       {"'b' is there twice", "line 5 is empty", "carriage return", "padded", "upper case", "last line"})
    EXPECT_CONTAINS(all, part);
}

TEST(CalibrationCache, LookAlikesAreToldApartAndExplained) {
  EXPECT_CONTAINS(refusal(""), "empty");
  EXPECT_CONTAINS(refusal(" \n\n"), "empty");
  EXPECT_CONTAINS(refusal("input 2.64\nconv1 3.5\n"), "ONNX Runtime's calibration table");
  EXPECT_CONTAINS(refusal("{\"input\": 1}"), "JSON");
  EXPECT_CONTAINS(refusal(std::string("\x1c\0\0\0TFL3", 8)), "binary");
  EXPECT_CONTAINS(refusal("TRT-7000-EntropyCalibration\nINPUT0:4.6586\n"), "Forward");
  EXPECT_CONTAINS(refusal("TRT-8501-EntropyCalibration2\nx: 4.6586\n"), "decimal");
  EXPECT_CONTAINS(refusal("TRT-8XXX-EntropyCalibration2\nx: 3c010204\n"), "placeholder");
  EXPECT_CONTAINS(refusal("TRT-XXXX-EntropyCalibration2\nx: 3c010204\n"), "placeholder");
  EXPECT_CONTAINS(refusal("TRT--EntropyCalibration2\nx: 3c010204\n"), "not a number");
  EXPECT_CONTAINS(refusal("TRT-8501\nx: 3c010204\n"), "no algorithm");
  EXPECT_CONTAINS(refusal("x: 3c010204\n"), "TRT-<version>-<algorithm>");
  EXPECT_CONTAINS(refusal("TRT-8501-EntropyCalibration2\n"), "no entries");
  EXPECT_CONTAINS(refusal("TRT-8501-EntropyCalibration2\nx: \n"), "lstrip");
  EXPECT_CONTAINS(refusal("TRT-8501-EntropyCalibration2\nx: 0x3c010204\n"), "begins with 0x");
  EXPECT_CONTAINS(refusal("TRT-8501-EntropyCalibration2\nx: 13c010204\n"), "1 to 8");
  EXPECT_CONTAINS(refusal("TRT-8501-EntropyCalibration2\nx: -3c01020\n"), "1 to 8");
  EXPECT_CONTAINS(refusal("TRT-8501-EntropyCalibration2\nx 3c010204\n"), "line 2");
  EXPECT_CONTAINS(refusal("TRT-8501-EntropyCalibration2\nx: 3c010204\nx: 3c010205\n"), "different scales");
  // retina's first three scales with their bytes reversed
  EXPECT_CONTAINS(refusal("TRT-8501-EntropyCalibration2\na: fa34923f\nb: ed1aaa3d\nc: 202a683c\n"), "little-endian");
}

TEST(CalibrationCache, AnyDamageEndsInAnErrorOrAReadableCache) {
  const std::string path = test_folder() + "c.cache";
  damage(path, read_file(kFixture), 1, [](const std::string& p) { to_text(load_cache(p)); });
}

TEST(CalibrationCache, WhatTheFormatCannotHoldIsNotWritten) {
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [] { to_text({"TRT-8501-EntropyCalibration2", {{"a\nb", 1.0f}}}); }),
                  "cannot hold");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [] { to_text({"TRT-85x1-EntropyCalibration2", {{"a", 1.0f}}}); }),
                  "not a number");
}

// x -> relu -> y -> softmax -> z
TEST(CacheLint, CoverageUnknownNamesAndImpossibleRangesAreFound) {
  Graph graph;
  const ValueId x = graph.add_input("x", type_of(DType::f32, {2, 4}));
  Program relu;
  relu.push({Scalar::relu, DType::f32, {0}});
  const ValueId y = graph.add(ops::Pointwise{relu}, {x}, "relu", {"y"}).at(0);
  const ValueId z = graph.add(ops::Softmax{1}, {y}, "softmax", {"z"}).at(0);
  graph.add_output("z", z);
  const auto findings = [&](const std::string& rows) {
    const Lint lint = lint_cache(cache_with(rows), graph, graph);
    std::string text = concat(lint.known, "/", lint.entries, " ", lint.covered, "/", lint.quantizable, "\n");
    for (const LintFinding& f : lint.findings) text += concat(int(f.severity), " ", f.tensor, ": ", f.text, "\n");
    return text;
  };
  EXPECT_EQ(findings("x: 3f9234fa\ny: 3daa1aed\nz: 3c010a14\n"), "3/3 3/3\n");
  EXPECT_CONTAINS(findings("x: 3f9234fa\nw: 3daa1aed\n"), "1 w: no tensor of the model has this name");
  EXPECT_CONTAINS(findings("x: 3f9234fa\n"), "1/1 1/3");
  EXPECT_CONTAINS(findings("x: 3f9234fa\n"), "y: has no scale in the cache");
  EXPECT_CONTAINS(findings("x: bf9234fa\ny: 3daa1aed\nz: 3c010a14\n"), "2 x: the scale is negative");
  EXPECT_CONTAINS(findings("x: 7f800000\ny: 0\nz: 7c010204\n"), "x: the scale is infinite");
  EXPECT_CONTAINS(findings("x: 7f800000\ny: 0\nz: 7c010204\n"), "y: the scale is 0");
  EXPECT_CONTAINS(findings("x: 7f800000\ny: 0\nz: 7c010204\n"), "z: the scale is that of the largest float");
  EXPECT_CONTAINS(findings("x: 7fc00000\ny: 3daa1aed\n"), "2 x: the scale is not a number");
  EXPECT_CONTAINS(findings("x: 3f9234fa\ny: 3daa1aed\nz: 3f800000\n"), "seems to store amax");
}

}  // namespace
}  // namespace temper
