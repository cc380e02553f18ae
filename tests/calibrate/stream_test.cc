// SPDX-License-Identifier: Apache-2.0
#include "calibrate/stream.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backends/backend.h"
#include "graph/graph.h"

namespace temper {
namespace {

// y = x . w, [batch, 8] to [batch, 2].
ImportedModel model(const std::string& batch, const std::string& more_inputs = "", const std::string& result = "%y") {
  std::string weights;
  for (int i = 0; i < 16; ++i) weights += concat(i ? "," : "", (i * 7) % 11 - 5);
  ImportedModel model;
  model.graph =
      parse_graph(concat("graph \"g\"\ninput %x: f32[", batch, ",8]\n", more_inputs, "const %w: f32[8,2] = [", weights,
                         "]\n%y: f32[", batch, ",2] = matmul(%x, %w) @\"product\"\noutput \"y\" = ", result, "\n"));
  model.sha256 = std::string(64, 'a');
  return model;
}

Tensor samples(int64_t count, uint64_t seed = 0) {
  Tensor tensor(DType::f32, {count, 8});
  std::mt19937 random(unsigned(seed) + 1);
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.data<float>()[i] = float(random() % 2001) / 1000 - 1;
  return tensor;
}
Tensor part(const Tensor& all, int64_t first, int64_t count) {
  return Tensor::view(all.dtype(), {count, 8}, all.data<float>() + first * 8);
}

Ranges calibrated(ImportedModel of, const std::vector<std::vector<Tensor>>& batches,
                  const std::string& method = "auto") {
  BuildOptions options;
  options.threads = 1;
  StreamCalibration calibration(std::move(of), options, method, 3);
  for (const auto& batch : batches) calibration.observe(batch);
  return calibration.finish();
}

void expect_refused(ErrorKind kind, const char* words, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was refused: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

// Bit for bit with AVX-512; without it a CPU may add up in another order where a batch has another size.
void expect_alike(const Ranges& a, const Ranges& b) {
  if (open_device("cpu").avx512) {
    EXPECT_EQ(a, b);
    return;
  }
  EXPECT_EQ(a.method, b.method);
  EXPECT_EQ(a.samples, b.samples);
  EXPECT_EQ(a.notes, b.notes);
  EXPECT_EQ(a.sample_hashes, b.sample_hashes);
  EXPECT_EQ(a.order, b.order);
  ASSERT_EQ(a.values.size(), b.values.size());
  for (const auto& [name, range] : a.values) {
    const TensorRange& other = b.values.at(name);
    EXPECT_EQ(range.method, other.method) << name;
    EXPECT_NEAR(range.min, other.min, 1e-5 * std::abs(other.min)) << name;
    EXPECT_NEAR(range.max, other.max, 1e-5 * std::abs(other.max)) << name;
    EXPECT_NEAR(range.scale, other.scale, 1e-5 * other.scale) << name;
  }
}

TEST(StreamCalibration, AutoDoesNotDependOnHowTheSamplesCome) {
  const Tensor all = samples(100);
  const Ranges once = calibrated(model("n"), {{all}});
  EXPECT_EQ(once.samples, 100);
  EXPECT_EQ(once.sample_hashes.size(), 100u) << "those that chose the method belong to them";
  EXPECT_NE(once.notes.back().find("on 20 samples held apart"), std::string::npos) << once.notes.back();
  for (int64_t size : {1, 7, 40}) {
    std::vector<std::vector<Tensor>> batches;
    for (int64_t first = 0; first < 100; first += size)
      batches.push_back({part(all, first, std::min(size, 100 - first))});
    SCOPED_TRACE(size);
    expect_alike(calibrated(model("n"), batches), once);
  }
}

TEST(StreamCalibration, AutoTakesTheLeastSquaredErrorOfAllSamplesWhereTooFewCanBeHeldApart) {
  const auto expect_unjudged = [](const Tensor& all, const char* held) {
    const Ranges got = calibrated(model("n"), {{all}}), wanted = calibrated(model("n"), {{all}}, "mse");
    EXPECT_EQ(got.samples, all.dims()[0]);
    EXPECT_EQ(got.method, "mse");
    ASSERT_EQ(got.notes.size(), wanted.notes.size() + 1);
    EXPECT_NE(got.notes.back().find(
                  concat("auto took mse: of the samples, ", std::string_view(held), " could be held apart")),
              std::string::npos)
        << got.notes.back();
    EXPECT_NE(got.notes.back().find("fewer than 16; 80 samples that differ are enough"), std::string::npos)
        << got.notes.back();
    expect_alike({got.model_sha256,
                  got.precision,
                  got.method,
                  got.samples,
                  got.seed,
                  false,
                  {},
                  wanted.notes,
                  got.sample_hashes,
                  got.values,
                  got.order,
                  ""},
                 wanted);
  };
  expect_unjudged(samples(5), "1");
  expect_unjudged(samples(75), "15");
  Tensor copies = samples(100);
  for (int64_t i = 8; i < copies.count(); ++i) copies.data<float>()[i] = copies.data<float>()[i % 8];
  expect_unjudged(copies, "0");
  EXPECT_NE(calibrated(model("n"), {{samples(80)}}).notes.back().find("auto chose "), std::string::npos);
}

TEST(StreamCalibration, AModelOfAFixedBatchIsFilledUp) {
  const Tensor all = samples(100);
  std::vector<std::vector<Tensor>> batches;
  for (int64_t first = 0; first < 100; first += 4) batches.push_back({part(all, first, 4)});
  EXPECT_EQ(calibrated(model("4"), batches).values, calibrated(model("n"), {{all}}).values);
}

TEST(StreamCalibration, AllSamplesAreCalibratedOnWithANamedMethod) {
  const Ranges ranges = calibrated(model("n"), {{samples(3)}, {samples(5, 1)}}, "minmax");
  EXPECT_EQ(ranges.samples, 8);
  EXPECT_EQ(ranges.method, "minmax");
  EXPECT_EQ(ranges.model_sha256, std::string(64, 'a'));
}

TEST(StreamCalibration, AnInputWithoutSamplesMustNotChangeWithAuto) {
  const auto of = [] { return model("n", "input %z: f32[3,1]\n", "%y"); };
  const Tensor all = samples(100), a = Tensor::of<float>({3, 1}, {1, 2, 3}), b = Tensor::of<float>({3, 1}, {1, 2, 4});
  const std::vector<std::vector<Tensor>> same = {{part(all, 0, 3), a}, {part(all, 3, 97), a}},
                                         other = {{part(all, 0, 3), a}, {part(all, 3, 97), b}};
  EXPECT_EQ(calibrated(of(), same).samples, 100);
  expect_refused(ErrorKind::usage, "'z' has no samples along its first axis and differs",
                 [&] { calibrated(of(), other); });
  EXPECT_EQ(calibrated(of(), other, "minmax").samples, 100);
}

TEST(StreamCalibration, WhatCannotBeCalibratedOnIsRefused) {
  expect_refused(ErrorKind::usage, "no batch came", [] { calibrated(model("n"), {}); });
  expect_refused(ErrorKind::usage, "no samples in it", [] { calibrated(model("n"), {{samples(0)}}); });
  expect_refused(ErrorKind::usage, "[2,9]",
                 [] { calibrated(model("n"), {{samples(20)}, {Tensor(DType::f32, {2, 9})}}); });
  expect_refused(ErrorKind::usage, "automatic", [] { calibrated(model("n"), {{samples(20)}}, "automatic"); });
  for (int64_t broken = 0; broken < 20; ++broken) {  // whether it is calibrated on or held apart
    Tensor all = samples(20);
    all.data<float>()[broken * 8 + 2] = NAN;
    expect_refused(ErrorKind::check_failed, concat("NaN for sample ", broken).c_str(),
                   [&] { calibrated(model("n"), {{all}}); });
  }
}

}  // namespace
}  // namespace temper
