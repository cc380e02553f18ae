// SPDX-License-Identifier: Apache-2.0
// State that sessions keep from run to run.
#include "../plan/helpers.h"
#include "temper/temper_c.h"

namespace temper {
namespace {

// next = s / 2 + x, y = next * next; the batch and the length may be open.
std::shared_ptr<Engine> filter(const std::string& n = "n", const std::string& device = "cpu") {
  const std::string type = concat("f32[", n, ",4]");
  return std::make_shared<Engine>(
      info_of(device),
      parse_graph(
          concat("graph \"filter\"\ninput %x: ", type, "\ninput %s: ", type, "\n%next: ", type,
                 " = pointwise(%x, %s) program=\"(2) 2=constant.f32[0.5] 3=mul.f32(1,2) 4=add.f32(0,3)\"\n%y: ", type,
                 " = pointwise(%next) program=\"(1) 1=mul.f32(0,0)\"\noutput \"y\" = %y\n"
                 "output \"next\" = %next\n")),
      1);
}

// The same beside a branch.
std::shared_ptr<Engine> branching_filter() {
  return std::make_shared<Engine>(
      info_of("cpu"),
      parse_graph("graph \"branches\"\ninput %c: bool[]\ninput %s: f32[n,4]\n"
                  "%a: f32[n,4] = pointwise(%s) program=\"(1) 1=constant.f32[1] 2=add.f32(0,1)\"\n"
                  "%b: f32[n,4] = pointwise(%s) program=\"(1) 1=add.f32(0,0)\"\n"
                  "%next: f32[n,4] = choose(%c, %a, %b)\n%y: f32[n,4] = pointwise(%next) program=\"(1) 1=neg.f32(0)\"\n"
                  "output \"y\" = %y\noutput \"next\" = %next\n"),
      1);
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "no error";
}

// Runs pieces one after the other and holds them against the references, which are handed the state.
TEST(SessionState, EveryRunGoesOnFromTheLast) {
  const auto engine = filter();
  Session session(engine);
  session.keep_state({{"s", "next"}});
  Tensor state(DType::f32, {2, 4});
  EXPECT_FALSE(session.state(1).defined());
  for (uint32_t piece = 1; piece <= 9; ++piece) {
    const Tensor x = noise({2, 4}, piece);
    if (piece == 4) {
      session.reset_state();
      state = Tensor(DType::f32, {2, 4});
    }
    if (piece == 6) state = noise({2, 4}, 60);  // given: it goes on from there
    const std::vector<Tensor> want = run_reference(engine->graph(), {x, state});
    const std::vector<Tensor> got = session.run({x, piece == 6 ? state : Tensor()});
    EXPECT_FALSE(got[1].defined()) << "the state stays in the session";
    expect_close({got[0], session.state(1)}, want);
    state = want[1];
  }
  EXPECT_EQ(session.statistics().plans_made, 1);
}

TEST(SessionState, LiesInTwoBuffersThatChangePlaces) {
  Session session(filter());
  session.keep_state({{"s", "next"}});
  const Tensor x = noise({2, 4}, 1);
  Tensor y(DType::f32, {2, 4});
  session.prepare({{2, 4}, {2, 4}});
  const void* const inputs[] = {x.raw().data(), nullptr};
  void* const outputs[] = {y.raw_mutable(), nullptr};
  std::vector<const void*> places;
  for (int run = 0; run < 6; ++run) {
    session.run_prepared(inputs, outputs);
    places.push_back(session.states()[0].now.raw().data());
  }
  EXPECT_NE(places[0], places[1]);
  for (size_t run = 2; run < places.size(); ++run) EXPECT_EQ(places[run], places[run - 2]);
  void* const taken[] = {y.raw_mutable(), y.raw_mutable()};
  EXPECT_NE(message_of([&] { session.run_prepared(inputs, taken); }).find("stays in the session"), std::string::npos);
  session.prepare({{3, 4}, {3, 4}});
  EXPECT_NE(message_of([&] { session.run_prepared(inputs, outputs); }).find("[2,4] by now"), std::string::npos);
}

TEST(SessionState, OfAModelWithBranchesGoesOn) {
  const auto engine = branching_filter();
  Session session(engine);
  session.keep_state({{"s", "next"}});
  Tensor state = noise({3, 4}, 5);
  for (bool side : {true, false, false, true, true}) {
    const std::vector<Tensor> want = run_reference(engine->graph(), {Tensor::of<bool>({}, {side}), state});
    const bool first = session.statistics().runs == 0;
    const std::vector<Tensor> got = session.run({Tensor::of<bool>({}, {side}), first ? state : Tensor()});
    expect_close({got[0], session.state(1)}, want);
    state = want[1];
  }
  EXPECT_TRUE(session.is_partitioned());
}

// A history that gets longer with every piece, as the keys and values of a decoder.
TEST(SessionState, MayGrow) {
  const auto engine = std::make_shared<Engine>(
      info_of("cpu"),
      parse_graph(
          "graph \"history\"\ninput %x: f32[1,4]\ninput %s: f32[t,4]\n%next: f32[t+1,4] = concat(%s, %x) axis=0\n"
          "%y: f32[1,4] = reduce(%next) axes=[0]\n"
          "output \"y\" = %y\noutput \"next\" = %next\n"),
      1);
  Session session(engine);
  session.keep_state({{"s", "next"}});
  EXPECT_NE(message_of([&] { session.run({noise({1, 4}, 1), Tensor()}); }).find("leaves its shape open"),
            std::string::npos);
  Tensor state(DType::f32, {0, 4});
  for (uint32_t piece = 0; piece < 5; ++piece) {
    const Tensor x = noise({1, 4}, piece);
    const std::vector<Tensor> want = run_reference(engine->graph(), {x, state});
    const std::vector<Tensor> got = session.run({x, piece == 0 ? state : Tensor()});
    expect_close({got[0], session.state(1)}, want);
    state = want[1];
  }
  EXPECT_EQ(session.state(1).dims(), (Dims{5, 4}));
}

TEST(SessionState, WhatCannotBeKeptIsRefused) {
  Session session(filter());
  const auto said = [&](const std::vector<StateBinding>& states, const char* words) {
    const std::string message = message_of([&] { session.keep_state(states); });
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  said({{"t", "next"}}, "has no input 't' to keep a state in; there are: x f32[n,4], s f32[n,4]");
  said({{"s", "out"}}, "has no output 'out'");
  said({{"s", "next"}, {"s", "y"}}, "the input 's' belongs to two states");
  said({{"s", "next"}, {"x", "next"}}, "the output 'next' belongs to two states");
  EXPECT_NE(message_of([&] { Session(branching_filter()).keep_state({{"c", "y"}}); }).find("cannot be the next run's"),
            std::string::npos);
  EXPECT_NE(message_of([&] { session.state(0); }).find("keeps no state for input 0"), std::string::npos);
  EXPECT_TRUE(session.states().empty()) << "what failed changed nothing";
}

TEST(SessionState, NamesMayHoldTheSignBetweenThem) {
  EXPECT_EQ(parse_state("a=b=c=d", {"a", "a=b"}, {"d", "c=d"}).input, "a=b");
  EXPECT_NE(message_of([] { parse_state("a", {"a"}, {"b"}); }).find("INPUT=OUTPUT"), std::string::npos);
  EXPECT_NE(message_of([] { parse_state("a=c", {"a"}, {"b"}); }).find("the outputs b"), std::string::npos);
}

// x of rows of 2 behind `lengths` of a cache of 4; y is the sum of the cache.
std::shared_ptr<Engine> cache() {
  return std::make_shared<Engine>(
      info_of("cpu"),
      parse_graph("graph \"cache\"\ninput %x: f32[1,n,2]\ninput %kept: f32[1,4,2]\ninput %lengths: i64[1]\n"
                  "%all: f32[1,4,2] = append(%kept, %x, %lengths)\n%y: f32[1,4,1] = reduce(%all) axes=[2]\n"
                  "output \"y\" = %y\noutput \"all\" = %all\n"),
      1);
}

TEST(SessionState, OfACacheStaysInOnePlace) {
  Session session(cache());
  session.keep_state({{"kept", "all"}});
  const auto run = [&](int64_t count, int64_t length, const Tensor& given = {}) {
    Tensor x(DType::f32, {1, count, 2});
    for (int64_t i = 0; i < x.count(); ++i) x.data<float>()[i] = float(10 * length + i + 1);
    return session.run({x, given, Tensor::of<int64_t>({1}, {length})})[0].to_doubles();
  };
  EXPECT_EQ(run(2, 0), (std::vector<double>{3, 7, 0, 0}));
  const void* const place = session.states()[0].now.raw().data();
  EXPECT_EQ(run(1, 2), (std::vector<double>{3, 7, 43, 0}));
  EXPECT_EQ(session.states()[0].now.raw().data(), place);
  EXPECT_FALSE(session.states()[0].next.defined());
  // A value that is given stays as it is.
  const Tensor given = Tensor::of<float>({1, 4, 2}, {1, 1, 1, 1, 1, 1, 1, 1});
  EXPECT_EQ(run(1, 3, given), (std::vector<double>{2, 2, 2, 63}));
  EXPECT_EQ(given.to_doubles(), std::vector<double>(8, 1));
  EXPECT_EQ(run(1, 0), (std::vector<double>{3, 2, 2, 63}));
  // Without room nothing changes, and the session goes on.
  EXPECT_THROW(run(2, 3), Error);
  EXPECT_EQ(run(1, 1), (std::vector<double>{3, 23, 2, 63}));
}

// Elements of a cache [1,2,4,2] of two heads are replaced: of what kind the scatter is decides how its indices look.
TEST(SessionState, OfAScatterThatReplacesStaysInOnePlace) {
  const auto place_of = [](const std::string& scatter, const Tensor& indices, const Dims& updates, bool stays) {
    const std::string text =
        concat("graph \"cache\"\ninput %x: f32", updates, "\ninput %kept: f32[1,2,4,2]\ninput %at: ", indices.type(),
               "\n%all: f32[1,2,4,2] = scatter(%kept, %at, %x) ", scatter, "\noutput \"all\" = %all\n");
    const auto engine = std::make_shared<Engine>(info_of("cpu"), parse_graph(text), 1);
    Session session(engine);
    session.keep_state({{"kept", "all"}});
    Tensor state(DType::f32, {1, 2, 4, 2});
    const void* place = nullptr;
    for (uint32_t run = 0; run < 3; ++run) {
      const Tensor x = noise(updates, run);
      session.run({x, Tensor(), indices});
      state = run_reference(engine->graph(), {x, state, indices})[0];
      expect_close({session.state(1)}, {state});
      const void* const now = session.states()[0].now.raw().data();
      if (run) { EXPECT_EQ(now == place, stays) << scatter; }
      place = now;
    }
    EXPECT_EQ(session.states()[0].next.defined(), !stays) << scatter;
    if (!stays) return;
    Tensor outside = indices;
    outside = Tensor::of<int64_t>(indices.dims(), std::vector<int64_t>(size_t(indices.count()), 4));
    EXPECT_THROW(session.run({noise(updates, 9), Tensor(), outside}), Error);
    expect_close({session.state(1)}, {state});  // nothing was written
  };
  const Tensor rows = Tensor::of<int64_t>({1, 2, 1, 2}, {3, 3, 3, 3});
  const Tensor places = Tensor::of<int64_t>({2, 3}, {0, 0, 2, 0, 1, 2});
  place_of("kind=elements axis=2 reduction=none", rows, {1, 2, 1, 2}, true);
  place_of("kind=nd axis=0 reduction=none", places, {2, 2}, true);
  // What is added would be added twice where a run fails later and is repeated.
  place_of("kind=elements axis=2 reduction=add", rows, {1, 2, 1, 2}, false);
}

TEST(SessionState, OfWrongShapesIsRefused) {
  const auto engine = std::make_shared<Engine>(
      info_of("cpu"),
      parse_graph("graph \"g\"\ninput %s: f32[1,4]\n%longer: f32[1,5] = pad(%s) before=[0,0] after=[0,1]\n"
                  "%flat: f32[4] = reshape(%s) shape=[4]\n%whole: i32[1,4] = pointwise(%s) program=\"(1) "
                  "1=cast.i32(0)\"\noutput \"longer\" = %longer\noutput \"flat\" = %flat\noutput \"whole\" = %whole\n"),
      1);
  Session session(engine);
  for (const char* output : {"longer", "flat", "whole"}) {
    const std::string message = message_of([&] { session.keep_state({{"s", output}}); });
    EXPECT_NE(message.find(concat("the output '", output, "'")), std::string::npos) << message;
    EXPECT_NE(message.find("cannot be the next run's input 's' f32[1,4]"), std::string::npos) << message;
  }
}

// Its values are other numbers of channels, or of positions.
TEST(SessionState, OfAnotherModelIsRefusedAndTheSessionGoesOn) {
  Session session(cache()), twin(cache()), other(filter());
  for (Session* one : {&session, &twin}) one->keep_state({{"kept", "all"}});
  const auto run = [&](Session& of, int64_t length, const Tensor& given = {}) {
    return of.run({noise({1, 1, 2}, uint32_t(length)), given, Tensor::of<int64_t>({1}, {length})})[0].to_doubles();
  };
  run(session, 0);
  run(twin, 0);
  for (const Dims& dims : {Dims{1, 4, 3}, Dims{1, 8, 2}, Dims{4, 2}}) {
    const std::string message = message_of([&] { run(session, 1, noise(dims, 1)); });
    EXPECT_NE(message.find(concat("input 'kept' was given the shape ", dims)), std::string::npos) << message;
    EXPECT_NE(message.find("'kept': f32[1,4,2]"), std::string::npos) << message;
  }
  EXPECT_NE(message_of([&] { session.copy_states(other); }).find("of a session of another engine"), std::string::npos);
  EXPECT_EQ(run(session, 1), run(twin, 1));
}

TEST(SessionState, OfAForkGoesOnByItself) {
  for (const auto& engine : {cache(), filter("1")}) {
    const bool caches = engine->inputs().size() == 3;
    Session session(engine);
    session.keep_state({caches ? StateBinding{"kept", "all"} : StateBinding{"s", "next"}});
    const auto run = [&](Session& of, uint32_t piece) {
      std::vector<Tensor> inputs{noise(caches ? Dims{1, 1, 2} : Dims{1, 4}, piece), {}};
      if (caches) inputs.push_back(Tensor::of<int64_t>({1}, {piece % 3}));
      return of.run(inputs)[0];
    };
    run(session, 1);
    const auto fork = session.fork();
    const Tensor own = run(session, 2), of_fork = run(*fork, 2);
    EXPECT_EQ(own.to_doubles(), of_fork.to_doubles());
    run(session, 3);
    run(session, 4);
    Session anew(engine);
    anew.copy_states(*fork);
    EXPECT_EQ(run(*fork, 5).to_doubles(), run(anew, 5).to_doubles());
    EXPECT_THROW(anew.copy_states(*std::make_unique<Session>(filter())), Error);
  }
}

// The C API.
TEST(SessionState, OfProgramsInCIsTheSame) {
  auto engine = filter("2");
  add_plan(engine, {{2, 4}, {2, 4}});
  const std::string bytes = plan_bytes_of(*engine);
  temper_engine* loaded = nullptr;
  temper_session* session = nullptr;
  ASSERT_EQ(temper_engine_load_bytes(bytes.data(), bytes.size(), nullptr, &loaded), TEMPER_OK) << temper_last_error();
  ASSERT_EQ(temper_session_create(loaded, &session), TEMPER_OK);
  const temper_state kept = {"s", "next"}, unknown = {"s", "none"}, null = {"s", nullptr};
  ASSERT_EQ(temper_session_keep_state(session, &kept, 1), TEMPER_OK) << temper_last_error();
  const int64_t dims[] = {2, 4};
  Tensor state(DType::f32, {2, 4});
  temper_tensor given[] = {{TEMPER_F32, 2, dims, nullptr}, {}};
  for (uint32_t piece = 0; piece < 6; ++piece) {
    const Tensor x = noise({2, 4}, piece);
    if (piece == 3) {
      ASSERT_EQ(temper_session_reset_state(session), TEMPER_OK);
      state = Tensor(DType::f32, {2, 4});
    }
    if (piece == 5) state = noise({2, 4}, 50);
    const std::vector<Tensor> want = run_reference(engine->graph(), {x, state});
    given[0].data = x.raw().data();
    given[1] = piece == 5 ? temper_tensor{TEMPER_F32, 2, dims, state.raw().data()} : temper_tensor{};
    ASSERT_EQ(temper_session_run(session, given, 2), TEMPER_OK) << temper_last_error();
    for (size_t o = 0; o < 2; ++o) {
      temper_tensor got;
      ASSERT_EQ(temper_session_output(session, o, &got), TEMPER_OK) << temper_last_error();
      expect_close({Tensor::view(DType::f32, {got.dims, got.dims + got.rank}, got.data)}, {want[o]});
    }
    state = want[1];
  }
  const auto refused = [&](temper_status status, const char* words) {
    EXPECT_EQ(status, TEMPER_USAGE);
    EXPECT_NE(std::string(temper_last_error()).find(words), std::string::npos) << temper_last_error();
  };
  refused(temper_session_keep_state(session, &unknown, 1), "no output 'none'");
  refused(temper_session_keep_state(session, &null, 1), "the output of state 0 is NULL");
  refused(temper_session_keep_state(session, nullptr, 1), "the list of states is NULL");
  refused(temper_session_keep_state(nullptr, &kept, 1), "the session is NULL");
  refused(temper_session_reset_state(nullptr), "the session is NULL");
  refused(temper_session_fork(nullptr, nullptr), "the session is NULL");
  temper_session* fork = nullptr;
  ASSERT_EQ(temper_session_fork(session, &fork), TEMPER_OK) << temper_last_error();
  const Tensor last = noise({2, 4}, 7);
  given[0].data = last.raw().data();
  given[1] = {};
  temper_tensor both[2];
  for (temper_session* one : {session, fork}) {
    ASSERT_EQ(temper_session_run(one, given, 2), TEMPER_OK) << temper_last_error();
    ASSERT_EQ(temper_session_output(one, 0, &both[one == fork]), TEMPER_OK);
  }
  EXPECT_EQ(0, std::memcmp(both[0].data, both[1].data, 8 * sizeof(float)));
  temper_session_free(fork);
  ASSERT_EQ(temper_session_keep_state(session, nullptr, 0), TEMPER_OK);
  given[1] = {TEMPER_F32, 2, dims, nullptr};
  refused(temper_session_run(session, given, 2), "data of the input 's' is NULL");
  temper_session_free(session);
  temper_engine_free(loaded);
}

// A pointer to no elements may be null.
TEST(SessionState, TensorsWithoutElementsNeedNoAddress) {
  auto empty = filter("0");
  add_plan(empty, {{0, 4}, {0, 4}});
  const std::string bytes = plan_bytes_of(*empty);
  temper_engine* engine = nullptr;
  temper_session* session = nullptr;
  ASSERT_EQ(temper_engine_load_bytes(bytes.data(), bytes.size(), nullptr, &engine), TEMPER_OK) << temper_last_error();
  ASSERT_EQ(temper_session_create(engine, &session), TEMPER_OK);
  const int64_t dims[] = {0, 4};
  const temper_tensor given[] = {{TEMPER_F32, 2, dims, nullptr}, {TEMPER_F32, 2, dims, nullptr}};
  ASSERT_EQ(temper_session_run(session, given, 2), TEMPER_OK) << temper_last_error();
  temper_tensor got;
  ASSERT_EQ(temper_session_output(session, 0, &got), TEMPER_OK);
  EXPECT_EQ(got.dims[0], 0);
  temper_session_free(session);
  temper_engine_free(engine);
}

}  // namespace
}  // namespace temper
