// SPDX-License-Identifier: Apache-2.0
// The C API beside the library's own classes.
#include "temper/temper_c.h"

#include <cstring>
#include <filesystem>
#include <thread>

#include "../cli/program.h"
#include "../paths.h"
#include "api/handle.h"
#include "base/version.h"
#include "onnx/write.h"
#include "optimize/build_engine.h"

namespace temper {
namespace {

const std::string kModel = paths::source_folder() + "/models/digits_cnn.onnx";
constexpr int64_t kLow[] = {1, 1, 8, 8}, kHigh[] = {4, 1, 8, 8};
constexpr temper_shape_range kShapes = {"image", 4, kLow, kLow, kHigh};

temper_build_options options() {
  temper_build_options plain = {};
  plain.threads = 1;
  plain.shapes = &kShapes;
  plain.shape_count = 1;
  return plain;
}

// Fails, says `parts`, and gives nothing.
void refused(temper_status got, temper_status wanted, const std::vector<std::string>& parts) {
  EXPECT_EQ(int(got), int(wanted)) << temper_last_error();
  for (const std::string& part : parts) EXPECT_CONTAINS(std::string(temper_last_error()), part);
}

std::vector<float> pixels(int64_t batch, float seed) {
  std::vector<float> list(size_t(batch * 64));
  for (size_t i = 0; i < list.size(); ++i) list[i] = float((i * 7 + size_t(seed * 100)) % 17) / 16;
  return list;
}

class CApi : public ::testing::Test {
 protected:
  // Built once: measuring takes its time.
  static void SetUpTestSuite() {
    const temper_build_options build = options();
    ASSERT_EQ(temper_engine_build(kModel.c_str(), &build, &engine_), TEMPER_OK) << temper_last_error();
  }
  static void TearDownTestSuite() {
    temper_engine_free(engine_);
    engine_ = nullptr;
  }
  void SetUp() override { ASSERT_EQ(temper_session_create(engine_, &session_), TEMPER_OK) << temper_last_error(); }
  void TearDown() override { temper_session_free(session_); }

  static std::vector<float> run(temper_session* session, int64_t batch, float seed) {
    const std::vector<float> data = pixels(batch, seed);
    const int64_t dims[] = {batch, 1, 8, 8};
    const temper_tensor input = {TEMPER_F32, 4, dims, data.data()};
    temper_tensor output = {};
    EXPECT_EQ(temper_session_run(session, &input, 1), TEMPER_OK) << temper_last_error();
    EXPECT_EQ(temper_session_output(session, 0, &output), TEMPER_OK) << temper_last_error();
    EXPECT_EQ(output.dtype, TEMPER_F32);
    EXPECT_EQ(std::vector<int64_t>(output.dims, output.dims + output.rank), (std::vector<int64_t>{batch, 10}));
    const auto* values = static_cast<const float*>(output.data);
    return {values, values + batch * 10};
  }
  // By the library's own classes, from the same plans.
  static std::vector<float> expected(int64_t batch, float seed) {
    Session session(engine_->engine);
    const Tensor output = session.run({Tensor::of<float>({batch, 1, 8, 8}, pixels(batch, seed))})[0];
    return {output.data<float>(), output.data<float>() + output.count()};
  }

  static temper_engine* engine_;
  temper_session* session_ = nullptr;
};
temper_engine* CApi::engine_ = nullptr;

TEST_F(CApi, AnEngineIsNotSavedOverItsModelNorOverWhatIsNoPlan) {
  const std::string folder = test_folder(), model = folder + "m.onnx", plan = folder + "m.plan",
                    notes = folder + "notes.txt";
  std::filesystem::copy_file(kModel, model);
  std::filesystem::create_hard_link(model, folder + "same");
  const std::string bytes = read_file(model);
  write_text(notes, "mine");
  temper_engine *built = nullptr, *loaded = nullptr;
  const temper_build_options build = options();
  ASSERT_EQ(temper_engine_build(model.c_str(), &build, &built), TEMPER_OK) << temper_last_error();
  for (const auto save : {temper_engine_save, temper_engine_save_over})
    for (const std::string& path : {model, folder + "same"})
      refused(save(built, path.c_str()), TEMPER_USAGE, {"is one of the files to read"});
  EXPECT_EQ(read_file(model), bytes);
  refused(temper_engine_save(built, notes.c_str()), TEMPER_USAGE, {"a file that Temper did not write"});
  EXPECT_EQ(read_file(notes), "mine");
  EXPECT_EQ(temper_engine_save_over(built, notes.c_str()), TEMPER_OK) << temper_last_error();
  ASSERT_EQ(temper_engine_save(built, plan.c_str()), TEMPER_OK) << temper_last_error();
  EXPECT_EQ(temper_engine_save(built, plan.c_str()), TEMPER_OK) << "a plan over a plan";
  ASSERT_EQ(temper_engine_load(plan.c_str(), &loaded), TEMPER_OK) << temper_last_error();
  refused(temper_engine_save_over(loaded, plan.c_str()), TEMPER_USAGE, {"is one of the files to read"});
  temper_build_options cached = options();
  cached.timing_cache = model.c_str();
  temper_engine* none = nullptr;
  refused(temper_engine_build(kModel.c_str(), &cached, &none), TEMPER_USAGE, {"no timing cache"});
  EXPECT_EQ(read_file(model), bytes);
  temper_engine_free(built);
  temper_engine_free(loaded);
}

TEST_F(CApi, RunsAsTheLibrarysOwnSessionDoes) {
  for (int64_t batch : {1, 4, 3, 1})
    EXPECT_EQ(run(session_, batch, 0.25f * float(batch)), expected(batch, 0.25f * float(batch))) << batch;
}

TEST_F(CApi, NamesPorts) {
  ASSERT_EQ(temper_engine_input_count(engine_), 1u);
  ASSERT_EQ(temper_engine_output_count(engine_), 1u);
  temper_port port;
  ASSERT_EQ(temper_engine_input(engine_, 0, &port), TEMPER_OK);
  EXPECT_STREQ(port.name, "image");
  EXPECT_EQ(port.dtype, TEMPER_F32);
  EXPECT_EQ(std::vector<int64_t>(port.dims, port.dims + port.rank), (std::vector<int64_t>{-1, 1, 8, 8}));
  ASSERT_EQ(temper_engine_output(engine_, 0, &port), TEMPER_OK);
  EXPECT_STREQ(port.name, "logits");
  EXPECT_EQ(std::vector<int64_t>(port.dims, port.dims + port.rank), (std::vector<int64_t>{-1, 10}));
}

TEST_F(CApi, ASavedPlanRunsTheSame) {
  const std::string plan = test_folder() + "digits.plan";
  ASSERT_EQ(temper_engine_save(engine_, plan.c_str()), TEMPER_OK) << temper_last_error();
  temper_engine* loaded = nullptr;
  ASSERT_EQ(temper_engine_load(plan.c_str(), &loaded), TEMPER_OK) << temper_last_error();
  temper_session* session = nullptr;
  ASSERT_EQ(temper_session_create(loaded, &session), TEMPER_OK);
  temper_engine_free(loaded);  // the session keeps what it needs
  EXPECT_EQ(run(session, 2, 0.5f), run(session_, 2, 0.5f));
  temper_session_free(session);
}

// Bytes that Temper made, as a string.
std::string taken(temper_bytes* bytes) {
  const std::string copy(static_cast<const char*>(temper_bytes_data(bytes)), temper_bytes_size(bytes));
  EXPECT_EQ(static_cast<const char*>(temper_bytes_data(bytes))[copy.size()], '\0');
  temper_bytes_free(bytes);
  return copy;
}

TEST_F(CApi, ModelsAndPlansAreReadFromAndWrittenToMemory) {
  const std::string plan_path = test_folder() + "digits.plan", model = read_file(kModel);
  const temper_build_options build = options();
  temper_engine *built = nullptr, *loaded = nullptr;
  ASSERT_EQ(temper_engine_build_bytes(model.data(), model.size(), &build, &built), TEMPER_OK) << temper_last_error();
  temper_bytes* bytes = nullptr;
  ASSERT_EQ(temper_engine_save_bytes(built, &bytes), TEMPER_OK) << temper_last_error();
  const std::string plan = taken(bytes);
  ASSERT_EQ(temper_engine_save(built, plan_path.c_str()), TEMPER_OK) << temper_last_error();
  EXPECT_EQ(read_file(plan_path), plan);
  for (size_t offset : {0, 1}) {  // of any alignment
    std::string moved = std::string(offset, ' ') + plan;
    ASSERT_EQ(temper_engine_load_bytes(moved.data() + offset, plan.size(), nullptr, &loaded), TEMPER_OK)
        << temper_last_error();
    std::fill(moved.begin(), moved.end(), '?');  // it was copied
    temper_session *first = nullptr, *second = nullptr;
    ASSERT_EQ(temper_session_create(loaded, &first), TEMPER_OK);
    ASSERT_EQ(temper_session_create(built, &second), TEMPER_OK);
    EXPECT_EQ(run(first, 2, 0.5f), run(second, 2, 0.5f));
    temper_session_free(first);
    temper_session_free(second);
    temper_engine_free(loaded);
    loaded = nullptr;
  }
  temper_engine_free(built);
  built = nullptr;
  temper_load_options mapped = {};
  mapped.map_file = 1;
  refused(temper_engine_load_bytes(plan.data(), plan.size(), &mapped, &loaded), TEMPER_USAGE, {"map_file"});
  refused(temper_engine_load_bytes(plan.data(), plan.size() - 1, nullptr, &loaded), TEMPER_BAD_FILE, {});
  refused(temper_engine_load_bytes(model.data(), model.size(), nullptr, &loaded), TEMPER_BAD_FILE, {"plan"});
  refused(temper_engine_load_bytes(nullptr, 5, nullptr, &loaded), TEMPER_USAGE, {"the plan is NULL"});
  refused(temper_engine_build_bytes(plan.data(), plan.size(), &build, &built), TEMPER_BAD_FILE, {});
  refused(temper_engine_build_bytes(model.data(), 0, &build, &built), TEMPER_BAD_FILE, {"no bytes"});
  refused(temper_engine_save_bytes(nullptr, &bytes), TEMPER_USAGE, {"the engine is NULL"});
  EXPECT_EQ(built, nullptr);
  EXPECT_EQ(loaded, nullptr);
  EXPECT_EQ(temper_bytes_size(nullptr), 0u);
  EXPECT_EQ(temper_bytes_data(nullptr), nullptr);
}

TEST_F(CApi, DimensionsOfOutputsAreKnownBeforeAnythingIsPlanned) {
  temper_engine_statistics before, after;
  ASSERT_EQ(temper_engine_read_statistics(engine_, &before), TEMPER_OK);
  for (int64_t batch : {1, 3}) {
    const int64_t dims[] = {batch, 1, 8, 8};
    const temper_tensor shape = {TEMPER_F32, 4, dims, nullptr};
    int64_t out[3] = {7, 7, 7};
    ASSERT_EQ(temper_engine_output_dims(engine_, &shape, 1, 0, out), TEMPER_OK) << temper_last_error();
    EXPECT_EQ(std::vector<int64_t>(out, out + 3), (std::vector<int64_t>{batch, 10, 7}));
  }
  ASSERT_EQ(temper_engine_read_statistics(engine_, &after), TEMPER_OK);
  EXPECT_EQ(after.plans_made, before.plans_made);
  const int64_t wide[] = {5, 1, 8, 8};
  const temper_tensor shape = {TEMPER_F32, 4, wide, nullptr}, other = {TEMPER_I32, 4, kLow, nullptr};
  int64_t out[2] = {7, 7};
  refused(temper_engine_output_dims(engine_, &shape, 1, 0, out), TEMPER_USAGE, {"[5,1,8,8]"});
  refused(temper_engine_output_dims(engine_, &other, 1, 0, out), TEMPER_USAGE, {"i32"});
  refused(temper_engine_output_dims(engine_, &shape, 1, 1, out), TEMPER_USAGE, {"no output 1"});
  refused(temper_engine_output_dims(engine_, &shape, 1, 0, nullptr), TEMPER_USAGE, {"NULL"});
  EXPECT_EQ(out[0], 7);
}

TEST_F(CApi, AnEngineOfSeveralProfilesTakesTheShapesOfEach) {
  const int64_t three[] = {3, 1, 8, 8};
  const temper_shape_range narrow = {"image", 4, kLow, kLow, kLow}, wide = {"image", 4, three, kHigh, kHigh};
  const temper_shape_profile profiles[] = {{&narrow, 1}, {&wide, 1}};
  temper_build_options build = options();
  build.profiles = profiles;
  build.profile_count = 2;
  temper_engine *built = nullptr, *loaded = nullptr;
  refused(temper_engine_build(kModel.c_str(), &build, &built), TEMPER_USAGE, {"shapes and profiles"});
  build.shapes = nullptr;
  build.shape_count = 0;
  ASSERT_EQ(temper_engine_build(kModel.c_str(), &build, &built), TEMPER_OK) << temper_last_error();
  temper_engine_statistics statistics;
  ASSERT_EQ(temper_engine_read_statistics(built, &statistics), TEMPER_OK);
  EXPECT_EQ(statistics.plans, 3) << "for 1, and for 4 and 3";
  temper_bytes *plan = nullptr, *json = nullptr;
  ASSERT_EQ(temper_engine_save_bytes(built, &plan), TEMPER_OK);
  ASSERT_EQ(temper_engine_load_bytes(temper_bytes_data(plan), temper_bytes_size(plan), nullptr, &loaded), TEMPER_OK)
      << temper_last_error();
  temper_bytes_free(plan);
  ASSERT_EQ(temper_engine_describe(loaded, &json), TEMPER_OK) << temper_last_error();
  const std::string text = taken(json);
  EXPECT_CONTAINS(text, R"("profiles":[{"image":{"max":[1,1,8,8],"min":[1,1,8,8],"opt":[1,1,8,8]}},)");
  EXPECT_CONTAINS(text, R"("steps":[{)");
  for (temper_engine* engine : {built, loaded}) {
    temper_session* session = nullptr;
    ASSERT_EQ(temper_session_create(engine, &session), TEMPER_OK);
    for (int64_t batch : {1, 3, 4}) EXPECT_EQ(run(session, batch, 0.5f).size(), size_t(batch * 10));
    const std::vector<float> data = pixels(2, 0);
    const int64_t two[] = {2, 1, 8, 8};
    const temper_tensor input = {TEMPER_F32, 4, two, data.data()};
    refused(temper_session_run(session, &input, 1), TEMPER_USAGE, {"[2,1,8,8]", "none of the engine's 2 profiles"});
    temper_session_free(session);
    temper_engine_free(engine);
  }
  const temper_shape_profile missing[] = {{&narrow, 1}, {nullptr, 1}};
  build.profiles = missing;
  built = nullptr;
  refused(temper_engine_build(kModel.c_str(), &build, &built), TEMPER_USAGE, {"shapes of profile 1 is NULL"});
  EXPECT_EQ(built, nullptr);
}

TEST_F(CApi, TimesGoFromBuildToBuildInMemory) {
  temper_timings *first = nullptr, *second = nullptr, *none = nullptr;
  ASSERT_EQ(temper_timings_create(nullptr, 0, &first), TEMPER_OK) << temper_last_error();
  const auto bytes_of = [](const temper_timings* timings) {
    temper_bytes* bytes = nullptr;
    EXPECT_EQ(temper_timings_save_bytes(timings, &bytes), TEMPER_OK) << temper_last_error();
    return taken(bytes);
  };
  const std::string empty = bytes_of(first);
  temper_build_options build = options();
  build.timings = first;
  temper_engine* engine = nullptr;
  ASSERT_EQ(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_OK) << temper_last_error();
  temper_engine_free(engine);
  const std::string full = bytes_of(first);
  EXPECT_GT(full.size(), empty.size() + 1000) << "what was measured is in it";
  ASSERT_EQ(temper_timings_create(full.data(), full.size(), &second), TEMPER_OK) << temper_last_error();
  EXPECT_EQ(bytes_of(second), full);
  ASSERT_EQ(temper_timings_create(empty.data(), empty.size(), &none), TEMPER_OK) << temper_last_error();
  ASSERT_EQ(temper_timings_add(none, second), TEMPER_OK);
  EXPECT_EQ(bytes_of(none), full);
  build.timing_cache = "x.json";
  refused(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_USAGE, {"timing_cache and timings"});
  temper_timings_free(first);
  temper_timings_free(second);
  temper_timings_free(none);
  refused(temper_timings_create("{}", 2, &none), TEMPER_BAD_FILE, {"the timing cache in memory is damaged"});
  refused(temper_timings_create(R"({"schema":"temper.timings/99"})", 30, &none), TEMPER_UNSUPPORTED, {"later version"});
  refused(temper_timings_create(nullptr, 2, &none), TEMPER_USAGE, {"NULL"});
}

TEST_F(CApi, ABuildSaysHowFarItIsAndEndsWhenAsked) {
  struct Told {
    int calls = 0, end_at = 0;
    std::string text;
  } told;
  temper_build_options build = options();
  build.progress = [](const char* text, void* context) {
    Told& its = *static_cast<Told*>(context);
    its.text = text;
    return int(++its.calls == its.end_at);
  };
  build.progress_context = &told;
  temper_engine* engine = nullptr;
  ASSERT_EQ(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_OK) << temper_last_error();
  temper_engine_free(engine);
  engine = nullptr;
  EXPECT_GT(told.calls, 1);
  EXPECT_FALSE(told.text.empty());
  for (int at : {1, 2}) {
    told.calls = 0;
    told.end_at = at;
    refused(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_CANCELLED, {"ended by the caller"});
    EXPECT_EQ(told.calls, at);
    EXPECT_EQ(engine, nullptr);
  }
}

TEST_F(CApi, PrepareReadsNoDataAndMakesNewShapesReady) {
  const int64_t dims[] = {2, 1, 8, 8};
  const temper_tensor shape = {TEMPER_F32, 4, dims, nullptr};
  ASSERT_EQ(temper_session_prepare(session_, &shape, 1), TEMPER_OK) << temper_last_error();
  temper_tensor output;
  refused(temper_session_output(session_, 0, &output), TEMPER_USAGE, {"no outputs"});
  EXPECT_EQ(run(session_, 2, 1), expected(2, 1));
}

TEST_F(CApi, AnEngineSaysWhatItIsFor) {
  temper_engine_info info;
  ASSERT_EQ(temper_engine_read_info(engine_, &info), TEMPER_OK) << temper_last_error();
  EXPECT_STREQ(info.device, "cpu");
  EXPECT_EQ(info.machine, engine_->engine->info().fingerprint);
  EXPECT_EQ(info.threads, 1);
  ASSERT_EQ(info.profile_count, 1u);
  temper_shape_range range;
  ASSERT_EQ(temper_engine_profile(engine_, 0, 0, &range), TEMPER_OK) << temper_last_error();
  EXPECT_STREQ(range.input, "image");
  ASSERT_EQ(range.rank, 4u);
  EXPECT_EQ(range.min[0], 1);
  EXPECT_EQ(range.opt[0], 1);
  EXPECT_EQ(range.max[0], 4);
  EXPECT_EQ(range.max[3], 8);
  std::vector<int64_t> batches;
  temper_port port;
  for (size_t i = 0; i < info.bucket_count; ++i) {
    ASSERT_EQ(temper_engine_bucket(engine_, i, 0, &port), TEMPER_OK) << temper_last_error();
    EXPECT_STREQ(port.name, "image");
    batches.push_back(port.dims[0]);
  }
  EXPECT_EQ(batches, (std::vector<int64_t>{1, 2, 4}));
  EXPECT_EQ(run(session_, 3, 0).size(), 30u);  // planned now, and no bucket
  ASSERT_EQ(temper_engine_read_info(engine_, &info), TEMPER_OK);
  EXPECT_EQ(info.bucket_count, 3u);
  refused(temper_engine_bucket(engine_, 3, 0, &port), TEMPER_USAGE, {"no bucket 3"});
  refused(temper_engine_bucket(engine_, 0, 1, &port), TEMPER_USAGE, {"no port 1"});
  refused(temper_engine_profile(engine_, 1, 0, &range), TEMPER_USAGE, {"no profile 1"});
  refused(temper_engine_profile(engine_, 0, 0, nullptr), TEMPER_USAGE, {"NULL"});
  refused(temper_engine_read_info(nullptr, &info), TEMPER_USAGE, {"the engine is NULL"});
}

TEST_F(CApi, AnEngineIsLoadedForADeviceOfItsPlansKindAlone) {
  const std::string plan = test_folder() + "digits.plan";
  ASSERT_EQ(temper_engine_save(engine_, plan.c_str()), TEMPER_OK) << temper_last_error();
  temper_engine* loaded = nullptr;
  temper_load_options options = {};
  for (const char* other : {"cuda:1", "reference"}) {
    options.device = other;
    refused(temper_engine_load_with(plan.c_str(), &options, &loaded), TEMPER_USAGE, {"device 'cpu'", other});
  }
  options.device = "tpu";
  refused(temper_engine_load_with(plan.c_str(), &options, &loaded), TEMPER_USAGE, {"there is no device 'tpu'"});
  EXPECT_EQ(loaded, nullptr);
  options.device = "cpu";
  ASSERT_EQ(temper_engine_load_with(plan.c_str(), &options, &loaded), TEMPER_OK) << temper_last_error();
  temper_engine_free(loaded);
}

TEST_F(CApi, ARunReadsTheSessionsMemoryAndWritesWhereItIsTold) {
  const int64_t dims[] = {3, 1, 8, 8}, out_dims[] = {3, 10}, other[] = {4, 10};
  const std::vector<float> data = pixels(3, 2);
  temper_tensor input = {TEMPER_F32, 4, dims, nullptr}, view = {};
  void* memory = nullptr;
  refused(temper_session_input(session_, 0, &memory), TEMPER_USAGE, {"prepare() must come first"});
  ASSERT_EQ(temper_session_prepare(session_, &input, 1), TEMPER_OK) << temper_last_error();
  refused(temper_session_input(session_, 1, &memory), TEMPER_USAGE, {"no input 1"});
  ASSERT_EQ(temper_session_input(session_, 0, &memory), TEMPER_OK) << temper_last_error();
  std::memcpy(memory, data.data(), data.size() * sizeof(float));
  input.data = memory;
  std::vector<float> result(30, -1);
  temper_tensor output = {TEMPER_F32, 2, out_dims, result.data()};
  ASSERT_EQ(temper_session_enqueue(session_, &input, 1, &output, 1), TEMPER_OK) << temper_last_error();
  refused(temper_session_output(session_, 0, &view), TEMPER_USAGE, {"no outputs"});
  refused(temper_session_run(session_, &input, 1), TEMPER_USAGE, {"temper_session_wait must come first"});
  refused(temper_session_input(session_, 0, &memory), TEMPER_USAGE, {"temper_session_wait must come first"});
  refused(temper_session_reset_state(session_), TEMPER_USAGE, {"temper_session_wait must come first"});
  ASSERT_EQ(temper_session_wait(session_), TEMPER_OK) << temper_last_error();
  EXPECT_EQ(result, expected(3, 2));
  ASSERT_EQ(temper_session_output(session_, 0, &view), TEMPER_OK);
  EXPECT_EQ(view.data, result.data());
  refused(temper_session_wait(session_), TEMPER_USAGE, {"no run to wait for"});

  ASSERT_EQ(temper_session_enqueue(session_, &input, 1, nullptr, 0), TEMPER_OK) << temper_last_error();
  ASSERT_EQ(temper_session_wait(session_), TEMPER_OK);
  ASSERT_EQ(temper_session_output(session_, 0, &view), TEMPER_OK);
  EXPECT_NE(view.data, result.data());
  EXPECT_EQ(std::memcmp(view.data, result.data(), result.size() * sizeof(float)), 0);

  output.dims = other;
  refused(temper_session_enqueue(session_, &input, 1, &output, 1), TEMPER_USAGE, {"'logits'", "[4,10]", "[3,10]"});
  refused(temper_session_wait(session_), TEMPER_USAGE, {"no run to wait for"});
  EXPECT_EQ(run(session_, 1, 0), expected(1, 0));
}

TEST_F(CApi, ThreadsWithASessionEachShareAnEngine) {
  const std::vector<float> wanted[2] = {expected(1, 0), expected(4, 1)};
  std::string text[2];
  int wrong[2] = {0, 0};
  auto work = [&](int index) {
    temper_session* session = nullptr;
    if (temper_session_create(engine_, &session) != TEMPER_OK) ++wrong[index];
    for (int i = 0; i < 50; ++i) wrong[index] += run(session, index ? 4 : 1, float(index)) != wanted[index];
    wrong[index] += temper_engine_load(index ? "no_such_b.plan" : "no_such_a.plan", nullptr) == TEMPER_OK;
    wrong[index] += temper_session_prepare(index ? session : nullptr, nullptr, 1) == TEMPER_OK;
    text[index] = temper_last_error();
    temper_session_free(session);
  };
  std::thread first(work, 0), second(work, 1);
  first.join();
  second.join();
  EXPECT_EQ(wrong[0], 0);
  EXPECT_EQ(wrong[1], 0);
  EXPECT_EQ(text[0], "the session is NULL");  // each thread its own
  EXPECT_EQ(text[1], "the list of inputs is NULL");
}

// What the function of a pool's caller got.
struct Used {
  std::vector<std::vector<float>> answers;
  size_t stop_at = 100;
  static int use(size_t batch, const temper_tensor* outputs, size_t count, void* context) {
    Used& its = *static_cast<Used*>(context);
    EXPECT_EQ(batch, its.answers.size()) << "in order";
    EXPECT_EQ(count, 1u);
    const auto* values = static_cast<const float*>(outputs[0].data);
    its.answers.emplace_back(values, values + outputs[0].dims[0] * outputs[0].dims[1]);
    return its.answers.size() > its.stop_at;
  }
};

TEST_F(CApi, APoolGivesTheOutputsOfOneDeviceInOrder) {
  std::vector<std::vector<float>> pictures, want;
  std::vector<Dims> dims;
  std::vector<temper_tensor> inputs;
  for (int64_t b = 0; b < 20; ++b) {
    dims.push_back({1 + b % 4, 1, 8, 8});
    pictures.push_back(pixels(dims.back()[0], 0.1f * float(b)));
    want.push_back(expected(dims.back()[0], 0.1f * float(b)));
  }
  for (size_t b = 0; b < 20; ++b) inputs.push_back({TEMPER_F32, 4, dims[b].data(), pictures[b].data()});
  for (const char* devices : {"cpu", "cpu,cpu,cpu"}) {
    temper_pool* pool = nullptr;
    ASSERT_EQ(temper_pool_create(engine_, devices, &pool), TEMPER_OK) << temper_last_error();
    const size_t count = temper_pool_device_count(pool);
    EXPECT_EQ(count, devices[3] ? 3u : 1u);
    Used used;
    ASSERT_EQ(temper_pool_run(pool, inputs.data(), 20, Used::use, &used), TEMPER_OK) << temper_last_error();
    EXPECT_EQ(used.answers, want);
    int64_t batches = 0;
    temper_pool_device_info info;
    for (size_t d = 0; d < count; ++d) {
      ASSERT_EQ(temper_pool_device(pool, d, &info), TEMPER_OK);
      EXPECT_STREQ(info.device, "cpu");
      EXPECT_EQ(info.loss, nullptr);
      batches += info.batches;
    }
    EXPECT_EQ(batches, 20);
    refused(temper_pool_device(pool, count, &info), TEMPER_USAGE, {"there is no device"});
    // The caller's end, a batch that does not fit, and no batch: the pool goes on.
    Used stopped{{}, 3};
    refused(temper_pool_run(pool, inputs.data(), 20, Used::use, &stopped), TEMPER_CANCELLED, {"ended by the caller"});
    EXPECT_EQ(stopped.answers.size(), 4u);
    std::vector<temper_tensor> wrong = inputs;
    wrong[7].dtype = TEMPER_F64;
    Used none;
    refused(temper_pool_run(pool, wrong.data(), 20, Used::use, &none), TEMPER_USAGE, {"batch 7: ", "'image'", "f64"});
    wrong[7] = inputs[7];
    const int64_t small[] = {1, 1, 8, 7};
    wrong[9].dims = small;
    refused(temper_pool_run(pool, wrong.data(), 20, Used::use, &none), TEMPER_USAGE, {"batch 9: "});
    EXPECT_TRUE(none.answers.empty()) << "all are checked before any runs";
    EXPECT_EQ(temper_pool_run(pool, nullptr, 0, Used::use, &none), TEMPER_OK) << temper_last_error();
    Used again;
    ASSERT_EQ(temper_pool_run(pool, inputs.data(), 5, Used::use, &again), TEMPER_OK) << temper_last_error();
    EXPECT_EQ(again.answers, (std::vector(want.begin(), want.begin() + 5)));
    temper_pool_free(pool);
  }
  temper_pool* pool = nullptr;
  for (const char* list : {"", "cpu,", "gpu:*", "cuda:0,0"})
    refused(temper_pool_create(engine_, list, &pool), TEMPER_USAGE, {});
  refused(temper_pool_create(engine_, "cpu,reference", &pool), TEMPER_USAGE, {"the plan is for the device 'cpu'"});
  refused(temper_pool_create(nullptr, "cpu", &pool), TEMPER_USAGE, {"the engine is NULL"});
  refused(temper_pool_create(engine_, nullptr, &pool), TEMPER_USAGE, {"the list of devices is NULL"});
  EXPECT_EQ(pool, nullptr);
  temper_pool_free(nullptr);
  EXPECT_EQ(temper_pool_device_count(nullptr), 0u);
}

TEST_F(CApi, RefusesInputsThatDoNotFitAndGoesOnAfterwards) {
  const std::vector<float> data = pixels(4, 0);
  const int64_t good[] = {1, 1, 8, 8}, big[] = {5, 1, 8, 8}, wide[] = {1, 1, 8, 9}, negative[] = {-1, 1, 8, 8};
  temper_tensor list[2] = {{TEMPER_F32, 4, good, data.data()}, {TEMPER_F32, 4, good, data.data()}};
  temper_tensor& input = list[0];
  const auto run_refused = [&](std::vector<std::string> parts) {
    refused(temper_session_run(session_, list, 1), TEMPER_USAGE, parts);
  };
  for (const int64_t* dims : {big, wide, negative}) {
    input.dims = dims;
    run_refused({"'image'", "f32[batch,1,8,8]", "from [1,1,8,8] to [4,1,8,8]"});
  }
  input.dims = nullptr;
  run_refused({"dims of the input 'image' is NULL"});
  input.dims = good;
  input.rank = 3;
  run_refused({"[1,1,8]", "f32[batch,1,8,8]"});
  input.rank = size_t(-1);
  run_refused({"dimensions"});
  input.rank = 4;
  input.dtype = TEMPER_I64;
  run_refused({"'image'", "i64", "f32"});
  input.dtype = temper_dtype(7777);
  run_refused({"7777"});
  input.dtype = TEMPER_F32;
  input.data = nullptr;
  run_refused({"data of the input 'image' is NULL"});
  input.data = data.data();
  refused(temper_session_run(session_, list, 0), TEMPER_USAGE, {"0 inputs", "'image'"});
  refused(temper_session_run(session_, list, 2), TEMPER_USAGE, {"2 inputs"});
  refused(temper_session_run(session_, nullptr, 1), TEMPER_USAGE, {"NULL"});
  temper_tensor output;
  refused(temper_session_output(session_, 0, &output), TEMPER_USAGE, {"no outputs"});

  EXPECT_EQ(run(session_, 1, 0), expected(1, 0));
  refused(temper_session_output(session_, 1, &output), TEMPER_USAGE, {"no output 1"});
  refused(temper_session_output(session_, 0, nullptr), TEMPER_USAGE, {"NULL"});
}

TEST_F(CApi, EveryKindOfErrorGivesItsStatusAndMessage) {
  const std::string folder = test_folder();
  temper_engine* engine = nullptr;
  temper_build_options build = options();
  refused(temper_engine_build((folder + "no_such.onnx").c_str(), &build, &engine), TEMPER_BAD_FILE, {"no_such.onnx"});
  refused(temper_engine_load((folder + "no_such.plan").c_str(), &engine), TEMPER_BAD_FILE, {"no_such.plan"});
  refused(temper_engine_load(kModel.c_str(), &engine), TEMPER_BAD_FILE, {"digits_cnn.onnx"});
  build.memory_limit = 1000;
  refused(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_BAD_FILE, {"the limit is 1000 bytes"});
  build.memory_limit = -1;
  refused(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_USAGE, {"memory_limit is -1"});
  build.memory_limit = int64_t(1) << 30;
  build.node_limit = 1;
  refused(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_BAD_FILE, {"nodes; the limit is 1;"});
  build.node_limit = -1;
  refused(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_USAGE, {"node_limit is -1"});
  build.node_limit = 1000;
  build.depth_limit = 257;
  refused(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_USAGE, {"depth"});
  build.depth_limit = 0;
  build.loop_limit = -1;
  refused(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_USAGE, {"loop_limit is -1"});
  build.loop_limit = 0;
  build.build_limit = 1e-9;
  refused(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_CHECK_FAILED, {"longer than 1e-09 s"});
  build.build_limit = -1;
  refused(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_USAGE, {"build_limit is -1"});
  build.build_limit = 0;
  build.precision = "fp16";
  refused(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_UNSUPPORTED, {"fp16", "fp32"});
  build = options();
  build.precision = "int8";
  const std::string ranges = folder + "no_such_ranges.json";
  build.calibration = ranges.c_str();
  refused(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_BAD_FILE, {"no_such_ranges.json"});
  build = options();
  build.device = "abacus";
  EXPECT_NE(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_OK);
  EXPECT_CONTAINS(std::string(temper_last_error()), "abacus");
  build = options();
  build.threads = -1;
  refused(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_USAGE, {"-1"});
  build = options();
  build.shapes = nullptr;
  refused(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_USAGE, {"shapes is NULL"});
  const temper_shape_range stranger = {"picture", 4, kLow, kLow, kLow}, nameless = {nullptr, 4, kLow, kLow, kLow},
                           open = {"image", 4, kLow, kLow, nullptr};
  build.shapes = &stranger;
  refused(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_USAGE, {"'picture'", "image"});
  build.shapes = &nameless;
  refused(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_USAGE, {"the input of shape range 0 is NULL"});
  build.shapes = &open;
  refused(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_USAGE,
          {"max of the shape range of 'image' is NULL"});
  EXPECT_EQ(engine, nullptr);
  refused(temper_engine_save(engine_, (folder + "no_such_folder/digits.plan").c_str()), TEMPER_USAGE,
          {"no_such_folder"});
  refused(temper_engine_save(nullptr, "x.plan"), TEMPER_USAGE, {"the engine is NULL"});
  temper_port port;
  refused(temper_engine_input(engine_, 1, &port), TEMPER_USAGE, {"no port 1"});
  refused(temper_engine_output(nullptr, 0, &port), TEMPER_USAGE, {"NULL"});
  EXPECT_EQ(temper_engine_input_count(nullptr), 0u);

  for (ErrorKind kind :
       {ErrorKind::check_failed, ErrorKind::usage, ErrorKind::bad_file, ErrorKind::unsupported, ErrorKind::machine})
    refused(c_api::guarded([&] { fail(kind, "kind ", int(kind)); }), temper_status(int(kind)),
            {concat("kind ", int(kind))});
  refused(c_api::guarded([] { throw std::bad_alloc(); }), TEMPER_MACHINE, {"out of memory"});
  refused(c_api::guarded([] { throw std::logic_error("from elsewhere"); }), TEMPER_MACHINE, {"from elsewhere"});
}

TEST_F(CApi, BuildsInt8FromAFileOfRanges) {
  const std::string folder = test_folder();
  run_python(folder, "np.save('x.npy', (np.random.default_rng(1).integers(0, 17, (32, 1, 8, 8)) / 16).astype('f4'))");
  const Outcome calibrated =
      temper(folder, concat("calibrate '", kModel, "' --data x.npy --method minmax -o ranges.json"));
  ASSERT_EQ(calibrated.code, 0) << calibrated.err;
  const std::string ranges = folder + "ranges.json";
  temper_build_options build = options();
  build.precision = "int8";
  build.calibration = ranges.c_str();
  temper_engine* engine = nullptr;
  ASSERT_EQ(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_OK) << temper_last_error();
  temper_session* session = nullptr;
  ASSERT_EQ(temper_session_create(engine, &session), TEMPER_OK) << temper_last_error();
  const std::vector<float> exact = expected(4, 0.5f), rounded = run(session, 4, 0.5f);
  temper_session_free(session);
  temper_engine_free(engine);
  EXPECT_NE(rounded, exact);
  double error = 0, signal = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    error += (rounded[i] - exact[i]) * (rounded[i] - exact[i]);
    signal += exact[i] * exact[i];
  }
  EXPECT_LT(error, 0.01 * signal);  // above 20 dB
}

TEST_F(CApi, AnEngineOfTheHostHasNoMemoryOfADevice) {
  void* stream = &stream;
  refused(temper_session_stream(session_, &stream), TEMPER_USAGE, {"runs on cpu", "host's memory"});
  EXPECT_EQ(stream, &stream) << "what the function would have given is untouched";
  const std::vector<float> x = pixels(1, 0);
  const temper_tensor input{TEMPER_F32, 4, kLow, x.data()};
  refused(temper_session_run_on_device(session_, &input, 1), TEMPER_USAGE, {"runs on cpu"});
  refused(temper_session_run_on_device(nullptr, &input, 1), TEMPER_USAGE, {"the session is NULL"});
  temper_device_run how = {};
  how.in_stream = 1;
  refused(temper_session_run_on_device_with(session_, &input, 1, &how), TEMPER_USAGE, {"runs on cpu"});
  float to[2] = {3, 4};
  for (const temper_copy_direction direction : {TEMPER_TO_HOST, TEMPER_TO_DEVICE, TEMPER_ON_DEVICE})
    refused(temper_session_copy(session_, to, x.data(), sizeof to, direction), TEMPER_USAGE, {"runs on cpu"});
  refused(temper_session_copy(nullptr, to, x.data(), sizeof to, TEMPER_TO_HOST), TEMPER_USAGE, {"the session is NULL"});
  refused(temper_session_copy(session_, nullptr, x.data(), sizeof to, TEMPER_TO_HOST), TEMPER_USAGE,
          {"copy to", "NULL"});
  refused(temper_session_copy(session_, to, nullptr, sizeof to, TEMPER_TO_HOST), TEMPER_USAGE, {"copied", "NULL"});
  EXPECT_EQ(to[0], 3);
  EXPECT_EQ(to[1], 4);
}

TEST_F(CApi, AnErrorStaysUntilTheNextOne) {
  refused(temper_engine_load(nullptr, nullptr), TEMPER_USAGE, {"NULL"});
  const std::string text = temper_last_error();
  run(session_, 1, 0);
  EXPECT_EQ(text, temper_last_error());
}

TEST_F(CApi, MessagesGoToTheCallback) {
  std::vector<std::string> messages;
  temper_set_log_callback(
      [](temper_log_level level, const char* message, void* context) {
        // Not what others did meanwhile: no test may depend on a quiet machine.
        if (level == TEMPER_WARNING && std::string_view(message).find("other processes used") == std::string_view::npos)
          static_cast<std::vector<std::string>*>(context)->push_back(message);
      },
      &messages);
  temper_build_options build = options();
  build.shape_count = 0;
  temper_engine* engine = nullptr;
  EXPECT_EQ(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_OK) << temper_last_error();
  temper_set_log_callback(nullptr, nullptr);
  temper_engine_free(engine);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_CONTAINS(messages[0], "built for 1");
  EXPECT_EQ(temper_engine_build(kModel.c_str(), &build, &engine), TEMPER_OK);
  temper_engine_free(engine);
  EXPECT_EQ(messages.size(), 1u);
}

// Words with a mark behind each.
temper_engine* words_engine() {
  const std::string path = test_folder() + "words.onnx";
  write_onnx(
      parse_graph(
          "graph \"words\"\ninput %x: string[n]\n%mark: string[1] = constant_strings() shape=[1] values=[\"!\"]\n"
          "%y: string[n] = string_concat(%x, %mark)\noutput \"y\" = %y\n"),
      path);
  const int64_t low = 1, high = 4;
  const temper_shape_range shapes = {"x", 1, &low, &low, &high};
  temper_build_options build = {};
  build.threads = 1;
  build.shapes = &shapes;
  build.shape_count = 1;
  temper_engine* engine = nullptr;
  EXPECT_EQ(temper_engine_build(path.c_str(), &build, &engine), TEMPER_OK) << temper_last_error();
  return engine;
}

TEST(CApiStrings, ARunTakesAndGivesAddressesOfStrings) {
  temper_engine* engine = words_engine();
  temper_session* session = nullptr;
  ASSERT_EQ(temper_session_create(engine, &session), TEMPER_OK) << temper_last_error();
  for (const std::vector<const char*>& words : std::vector<std::vector<const char*>>{{"a", "", "größe"}, {"a"}}) {
    const auto count = int64_t(words.size());
    const temper_tensor input = {TEMPER_STRING, 1, &count, words.data()};
    temper_tensor output = {};
    ASSERT_EQ(temper_session_run(session, &input, 1), TEMPER_OK) << temper_last_error();
    ASSERT_EQ(temper_session_output(session, 0, &output), TEMPER_OK) << temper_last_error();
    EXPECT_EQ(output.dtype, TEMPER_STRING);
    const auto* const texts = static_cast<const char* const*>(output.data);
    for (size_t i = 0; i < words.size(); ++i) EXPECT_EQ(std::string(texts[i]), std::string(words[i]) + "!");
  }
  const char* const missing[] = {"a", nullptr};
  const int64_t two = 2;
  const temper_tensor input = {TEMPER_STRING, 1, &two, missing};
  refused(temper_session_run(session, &input, 1), TEMPER_USAGE, {"string 1", "'x'"});
  temper_session_free(session);
  temper_engine_free(engine);
}

TEST(CApiStrings, WhatRunsLaterOrElsewhereIsRefused) {
  temper_engine* engine = words_engine();
  temper_session* session = nullptr;
  ASSERT_EQ(temper_session_create(engine, &session), TEMPER_OK) << temper_last_error();
  const char* const words[] = {"a"};
  const int64_t one = 1;
  const temper_tensor input = {TEMPER_STRING, 1, &one, words};
  refused(temper_session_enqueue(session, &input, 1, nullptr, 0), TEMPER_UNSUPPORTED, {"temper_session_run alone"});
  const temper_state state = {"x", "y"};
  refused(temper_session_keep_state(session, &state, 1), TEMPER_UNSUPPORTED, {"'x'", "strings"});
  ASSERT_EQ(temper_session_prepare(session, &input, 1), TEMPER_OK);
  void* memory = nullptr;
  refused(temper_session_input(session, 0, &memory), TEMPER_UNSUPPORTED, {"strings"});
  temper_session_free(session);
  temper_engine_free(engine);
}

TEST(CApiFacts, VersionAndSizes) {
  EXPECT_EQ(temper_version(), version());
  for (int i = 0; i < kAllDTypeCount; ++i)
    EXPECT_EQ(temper_dtype_size(temper_dtype(i)), size_t(size_of(DType(i)))) << i;
  EXPECT_EQ(temper_dtype_size(temper_dtype(kAllDTypeCount)), 0u);
  EXPECT_EQ(temper_dtype_size(temper_dtype(-1)), 0u);
}

}  // namespace
}  // namespace temper
