// SPDX-License-Identifier: Apache-2.0
// What `temper trtexec` takes command lines of trtexec to ask for.
#include "interop/trtexec_settings.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../paths.h"
#include "base/error.h"
#include "base/file.h"
#include "interop/trtexec_flags.h"
#include "interop/trtexec_to_temper.h"

namespace temper {
namespace {

TrtexecSettings settings_of(const std::string& line) { return trtexec_settings(parse_trtexec_command(line)); }

std::string refusal_of(const std::string& line, ErrorKind kind) {
  try {
    settings_of(line);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << line << ": " << error.what();
    return error.what();
  }
  ADD_FAILURE() << line << " was accepted";
  return "";
}

std::string_view word_of(TrtexecUse use) {
  return use == TrtexecUse::executed ? "executed" : use == TrtexecUse::accepted ? "no effect" : "refused";
}

TEST(TrtexecSettings, EveryFlagOfTrtexecHasAUseAndTheDocumentsTableIsThatList) {
  const auto uses = trtexec_flag_uses();
  const auto flags = trtexec_flags();
  ASSERT_GE(uses.size(), flags.size());
  for (size_t i = 0; i < flags.size(); ++i) EXPECT_EQ(uses[i].name, flags[i].name);
  std::string table;
  for (const TrtexecFlagUse& use : uses) {
    std::string how(use.how);
    for (size_t at = 0; (at = how.find('|', at)) != how.npos; at += 2) how.insert(at, 1, '\\');
    table += concat("| `", use.name, "` | ", word_of(use.use), " | ", how, " |\n");
  }
  const std::string page = read_file(paths::source_folder() + "/docs/trtexec.md");
  EXPECT_NE(page.find("|---|---|---|\n" + table), std::string::npos) << table;
}

// Command lines as people publish them.
TEST(TrtexecSettings, CommonCommandLinesAreAccepted) {
  for (const char* line : {
           "trtexec --onnx=m.onnx",
           "trtexec --onnx=m.onnx --saveEngine=m.trt --fp16",
           "trtexec --onnx=m.onnx --saveEngine=m.engine --explicitBatch --workspace=4096 --fp16",
           "trtexec --onnx=m.onnx --minShapes=x:1x3x224x224 --optShapes=x:8x3x224x224 --maxShapes=x:32x3x224x224",
           "trtexec --onnx=m.onnx --shapes=x:1x3x224x224 --best",
           "trtexec --onnx=m.onnx --int8 --calib=c.cache --fp16",
           "trtexec --onnx=m.onnx --int8 --best --verbose --dumpProfile",
           "trtexec --loadEngine=m.plan --useCudaGraph --noDataTransfers --useSpinWait --separateProfileRun",
           "trtexec --loadEngine=m.plan --warmUp=500 --duration=10 --iterations=100 --avgRuns=100",
           "trtexec --loadEngine=m.plan --exportTimes=t.json --exportProfile=p.json --exportLayerInfo=l.json",
           "trtexec --onnx=m.onnx --memPoolSize=workspace:1024,dlaSRAM:1 --timingCacheFile=t.cache",
           "trtexec --onnx=m.onnx --memPoolSize=workspace:2G --builderOptimizationLevel=5",
           "trtexec --onnx=m.onnx --inputIOFormats=fp32:chw --outputIOFormats=fp32:chw",
           "trtexec --onnx=m.onnx --buildOnly --nvtxMode=verbose",
           "trtexec --onnx=m.onnx --skipInference --profilingVerbosity=detailed --stronglyTyped",
           "trtexec --onnx=m.onnx --infStreams=4 --threads --percentile=50,90,99.9",
           "trtexec --onnx=m.onnx --streams=2 --device=1 --noTF32",
           "trtexec --onnx=m.onnx --sparsity=enable --tacticSources=-CUDNN,+CUBLAS",
           "trtexec --onnx=m.onnx --batch=1 --maxBatch=1 --idleTime=0 --sleepTime=0",
           "trtexec --onnx=m.onnx --allowGPUFallback --useRuntime=full --bf16",
       })
    EXPECT_NO_THROW(settings_of(line)) << line;
}

TEST(TrtexecSettings, ValuesAreReadAsTrtexecReadsThem) {
  const TrtexecSettings plain = settings_of("trtexec --onnx=m.onnx");
  EXPECT_EQ(plain.iterations, 10);
  EXPECT_EQ(plain.warm_up_ms, 200);
  EXPECT_EQ(plain.seconds, 3);
  EXPECT_TRUE(plain.tf32 && plain.transfers && !plain.cuda_graph && plain.device.empty() && plain.profiles.empty());
  EXPECT_EQ(settings_of("trtexec --onnx=m.onnx --workspace=512").workspace, int64_t(512) << 20);
  EXPECT_EQ(settings_of("trtexec --onnx=m.onnx --memPoolSize=workspace:2G").workspace, int64_t(2) << 30);
  EXPECT_EQ(settings_of("trtexec --onnx=m.onnx --memPoolSize=workspace:0.5").workspace, int64_t(1) << 19);
  EXPECT_EQ(settings_of("trtexec --onnx=m.onnx --device=1").device, "cuda:1");
  EXPECT_EQ(settings_of("trtexec --onnx=m.onnx --device=1 --temperDevice=cpu").device, "cpu");
  const TrtexecSettings best = settings_of("trtexec --onnx=m.onnx --best");
  EXPECT_TRUE(best.best && !best.int8 && !best.fp16);
  const TrtexecSettings range =
      settings_of("trtexec --onnx=m.onnx --minShapes=x:1x3,y:2 --optShapes=x:4x3 --shapes=x:2x3");
  ASSERT_EQ(range.profiles.size(), 1u);
  EXPECT_EQ(range.profiles[0].min.at("x"), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(range.profiles[0].max.at("x"), (std::vector<int64_t>{4, 3}));
  EXPECT_EQ(range.profiles[0].opt.at("y"), (std::vector<int64_t>{2}));
  EXPECT_EQ(range.shapes.at("x"), (std::vector<int64_t>{2, 3}));
  const TrtexecSettings two =
      settings_of("trtexec --onnx=m.onnx --profile=0 --optShapes=x:1x3 --profile=1 --optShapes=x:8x3 --useProfile=1");
  ASSERT_EQ(two.profiles.size(), 2u);
  EXPECT_EQ(two.profile, 1u);
}

TEST(TrtexecSettings, StrongTypingTakesPrecisionsAwayAndLeavesTF32) {
  const TrtexecSettings typed = settings_of("trtexec --onnx=m.onnx --stronglyTyped --fp16 --int8 --bf16");
  EXPECT_FALSE(typed.fp16 || typed.int8 || typed.bf16);
  EXPECT_TRUE(typed.tf32);
  EXPECT_FALSE(settings_of("trtexec --onnx=m.onnx --stronglyTyped --noTF32").tf32);
  std::string notes;
  for (const std::string& note : typed.notes) notes += note + "\n";
  EXPECT_NE(notes.find("--fp16 has no effect with --stronglyTyped"), notes.npos) << notes;
}

TEST(TrtexecSettings, FormatsOfPortsAreTypesInRowsAndPausesAreMilliseconds) {
  using Types = std::vector<std::string>;
  const TrtexecSettings settings = settings_of(
      "trtexec --onnx=m.onnx --inputIOFormats=fp16:chw,int32:chw+chw4 --outputIOFormats=bf16:chw32+chw --sleepTime=1.5 "
      "--idleTime=20");
  EXPECT_EQ(settings.input_types, (Types{"fp16", "int32"}));
  EXPECT_EQ(settings.output_types, (Types{"bf16"}));
  EXPECT_EQ(settings.sleep_ms, 1.5);
  EXPECT_EQ(settings.idle_ms, 20);
  const TrtexecSettings loaded = settings_of("trtexec --loadEngine=m.plan --inputIOFormats=fp16:chw");
  EXPECT_TRUE(loaded.input_types.empty());
  ASSERT_EQ(loaded.notes.size(), 1u);
  EXPECT_NE(loaded.notes[0].find("no effect with --loadEngine"), std::string::npos);
}

TEST(TrtexecSettings, WhatTheVerbRefusesIsADifferenceOfTheTranslation) {
  const TemperCommands commands =
      temper_commands_for(parse_trtexec_command("trtexec --onnx=m.onnx --useDLACore=0 --int4 --idleTime=0"));
  EXPECT_EQ(std::count(commands.differences.begin(), commands.differences.end(),
                       "--useDLACore=0 is not in Temper: there is no DLA here; leave it out (-1 is accepted)"),
            1);
  EXPECT_EQ(std::count(commands.differences.begin(), commands.differences.end(),
                       "--int4 is not in Temper: there are no kernels of this precision"),
            1);
  for (const std::string& text : commands.differences) EXPECT_EQ(text.find("--idleTime"), text.npos);
}

TEST(TrtexecSettings, PrecisionsOfLayersCountWhereTheyAreWishesOrOrders) {
  const auto read = [](std::string_view flags) {
    return trtexec_settings(parse_trtexec_command(concat("trtexec --onnx=m.onnx --fp16 --int8 ", flags)));
  };
  const TrtexecSettings obeyed = read("--precisionConstraints=obey --layerPrecisions=a:b:fp32,/c/Conv:fp16,*:int8");
  EXPECT_EQ(obeyed.layer_precisions,
            (std::map<std::string, std::string>{{"a:b", "fp32"}, {"/c/Conv", "fp16"}, {"*", "int8"}}));
  EXPECT_TRUE(obeyed.obeys_layer_precisions);
  EXPECT_FALSE(read("--precisionConstraints=prefer --layerPrecisions=a:fp32").obeys_layer_precisions);
  const TrtexecSettings hints = read("--layerPrecisions=a:fp32");
  EXPECT_TRUE(hints.layer_precisions.empty());
  ASSERT_FALSE(hints.notes.empty());
  EXPECT_NE(hints.notes.back().find("--precisionConstraints=obey"), std::string::npos);
  for (const char* flags :
       {"--precisionConstraints=must", "--precisionConstraints=obey --layerPrecisions=a",
        "--precisionConstraints=obey --layerPrecisions=a:fp8", "--precisionConstraints=obey --layerPrecisions=a:bf16"})
    refusal_of(concat("trtexec --onnx=m.onnx --fp16 ", std::string_view(flags)), ErrorKind::usage);
}

TEST(TrtexecSettings, WhatIsNotThereIsRefusedByNameWithWhatToDoInstead) {
  for (const auto& [flag, part] : {std::pair{"--useDLACore=0", "no DLA"},
                                   {"--plugins=a.so", "plugins"},
                                   {"--staticPlugins=a.so", "plugins"},
                                   {"--safe", "safety"},
                                   {"--refit", "built again|build it again"},
                                   {"--stripWeights", "weights"},
                                   {"--useRuntime=lean", "one runtime"},
                                   {"--sparsity=force", "sparse"},
                                   {"--maxBatch=8", "--shapes="},
                                   {"--layerOutputTypes=a:fp16", "--layerPrecisions"},
                                   {"--inputIOFormats=fp16:chw32", "in rows"},
                                   {"--outputIOFormats=fp32:chw,fp16:hwc8+chw4", "in rows"},
                                   {"--idleTime=5 --infStreams=2", "--infStreams=1"},
                                   {"--versionCompatible", "one version"},
                                   {"--int4", "no kernels"},
                                   {"--loadRefOutputs=o.json", "temper verify"}}) {
    const std::string text =
        refusal_of(concat("trtexec --onnx=m.onnx ", std::string_view(flag)), ErrorKind::unsupported);
    EXPECT_NE(text.find("is not in Temper"), text.npos) << text;
    const std::string_view parts(part);
    EXPECT_NE(text.find(parts.substr(parts.find('|') + 1)), text.npos) << text;
  }
  for (const char* flag : {"--fp32",
                           "--dumpEngine",
                           "--onn=x",
                           "-x",
                           "stray",
                           "--percentile=101",
                           "--duration=-1",
                           "--iterations=1.5",
                           "--memPoolSize=workspace",
                           "--shapes=x",
                           "--loadInputs=x",
                           "--profilingVerbosity=high",
                           "--inputIOFormats=fp16",
                           "--inputIOFormats=fp16:",
                           "--outputIOFormats=half:chw",
                           "--outputIOFormats=fp16:nchw",
                           "--idleTime=-1",
                           "--useProfile=1",
                           "--loadEngine=m.plan --saveEngine=n.plan",
                           "--stronglyTyped --best"})
    refusal_of(concat("trtexec --onnx=m.onnx ", std::string_view(flag)), ErrorKind::usage);
}

}  // namespace
}  // namespace temper
