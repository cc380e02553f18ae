// SPDX-License-Identifier: Apache-2.0
// temper --complete: what shells offer for a word that is being typed.
#include <gtest/gtest.h>

#include "backends/cpu/isa.h"
#include "program.h"

namespace temper {
namespace {

// The lines, without what the words mean.
std::string offered(const std::string& folder, const std::string& words) {
  const Outcome outcome = temper(folder, "--complete " + words);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  std::string lines;
  bool meaning = false;
  for (const char c : outcome.out) {
    if (c == '\t') meaning = true;
    if (c == '\n') meaning = false;
    if (!meaning) lines += c;
  }
  return lines;
}

TEST(Complete, VerbsAndOptionsAreThoseOfTheHelp) {
  const std::string folder = test_folder();
  EXPECT_EQ(offered(folder, "bui"), "-\nbuild\n");
  EXPECT_EQ(offered(folder, "help be"), "-\nbench\n");
  EXPECT_EQ(offered(folder, "build --max"), "-\n--max-drop\n");
  EXPECT_EQ(offered(folder, "trtexec --saveE"), "-\n--saveEngine\n");
  EXPECT_EQ(offered(folder, "frobnicate x"), "-\n");
}

TEST(Complete, ValuesAreThoseThatTheOptionTakes) {
  const std::string folder = test_folder();
  EXPECT_EQ(offered(folder, "zoo resnet1"), "-\nresnet18\n");
  EXPECT_EQ(offered(folder, "inspect m --passes ''"), "-\non\noff\n");
  EXPECT_EQ(offered(folder, "build --fit let"), "-\nletterbox\n");
  EXPECT_EQ(offered(folder, "build --fit=let"), "-\n--fit=letterbox\n");
  EXPECT_EQ(offered(folder, "build --precision fp3"), "-\nfp32\n");
  EXPECT_EQ(offered(folder, "build --device cuda:0 --precision tf"), "-\ntf32\n");
  EXPECT_EQ(offered(folder, "build --device cpu --precision tf"), "-\n");  // a CPU has none
  EXPECT_EQ(offered(folder, "build --preprocess y"), ".json\nyolo\n");
  EXPECT_EQ(offered(folder, "build --disable fold_co"), "-\nfold_constants\n");
  const std::string isa(enum_names(IsaLevel{})[1]);  // of x86 or of aarch64
  EXPECT_EQ(offered(folder, "build --isa " + isa), "-\n" + isa + "\n");
  EXPECT_EQ(offered(folder, "study --method ent"), "-\nentropy\n");
  // Behind a comma, what the list does not have.
  EXPECT_EQ(offered(folder, "versus m --with litert,onnxruntime,t"),
            "-\nlitert,onnxruntime,torch\nlitert,onnxruntime,tensorflow\nlitert,onnxruntime,trtexec\n");
  EXPECT_EQ(offered(folder, "bench --precision fp32,fp"), "-\n");
  // A number is the user's own.
  EXPECT_EQ(offered(folder, "build --time-limit ''"), "-\n");
}

TEST(Complete, LayersAndInputsAreThoseOfTheFileOnTheLine) {
  const std::string folder = test_folder();
  ASSERT_EQ(temper(folder, "zoo digits_cnn -o m.onnx --quiet").code, 0);
  ASSERT_EQ(temper(folder, "build m.onnx -o m.plan --no-measure --quiet").code, 0);
  EXPECT_EQ(offered(folder, "build m.onnx --keep-fp32 conv1,conv"), "-\nconv1,conv2\nconv1,conv3\n");
  EXPECT_EQ(offered(folder, "build m.onnx --shapes ''"), "-\nimage=\n");
  EXPECT_EQ(offered(folder, "run m.plan --input im"), "*\nimage=\n");
  EXPECT_CONTAINS(offered(folder, "inspect m.plan --why ''"), "conv1\n");
  // What is damaged, or not there, offers nothing.
  write_text(folder + "bad.onnx", "not a model");
  EXPECT_EQ(offered(folder, "build bad.onnx --keep-fp32 ''"), "-\n");
  EXPECT_EQ(offered(folder, "inspect none.plan --why ''"), "-\n");
  write_text(folder + "temper.toml", "[models.cat]\nmodel = 'm.onnx'\n[models.dog]\nmodel = 'm.onnx'\n");
  EXPECT_EQ(offered(folder, "study --only ''"), "-\ncat\ndog\n");
}

TEST(Complete, FilesAreOfTheKindThatTheVerbReads) {
  const std::string folder = test_folder();
  EXPECT_EQ(offered(folder, "build ''"), ".onnx\n");
  EXPECT_EQ(offered(folder, "bench ''"), ".onnx .plan\n");
  EXPECT_EQ(offered(folder, "gate ''"), ".json\n");
  EXPECT_EQ(offered(folder, "compare a.plan ''"), ".plan .json\n");
  EXPECT_EQ(offered(folder, "build m.onnx -o ''"), ".plan\n");
  EXPECT_EQ(offered(folder, "study -o ''"), "/\n");
  EXPECT_EQ(offered(folder, "study --config ''"), ".toml\n");
  EXPECT_EQ(offered(folder, "doctor ''"), "-\n");
}

}  // namespace
}  // namespace temper
