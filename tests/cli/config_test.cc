// SPDX-License-Identifier: Apache-2.0
// temper.toml: study and gate without flags, and what is refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../paths.h"
#include "program.h"

namespace temper {
namespace {

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

std::string refused(const std::string& folder, const std::string& text) {
  write(folder + "temper.toml", text);
  const Outcome done = temper(folder, "study");
  EXPECT_EQ(done.code, 3) << done.err;
  return done.err;
}

TEST(ConfigFile, WhatIsWrongIsNamedWithItsPlaceAndTheNearestKey) {
  const std::string folder = test_folder();
  EXPECT_CONTAINS(refused(folder, "[models.a]\nmodle = \"m.onnx\"\n"),
                  "temper.toml:2:1: there is no key 'modle' in [models.a]; perhaps 'model' is meant");
  EXPECT_CONTAINS(refused(folder, "[defaults]\nmax_dorp = \"1%\"\n"), "perhaps 'max_drop' is meant");
  EXPECT_CONTAINS(refused(folder, "[defaults]\nquite_another = 1\n"), "; there are: precision, max_drop,");
  EXPECT_CONTAINS(refused(folder, "[models.a]\nmodel = 3\n"),
                  "temper.toml:2:9: 'model' in [models.a] must be a string");
  EXPECT_CONTAINS(refused(folder, "[models.a]\nmodel = \"m\"\nmax_drop = 0.01\n"), "with its unit, like \"1%\"");
  EXPECT_CONTAINS(refused(folder, "[models.a]\nmodel = \"m\"\nbatch = 0\n"), "'batch' in [models.a] must be above 0");
  EXPECT_CONTAINS(refused(folder, "[models.a]\nmodel = \"m\"\nshapes = { x = [1.5] }\n"), "must be whole numbers");
  EXPECT_CONTAINS(refused(folder, "[models.a]\ndata = \"d\"\n"), "[models.a] names no model");
  EXPECT_CONTAINS(refused(folder, "models = 3\n"), "'models' in the file must be a table");
  EXPECT_CONTAINS(refused(folder, "[models.a\n"), "temper.toml:1:");
  EXPECT_CONTAINS(refused(folder, ""), "there is no table [models.NAME]");
  std::filesystem::remove(folder + "temper.toml");
  const Outcome none = temper(folder, "study");
  EXPECT_EQ(none.code, 2);
  EXPECT_CONTAINS(none.err, "a study needs MODEL, --data and -o, or a file 'temper.toml'");
  EXPECT_EQ(temper(folder, "gate").code, 2);
}

TEST(ConfigFile, StudyAndGateRunWithoutFlags) {
  const std::string folder = test_folder();
  run_python(folder, R"(
import sys
sys.path.insert(0, ')" + paths::source_folder() +
                         R"(/python')
import digits_data
_, _, images, labels = digits_data.load()
np.savez('digits.npz', image=images[:120], labels=labels[:120])
)");
  EXPECT_EQ(temper(folder, "zoo digits_cnn -o m.onnx").code, 0);
  write(folder + "temper.toml", R"([defaults]
precision = ["fp32"]
batch = 4
duration = "100ms"
threads = 1
[models.second]
model = "m.onnx"
data = "digits.npz"
[models.second.gate]
baseline = "base.json"
max_slowdown = "100%"
strict = false
[models.without]
model = "m.onnx"
)");
  const Outcome missing = temper(folder, "gate");
  EXPECT_EQ(missing.code, 3);
  EXPECT_CONTAINS(missing.err,
                  "'base.json' is not there; keep a good result as the baseline: cp study/second/result.json");
  const Outcome studied = temper(folder, "study --quick");
  ASSERT_EQ(studied.code, 0) << studied.err;
  EXPECT_CONTAINS(studied.out, "second\n");
  EXPECT_CONTAINS(studied.out, "batch 4, 1 thread; ");
  EXPECT_CONTAINS(studied.err, "'without' has no data");
  const Outcome flags = temper(folder, "study --quick --batch 2 --force");
  ASSERT_EQ(flags.code, 0) << flags.err;
  EXPECT_CONTAINS(flags.out, "batch 2, 1 thread; ");  // the command line goes before the file
  ASSERT_EQ(temper(folder, "study --quick --force").code, 0);
  std::filesystem::copy(folder + "study/second/result.json", folder + "base.json");
  const Outcome gated = temper(folder, "gate --junit gate.xml --json");
  ASSERT_EQ(gated.code, 0) << gated.err;
  const auto json = nlohmann::json::parse(gated.out).at("second");
  EXPECT_EQ(json.at("max_slowdown"), 1.0);
  EXPECT_EQ(json.at("baseline"), "base.json");
  EXPECT_EQ(json.at("runs").size(), 1u);
  EXPECT_CONTAINS(read_file(folder + "gate.xml"), "tests=\"1\"");
  EXPECT_CONTAINS(temper(folder, "gate --max-slowdown 90%").out, "limit: 90%");
  EXPECT_CONTAINS(temper(folder, "gate base.json base.json --only second").err, "--config and --only choose models");
  EXPECT_CONTAINS(temper(folder, "gate --only third").err, "names second, without");
  EXPECT_EQ(temper(folder, "gate base.json").code, 2);
}

}  // namespace
}  // namespace temper
