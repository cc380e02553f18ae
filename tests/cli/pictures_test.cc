// SPDX-License-Identifier: Apache-2.0
// Folders of pictures as they are: with a damaged one, one in CMYK, and other files between them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../paths.h"
#include "program.h"

namespace temper {
namespace {

// digits_cnn and 60 digits in ten class folders, in all kinds of pictures; one is cut short, and notes lie beside them.
std::string digits_in_pictures() {
  const std::string folder = test_folder();
  run_python(folder, R"(
import os, sys
sys.path.insert(0, ')" + paths::source_folder() +
                         R"(/python')
import digits_data
images, labels = digits_data.load()[2:]
kinds = ('png', 'bmp', 'webp', 'tiff')
for digit in range(10):
    os.makedirs('photos/%d' % digit)
    for i, image in enumerate(images[labels == digit][:6]):
        kind = kinds[i % 4]
        Image.fromarray(np.round(255 * image[0]).astype('u1')).save('photos/%d/%d.%s' % (digit, i, kind), **({'lossless': True} if kind == 'webp' else {}))
Image.fromarray(np.round(255 * images[labels == 0][6][0]).astype('u1')).convert('RGB').convert('CMYK').save('photos/0/cmyk.jpg', quality=95)
open('photos/3/cut.png', 'wb').write(open('photos/3/0.png', 'rb').read()[:60])
os.makedirs('bad'); open('bad/a.png', 'w').write('x'); open('bad/b.jpg', 'w').write('y')
for name in ('notes.txt', 'Thumbs.db', 'x.gif', 'more.md'): open('photos/1/' + name, 'w').write('x')
)");
  EXPECT_EQ(temper(folder, "zoo digits_cnn -o m.onnx").code, 0);
  return folder;
}

void expect_left_out(const nlohmann::json& list) {
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].at("picture"), "3/cut.png");
  EXPECT_CONTAINS(list[0].at("why").get<std::string>(), "a damaged PNG picture");
}

TEST(PictureFolder, ADamagedPictureIsLeftOutCountedAndNamedByEveryVerb) {
  const std::string folder = digits_in_pictures();
  const auto json_of = [&](const std::string& arguments, int worst = 0) {
    const Outcome outcome = temper(folder, arguments);
    EXPECT_LE(outcome.code, worst) << arguments << ": " << outcome.err;
    EXPECT_CONTAINS(outcome.err, "1 of 62 pictures of ");
    EXPECT_CONTAINS(outcome.err, "cannot be read and is left out: 'photos/3/cut.png': a damaged PNG picture");
    EXPECT_CONTAINS(outcome.err,
                    "4 entries that are no .jpg, .jpeg, .png, .webp, .bmp, .tif, .tiff, .pgm, .ppm or .pnm are left "
                    "out: 1/Thumbs.db, "
                    "1/more.md, 1/notes.txt and 1 more");
    return outcome.code <= worst ? nlohmann::json::parse(outcome.out) : nlohmann::json();
  };
  const auto calibrated = json_of("calibrate m.onnx --data photos -o r.json --json --method minmax");
  EXPECT_EQ(calibrated.at("samples"), 61);
  expect_left_out(calibrated.at("left_out"));
  const auto evaluated = json_of("evaluate m.onnx --data photos --no-measure --json");
  EXPECT_EQ(evaluated.at("samples"), 61);
  EXPECT_GE(evaluated.at("top1").at("right").get<int>(), 55);  // labels stay with their pictures
  expect_left_out(evaluated.at("left_out"));
  ASSERT_EQ(temper(folder, "build m.onnx -o m.plan --no-measure --shapes image=1x1x8x8:61x1x8x8:61x1x8x8").code, 0);
  // On a busy machine a plan may be slower than itself, which is 1.
  expect_left_out(json_of("compare m.plan m.plan --data photos --duration 50ms --json", 1).at("left_out"));
  json_of("study m.onnx --data photos -o out --quick --duration 50ms --json");
  expect_left_out(nlohmann::json::parse(read_file(folder + "out/study.json")).at("left_out"));
  const auto ran = json_of("run m.onnx --input photos --no-measure --json");
  EXPECT_EQ(ran.at("samples"), 61);
  EXPECT_EQ(ran.at("sample_names").size(), 61u);
  EXPECT_EQ(ran.at("outputs")[0].at("type"), "f32[61,10]");
  expect_left_out(ran.at("left_out"));
}

TEST(PictureFolder, APlanThatTakesPicturesAnswersAsTheModelDoes) {
  const std::string folder = digits_in_pictures();
  std::vector<int> right;
  for (const std::string more : {"", " --input-pictures"}) {
    const Outcome built = temper(folder, "build m.onnx -o m.plan --no-measure --mean 0 --std 1 --scale 1/255" + more);
    ASSERT_EQ(built.code, 0) << built.err;
    const auto inspected = nlohmann::json::parse(temper(folder, "inspect m.plan --json").out);
    const std::string command = inspected.at("command");
    EXPECT_CONTAINS(command, "--preprocess 'mean=0 std=1 scale=1/255'");
    EXPECT_EQ(command.find("--input-pictures") != command.npos, !more.empty()) << command;
    const Outcome outcome = temper(folder, "evaluate m.plan --data photos --json");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_CONTAINS(outcome.err, more.empty() ? "NCHW, pixel/255" : "NHWC, pixels 0 to 255");
    right.push_back(nlohmann::json::parse(outcome.out).at("top1").at("right").get<int>());
  }
  EXPECT_EQ(right[0], right[1]);
  EXPECT_GE(right[1], 55);
  const Outcome wrong = temper(folder, "evaluate m.plan --data photos --mean 0.5");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_CONTAINS(wrong.err, "takes the pixels as they are: mean, std and scale do not apply");
}

TEST(PictureFolder, StrictStopsAtTheFirstPictureThatCannotBeRead) {
  const std::string folder = digits_in_pictures();
  for (const char* arguments :
       {"calibrate m.onnx --data photos -o r.json", "evaluate m.onnx --data photos --no-measure",
        "run m.onnx --input photos --no-measure", "study m.onnx --data photos -o out --quick"}) {
    const Outcome outcome = temper(folder, concat(std::string_view(arguments), " --strict"));
    EXPECT_EQ(outcome.code, 3) << arguments << outcome.err;
    EXPECT_CONTAINS(outcome.err, "photos/3/cut.png");
  }
}

TEST(PictureFolder, OnePictureThatCannotBeReadOrNoneThatCanIsAnError) {
  const std::string folder = digits_in_pictures();
  const Outcome one = temper(folder, "run m.onnx --input photos/3/cut.png --no-measure");
  EXPECT_EQ(one.code, 3) << one.err;
  EXPECT_CONTAINS(one.err, "temper: 'photos/3/cut.png': a damaged PNG picture");
  const Outcome none = temper(folder, "calibrate m.onnx --data bad -o r.json");
  EXPECT_EQ(none.code, 3) << none.err;
  EXPECT_CONTAINS(none.err, "none of the 2 pictures of 'bad' can be read; the first: 'bad/a.png'");
}

TEST(PictureFlags, BilinearGoesBeforeAPresetThatIsBicubic) {
  const std::string folder = digits_in_pictures();
  const auto answer = [&](const std::string& flags) {
    const Outcome outcome =
        temper(folder, "run m.onnx --input photos/5/0.png --resize 12 --no-measure --json " + flags);
    EXPECT_EQ(outcome.code, 0) << flags << ": " << outcome.err;
    return outcome.out;
  };
  const std::string words = "--preprocess 'filter=bicubic' ", bilinear = answer("--filter bilinear");
  EXPECT_NE(answer(words), bilinear);
  EXPECT_EQ(answer(words + "--filter bilinear"), bilinear);
}

TEST(PictureFlags, AreRefusedWhereTheDataAreArrays) {
  const std::string folder = digits_in_pictures();
  run_python(folder, "np.savez('d.npz', image=np.ones((4, 1, 8, 8), 'f4'))");
  for (const char* verb : {"run m.onnx --no-measure --input d.npz ", "evaluate m.onnx --no-measure --data d.npz ",
                           "calibrate m.onnx -o r.json --data d.npz "}) {
    const Outcome mean = temper(folder, std::string(verb) + "--mean 0.5");
    EXPECT_EQ(mean.code, 2) << verb << mean.err;
    EXPECT_CONTAINS(mean.err, "how pictures are prepared (mean=0.5), and 'd.npz' has none");
    const Outcome column = temper(folder, std::string(verb) + "--label-column foo");
    EXPECT_EQ(column.code, 2) << verb << column.err;
    EXPECT_CONTAINS(column.err, "the label's column 'foo' is of CSV files");
  }
}

TEST(PictureFlags, FractionsAreNumbersInMeanStdAndScale) {
  const std::string folder = digits_in_pictures();
  const auto answer = [&](const std::string& flags) {
    const Outcome outcome = temper(folder, "run m.onnx --input photos/5/0.png --no-measure --json " + flags);
    EXPECT_EQ(outcome.code, 0) << flags << ": " << outcome.err;
    return outcome.out;
  };
  EXPECT_EQ(answer("--std 1/2 --mean 1/4"), answer("--std 0.5 --mean 0.25"));
  EXPECT_NE(answer("--std 1/2"), answer("--std 1"));
  for (const char* wrong : {"--std 1/0", "--std x", "--scale 0", "--mean 1/"})
    EXPECT_EQ(temper(folder, concat("run m.onnx --input photos/5/0.png --no-measure ", std::string_view(wrong))).code,
              2)
        << wrong;
}

TEST(PictureFlags, AFitAndASizeThatHasNoEffectBesideItAreRefused) {
  const std::string folder = digits_in_pictures();
  const std::string command = "run m.onnx --input photos/5/0.png --no-measure ";
  for (const char* wrong : {"--fit stretch --resize 36", "--fit crop --resize 0", "--pad 3"}) {
    const Outcome outcome = temper(folder, command + wrong);
    EXPECT_EQ(outcome.code, 2) << wrong << outcome.err;
    EXPECT_CONTAINS(outcome.err, std::string_view(wrong).substr(std::string_view(wrong).rfind("--"), 5));
  }
  for (const char* right : {"--preprocess yolo --fit stretch", "--preprocess yolo --pad 3"})
    EXPECT_EQ(temper(folder, command + right).code, 0) << right;
}

}  // namespace
}  // namespace temper
