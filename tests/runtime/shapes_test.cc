// SPDX-License-Identifier: Apache-2.0
// Shapes that come at run time: what is kept of them, and who waits for whom while one is planned.
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <thread>

#include "../plan/helpers.h"
#include "base/log.h"

namespace temper {
namespace {

using namespace std::chrono_literals;

Graph rows_graph() {
  return parse_graph(
      "graph \"rows\"\n"
      "input %x: f32[h,w]\n"
      "%a: f32[h,w] = pointwise(%x) program=\"(1) 1=relu.f32(0)\"\n"
      "%s: f32[h,w] = softmax(%a) axis=1\n"
      "%y: f32[h,w] = pointwise(%s) program=\"(1) 1=exp.f32(0)\"\n"
      "output \"y\" = %y\n");
}

std::shared_ptr<Engine> rows_engine(const std::vector<Dims>& planned = {}) {
  auto engine = std::make_shared<Engine>(info_of("cpu"), rows_graph(), 1);
  for (const Dims& dims : planned) add_plan(engine, {dims});
  return engine;
}

void expect_right(Session& session, const Dims& dims) {
  const std::vector<Tensor> inputs{noise(dims, uint32_t(dims[0] * 1000 + dims[1]))};
  expect_close(session.run(inputs), run_reference(session.engine().graph(), inputs));
}

TEST(Shapes, PlansOfAnEngineAreLimitedByCountAndTheLeastRecentlyUsedGoes) {
  const auto engine = rows_engine({{4, 4}});
  engine->set_limits({.plans = 2});
  const auto made = [&](int64_t h) {
    bool is_new = false;
    engine->plan_for({{h, 8}}, &is_new);
    return is_new;
  };
  EXPECT_TRUE(made(1));
  EXPECT_TRUE(made(2));
  EXPECT_FALSE(made(1)) << "used again: 2 is the oldest now";
  EXPECT_TRUE(made(3));
  EXPECT_FALSE(made(1));
  EXPECT_TRUE(made(2)) << "it was let go";
  bool fresh = true;
  engine->plan_for({{4, 4}}, &fresh);
  EXPECT_FALSE(fresh) << "what the engine was built with stays";
  EXPECT_EQ(engine->statistics().plans, 3);
  EXPECT_EQ(engine->statistics().plans_made, 4);
  EXPECT_EQ(engine->statistics().evictions, 2);
  engine->set_limits({.plans = 1});
  EXPECT_EQ(engine->statistics().plans, 2);
  EXPECT_EQ(engine->plans().size(), 2u);
  EXPECT_THROW(engine->set_limits({.plans = 0}), Error);
}

TEST(Shapes, PlansOfAnEngineAreLimitedByBytes) {
  const auto engine = rows_engine();
  engine->plan_for({{1, 8}});
  const int64_t one = engine->statistics().plan_bytes;
  EXPECT_GT(one, 0);
  for (int64_t h = 2; h <= 10; ++h) engine->plan_for({{h, 8}});
  EXPECT_EQ(engine->statistics().plans, 10);
  engine->set_limits({.plan_bytes = 3 * one + one / 2});
  EXPECT_EQ(engine->statistics().plans, 3);
  EXPECT_LE(engine->statistics().plan_bytes, 3 * one + one / 2);
  engine->set_limits({.plan_bytes = 1});
  EXPECT_EQ(engine->statistics().plans, 1) << "the latest stays, whatever it takes";
}

TEST(Shapes, PackedWeightsAreCountedOnceAndLetGoWithTheLastPlan) {
  const auto engine = std::make_shared<Engine>(info_of("cpu"), small_graph("n"), 1);
  engine->plan_for({{1, 3, 8, 8}});
  const int64_t one = engine->statistics().plan_bytes;
  for (int64_t n = 2; n <= 6; ++n) engine->plan_for({{n, 3, 8, 8}});
  EXPECT_LT(engine->statistics().plan_bytes, 6 * one);
  engine->set_limits({.plans = 1});
  EXPECT_EQ(engine->statistics().plans, 1);
  EXPECT_LE(engine->statistics().plan_bytes, one + one / 2);
}

TEST(Shapes, ASessionIsPreparedForALimitedNumberOfShapes) {
  const auto engine = rows_engine();
  engine->set_limits({.plans = 3, .prepared = 2});
  Session session(engine);
  for (int64_t h = 1; h <= 6; ++h) expect_right(session, {h, 8});
  EXPECT_EQ(session.statistics().prepared, 2);
  EXPECT_EQ(session.statistics().evictions, 4);
  EXPECT_EQ(session.statistics().plans_made, 6);
  EXPECT_GT(session.statistics().prepared_bytes, 0);
  expect_right(session, {6, 8});
  expect_right(session, {5, 8});
  EXPECT_EQ(session.statistics().evictions, 4) << "both were there";
  expect_right(session, {4, 8});
  EXPECT_EQ(session.statistics().plans_made, 6) << "the engine still had it";
  expect_right(session, {1, 8});
  EXPECT_EQ(session.statistics().plans_made, 7);
  engine->set_limits({.prepared_bytes = 1});
  expect_right(session, {9, 8});
  EXPECT_EQ(session.statistics().prepared, 1) << "only the latest";
}

TEST(Shapes, ASessionKeepsThePlanThatItRuns) {
  const auto engine = rows_engine();
  engine->set_limits({.plans = 1});
  Session session(engine), other(engine);
  const Tensor x = noise({3, 8}, 5);
  Tensor y(DType::f32, {3, 8});
  session.prepare({{3, 8}});
  const std::weak_ptr<const Plan> plan = engine->plan_for({{3, 8}});
  for (int64_t h = 10; h < 15; ++h) expect_right(other, {h, 8});
  EXPECT_FALSE(plan.expired());
  const void* in = x.raw().data();
  void* out = y.raw_mutable();
  session.run_prepared({&in, 1}, {&out, 1});
  expect_close({y}, run_reference(engine->graph(), {x}));
  bool made = false;
  engine->plan_for({{3, 8}}, &made);
  EXPECT_TRUE(made) << "the engine had let it go";
}

// Stands at the place in planning where it says so, until it is let go.
class HeldPlanning {
 public:
  explicit HeldPlanning(std::string shapes) : shapes_(std::move(shapes)) {
    held_ = this;
    set_log_callback([](LogLevel, std::string_view message) { held_->said(message); });
  }
  ~HeldPlanning() {
    let_go();
    set_log_callback(nullptr);
  }
  // False where nobody came within a minute.
  bool wait_until_it_plans() {
    std::unique_lock lock(mutex_);
    return change_.wait_for(lock, 60s, [&] { return planning_; });
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    free_ = true;
    change_.notify_all();
  }

 private:
  void said(std::string_view message) {
    if (message != concat("planning for ", shapes_)) return;
    std::unique_lock lock(mutex_);
    planning_ = true;
    change_.notify_all();
    change_.wait(lock, [&] { return free_; });
  }
  static inline HeldPlanning* held_ = nullptr;
  std::string shapes_;
  std::mutex mutex_;
  std::condition_variable change_;
  bool planning_ = false, free_ = false;
};

// Done by another thread; false where that took longer than a minute.
bool done_beside(const std::function<void()>& body) {
  auto result = std::async(std::launch::async, body);
  const bool done = result.wait_for(60s) == std::future_status::ready;
  if (done) result.get();
  else std::abort();  // it would wait for ever
  return done;
}

// By the order of events: the first thread plans until all others are done.
TEST(Shapes, KnownAndOtherShapesDoNotWaitForOneThatIsPlanned) {
  const auto engine = rows_engine({{4, 4}});
  Session first(engine), known(engine), other(engine);
  HeldPlanning held("[[7,7]]");
  std::thread planner([&] { expect_right(first, {7, 7}); });
  ASSERT_TRUE(held.wait_until_it_plans());
  EXPECT_TRUE(done_beside([&] { expect_right(known, {4, 4}); }));
  EXPECT_TRUE(done_beside([&] { expect_right(other, {5, 5}); })) << "a new shape is planned beside it";
  EXPECT_TRUE(done_beside([&] { engine->statistics(), engine->plans(); }));
  EXPECT_EQ(engine->statistics().plans_made, 1);
  held.let_go();
  planner.join();
  EXPECT_EQ(engine->statistics().plans_made, 2);
}

TEST(Shapes, ThreadsThatNeedTheSameShapeWaitForOnePlanOfIt) {
  const auto engine = rows_engine();
  HeldPlanning held("[[7,7]]");
  std::vector<std::shared_ptr<const Plan>> plans(5);
  std::vector<char> made(5);
  std::vector<std::thread> threads;
  const auto ask = [&](size_t i) {
    bool fresh = false;
    plans[i] = engine->plan_for({{7, 7}}, &fresh);
    made[i] = fresh;
  };
  threads.emplace_back(ask, 0);
  ASSERT_TRUE(held.wait_until_it_plans());
  for (size_t i = 1; i < plans.size(); ++i) threads.emplace_back(ask, i);
  held.let_go();
  for (std::thread& thread : threads) thread.join();
  for (const auto& plan : plans) EXPECT_EQ(plan, plans[0]);
  EXPECT_EQ(std::vector<char>(made), (std::vector<char>{1, 0, 0, 0, 0}));
  EXPECT_EQ(engine->statistics().plans_made, 1);
}

// Rows that cannot be broadcast: only planning finds out.
TEST(Shapes, APlanThatFailsFailsForAllWhoWaitAndIsTriedAgain) {
  const auto engine =
      std::make_shared<Engine>(info_of("cpu"),
                               parse_graph("graph \"rows\"\n"
                                           "input %x: f32[h,w]\n"
                                           "input %z: f32[k,w]\n"
                                           "%y: f32[max(h,k),w] = pointwise(%x, %z) program=\"(2) 2=add.f32(0,1)\"\n"
                                           "output \"y\" = %y\n"),
                               1);
  HeldPlanning held("[[3,4],[2,4]]");
  std::vector<std::string> errors(3);
  std::vector<std::thread> threads;
  const auto ask = [&](size_t i) {
    try {
      engine->plan_for({{3, 4}, {2, 4}});
    } catch (Error& error) {
      error.add_context(concat("thread ", i));
      errors[i] = error.what();
    }
  };
  threads.emplace_back(ask, 0);
  ASSERT_TRUE(held.wait_until_it_plans());
  for (size_t i = 1; i < errors.size(); ++i) threads.emplace_back(ask, i);
  held.let_go();
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < errors.size(); ++i) {
    EXPECT_TRUE(errors[i].starts_with(concat("thread ", i, ": "))) << errors[i];
    EXPECT_EQ(errors[i].find("thread", 3), errors[i].npos) << errors[i];
  }
  EXPECT_THROW(engine->plan_for({{3, 4}, {2, 4}}), Error);
  EXPECT_NE(engine->plan_for({{3, 4}, {1, 4}}), nullptr);
  EXPECT_EQ(engine->statistics().plans_made, 1);
}

int64_t resident_kib() {
  int64_t pages = 0;
  std::ifstream statm("/proc/self/statm");
  statm >> pages >> pages;
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

int64_t count_from_environment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

// TEMPER_SHAPES=10000 for the long one.
TEST(Shapes, MemoryIsSteadyHoweverManyShapesCome) {
  const int64_t shapes = count_from_environment("TEMPER_SHAPES", 1000);
  for (const bool convolution : {false, true}) {
    const auto engine = convolution ? std::make_shared<Engine>(
                                          info_of("cpu"),
                                          parse_graph("graph \"conv\"\n"
                                                      "input %x: f32[1,4,h,w]\n"
                                                      "const %w: f32[8,4,3,3] = #0\n"
                                                      "%c: f32[1,8,h,w] = conv(%x, %w) strides=[1,1] dilations=[1,1] "
                                                      "pads=[1,1,1,1] epilogue=\"(1) 1=relu.f32(0)\"\n"
                                                      "%y: f32[1,8,h,w] = softmax(%c) axis=1\n"
                                                      "output \"y\" = %y\n",
                                                      std::vector<Tensor>{noise({8, 4, 3, 3}, 1)}),
                                          1)
                                    : rows_engine();
    Session session(engine);
    // Large and small ones in turns, so that what comes later is no larger.
    const auto dims = [&](int64_t i) {
      const int64_t at = i * 7919 % (101 * 103), h = 3 + at % 101, w = 3 + at / 101;
      return convolution ? Dims{1, 4, h, w} : Dims{h, w};
    };
    int64_t after_500 = 0;
    for (int64_t i = 0; i < shapes; ++i) {
      if (i == 500) after_500 = resident_kib();
      if (i % 50 == 0) expect_right(session, dims(i));
      else session.run({noise(dims(i), 1)});
    }
    const int64_t after_all = resident_kib();
    std::printf("%s: %lld shapes: %lld KiB after 500, %lld KiB at the end\n", convolution ? "convolutions" : "rows",
                (long long)shapes, (long long)after_500, (long long)after_all);
    EXPECT_LE(double(after_all), 1.1 * double(after_500));
    EXPECT_EQ(session.statistics().plans_made, shapes);
    EXPECT_EQ(engine->statistics().plans, engine->limits().plans);
    EXPECT_EQ(session.statistics().prepared, engine->limits().prepared);
    expect_right(session, dims(0));
  }
}

// TEMPER_SOAK_S=600 for the long one.
TEST(Shapes, MemoryIsSteadyUnderLoadOnKnownShapes) {
  const int64_t seconds = count_from_environment("TEMPER_SOAK_S", 1);
  const auto engine = rows_engine();
  const auto run_for = [&](std::chrono::duration<double> time) {
    std::vector<std::thread> threads;
    std::atomic<int64_t> wrong{0};
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        Session session(engine);
        const Tensor x = noise({2 + t, 16}, 7);
        const Tensor want = session.run({x})[0];
        const auto end = std::chrono::steady_clock::now() + time;
        while (std::chrono::steady_clock::now() < end) wrong += !session.run({x})[0].same_bits(want);
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    return resident_kib();
  };
  const int64_t before = run_for(0.2s);
  const int64_t after = run_for(std::chrono::duration<double>(double(seconds)));
  EXPECT_LE(double(after), 1.1 * double(before));
  EXPECT_EQ(engine->statistics().plans_made, 4);
}

TEST(Shapes, StagesOfModelsWhoseShapesDependOnDataAreLimitedToo) {
  const auto engine = std::make_shared<Engine>(
      info_of("cpu"),
      parse_graph("graph \"found\"\n"
                  "input %x: f32[n]\n"
                  "%i: i64[1,$i.0.1] = nonzero(%x)\n"
                  "%f: f32[1,$i.0.1] = pointwise(%i) program=\"(1) 1=cast.f32(0) 2=relu.f32(1)\"\n"
                  "output \"f\" = %f\n"),
      1);
  engine->set_limits({.prepared = 6});
  Session session(engine);
  const auto check = [&](int64_t n, int64_t found) {
    Tensor x(DType::f32, {n});
    for (int64_t i = 0; i < found; ++i) x.data<float>()[n - 1 - i] = 1;
    expect_close(session.run({x}), run_reference(engine->graph(), {x}));
  };
  for (int64_t found = 1; found <= 20; ++found) check(32, found);
  EXPECT_LE(session.statistics().prepared, 6);
  EXPECT_GT(session.statistics().evictions, 10);
  const int64_t made = session.statistics().plans_made;
  check(32, 20);
  EXPECT_EQ(session.statistics().plans_made, made) << "the latest is there";
  check(32, 1);
  EXPECT_GT(session.statistics().plans_made, made);
  for (int64_t n = 1; n <= 20; ++n) check(n, 1);
  EXPECT_LE(session.statistics().prepared, 6);
  EXPECT_EQ(engine->statistics().plans_made, session.statistics().plans_made);
}

// As where an exporter expands a constant to the shape of what is found.
TEST(Shapes, ASizeThatDataDecideReachesNodesThatReadNoneOfTheData) {
  const auto engine = std::make_shared<Engine>(info_of("cpu"),
                                               parse_graph("graph \"ones\"\n"
                                                           "input %x: f32[n]\n"
                                                           "%i: i64[1,$i.0.1] = nonzero(%x)\n"
                                                           "const %one: f32[1] = #0\n"
                                                           "%o: f32[$i.0.1] = broadcast(%one) shape=[$i.0.1]\n"
                                                           "%t: f32[$i.0.1] = cumulative(%o)\n"
                                                           "output \"t\" = %t\noutput \"i\" = %i\n",
                                                           std::vector<Tensor>{Tensor::of<float>({1}, {1})}),
                                               1);
  Session session(engine);
  for (int64_t found : {3, 0, 20, 3}) {
    Tensor x(DType::f32, {20});
    for (int64_t i = 0; i < found; ++i) x.data<float>()[19 - i] = 1;
    const Tensor got = session.run({x}).at(0);
    ASSERT_EQ(got.dims(), Dims{found});
    for (int64_t i = 0; i < found; ++i) EXPECT_EQ(got.data<float>()[i], float(i + 1));
  }
}

std::pair<ErrorKind, std::string> error_of_run(const std::string& text, const std::vector<Tensor>& inputs) {
  const auto engine = std::make_shared<Engine>(info_of("cpu"), parse_graph(text), 1);
  Session session(engine);
  try {
    session.run(inputs);
  } catch (const Error& error) { return {error.kind(), error.what()}; }
  return {ErrorKind::check_failed, "no error"};
}

TEST(Shapes, AnErrorOfARunNamesTheStepAndWhatDataAskForIsUsage) {
  const auto [kind, text] = error_of_run(
      "graph \"g\"\n"
      "input %x: f32[4]\n"
      "input %i: i64[2]\n"
      "%picked: f32[2] = gather(%x, %i) axis=0\n"
      "output \"picked\" = %picked\n",
      {Tensor(DType::f32, {4}), Tensor::of<int64_t>({2}, {1, 4})});
  EXPECT_EQ(kind, ErrorKind::usage);
  EXPECT_EQ(text, "gather 'picked': the index 4 is outside of an axis of 4 elements");
  const auto [of_range, message] = error_of_run(
      "graph \"g\"\n"
      "input %a: f32[]\n"
      "input %b: f32[]\n"
      "input %c: f32[]\n"
      "%r: f32[$r.0.0] = range(%a, %b, %c)\n"
      "output \"r\" = %r\n",
      {Tensor::of<float>({}, {0}), Tensor::of<float>({}, {1}), Tensor::of<float>({}, {0})});
  EXPECT_EQ(of_range, ErrorKind::usage);
  EXPECT_EQ(message, "range 'r': a range with delta 0");
}

}  // namespace
}  // namespace temper
