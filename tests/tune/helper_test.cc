// SPDX-License-Identifier: Apache-2.0
// Candidates that are timed in a process of their own, which a script plays; and what the cache keeps of those that
// fault.
#include "tune/helper.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "../paths.h"
#include "backends/timing_text.h"
#include "base/file.h"
#include "bench/cases.h"
#include "optimize/build_engine.h"
#include "tune/tuner.h"

namespace temper {
namespace {

using AnswerKind = TimingHelper::Answer::Kind;

// A shell script in the place of the program: `body` handles one question, in $line.
class Helpers : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::unique_ptr<TimingHelper> helper(const std::string& body,
                                       const std::string& greeting = TimingHelper::greeting()) {
    const std::string script = folder + "/helper.sh";
    write_file_atomically(script, concat("echo '", greeting, "'\nwhile read -r line; do\n", body, "\ndone\n"));
    return std::make_unique<TimingHelper>(std::vector<std::string>{"/bin/sh", script}, "cuda:0", DeviceSettings{});
  }
  const std::string folder =
      (std::filesystem::path(::testing::TempDir()) / concat("temper helper ", getpid())).string();
};

TEST_F(Helpers, TimesComeFromTheProcess) {
  const auto timing = helper("case \"$line\" in *large*) echo '{\"ms\":-1.0}';; *) echo '{\"ms\":0.25}';; esac");
  for (int i = 0; i < 3; ++i) {
    const auto answer = timing->time("a candidate", 1, -1);
    EXPECT_EQ(answer.kind, AnswerKind::timed);
    EXPECT_EQ(answer.ms, 0.25);
  }
  EXPECT_EQ(timing->time("a large candidate", 1, 100).kind, AnswerKind::too_much_workspace);
}

TEST_F(Helpers, ACandidateThatLosesTheGpuOrEndsTheProcessFaultedAndTheNextIsTimed) {
  const auto timing = helper(
      "case \"$line\" in *address*) echo '{\"lost\":\"an illegal memory access\"}'; exit 5;; *crash*) kill -SEGV $$;; "
      "*leaves*) exit 3;; *) echo '{\"ms\":0.5}';; esac");
  auto answer = timing->time("a wrong address", 1, -1);
  EXPECT_EQ(answer.kind, AnswerKind::faulted);
  EXPECT_EQ(answer.text, "an illegal memory access");
  EXPECT_EQ(timing->time("a good one", 1, -1).kind, AnswerKind::timed);
  answer = timing->time("a crash", 1, -1);
  EXPECT_EQ(answer.kind, AnswerKind::faulted);
  EXPECT_EQ(answer.text, "its process was ended by signal 11");
  EXPECT_EQ(timing->time("a good one", 1, -1).kind, AnswerKind::timed);
  answer = timing->time("one that leaves", 1, -1);
  EXPECT_EQ(answer.kind, AnswerKind::faulted);
  EXPECT_EQ(answer.text, "its process ended with code 3");
}

TEST_F(Helpers, WhoNeededTheMemoryOfTheProcessIsNotTheCandidate) {
  const auto timing = helper("kill -KILL $$");
  EXPECT_EQ(timing->time("a candidate", 1, -1).kind, AnswerKind::unavailable);
}

TEST_F(Helpers, WithoutThatProgramTheCallerTimes) {
  EXPECT_EQ(TimingHelper({}, "cuda:0", {}).time("a candidate", 1, -1).kind, AnswerKind::unavailable);
  EXPECT_EQ(TimingHelper({folder + "/nobody"}, "cuda:0", {}).time("a candidate", 1, -1).kind, AnswerKind::unavailable);
  EXPECT_EQ(helper("echo '{\"ms\":1}'", "temper 0.0.1 of another revision")->time("a candidate", 1, -1).kind,
            AnswerKind::unavailable);
  EXPECT_EQ(helper("echo '{\"failed\":\"no GPU\"}'")->time("a candidate", 1, -1).kind, AnswerKind::unavailable);
}

// The other side, as the program has it. Any device will do.
TEST_F(Helpers, TheProgramTimesACandidateByItsKey) {
  const Device device = open_device("cpu");
  const KernelCase line = parse_cases("matmul(f32[4,8], f32[8,4]*) epilogue=\"(1) 1=relu.f32(0)\"").at(0);
  const std::vector<Tensor> inputs = make_case_inputs(line, 1);
  const Problem problem = make_case_problem(line, inputs, 1);
  TimingHelper timing({paths::program(), kServeTimings}, "cpu", {});
  int timed = 0;
  for (const Tactic* tactic : find_backend("cpu").tactics()) {
    if (tactic->last_resort || !tactic->supports(problem, device).yes()) continue;
    for (const Config& config : tactic->configs(problem, device)) {
      const auto answer =
          timing.time(timing_key(exact_group(device.fingerprint, problem, 1), *tactic, config), 1e9, -1);
      EXPECT_EQ(answer.kind, AnswerKind::timed) << tactic->name;
      EXPECT_GT(answer.ms, 0);
      ++timed;
    }
  }
  EXPECT_GT(timed, 0);
  EXPECT_EQ(timing.time("another machine | matmul() | cpu.matmul v1 x", 1, -1).kind, AnswerKind::unavailable);
}

TEST_F(Helpers, TheCacheKeepsFaultsBesideTimesAlsoOfTwoProcesses) {
  const std::string path = folder + "/timings.json";
  TimingCache first(path), second(path);
  first.add("a", 1);
  first.add_fault("b", "signal 11");
  first.save();
  second.add_fault("c", "an illegal memory access");
  second.save();
  const TimingCache both(path);
  EXPECT_EQ(both.find("a"), 1);
  EXPECT_FALSE(both.find("b"));
  EXPECT_EQ(both.fault("b"), "signal 11");
  EXPECT_EQ(both.fault("c"), "an illegal memory access");
  EXPECT_FALSE(both.fault("a"));
}

}  // namespace
}  // namespace temper
