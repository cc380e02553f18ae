// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/onednn_threads.h"

#include <gtest/gtest.h>
#include <link.h>
#include <omp.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "backends/cpu/onednn.h"
#include "base/team.h"

extern "C" void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);  // libgomp's

namespace temper {
namespace {

std::set<std::string> names_of_threads(const std::set<std::string>& without) {
  std::set<std::string> ids;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    if (!without.contains(task.path().filename())) ids.insert(task.path().filename());
  return ids;
}
std::string name_of_thread(const std::string& id) {
  std::ifstream file("/proc/self/task/" + id + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

// y = x * w, large enough for several threads.
struct Product {
  static constexpr int64_t kM = 96, kK = 80, kN = 128;
  std::vector<float> x = std::vector<float>(size_t(kM * kK)), w = std::vector<float>(size_t(kK * kN)),
                     y = std::vector<float>(size_t(kM * kN));
  DnnlCall call;
  explicit Product(int threads) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = float(int(i * 7 % 11) - 5);
    for (size_t i = 0; i < w.size(); ++i) w[i] = float(int(i * 5 % 13) - 6);
    const ThreadScope scope(threads);
    const auto a = dnnl_plain_desc(DType::f32, {kM, kK}), b = dnnl_plain_desc(DType::f32, {kK, kN}),
               c = dnnl_plain_desc(DType::f32, {kM, kN});
    call = DnnlCall(dnnl::matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), dnnl_cpu_engine())));
    call.set(call.add(DNNL_ARG_SRC, a), x.data());
    call.set(call.add(DNNL_ARG_WEIGHTS, b), w.data());
    call.set(call.add(DNNL_ARG_DST, c), y.data());
  }
  void check() {
    std::fill(y.begin(), y.end(), -1e9f);
    call.execute();
    for (int64_t m = 0; m < kM; ++m)
      for (int64_t n = 0; n < kN; ++n) {
        float sum = 0;  // of integers: exact in any order
        for (int64_t k = 0; k < kK; ++k) sum += x[size_t(m * kK + k)] * w[size_t(k * kN + n)];
        ASSERT_EQ(y[size_t(m * kN + n)], sum) << m << ' ' << n;
      }
  }
};

TEST(OnednnThreads, TheDistributionsLibraryIsServed) { EXPECT_TRUE(serve_dnnl_regions()); }

TEST(OnednnThreads, ItsLoopsRunOnTheCallersWorkersAndNoOthersAreMade) {
  if (!serve_dnnl_regions()) GTEST_SKIP() << "another build of oneDNN";
  std::thread([] {
    const auto before = names_of_threads({});
    Product(3).check();
    const auto made = names_of_threads(before);
    EXPECT_EQ(made.size(), 2u);
    for (const std::string& id : made) EXPECT_EQ(name_of_thread(id), "temper");
  }).join();
}

TEST(OnednnThreads, ResultsAreRightOnAnyNumberOfThreads) {
  for (int threads : {1, 2, 3, 4, 7}) Product(threads).check();
}

TEST(OnednnThreads, LateWorkersAreNotWaitedForOrDoneTwice) {
  Product product(3);
  product.check();
  static std::atomic<int> pauses;
  pauses = 0;
  set_worker_hook([](int) {
    if (pauses++ % 2 == 0)
      for (int i = 0; i < 50; ++i) std::this_thread::yield();
  });
  for (int round = 0; round < 50; ++round) product.check();
  set_worker_hook(nullptr);
}

TEST(OnednnThreads, InsideOfARegionALoopHasOneThread) {
  Product first(1), second(1);
  Product* const products[] = {&first, &second};
  run_parts(
      2, Parts::independent, [](void* data, int member) { static_cast<Product* const*>(data)[member]->check(); },
      const_cast<Product**>(products));
}

// Clang would link libomp, a second one beside that of oneDNN's library: settings and threads of either are unknown to
// the other.
TEST(OnednnThreads, TheProcessHasOneOpenMpRuntimeAndItIsLibgomp) {
  std::vector<std::string> runtimes;
  dl_iterate_phdr(
      [](dl_phdr_info* library, size_t, void* found) {
        const std::string name = std::filesystem::path(library->dlpi_name).filename();
        for (const char* runtime : {"libgomp", "libomp", "libiomp5"})
          if (name.starts_with(runtime)) static_cast<std::vector<std::string>*>(found)->push_back(name);
        return 0;
      },
      &runtimes);
  ASSERT_EQ(runtimes.size(), 1u) << ::testing::PrintToString(runtimes);
  EXPECT_TRUE(runtimes[0].starts_with("libgomp.so")) << runtimes[0];
}

TEST(OnednnThreads, WhatTheApplicationRunsStaysLibgomps) {
  serve_dnnl_regions();
  EXPECT_EQ(dnnl_work().threads, 0);
  {
    const ThreadScope scope(3);
    EXPECT_EQ(dnnl_work().threads, 3);
    const int before = omp_get_max_threads();
    std::atomic<int> threads{0};
    GOMP_parallel([](void* count) { *static_cast<std::atomic<int>*>(count) += omp_get_num_threads() == 2; }, &threads,
                  2, 0);
    EXPECT_EQ(threads, 2);
    EXPECT_EQ(omp_get_max_threads(), before) << "the application's setting is not touched";
  }
  EXPECT_EQ(dnnl_work().threads, 0);
  // oneDNN called by the application itself: its loop opens a region of libgomp's.
  std::vector<float> from(1 << 16, 2.f), to(1 << 16, 0.f);
  dnnl::stream stream(dnnl_cpu_engine());
  const dnnl::memory a(dnnl_plain_desc(DType::f32, {256, 256}), dnnl_cpu_engine(), from.data());
  const dnnl::memory b(dnnl::memory::desc({256, 256}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ba),
                       dnnl_cpu_engine(), to.data());
  dnnl::reorder(a, b).execute(stream, const_cast<dnnl::memory&>(a), const_cast<dnnl::memory&>(b));
  stream.wait();
  EXPECT_EQ(std::count(to.begin(), to.end(), 2.f), 1 << 16);
}

}  // namespace
}  // namespace temper
