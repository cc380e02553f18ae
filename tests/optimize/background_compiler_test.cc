// SPDX-License-Identifier: Apache-2.0
// What is compiled beside a build, in which order, and what is not.
#include "optimize/background_compiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>

#include "../tune/fake_machine.h"

namespace temper {
namespace {

using NodeNames = std::vector<std::string>;

// A compiler that notes what it is given; "gate" waits for open().
struct Compiler {
  std::mutex mutex;
  std::condition_variable changed;
  NodeNames compiled;
  bool is_open = false;
  int processes = 0;

  void compile(const std::string& name) {
    std::unique_lock lock(mutex);
    compiled.push_back(name);
    changed.notify_all();
    if (name == "gate") changed.wait(lock, [&] { return is_open; });
    if (name == "wrong") fail(ErrorKind::machine, "it does not compile");
  }
  void open() {
    const std::lock_guard lock(mutex);
    is_open = true;
    changed.notify_all();
  }
  // What was compiled once `last` was.
  NodeNames up_to(const std::string& last) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::seconds(60),
                     [&] { return std::ranges::find(compiled, last) != compiled.end(); });
    return compiled;
  }
}* compiler;

const Tactic fake_tactic = [] {
  Tactic made{};
  made.name = "fake";
  made.compile = [](const Problem&, const Config& config, const Device&) { compiler->compile(config.text); };
  return made;
}();
const Backend fake_backend{
    .name = "fake",
    .device = nullptr,
    .tactics = nullptr,
    .compile_reorder = nullptr,
    .reorder = nullptr,
    .queue = nullptr,
    .compile_in = [](const Device&, std::vector<std::string>, int processes) -> std::shared_ptr<void> {
      compiler->processes += processes;
      return std::make_shared<int>(0);
    }};

class CompilesInTheBackground : public ::testing::Test {
 protected:
  void SetUp() override { compiler = &own; }
  void TearDown() override { own.open(); }
  static std::list<ToCompile> texts(const NodeNames& names, const std::shared_ptr<const SearchAhead>& search,
                                    size_t shape = 0) {
    std::list<ToCompile> list;
    for (const std::string& name : names) list.push_back({{}, &fake_tactic, {name, {}, {}}, shape, search});
    return list;
  }
  std::shared_ptr<SearchAhead> search(double seconds = 100) { return std::make_shared<SearchAhead>(seconds, machine); }
  std::unique_ptr<BackgroundCompiler> on_cores(size_t cores) {
    return std::make_unique<BackgroundCompiler>(fake_backend, Device{.backend = "fake"},
                                                std::vector<std::string>{"program"}, cores);
  }
  Compiler own;
  FakeMachine machine;
};

TEST_F(CompilesInTheBackground, InTheOrderInWhichItWasToldAndWhatIsAskedForNextBeforeThat) {
  const auto beside = on_cores(2);
  const auto first = search(), second = search();
  beside->add(texts({"gate", "a", "b"}, first));
  own.up_to("gate");
  beside->add(texts({"c", "d"}, second));
  beside->add_next(texts({"e", "f"}, first));
  own.open();
  EXPECT_EQ(own.up_to("d"), (NodeNames{"gate", "e", "f", "a", "b", "c", "d"}));
}

TEST_F(CompilesInTheBackground, NotWhatNoSearchHasTimeForOrAnyUseAnyMore) {
  const auto beside = on_cores(2);
  const auto over = search(0), ended = search(), later = search();
  over->begin_shape(1);
  later->begin_shape(1);
  beside->add(texts({"gate"}, search()));
  own.up_to("gate");
  beside->add(texts({"a passed shape"}, later, 0));
  beside->add(texts({"of this shape"}, later, 1));
  beside->add(texts({"out of time"}, over, 1));
  beside->add(texts({"of the next shape"}, over, 2));
  beside->add(texts({"of no use"}, ended));
  beside->add(texts({"last"}, search()));
  ended->end();
  own.open();
  EXPECT_EQ(own.up_to("last"), (NodeNames{"gate", "of this shape", "of the next shape", "last"}));
}

TEST_F(CompilesInTheBackground, WhatComesAfterATextThatDoesNotCompile) {
  const auto beside = on_cores(1);
  beside->add(texts({"wrong", "right"}, search()));
  EXPECT_EQ(own.up_to("right"), (NodeNames{"wrong", "right"}));
}

TEST_F(CompilesInTheBackground, InProcessesWhereThereAreFiveCoresAndSoManyTexts) {
  for (const size_t cores : {1, 2, 4}) {
    const auto beside = on_cores(cores);
    beside->add(texts({"a", "b", "c", "d", "e"}, search()));
    EXPECT_FALSE(beside->has_processes()) << cores;
  }
  const auto beside = on_cores(16);
  EXPECT_FALSE(beside->has_processes());
  beside->add({});
  beside->add(texts({"a"}, search()));
  EXPECT_FALSE(beside->has_processes());
  own.up_to("a");
  beside->add(texts({"gate", "b", "c", "d"}, search()));
  EXPECT_TRUE(beside->has_processes());
  beside->add(texts({"1", "2", "3", "4"}, search()));
  EXPECT_EQ(own.processes, 15) << "they stay";
  own.open();
}

TEST_F(CompilesInTheBackground, NothingThatIsLeftWhereTheBuildEnds) {
  auto beside = on_cores(2);
  beside->add(texts({"gate", "a", "b"}, search()));
  own.up_to("gate");
  std::thread ending([&] { beside.reset(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  own.open();
  ending.join();
  EXPECT_EQ(own.compiled.front(), "gate");
  EXPECT_LT(own.compiled.size(), 3u);
}

}  // namespace
}  // namespace temper
