// SPDX-License-Identifier: Apache-2.0
// The C++ API over the C one. No header of the library itself: it has classes of the same names.
#include "temper/temper.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <functional>

#include "../paths.h"

namespace {

const std::string kModel = temper::paths::source_folder() + "/models/digits_cnn.onnx";

temper_status status_of(const std::function<void()>& body, const std::string& part) {
  try {
    body();
  } catch (const temper::Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    return error.status();
  }
  return TEMPER_OK;
}

temper::BuildOptions options() {
  temper::BuildOptions options;
  options.threads = 1;
  options.shapes = {{"image", {1, 1, 8, 8}, {2, 1, 8, 8}, {2, 1, 8, 8}}};
  return options;
}

temper::Tensor picture(int64_t batch) {
  temper::Tensor tensor(TEMPER_F32, {batch, 1, 8, 8});
  for (size_t i = 0; i < tensor.count(); ++i) tensor.data<float>()[i] = float(i % 64 * 5 % 17) / 16;
  return tensor;
}

TEST(CppApi, BuildsSavesLoadsAndRuns) {
  const temper::Engine built = temper::Engine::build(kModel, options());
  const std::string plan = testing::TempDir() + "/temper_cpp_api_" + std::to_string(getpid()) + ".plan";
  built.save(plan);
  const temper::Engine loaded = temper::Engine::load(plan);
  std::remove(plan.c_str());
  ASSERT_EQ(loaded.inputs().size(), 1u);
  EXPECT_EQ(loaded.inputs()[0].name, "image");
  EXPECT_EQ(loaded.inputs()[0].dims, (std::vector<int64_t>{-1, 1, 8, 8}));
  ASSERT_EQ(loaded.outputs().size(), 1u);
  EXPECT_EQ(loaded.outputs()[0].name, "logits");

  temper::Session first(built), second(loaded);
  second.prepare({picture(2)});
  const std::vector<temper::Tensor> a = first.run({picture(2)}), b = second.run({picture(2)});
  ASSERT_EQ(a.size(), 1u);
  ASSERT_EQ(b.size(), 1u);
  EXPECT_EQ(a[0].dims(), (std::vector<int64_t>{2, 10}));
  ASSERT_EQ(a[0].count(), 20u);
  const float *x = a[0].data<float>(), *y = b[0].data<float>();
  EXPECT_EQ(std::vector<float>(x, x + 20), std::vector<float>(y, y + 20));
  EXPECT_EQ(std::vector<float>(x, x + 10), std::vector<float>(x + 10, x + 20));  // the same picture twice
  EXPECT_NE(x[0], x[1]);
}

// ONNX: n = x + s, two numbers each.
std::string sum_model() {
  const auto field = [](int number, const std::string& bytes) {
    return std::string{char(number << 3 | 2), char(bytes.size())} + bytes;
  };
  const auto number = [](int at, int value) { return std::string{char(at << 3), char(value)}; };
  const auto port = [&](const char* name) {
    const std::string shape = field(1, number(1, 2));
    return field(1, name) + field(2, field(1, number(1, 1) + field(2, shape)));
  };
  const std::string node = field(1, "x") + field(1, "s") + field(2, "n") + field(4, "Add");
  const std::string graph =
      field(1, node) + field(2, "sum") + field(11, port("x")) + field(11, port("s")) + field(12, port("n"));
  return number(1, 8) + field(7, graph) + field(8, number(2, 13));
}

TEST(CppApi, ASessionIsReset) {
  const std::string model = sum_model();
  temper::BuildOptions build;
  build.threads = 1;
  temper::Session session(temper::Engine::build_bytes(model.data(), model.size(), build));
  session.keep_state({{"s", "n"}});
  temper::Tensor x(TEMPER_F32, {2});
  x.data<float>()[0] = 1, x.data<float>()[1] = 2;
  const auto runs = [&](int count) {
    for (int i = 0; i < count; ++i) session.run({x, temper::Tensor()});
    return session.output(0).data<float>()[1];
  };
  EXPECT_EQ(runs(3), 6);
  session.reset();
  EXPECT_EQ(runs(2), 4);
  session.reset_state();
  EXPECT_EQ(runs(1), 2);
}

TEST(CppApi, MemoryStandsInForFilesAndTimesAreShared) {
  std::string model;
  {
    std::FILE* file = std::fopen(kModel.c_str(), "rb");
    ASSERT_NE(file, nullptr);
    char part[4096];
    for (size_t n; (n = std::fread(part, 1, sizeof part, file)) > 0;) model.append(part, n);
    std::fclose(file);
  }
  temper::BuildOptions several = options();
  several.shapes.clear();
  several.profiles = {{{"image", {1, 1, 8, 8}, {1, 1, 8, 8}, {1, 1, 8, 8}}},
                      {{"image", {4, 1, 8, 8}, {4, 1, 8, 8}, {4, 1, 8, 8}}}};
  const auto timings = std::make_shared<const temper::Timings>();
  several.timings = timings;
  int told = 0;
  several.progress = [&](const std::string&) { return ++told > 0; };
  const temper::Engine built = temper::Engine::build_bytes(model.data(), model.size(), several);
  EXPECT_GT(told, 0);
  temper::Timings copy(timings->bytes());
  copy.add(*timings);
  EXPECT_EQ(copy.bytes(), timings->bytes());
  EXPECT_GT(copy.bytes().size(), temper::Timings().bytes().size());
  const std::string plan = built.save_bytes();
  const temper::Engine loaded = temper::Engine::load_bytes(plan.data(), plan.size());
  EXPECT_NE(loaded.describe().find("\"profiles\":[{"), std::string::npos);
  EXPECT_EQ(loaded.output_dims({{4, 1, 8, 8}}), (std::vector<std::vector<int64_t>>{{4, 10}}));
  EXPECT_EQ(status_of([&] { loaded.output_dims({{2, 1, 8, 8}}); }, "none of the engine's 2 profiles"), TEMPER_USAGE);
  EXPECT_EQ(temper::Session(loaded).run({picture(4)})[0].dims(), (std::vector<int64_t>{4, 10}));

  several.progress = [](const std::string&) { return false; };
  EXPECT_EQ(status_of([&] { temper::Engine::build(kModel, several); }, "ended by the caller"), TEMPER_CANCELLED);
  several.progress = [](const std::string&) -> bool { throw std::logic_error("mine"); };
  EXPECT_THROW(temper::Engine::build(kModel, several), std::logic_error);
  temper::LoadOptions mapped;
  mapped.map_file = true;
  EXPECT_EQ(status_of([&] { temper::Engine::load_bytes(plan.data(), plan.size(), mapped); }, "map_file"), TEMPER_USAGE);
  temper::Session session(loaded);
  EXPECT_EQ(status_of([&] { session.run_in_stream({picture(4).view()}, {}, nullptr); }, "runs on cpu"), TEMPER_USAGE);
}

TEST(CppApi, AnEngineSaysWhatItIsForAndARunWritesWhereItIsTold) {
  const temper::Engine engine = temper::Engine::build(kModel, options());
  EXPECT_EQ(std::string(engine.info().device), "cpu");
  EXPECT_EQ(engine.profiles()[0][0].max, (std::vector<int64_t>{2, 1, 8, 8}));
  EXPECT_EQ(engine.buckets().at(1)[0].dims, (std::vector<int64_t>{2, 1, 8, 8}));
  temper::LoadOptions other;
  other.device = "cuda:0";
  const std::string plan = engine.save_bytes();
  EXPECT_EQ(status_of([&] { temper::Engine::load_bytes(plan.data(), plan.size(), other); }, "device 'cpu'"),
            TEMPER_USAGE);
  temper::Session session(engine);
  const temper::Tensor image = picture(2), want = session.run({image})[0];
  temper::Tensor result(TEMPER_F32, {2, 10});
  std::memcpy(session.input(0), image.raw(), image.bytes());
  temper_tensor input = image.view();
  input.data = session.input(0);
  session.enqueue({input}, {result.view()});
  session.wait();
  EXPECT_EQ(std::memcmp(result.raw(), want.raw(), want.bytes()), 0);
  EXPECT_EQ(status_of([&] { session.wait(); }, "no run to wait for"), TEMPER_USAGE);
}

TEST(CppApi, APoolGivesTheOutputsOfOneDeviceInOrder) {
  const temper::Engine engine = temper::Engine::build(kModel, options());
  temper::Session session(engine);
  std::vector<std::vector<temper::Tensor>> batches, want;
  for (int64_t b = 0; b < 12; ++b) {
    batches.push_back({picture(1 + b % 2)});
    batches.back()[0].data<float>()[0] = float(b);
    want.push_back(session.run(batches.back()));
  }
  temper::Pool pool(engine, "cpu,cpu");
  const auto got = pool.run(batches);
  ASSERT_EQ(got.size(), want.size());
  for (size_t b = 0; b < got.size(); ++b) {
    ASSERT_EQ(got[b].size(), 1u);
    ASSERT_EQ(got[b][0].dims(), want[b][0].dims());
    EXPECT_EQ(std::memcmp(got[b][0].raw(), want[b][0].raw(), got[b][0].bytes()), 0) << b;
  }
  ASSERT_EQ(pool.devices().size(), 2u);
  EXPECT_EQ(pool.devices()[0].name, "cpu");
  EXPECT_EQ(pool.devices()[0].loss, "");
  EXPECT_EQ(pool.devices()[0].batches + pool.devices()[1].batches, 12);
  size_t used = 0;
  const auto throws = [&](size_t batch, const std::vector<temper::Tensor>&) {
    EXPECT_EQ(batch, used++);
    if (batch == 3) throw std::string("enough");
  };
  EXPECT_THROW(pool.run(batches, throws), std::string);
  EXPECT_EQ(used, 4u);
  batches[5].clear();
  EXPECT_EQ(status_of([&] { pool.run(batches); }, "batch 5 has 0 inputs; the engine has 1"), TEMPER_USAGE);
  EXPECT_EQ(status_of([&] { temper::Pool(engine, "cpu,reference"); }, "reference: the plan is for"), TEMPER_USAGE);
}

TEST(CppApi, WhatIsKeptOfShapesIsLimitedAndCounted) {
  temper::BuildOptions wide = options();
  wide.shapes[0].max[0] = 20;
  temper::Engine engine = temper::Engine::build(kModel, wide);
  const int64_t built = engine.statistics().plans;
  temper::ShapeLimits limits;
  limits.plans = 3;
  limits.prepared = 2;
  engine.set_limits(limits);
  temper::Session session(engine);
  for (int64_t n = 3; n < 13; ++n) EXPECT_EQ(session.run({picture(n)})[0].dims()[0], n);
  EXPECT_EQ(engine.statistics().plans, built + 3);
  EXPECT_GT(engine.statistics().plans_made, 5) << "some sizes were built for";
  EXPECT_EQ(engine.statistics().evictions, engine.statistics().plans_made - 3);
  EXPECT_GT(engine.statistics().plan_bytes, 0);
  EXPECT_EQ(session.statistics().runs, 10);
  EXPECT_EQ(session.statistics().prepared, 2);
  EXPECT_EQ(session.statistics().evictions, 8);
  EXPECT_GT(session.statistics().prepared_bytes, 0);
  limits.plans = -1;
  EXPECT_EQ(status_of([&] { engine.set_limits(limits); }, "at least 1"), TEMPER_USAGE);
}

TEST(CppApi, ALoadedPlanDoesNotNeedItsFile) {
  const temper::Engine built = temper::Engine::build(kModel, options());
  const std::string plan = testing::TempDir() + "/temper_cpp_loaded_" + std::to_string(getpid()) + ".plan";
  built.save(plan);
  temper::LoadOptions map;
  map.map_file = true;
  const temper::Engine loaded = temper::Engine::load(plan), mapped = temper::Engine::load(plan, map);
  temper::Session session(loaded), of_mapped(mapped);
  const auto values = [](temper::Session& s) {
    const temper::Tensor logits = s.run({picture(2)})[0];
    return std::vector<float>(logits.data<float>(), logits.data<float>() + logits.count());
  };
  const std::vector<float> before = values(session);
  EXPECT_EQ(values(of_mapped), before);
  std::remove(plan.c_str());
  EXPECT_EQ(values(of_mapped), before) << "deleted it is still there for who mapped it";
  built.save(plan);
  const temper::Engine again = temper::Engine::load(plan);
  ASSERT_EQ(truncate(plan.c_str(), 0), 0);
  temper::Session of_cut(again);
  EXPECT_EQ(values(of_cut), before);
  EXPECT_EQ(status_of([&] { temper::Engine::load(plan); }, "empty"), TEMPER_BAD_FILE);
  std::remove(plan.c_str());
}

TEST(CppApi, ErrorsCarryTheStatusAndTheMessage) {
  EXPECT_EQ(status_of([] { temper::Engine::load("no_such.plan"); }, "no_such.plan"), TEMPER_BAD_FILE);
  temper::BuildOptions wrong = options();
  wrong.shapes[0].min.pop_back();
  EXPECT_EQ(status_of([&] { temper::Engine::build(kModel, wrong); }, "'image'"), TEMPER_USAGE);
  wrong = options();
  wrong.precision = "fp16";
  EXPECT_EQ(status_of([&] { temper::Engine::build(kModel, wrong); }, "fp16"), TEMPER_UNSUPPORTED);
  const temper::Engine engine = temper::Engine::build(kModel, options());
  temper::Session session(engine);
  EXPECT_EQ(status_of([&] { session.run({picture(3)}); }, "[3,1,8,8]"), TEMPER_USAGE);
  EXPECT_EQ(status_of([&] { session.run({}); }, "0 inputs"), TEMPER_USAGE);
  EXPECT_EQ(session.run({picture(1)}).size(), 1u);
}

TEST(CppApi, TensorsCheckTheirTypeAndShape) {
  temper::Tensor tensor(TEMPER_BF16, {2, 3});
  EXPECT_EQ(tensor.count(), 6u);
  EXPECT_EQ(tensor.bytes(), 12u);
  EXPECT_EQ(tensor.data<uint16_t>()[5], 0);
  EXPECT_EQ(status_of([&] { tensor.data<float>(); }, "another type"), TEMPER_USAGE);
  EXPECT_EQ(temper::Tensor(TEMPER_I64, {}).count(), 1u);
  EXPECT_EQ(temper::Tensor(TEMPER_I64, {0, 5}).count(), 0u);
  EXPECT_EQ(temper::Tensor().count(), 0u);
  EXPECT_EQ(status_of([] { temper::Tensor(TEMPER_F32, {-1}); }, "-1"), TEMPER_USAGE);
  EXPECT_EQ(status_of([] { temper::Tensor(TEMPER_F32, {int64_t(1) << 40, int64_t(1) << 40}); }, "dimension"),
            TEMPER_USAGE);
  EXPECT_EQ(status_of([] { temper::Tensor(temper_dtype(99), {1}); }, "dtype"), TEMPER_USAGE);
}

// An 8x8 BMP of 24 bits, grey, whose pixels have the values given.
std::string bmp(const std::vector<unsigned char>& values) {
  std::string file = "BM";
  const auto number = [&](uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) file += char(value >> 8 * i & 255);
  };
  for (const auto& [value, bytes] : std::vector<std::pair<uint32_t, int>>{{54 + 192, 4},
                                                                          {0, 4},
                                                                          {54, 4},
                                                                          {40, 4},
                                                                          {8, 4},
                                                                          {8, 4},
                                                                          {1, 2},
                                                                          {24, 2},
                                                                          {0, 4},
                                                                          {192, 4},
                                                                          {0, 4},
                                                                          {0, 4},
                                                                          {0, 4},
                                                                          {0, 4}})
    number(value, bytes);
  for (int y = 7; y >= 0; --y)  // from the bottom
    for (int x = 0; x < 8; ++x) file += std::string(3, char(values[size_t(y * 8 + x)]));
  return file;
}

TEST(CppApi, APlanOfPicturesTakesWhatADecoderGives) {
  temper::BuildOptions build = options();
  build.measure = false;
  build.preprocess = "unit";
  const temper::Engine plain = temper::Engine::build(kModel, build);
  build.input_pictures = true;
  const temper::Engine pictures = temper::Engine::build(kModel, build);
  EXPECT_EQ(pictures.inputs()[0].dtype, TEMPER_U8);
  EXPECT_EQ(pictures.inputs()[0].dims, (std::vector<int64_t>{-1, 8, 8, 1}));
  std::vector<unsigned char> values(64);
  for (size_t i = 0; i < 64; ++i) values[i] = static_cast<unsigned char>(i * 67 % 251);
  const std::string file = bmp(values);
  const temper::Tensor bytes = temper::decode_pictures(pictures, {file, file}),
                       floats = temper::decode_pictures(plain, {file, file});
  EXPECT_EQ(std::vector<unsigned char>(bytes.data<uint8_t>(), bytes.data<uint8_t>() + 64), values);
  EXPECT_NEAR(floats.data<float>()[3], values[3] / 255.0, 1e-7);
  const temper::Tensor a = temper::Session(pictures).run({bytes})[0], b = temper::Session(plain).run({floats})[0];
  ASSERT_EQ(a.count(), 20u);
  for (size_t i = 0; i < 20; ++i) EXPECT_NEAR(a.data<float>()[i], b.data<float>()[i], 1e-4) << i;
  EXPECT_EQ(status_of([&] { temper::decode_pictures(pictures, {file.substr(0, 60)}); }, "picture"), TEMPER_BAD_FILE);
  EXPECT_EQ(status_of([&] { temper::decode_pictures(pictures, {"GIF89a"}); }, "picture"), TEMPER_UNSUPPORTED);
  build.preprocess = "sepia";
  EXPECT_EQ(status_of([&] { temper::Engine::build(kModel, build); }, "sepia"), TEMPER_USAGE);
}

// What temper_picture_prepare makes of pixels.
std::vector<unsigned char> prepared(const temper::Engine& engine, const temper_pixels& pixels) {
  int64_t dims[3];
  EXPECT_EQ(temper_picture_dims(engine.handle(), 0, nullptr, dims), TEMPER_OK) << temper_last_error();
  std::vector<unsigned char> sample(size_t(dims[0] * dims[1] * dims[2]));
  EXPECT_EQ(temper_picture_prepare(engine.handle(), 0, nullptr, &pixels, sample.data(), sample.size()), TEMPER_OK)
      << temper_last_error();
  return sample;
}

TEST(CppApi, PixelsBecomeWhatTheSamePictureInAFileDoes) {
  temper::BuildOptions build = options();
  build.measure = false;
  build.input_pictures = true;
  std::vector<unsigned char> values(64);
  for (size_t i = 0; i < 64; ++i) values[i] = static_cast<unsigned char>(i * 67 % 251);
  for (const std::string words : {"fit=stretch scale=1/255", "fit=crop resize=13", "fit=letterbox"}) {
    build.preprocess = words;
    const temper::Engine engine = temper::Engine::build(kModel, build);
    const temper::Tensor file = temper::decode_pictures(engine, {bmp(values)});
    const std::vector<unsigned char> expected(file.data<uint8_t>(), file.data<uint8_t>() + 64);
    EXPECT_EQ(prepared(engine, {values.data(), 8, 8, 1, 0, 0}), expected) << words;
    std::vector<unsigned char> wide(size_t(8) * 32, 255);  // three channels, rows of 32 bytes
    for (size_t i = 0; i < 64; ++i)
      for (size_t c = 0; c < 3; ++c) wide[i / 8 * 32 + i % 8 * 3 + c] = values[i];
    EXPECT_EQ(prepared(engine, {wide.data(), 8, 8, 3, 32, 1}), expected) << words;
    const auto refused = [&](const temper_pixels& wrong, const char* why) {
      unsigned char sample[64];
      EXPECT_EQ(temper_picture_prepare(engine.handle(), 0, nullptr, &wrong, sample, 64), TEMPER_USAGE);
      EXPECT_NE(std::string(temper_last_error()).find(why), std::string::npos) << temper_last_error();
    };
    refused({nullptr, 8, 8, 1, 0, 0}, "NULL");
    refused({values.data(), 8, 0, 1, 0, 0}, "8x0");
    refused({values.data(), 8, 8, 4, 0, 0}, "4 channels");
    refused({wide.data(), 8, 8, 3, 8, 0}, "24 bytes");
  }
}

TEST(CppApi, BlueFirstIsTurned) {
  temper::BuildOptions build = options();
  build.measure = false;
  build.input_pictures = true;
  build.preprocess = "fit=stretch";
  const temper::Engine engine = temper::Engine::build(kModel, build);  // grey by the weights of red, green and blue
  std::vector<unsigned char> red(size_t(64) * 3), blue(size_t(64) * 3);
  for (size_t i = 0; i < 64; ++i) red[3 * i] = blue[3 * i + 2] = static_cast<unsigned char>(4 * i);
  EXPECT_EQ(prepared(engine, {red.data(), 8, 8, 3, 0, 0}), prepared(engine, {blue.data(), 8, 8, 3, 0, 1}));
  EXPECT_NE(prepared(engine, {red.data(), 8, 8, 3, 0, 0}), prepared(engine, {blue.data(), 8, 8, 3, 0, 0}));
}

TEST(CppApi, APlacementTurnsPointsOfTheInputIntoPointsOfThePicture) {
  temper::BuildOptions build = options();
  build.measure = false;
  const auto placed = [&](const char* words, int64_t height, int64_t width) {
    build.preprocess = words;
    const temper::Engine engine = temper::Engine::build(kModel, build);
    temper_placement p = {};
    EXPECT_EQ(temper_picture_placement(engine.handle(), 0, nullptr, height, width, &p), TEMPER_OK)
        << temper_last_error();
    return std::vector<double>{p.scale_x, p.scale_y, p.left, p.top};
  };
  EXPECT_EQ(placed("fit=stretch", 16, 80), (std::vector<double>{10, 2, 0, 0}));
  EXPECT_EQ(placed("fit=letterbox", 20, 40), (std::vector<double>{5, 5, 0, -10}));      // 8x4 in the middle of 8x8
  EXPECT_EQ(placed("fit=crop resize=10", 20, 40), (std::vector<double>{2, 2, 12, 2}));  // 20x10, less 6 and 1 pixels
  build.preprocess = "fit=stretch";
  temper_placement p = {};
  const temper::Engine engine = temper::Engine::build(kModel, build);
  EXPECT_EQ(temper_picture_placement(engine.handle(), 0, nullptr, 0, 8, &p), TEMPER_USAGE);
}

TEST(CppApi, TheBestClassesAreThoseOfTheProgram) {
  const std::vector<float> scores = {0, 2, 1, 2, NAN, 7, 7, 7, 7, 6};
  const int64_t dims[2] = {2, 5};
  const temper_tensor output = {TEMPER_F32, 2, dims, scores.data()};
  temper_class best[8];
  size_t found = 0;
  ASSERT_EQ(temper_top_classes(&output, 0, 8, best, &found), TEMPER_OK) << temper_last_error();
  ASSERT_EQ(found, 5u);
  EXPECT_EQ(best[0].index, 1);  // the first of two equal ones
  EXPECT_EQ(best[1].index, 3);
  EXPECT_EQ(best[4].index, 4);  // NaN
  ASSERT_EQ(temper_top_classes(&output, 1, 2, best, &found), TEMPER_OK);
  ASSERT_EQ(found, 2u);
  EXPECT_EQ(best[0].index, 0);
  EXPECT_EQ(best[0].value, 7);
  EXPECT_NEAR(best[0].probability, 1 / (4 + std::exp(-1.0)), 1e-12);
  EXPECT_EQ(temper_top_classes(&output, 2, 2, best, &found), TEMPER_USAGE);
  const int64_t picture[4] = {1, 1, 2, 5};
  const temper_tensor map = {TEMPER_F32, 4, picture, scores.data()};
  EXPECT_EQ(temper_top_classes(&map, 0, 2, best, &found), TEMPER_USAGE);
  EXPECT_NE(std::string(temper_last_error()).find("classifier"), std::string::npos) << temper_last_error();
}

}  // namespace
