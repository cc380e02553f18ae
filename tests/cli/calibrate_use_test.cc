// SPDX-License-Identifier: Apache-2.0
// calibrate: what the command line may get wrong, and its ways that start from a cache or from ranges.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "program.h"
#include "quantize/ranges.h"

namespace temper {
namespace {

// net.onnx: y = x * W1, relu, * W2 for x f32[batch,4]; x.npy: 20 samples, nan.npy: NaN in sample 13.
constexpr const char* kModel = R"(
import onnx
from onnx import helper as h, TensorProto as T, numpy_helper
r = np.random.RandomState(0)
def info(name, n): return h.make_tensor_value_info(name, T.FLOAT, ['batch', n])
def save(name, seed):
    r = np.random.RandomState(seed)
    g = h.make_graph([h.make_node('MatMul', ['x', 'W1'], ['a'], name='first'), h.make_node('Relu', ['a'], ['b']), h.make_node('MatMul', ['b', 'W2'], ['y'], name='second')], 'g', [info('x', 4)], [info('y', 3)],
                     [numpy_helper.from_array(r.randn(4, 8).astype('f4'), 'W1'), numpy_helper.from_array(r.randn(8, 3).astype('f4'), 'W2')])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), name)
save('net.onnx', 1); save('other.onnx', 2)
x = r.randn(20, 4).astype('f4'); np.save('x.npy', x)
x[13, 2] = np.nan; np.save('nan.npy', x)
)";

class CalibrateUse : public ::testing::Test {
 protected:
  CalibrateUse() : folder_(test_folder()) { run_python(folder_, kModel); }
  Outcome calibrate(const std::string& arguments) { return temper(folder_, "calibrate " + arguments); }
  // One message, and none of the files that the command names.
  void refused(int code, const std::string& arguments, std::string_view part) {
    const Outcome outcome = calibrate(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << ": " << outcome.err;
    EXPECT_CONTAINS(outcome.err, part);
    EXPECT_EQ(outcome.out, "") << arguments;
    for (const char* file : {"no.json", "no.cache", "no.onnx"}) EXPECT_FALSE(file_exists(folder_ + file)) << arguments;
  }
  // in.cache and r.json, for commands that take ranges as they are.
  void make_cache_and_ranges() {
    write_text(folder_ + "in.cache", "TRT-8501-EntropyCalibration2\nx: 3c010204\n");
    ASSERT_EQ(calibrate("net.onnx --data x.npy -o r.json").code, 0);
  }
  Outcome quantize(const std::string& arguments) { return temper(folder_, "quantize " + arguments); }
  std::string folder_;
};

TEST_F(CalibrateUse, ANanIsNamedByItsNumberInTheDataWhateverSamplesWereChosen) {
  int named = 0;
  for (int seed = 0; seed < 6; ++seed) {
    const std::string file = concat(seed, ".json");
    const Outcome outcome = calibrate(concat("net.onnx --data nan.npy --samples 12 -o ", file, " --seed ", seed));
    if (outcome.code == 0) continue;  // not among the samples chosen
    EXPECT_EQ(outcome.code, 1);
    EXPECT_CONTAINS(outcome.err, "'x' holds a NaN for sample 13:");
    ++named;
    EXPECT_FALSE(file_exists(folder_ + file));
  }
  EXPECT_GT(named, 1);
}

TEST_F(CalibrateUse, QdqIsWrittenFromDataFromACacheAndFromJoinedRangesWithTheSameScales) {
  ASSERT_EQ(calibrate("net.onnx --data x.npy --part 1/2 -o a.json").code, 0);
  ASSERT_EQ(calibrate("net.onnx --data x.npy --part 2/2 -o b.json").code, 0);
  const Outcome data = quantize("net.onnx --data x.npy --ranges r.json --cache r.cache -o data.onnx");
  ASSERT_EQ(data.code, 0) << data.err;
  EXPECT_CONTAINS(data.err, "2 of 2 convolutions and products are quantized");
  ASSERT_EQ(quantize("net.onnx --merge a.json b.json -o merged.onnx").code, 0);
  ASSERT_EQ(quantize("net.onnx --from-cache r.cache -o cache.onnx").code, 0);
  EXPECT_EQ(read_file(folder_ + "data.onnx"), read_file(folder_ + "merged.onnx"));
  EXPECT_EQ(read_file(folder_ + "data.onnx"), read_file(folder_ + "cache.onnx"));
  ASSERT_EQ(quantize("net.onnx --calibration r.json -o ranges.onnx").code, 0);
  EXPECT_EQ(read_file(folder_ + "data.onnx"), read_file(folder_ + "ranges.onnx"));
  run_python(folder_, R"(
import onnx, json
m = onnx.load('data.onnx'); onnx.checker.check_model(m, full_check=True)
assert m.graph.input[0].type.tensor_type.shape.dim[0].dim_param, 'the batch stays open'
assert [n.op_type for n in m.graph.node].count('QuantizeLinear') >= 2
)");
  const Outcome kept = quantize("net.onnx --from-cache r.cache -o kept.onnx --keep-fp32 second");
  ASSERT_EQ(kept.code, 0) << kept.err;
  EXPECT_CONTAINS(kept.err, "1 of 2 convolutions and products are quantized");
  // It is a model like any other.
  EXPECT_EQ(temper(folder_, "run data.onnx --input x.npy --quick").code, 0);
}

TEST_F(CalibrateUse, WeightsAloneAreQuantizedWithoutData) {
  for (const char* weights : {"int8", "int4 --block 8", "int4 --block 0"}) {
    const Outcome outcome = quantize(concat("net.onnx --force -o w.onnx --weights ", std::string_view(weights)));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_CONTAINS(outcome.err, "the weights of 2 of 2 products are int");
    run_python(folder_, R"(
import onnx
m = onnx.load('w.onnx'); onnx.checker.check_model(m, full_check=True)
assert sorted(n.op_type for n in m.graph.node) == ['DequantizeLinear', 'DequantizeLinear', 'MatMul', 'MatMul', 'Relu']
)");
    EXPECT_EQ(temper(folder_, "run w.onnx --input x.npy --no-measure").code, 0);
  }
  const auto json = nlohmann::json::parse(quantize("net.onnx --weights int8 -o j.onnx --keep-fp32 first --json").out);
  EXPECT_EQ(json["quantized"], 1);
  EXPECT_EQ(json["left"], nlohmann::json({"first: kept in fp32 as asked"}));
  EXPECT_EQ(json["weight_bytes_before"], 8 * 3 * 4);
  const auto refuses = [&](int code, const std::string& arguments, std::string_view part) {
    const Outcome outcome = quantize(arguments + " -o no.onnx");
    EXPECT_EQ(outcome.code, code) << arguments << ": " << outcome.err;
    EXPECT_CONTAINS(outcome.err, part);
    EXPECT_FALSE(file_exists(folder_ + "no.onnx")) << arguments;
  };
  refuses(2, "net.onnx --weights int8 --data x.npy", "leave --data out");
  refuses(2, "net.onnx --weights int8 --calibration r.json", "needs no ranges");
  refuses(2, "net.onnx --weights int8 --keep-first", "--keep-fp32 alone");
  refuses(2, "net.onnx --weights int8 --keep-fp32 third", "there is no product 'third'");
  refuses(2, "net.onnx --weights int8 --block 12", "a multiple of 8");
  refuses(2, "net.onnx --weights int2", "int8");
  refuses(2, "net.onnx --data x.npy --block 32", "--block is that of --weights");
}

TEST_F(CalibrateUse, WhatMeansNothingBesideTheRestIsRefusedByName) {
  ASSERT_NO_FATAL_FAILURE(make_cache_and_ranges());
  refused(2, "net.onnx --lint in.cache --data x.npy", "leave --data out");
  refused(2, "net.onnx --lint in.cache -o no.json", "writes nothing");
  refused(2, "net.onnx --lint in.cache --from-cache in.cache", "give one of them");
  refused(2, "net.onnx --from-cache in.cache --method mse -o no.json", "leave --method out");
  refused(2, "net.onnx --from-cache in.cache --data x.npy -o no.json", "leave --data out");
  refused(2, "--merge r.json r.json --samples 3 -o no.json", "leave --samples out");
  EXPECT_EQ(quantize("--merge r.json r.json -o no.onnx").code, 2);
  refused(2, "net.onnx --placeholder-data --crop 8 -o no.json", "leave --crop out");
  refused(2, "net.onnx --placeholder-data --batch 8 -o no.json", "leave --batch out");
  refused(2, "net.onnx --data x.npy --method minmax --keep-first -o no.json", "--keep-first");
  refused(2, "net.onnx --data x.npy --shapes 4x4 -o no.json", "leave --shapes out");
  refused(2, "net.onnx --data x.npy --cache-version 8501 -o no.json", "--cache FILE");
  refused(2, "net.onnx --data x.npy --samples 0 -o no.json", "not a whole number of at least 1");
  for (const char* flag : {"--precision int8", "--calibration r.json", "--timing-cache t", "--workspace 1M", "--quick"})
    EXPECT_EQ(calibrate(concat("net.onnx --data x.npy -o no.json ", std::string_view(flag))).code, 2) << flag;
}

TEST_F(CalibrateUse, LayersAreKeptOnlyWhereAQuantizedModelIsMadeOrTried) {
  ASSERT_NO_FATAL_FAILURE(make_cache_and_ranges());
  for (const char* keep : {"--keep-first", "--keep-last", "--keep-fp32 first", "--keep-bf16 first"})
    for (const char* way : {"net.onnx --from-cache in.cache -o no.json ", "net.onnx --lint in.cache ",
                            "net.onnx --placeholder-data -o no.json ", "net.onnx --data x.npy --part 1/2 -o no.json ",
                            "net.onnx --merge r.json r.json -o no.json "})
      refused(2, concat(std::string_view(way), std::string_view(keep)), "no methods are tried on one here");
  // Here auto has too few samples to judge the methods by.
  refused(2, "net.onnx --data x.npy --keep-fp32 nonsense -o no.json",
          "--keep-fp32 names 'nonsense', which is no layer");
  EXPECT_EQ(calibrate("net.onnx --data x.npy --keep-fp32 second -o kept.json").code, 0);
}

TEST_F(CalibrateUse, WhatRunsNothingTakesNoDeviceAndWhatHasNoGraphNoPasses) {
  ASSERT_NO_FATAL_FAILURE(make_cache_and_ranges());
  refused(2, "net.onnx --lint in.cache --device cuda:5", "leave --device out");
  refused(2, "net.onnx --from-cache in.cache --threads 1 -o no.json", "leave --threads out");
  refused(2, "net.onnx --from-cache in.cache --shapes nosuch=7x7 -o no.json", "leave --shapes out");
  refused(2, "net.onnx --from-cache in.cache --disable all -o no.json", "leave --disable out");
  refused(2, "net.onnx --merge r.json r.json --disable all -o no.json", "leave --disable out");
  refused(2, "net.onnx --lint in.cache --disable foo", "there is no pass 'foo'");
  refused(2, "net.onnx --data x.npy --buckets 2 -o no.json", "--buckets");
  for (const char* option : {"--disable foo", "--device cuda:5", "--buckets 3", "--threads 1", "--shapes x=1x4"}) {
    const Outcome weights = quantize(concat("net.onnx --weights int8 -o no.onnx ", std::string_view(option)));
    EXPECT_EQ(weights.code, 2) << option << weights.err;
    EXPECT_CONTAINS(weights.err, std::string_view(option).substr(0, std::string_view(option).find(' ')));
  }
  EXPECT_EQ(quantize("net.onnx --calibration r.json -o no.onnx --device cuda:5").code, 2);
  EXPECT_EQ(
      quantize("net.onnx --calibration r.json -o q.onnx --keep-last --disable fuse_pointwise --shapes x=2x4").code, 0);
}

TEST_F(CalibrateUse, WhatCannotBeWrittenIsKnownBeforeTheWork) {
  refused(2, "net.onnx --data x.npy -o no.json --cache nowhere/no.cache", "there is no folder 'nowhere'");
  EXPECT_CONTAINS(quantize("net.onnx --data x.npy -o nowhere/no.onnx").err, "nowhere/no.onnx");
  refused(2, "net.onnx --data x.npy -o .", "it is a folder");
  refused(2, "net.onnx --data x.npy -o no.json --cache no.cache --cache-version abc", "not a number such as 8501");
}

TEST_F(CalibrateUse, RangesOfAnotherModelAreRefusedEverywhere) {
  ASSERT_EQ(calibrate("net.onnx --data x.npy --part 1/2 -o a.json").code, 0);
  ASSERT_EQ(calibrate("net.onnx --data x.npy --part 2/2 -o b.json").code, 0);
  refused(2, "other.onnx --merge a.json b.json -o no.json", "another model");
  const Outcome built = temper(folder_, "build other.onnx -o no.plan --precision int8 --calibration a.json");
  EXPECT_EQ(built.code, 2);
  for (const char* part : {"a.json", "another model", "calibrate this model"}) EXPECT_CONTAINS(built.err, part);
  EXPECT_FALSE(file_exists(folder_ + "no.plan"));
  EXPECT_CONTAINS(temper(folder_, "run other.onnx --precision int8 --calibration a.json --input x.npy").err,
                  "another model");
}

TEST_F(CalibrateUse, MoreSamplesThanThereAreIsAWarning) {
  const Outcome done = calibrate("net.onnx --data x.npy --samples 500 -o r.json");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_CONTAINS(done.err, "--samples 500: 'x.npy' holds 20, and all of them are taken");
}

TEST_F(CalibrateUse, ScalesThatCannotBeInAQuantizedModelAreNamed) {
  run_python(folder_, R"(
import onnx
from onnx import helper as h, TensorProto as T, numpy_helper
def save(name, scale, weights=0.1, axis=1):
    nodes = [h.make_node('QuantizeLinear', ['x', 'x_scale'], ['q'], name='quantize_x'), h.make_node('DequantizeLinear', ['q', 'x_scale'], ['d']),
             h.make_node('DequantizeLinear', ['w', 'w_scale'], ['wd'], name='dequantize_w', axis=axis), h.make_node('MatMul', ['d', 'wd'], ['y'])]
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', 4])], [h.make_tensor_value_info('y', T.FLOAT, ['n', 3])],
                     [numpy_helper.from_array(np.array(scale, 'f4'), 'x_scale'), numpy_helper.from_array(np.array(weights, 'f4'), 'w_scale'), numpy_helper.from_array(np.ones((4, 3), 'i1'), 'w')])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), name)
save('zero.onnx', 0); save('negative.onnx', -0.5); save('infinite.onnx', np.inf); save('channel.onnx', 0.1, [0.1, -0.2, 0.1]); save('dead.onnx', 0.1, [0.1, 0, 0.1]); save('axis.onnx', 0.1, [0.1, 0.1, 0.1], 4); save('few.onnx', 0.1, [0.1, 0.1])
)");
  const auto build = [&](const char* model) {
    return temper(folder_, concat("build ", std::string_view(model), " -o no.plan --quick"));
  };
  const std::pair<const char*, std::vector<const char*>> broken[] = {
      {"zero.onnx", {"quantize_x", "'x_scale' is 0"}},
      {"negative.onnx", {"quantize_x", "'x_scale' is -0.5"}},
      {"infinite.onnx", {"quantize_x", "'x_scale' is inf"}},
      {"channel.onnx", {"dequantize_w", "'w_scale' is -0.2", "for entry 1"}},
      {"axis.onnx", {"dequantize_w", "axis 4"}},
      {"few.onnx", {"dequantize_w", "do not fit axis 1"}}};
  for (const auto& [model, parts] : broken) {
    const Outcome outcome = build(model);
    EXPECT_EQ(outcome.code, 3) << model << outcome.err;
    for (const char* part : parts) EXPECT_CONTAINS(outcome.err, part);
    EXPECT_FALSE(file_exists(folder_ + "no.plan"));
  }
  const Outcome dead = build("dead.onnx");
  EXPECT_EQ(dead.code, 0) << dead.err;
  EXPECT_CONTAINS(dead.err, "the scale 'w_scale' is 0 for 1 of 3 channels");
}

}  // namespace
}  // namespace temper
