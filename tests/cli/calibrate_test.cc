// SPDX-License-Identifier: Apache-2.0
// calibrate as a user calls it, on models small enough to check with NumPy.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "../paths.h"
#include "program.h"
#include "quantize/ranges.h"

namespace temper {
namespace {

// relu.onnx: y = relu(x * W), z = y * 2 (both outputs) for x f32[batch,4]; log.onnx: y = log(x), batch of 2 fixed.
constexpr const char* kModels = R"(
import onnx
from onnx import helper as h, TensorProto as T, numpy_helper
W = np.array([[1, 0, 0], [0, 2, 0], [0, 0, 3], [1, 1, 1]], 'f4')
def info(name, batch, n): return h.make_tensor_value_info(name, T.FLOAT, [batch, n])
def save(name, nodes, i, o, c=[]): onnx.save(h.make_model(h.make_graph(nodes, 'g', i, o, c), opset_imports=[h.make_opsetid('', 17)], ir_version=8), name)
save('relu.onnx', [h.make_node('MatMul', ['x', 'W'], ['m']), h.make_node('Relu', ['m'], ['y']), h.make_node('Softmax', ['y'], ['z'])],
     [info('x', 'batch', 4)], [info('y', 'batch', 3), info('z', 'batch', 3)], [numpy_helper.from_array(W, 'W')])
save('log.onnx', [h.make_node('Log', ['x'], ['y'])], [info('x', 2, 3)], [info('y', 2, 3)])
x = np.random.RandomState(0).randint(-5, 6, (101, 4)).astype('f4')
y = np.maximum(x @ W, 0)
np.save('x.npy', x); np.save('y.npy', y); np.save('zero.npy', np.zeros((4, 4), 'f4'))
bad = np.ones((5, 3), 'f4'); bad[3, 1] = -1; np.save('bad.npy', bad)
zero = np.ones((5, 3), 'f4'); zero[4, 0] = 0; np.save('infinite.npy', zero)
)";

Outcome calibrate(const std::string& folder, const std::string& arguments) {
  return temper(folder, "calibrate " + arguments);
}

TEST(CalibrateVerb, MinMaxIsNumpysForEveryBatchSize) {
  const std::string folder = test_folder();
  run_python(folder, kModels);
  std::string first;
  for (const char* batch : {"", "--batch 1", "--batch 8", "--batch 101"}) {
    const Outcome done =
        calibrate(folder, concat("relu.onnx --data x.npy --method minmax -o r.json --json ", std::string_view(batch)));
    ASSERT_EQ(done.code, 0) << done.err;
    const Ranges ranges = load_ranges(folder + "r.json");
    EXPECT_EQ(ranges.samples, 101);
    EXPECT_EQ(ranges.order.front(), "x");
    ASSERT_TRUE(ranges.values.contains("y")) << done.out;
    EXPECT_EQ(ranges.values.at("x").min, -5);
    EXPECT_EQ(ranges.values.at("y").min, 0);
    EXPECT_EQ(ranges.values.at("x").histogram.total(), 404u);
    EXPECT_EQ(ranges.values.at("y").histogram.total(), 303u);
    EXPECT_EQ(ranges.values.at("z").method, "minmax");
    EXPECT_EQ(ranges.values.at("y").scale, ranges.values.at("y").max / 127.0f);
    // Small integers are exact whatever the batch; the softmax is not compared.
    const std::string now =
        concat(ranges.values.at("x").max, " ", ranges.values.at("y").max, " ", ranges.values.at("y").histogram.zeros);
    if (first.empty()) first = now;
    EXPECT_EQ(now, first);
    const auto json = nlohmann::json::parse(done.out);
    EXPECT_EQ(json.at("values").size(), ranges.values.size());
  }
  run_python(folder,
             "import json\ny = np.load('y.npy'); r = json.load(open('r.json'))['values']['y']\nassert r['max'][1] == "
             "y.max() and r['histogram']['zeros'] == (y == 0).sum()\n");
}

TEST(CalibrateVerb, PartsJoinToTheWhole) {
  const std::string folder = test_folder();
  run_python(folder, kModels);
  const std::string how = "relu.onnx --data x.npy --method entropy --batch 1 ";
  for (const char* arguments :
       {"-o whole.json", "--part 1/3 -o a.json", "--part 2/3 -o b.json", "--part 3/3 -o c.json"})
    ASSERT_EQ(calibrate(folder, how + arguments).code, 0) << arguments;
  const Outcome joined = calibrate(folder, "--merge a.json b.json c.json -o joined.json");
  ASSERT_EQ(joined.code, 0) << joined.err;
  Ranges one = load_ranges(folder + "whole.json"), other = load_ranges(folder + "joined.json");
  EXPECT_EQ(other.samples, 101);
  one.notes = other.notes = {};  // samples of the same content are named when parts are joined
  EXPECT_TRUE(one == other);
  const Outcome twice = calibrate(folder, "--merge a.json a.json -o d.json");
  EXPECT_EQ(twice.code, 2);
  EXPECT_CONTAINS(twice.err, "count twice");
  EXPECT_FALSE(file_exists(folder + "d.json"));
}

TEST(CalibrateVerb, ACacheGoesInAndOutWithTheSameBytes) {
  const std::string folder = test_folder();
  run_python(folder, kModels);
  write_text(folder + "in.cache", "TRT-100300-EntropyCalibration2\ny: 3c88edfc\nonnx::x [1]: 0\nx: 3c008912\n");
  const Outcome read = calibrate(folder, "relu.onnx --from-cache in.cache -o r.json --cache out.cache");
  ASSERT_EQ(read.code, 0) << read.err;
  EXPECT_CONTAINS(read.err, "'onnx::x [1]' has the scale 0");
  EXPECT_EQ(read_file(folder + "out.cache"), read_file(folder + "in.cache"));
  EXPECT_EQ(float_bits(load_ranges(folder + "r.json").values.at("x").scale), "3c008912");
  ASSERT_EQ(
      calibrate(folder,
                "relu.onnx --data x.npy --samples 7 --method minmax -o r.json --cache own.cache --cache-version 101303")
          .code,
      0);
  EXPECT_TRUE(read_file(folder + "own.cache").starts_with("TRT-101303-MinMaxCalibration\nx: "));
  EXPECT_EQ(load_ranges(folder + "r.json").samples, 7);

  const Outcome lint = calibrate(folder, "relu.onnx --lint in.cache --json");
  ASSERT_EQ(lint.code, 0) << lint.err;
  const auto json = nlohmann::json::parse(lint.out);
  EXPECT_EQ(json.at("entries"), 3);
  EXPECT_EQ(json.at("known"), 2);
  write_text(folder + "bad.cache", "TRT-100300-EntropyCalibration2\nx: bf9234fa\n");
  EXPECT_EQ(calibrate(folder, "relu.onnx --lint bad.cache").code, 1);
  write_text(folder + "empty.cache", "");
  EXPECT_EQ(calibrate(folder, "relu.onnx --lint empty.cache").code, 3);
  // As many findings as lines, put in front of the others at once.
  run_python(folder, "open('equal.cache', 'w').write('TRT-8501-EntropyCalibration2\\n' + 'x: 3c010a14\\n' * 300000)");
  EXPECT_EQ(calibrate(folder, "relu.onnx --lint equal.cache").code, 0);
}

TEST(CalibrateVerb, NanAndInfinityAreNamedByTensorAndSample) {
  const std::string folder = test_folder();
  run_python(folder, kModels);
  const Outcome nan = calibrate(folder, "log.onnx --data bad.npy -o r.json"),
                infinite = calibrate(folder, "log.onnx --data infinite.npy -o r.json");
  EXPECT_EQ(nan.code, 1);
  EXPECT_CONTAINS(nan.err, "'y' holds a NaN for sample 3");
  EXPECT_EQ(infinite.code, 1);
  EXPECT_CONTAINS(infinite.err, "'y' holds an infinity for sample 4");
  EXPECT_FALSE(file_exists(folder + "r.json"));
}

TEST(CalibrateVerb, AnAllZeroTensorIsAWarningWithADefinedScale) {
  const std::string folder = test_folder();
  run_python(folder, kModels);
  const Outcome done = calibrate(folder, "relu.onnx --data zero.npy -o r.json");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_CONTAINS(done.err, "'x' was zero in every sample");
  EXPECT_EQ(float_bits(load_ranges(folder + "r.json").values.at("x").scale), "3c010204");
}

TEST(CalibrateVerb, PlaceholderDataIsSeededAndMarked) {
  const std::string folder = test_folder();
  run_python(folder, kModels);
  const Outcome one = calibrate(folder, "relu.onnx --placeholder-data --seed 5 -o a.json"),
                two = calibrate(folder, "relu.onnx --placeholder-data --seed 5 -o b.json");
  ASSERT_EQ(one.code, 0) << one.err;
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_CONTAINS(one.err, "meaningless for accuracy");
  EXPECT_TRUE(load_ranges(folder + "a.json").placeholder);
  EXPECT_EQ(read_file(folder + "a.json"), read_file(folder + "b.json"));
}

TEST(CalibrateVerb, AutoJudgesTheMethodsOnSamplesHeldApart) {
  const std::string folder = test_folder();
  run_python(folder, R"(
import sys
sys.path.insert(0, ')" + paths::source_folder() +
                         R"(/python')
import digits_data
images, labels, _, _ = digits_data.load()
np.savez('digits.npz', image=images[:300], labels=labels[:300]); np.savez('few.npz', image=images[:5])
np.savez('same.npz', image=np.repeat(images[:1], 100, 0))
)");
  ASSERT_EQ(temper(folder, "zoo digits_cnn -o m.onnx").code, 0);
  const Outcome done = calibrate(folder, "m.onnx --data digits.npz --seed 3 -o a.json --json");
  ASSERT_EQ(done.code, 0) << done.err;
  const auto json = nlohmann::json::parse(done.out);
  const Ranges ranges = load_ranges(folder + "a.json");
  EXPECT_EQ(ranges.samples, 300) << "those held apart are calibrated on once they have judged";
  EXPECT_EQ(ranges.sample_hashes.size(), 300u) << "samples that chose the method must not judge the plan either";
  ASSERT_EQ(json.at("trials").size(), 6u);
  double least = -1000, chosen = -1000;
  for (const auto& trial : json.at("trials")) {
    EXPECT_GE(trial.at("agreement").get<double>(), 0.97);
    if (!trial.at("chosen")) {
      least = std::max(least, trial.at("snr_db").get<double>());
      continue;
    }
    EXPECT_EQ(trial.at("method"), ranges.method);
    chosen = trial.at("snr_db");
  }
  EXPECT_GE(chosen, least) << "all agree alike here, so the least noise wins";
  ASSERT_EQ(calibrate(folder, "m.onnx --data digits.npz --method auto --seed 3 -o b.json").code, 0);
  EXPECT_EQ(read_file(folder + "a.json"), read_file(folder + "b.json"));
  // Where nothing can be judged, the least squared error of all samples.
  for (const auto& [data, held, samples] : {std::tuple("--data few.npz", "1", 5),
                                            {"--data same.npz", "0", 100},
                                            {"--placeholder-data", "", 8},
                                            {"--data digits.npz --part 1/2", "", 150}}) {
    const Outcome done_so = calibrate(folder, concat("m.onnx ", std::string_view(data), " -o c.json"));
    ASSERT_EQ(done_so.code, 0) << done_so.err;
    const Ranges taken = load_ranges(folder + "c.json");
    EXPECT_EQ(taken.method, "mse") << data;
    EXPECT_EQ(taken.samples, samples) << data;
    if (*held) {
      EXPECT_CONTAINS(done_so.err,
                      concat("auto took mse: of the samples, ", std::string_view(held), " could be held apart"));
    }
  }
}

TEST(CalibrateVerb, ClippingIsAWarningThatQuietKeepsAndTheRangesHold) {
  const std::string folder = test_folder();
  run_python(folder, kModels);
  const Outcome done = calibrate(folder, "relu.onnx --data x.npy --method percentile:60 -o r.json --quiet");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out, "");
  for (const char* part : {"warning: the tensor 'x': percentile:60 clips ", "minmax would keep ", "mse would keep "})
    EXPECT_CONTAINS(done.err, part);
  EXPECT_CONTAINS(load_ranges(folder + "r.json").notes.at(0), "the tensor '");
  // Joined ranges say it anew.
  ASSERT_EQ(calibrate(folder, "relu.onnx --data x.npy --method percentile:60 --part 1/2 -o a.json").code, 0);
  ASSERT_EQ(calibrate(folder, "relu.onnx --data x.npy --method percentile:60 --part 2/2 -o b.json").code, 0);
  EXPECT_CONTAINS(calibrate(folder, "--merge a.json b.json -o c.json").err, "the tensor 'x': percentile:60 clips ");
}

TEST(CalibrateVerb, PicturesOfSeveralSizesNeedOneSizeToGoTo) {
  const std::string folder = test_folder();
  run_python(folder, R"(
import onnx, os
from PIL import Image
from onnx import helper as h, TensorProto as T
g = h.make_graph([h.make_node('Relu', ['x'], ['y'])], 'g', [h.make_tensor_value_info('x', T.FLOAT, ['batch', 3, 'H', 'W'])], [h.make_tensor_value_info('y', T.FLOAT, ['batch', 3, 'H', 'W'])])
onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), 'open.onnx')
os.mkdir('pictures')
Image.new('RGB', (20, 30), 'red').save('pictures/a.png'); Image.new('RGB', (40, 24), 'blue').save('pictures/b.png')
)");
  const Outcome open = calibrate(folder, "open.onnx --data pictures -o r.json");
  EXPECT_EQ(open.code, 2) << open.err;
  EXPECT_CONTAINS(open.err, "--crop");
  EXPECT_FALSE(file_exists(folder + "r.json"));
  const Outcome cropped = calibrate(folder, "open.onnx --data pictures --crop 16 -o r.json");
  ASSERT_EQ(cropped.code, 0) << cropped.err;
  EXPECT_EQ(load_ranges(folder + "r.json").values.at("x").histogram.total(), uint64_t(2 * 3 * 16 * 16));
}

TEST(CalibrateVerb, WrongUseEndsWithOneMessage) {
  const std::string folder = test_folder();
  run_python(folder, kModels);
  std::filesystem::create_directories(folder + "empty");
  const auto refused = [&](int code, const std::string& arguments, std::string_view part) {
    const Outcome outcome = calibrate(folder, arguments);
    EXPECT_EQ(outcome.code, code) << arguments << ": " << outcome.err;
    EXPECT_CONTAINS(outcome.err, part);
  };
  refused(2, "relu.onnx --data x.npy", "-o ranges.json");
  refused(2, "relu.onnx -o r.json", "--placeholder-data");
  refused(2, "relu.onnx --data x.npy --placeholder-data -o r.json", "--placeholder-data");
  refused(2, "relu.onnx --data x.npy --method kl -o r.json", "there are minmax");
  refused(2, "relu.onnx --data x.npy --part 4/3 -o r.json", "--part needs I/N");
  refused(2, "log.onnx --data bad.npy --batch 3 -o r.json", "batches of 2");
  refused(3, "relu.onnx --data none.npy -o r.json", "none.npy");
  refused(3, "relu.onnx --data empty -o r.json", "empty");
  refused(2, "-o r.json", "needs a model");
}

}  // namespace
}  // namespace temper
