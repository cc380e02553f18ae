// SPDX-License-Identifier: Apache-2.0
// trtexec's command lines, as those who have scripts around it call it.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../interop/logs.h"
#include "bench/results.h"
#include "interop/layer_file.h"
#include "interop/trtexec_import.h"
#include "interop/trtexec_lines.h"
#include "interop/trtexec_settings.h"
#include "plan/file.h"
#include "program.h"
#include "runtime/engine.h"

namespace temper {
namespace {

const std::string kDigitsCnn = paths::source_folder() + "/models/digits_cnn.onnx";
constexpr std::string_view kQuick = " --duration=0 --warmUp=0 --iterations=20 --temperDevice=cpu ";

Outcome trtexec(const std::string& folder, const std::string& flags) {
  return temper(folder, concat("trtexec", kQuick, flags));
}
std::string onnx() { return concat("--onnx='", kDigitsCnn, "'"); }

// The lines that begin with a stamp, without it.
std::vector<std::string> lines_of(const std::string& log) {
  std::vector<std::string> lines;
  for_each_log_line(log, [&](const LogLine& line) { lines.emplace_back(line.text); });
  return lines;
}

TEST(TrtexecVerb, WritesALogAndFilesThatTheReadersReadAndNameAsTempers) {
  const std::string folder = test_folder();
  const Outcome done =
      trtexec(folder, concat(onnx(),
                             " --minShapes=image:1x1x8x8 --optShapes=image:2x1x8x8 "
                             "--maxShapes=image:4x1x8x8 --saveEngine=m.plan --exportTimes=t.json "
                             "--exportProfile=p.json --exportLayerInfo=l.json --exportOutput=o.json "
                             "--profilingVerbosity=detailed --dumpProfile --dumpLayerInfo --dumpOutput "
                             "--percentile=50,99 --avgRuns=7"));
  ASSERT_EQ(done.code, 0) << done.err << done.out;
  EXPECT_TRUE(done.out.starts_with("&&&& RUNNING Temper.trtexec [Temper v")) << done.out;
  EXPECT_CONTAINS(done.out, "&&&& PASSED Temper.trtexec [Temper v");
  EXPECT_CONTAINS(done.out, "Average on 7 runs - Host latency: ");
  EXPECT_CONTAINS(done.out, "=== Profile (");
  EXPECT_CONTAINS(done.out, "logits: (2x10)");
  const std::vector<TrtexecRun> runs = read_trtexec_log(done.out);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_TRUE(runs[0].temper && runs[0].temper->size() > 4);
  EXPECT_FALSE(runs[0].version) << "no version of TensorRT";
  EXPECT_EQ(runs[0].status, TrtexecStatus::passed);
  EXPECT_EQ(runs[0].queries, 20);
  EXPECT_EQ(runs[0].latency->percentiles.size(), 2u);
  EXPECT_FALSE(runs[0].h2d) << "nothing is transferred on a CPU";
  EXPECT_TRUE(runs[0].problems.empty() && runs[0].contradictions.empty());

  write_text(folder + "log", done.out);
  const TrtexecImport imported = import_trtexec({{"log", done.out}, {"t.json", read_file(folder + "t.json")}});
  ASSERT_EQ(imported.runs.size(), 1u);
  const BenchRun& run = imported.runs[0];
  EXPECT_EQ(run.backend, "cpu");
  EXPECT_EQ(run.device, "cpu");
  EXPECT_EQ(run.precision, "fp32");
  EXPECT_EQ(run.batch, 2);
  EXPECT_EQ(run.transfers, "none");
  EXPECT_EQ(run.samples, 20);
  EXPECT_FALSE(run.imported->tensorrt_version);
  EXPECT_CONTAINS(run.imported->source, "temper trtexec ");
  EXPECT_EQ(run.imported->consistent, true);
  EXPECT_TRUE(run.imported->warnings.empty()) << run.imported->warnings[0];
  const Outcome verb = temper(folder, "import trtexec log -o r.json");
  EXPECT_EQ(verb.code, 0) << verb.err;
  EXPECT_EQ(temper(folder, "import trtexec log --set tensorrt_version=8.6.1 -o r2.json").code, 2);

  const LayerInfo layers = read_layer_info(read_file(folder + "l.json"));
  EXPECT_TRUE(layers.detailed);
  EXPECT_EQ(layers.engine.inputs, std::vector<std::string>{"image"});
  EXPECT_EQ(layers.engine.outputs, std::vector<std::string>{"logits"});
  // Times decide whether a reorder stands before the first convolution, and whether that takes an image at a time.
  const std::vector<EngineLayer>& all = layers.engine.layers;
  const auto first =
      std::find_if(all.begin(), all.end(), [](const EngineLayer& l) { return l.kind == LayerKind::convolution; });
  ASSERT_NE(first, all.end());
  EXPECT_EQ(first->from, "fp32");
  std::vector<int64_t> dims = first->inputs.at(0).dims;
  EXPECT_TRUE(dims.at(0) == 1 || dims[0] == 2) << dims[0];
  dims[0] = 2;
  EXPECT_EQ(dims, (std::vector<int64_t>{2, 1, 8, 8}));
  const LayerProfile profile = read_layer_profile(read_file(folder + "p.json"));
  EXPECT_GE(profile.runs, 5);
  ASSERT_EQ(profile.layers.size(), layers.engine.layers.size());
  for (size_t i = 0; i < profile.layers.size(); ++i) EXPECT_EQ(profile.layers[i].name, layers.engine.layers[i].name);
  EXPECT_EQ(temper(folder, "explain l.json p.json").code, 0);
  const auto outputs = nlohmann::json::parse(read_file(folder + "o.json"));
  EXPECT_EQ(outputs.at(0).at("name"), "logits");
  EXPECT_EQ(outputs.at(0).at("dimensions"), "2x10");
  EXPECT_EQ(outputs.at(0).at("values").size(), 20u);
}

TEST(TrtexecVerb, LogsOfItAreReadWithoutAFindingAndCompareWithNoneOfTensorRTOnAnotherMachine) {
  const std::string folder = test_folder();
  const char* const lines[] = {
      "--shapes=image:1x1x8x8 --fp16 --verbose --explicitBatch --workspace=64",
      "--shapes=image:2x1x8x8 --int8",
      "--shapes=image:1x1x8x8 --noDataTransfers --useCudaGraph --percentile=50,90,99 --avgRuns=3",
      "--shapes=image:1x1x8x8 --dumpProfile --separateProfileRun --dumpLayerInfo --dumpOutput",
  };
  for (const char* const line : lines) {
    const Outcome done = trtexec(folder, concat(onnx(), " ", line));
    ASSERT_EQ(done.code, 0) << line << done.err;
    write_text(folder + "ours.log", done.out);
    const Outcome imported = temper(folder, "import trtexec ours.log -o ours.json --force");
    EXPECT_EQ(imported.code, 0) << line;
    EXPECT_EQ(imported.err, "") << line;
    const BenchRun run = load_result(folder + "ours.json").runs.at(0);
    EXPECT_TRUE(run.imported->warnings.empty() && run.imported->consistent.value_or(false)) << line;
    EXPECT_TRUE(run.imported->source.starts_with("temper trtexec ")) << run.imported->source;
  }
  const std::string theirs = paths::source_folder() + "/tests/interop/fixtures/trt8601_mnist_summary.log";
  ASSERT_EQ(temper(folder, concat("import trtexec '", theirs, "' -o theirs.json")).code, 0);
  for (const char* const verb : {"compare theirs.json ours.json", "gate theirs.json ours.json --max-slowdown 100%"}) {
    const Outcome unlike = temper(folder, verb);
    EXPECT_EQ(unlike.code, 4) << unlike.out;
    EXPECT_CONTAINS(unlike.err, "are unlike, their times do not compare: device: cuda:0");
    for (const char* const difference : {"shapes: unknown and image=1x1x8x8", "batch: unknown and 1", "transfers: "})
      EXPECT_CONTAINS(unlike.err, difference);
  }
}

TEST(TrtexecVerb, ALogWhoseBannersAreOfTwoProgramsContradictsItself) {
  std::string text = LogText{}.text();
  text.replace(text.rfind("TensorRT.trtexec [TensorRT v8601]"), 33, "Temper.trtexec [Temper v0.1.0]");
  const auto runs = read_trtexec_log(text);
  ASSERT_EQ(runs.size(), 1u);
  ASSERT_EQ(runs[0].contradictions.size(), 1u);
  EXPECT_CONTAINS(runs[0].contradictions[0], "the other Temper's");
}

// Built in one call and run in the next, with flags of old command lines.
TEST(TrtexecVerb, AnEngineIsBuiltInOneCallAndRunInAnother) {
  const std::string folder = test_folder();
  const Outcome built =
      trtexec(folder, concat(onnx(), " --saveEngine=m.plan --workspace=1024 --buildOnly --fp16 --verbose"));
  ASSERT_EQ(built.code, 0) << built.err;
  EXPECT_CONTAINS(built.out, "Engine built in ");
  EXPECT_CONTAINS(built.out, "Precision: FP32");
  EXPECT_CONTAINS(built.err, "FP16: layers stay in FP32");
  EXPECT_CONTAINS(built.err, "Automatically overriding shape to: 1x1x8x8");
  EXPECT_EQ(built.out.find("Throughput"), std::string::npos);
  const Outcome run = temper(folder,
                             "trtexec --loadEngine=m.plan --warmUp=1 --iterations=1000 --duration=0 "
                             "--shapes=image:1x1x8x8 --useSpinWait --temperDevice=cpu");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_CONTAINS(run.err, "Static model does not take explicit shapes");
  EXPECT_CONTAINS(run.err, "--useSpinWait has no effect");
  const TrtexecRun log = read_trtexec_log(run.out).at(0);
  EXPECT_GE(log.queries.value(), 1000);
  EXPECT_TRUE(log.throughput_qps && log.latency->mean && log.latency->median);
  // As scripts find it: the last line with "Latency:".
  std::string last;
  for (const std::string& line : lines_of(run.out))
    if (line.find("Latency:") != line.npos) last = line;
  EXPECT_CONTAINS(last, "percentile(99%) = ");
  EXPECT_TRUE(last.starts_with("Latency: ")) << last;
}

TEST(TrtexecVerb, FillsAnEmptyFileThatAProgramHoldsOpen) {  // as Polygraphy's runner of trtexec does
  const std::string folder = test_folder();
  write_text(folder + "o.json", "");
  std::ifstream held(folder + "o.json");
  const Outcome run = trtexec(folder, onnx() + " --shapes=image:1x1x8x8 --exportOutput=o.json");
  ASSERT_EQ(run.code, 0) << run.err;
  const std::string text((std::istreambuf_iterator<char>(held)), std::istreambuf_iterator<char>());
  EXPECT_EQ(nlohmann::json::parse(text).at(0).at("dimensions"), "1x10");
  EXPECT_EQ(text, read_file(folder + "o.json"));
}

TEST(TrtexecVerb, TakesSeveralProfilesAndInputsFromFiles) {
  const std::string folder = test_folder();
  const Outcome built =
      trtexec(folder, concat(onnx(),
                             " --profile=0 --shapes=image:1x1x8x8 --optShapes=image:1x1x8x8 --profile=1 "
                             "--optShapes=image:3x1x8x8 --useProfile=1 --saveEngine=m.plan "
                             "--skipInference"));
  ASSERT_EQ(built.code, 0) << built.err;
  const auto engine = Engine::load(folder + "m.plan");
  EXPECT_EQ(engine->info().profiles.size(), 2u);
  const Tensor x = Tensor::of<float>({3, 1, 8, 8}, std::vector<float>(192, 0.25f));
  write_text(folder + "x.bin", std::string(reinterpret_cast<const char*>(x.raw().data()), size_t(x.bytes())));
  const Outcome run =
      trtexec(folder, "--loadEngine=m.plan --useProfile=1 \"--loadInputs='image':x.bin\" --exportOutput=o.json");
  ASSERT_EQ(run.code, 0) << run.err;
  const auto values = nlohmann::json::parse(read_file(folder + "o.json")).at(0).at("values").get<std::vector<double>>();
  const std::vector<double> want = Session(engine).run({x})[0].to_doubles();
  ASSERT_EQ(values.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(values[i], want[i], 1e-4 * std::abs(want[i]) + 1e-6);
  EXPECT_CONTAINS(trtexec(folder, "--loadEngine=m.plan --useProfile=2").err, "the engine has 2 profiles");
  EXPECT_CONTAINS(trtexec(folder, "--loadEngine=m.plan --shapes=image:2x1x8x8").err, "none of the engine's 2 profiles");
  write_text(folder + "x.bin", "short");
  EXPECT_CONTAINS(trtexec(folder, "--loadEngine=m.plan --useProfile=1 --loadInputs=image:x.bin").err, "has 5 bytes");
}

TEST(TrtexecVerb, InputsAndOutputsHaveTheTypesOfTheirFormats) {
  const std::string folder = test_folder(), shapes = " --shapes=image:2x1x8x8 ";
  const Outcome plain = trtexec(folder, concat(onnx(), shapes, "--saveEngine=plain.plan --buildOnly"));
  EXPECT_CONTAINS(plain.out, "Input(s)s format: fp32:CHW");
  const Outcome done = trtexec(folder, concat(onnx(), shapes,
                                              "--saveEngine=half.plan --inputIOFormats=fp16:chw "
                                              "--outputIOFormats=bf16:chw+chw2 --dumpOutput"));
  ASSERT_EQ(done.code, 0) << done.err << done.out;
  EXPECT_CONTAINS(done.out, "Input(s): fp16:chw");
  EXPECT_CONTAINS(done.out, "Output(s): bf16:chw");
  EXPECT_CONTAINS(done.out, "logits: (2x10)");
  const auto half = Engine::load(folder + "half.plan"), single = Engine::load(folder + "plain.plan");
  EXPECT_EQ(half->inputs()[0].type.dtype, DType::f16);
  EXPECT_EQ(half->outputs()[0].type.dtype, DType::bf16);
  Tensor x(DType::f32, {2, 1, 8, 8});
  for (int64_t i = 0; i < x.count(); ++i) x.data<float>()[i] = float(i % 17) / 16;  // exact in fp16
  const std::vector<double> got = Session(half).run({x.converted(DType::f16)})[0].to_doubles();
  const std::vector<double> want = Session(single).run({x})[0].converted(DType::bf16).to_doubles();
  ASSERT_EQ(got.size(), want.size());
  // The two builds may take other kernels, whose sums fall on either side of a step of bf16.
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], std::abs(want[i]) / 128);
  for (const auto& [flags, why] : {std::pair("--inputIOFormats=int32:chw", "'image' is f32 in the model; int32"),
                                   {"--outputIOFormats=fp16:chw,fp16:chw", "there are 2 formats for 1 tensors"}}) {
    const Outcome refused = trtexec(folder, concat(onnx(), shapes, std::string_view(flags)));
    EXPECT_EQ(refused.code, 1);
    EXPECT_CONTAINS(refused.err, std::string_view(why));
  }
}

TEST(TrtexecVerb, QueriesPauseBetweenEachOther) {
  const std::string folder = test_folder();
  const Outcome done = trtexec(folder, concat(onnx(), " --idleTime=10 --sleepTime=1"));
  ASSERT_EQ(done.code, 0) << done.err << done.out;
  EXPECT_CONTAINS(done.out, "Idle time: 10ms");
  EXPECT_CONTAINS(done.out, "Sleep time: 1ms");
  const std::vector<TrtexecRun> runs = read_trtexec_log(done.out);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].queries, 20);
  EXPECT_LT(*runs[0].throughput_qps, 20 / 0.19) << "19 pauses of 10 ms";
  EXPECT_LT(*runs[0].latency->mean, 9.0) << "the pauses are in no query";
}

TEST(TrtexecVerb, Int8TakesACacheOrSaysThatItsRangesAreNoise) {
  const std::string folder = test_folder();
  const Outcome noise =
      trtexec(folder, concat(onnx(), " --int8 --shapes=image:1x1x8x8 --skipInference --saveEngine=m.plan"));
  ASSERT_EQ(noise.code, 0) << noise.err;
  EXPECT_CONTAINS(noise.err, "The ranges of INT8 are those of noise");
  EXPECT_TRUE(Engine::load(folder + "m.plan")->info().placeholder);
  ASSERT_EQ(temper(folder, concat("calibrate '", kDigitsCnn, "' --placeholder-data -o r.json --cache c.cache")).code,
            0);
  const Outcome cached = trtexec(
      folder,
      concat(onnx(), " --int8 --fp16 --calib=c.cache --shapes=image:1x1x8x8 --skipInference --saveEngine=c.plan"));
  ASSERT_EQ(cached.code, 0) << cached.err;
  EXPECT_CONTAINS(cached.out, "Precision: INT8");
  EXPECT_EQ(cached.err.find("those of noise"), std::string::npos);
  EXPECT_EQ(Engine::load(folder + "c.plan")->info().precision, "int8");
  const Outcome best = trtexec(folder, concat(onnx(), " --best --shapes=image:1x1x8x8 --skipInference"));
  ASSERT_EQ(best.code, 0) << best.err;
  EXPECT_CONTAINS(best.err, "the fastest precision is ");
  EXPECT_CONTAINS(best.out, "Precision: ");
}

TEST(TrtexecVerb, WhatTrtexecAcceptsIsAccepted) {
  const std::string folder = test_folder();
  for (const char* words : {"trtexec", "trtexec --temperDevice=cpu --temperApi=8.6", "as-tensorrt -- trtexec"}) {
    const Outcome help = temper(folder, words);
    EXPECT_EQ(help.code, 0) << words;
    EXPECT_CONTAINS(help.out, "Usage: temper trtexec");
  }
  const Outcome built = trtexec(folder, concat(onnx(),
                                               " --temperApi=8.6 --shapes=image:1x1x8x8 --workspace=64 --buildOnly "
                                               "--useDLACore=-1 --int8 --calib=none.cache --saveEngine=m.plan"));
  ASSERT_EQ(built.code, 0) << built.err;
  EXPECT_CONTAINS(built.err, "--workspace flag has been deprecated by --memPoolSize flag.");
  EXPECT_CONTAINS(built.err, "--buildOnly flag has been deprecated by --skipInference flag.");
  EXPECT_CONTAINS(built.err, "there is no file 'none.cache'");
  const Outcome loaded = trtexec(folder, "--onnx=none.onnx --loadEngine=m.plan --iterations=0 --duration=0");
  ASSERT_EQ(loaded.code, 0) << loaded.err;
  EXPECT_CONTAINS(loaded.err, "--onnx has no effect with --loadEngine");
  EXPECT_CONTAINS(loaded.out, "Engine deserialized in");
  // From 11 on copies are outside of the times, and a query is one graph.
  const auto settings = [](const char* flags) {
    return trtexec_settings(parse_trtexec_command(concat("trtexec --onnx=m.onnx ", flags)));
  };
  EXPECT_TRUE(settings("--temperApi=10.13").transfers && !settings("--temperApi=10.13").cuda_graph);
  EXPECT_TRUE(!settings("--temperApi=11.1").transfers && settings("--temperApi=11.1").cuda_graph);
  EXPECT_TRUE(settings("--temperApi=11.1 --includeDataTransfers").transfers);
  EXPECT_FALSE(settings("--temperApi=11.1 --noCudaGraph").cuda_graph);
}

// On a CPU, which computes no FP16, every layer is FP32 already.
TEST(TrtexecVerb, ALayerThatIsToBeFp32MayBeSoWhereNothingIsLower) {
  const std::string folder = test_folder();
  const std::string line = "trtexec --temperDevice=cpu " + onnx() + " --fp16 --buildOnly --precisionConstraints=obey";
  for (const char* type : {"fp32", "fp16"}) {
    const Outcome done = temper(folder, line + " --layerPrecisions=conv1:" + type);
    EXPECT_EQ(done.code, 0) << done.out << done.err;
  }
  const Outcome unknown = temper(folder, line + " --layerPrecisions=nobody:fp32");
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.err.find("'nobody' is not in the model"), unknown.err.npos) << unknown.err;
}

TEST(TrtexecVerb, RefusesByNameEndsWith1AndLeavesNoFile) {
  const std::string folder = test_folder();
  write_text(folder + "theirs.engine", "ftrt" + std::string(100, '\0'));
  write_text(folder + "notes.txt", "mine");
  const std::pair<std::string, std::string> cases[] = {
      {onnx() + " --fp32", "Unknown option: --fp32"},
      {onnx() + " --dumpEngine", "Unknown option: --dumpEngine"},
      {onnx() + " --useDLACore=0", "--useDLACore=0 is not in Temper: there is no DLA"},
      {onnx() + " --batch=8", "the batch is a dimension"},
      {onnx() + " --int4", "--int4 is not in Temper"},
      {onnx() + " --shapes=image:1x1x8x8, other:1x3", "Unknown option: other:1x3"},
      {onnx() + " '--shapes=image:1x1x8x8, other:1x3'", "' other' begins or ends with a blank"},
      {onnx() + " --shapes=picture:1x1x8x8", "Cannot find input tensor with name \"picture\""},
      {onnx() + " --shapes=image:1x1x8", "does not fit"},
      {onnx() + " --iterations=many", "--iterations=many: a number"},
      {"--onnx=none.onnx", "none.onnx"},
      {"", "give --onnx or --loadEngine"},
      {"--loadEngine=m.plan --saveEngine=n.plan", "Incompatible load and save engine options selected"},
      {onnx() + " --temperApi=11.1 --fp16", "Unknown option: --fp16"},
      {onnx() + " --temperApi=11.1 --int8", "Unknown option: --int8"},
      {onnx() + " --temperApi=10.13 --workspace=64", "Unknown option: --workspace 64"},
      {onnx() + " --temperApi=10.13 --streams=2", "Unknown option: --streams 2"},
      {onnx() + " --temperApi=9", "--temperApi=9: a release is expected"},
      {"--loadEngine=theirs.engine", "is no plan of Temper; an engine of TensorRT runs in TensorRT alone"},
      {onnx() + " --exportTimes=notes.txt --shapes=image:1x1x8x8", "'notes.txt' is "},
  };
  for (const auto& [flags, part] : cases) {
    const Outcome refused = trtexec(folder, flags + (flags.find("onnx") != flags.npos ? " --saveEngine=m.plan" : ""));
    EXPECT_EQ(refused.code, 1) << flags;
    EXPECT_CONTAINS(refused.err, part);
    EXPECT_CONTAINS(refused.err, "] [E] ");
    EXPECT_CONTAINS(refused.out, "&&&& FAILED Temper.trtexec");
    if (flags.find("notes") == flags.npos) { EXPECT_FALSE(std::filesystem::exists(folder + "m.plan")) << flags; }
  }
  EXPECT_EQ(read_file(folder + "notes.txt"), "mine");
}

TEST(TrtexecVerb, ACommandFindsTemperInThePlaceOfTrtexecAndNothingElseChanges) {
  const std::string folder = test_folder();
  write_text(folder + "build.sh", concat("command -v trtexec > where; trtexec --onnx='", kDigitsCnn,
                                         "' --saveEngine=m.plan --buildOnly --shapes=image:1x1x8x8 && exit 7\n"));
  const Outcome done = temper(folder, "as-tensorrt --device cpu -- sh build.sh");
  EXPECT_EQ(done.code, 7) << done.err;
  EXPECT_CONTAINS(done.err, "are Temper's for this command, on cpu");
  EXPECT_CONTAINS(done.out, "&&&& PASSED Temper.trtexec");
  EXPECT_TRUE(is_plan(folder + "m.plan"));
  std::string where = read_file(folder + "where");
  where.pop_back();
  EXPECT_FALSE(where.empty());
  EXPECT_FALSE(std::filesystem::exists(where)) << "it goes with the command";
  EXPECT_EQ(temper(folder, "as-tensorrt -- sh -c 'kill -9 $$'").code, 137);
  EXPECT_EQ(temper(folder, "as-tensorrt -- ./no_such_program").code, 127);
  EXPECT_EQ(temper(folder, "as-tensorrt").code, 2);
  const std::string listed = temper(folder, "as-tensorrt --list").out;
  EXPECT_NE(listed.find("  IBuilderConfig.int8_calibrator  8.6 10.13\n"), listed.npos);
  EXPECT_NE(listed.find("  IProgressMonitor  10.13 11.1  (shown from 8.6 on)\n"), listed.npos);
  EXPECT_NE(listed.find("  Refitter.get_named_weights  10.13 11.1  weights are replaced by a Refitter"), listed.npos);
  EXPECT_EQ(temper(folder, "as-tensorrt --device abacus -- true").code, 2);
  EXPECT_EQ(temper(folder, "as-tensorrt --api 9 -- true").code, 2);
  EXPECT_EQ(temper(folder, "as-tensorrt --apis 8.6 -- true").code, 2);
}

// The module of the Python package is a double here, which says what it was asked for.
TEST(TrtexecVerb, ACommandImportsTheModuleTensorrtOfTemper) {
  const std::string folder = test_folder();
  std::filesystem::create_directories(folder + "lib/temper/tensorrt");
  write_text(folder + "lib/temper/__init__.py", "");
  write_text(folder + "lib/temper/tensorrt/__init__.py", "");
  write_text(
      folder + "lib/temper/tensorrt/_api.py",
      "import sys\n\ndef stand_in(name, api, device):\n    print(name, api, device)\n    sys.modules[name] = sys\n");
  write_text(folder + "infer.py", "import tensorrt\nprint(tensorrt.__name__)\n");
  const Outcome done =
      temper(folder, "as-tensorrt --device=cpu --api 10.13 -- python3 infer.py", "export PYTHONPATH=$PWD/lib;");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out, "tensorrt 10.13 cpu\nsys\n");
  EXPECT_NE(temper(folder, "as-tensorrt -- python3 infer.py").code, 0) << "temper is not installed there";
}

}  // namespace
}  // namespace temper
