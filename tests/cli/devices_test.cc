// SPDX-License-Identifier: Apache-2.0
// Lists of devices on the command line: sessions on the CPU, and two scripted GPUs of which one is lost.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "../paths.h"
#include "base/file.h"
#include "program.h"

namespace temper {
namespace {

class Devices : public ::testing::Test {
 protected:
  void SetUp() override {
    folder = test_folder();
    run_python(folder, R"(
draw = np.random.default_rng(0)
np.save('x.npy', draw.random((37, 1, 8, 8), dtype=np.float32))
np.savez('samples.npz', image=draw.random((64, 1, 8, 8), dtype=np.float32), labels=draw.integers(0, 10, 64))
)");
    ASSERT_EQ(temper(folder, "zoo digits_cnn -o m.onnx").code, 0);
  }
  void build(const std::string& more) const {
    const Outcome built =
        temper(folder, "build m.onnx -o m.plan --threads 1 --no-measure --shapes 1x1x8x8:4x1x8x8:4x1x8x8 " + more);
    ASSERT_EQ(built.code, 0) << built.err;
  }
  std::string folder;
};

TEST_F(Devices, SeveralSessionsGiveTheAnswersOfOne) {
  build("");
  ASSERT_EQ(temper(folder, "run m.plan --input x.npy --batch 4 --output-dir one").code, 0);
  const Outcome three =
      temper(folder, "run m.plan --input x.npy --batch 4 --output-dir three --device cpu,cpu,cpu --json");
  ASSERT_EQ(three.code, 0) << three.err;
  EXPECT_EQ(read_file(folder + "one/logits.npy"), read_file(folder + "three/logits.npy"));
  const auto json = nlohmann::json::parse(three.out);
  ASSERT_EQ(json.at("devices").size(), 3u);
  int batches = 0;
  for (const auto& device : json["devices"]) {
    EXPECT_EQ(device.at("device"), "cpu");
    EXPECT_FALSE(device.contains("lost"));
    batches += device.at("batches").get<int>();
  }
  EXPECT_EQ(batches, 10) << "every batch once";
  EXPECT_FALSE(nlohmann::json::parse(temper(folder, "run m.plan --input x.npy --json").out).contains("devices"));

  const Outcome alone = temper(folder, "evaluate m.plan --data samples.npz --batch 4 --json");
  ASSERT_EQ(alone.code, 0) << alone.err;
  const Outcome together = temper(folder, "evaluate m.plan --data samples.npz --batch 4 --json --device cpu,cpu");
  ASSERT_EQ(together.code, 0) << together.err;
  EXPECT_EQ(alone.out, together.out);
}

TEST_F(Devices, AModelIsBuiltOnceForAllOfAKindAndAStudyEvaluatesOnAll) {
  const Outcome run =
      temper(folder, "run m.onnx --input x.npy --batch 8 --no-measure --device cpu,cpu --output-dir out");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_TRUE(std::filesystem::exists(folder + "out/logits.npy"));
  const auto studied = [&](const std::string& device) {
    const Outcome done = temper(folder, concat("study m.onnx --data samples.npz -o ", device,
                                               " --precision fp32 --no-measure --threads 1 --batch 4 "
                                               "--duration 100ms --json --device ",
                                               device));
    EXPECT_EQ(done.code, 0) << done.err;
    return nlohmann::json::parse(done.out).at("precisions")[0].at("answers");
  };
  EXPECT_EQ(studied("cpu"), studied("cpu,cpu"));
}

TEST_F(Devices, DevicesOfSeveralKindsRunAModelAndEvaluateNothing) {
  const Outcome run =
      temper(folder, "run m.onnx --input x.npy --batch 8 --no-measure --device cpu,reference --output-dir out");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_CONTAINS(run.err, "the devices are of 2 kinds");
  const Outcome evaluated = temper(folder, "evaluate m.onnx --data samples.npz --no-measure --device cpu,reference");
  EXPECT_EQ(evaluated.code, 2);
  EXPECT_CONTAINS(evaluated.err, "all devices must be equal");
  build("");
  const Outcome plan = temper(folder, "run m.plan --input x.npy --device cpu,reference");
  EXPECT_EQ(plan.code, 2);
  EXPECT_CONTAINS(plan.err, "reference: the plan is for the device 'cpu'");
}

TEST_F(Devices, WhatIsNoListIsRefusedByName) {
  build("");
  for (const char* list : {"cpu,", "gpu:*", "cpu:*", "cpu,1", "cuda:0,0", "cpu,cuda:x"}) {
    const Outcome refused = temper(folder, concat("run m.plan --input x.npy --device '", list, "'"));
    EXPECT_EQ(refused.code, 2) << list << ": " << refused.err;
  }
  const Outcome built = temper(folder, "build m.onnx -o n.plan --device cpu,cpu");
  EXPECT_EQ(built.code, 2);
  EXPECT_CONTAINS(built.err, "here one device is named");
}

TEST_F(Devices, BenchMeasuresEachAloneAndAllTogether) {
  build("");
  const Outcome done = temper(folder, "bench m.plan --device cpu,cpu --batch 4 --duration 100ms -o scaling.json");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_CONTAINS(done.out, "of alone");
  EXPECT_CONTAINS(done.out, "of the sum of singles");
  EXPECT_CONTAINS(done.err, "2 of the devices share the cores of one CPU");
  const auto json = nlohmann::json::parse(read_file(folder + "scaling.json"));
  EXPECT_EQ(json.at("schema"), "temper.scaling/1");
  ASSERT_EQ(json.at("runs").size(), 1u);
  EXPECT_EQ(json["runs"][0].at("batch"), 4);
  ASSERT_EQ(json["runs"][0].at("scaling").size(), 1u) << "nothing is transferred on a CPU";
  EXPECT_EQ(json["runs"][0]["scaling"][0].at("devices").size(), 2u);
  EXPECT_EQ(temper(folder, "bench m.plan --device cpu,cpu --batch 1,4 --duration 50ms -o scaling.json").code, 0)
      << "a file of the same kind is replaced";
  EXPECT_CONTAINS(temper(folder, "bench m.plan --duration 50ms -o scaling.json").err, "a result of several devices");
  const Outcome printed = temper(folder, "bench m.onnx --device cpu,reference --no-measure --duration 50ms --json -");
  ASSERT_EQ(printed.code, 0) << printed.err;
  EXPECT_EQ(nlohmann::json::parse(printed.out)["runs"][0]["scaling"][0]["devices"][1].at("device"), "reference");
  for (const char* option : {"--rate 5", "--iterations 4", "--csv x.csv", "--pipe"}) {
    const Outcome refused = temper(folder, concat("bench m.plan --device cpu,cpu ", option));
    EXPECT_EQ(refused.code, 2) << option;
    EXPECT_CONTAINS(refused.err, "is of one device");
  }
  EXPECT_CONTAINS(temper(folder, "bench m.plan --device cpu,cpu --streams 1,2").err, "--streams takes one value");
}

// Two GPUs that are memory of the host, with kernels that are compiled for it.
class ScriptedDevices : public Devices {
 protected:
  void SetUp() override {
    if (!file_exists(paths::scripted_driver_folder() + "/libcuda.so.1")) GTEST_SKIP() << "no scripted driver here";
    Devices::SetUp();
    build("--device cuda:0" + libraries);
  }
  const std::string libraries =
      concat(" --cuda-path '", paths::scripted_driver_folder(), "' --cuda-path '", paths::emulator_folder(), "'");
};

// It ends where limits are measured, for which such a GPU has no memory.
TEST_F(ScriptedDevices, AStudyBuildsFp16ByTheRangesOfItsData) {
  const Outcome studied = temper(folder,
                                 "study m.onnx --data samples.npz --samples 16 --device cuda:0 --precision fp16 "
                                 "--no-measure --duration 50ms -o out" +
                                     libraries);
  ASSERT_TRUE(file_exists(folder + "out/m.fp16.plan")) << studied.err;
  EXPECT_TRUE(file_exists(folder + "out/ranges.json"));
  EXPECT_CONTAINS(temper(folder, "inspect out/m.fp16.plan").out, "--calibration out/ranges.json");
}

TEST_F(ScriptedDevices, AllGpusGiveTheAnswersOfOneAlsoWhenOneIsLostInTheMiddle) {
  const std::string input = "run m.plan --input x.npy --batch 4 --force" + libraries;
  ASSERT_EQ(temper(folder, input + " --output-dir one").code, 0);
  const std::string want = read_file(folder + "one/logits.npy");
  const Outcome other = temper(folder, input + " --output-dir other --device cuda:1");
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_EQ(read_file(folder + "other/logits.npy"), want) << "a plan runs on any equal GPU";
  const Outcome all = temper(folder, input + " --output-dir all --device 'cuda:*' --json");
  ASSERT_EQ(all.code, 0) << all.err;
  EXPECT_EQ(read_file(folder + "all/logits.npy"), want);
  ASSERT_EQ(nlohmann::json::parse(all.out).at("devices").size(), 2u);
  // Earlier calls load the plan: that is GPU 0's, and then there is nothing to go on with.
  int lost = 0;
  for (int64_t at = 60; at < 2000 && lost < 2; at += at / 3) {
    const Outcome outcome = temper(folder, input + " --output-dir all --device cuda:0,1 --json",
                                   concat("export SCRIPTED_LOST_AT=", at, ";"));
    ASSERT_TRUE(outcome.code == 0 || outcome.code == 5) << outcome.code << outcome.err;
    if (outcome.code == 5) continue;
    EXPECT_EQ(read_file(folder + "all/logits.npy"), want) << at;
    const auto devices = nlohmann::json::parse(outcome.out).at("devices");
    int batches = 0;
    for (const auto& device : devices) batches += device.at("batches").get<int>();
    EXPECT_EQ(batches, 10);
    EXPECT_FALSE(devices[1].contains("lost"));
    if (!devices[0].contains("lost")) continue;
    ++lost;
    const size_t warning = outcome.err.find("cuda:0 is lost, and its work goes to the 1 device left");
    ASSERT_NE(warning, std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("is lost", warning + 16), std::string::npos) << "it is said once";
  }
  EXPECT_GT(lost, 0);
}

TEST_F(ScriptedDevices, AGpuThatIsFullIsLeftOutAndIsTheErrorWhereItIsTheOnlyOne) {
  const std::string run = "run m.plan --input x.npy --batch 4 --output-dir out --force" + libraries;
  ASSERT_EQ(temper(folder, run + " --device cuda:1").code, 0);
  const std::string want = read_file(folder + "out/logits.npy");
  for (const char* full : {"0", "1"}) {
    const Outcome one = temper(folder, run + " --device 'cuda:1,0'", concat("export SCRIPTED_FULL=", full, ";"));
    ASSERT_EQ(one.code, 0) << one.err;
    EXPECT_CONTAINS(one.err, concat("cuda:", full, " is left out: opening GPU ", full));
    EXPECT_EQ(read_file(folder + "out/logits.npy"), want);
  }
  const Outcome alone = temper(folder, run + " --device cuda:1", "export SCRIPTED_FULL=1;");
  EXPECT_EQ(alone.code, 5);
  EXPECT_CONTAINS(alone.err, "opening GPU 1");
}

TEST_F(ScriptedDevices, BenchMeasuresWithAndWithoutTransfers) {
  const Outcome done =
      temper(folder, "bench m.plan --device 'cuda:*' --batch 1 --duration 100ms --json scaling.json" + libraries);
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_CONTAINS(done.out, "inputs and outputs on the device");
  EXPECT_CONTAINS(done.out, "inputs and outputs in pinned memory of the host, 2 streams a GPU");
  const auto scaling = nlohmann::json::parse(read_file(folder + "scaling.json"))["runs"][0].at("scaling");
  ASSERT_EQ(scaling.size(), 2u);
  for (const auto& one : scaling) EXPECT_EQ(one.at("devices")[1].at("device"), "cuda:1");
  const Outcome transfers = temper(
      folder, "bench m.plan --device cuda:0,1 --batch 1 --duration 100ms --transfers --streams 3 --json -" + libraries);
  ASSERT_EQ(transfers.code, 0) << transfers.err;
  const auto only = nlohmann::json::parse(transfers.out)["runs"][0].at("scaling");
  ASSERT_EQ(only.size(), 1u);
  EXPECT_EQ(only[0].at("streams"), 3);
}

TEST_F(ScriptedDevices, TheGpuOfAnotherKindAndTheOneThatIsNotThereAreNamed) {
  const Outcome mixed = temper(folder, "run m.plan --input x.npy --device 'cuda:*,cpu'" + libraries);
  EXPECT_EQ(mixed.code, 2);
  EXPECT_CONTAINS(mixed.err, "cpu: the plan is for the device 'cuda:0'");
  const Outcome cpu = temper(folder, "run m.plan --input x.npy --device cpu" + libraries);
  EXPECT_EQ(cpu.code, 2);
  EXPECT_CONTAINS(cpu.err, "on the device 'cuda:0' already: --device cannot change it");
  const Outcome missing = temper(folder, "run m.plan --input x.npy --device cuda:0,2" + libraries);
  EXPECT_EQ(missing.code, 2);
  EXPECT_CONTAINS(missing.err, "there is no GPU 2; this machine has 2");
  const Outcome twice = temper(folder, "run m.plan --input x.npy --device 'cuda:*,1'" + libraries);
  EXPECT_EQ(twice.code, 2);
  EXPECT_CONTAINS(twice.err, "cuda:1 twice");
}

}  // namespace
}  // namespace temper
