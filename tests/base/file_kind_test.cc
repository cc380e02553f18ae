// SPDX-License-Identifier: Apache-2.0
#include "base/file_kind.h"

#include <gtest/gtest.h>

#include "../data/helpers.h"
#include "bench/results.h"
#include "bench/table.h"
#include "data/npy.h"
#include "graph/graph.h"
#include "onnx/write.h"
#include "zoo/zoo.h"

namespace temper {
namespace {

FileKind kind_of(const std::string& folder, std::string_view bytes) {
  write_text(folder + "file", bytes);
  return kind_of_file(folder + "file");
}

TEST(FileKinds, WhatTemperWritesIsKnownAgain) {
  const std::string folder = test_folder();
  EXPECT_EQ(kind_of(folder, zoo_model("digits_cnn", {})), FileKind::our_onnx);
  EXPECT_EQ(kind_of(folder, csv_table(fields_of(std::vector<BenchRun>(1)))), FileKind::csv);
  EXPECT_EQ(kind_of(folder, markdown_table(summary_of(std::vector<BenchRun>(1)))), FileKind::markdown);
  EXPECT_EQ(kind_of(folder, print(Graph{})), FileKind::graph);
  EXPECT_EQ(kind_of(folder, "TRT-8501-EntropyCalibration2\nx: 3c010a14\n"), FileKind::calibration_cache);
  write_npy(folder + "x.npy", Tensor(DType::f32, {2, 3}));
  EXPECT_EQ(kind_of_file(folder + "x.npy"), FileKind::npy);
}

TEST(FileKinds, JsonIsToldByTheSchemaOfItsOutermostObject) {
  const std::string folder = test_folder(), many(10000, ' ');
  EXPECT_EQ(kind_of(folder, R"({"schema": "temper.result/1", "runs": []})"), FileKind::result);
  EXPECT_EQ(kind_of(folder, R"({"schema": "temper.result/1", "runs": [)" + many), FileKind::result);
  EXPECT_EQ(kind_of(folder, "{" + many + R"( "schema" : "temper.ranges/1"})"), FileKind::ranges);
  EXPECT_EQ(kind_of(folder, R"({"entries": {"a": 1}, "schema": "temper.timings/1"})"), FileKind::timings);
  EXPECT_EQ(kind_of(folder, "{\n \"entries\": {\n  \"a\": 1" + many), FileKind::timings);  // cut off
  EXPECT_EQ(kind_of(folder, R"({"schema": "mine/1", "runs": []})"), FileKind::other);
  EXPECT_EQ(
      kind_of(folder, "{\"notes\": \"" + many + "\", \"schema\": \"temper.ranges/1\", \"values\": \"" + many + "\"}"),
      FileKind::ranges);
  EXPECT_EQ(kind_of(folder, R"({"mine": {"schema": "temper.ranges/1"}, "text": "\"schema\": \"temper.ranges/1\""})"),
            FileKind::other);
  EXPECT_EQ(kind_of(folder, R"({"schema": "temper.resultant/1"})"), FileKind::other);
  EXPECT_EQ(kind_of(folder, R"([{"schema": "temper.result/1"}])"), FileKind::other);
}

TEST(FileKinds, WhatUsersHaveIsOther) {
  const std::string folder = test_folder();
  for (std::string_view text : {"# Title\n\ntext\n", "label,x,y\n1,2,3\n", "hello", "\x89TMPX\r\n\x1a",
                                "<!doctype html><p>", "\x08\x08\x12\x06temper", "\xff\xfe", "[]"})
    EXPECT_EQ(kind_of(folder, text), FileKind::other) << text;
  EXPECT_EQ(kind_of(folder, ""), FileKind::nothing);
  EXPECT_EQ(kind_of(folder, std::string(100000, '\0')), FileKind::nothing);
  EXPECT_EQ(kind_of(folder, std::string(100000, '\0') + "x"), FileKind::other);
  EXPECT_EQ(kind_of_file(folder), FileKind::other);
  EXPECT_EQ(kind_of_file(folder + "none"), FileKind::nothing);
  EXPECT_EQ(kind_of_file("/dev/zero"), FileKind::other);
}

// Whatever the bytes are, there is an answer, and no byte behind the file is looked at.
TEST(FileKinds, DamagedModelsAreTakenForModelsOrForSomethingElse) {
  const std::string folder = test_folder(), model = zoo_model("digits_cnn", {});
  for (size_t cut = 0; cut < 300; ++cut) kind_of(folder, std::string_view(model).substr(0, cut));
  EXPECT_EQ(kind_of(folder, std::string_view(model).substr(0, model.size() / 2)), FileKind::onnx);
  for (size_t at = 0; at < 40; ++at)
    for (int flip : {0x01, 0x80, 0xff}) {
      std::string bytes = model;
      bytes[at] = char(bytes[at] ^ flip);
      const FileKind kind = kind_of(folder, bytes);
      EXPECT_TRUE(kind == FileKind::onnx || kind == FileKind::our_onnx || kind == FileKind::other) << at;
    }
}

}  // namespace
}  // namespace temper
