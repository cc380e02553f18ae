// SPDX-License-Identifier: Apache-2.0
// Plans that take pictures answer as the model does on pictures that were prepared outside.
#include "optimize/pictures_in.h"

#include <gtest/gtest.h>

#include "../plan/helpers.h"
#include "data/preprocess.h"
#include "optimize/model_source.h"
#include "runtime/beside.h"

namespace temper {
namespace {

// A convolution of 3 by 3 behind the input, padded, so that a wrong order of scale and padding shows at the borders.
Graph net(const std::string& type, const std::string& more = "") {
  return parse_graph(concat("graph \"net\"\ninput %image: ", type, "\n", more, "const %w: f32[2,3,3,3] = #0\n",
                            "%y: f32[n,2,6,8] = conv(%", more.empty() ? "image" : "turned",
                            ", %w) strides=[1,1] dilations=[1,1] pads=[1,1,1,1] @\"conv\"\noutput \"y\" = %y\n"),
                     std::vector{noise({2, 3, 3, 3}, 5)});
}
Graph planes() { return net("f32[n,3,6,8]"); }
Graph rows() { return net("f32[n,6,8,3]", "%turned: f32[n,3,6,8] = transpose(%image) perm=[0,3,1,2] @\"turn\"\n"); }

Image picture(int seed) {
  Image image = make_image(8, 6, 3);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = uint8_t((i * 73 + size_t(seed) * 31) % 256);
  return image;
}

BuildOptions unmeasured() {
  BuildOptions options;
  options.measure = false;
  options.shapes = {{"", {{1, 3, 6, 8}, {2, 3, 6, 8}, {4, 3, 6, 8}}}};
  return options;
}

// Two pictures as the input of `engine`.
Tensor prepared(const Engine& engine) {
  const auto& remembered = engine.info().preprocess;
  const std::string words = remembered.contains("image") ? remembered.at("image") : "";
  const PortInfo& port = engine.inputs()[0];
  const Preprocess preprocess = complete_preprocess(parse_preprocess(words), port.type, port.name);
  Dims dims = preprocess.sample_dims();
  dims.insert(dims.begin(), 2);
  Tensor tensor(preprocess.dtype, dims);
  for (int i = 0; i < 2; ++i) preprocess_image(picture(i), preprocess, tensor.raw_mutable() + i * tensor.bytes() / 2);
  return tensor;
}

TEST(PicturesIn, APlanOfPicturesAnswersAsTheModelDoesOnPreparedOnes) {
  for (const std::string words : {"", "mean=0.5 std=0.25", "scale=1 mean=103.9,116.8,123.7 std=1,2,3 order=bgr",
                                  "fit=letterbox crop=6x8 scale=1/127.5 mean=1 std=1", "order=bgr"})
    for (const bool by_planes : {true, false}) {
      BuildOptions options = unmeasured();
      if (!by_planes) options.shapes = {{"image", {{1, 6, 8, 3}, {2, 6, 8, 3}, {4, 6, 8, 3}}}};
      options.preprocess = {{"", concat(words, by_planes ? "" : " layout=nhwc")}};
      const Graph graph = by_planes ? planes() : rows();
      const auto plain = build_engine(graph, {}, options);
      options.input_pictures = {""};
      const auto pictures = build_engine(graph, {}, options);
      ASSERT_EQ(pictures->inputs().size(), 1u);
      EXPECT_EQ(pictures->inputs()[0].name, "image");
      EXPECT_EQ(pictures->inputs()[0].type.dtype, DType::u8);
      EXPECT_EQ(pictures->info().shapes.at("image").max, (Dims{4, 6, 8, 3}));
      const Tensor pixels = prepared(*pictures);
      ASSERT_EQ(pixels.dtype(), DType::u8);
      const auto wanted = Session(plain).run({prepared(*plain)});
      const auto got = Session(pictures).run({pixels});
      expect_close(got, wanted, 1e-4);  // sums of values up to 150
    }
}

TEST(PicturesIn, TheRangeOfTheModelsInputIsThatOfThePreparedPictures) {
  auto ranges = std::make_shared<Ranges>();
  ranges->preprocess = {{"image", "mean=0 std=1 scale=1/255"}};
  ranges->values["image"] = {.min = 0, .max = 1, .scale = 1 / 127.F};
  ranges->values["y"] = {.min = -4, .max = 4, .scale = 4 / 127.F};
  BuildOptions options = unmeasured();
  options.precision = "int8";
  options.ranges = ranges;
  const auto plain = build_engine(planes(), {}, options);
  options.input_pictures = {"image"};
  const auto pictures = build_engine(planes(), {}, options);
  EXPECT_EQ(pictures->info().lowered_products, 1);
  EXPECT_TRUE(pictures->info().notes.empty()) << pictures->info().notes[0];
  const auto wanted = Session(plain).run({prepared(*plain)});
  const auto got = Session(pictures).run({prepared(*pictures)});
  expect_close(got, wanted, 0.02);  // a pixel whose value lies between two of the 255 may go either way
}

TEST(PicturesIn, AStepIsFoundBehindATransposeThatTakesNone) {
  auto ranges = std::make_shared<Ranges>();
  ranges->values["image"] = {.min = 0, .max = 1, .scale = 1 / 127.F};
  BuildOptions options = unmeasured();
  options.precision = "int8";
  options.ranges = ranges;
  options.input_pictures = {""};
  options.preprocess = {{"", "unit"}};
  const auto engine = build_engine(planes(), {}, options);
  const Tensor pixels = prepared(*engine);
  Session session(engine);
  session.prepare({pixels.dims()});
  const Graph graph = specialize(engine->graph(), bind_shapes(engine->graph(), {pixels.dims()}));
  size_t steps = 0;
  for (const Segment& segment : session.current_plan().segments)
    steps += size_t(std::ranges::count_if(segment.steps, [](const PlanStep& step) { return !step.is_reorder(); }));
  EXPECT_EQ(run_beside_reference(session, graph, {pixels}, {}).size(), steps);
}

TEST(PicturesIn, WhatNobodySaidIsANote) {
  BuildOptions options = unmeasured();
  options.input_pictures = {""};
  options.preprocess = {{"", "mean=0"}};
  const auto engine = build_engine(planes(), {}, options);
  ASSERT_FALSE(engine->info().notes.empty());
  EXPECT_NE(engine->info().notes[0].find("nobody said std, scale"), std::string::npos) << engine->info().notes[0];
}

TEST(PicturesIn, InputsThatTakeNoneAreRefusedByName) {
  const auto refused = [](const Graph& graph, const std::set<std::string>& inputs, const std::string& why) {
    BuildOptions options = unmeasured();
    options.shapes.clear();
    options.input_pictures = inputs;
    try {
      build_engine(graph, {}, options);
      ADD_FAILURE() << why;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  };
  refused(parse_graph("graph \"g\"\ninput %x: f32[2,5]\noutput \"y\" = %x\n"), {""},
          "no input of the model takes them");
  refused(planes(), {"image", "photo"}, "'photo', which is no input of the model");
  refused(parse_graph("graph \"g\"\ninput %x: u8[1,3,4,4]\noutput \"y\" = %x\n"), {"x"}, "u8 already");
}

}  // namespace
}  // namespace temper
