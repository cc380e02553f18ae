// SPDX-License-Identifier: Apache-2.0
// temper kit and temper build --from-kit: what is put together is built from, and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "program.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

class Kit : public ::testing::Test {
 protected:
  Kit() : folder_(test_folder()) {
    run_python(folder_, R"(
import onnx, os
from onnx import helper as h, TensorProto as T, numpy_helper
W = np.random.default_rng(0).normal(size=(16, 8)).astype('f4')
graph = h.make_graph([h.make_node('MatMul', ['x', 'W'], ['y'], name='product')], 'g',
                     [h.make_tensor_value_info('x', T.FLOAT, ['batch', 16])], [h.make_tensor_value_info('y', T.FLOAT, ['batch', 8])],
                     [numpy_helper.from_array(W, 'W')])
model = h.make_model(graph, opset_imports=[h.make_opsetid('', 17)], ir_version=8)
onnx.save(model, 'm.onnx')
os.makedirs('large/weights')
onnx.save(model, 'large/m.onnx', save_as_external_data=True, location='weights/w.bin', size_threshold=0)
np.save('x.npy', np.random.default_rng(1).normal(size=(64, 16)).astype('f4'))
)");
  }

  std::string done(const std::string& arguments) {
    const Outcome outcome = temper(folder_, arguments);
    EXPECT_EQ(outcome.code, 0) << arguments << ": " << outcome.err;
    return outcome.out;
  }
  void refused(ErrorKind kind, const std::string& arguments, const std::string& why) {
    const Outcome outcome = temper(folder_, arguments);
    EXPECT_EQ(outcome.code, int(kind)) << arguments << ": " << outcome.err;
    EXPECT_CONTAINS(outcome.err, why) << arguments;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  // Whatever a kit was made of is away.
  void forget() {
    for (const char* name : {"m.onnx", "large", "ranges.json", "times.json"}) fs::remove_all(folder_ + name);
  }
  nlohmann::json inspected(const std::string& plan) {
    return nlohmann::json::parse(done("inspect " + plan + " --json"));
  }

  const std::string folder_;
};

TEST_F(Kit, ADeviceBuildsWhatTheKitSaysWithoutAnythingElse) {
  done("calibrate m.onnx --data x.npy --method minmax -o ranges.json");
  done(
      "build m.onnx -o first.plan --precision int8 --calibration ranges.json --shapes x=1x16:4x16:4x16 --timing-cache "
      "times.json");
  done("kit m.onnx -o m.kit --precision int8 --calibration ranges.json --shapes x=1x16:4x16:4x16 --times times.json");
  forget();
  fs::rename(folder_ + "m.kit", folder_ + "elsewhere");
  const std::string said = done("build --from-kit elsewhere -o device.plan --timing-cache own.json");
  EXPECT_CONTAINS(said, "with the times of all candidates from the timing cache");
  const auto wanted = inspected("first.plan"), got = inspected("device.plan");
  for (const char* what : {"precision", "shapes", "model_sha256", "calibration_sha256", "lowered_products"})
    EXPECT_EQ(got.at(what), wanted.at(what)) << what;
  EXPECT_CONTAINS(got.at("command").get<std::string>(), "elsewhere/model/m.onnx");
  done("build --from-kit elsewhere -o again.plan --no-timing-cache");
  EXPECT_FALSE(fs::exists(folder_ + "elsewhere/own.json"));
}

TEST_F(Kit, WeightsBesideTheModelComeAlong) {
  done("build large/m.onnx -o direct.plan --no-measure");
  done("kit large/m.onnx -o m.kit");
  forget();
  EXPECT_TRUE(fs::exists(folder_ + "m.kit/model/weights/w.bin"));
  done("build --from-kit m.kit -o m.plan --no-measure");
  EXPECT_EQ(inspected("m.plan").at("model_sha256"), inspected("direct.plan").at("model_sha256"));
}

TEST_F(Kit, AFileThatIsMissingOrAnotherIsSaidBeforeAnythingIsBuilt) {
  done("kit large/m.onnx -o m.kit");
  const auto spoilt = [&](auto spoil, const std::string& why) {
    fs::remove_all(folder_ + "copy");
    fs::copy(folder_ + "m.kit", folder_ + "copy", fs::copy_options::recursive);
    spoil(folder_ + "copy/");
    refused(ErrorKind::bad_file, "build --from-kit copy -o m.plan", why);
    EXPECT_FALSE(fs::exists(folder_ + "m.plan"));
  };
  spoilt([](const std::string& kit) { fs::remove(kit + "model/weights/w.bin"); }, "w.bin' is missing");
  spoilt(
      [](const std::string& kit) {
        std::string bytes = read_file(kit + "model/weights/w.bin");
        bytes[5] ^= 1;
        write_text(kit + "model/weights/w.bin", bytes);
      },
      "is not the file that the kit was made with");
  spoilt([](const std::string& kit) { write_text(kit + "model/m.onnx", "short"); }, "m.onnx' is not the file");
  spoilt([](const std::string& kit) { fs::remove(kit + "kit.json"); }, "is no kit");
  const auto changed = [&](const std::string& from, const std::string& to, const std::string& why) {
    spoilt(
        [&](const std::string& kit) {
          std::string text = read_file(kit + "kit.json");
          const size_t at = text.find(from);
          ASSERT_NE(at, text.npos) << from;
          write_text(kit + "kit.json", text.replace(at, from.size(), to));
        },
        why);
  };
  changed("{", "[", "damaged");
  changed("\"name\": \"model/m.onnx\"", "\"name\": \"../m.onnx\"", "not one in its folder");
  changed("\"name\": \"model/m.onnx\"", "\"name\": \"/etc/passwd\"", "not one in its folder");
  changed("\"precision\": \"fp32\"", "\"speed\": \"fp32\"", "build.precision");
  changed("temper.kit/1", "temper.cat/1", "it is a file of another kind");
  refused(ErrorKind::bad_file, "build --from-kit nowhere -o m.plan", "is no kit");
  std::string later = read_file(folder_ + "m.kit/kit.json");
  write_text(folder_ + "m.kit/kit.json", later.replace(later.find("temper.kit/1"), 12, "temper.kit/9"));
  refused(ErrorKind::unsupported, "build --from-kit m.kit -o m.plan", "temper.kit/9");
}

TEST_F(Kit, ItIsWholeOrNotThere) {
  fs::create_directory(folder_ + "notes");
  write_text(folder_ + "notes/own.txt", "mine");
  refused(ErrorKind::usage, "kit m.onnx -o notes", "no kit");
  refused(ErrorKind::usage, "kit m.onnx -o notes --force", "no kit");
  done("calibrate m.onnx --data x.npy --method minmax -o ranges.json");
  run_python(folder_, "import onnx\nm = onnx.load('m.onnx')\nm.doc_string = 'another'\nonnx.save(m, 'other.onnx')\n");
  refused(ErrorKind::usage, "kit other.onnx -o new.kit --precision int8 --calibration ranges.json", "another model");
  refused(ErrorKind::usage, "kit m.onnx -o new.kit --precision int8", "needs --calibration");
  refused(ErrorKind::bad_file, "kit m.onnx -o new.kit --times x.npy", "x.npy");
  refused(ErrorKind::bad_file, "kit x.npy -o new.kit", "x.npy");
  for (const auto& entry : fs::directory_iterator(folder_))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".temper")) << entry.path();
  EXPECT_FALSE(fs::exists(folder_ + "new.kit"));
  done("kit m.onnx -o new.kit");
  refused(ErrorKind::usage, "kit m.onnx -o new.kit", "--force");
  done("kit m.onnx -o new.kit/ --force --precision int8 --calibration ranges.json");
  EXPECT_TRUE(fs::exists(folder_ + "new.kit/ranges.json"));
  for (const auto& entry : fs::directory_iterator(folder_))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".temper")) << entry.path();
}

TEST_F(Kit, WhatItSaysIsNotSaidAgain) {
  done("kit m.onnx -o m.kit");
  refused(ErrorKind::usage, "build --from-kit m.kit -o m.plan --precision bf16", "leave --precision out");
  refused(ErrorKind::usage, "build --from-kit m.kit -o m.plan --shapes 1x16", "leave --shapes out");
  for (const std::string option : {"--mean 7", "--std 2", "--scale 1", "--fit stretch", "--pad 1", "--resize 9",
                                   "--crop 8", "--bgr", "--layout nchw", "--filter bicubic", "--preprocess unit"})
    refused(ErrorKind::usage, "build --from-kit m.kit -o m.plan " + option,
            "leave " + option.substr(0, option.find(' ')) + " out");
  refused(ErrorKind::usage, "build m.onnx --from-kit m.kit -o m.plan", "give one");
  refused(ErrorKind::usage, "build -o m.plan", "a model is needed");
  done("build --from-kit m.kit -o m.plan --threads 1 --no-measure");
}

}  // namespace
}  // namespace temper
