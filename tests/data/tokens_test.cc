// SPDX-License-Identifier: Apache-2.0
#include "data/tokens.h"

#include <gtest/gtest.h>

#include "data/bench_session.h"
#include "data/dataset.h"
#include "data/npy.h"
#include "helpers.h"
#include "optimize/build_engine.h"

namespace temper {
namespace {

std::string text_file(const std::string& name, const std::string& text) {
  const std::string path = test_folder() + name;
  write_text(path, text);
  return path;
}

TensorType open_type(DType dtype) { return {dtype, {Dim::symbol("batch"), Dim::symbol("sequence")}}; }

// As BERT has them.
std::vector<InputSpec> bert() {
  std::vector<InputSpec> inputs{{"input_ids", open_type(DType::i64), false, "", ""},
                                {"attention_mask", open_type(DType::f32), false, "", ""},
                                {"token_type_ids", open_type(DType::i32), false, "", ""},
                                {"position_ids", open_type(DType::i64), false, "", ""}};
  return inputs;
}

using Ints = std::vector<int64_t>;
using Reals = std::vector<double>;

TEST(Tokens, ALineIsASampleAndTheOtherInputsFollow) {
  const std::string path = text_file("ids.txt", "5 6 7\r\n\n1,2\t\n99\n");
  const Dataset data = open_dataset(path, bert());
  ASSERT_EQ(data.size(), 3);
  const Batch batch = data.batch(0, 3);
  EXPECT_EQ(batch.inputs[0].to_ints(), (Ints{5, 6, 7, 1, 2, 0, 99, 0, 0}));
  EXPECT_EQ(batch.inputs[1].to_doubles(), (Reals{1, 1, 1, 1, 1, 0, 1, 0, 0}));
  EXPECT_EQ(batch.inputs[1].dtype(), DType::f32);
  EXPECT_EQ(batch.inputs[2].to_ints(), Ints(9, 0));
  EXPECT_EQ(batch.inputs[3].to_ints(), (Ints{0, 1, 2, 0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(data.text(), "3 samples of up to 3 tokens");
}

TEST(Tokens, SamplesAreFilledUpToTheLengthOfTheInput) {
  std::vector<InputSpec> inputs = bert();
  for (InputSpec& input : inputs) input.type.shape[1] = Dim(4);
  const std::string path = text_file("ids.txt", "5 6 7\n1\n");
  const Batch batch = open_dataset(path, inputs).batch(0, 2);
  EXPECT_EQ(batch.inputs[0].to_ints(), (Ints{5, 6, 7, 0, 1, 0, 0, 0}));
  EXPECT_EQ(batch.inputs[1].to_doubles(), (Reals{1, 1, 1, 0, 1, 0, 0, 0}));
  for (InputSpec& input : inputs) input.type.shape[1] = Dim(2);
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { open_dataset(path, inputs); }),
                  "sample 0 has 3 tokens, and the input takes 2");
}

TEST(Tokens, ArraysOfThemAloneAreEnough) {
  const std::string path = test_folder() + "ids.npy";
  write_npy(path, Tensor::of<int64_t>({2, 3}, {4, 5, 0, 0, 6, 7}), true);
  const Batch whole = open_dataset(path, bert()).batch(0, 2);
  EXPECT_EQ(whole.inputs[1].to_doubles(), Reals(6, 1));
  EXPECT_EQ(whole.inputs[0].to_ints(), (Ints{4, 5, 0, 0, 6, 7}));
}

TEST(Tokens, AMaskThatIsGivenStays) {
  const Batch batch = open_arrays({{"input_ids", Tensor::of<int64_t>({1, 3}, {4, 5, 6})},
                                   {"attention_mask", Tensor::of<float>({1, 3}, {0, 1, 1})}},
                                  bert())
                          .batch(0, 1);
  EXPECT_EQ(batch.inputs[1].to_doubles(), (Reals{0, 1, 1}));
  EXPECT_EQ(batch.inputs[3].to_ints(), (Ints{0, 1, 2}));
}

TEST(Tokens, WhatIsDamagedIsNamed) {
  const auto refused = [&](ErrorKind kind, const std::string& text, std::string_view why) {
    const std::string path = text_file("ids.txt", text);
    const std::string said = error_of(kind, [&] { open_dataset(path, bert()); });
    EXPECT_CONTAINS(said, why);
    EXPECT_CONTAINS(said, path);
  };
  refused(ErrorKind::bad_file, "1 2\n\n3 x\n", "line 3, position 1: 'x' is no token id");
  refused(ErrorKind::bad_file, "1 -2\n", "line 1, position 1: '-2' is no token id");
  refused(ErrorKind::bad_file, "1 2.5\n", "position 1: '2.5' is no token id");
  refused(ErrorKind::bad_file, "99999999999999999999\n", "is no token id");
  refused(ErrorKind::bad_file, "", "there is no token id in it");
  refused(ErrorKind::bad_file, " \n\n", "there is no token id in it");
  EXPECT_CONTAINS(error_of(ErrorKind::usage,
                           [&] {
                             open_dataset(text_file("ids.txt", "1 2\n"),
                                          {{"x", {DType::f32, {Dim::symbol("batch"), Dim(4)}}, false, "", ""}});
                           }),
                  "no input of the model takes them");
}

TEST(Tokens, IdsOutsideOfTheTableThatTheyLookUpAreNamed) {
  const Graph graph = parse_graph(
      "graph \"g\"\n"
      "input %input_ids: i64[batch,n]\n"
      "const %table: f32[4,1] = [1,2,3,4]\n"
      "%y: f32[batch,n,1] = gather(%table, %input_ids) axis=0\n"
      "output \"y\" = %y\n");
  const std::vector<InputSpec> inputs{{"input_ids", open_type(DType::i64), false, "", ""}};
  const auto check = [&](const Ints& ids, const Ints& samples) {
    check_vocabulary(graph, open_arrays({{"input_ids", Tensor::of<int64_t>({2, 2}, ids)}}, inputs), samples);
  };
  check({0, 1, 2, 3}, {0, 1});
  check({0, 1, 2, 4}, {0});
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { check({0, 1, 2, 4}, {0, 1}); }),
                  "sample 1, position 1: the token 4 is outside of the vocabulary of 4 of input 'input_ids'");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { check({-1, 1, 2, 3}, {0, 1}); }),
                  "sample 0, position 0: the token -1 is outside");
}

// Of rows without a token nobody says what a model answers, and engines that are compared on them differ.
TEST(Tokens, WhatIsTimedWithoutDataSeesAllPositions) {
  BuildOptions options;
  options.measure = false;
  options.timing_cache = "";
  const auto engine = build_engine(
      parse_graph(
          "graph \"g\"\ninput %input_ids: i64[2,3]\ninput %attention_mask: i64[2,3]\n"
          "%y: i64[2,3] = pointwise(%input_ids, %attention_mask) program=\"(2) 2=add.i64(0,1)\"\noutput \"y\" = %y\n"),
      {}, options);
  const std::vector<Tensor> inputs = random_inputs(*engine, {{2, 3}, {2, 3}});
  EXPECT_EQ(inputs.at(0).to_doubles(), std::vector<double>(6, 0));
  EXPECT_EQ(inputs.at(1).to_doubles(), std::vector<double>(6, 1));
}

TEST(Tokens, InputsAreKnownByNameAndType) {
  const TextInputs all = text_inputs(bert());
  EXPECT_EQ(all.tokens, 0);
  EXPECT_EQ(all.mask, 1);
  EXPECT_EQ(all.types, 2);
  EXPECT_EQ(all.positions, 3);
  const auto tokens = [](const std::string& name, const TensorType& type, size_t inputs = 1) {
    std::vector<InputSpec> specs(inputs, {"other", {DType::f32, {Dim(1)}}, false, "", ""});
    specs[0].name = name, specs[0].type = type;
    return text_inputs(specs).tokens;
  };
  EXPECT_EQ(tokens("decoder_input_ids", open_type(DType::i32), 2), 0);
  EXPECT_EQ(tokens("anything", open_type(DType::i64)), 0);
  EXPECT_EQ(tokens("anything", open_type(DType::i64), 2), -1);
  EXPECT_EQ(tokens("input_ids", open_type(DType::f32)), -1);
  EXPECT_EQ(tokens("input_ids", {DType::i64, {Dim::symbol("batch")}}), -1);
}

}  // namespace
}  // namespace temper
