// SPDX-License-Identifier: Apache-2.0
// Lists of devices and pools on a machine with two GPUs, which are emulated; one of them is lost at any call.
#include "../../plan/helpers.h"
#include "api/handle.h"
#include "backends/devices.h"
#include "base/log.h"
#include "bench/scaling.h"
#include "emulated_gpu.h"
#include "optimize/build_engine.h"
#include "runtime/pool.h"

namespace temper {
namespace {

using Names = std::vector<std::string>;

class EmulatedPool : public ::testing::Test {
 protected:
  void SetUp() override {
    before_ = std::getenv("XDG_CACHE_HOME") ? std::getenv("XDG_CACHE_HOME") : "";
    setenv("XDG_CACHE_HOME", cache_.c_str(), 1);  // kernels of the emulator are for nobody else
    open();
    warnings_.clear();
    set_log_callback([](LogLevel level, std::string_view text) {
      if (level == LogLevel::warning) warnings_.emplace_back(text);
    });
  }
  void TearDown() override {
    set_log_callback(nullptr);
    machines_.reset();
    EXPECT_EQ(testing::ScriptedGpus::get().misuses, Names());
    testing::ScriptedGpus::get().reset();
    if (before_.empty()) unsetenv("XDG_CACHE_HOME");
    else setenv("XDG_CACHE_HOME", before_.c_str(), 1);
    std::filesystem::remove_all(cache_);
  }
  // Two GPUs as new; nothing of the old ones may be left.
  void open() {
    machines_.reset();
    EXPECT_EQ(testing::ScriptedGpus::get().misuses, Names());
    testing::ScriptedGpus::get().reset();
    machines_ = std::make_unique<testing::ScriptedMachines>(cuda::LibrarySearch{{paths::emulator_folder()}, false});
  }
  static std::shared_ptr<const Engine> build(const std::string& device) {
    BuildOptions options;
    options.device = device;
    options.measure = false;
    options.threads = 1;
    return build_engine(tiny_graph(), info_of(device), options);
  }
  static inline Names warnings_;

 private:
  const std::string cache_ =
      (std::filesystem::path(::testing::TempDir()) / concat("temper_emulated_", getpid())).string();
  std::string before_;
  std::unique_ptr<testing::ScriptedMachines> machines_;
};

// Why a list is refused.
std::pair<ErrorKind, std::string> refused(const std::string& list) {
  try {
    parse_devices(list);
    ADD_FAILURE() << list;
  } catch (const Error& error) { return {error.kind(), error.what()}; }
  return {ErrorKind::check_failed, ""};
}

TEST_F(EmulatedPool, ListsOfDevices) {
  EXPECT_EQ(parse_devices("cuda:*"), (Names{"cuda:0", "cuda:1"}));
  EXPECT_EQ(parse_devices("cuda:*,cpu"), (Names{"cuda:0", "cuda:1", "cpu"}));
  EXPECT_EQ(parse_devices("cuda:1,0"), (Names{"cuda:1", "cuda:0"}));
  EXPECT_EQ(parse_devices("cuda,1"), (Names{"cuda:0", "cuda:1"}));
  EXPECT_EQ(parse_devices("cpu,cuda:1"), (Names{"cpu", "cuda:1"}));
  EXPECT_EQ(parse_devices("cpu,cpu"), (Names{"cpu", "cpu"}));
  EXPECT_EQ(parse_devices("cuda"), Names{"cuda"}) << "one device is called as it was given";
  for (const char* list : {"cuda:0,0", "cuda,cuda:0", "cuda:*,1", "cuda:1,cuda:1", "cuda:*,cuda:*"}) {
    const auto [kind, message] = refused(list);
    EXPECT_EQ(kind, ErrorKind::usage) << list;
    EXPECT_NE(message.find("twice"), std::string::npos) << message;
  }
  for (const char* list : {"", ",", "cpu,", "cuda:0,,1", "0,1", "cpu,1", "gpu:*", "cpu:*", "cuda:x", "cuda:-1,0", "*"})
    EXPECT_EQ(refused(list).first, ErrorKind::usage) << list;
}

TEST_F(EmulatedPool, APlanOfOneGpuRunsOnAllEqualOnesAndOnNoOtherDevice) {
  const auto engine = build("cuda:0");
  const Engines engines = engines_on(engine, parse_devices("cuda:*"));
  ASSERT_EQ(engines.size(), 2u);
  EXPECT_EQ(engines[0], engine);
  EXPECT_EQ(engines[1]->info().device, "cuda:1");
  const Tensor input = noise({2, 4}, 1);
  EXPECT_TRUE(Session(engines[0]).run({input})[0].same_bits(Session(engines[1]).run({input})[0]));
  try {
    engines_on(engine, {"cuda:0", "cpu"});
    FAIL();
  } catch (const Error& error) { EXPECT_EQ(error.kind(), ErrorKind::usage); }
  try {
    engines_on(engine, {"cuda:0", "cuda:2"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cuda:2"), std::string::npos) << error.what();
  }
}

TEST_F(EmulatedPool, AGpuLostAtAnyCallLosesNoAnswer) {
  const auto bytes = file_bytes(*build("cuda:0"));
  constexpr int64_t kCount = 8;
  std::vector<Tensor> inputs, want;
  {
    const auto engine = std::make_shared<const Engine>(read_plan(bytes.raw(), nullptr));
    Session session(engine);
    for (uint32_t i = 0; i < kCount; ++i) {
      inputs.push_back(noise({2, 4}, i));
      want.push_back(session.run({inputs.back()})[0]);
    }
  }
  auto& gpus = testing::ScriptedGpus::get();
  int lost = 0;
  for (int64_t n = 1; n < 400; n += 1 + n / 8) {
    open();
    warnings_.clear();
    const auto engine = std::make_shared<const Engine>(read_plan(bytes.raw(), nullptr));
    const Engines engines = engines_on(engine, {"cuda:0", "cuda:1"});
    Pool pool = pool_of(engines);
    PoolSessions sessions(engines);
    std::vector<Tensor> got;
    gpus.lost_at = gpus.calls + n;  // of both; GPU 0 notices it at its next call
    pool.run(kCount, [&](size_t device, int64_t piece) -> Pool::Finish {
      auto outputs = sessions.at(device).run({inputs[size_t(piece)]});
      return [&, outputs] { got.push_back(outputs[0]); };
    });
    ASSERT_EQ(got.size(), size_t(kCount)) << n;
    for (size_t i = 0; i < kCount; ++i) EXPECT_TRUE(got[i].same_bits(want[i])) << n << ", " << i;
    EXPECT_EQ(pool.done()[0] + pool.done()[1], kCount);
    ASSERT_EQ(warnings_.size(), pool.loss(0).empty() ? 0u : 1u) << n;
    for (const std::string& warning : warnings_)
      EXPECT_TRUE(warning.starts_with("cuda:0 is lost, and its work goes")) << warning;
    lost += !pool.loss(0).empty();
  }
  EXPECT_GT(lost, 0);
}

TEST_F(EmulatedPool, InCALostGpuLosesNoBatchAndItsLossIsTold) {
  const temper_engine engine(build("cuda:0"));
  std::vector<Tensor> inputs, want;
  std::vector<temper_tensor> views;
  {
    Session session(engine.engine);
    for (uint32_t i = 0; i < 16; ++i) {
      inputs.push_back(noise({2, 4}, i));
      want.push_back(session.run({inputs.back()})[0]);
    }
  }
  for (const Tensor& input : inputs) views.push_back({TEMPER_F32, 2, input.dims().data(), input.raw().data()});
  temper_pool* pool = nullptr;
  ASSERT_EQ(temper_pool_create(&engine, "cuda:*", &pool), TEMPER_OK) << temper_last_error();
  ASSERT_EQ(temper_pool_device_count(pool), 2u);
  struct Seen {
    const std::vector<Tensor>& want;
    size_t right = 0;
  } seen{want};
  const auto use = [](size_t batch, const temper_tensor* outputs, size_t, void* context) -> int {
    Seen& its = *static_cast<Seen*>(context);
    its.right += std::memcmp(outputs[0].data, its.want[batch].raw().data(), size_t(its.want[batch].bytes())) == 0;
    return 0;
  };
  auto& gpus = testing::ScriptedGpus::get();
  gpus.lost_at = gpus.calls + 100;
  temper_pool_device_info first{}, second{};
  size_t runs = 0;
  while (!first.loss && runs < 50) {
    ASSERT_EQ(temper_pool_run(pool, views.data(), views.size(), use, &seen), TEMPER_OK) << temper_last_error();
    ASSERT_EQ(temper_pool_device(pool, 0, &first), TEMPER_OK);
    ++runs;
  }
  ASSERT_EQ(temper_pool_device(pool, 1, &second), TEMPER_OK);
  ASSERT_TRUE(first.loss);
  EXPECT_EQ(second.loss, nullptr);
  EXPECT_STREQ(second.device, "cuda:1");
  EXPECT_EQ(seen.right, runs * want.size());
  EXPECT_EQ(first.batches + second.batches, int64_t(runs * want.size()));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_TRUE(warnings_[0].starts_with("cuda:0 is lost")) << warnings_[0];
  temper_pool_free(pool);
}

TEST_F(EmulatedPool, AGpuWithoutRoomForThePlanIsTakenOut) {
  const auto engine = build("cuda:0");
  auto& gpus = testing::ScriptedGpus::get();
  const Tensor input = noise({2, 4}, 1);
  const Tensor want = Session(engine).run({input})[0];
  const Engines engines = engines_on(engine, {"cuda:0", "cuda:1"});
  const auto fill = [&](const std::string& device, int ordinal) {
    return open_queue(open_device(device))->allocate(gpus.memory_bytes - gpus.used_bytes(ordinal) - 4096);
  };
  {
    const auto other_program = fill("cuda:1", 1);
    Pool pool = pool_of(engines);
    PoolSessions sessions(engines);
    int64_t used = 0;
    for (int round = 0; round < 50 && pool.loss(1).empty(); ++round)
      pool.run(8, [&](size_t device, int64_t) -> Pool::Finish {
        auto outputs = sessions.at(device).run({input});
        return [&, outputs] { used += outputs[0].same_bits(want); };
      });
    EXPECT_EQ(used % 8, 0);
    EXPECT_EQ(pool.done()[1], 0);
    ASSERT_EQ(warnings_.size(), 1u);
    EXPECT_TRUE(warnings_[0].starts_with("cuda:1 has no room for the plan")) << warnings_[0];
  }
  // Alone it is the error.
  const auto other_program = fill("cuda:1", 1);
  EXPECT_THROW(Session(engines[1]).run({input}), DeviceFull);
}

TEST_F(EmulatedPool, TwoGpusAreMeasuredAloneAndTogetherWithAndWithoutTransfers) {
  const Engines engines = engines_on(build("cuda:0"), {"cuda:0", "cuda:1"});
  const std::vector<Dims> shapes{{2, 4}};
  ASSERT_TRUE(can_stay_on(engines, shapes));
  auto& gpus = testing::ScriptedGpus::get();
  for (const bool transfers : {false, true}) {
    const Scaling scaling =
        measure_scaling(engines, shapes, {.seconds = 0.06, .rounds = 6, .transfers = transfers, .streams = 2});
    ASSERT_EQ(scaling.devices.size(), 2u);
    EXPECT_EQ(scaling.devices[1].device, "cuda:1");
    for (const auto& device : scaling.devices)
      for (const auto* rates : {&device.alone, &device.together}) {
        ASSERT_EQ(rates->size(), 6u);
        for (const double rate : *rates) EXPECT_GT(rate, 0);
      }
    EXPECT_EQ(scaling.inputs, transfers ? "in pinned memory of the host" : "on the device");
    EXPECT_EQ(scaling.streams, transfers ? 2 : 1);
    EXPECT_TRUE(scaling.notes.empty());
    EXPECT_TRUE(scaling.of_sum_interval());
  }
  gpus.lost_at = gpus.calls + 200;
  try {
    measure_scaling(engines, shapes, {.seconds = 0.06, .transfers = true});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::machine);
    EXPECT_TRUE(std::string(error.what()).starts_with("cuda:0: ")) << error.what();
  }
}

}  // namespace
}  // namespace temper
