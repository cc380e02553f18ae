// SPDX-License-Identifier: Apache-2.0
// What becomes of a plan file after it was loaded, or while it is: never another answer, and no signal.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file_copy.h"
#include "helpers.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

class LoadedPlanFile : public ::testing::Test {
 protected:
  LoadedPlanFile()
      : folder_(fs::temp_directory_path() / concat("temper-loaded-", int64_t(getpid()), "-",
                                                   ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(folder_);
    path_ = (folder_ / "m.plan").string();
  }
  ~LoadedPlanFile() override { fs::remove_all(folder_); }

  // Weights of many pages, so that a cut is more than the end of one.
  static Graph wide_graph(uint32_t seed) {
    return parse_graph(
        "graph \"wide\"\n"
        "input %x: f32[n,256]\n"
        "const %w: f32[256,512] = #0\n"
        "%m: f32[n,512] = matmul(%x, %w)\n"
        "const %b: f32[512] = #1\n"
        "%y: f32[n,512] = pointwise(%m, %b) program=\"(2) 2=add.f32(0,1)\"\n"
        "output \"y\" = %y\n",
        std::vector<Tensor>{noise({256, 512}, seed), noise({512}, seed + 1)});
  }
  static Tensor plan_of(const Graph& graph) {
    auto engine = std::make_shared<Engine>(info_of("cpu"), graph, 1);
    add_plan(engine, {{2, 256}});
    return file_bytes(*engine);
  }
  // In place: neither cut nor replaced by another file.
  void overwrite(const Tensor& bytes) const {
    const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(pwrite(fd, bytes.raw().data(), size_t(bytes.bytes()), 0), bytes.bytes());
    close(fd);
  }
  void write(const Tensor& bytes, const std::string& path) const {
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.raw().data()), bytes.bytes());
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(LoadedPlanFile, MayBeCutRewrittenReplacedAndDeleted) {
  const Graph graph = wide_graph(1), others = wide_graph(7);
  const Tensor plan = plan_of(graph), other = plan_of(others);
  ASSERT_EQ(plan.bytes(), other.bytes());
  const std::vector<Tensor> x{noise({2, 256}, 3)}, other_batch{noise({5, 256}, 4)};
  const std::vector<Tensor> y = run_reference(graph, x), of_other_batch = run_reference(graph, other_batch);
  const std::vector<std::pair<const char*, std::function<void()>>> changes{
      {"cut", [&] { ASSERT_EQ(truncate(path_.c_str(), 0), 0); }},
      {"cut in the middle", [&] { ASSERT_EQ(truncate(path_.c_str(), plan.bytes() / 2), 0); }},
      {"another plan over it", [&] { overwrite(other); }},
      {"another plan in its place", [&] { write(other, path_ + ".new"), fs::rename(path_ + ".new", path_); }},
      {"copied over, as cp does", [&] { write(other, path_); }},
      {"noise over it", [&] { overwrite(noise({plan.bytes() / 4}, 5)); }},
      {"deleted", [&] { fs::remove(path_); }},
  };
  for (const auto& [what, change] : changes) {
    write(plan, path_);
    const auto engine = Engine::load(path_);
    Session before(engine);
    expect_close(before.run(x), y, 1e-4);
    change();
    expect_close(before.run(x), y, 1e-4);
    Session after(engine);
    expect_close(after.run(x), y, 1e-4);
    expect_close(after.run(other_batch), of_other_batch, 1e-4);  // planned only now, from the file's weights
    EXPECT_FALSE(::testing::Test::HasFailure()) << what;
  }
}

// Two plans of one size are written over each other all the time, and the file is cut: what loads is one of the two.
TEST_F(LoadedPlanFile, WhileItIsRewrittenItIsReadWholeOrRefused) {
  const Graph graphs[] = {wide_graph(1), wide_graph(7)};
  const Tensor plans[] = {plan_of(graphs[0]), plan_of(graphs[1])};
  const std::vector<Tensor> x{noise({2, 256}, 3)};
  const Tensor answers[] = {run_reference(graphs[0], x)[0], run_reference(graphs[1], x)[0]};
  write(plans[0], path_);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) {
      if (i % 3 == 2 && truncate(path_.c_str(), plans[0].bytes() / 3) != 0) break;
      overwrite(plans[i % 2]);
      usleep(200);
    }
  });
  int whole = 0;
  for (int i = 0; i < 100; ++i) {
    try {
      Session session(Engine::load(path_));
      const auto got = session.run(x)[0].to_doubles();
      const auto is = [&](const Tensor& want) {
        const auto values = want.to_doubles();
        for (size_t k = 0; k < values.size(); ++k)
          if (std::fabs(got[k] - values[k]) > 1e-3) return false;
        return true;
      };
      EXPECT_TRUE(is(answers[0]) || is(answers[1]));
      ++whole;
    } catch (const Error& error) { EXPECT_EQ(error.kind(), ErrorKind::bad_file) << error.what(); }
  }
  stop = true;
  writer.join();
  std::printf("%d of 100 were whole\n", whole);
  write(plans[1], path_);
  expect_close(Session(Engine::load(path_)).run(x), {answers[1]}, 1e-4);
}

TEST_F(LoadedPlanFile, MappedItMayBeReplacedAndDeleted) {
  const Graph graph = wide_graph(1);
  const Tensor plan = plan_of(graph);
  const std::vector<Tensor> x{noise({2, 256}, 3)};
  write(plan, path_);
  const auto engine = Engine::load(path_, {.map_file = true});
  write(plan_of(wide_graph(7)), path_ + ".new");
  fs::rename(path_ + ".new", path_);
  expect_close(Session(engine).run(x), run_reference(graph, x), 1e-4);
  fs::remove(path_);
  expect_close(Session(engine).run(x), run_reference(graph, x), 1e-4);
}

// 1 TiB that takes no room on the disk: only its beginning is looked at.
TEST_F(LoadedPlanFile, WhatIsNoPlanIsNotReadToItsEnd) {
  std::ofstream(path_) << "no plan";
  if (truncate(path_.c_str(), off_t(1) << 40) != 0) GTEST_SKIP() << "no sparse files here";
  try {
    Engine::load(path_);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_file);
    EXPECT_NE(std::string(error.what()).find("not a plan"), std::string::npos) << error.what();
  }
}

TEST(FileCopy, HoldsTheRangesThatWereAskedForAndNoMore) {
  const std::string path = (fs::temp_directory_path() / concat("temper-copy-", int64_t(getpid()))).string();
  std::string content(9 << 20, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = char(i * 2654435761u >> 13);
  std::ofstream(path, std::ios::binary) << content;
  const OpenFile file(path);
  const auto same = [&](const FileCopy& copy, size_t offset, size_t bytes) {
    const auto got = copy.at(offset, bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(got.data()) % 4096, offset % 4096);
    return std::memcmp(got.data(), content.data() + offset, bytes) == 0;
  };
  const FileCopy all(file);
  EXPECT_TRUE(same(all, 0, content.size()));
  EXPECT_TRUE(same(all, 4097, 5 << 20));
  EXPECT_THROW(all.at(1, content.size()), std::logic_error);
  const FileCopy some(file, {{7 << 20, 100}, {1000, 3000}, {2000, 4000}, {(7 << 20) + 50, 1000}, {5, 0}});
  ASSERT_EQ(some.ranges().size(), 2u);
  EXPECT_TRUE(same(some, 1000, 5000));
  EXPECT_TRUE(same(some, (7 << 20) + 60, 990));
  EXPECT_THROW(some.at(3 << 20, 1), std::logic_error);
  EXPECT_THROW(some.at(999, 2), std::logic_error);
  EXPECT_TRUE(some.at(0, 0).empty());
  std::ofstream(path, std::ios::binary | std::ios::app) << "more";
  EXPECT_THROW(FileCopy copy(file), Error) << "it was changed since it was opened";
  ASSERT_EQ(truncate(path.c_str(), 100), 0);
  EXPECT_THROW(FileCopy copy(file), Error) << "it was cut since it was opened";
  fs::remove(path);
}

}  // namespace
}  // namespace temper
