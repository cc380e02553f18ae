// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.h"

#include "data/npy.h"
#include "helpers.h"

namespace temper {
namespace {

std::vector<InputSpec> inputs_of(std::vector<std::pair<std::string, std::string>> specs) {
  std::vector<InputSpec> inputs;
  for (const auto& [name, type] : specs) inputs.push_back({name, TensorType::parse(type)});
  return inputs;
}

const auto kRgb = inputs_of({{"x", "f32[batch,3,8,8]"}});
const auto kTwo = inputs_of({{"a", "f32[batch,2]"}, {"b", "i64[batch]"}});

// n pictures of one colour each in `folder`, the red channel counting from `first`.
std::string pictures(int n, const std::string& folder, int first = 0) {
  return concat("import os\nos.makedirs('", folder, "', exist_ok=True)\nfor i in range(", n,
                "): Image.new('RGB', (8, 8), (i + ", first, ", 0, 0)).save('", folder, "/%03d.png' % i)\n");
}

TEST(Dataset, AHundredPicturesAtBatch32AreThreeFullBatchesAndOneOfFour) {
  const std::string folder = test_folder();
  run_python(folder, pictures(100, "p"));
  DatasetOptions options;
  options.preprocess.mean = {0};
  options.preprocess.std = {1};
  options.preprocess.scale = 1;
  const Dataset data = open_dataset(folder + "p", kRgb, options);
  EXPECT_EQ(data.size(), 100);
  EXPECT_FALSE(data.has_labels());
  std::vector<int64_t> sizes;
  for (int64_t first = 0; first < data.size(); first += 32) {
    const Batch batch = data.batch(first, std::min<int64_t>(32, data.size() - first));
    sizes.push_back(batch.count);
    EXPECT_EQ(batch.inputs[0].dims(), (Dims{batch.count, 3, 8, 8}));
    for (int64_t i = 0; i < batch.count; ++i) EXPECT_EQ(batch.inputs[0].data<float>()[i * 3 * 64], float(first + i));
    EXPECT_EQ(batch.names[1], first == 0 ? "001.png" : batch.names[1]);
  }
  EXPECT_EQ(sizes, (std::vector<int64_t>{32, 32, 32, 4}));
  error_of(ErrorKind::usage, [&] { data.batch(90, 20); });
}

TEST(Dataset, SubFoldersAreClassesInTheOrderOfTheirNames) {
  const std::string folder = test_folder();
  run_python(folder, pictures(2, "p/dog") + pictures(1, "p/cat", 9) + "open('p/cat/readme.txt', 'w').write('x')\n");
  const Dataset data = open_dataset(folder + "p", kRgb);
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(data.labels(), (std::vector<int64_t>{0, 1, 1}));
  EXPECT_EQ(data.batch(0, 3).names, (std::vector<std::string>{"cat/000.png", "dog/000.png", "dog/001.png"}));
  EXPECT_EQ(data.batch(1, 2).labels, (std::vector<int64_t>{1, 1}));
}

TEST(Dataset, ClassFoldersTakeTheirNumbersFromTheListOfNames) {
  const std::string folder = test_folder();
  run_python(folder, pictures(1, "p/dog") + pictures(1, "p/cat"));
  const auto labels = [&](std::vector<std::string> names) {
    DatasetOptions options;
    options.class_names = std::move(names);
    return open_dataset(folder + "p", kRgb, options).labels();
  };
  EXPECT_EQ(labels({"horse", "dog", "cow", "cat"}), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(labels({"Katze", "Hund"}), (std::vector<int64_t>{0, 1}));
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { labels({"cat", "Hund"}); }), "'dog'");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { labels({"Katze", "Hund", "Kuh"}); }), "3 class names");
}

TEST(Dataset, FoldersThatAreNoDataAreRefused) {
  const std::string folder = test_folder();
  run_python(folder, pictures(1, "mixed") + pictures(1, "mixed/class") + pictures(1, "deep/a/b") +
                         "os.makedirs('empty')\nos.makedirs('classes/a')\nopen('text.md', 'w').write('x')\n");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { open_dataset(folder + "mixed", kRgb); }),
                  "both pictures and sub-folders with pictures");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { open_dataset(folder + "deep", kRgb); }), "inside a class folder");
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { open_dataset(folder + "empty", kRgb); }), "empty folder");
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { open_dataset(folder + "classes", kRgb); }), "empty folder");
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { open_dataset(folder + "none", kRgb); }), "does not exist");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { open_dataset(folder + "text.md", kRgb); }), "not a kind of data");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { open_dataset(folder + "mixed/class", kTwo); }),
                  "a f32[batch,2], b i64[batch]");
}

TEST(Dataset, OtherFilesAndFoldersWithoutPicturesAreLeftOut) {
  const std::string folder = test_folder();
  run_python(folder, pictures(2, "p") +
                         "os.makedirs('p/__pycache__')\nopen('p/__pycache__/x.pyc', 'w').write('x')\nopen('p/README', "
                         "'w').write('x')\n");
  EXPECT_EQ(open_dataset(folder + "p", kRgb).size(), 2);
  EXPECT_FALSE(open_dataset(folder + "p", kRgb).has_labels());
}

TEST(Dataset, AnUnreadablePictureIsNamedWhenItsBatchIsRead) {
  const std::string folder = test_folder();
  run_python(folder, pictures(3, "p") + "open('p/001.png', 'wb').write(open('p/000.png', 'rb').read()[:60])\n");
  const Dataset data = open_dataset(folder + "p", kRgb);
  EXPECT_EQ(data.batch(0, 1).count, 1);
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { data.batch(0, 3); }), "p/001.png");
  const std::vector<Unreadable> found = data.unreadable(std::vector<int64_t>{0, 1, 2});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].sample, 1);
  EXPECT_EQ(found[0].name, "001.png");
  EXPECT_CONTAINS(std::string(found[0].error.what()), "p/001.png");
  EXPECT_TRUE(data.unreadable(std::vector<int64_t>{2, 0}).empty());
}

TEST(Dataset, ArraysOfEveryFileKindGiveTheSameSamplesAndHashes) {
  const std::string folder = test_folder();
  run_python(folder, R"(
x = np.arange(12, dtype='f4').reshape(3, 4) / 4
np.save('x.npy', x)
np.savez('x.npz', x=x, labels=np.array([2, 0, 1], 'i4'))
np.savez('other_name.npz', x)
np.savetxt('x.csv', np.c_[x, [2, 0, 1]], delimiter=',', header='a,b,c,d,label', comments='')
import onnx.numpy_helper
open('x.pb', 'wb').write(onnx.numpy_helper.from_array(x, 'x').SerializeToString())
)");
  const auto inputs = inputs_of({{"x", "f32[batch,2,2]"}}), flat = inputs_of({{"x", "f32[N,4]"}});
  const Batch expected = open_dataset(folder + "x.npy", flat).batch(1, 2);
  EXPECT_TRUE(expected.inputs[0].same_bits(Tensor::of<float>({2, 4}, {1, 1.25, 1.5, 1.75, 2, 2.25, 2.5, 2.75})));
  EXPECT_NE(expected.hashes[0], expected.hashes[1]);
  for (const char* file : {"x.npz", "other_name.npz", "x.csv", "x.pb"}) {
    const Dataset data = open_dataset(folder + file, flat);
    EXPECT_EQ(data.size(), 3) << file;
    EXPECT_TRUE(data.batch(1, 2).inputs[0].same_bits(expected.inputs[0])) << file;
    EXPECT_EQ(data.batch(1, 2).hashes, expected.hashes) << file;
    EXPECT_EQ(data.has_labels(), std::string(file) == "x.npz" || std::string(file) == "x.csv");
    EXPECT_EQ(data.labels(), data.has_labels() ? std::vector<int64_t>({2, 0, 1}) : std::vector<int64_t>());
  }
  EXPECT_EQ(open_dataset(folder + "x.csv", inputs).batch(0, 3).inputs[0].dims(), (Dims{3, 2, 2}));
  EXPECT_EQ(open_dataset(folder + "x.csv", inputs).batch(1, 2).hashes, expected.hashes);
}

TEST(Dataset, AnArchiveFeedsSeveralInputs) {
  const std::string folder = test_folder();
  run_python(folder, R"(
a, b = np.arange(6, dtype='f4').reshape(3, 2), np.array([7, 8, 9])
np.savez('both.npz', b=b, a=a)
np.savez('lacking.npz', a=a, c=b)
np.savez('uneven.npz', a=a, b=b[:2])
np.savez('labels.npz', a=a, b=b, labels=np.zeros(3))
np.savez('short.npz', a=a, b=b, labels=np.zeros(2, 'i8'))
np.save('a.npy', a); np.save('b.npy', b)
)");
  const Batch batch = open_dataset(folder + "both.npz", kTwo).batch(1, 2);
  EXPECT_EQ(batch.inputs[0].to_doubles(), (std::vector<double>{2, 3, 4, 5}));
  EXPECT_EQ(batch.inputs[1].to_ints(), (std::vector<int64_t>{8, 9}));
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { open_dataset(folder + "lacking.npz", kTwo); }),
                  "no array for input 'b'; it holds: a f32[3,2], c i64[3]");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { open_dataset(folder + "uneven.npz", kTwo); }),
                  "'a' has 3 samples and input 'b' has 2");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { open_dataset(folder + "labels.npz", kTwo); }),
                  "one integer per sample");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { open_dataset(folder + "short.npz", kTwo); }),
                  "2 labels for 3 samples");

  const Batch files = open_input_files({{"b", folder + "b.npy"}, {"a", folder + "a.npy"}}, kTwo).batch(1, 2);
  EXPECT_EQ(files.hashes, batch.hashes);
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { open_input_files({{"z", folder + "b.npy"}}, kTwo); }),
                  "no input 'z'");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { open_input_files({{"", folder + "b.npy"}}, kTwo); }), "NAME=FILE");
  EXPECT_CONTAINS(
      error_of(ErrorKind::usage, [&] { open_input_files({{"a", folder + "a.npy"}, {"a", folder + "a.npy"}}, kTwo); }),
      "twice");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { open_input_files({{"a", folder + "a.npy"}}, kTwo); }),
                  "no data for input 'b'");
}

TEST(Dataset, ArraysInMemoryAreReadAsThoseOfAnArchive) {
  const Tensor a = Tensor::of<float>({3, 2}, {0, 1, 2, 3, 4, 5}), b = Tensor::of<int64_t>({3}, {7, 8, 9});
  const Dataset data = open_arrays({{"a", a}, {"b", b}, {"labels", b}}, kTwo);
  EXPECT_EQ(data.labels(), (std::vector<int64_t>{7, 8, 9}));
  EXPECT_EQ(data.text(), "3 samples");
  const Batch batch = data.batch(1, 2);
  EXPECT_EQ(batch.inputs[0].to_doubles(), (std::vector<double>{2, 3, 4, 5}));
  EXPECT_EQ(batch.inputs[1].to_ints(), (std::vector<int64_t>{8, 9}));
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { open_arrays({{"a", a}, {"b", b}, {"c", b}}, kTwo); }),
                  "'c' is no input of the model. It takes: a f32[batch,2], b i64[batch]");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { open_arrays({{"a", a}}, kTwo); }), "no array for input 'b'");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { open_arrays({}, kTwo); }), "it holds no arrays");
}

TEST(Dataset, AnArrayThatDoesNotFitIsRefusedWithTheListOfWhatIsExpected) {
  const std::string folder = test_folder();
  const auto inputs = inputs_of({{"x", "f32[batch,2,H]"}});
  const auto refused = [&](const Tensor& tensor) {
    write_npy(folder + "x.npy", tensor);
    return error_of(ErrorKind::usage, [&] { open_dataset(folder + "x.npy", inputs); });
  };
  for (const Tensor& tensor : {Tensor(DType::f64, {1, 2, 3}), Tensor(DType::f32, {2, 3}), Tensor(DType::f32, {1, 3, 3}),
                               Tensor(DType::f32, {})}) {
    EXPECT_CONTAINS(refused(tensor), "x f32[batch,2,H]");
    EXPECT_CONTAINS(refused(tensor), tensor.type().text());
  }
  write_text(folder + "x.csv", "1,2,3\n4,5,6\n");
  const auto csv = [&](const char* type, const std::string& label = "") {
    DatasetOptions options;
    options.label_column = label;
    return open_dataset(folder + "x.csv", inputs_of({{"x", type}}), options);
  };
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { csv("f32[batch,2]"); }), "--label-column first or last");
  EXPECT_EQ(csv("f32[batch,2]", "last").labels(), (std::vector<int64_t>{3, 6}));
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { csv("f32[batch,W]"); }), "open");
  EXPECT_EQ(csv("u8[batch,3]").batch(0, 2).inputs[0].to_ints(), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { csv("bool[batch,3]"); }), "sample 0, value 1: 2 is no bool");
}

TEST(Dataset, InputsWithoutASampleAxisGoIntoEveryBatchAsTheyAre) {
  const std::string folder = test_folder();
  write_npy(folder + "x.npy", Tensor(DType::f32, {5, 2}));
  write_npy(folder + "sizes.npy", Tensor::of<int64_t>({4}, {1, 2, 3, 4}));
  write_npy(folder + "limit.npy", Tensor::of<float>({}, {0.5f}));
  const InputFiles files = {{"x", folder + "x.npy"}, {"sizes", folder + "sizes.npy"}, {"limit", folder + "limit.npy"}};
  const Dataset open =
      open_input_files(files, inputs_of({{"x", "f32[batch,2]"}, {"sizes", "i64[4]"}, {"limit", "f32[]"}}));
  EXPECT_EQ(open.size(), 5);
  const Batch batch = open.batch(1, 2);
  EXPECT_EQ(batch.inputs[0].dims(), (Dims{2, 2}));
  EXPECT_EQ(batch.inputs[1].dims(), Dims{4});
  EXPECT_EQ(batch.inputs[2].rank(), 0);
  const Dataset fixed =
      open_input_files(files, inputs_of({{"x", "f32[5,2]"}, {"sizes", "i64[4]"}, {"limit", "f32[]"}}));
  EXPECT_EQ(fixed.size(), 1);
  EXPECT_EQ(fixed.batch(0, 1).inputs[0].dims(), (Dims{5, 2}));
}

TEST(Dataset, MissingInputsAreFilledFromTheSeedWhateverTheBatch) {
  const std::string folder = test_folder();
  write_npy(folder + "b.npy", Tensor(DType::i64, {6}));
  DatasetOptions options;
  options.fill_missing = true;
  options.seed = 5;
  const Dataset data = open_input_files({{"b", folder + "b.npy"}}, kTwo, options);
  EXPECT_EQ(data.filled(), std::vector<std::string>{"a"});
  const Tensor all = data.batch(0, 6).inputs[0], part = data.batch(4, 1).inputs[0];
  EXPECT_EQ(all.dims(), (Dims{6, 2}));
  EXPECT_EQ(part.to_doubles()[1], all.to_doubles()[9]);
  EXPECT_NE(all.to_doubles()[0], all.to_doubles()[2]);
  options.seed = 6;
  EXPECT_NE(open_input_files({}, kTwo, options).batch(0, 1).inputs[0].to_doubles()[0], all.to_doubles()[0]);
  EXPECT_EQ(open_input_files({}, inputs_of({{"x", "f32[4,3]"}, {"limit", "f32[]"}}), options).size(), 4);
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { open_input_files({}, inputs_of({{"x", "f32[1,H]"}}), options); }),
                  "--input x=FILE");
}

}  // namespace
}  // namespace temper
