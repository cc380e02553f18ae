// SPDX-License-Identifier: Apache-2.0
// Candidates of NVIDIA's libraries that fault while a plan is built: on a scripted GPU with a scripted cuBLASLt.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "../../plan/helpers.h"
#include "base/file.h"
#include "optimize/build_engine.h"
#include "scripted_cublaslt.h"
#include "tune/helper.h"

namespace temper {
namespace {

using testing::ScriptedGpus;

constexpr const char* kTactic = "cuda.matmul.cublaslt_int8";

// A product of i8 that cuBLASLt has two algorithms for, 7 and 8.
Graph product(const std::string& name) {
  Tensor weights(DType::i8, {20, 12});
  for (int64_t i = 0; i < weights.count(); ++i) weights.data<int8_t>()[i] = int8_t(i % 13 - 6);
  return parse_graph(
      "graph \"" + name +
          "\"\ninput %x: i8[4,20]\nconst %w: i8[20,12] = #0\n"
          "%y: f32[4,12] = matmul(%x, %w) epilogue=\"(1) 1=cast.f32(0)\" @\"product\"\noutput \"y\" = %y\n",
      std::vector<Tensor>{weights});
}

class CudaFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!testing::nvrtc_of_setup(why)) GTEST_SKIP() << "no NVRTC: " << why;
    std::filesystem::create_directories(folder);
    open();
  }
  void TearDown() override {
    machines.reset();
    ScriptedGpus::get().reset();
    std::filesystem::remove_all(folder);
  }
  // The GPUs of a new process. `launches`: what a product of cuBLASLt's does before it is launched.
  void open(void (*launches)() = nullptr) {
    machines.reset();
    ScriptedGpus::get().reset();
    machines = std::make_unique<testing::ScriptedMachines>();
    cuda::CublasLtApi api = testing::ScriptedCublasLt::api();
    if (launches) {
      static cuda::CublasLtApi before;
      static void (*first)();
      before = api, first = launches;
      api.matmul = [](auto... arguments) { return first(), before.matmul(arguments...); };
    }
    const auto machine = cuda::Machine::open(0, {});
    machine->put_in_place(std::make_unique<const cuda::CublasLt>(machine->gpu(), api));
  }
  std::shared_ptr<Engine> build(const std::string& name, const std::string& answers = "") {
    BuildOptions options;
    options.device = "cuda:0";
    options.threads = 1;
    options.timing_cache = folder + "/timings.json";
    if (!answers.empty()) {
      const std::string script = folder + "/helper.sh";
      write_file_atomically(
          script, concat("echo '", TimingHelper::greeting(), "'\nwhile read -r line; do\necho \"$line\" >> '", folder,
                         "/asked'\n", answers, "\ndone\n"));
      options.timing_helper = {"/bin/sh", script};
    }
    return build_engine(product(name), info_of(options.device), options);
  }
  std::string asked() const { return file_exists(folder + "/asked") ? read_file(folder + "/asked") : ""; }
  static std::vector<std::string> faults(const Engine& engine) {
    std::vector<std::string> out;
    for (const Candidate& candidate : step_of(*engine.plans().at(0), "product").losers)
      if (candidate.tactic == kTactic && candidate.refusal.starts_with("faulted")) out.push_back(candidate.refusal);
    return out;
  }

  const std::string folder =
      (std::filesystem::path(::testing::TempDir()) / concat("temper_faults_", getpid())).string();
  std::unique_ptr<testing::ScriptedMachines> machines;
};

TEST_F(CudaFaults, ACandidateThatFaultsInItsProcessIsLeftOutAndRemembered) {
  const auto engine =
      build("first", "case \"$line\" in *'algorithm 7'*) kill -SEGV $$;; *) echo '{\"ms\":0.0001}';; esac");
  const PlanStep& step = step_of(*engine->plans().at(0), "product");
  EXPECT_EQ(step.tactic, kTactic);
  EXPECT_EQ(step.config.text.substr(0, 11), "algorithm 8");
  ASSERT_EQ(faults(*engine).size(), 1u);
  EXPECT_EQ(faults(*engine)[0], "faulted on this GPU: its process was ended by signal 11");
  EXPECT_NE(asked().find("algorithm 7"), std::string::npos);
  // Another model with the same product.
  std::filesystem::remove(folder + "/asked");
  const auto again = build("second", "echo '{\"ms\":0.0001}'");
  EXPECT_EQ(faults(*again), faults(*engine));
  EXPECT_EQ(asked().find("algorithm 7"), std::string::npos) << asked();
}

TEST_F(CudaFaults, WithoutAProcessOfItsOwnTheBuildEndsWithItsNameAndTheNextGoesOn) {
  open([] { ScriptedGpus::get().lost_at = ScriptedGpus::get().calls; });
  try {
    build("first");
    ADD_FAILURE() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::machine);
    const std::string what = error.what();
    EXPECT_NE(what.find(concat(kTactic, " (algorithm 7 0 0 0 0 0 0 0 0) faulted and took the GPU from this process")),
              std::string::npos)
        << what;
    EXPECT_NE(what.find("start again"), std::string::npos) << what;
  }
  open();
  const auto engine = build("first");
  ASSERT_EQ(faults(*engine).size(), 1u);
  EXPECT_EQ(faults(*engine)[0].find("faulted on this GPU: "), 0u) << faults(*engine)[0];
}

// What fails without taking the GPU along is no fault of the candidate's: it is timed here.
TEST_F(CudaFaults, AProcessThatCannotTimeLeavesItToTheBuild) {
  const auto engine = build("first", "echo '{\"failed\":\"out of memory\"}'");
  EXPECT_TRUE(faults(*engine).empty());
  EXPECT_NE(asked().find("algorithm 7"), std::string::npos);
}

}  // namespace
}  // namespace temper
