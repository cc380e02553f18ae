// SPDX-License-Identifier: Apache-2.0
// The backend of Triton beside engines in this process, in a scripted server every call of which may fail.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "../cli/program.h"
#include "../paths.h"
#include "../plan/helpers.h"
#include "base/file.h"
#include "optimize/build_engine.h"
#include "scripted_server.h"
#include "temper/temper_c.h"

namespace temper {
namespace {

namespace fs = std::filesystem;
using testing::Answer;
using testing::ScriptedModel;
using testing::ScriptedServer;
using testing::SentInput;

constexpr const char* kConfig = R"({"name":"m","backend":"temper","max_batch_size":0,"input":[],"output":[]})";

std::vector<char> bytes_of(const Tensor& tensor) {
  const auto* const from = reinterpret_cast<const char*>(tensor.raw().data());
  return {from, from + tensor.bytes()};
}

// The request of one client: f32 inputs, in as many pieces as asked for.
TRITONBACKEND_Request request(const std::map<std::string, Tensor>& inputs, std::vector<std::string> outputs,
                              size_t pieces = 1) {
  TRITONBACKEND_Request made;
  for (const auto& [name, tensor] : inputs) {
    SentInput& sent = made.inputs[name];
    sent.dims = tensor.dims();
    const std::vector<char> all = bytes_of(tensor);
    for (size_t p = 0; p < pieces; ++p)
      sent.pieces.emplace_back(all.begin() + long(all.size() * p / pieces),
                               all.begin() + long(all.size() * (p + 1) / pieces));
  }
  made.outputs = std::move(outputs);
  return made;
}

class TritonBackend : public ::testing::Test {
 protected:
  void SetUp() override {
    server.reset();
    folder = fs::path(::testing::TempDir()) / concat("temper_triton_", getpid());
    fs::remove_all(folder);
    fs::create_directories(folder / "1");
  }
  void TearDown() override {
    for (const auto& [kind, count] : server.alive) ADD_FAILURE() << count << " of " << kind << " are left";
    for (const std::string& misuse : server.misuses) ADD_FAILURE() << misuse;
    fs::remove_all(folder);
    server.reset();
  }
  std::shared_ptr<Engine> put(Graph graph, std::map<std::string, ShapeRange> shapes,
                              const std::string& file = "model.temper", const std::string& device = "cpu",
                              bool pictures = false) {
    BuildOptions options;
    if (pictures) options.input_pictures = {""};
    options.measure = false;
    options.threads = 1;
    options.device = device;
    options.shapes = std::move(shapes);
    options.command = "temper build m.onnx -o m.plan";
    const auto engine = build_engine(std::move(graph), info_of(device), options);
    write_plan_file((folder / "1" / file).string(), plan_file_of(*engine), true);
    return engine;
  }
  // Convolutions and a product; batches to 8, tuned for 1, 2, 4 and 8.
  std::shared_ptr<Engine> put_small() {
    return put(small_graph("n"), {{"x", {{1, 3, 8, 8}, {8, 3, 8, 8}, {8, 3, 8, 8}}}});
  }
  // What comes of a sample of each, beside zeros, in a run of `bucket`.
  static Tensor rows_of(const std::shared_ptr<const Engine>& engine, const std::vector<Tensor>& parts, int64_t bucket) {
    Dims dims = parts[0].dims();
    dims[0] = bucket;
    Tensor all(DType::f32, dims);
    auto* to = reinterpret_cast<char*>(all.raw_mutable());
    std::memset(to, 0, size_t(all.bytes()));
    for (const Tensor& part : parts) {
      std::memcpy(to, part.raw().data(), size_t(part.bytes()));
      to += part.bytes();
    }
    return Session(engine).run({all})[0];
  }
  static std::vector<char> slice(const Tensor& all, int64_t row, int64_t rows) {
    const std::vector<char> bytes = bytes_of(all);
    const size_t one = bytes.size() / size_t(all.dims()[0]);
    return {bytes.begin() + long(one * size_t(row)), bytes.begin() + long(one * size_t(row + rows))};
  }

  ScriptedServer& server = ScriptedServer::get();
  fs::path folder;
};

TEST_F(TritonBackend, TheConfigurationComesFromThePlan) {
  put_small();
  ScriptedModel model("m", folder, kConfig);
  ASSERT_EQ(model.load(), "");
  EXPECT_TRUE(model.ready());
  const auto config = nlohmann::json::parse(model.config());
  EXPECT_EQ(config["max_batch_size"], 8);
  EXPECT_EQ(config["input"][0]["name"], "x");
  EXPECT_EQ(config["input"][0]["data_type"], "TYPE_FP32");
  EXPECT_EQ(config["input"][0]["dims"], (std::vector<int>{3, 8, 8}));
  EXPECT_EQ(config["dynamic_batching"]["preferred_batch_size"], (std::vector<int>{2, 4, 8}));
}

TEST_F(TritonBackend, WhatIsWrittenStaysAndIsNotCompletedWhereTheServerForbidsIt) {
  put_small();
  server.auto_complete = false;
  ScriptedModel model("m", folder, kConfig);
  const std::string error = model.load();
  EXPECT_CONTAINS(
      error, "the plan's input 'x' is missing. Write input { name: \"x\" data_type: TYPE_FP32 dims: [ -1, 3, 8, 8 ] }");
}

TEST_F(TritonBackend, AConfigurationThatContradictsThePlanIsToldTheLineToWrite) {
  put_small();
  const auto said = [&](const std::string& fields) {
    ScriptedModel model("m", folder, R"({"name":"m","backend":"temper",)" + fields + "}");
    return model.load();
  };
  const std::string x = R"("input":[{"name":"x","data_type":"TYPE_FP32","dims":[3,8,8]}],"max_batch_size":)";
  EXPECT_EQ(said(x + "4"), "");
  EXPECT_CONTAINS(said(x + "9"), "Write max_batch_size: 8");
  EXPECT_EQ(said(x + "0"), "") << "the batch is left out, so there is one";
  server.auto_complete = false;
  EXPECT_CONTAINS(said(x + "0"), "the plan has [ -1, 3, 8, 8 ]");
  server.auto_complete = true;
  EXPECT_CONTAINS(said(R"("max_batch_size":8,"input":[{"name":"x","data_type":"TYPE_FP16","dims":[3,8,8]}])"),
                  "Write data_type: TYPE_FP32");
  EXPECT_CONTAINS(said(R"("max_batch_size":8,"input":[{"name":"x","data_type":"TYPE_FP32","dims":["3","9","8"]}])"),
                  "Write dims: [ 3, 8, 8 ]");
  EXPECT_CONTAINS(said(R"("max_batch_size":8,"input":[{"name":"z","data_type":"TYPE_FP32","dims":[3,8,8]}])"),
                  "its inputs are 'x'");
  EXPECT_CONTAINS(said(R"("max_batch_size":8,"output":[{"name":"z","data_type":"TYPE_FP32","dims":[3]}])"),
                  "there is no output 'z'");
  EXPECT_CONTAINS(said(R"("parameters":{"pads":{"string_value":"off"}})"), "there are pad and device");
  EXPECT_CONTAINS(said(R"("parameters":{"pad":{"string_value":"no"}})"), "it is on or off");
  EXPECT_CONTAINS(said(R"("default_model_filename":"other.plan")"), "other.plan");
}

TEST_F(TritonBackend, OneRequestIsAnsweredInTheServersMemoryWithTheBitsOfAnInProcessRun) {
  const auto engine = put_small();
  ScriptedModel model("m", folder, kConfig);
  ASSERT_EQ(model.load(), "");
  for (const int64_t rows : {1, 2, 4, 8}) {
    const Tensor x = noise({rows, 3, 8, 8}, uint32_t(rows));
    TRITONBACKEND_Request one = request({{"x", x}}, {"y"});
    ASSERT_EQ(model.execute({&one}), "");
    const Answer& answer = one.answer;
    ASSERT_FALSE(answer.failed) << answer.error;
    EXPECT_EQ(answer.sent, 1);
    EXPECT_EQ(answer.released, 1);
    EXPECT_EQ(answer.outputs.at("y").bytes, bytes_of(Session(engine).run({x})[0]));
    EXPECT_EQ(answer.parameters.at("temper_bucket"), rows);
    EXPECT_EQ(answer.parameters.at("temper_row"), 0);
    EXPECT_TRUE(answer.success);
  }
  EXPECT_EQ(server.batches, (std::vector<uint64_t>{1, 2, 4, 8}));
  EXPECT_EQ(server.metrics.at("temper_runs_total{model=m,version=1,bucket=4}"), 1);
  EXPECT_EQ(server.metrics.at("temper_rows_total{model=m,version=1}"), 15);
  EXPECT_EQ(server.metrics.count("temper_padded_rows_total{model=m,version=1}"), 0u);
  EXPECT_GT(server.metrics.at("temper_send_us_total{model=m,version=1}"), 0);
}

TEST_F(TritonBackend, SeveralRequestsAreOneRunOfTheNextBucketWhichTheResponsesName) {
  const auto engine = put_small();
  ScriptedModel model("m", folder, kConfig);
  ASSERT_EQ(model.load(), "");
  const std::vector<Tensor> parts{noise({1, 3, 8, 8}, 1), noise({3, 3, 8, 8}, 2), noise({1, 3, 8, 8}, 3)};
  std::vector<TRITONBACKEND_Request> all;
  for (size_t i = 0; i < parts.size(); ++i) all.push_back(request({{"x", parts[i]}}, {"y"}, i + 1));
  ASSERT_EQ(model.execute({&all[0], &all[1], &all[2]}), "");
  const Tensor want = rows_of(engine, parts, 8);
  const int64_t rows[] = {0, 1, 4};
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_FALSE(all[i].answer.failed) << all[i].answer.error;
    EXPECT_EQ(all[i].answer.parameters.at("temper_bucket"), 8);
    EXPECT_EQ(all[i].answer.parameters.at("temper_row"), rows[i]);
    EXPECT_EQ(all[i].answer.outputs.at("y").dims[0], parts[i].dims()[0]);
    EXPECT_EQ(all[i].answer.outputs.at("y").bytes, slice(want, rows[i], parts[i].dims()[0]));
  }
  EXPECT_EQ(server.batches, (std::vector<uint64_t>{5}));
  EXPECT_EQ(server.metrics.at("temper_padded_rows_total{model=m,version=1}"), 3);
}

TEST_F(TritonBackend, WithoutPaddingABatchIsPlannedAsItComes) {
  const auto engine = put_small();
  ScriptedModel model("m", folder, R"({"name":"m","backend":"temper","parameters":{"pad":{"string_value":"off"}}})");
  ASSERT_EQ(model.load(), "");
  const Tensor x = noise({3, 3, 8, 8}, 1);
  for (int i = 0; i < 2; ++i) {
    TRITONBACKEND_Request one = request({{"x", x}}, {"y"});
    ASSERT_EQ(model.execute({&one}), "");
    ASSERT_FALSE(one.answer.failed) << one.answer.error;
    EXPECT_EQ(one.answer.parameters.at("temper_bucket"), 3);
    EXPECT_EQ(one.answer.outputs.at("y").bytes, bytes_of(Session(engine).run({x})[0]));
  }
  EXPECT_EQ(server.metrics.at("temper_plans_made_total{model=m,version=1}"), 1);
}

// Shapes that are those of the run before are not looked up again; others between them are.
TEST_F(TritonBackend, ShapesThatTakeTurnsGetTheirOwnAnswers) {
  const auto engine = put(parse_graph("graph \"g\"\n"
                                      "input %x: f32[n,k]\n"
                                      "%y: f32[n,k] = pointwise(%x) program=\"(1) 1=relu.f32(0)\"\n"
                                      "output \"y\" = %y\n"),
                          {{"x", {{1, 1}, {2, 4}, {4, 8}}}});
  ScriptedModel model("m", folder, kConfig);
  ASSERT_EQ(model.load(), "");
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {2, 4}, {2, 4}, {2, 5}, {2, 4}, {4, 4}, {4, 5}, {4, 5}, {1, 8}, {2, 4}}) {
    const Tensor x = noise({rows, columns}, uint32_t(rows * 10 + columns));
    TRITONBACKEND_Request one = request({{"x", x}}, {"y"});
    ASSERT_EQ(model.execute({&one}), "");
    ASSERT_FALSE(one.answer.failed) << one.answer.error;
    EXPECT_EQ(one.answer.outputs.at("y").dims, (std::vector<int64_t>{rows, columns}));
    EXPECT_EQ(one.answer.outputs.at("y").bytes, bytes_of(Session(engine).run({x})[0]));
  }
}

TEST_F(TritonBackend, ACancelledRequestIsNotRunAndTheOthersAre) {
  put_small();
  ScriptedModel model("m", folder, kConfig);
  ASSERT_EQ(model.load(), "");
  TRITONBACKEND_Request one = request({{"x", noise({1, 3, 8, 8}, 1)}}, {"y"}), other = one;
  one.cancelled = true;
  ASSERT_EQ(model.execute({&one, &other}), "");
  EXPECT_EQ(one.answer.code, TRITONSERVER_ERROR_CANCELLED);
  EXPECT_EQ(one.answer.released, 1);
  EXPECT_FALSE(other.answer.failed);
  EXPECT_EQ(server.batches, (std::vector<uint64_t>{1}));
  TRITONBACKEND_Request alone = one;
  alone.answer = {};
  ASSERT_EQ(model.execute({&alone}), "");
  EXPECT_EQ(server.batches.size(), 1u) << "nothing was to run";
  EXPECT_EQ(server.metrics.at("temper_cancelled_total{model=m,version=1}"), 2);
}

TEST_F(TritonBackend, AWrongRequestFailsAloneAndSaysWhy) {
  put_small();
  ScriptedModel model("m", folder, kConfig);
  ASSERT_EQ(model.load(), "");
  const TRITONBACKEND_Request good = request({{"x", noise({1, 3, 8, 8}, 1)}}, {"y"});
  std::vector<std::pair<TRITONBACKEND_Request, std::string>> wrong;
  wrong.emplace_back(request({{"z", noise({1, 3, 8, 8}, 1)}}, {"y"}), "unknown request input name x");
  wrong.emplace_back(request({{"x", noise({1, 3, 8, 9}, 1)}}, {"y"}), "expected are");
  wrong.emplace_back(request({{"x", noise({1, 3, 8}, 1)}}, {"y"}), "expected are");
  wrong.emplace_back(request({{"x", noise({1, 3, 8, 8}, 1)}}, {"q"}), "there is no output 'q'");
  wrong.emplace_back(good, "another type");
  wrong.back().first.inputs["x"].type = TRITONSERVER_TYPE_INT32;
  wrong.emplace_back(good, "768");
  wrong.back().first.inputs["x"].pieces[0].resize(764);
  wrong.emplace_back(good, "memory of GPU 0, and the plan runs on cpu");
  wrong.back().first.inputs["x"].memory = TRITONSERVER_MEMORY_GPU;
  wrong.emplace_back(good, "wanted in the memory of GPU 0");
  wrong.back().first.output_in_gpu["y"] = &server;
  for (auto& [bad, why] : wrong) {
    TRITONBACKEND_Request other = good;
    ASSERT_EQ(model.execute({&bad, &other}), "");
    EXPECT_TRUE(bad.answer.failed) << why;
    EXPECT_CONTAINS(bad.answer.error, why);
    EXPECT_EQ(bad.answer.sent, 1);
    EXPECT_EQ(bad.answer.released, 1);
    EXPECT_FALSE(bad.answer.success);
    EXPECT_FALSE(other.answer.failed) << why << ": " << other.answer.error;
  }
}

// Each call that the backend makes fails once, from loading to the answer of joined requests and one by itself.
TEST_F(TritonBackend, WhateverCallFailsEveryRequestIsReleasedOnceAndNothingIsLeft) {
  put_small();
  int64_t loads = 0, at = 1;
  std::set<std::string> failed;
  for (bool hit = true; hit; ++at) {
    server.reset();
    server.fails_at = at;
    {
      ScriptedModel model("m", folder, kConfig);
      const std::string error = model.load();
      if (error.empty()) {
        ++loads;
        std::vector<TRITONBACKEND_Request> all;
        for (int i = 0; i < 4; ++i) all.push_back(request({{"x", noise({i == 1 ? 2 : 1, 3, 8, 8}, 1)}}, {"y"}));
        all[2].cancelled = true;
        const std::string together = model.execute({&all[0], &all[1], &all[2]}), alone = model.execute({&all[3]});
        for (size_t i = 0; i < all.size(); ++i) {
          const Answer& answer = all[i].answer;
          if (!(i < 3 ? together : alone).empty()) {  // the requests are still the server's
            EXPECT_EQ(answer.released + answer.sent, 0) << server.failed_call;
            continue;
          }
          EXPECT_EQ(answer.released, server.failed_call == "RequestRelease" ? answer.released : 1)
              << server.failed_call;
          EXPECT_LE(answer.sent, 1);
          if (answer.sent && !answer.failed) { EXPECT_EQ(answer.outputs.count("y"), 1u); }
        }
      } else {
        EXPECT_CONTAINS(error, "scripted: ");
      }
    }
    hit = !server.failed_call.empty();
    failed.insert(server.failed_call);
    for (const auto& [kind, count] : server.alive)
      ADD_FAILURE() << server.failed_call << " leaves " << count << ' ' << kind;
    for (const std::string& misuse : server.misuses) ADD_FAILURE() << server.failed_call << ": " << misuse;
    if (HasFailure()) break;
  }
  EXPECT_GT(loads, 20);
  for (const char* call :
       {"ResponseNew", "ResponseOutput", "OutputBuffer", "ResponseSend", "RequestRelease", "InputBuffer",
        "ModelSetConfig", "ModelInstanceSetState", "MetricNew", "ParameterNew", "RequestIsCancelled"})
    EXPECT_EQ(failed.count(call), 1u) << call;
}

TEST_F(TritonBackend, ServersWithoutCancellationAreRefusedByTheirVersion) {
  put_small();
  server.minor = 15;
  EXPECT_CONTAINS(ScriptedModel("m", folder, kConfig).load(), "1.15; Temper's backend needs 1.16");
}

TEST_F(TritonBackend, OfSeveralPlansTheOneForThisMachineIsUsed) {
  const auto engine = put_small();
  std::string damaged(200, 'x');
  std::ofstream(folder / "1" / "a.temper") << damaged;
  fs::rename(folder / "1" / "model.temper", folder / "1" / "z.temper");
  ScriptedModel model("m", folder, kConfig);
  ASSERT_EQ(model.load(), "");
  fs::remove(folder / "1" / "z.temper");
  EXPECT_CONTAINS(ScriptedModel("m", folder, kConfig).load(), "a.temper");
  fs::remove(folder / "1" / "a.temper");
  EXPECT_CONTAINS(ScriptedModel("m", folder, kConfig).load(), "temper repository add");
}

TEST_F(TritonBackend, APlanOfAnotherMachineIsRefusedWithTheCommandThatBuildsIt) {
  const auto engine = put_small();
  PlanFile file = plan_file_of(*engine);
  file.info.fingerprint = "cpu of another";
  write_plan_file((folder / "1" / "model.temper").string(), file, true);
  const std::string error = ScriptedModel("m", folder, kConfig).load();
  EXPECT_CONTAINS(error, "temper build m.onnx -o m.plan");
}

TEST_F(TritonBackend, InstanceGroupsOfAnotherDeviceThanThePlansAreRefused) {
  put_small();
  EXPECT_CONTAINS(ScriptedModel("m", folder, R"({"name":"m","instance_group":[{"kind":"KIND_GPU"}]})")
                      .load(TRITONSERVER_INSTANCEGROUPKIND_GPU),
                  "it is for cpu");
  ScriptedModel model("m", folder, R"({"name":"m","instance_group":[{"kind":"KIND_CPU"}]})");
  EXPECT_EQ(model.load(TRITONSERVER_INSTANCEGROUPKIND_CPU), "");
}

// A request of encoded pictures as the server gives it: each behind its length.
TRITONBACKEND_Request encoded(const std::vector<std::string>& files, size_t pieces = 1) {
  std::vector<char> all;
  for (const std::string& file : files) {
    const uint32_t bytes = uint32_t(file.size());
    const auto* const length = reinterpret_cast<const char*>(&bytes);
    all.insert(all.end(), length, length + 4);
    all.insert(all.end(), file.begin(), file.end());
  }
  TRITONBACKEND_Request made;
  SentInput& sent = made.inputs["x"];
  sent.type = TRITONSERVER_TYPE_BYTES;
  sent.dims = {int64_t(files.size()), 1};
  for (size_t p = 0; p < pieces; ++p)
    sent.pieces.emplace_back(all.begin() + long(all.size() * p / pieces),
                             all.begin() + long(all.size() * (p + 1) / pieces));
  made.outputs = {"y"};
  return made;
}

std::string picture(const std::string& name) {
  return read_file(paths::source_folder() + "/tests/fuzz/seeds/picture/" + name);
}

constexpr const char* kEncoded =
    R"({"name":"m","backend":"temper","max_batch_size":0,"input":[{"name":"x","data_type":"TYPE_STRING","dims":[1]}]})";

class TritonPictures : public TritonBackend {
 protected:
  // A plan that takes pixels, in batches up to 8.
  void SetUp() override {
    TritonBackend::SetUp();
    engine = put(small_graph("n"), {{"x", {{1, 3, 8, 8}, {8, 3, 8, 8}, {8, 3, 8, 8}}}}, "model.temper", "cpu", true);
    ASSERT_EQ(engine->inputs()[0].type.dtype, DType::u8);
  }
  // What the C API makes of the pictures, in a run of `bucket`.
  Tensor want(const std::vector<std::string>& files, int64_t bucket) const {
    temper_engine* its = nullptr;
    EXPECT_EQ(temper_engine_load((folder / "1/model.temper").c_str(), &its), TEMPER_OK) << temper_last_error();
    Tensor pixels(DType::u8, {bucket, 8, 8, 3});
    std::memset(pixels.raw_mutable(), 0, size_t(pixels.bytes()));
    for (size_t i = 0; i < files.size(); ++i)
      EXPECT_EQ(temper_picture_decode(its, 0, nullptr, files[i].data(), files[i].size(),
                                      reinterpret_cast<char*>(pixels.raw_mutable()) + i * 192, 192),
                TEMPER_OK)
          << temper_last_error();
    temper_engine_free(its);
    return Session(engine).run({pixels})[0];
  }
  std::shared_ptr<Engine> engine;
};

TEST_F(TritonPictures, PlansTakePicturesAsPixelsOrAsFiles) {
  {
    ScriptedModel model("m", folder, kConfig);
    ASSERT_EQ(model.load(), "");
    const auto config = nlohmann::json::parse(model.config());
    EXPECT_EQ(config["input"][0]["data_type"], "TYPE_UINT8");
    EXPECT_EQ(config["input"][0]["dims"], (std::vector<int>{8, 8, 3}));
  }
  ScriptedModel model("m", folder, kEncoded);
  ASSERT_EQ(model.load(), "");
  const auto config = nlohmann::json::parse(model.config());
  EXPECT_EQ(config["max_batch_size"], 8);
  EXPECT_EQ(config["input"][0]["data_type"], "TYPE_STRING");
  const std::vector<std::string> files{picture("rgb.jpg"), picture("rgb.png"), picture("progressive.jpg"),
                                       picture("lossy.webp")};
  for (const size_t pieces : {1, 3}) {
    TRITONBACKEND_Request two = encoded({files[0], files[1]}, pieces);
    ASSERT_EQ(model.execute({&two}), "");
    ASSERT_FALSE(two.answer.failed) << two.answer.error;
    EXPECT_EQ(two.answer.outputs.at("y").bytes, bytes_of(want({files[0], files[1]}, 2)));
  }
  TRITONBACKEND_Request one = encoded({files[2]}), three = encoded({files[3], files[0], files[1]});
  ASSERT_EQ(model.execute({&one, &three}), "");
  const Tensor all = want({files[2], files[3], files[0], files[1]}, 4);
  EXPECT_EQ(one.answer.outputs.at("y").bytes, slice(all, 0, 1));
  EXPECT_EQ(three.answer.outputs.at("y").bytes, slice(all, 1, 3));
}

TEST_F(TritonPictures, APictureThatCannotBeReadIsTheErrorOfItsRequestAlone) {
  ScriptedModel model("m", folder, kEncoded);
  ASSERT_EQ(model.load(), "");
  const std::string good = picture("rgb.jpg");
  std::vector<std::pair<TRITONBACKEND_Request, std::string>> wrong;
  wrong.emplace_back(encoded({good, good.substr(0, 40)}), "input 'x', picture 1: ");
  wrong.emplace_back(encoded({"no picture"}), "input 'x', picture 0: ");
  wrong.emplace_back(encoded({""}), "input 'x', picture 0: ");
  wrong.emplace_back(encoded({picture("huge_rows.bmp")}), "input 'x', picture 0: ");
  wrong.emplace_back(encoded({good}), "ends in picture 0 of 1");
  wrong.back().first.inputs["x"].pieces[0].pop_back();
  wrong.emplace_back(encoded({good, good}), "ends in picture 1 of 2");
  wrong.back().first.inputs["x"].pieces[0].resize(4 + good.size() + 3);
  wrong.emplace_back(encoded({good, good}), "bytes behind its last picture");
  wrong.back().first.inputs["x"].dims = {1, 1};
  wrong.emplace_back(encoded({good}), "[1,2]; it takes a string for each of up to 8 pictures");
  wrong.back().first.inputs["x"].dims = {1, 2};
  wrong.emplace_back(encoded(std::vector<std::string>(9, good)), "[9,1]; it takes a string for each of up to 8");
  wrong.emplace_back(encoded({good}), "another type than the configuration's, TYPE_STRING");
  wrong.back().first.inputs["x"].type = TRITONSERVER_TYPE_UINT8;
  wrong.emplace_back(encoded({good}), "memory of GPU 0, and encoded pictures are read on the host");
  wrong.back().first.inputs["x"].memory = TRITONSERVER_MEMORY_GPU;
  for (auto& [bad, why] : wrong) {
    TRITONBACKEND_Request other = encoded({good});
    ASSERT_EQ(model.execute({&bad, &other}), "");
    EXPECT_TRUE(bad.answer.failed) << why;
    EXPECT_EQ(bad.answer.code,
              why.starts_with("memory") ? TRITONSERVER_ERROR_UNSUPPORTED : TRITONSERVER_ERROR_INVALID_ARG);
    EXPECT_CONTAINS(bad.answer.error, why);
    EXPECT_EQ(bad.answer.released, 1);
    EXPECT_EQ(other.answer.outputs.at("y").bytes, bytes_of(want({good}, 1))) << why;
  }
}

TEST_F(TritonPictures, AConfigurationOfPicturesThatDoesNotFitIsToldTheLineToWrite) {
  const auto said = [&](const std::string& io) {
    ScriptedModel model("m", folder, R"({"name":"m","backend":"temper","input":[)" + io + "]}");
    return model.load();
  };
  EXPECT_CONTAINS(said(R"({"name":"x","data_type":"TYPE_STRING","dims":[8,8,3]})"), "Write dims: [ 1 ]");
  EXPECT_CONTAINS(said(R"({"name":"x","data_type":"TYPE_STRING","dims":[-1]})"), "Write dims: [ 1 ]");
  EXPECT_EQ(said(R"({"name":"x","data_type":"TYPE_STRING","dims":["1"]})"), "");
  put(parse_graph("graph \"g\"\ninput %x: f32[n,4]\n%y: f32[n,4] = softmax(%x) axis=1\noutput \"y\" = %y\n"),
      {{"x", {{1, 4}, {4, 4}, {4, 4}}}});
  EXPECT_CONTAINS(said(R"({"name":"x","data_type":"TYPE_STRING","dims":[1]})"),
                  "no picture can become it. Write data_type: TYPE_FP32");
}

// Of a plan without rows that are independent: the softmax over the batch.
TEST_F(TritonBackend, RequestsAreNotJoinedWhereTheirAnswersWouldChange) {
  put(parse_graph("graph \"g\"\n"
                  "input %x: f32[n,4]\n"
                  "%y: f32[n,4] = softmax(%x) axis=0\n"
                  "output \"y\" = %y\n"),
      {{"x", {{1, 4}, {4, 4}, {4, 4}}}});
  {
    ScriptedModel model("m", folder, kConfig);
    ASSERT_EQ(model.load(), "");
    const auto config = nlohmann::json::parse(model.config());
    EXPECT_EQ(config["max_batch_size"], 0);
    EXPECT_EQ(config["input"][0]["dims"], (std::vector<int>{-1, 4}));
    EXPECT_FALSE(config.contains("dynamic_batching"));
  }
  EXPECT_CONTAINS(::testing::PrintToString(server.lines), "depends on the others of the batch");
  ScriptedModel model("m", folder, R"({"name":"m","max_batch_size":4})");
  EXPECT_CONTAINS(model.load(), "Write max_batch_size: 0");
}

// Ops that do not say of themselves that samples are independent, and are: it is found by two runs.
TEST_F(TritonBackend, SamplesThatAreIndependentByTheirBitsAreJoined) {
  put(parse_graph("graph \"g\"\n"
                  "input %x: f32[n,4]\n"
                  "%y: f32[n,4] = normalize(%x) axes=[1] epsilon=1e-5 center=true\n"
                  "output \"y\" = %y\n"),
      {{"x", {{1, 4}, {4, 4}, {4, 4}}}});
  ScriptedModel model("m", folder, kConfig);
  ASSERT_EQ(model.load(), "");
  EXPECT_EQ(nlohmann::json::parse(model.config())["max_batch_size"], 4);
}

TEST_F(TritonBackend, AStateGoesToTheServerAndComesBackAsAnInput) {
  put(parse_graph("graph \"g\"\n"
                  "input %x: f32[n,4]\ninput %s: f32[n,4]\n"
                  "%y: f32[n,4] = pointwise(%x, %s) program=\"(2) 2=add.f32(0,1)\"\n"
                  "%z: f32[n,4] = pointwise(%y) program=\"(1) 1=relu.f32(0)\"\n"
                  "output \"y\" = %z\noutput \"next\" = %y\n"),
      {{"x", {{1, 4}, {4, 4}, {4, 4}}}, {"s", {{1, 4}, {4, 4}, {4, 4}}}});
  EXPECT_CONTAINS(
      ScriptedModel(
          "m", folder,
          R"({"name":"m","max_batch_size":4,"sequence_batching":{"state":[{"input_name":"t","output_name":"next"}]}})")
          .load(),
      "input_name 't' is none of the plan's inputs, which are 'x', 's'");
  ScriptedModel model(
      "m", folder,
      R"({"name":"m","max_batch_size":4,"sequence_batching":{"state":[{"input_name":"s","output_name":"next"}]}})");
  ASSERT_EQ(model.load(), "");
  const auto config = nlohmann::json::parse(model.config());
  EXPECT_EQ(config["input"].size(), 1u);
  EXPECT_EQ(config["output"].size(), 1u);
  std::vector<Tensor> states{noise({1, 4}, 3), noise({1, 4}, 4)};
  for (int step = 0; step < 3; ++step) {
    const Tensor x = noise({1, 4}, uint32_t(step));
    TRITONBACKEND_Request one = request({{"x", x}, {"s", states[0]}}, {"y"}),
                          two = request({{"x", x}, {"s", states[1]}}, {"y"});
    ASSERT_EQ(model.execute({&one, &two}), "");
    int i = 0;
    for (const TRITONBACKEND_Request* const its : {&one, &two}) {
      ASSERT_FALSE(its->answer.failed) << its->answer.error;
      const auto& state = its->answer.states.at("next").bytes;
      Tensor next(DType::f32, {1, 4});
      for (int k = 0; k < 4; ++k) next.data<float>()[k] = x.data<float>()[k] + states[size_t(i)].data<float>()[k];
      EXPECT_EQ(state, bytes_of(next));
      states[size_t(i++)] = next;
    }
  }
}

}  // namespace
}  // namespace temper
