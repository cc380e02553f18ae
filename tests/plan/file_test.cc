// SPDX-License-Identifier: Apache-2.0
#include "plan/file.h"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "helpers.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

class PlanFileTest : public ::testing::Test {
 protected:
  PlanFileTest()
      : folder_(fs::temp_directory_path() / concat("temper-plan-", int64_t(getpid()), "-",
                                                   ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(folder_);
    path_ = (folder_ / "m.plan").string();
  }
  ~PlanFileTest() override { fs::remove_all(folder_); }
  size_t files_in_folder() const {
    return size_t(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(PlanFileTest, SavedAndLoadedItComputesTheSame) {
  for (const std::string device : {"cpu", "reference"}) {
    auto engine = std::make_shared<Engine>(info_of(device), small_graph("2"), 2);
    add_plan(engine, {{2, 3, 8, 8}});
    save_engine(*engine, path_);
    const auto loaded = Engine::load(path_);
    EXPECT_EQ(loaded->info(), engine->info());
    EXPECT_EQ(loaded->threads(), 2);
    EXPECT_EQ(loaded->graph_text(), engine->graph_text());
    EXPECT_FALSE(loaded->has_graph());
    Session session(loaded);
    const std::vector<Tensor> inputs{noise({2, 3, 8, 8}, 9)};
    expect_close(session.run(inputs), run_reference(engine->graph(), inputs));
    EXPECT_EQ(session.statistics().plans_made, 0);
  }
}

TEST_F(PlanFileTest, SlicesAndChainsSurviveSavingAndLoading) {
  auto engine = std::make_shared<Engine>(info_of("cpu"), small_graph("4"), 2);
  // conv and pool on two slices after each other, the rest on a chain per thread.
  add_plan(engine, {{4, 3, 8, 8}}, {{0, 1, 2, false}, {2, 5, 1, true}});
  save_engine(*engine, path_);
  const auto loaded = Engine::load(path_);
  ASSERT_EQ(loaded->plans().at(0)->segments.size(), 2u);
  EXPECT_EQ(loaded->plans()[0]->segments[0].slices, 2);
  EXPECT_TRUE(loaded->plans()[0]->segments[1].parallel);
  const std::vector<Tensor> inputs{noise({4, 3, 8, 8}, 9)};
  expect_close(Session(loaded).run(inputs), run_reference(engine->graph(), inputs));
}

TEST_F(PlanFileTest, ASymbolicBatchIsPlannedFromTheFile) {
  auto engine = std::make_shared<Engine>(info_of("cpu"), small_graph("n"), 1);
  for (int64_t n : {1, 4}) add_plan(engine, {{n, 3, 8, 8}});
  const Plan& plan = *engine->plans()[0];
  const std::string of_the_plan =
      concat(timing_group(engine->device().fingerprint, step_of(plan, "c1").problem, 1), " | it v1");
  PlanFile timed = made_of(*engine);
  timed.timings = {{of_the_plan, 0.25}, {"another machine | conv() threads=1 chains=1 | it v1", 1.5}};
  engine = std::make_shared<Engine>(std::move(timed));
  save_engine(*engine, path_);
  const auto loaded = Engine::load(path_);
  EXPECT_EQ(loaded->timings(), (std::map<std::string, double>{{of_the_plan, 0.25}}))
      << "times of other problems are not kept";
  ASSERT_TRUE(loaded->has_graph());
  EXPECT_EQ(hash(loaded->graph()), hash(engine->graph()));
  Session session(loaded);
  for (int64_t n : {4, 3, 1, 3}) {
    const std::vector<Tensor> inputs{noise({n, 3, 8, 8}, uint32_t(n))};
    expect_close(session.run(inputs), run_reference(engine->graph(), inputs));
  }
  EXPECT_EQ(session.statistics().plans_made, 1);
}

TEST_F(PlanFileTest, PlansOfSeveralBatchSizesShareTheirWeights) {
  auto engine = std::make_shared<Engine>(info_of("reference"), small_graph("n"), 1);
  int64_t bytes = 0;
  for (int64_t n : {1, 2, 3}) {
    add_plan(engine, {{n, 3, 8, 8}});
    save_engine(*engine, path_);
    const PlanFile file = read_plan_file(path_);
    if (n == 1) bytes = file.constant_bytes;
    EXPECT_EQ(file.constant_bytes, bytes);
    EXPECT_EQ(file.graph_bytes, 0) << "the graph's weights are those of the plans here";
  }
  EXPECT_GT(bytes, 0);
}

TEST_F(PlanFileTest, APlanMadeFromTheFileUsesThePackedWeightsOfTheOthers) {
  auto engine = std::make_shared<Engine>(info_of("cpu"), small_graph("n"), 1);
  add_plan(engine, {{2, 3, 8, 8}});
  save_engine(*engine, path_);
  const auto loaded = Engine::load(path_);
  const auto known = loaded->plan_for({{2, 3, 8, 8}}), made = loaded->plan_for({{3, 3, 8, 8}});
  int same = 0;
  for (const char* node : {"c1", "c2", "m"}) {
    const PlanStep &a = step_of(*known, node), &b = step_of(*made, node);
    ASSERT_GE(a.packed, 0) << node;
    ASSERT_GE(b.packed, 0) << node;
    const Tensor &of_known = *known->constants[size_t(a.packed)], &of_made = *made->constants[size_t(b.packed)];
    EXPECT_EQ(of_known.same_bits(of_made), of_known.raw().data() == of_made.raw().data()) << node;
    same += of_known.raw().data() == of_made.raw().data();
  }
  EXPECT_GT(same, 0);
}

TEST_F(PlanFileTest, ConstantsLookIntoTheFile) {
  const auto engine = tiny_engine();
  const Tensor bytes = file_bytes(*engine);
  const PlanFile file = read_plan(bytes.raw(), nullptr);
  const Tensor& constant = *file.plans.at(0)->constants.at(0);
  EXPECT_EQ(constant.dims(), (Dims{4, 2}));
  EXPECT_GE(constant.raw().data(), bytes.raw().data());
  EXPECT_LT(constant.raw().data(), bytes.raw().data() + bytes.bytes());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(constant.raw().data()) % 64, 0u);
}

TEST_F(PlanFileTest, CandidatesAreReadOnRequest) {
  auto engine = std::make_shared<Engine>(info_of("cpu"), small_graph("2"), 1);
  add_plan(engine, {{2, 3, 8, 8}});
  save_engine(*engine, path_);
  const auto losers = [](const PlanFile& file) { return step_of(*file.plans.at(0), "c1").losers; };
  EXPECT_TRUE(losers(read_plan_file(path_)).empty());
  const auto wanted = step_of(*engine->plans()[0], "c1").losers;
  const auto found = losers(read_plan_file(path_, {.candidates = true}));
  ASSERT_FALSE(wanted.empty());
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].tactic, wanted[i].tactic);
    EXPECT_EQ(found[i].config, wanted[i].config);
    EXPECT_EQ(found[i].ms, wanted[i].ms);
    EXPECT_EQ(found[i].refusal, wanted[i].refusal);
  }
}

TEST_F(PlanFileTest, WritingTheSameEngineTwiceGivesTheSameBytes) {
  const auto engine = tiny_engine();
  EXPECT_TRUE(file_bytes(*engine).same_bits(file_bytes(*engine)));
  save_engine(*engine, path_);
  const std::string copy = (folder_ / "again.plan").string();
  save_engine(*Engine::load(path_), copy);
  const std::string again = read_file(copy);
  const Tensor once = file_bytes(*engine);
  ASSERT_EQ(int64_t(again.size()), once.bytes());
  // Candidates are not kept by an engine from a file; all else is.
  EXPECT_TRUE(step_of(*read_plan_file(copy, {.candidates = true}).plans[0], "m").losers.empty());
}

TEST_F(PlanFileTest, WhatIsNoPlanIsRefused) {
  EXPECT_THROW(Engine::load((folder_ / "missing.plan").string()), Error);
  EXPECT_THROW(Engine::load(folder_.string()), Error);
  for (const std::string& content : {std::string(), std::string("\x89", 1), std::string("onnx or so"),
                                     std::string(5000, '\0'), std::string("\x89TMPR\r\n\x1a", 8)}) {
    std::ofstream(path_, std::ios::binary) << content;
    try {
      Engine::load(path_);
      ADD_FAILURE() << content.size() << " bytes were taken for a plan";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_file) << error.what();
      EXPECT_NE(std::string(error.what()).find(path_), std::string::npos) << error.what();
    }
  }
}

// A plan of one constant and two steps: some kilobytes, so that each bit has its turn.
TEST_F(PlanFileTest, EveryFlippedBitIsRefused) {
  Tensor bytes = file_bytes(*tiny_engine());
  ASSERT_LT(bytes.bytes(), 8192);
  read_plan(bytes.raw(), nullptr);  // whole, it is accepted
  int64_t accepted = 0, other_kinds = 0;
  for (int64_t bit = 0; bit < bytes.bytes() * 8; ++bit) {
    bytes.raw_mutable()[bit / 8] ^= std::byte(1 << bit % 8);
    try {
      read_plan(bytes.raw(), nullptr);
      ++accepted;
      ADD_FAILURE() << "bit " << bit << " flipped, and the plan was accepted";
    } catch (const Error& error) { other_kinds += error.kind() != ErrorKind::bad_file; }
    bytes.raw_mutable()[bit / 8] ^= std::byte(1 << bit % 8);
    if (accepted > 5) break;
  }
  EXPECT_EQ(accepted, 0);
  EXPECT_EQ(other_kinds, 0) << "damage is no question of versions";
}

TEST_F(PlanFileTest, EveryCutIsRefused) {
  const Tensor bytes = file_bytes(*tiny_engine());
  for (int64_t size = 0; size < bytes.bytes(); ++size) {
    Tensor cut(DType::u8, {size});  // of its own size, so that a read behind its end is seen by a sanitizer
    std::memcpy(cut.raw_mutable(), bytes.raw().data(), size_t(size));
    EXPECT_EQ(refusal(cut.raw()).first, ErrorKind::bad_file) << size;
  }
  Tensor longer(DType::u8, {bytes.bytes() + 1});
  std::memcpy(longer.raw_mutable(), bytes.raw().data(), size_t(bytes.bytes()));
  EXPECT_EQ(refusal(longer.raw()).first, ErrorKind::bad_file);
}

TEST_F(PlanFileTest, AFullDiskLeavesTheOldFile) {
  save_engine(*tiny_engine(), path_);
  const std::string before = read_file(path_);
  auto engine = std::make_shared<Engine>(info_of("reference"), small_graph("2"), 1);
  add_plan(engine, {{2, 3, 8, 8}});

  // A limit on the size of files fails a write in its middle, as a full disk does.
  rlimit old_limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{8192, old_limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  ErrorKind kind{};
  std::string message;
  try {
    save_engine(*engine, path_);
  } catch (const Error& error) {
    kind = error.kind();
    message = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);

  EXPECT_EQ(kind, ErrorKind::machine);
  EXPECT_NE(message.find("unchanged"), std::string::npos) << message;
  EXPECT_EQ(files_in_folder(), 1u);
  EXPECT_TRUE(read_file(path_) == before);
  save_engine(*engine, path_);
  EXPECT_GT(fs::file_size(path_), 8192u);
}

}  // namespace
}  // namespace temper
