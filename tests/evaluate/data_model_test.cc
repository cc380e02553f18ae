// SPDX-License-Identifier: Apache-2.0
#include "evaluate/data_model.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "../plan/helpers.h"
#include "onnx/write.h"

namespace temper {
namespace {

// A large file takes longer to read than to build.
TEST(DataModel, TheFileOfAModelIsReadOnce) {
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / concat("temper_once_", getpid(), ".onnx")).string();
  write_onnx(tiny_graph(), path);
  BuildOptions options;
  options.measure = false;
  options.threads = 1;
  DataModel model({path, "", {}}, options);
  std::filesystem::remove(path);
  const Dataset data = open_input_files({}, model.inputs(), {.fill_missing = true});
  const auto engine = model.engine(data, model.choose_batch(data, 0));
  EXPECT_EQ(engine->info().source_path, path);
  EXPECT_EQ(engine->outputs().at(0).name, model.outputs().at(0));
}

}  // namespace
}  // namespace temper
