// SPDX-License-Identifier: Apache-2.0
#include "interop/trtexec_explain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "interop/trtexec_flags.h"

namespace temper {
namespace {

using Strings = std::vector<std::string>;

std::string all(const Strings& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}
TrtexecTranslation to(std::string_view command, std::string_view version, std::string_view from = "") {
  return translate_trtexec(parse_trtexec_command(command), version, from);
}

TEST(TrtexecFlags, TheListIsWholeAndSaysForEachFlagWhatItMeans) {
  std::set<std::string_view> names;
  for (const TrtexecFlag& flag : trtexec_flags()) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name << " is there twice";
    EXPECT_EQ(flag.releases.size(), kTrtexecReleases.size()) << flag.name;
    EXPECT_NE(flag.releases.find('x'), std::string_view::npos) << flag.name;
    EXPECT_EQ(flag.releases.find_first_not_of("x."), std::string_view::npos) << flag.name;
    EXPECT_FALSE(flag.meaning.empty()) << flag.name;
  }
  EXPECT_EQ(names.size(), 154u);  // 150 that some release lists, and four that 8.6 took silently
}

// The steps between the majors, flag by flag.
TEST(TrtexecFlags, EachStepTakesAndGivesTheFlagsItDid) {
  const auto expect = [](size_t before, size_t after, bool gone, std::string_view flags) {
    for (size_t at = 0; at < flags.size();) {
      const size_t end = std::min(flags.find(' ', at), flags.size());
      const TrtexecFlag* flag = find_trtexec_flag(flags.substr(at, end - at));
      ASSERT_TRUE(flag) << flags.substr(at, end - at);
      EXPECT_EQ(flag->in(before), gone) << flag->name;
      EXPECT_EQ(flag->in(after), !gone) << flag->name;
      at = end + 1;
    }
  };
  expect(0, 1, true,
         "--batch --maxBatch --model --deploy --output --uff --uffInput --uffNHWC --workspace --minTiming --heuristic "
         "--buildOnly --explicitBatch --explicitPrecision --nvtxMode");
  expect(0, 1, false,
         "--allocationStrategy --allowWeightStreaming --bf16 --calibProfile --dumpOptimizationProfile "
         "--errorOnTimingCacheMiss --getPlanVersionOnly --markDebug --noCompilationCache "
         "--pluginInstanceNorm --profile --useProfile --saveDebugTensors --stripWeights --stronglyTyped "
         "--weightStreamingBudget --weightless");
  expect(1, 5, false,
         "--asyncFileReader --dumpKernelText --int4 --l2LimitForTiling --markUnfusedTensorsAsDebugTensors --maxTactics "
         "--monitorMemory --remoteAutoTuningConfig --runtimePlatform "
         "--safetyPlugins --saveAllDebugTensors --stripAllWeights --tilingOptimizationLevel "
         "--uint8AsymmetricQuantizationDLA");
  expect(
      5, 6, false,
      "--adjustForDLA --cpuOnly --decomposableAttentions --enablePluginOverride --refitFromOnnx --reportCapabilityDLA");
  expect(6, 7, true,
         "--fp16 --bf16 --int8 --fp8 --int4 --best --calib --calibProfile --minShapesCalib --optShapesCalib "
         "--maxShapesCalib --layerPrecisions --layerOutputTypes --precisionConstraints "
         "--restricted --weightless");
  expect(6, 7, false, "--includeDataTransfers --noCudaGraph --noSpinWait");
  expect(7, 8, false,
         "--tuneBuildRoutes --tuneBuildRouteFile --tuningSearch --tuningCacheFile --tuningTimeOut --saveAllEngines "
         "--dryRun --continue --helpBuildRoute --setBuildRoute --loadRefOutputs "
         "--accuracyAlgorithm --accuracyThreshold --atol --rtol --refPair");
}

TEST(TrtexecCommand, IsTakenApartAsAShellWould) {
  const TrtexecCommand c = parse_trtexec_command(
      "sudo docker run -v a:b img /usr/src/tensorrt/bin/trtexec --onnx='my net.onnx' --shapes=\"x\":1x3 \\\n --fp16 "
      "stray 2>&1 | tee log");
  ASSERT_EQ(c.arguments.size(), 4u);
  EXPECT_EQ(c.value("--onnx"), "my net.onnx");
  EXPECT_EQ(c.value("--shapes"), "x:1x3");
  EXPECT_TRUE(c.has("--fp16"));
  EXPECT_FALSE(c.value("--fp16"));
  EXPECT_EQ(c.arguments[3].value, "stray");
  EXPECT_EQ(parse_trtexec_command("trtexec.exe --onnx=C:\\nets\\a.onnx").value("--onnx"), "C:\\nets\\a.onnx");
  EXPECT_EQ(parse_trtexec_command("--batch=4 --batch=8").integer("--batch"), 8);
  EXPECT_FALSE(parse_trtexec_command("--batch=x").integer("--batch"));
  EXPECT_TRUE(parse_trtexec_command("").arguments.empty());
}

TEST(TrtexecCommand, ShapesAreReadOrRefused) {
  EXPECT_EQ(parse_trtexec_shapes("a:1x3x2,b::4")->at("b:"), std::vector<int64_t>{4});
  EXPECT_EQ(parse_trtexec_shapes("'a':7")->at("a"), std::vector<int64_t>{7});
  EXPECT_TRUE(parse_trtexec_shapes("s:")->at("s").empty());
  for (const char* wrong : {"1x3", "a:1x", "a:x3", "a:1,3", "a:-1", "a:1x3,", "a=1x3", "a:99999999999999999999"})
    EXPECT_FALSE(parse_trtexec_shapes(wrong)) << wrong;
}

TEST(TrtexecExplain, SaysWhatEachFlagMeantAndWhatBecameOfIt) {
  const TrtexecExplanation e = explain_trtexec(parse_trtexec_command(
      "trtexec --onnx=a.onnx --fp16 --workspace=64 --useCudaGraph --stronglyTyped --nonsense=1 word"));
  ASSERT_EQ(e.flags.size(), 7u);
  EXPECT_EQ(e.flags[0].releases, "8.6.1 to 11.1");
  EXPECT_EQ(e.flags[1].releases,
            "8.6.1 to 10.16; 11.0 stops with 'Unknown option'; in its place: a model whose own types are FP16");
  EXPECT_EQ(e.flags[2].releases,
            "8.6.1 and before; 10.0.1 stops with 'Unknown option'; in its place: --memPoolSize=workspace:MIB");
  EXPECT_EQ(e.flags[3].releases,
            "8.6.1 to 11.1; since 11.0 it is the default and the flag is ignored; --noCudaGraph is the opposite");
  EXPECT_EQ(e.flags[4].releases, "since 10.0.1; since 11.0 it is always so and the flag is ignored");
  EXPECT_EQ(e.flags[5].meaning, "not a flag of 8.6.1 to 11.1");
  EXPECT_EQ(e.flags[6].meaning, "no flag; trtexec takes --FLAG=VALUE in one word");
  EXPECT_EQ(e.releases, "none");
  EXPECT_EQ(explain_trtexec(parse_trtexec_command("trtexec --fp16 --bf16")).releases, "10.0.1 to 10.16");
  EXPECT_EQ(explain_trtexec(parse_trtexec_command("trtexec --workspace=1 --bf16")).releases, "none");
}

TEST(TrtexecExplain, TheTemperCommandsDoTheSameAndDifferencesAreNamed) {
  const auto commands = [](std::string_view line) { return explain_trtexec(parse_trtexec_command(line)).commands; };
  EXPECT_EQ(commands("trtexec --onnx=a.onnx"),
            (Strings{"temper build a.onnx -o a.plan --device cuda:0 --precision tf32", "temper bench a.plan"}));
  EXPECT_EQ(
      commands("trtexec --onnx=m/a.onnx --saveEngine=out/b.engine --bf16 --minShapes=x:1x3,y:1 --optShapes=x:8x3,y:8 "
               "--maxShapes=x:32x3,y:32 --shapes=x:4x3,y:4 --workspace=256 --duration=10 "
               "--exportTimes=t.json --dumpLayerInfo"),
      (Strings{"temper build m/a.onnx -o out/b.plan --device cuda:0 --precision bf16 --shapes x=1x3:8x3:32x3,y=1:8:32 "
               "--workspace 256MiB",
               "temper bench out/b.plan --batch 4 --duration 10s --json t.json",
               "temper inspect out/b.plan --layers"}));
  EXPECT_EQ(
      commands(
          "trtexec --loadEngine=e.plan --skipInference --exportLayerInfo=l.json --dumpProfile --exportProfile=p.json"),
      (Strings{"temper build MODEL.onnx -o e.plan --device cuda:0 --precision tf32",
               "temper inspect e.plan --layers --json > l.json", "temper profile e.plan",
               "temper profile e.plan --json > p.json"}));
  EXPECT_EQ(
      commands("trtexec --onnx=a.onnx --int8 --calib=c.cache --skipInference --memPoolSize=workspace:2G,dlaSRAM:1"),
      (Strings{"temper calibrate a.onnx --from-cache c.cache -o ranges.json",
               "temper build a.onnx -o a.plan --device cuda:0 --precision int8 --calibration ranges.json --workspace "
               "2GiB"}));
  EXPECT_EQ(commands("trtexec --onnx=a.onnx --int8 --bf16 --calib=c.cache --skipInference").at(1),
            "temper build a.onnx -o a.plan --device cuda:0 --precision int8+bf16 --calibration ranges.json");
  EXPECT_EQ(commands("trtexec --onnx=a.onnx --int8 --fp16 --calib=c.cache --skipInference").at(1),
            "temper build a.onnx -o a.plan --device cuda:0 --precision int8+fp16 --calibration ranges.json");
  EXPECT_EQ(commands("trtexec --onnx=a.onnx --best --calib=c.cache --skipInference").at(1),
            "temper build a.onnx -o a.plan --device cuda:0 --precision best --calibration ranges.json");
  EXPECT_EQ(commands("trtexec --onnx='my a.onnx' --iterations=50 --duration=0"),
            (Strings{"temper build 'my a.onnx' -o 'my a.plan' --device cuda:0 --precision tf32",
                     "temper bench 'my a.plan' --iterations 50"}));
  EXPECT_EQ(commands("trtexec --onnx=a.onnx --fp16 --device=1 --infStreams=2"),
            (Strings{"temper build a.onnx -o a.plan --device cuda:1 --precision fp16",
                     "temper bench a.plan --streams 2 --transfers"}));
  EXPECT_EQ(commands("trtexec --onnx=a.onnx --noTF32 --noCudaGraph"),
            (Strings{"temper build a.onnx -o a.plan --device cuda:0", "temper bench a.plan --no-cuda-graph"}));
  const TrtexecExplanation e =
      explain_trtexec(parse_trtexec_command("trtexec --loadEngine=a.engine --fp16 --int8 --infStreams=2 --shapes=1x3"));
  for (const char* part : {"MODEL.onnx stands for the model it was built from", "INT8 scales were random",
                           "is not NAME:1x3x224x224", "the GPU's own time"})
    EXPECT_NE(all(e.differences).find(part), std::string::npos) << part;
}

// 11.0 turned defaults round: what a command does not say must be said in the other major.
TEST(TrtexecTranslate, DefaultsAreWrittenOutAcrossTheTurnOfVersion11) {
  EXPECT_EQ(to("trtexec --onnx=a.onnx", "11", "10").command,
            "trtexec --onnx=a.onnx --includeDataTransfers --noCudaGraph --noSpinWait");
  EXPECT_EQ(to("trtexec --onnx=a.onnx --noDataTransfers --useCudaGraph --useSpinWait", "11", "8.6").command,
            "trtexec --onnx=a.onnx");
  EXPECT_EQ(to("trtexec --onnx=a.onnx", "10", "11").command,
            "trtexec --onnx=a.onnx --noDataTransfers --useCudaGraph --useSpinWait --stronglyTyped");
  EXPECT_EQ(to("trtexec --onnx=a.onnx --includeDataTransfers --noCudaGraph --noSpinWait", "10").command,
            "trtexec --onnx=a.onnx --stronglyTyped");
  EXPECT_EQ(to("trtexec --onnx=a.onnx", "11", "11").command, "trtexec --onnx=a.onnx");
  const TrtexecTranslation open = to("trtexec --onnx=a.onnx", "10");
  EXPECT_EQ(open.command, "trtexec --onnx=a.onnx");
  EXPECT_NE(all(open.remarks).find("--from 11"), std::string::npos);
  EXPECT_TRUE(to("trtexec --onnx=a.onnx --fp16", "10").remarks.empty());
  EXPECT_EQ(to("trtexec --onnx=a.onnx --dumpProfile", "10", "11").command,
            "trtexec --onnx=a.onnx --dumpProfile --noDataTransfers --useCudaGraph --useSpinWait --separateProfileRun "
            "--stronglyTyped");
  EXPECT_NE(all(to("trtexec --onnx=a.onnx --dumpProfile --fp16", "11").lost).find("profiling in the timed run"),
            std::string::npos);
}

TEST(TrtexecTranslate, WhatAVersionCannotSayIsNamedWithWhatToDo) {
  const TrtexecTranslation t =
      to("trtexec --onnx=a.onnx --fp16 --int8 --calib=c --workspace=64 --buildOnly --nvtxMode=verbose --explicitBatch "
         "--batch=4",
         "11");
  EXPECT_EQ(t.release, "11.1");
  EXPECT_EQ(t.command,
            "trtexec --onnx=a.onnx --memPoolSize=workspace:64 --skipInference --profilingVerbosity=detailed");
  ASSERT_EQ(t.lost.size(), 4u);
  EXPECT_EQ(t.lost[0], "--fp16: gone since 11.0; in its place: a model whose own types are FP16");
  EXPECT_NE(t.lost[2].find("temper quantize MODEL --from-cache CACHE"), std::string::npos);
  EXPECT_EQ(t.lost[3], "--batch=4: gone since 10.0.1; in its place: the first dimension in --shapes");
  EXPECT_EQ(to("trtexec --onnx=a.onnx --workspace=64 --fp16", "8.6").command,
            "trtexec --onnx=a.onnx --workspace=64 --fp16");
  EXPECT_EQ(to("trtexec --onnx=a.onnx --bf16 --stripAllWeights", "8.6").lost,
            (Strings{"--bf16: came with 10.0.1", "--stripAllWeights: came with 10.3.0"}));
  EXPECT_EQ(to("trtexec --onnx=a.onnx --stripAllWeights --fp16", "10.0").command,
            "trtexec --onnx=a.onnx --refit --stripWeights --fp16");
  EXPECT_NE(all(to("trtexec --onnx=a.onnx", "8.6", "11").lost).find("strongly typed networks came with 10.0.1"),
            std::string::npos);
  EXPECT_EQ(to("trtexec --onnx=a.onnx --foo", "10").lost, Strings{"--foo: not a flag of 8.6.1 to 11.1"});
}

// Whatever comes out for a version is made of flags of that version.
TEST(TrtexecTranslate, EveryFlagOfEveryReleaseTranslatesToFlagsOfTheTarget) {
  for (const std::string_view target : kTrtexecReleases)
    for (const std::string_view from : {"10", "11"})
      for (const TrtexecFlag& flag : trtexec_flags()) {
        const size_t index =
            size_t(std::find(kTrtexecReleases.begin(), kTrtexecReleases.end(), target) - kTrtexecReleases.begin());
        const TrtexecTranslation t = to(concat("trtexec --onnx=a.onnx ", flag.name, "=1"), target, from);
        for (const TrtexecArgument& a : parse_trtexec_command(t.command).arguments) {
          const TrtexecFlag* used = find_trtexec_flag(a.flag);
          ASSERT_TRUE(used) << t.command;
          EXPECT_TRUE(index >= used->releases.find('x') && index <= used->releases.rfind('x'))
              << flag.name << " -> " << target << ": " << t.command;
        }
      }
  EXPECT_THROW(to("trtexec --onnx=a.onnx", "9"), Error);
  EXPECT_THROW(to("trtexec --onnx=a.onnx", "10", "7.2"), Error);
}

}  // namespace
}  // namespace temper
