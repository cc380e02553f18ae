// SPDX-License-Identifier: Apache-2.0
#include "video/batcher.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace temper::video {
namespace {

// Answers with the batch and the row of each sample; the sample's height is its name.
struct Recorder {
  std::vector<std::vector<int64_t>> batches;
  std::vector<Labels> operator()(const std::vector<const Sample*>& samples) {
    std::vector<int64_t> names;
    std::vector<Labels> labels(samples.size());
    for (size_t i = 0; i < samples.size(); ++i) {
      names.push_back(samples[i]->height);
      labels[i].batch = int64_t(samples.size());
      labels[i].row = int64_t(i);
    }
    batches.push_back(names);
    if (names.back() < 0) throw temper::Error(TEMPER_USAGE, "a frame that fails");
    return labels;
  }
};

std::vector<Sample> frames(std::vector<int64_t> names) {
  std::vector<Sample> samples(names.size());
  for (size_t i = 0; i < names.size(); ++i) samples[i].height = names[i];
  return samples;
}

struct Two {
  Recorder recorder;
  Batcher batcher{[this](const std::vector<const Sample*>& samples) { return recorder(samples); }};
  Seat a, b;
  Two() {
    batcher.join(a), batcher.join(b);
    batcher.set_active(a, true), batcher.set_active(b, true);
  }
};

TEST(Batcher, StreamsWaitForEachOtherAndShareARun) {
  Two two;
  auto other = std::async(std::launch::async, [&] { return two.batcher.label(two.b, frames({20, 21})); });
  const auto mine = two.batcher.label(two.a, frames({10}));
  const auto theirs = other.get();
  ASSERT_TRUE(mine && theirs);
  EXPECT_EQ(two.recorder.batches, (std::vector<std::vector<int64_t>>{{10, 20, 21}}));  // in the order of joining
  EXPECT_EQ((*mine)[0].row, 0);
  EXPECT_EQ((*theirs)[1].row, 2);
}

TEST(Batcher, AStreamThatEndsIsWaitedForNoLonger) {
  Two two;
  auto other = std::async(std::launch::async, [&] { return two.batcher.label(two.b, frames({20})); });
  two.batcher.set_active(two.a, false);
  EXPECT_EQ(other.get().value()[0].batch, 1);
}

TEST(Batcher, AFlushEndsTheWaitWithoutAnAnswer) {
  Two two;
  auto other = std::async(std::launch::async, [&] { return two.batcher.label(two.b, frames({20})); });
  two.batcher.set_flushing(two.b, true);
  EXPECT_FALSE(other.get());
  EXPECT_TRUE(two.recorder.batches.empty());
  two.batcher.set_flushing(two.b, false);
  two.batcher.set_active(two.a, false);
  EXPECT_TRUE(two.batcher.label(two.b, frames({21})));
}

TEST(Batcher, AnErrorIsThatOfEveryStreamInTheBatch) {
  Two two;
  auto other = std::async(std::launch::async, [&] { return two.batcher.label(two.b, frames({-1})); });
  EXPECT_THROW(two.batcher.label(two.a, frames({10})), temper::Error);
  EXPECT_THROW(other.get(), temper::Error);
  two.batcher.set_active(two.b, false);
  EXPECT_EQ(two.batcher.label(two.a, frames({11})).value()[0].batch, 1);  // and of no later one
}

TEST(Batcher, WithoutPatienceAStreamThatIsAwayIsNotWaitedFor) {
  Two two;
  auto other = std::async(std::launch::async, [&] { return two.batcher.label(two.b, frames({20})); });
  ASSERT_TRUE(two.batcher.label(two.a, frames({10})));
  ASSERT_TRUE(other.get());
  other = std::async(std::launch::async, [&] { return two.batcher.label(two.b, frames({21})); });  // and a is away
  two.batcher.set_patient(false);
  EXPECT_EQ(other.get().value()[0].batch, 1);
  for (Seat* const seat : {&two.a, &two.b}) {  // both begin again, and are waited for
    two.batcher.set_flushing(*seat, true);
    two.batcher.set_flushing(*seat, false);
  }
  other = std::async(std::launch::async, [&] { return two.batcher.label(two.b, frames({22})); });
  EXPECT_EQ(two.batcher.label(two.a, frames({11})).value()[0].batch, 2);
}

TEST(Batcher, AWaitThatIsOverRunsWhatIsThere) {
  Two two;
  two.batcher.set_wait(std::chrono::milliseconds(0));
  EXPECT_EQ(two.batcher.label(two.a, frames({10})).value()[0].batch, 1);
}

TEST(Batcher, ManyStreamsGetTheirOwnAnswers) {
  Recorder recorder;
  Batcher batcher([&](const std::vector<const Sample*>& samples) {
    auto labels = recorder(samples);
    for (size_t i = 0; i < samples.size(); ++i) labels[i].row = samples[i]->height;
    return labels;
  });
  std::vector<Seat> seats(6);
  for (Seat& seat : seats) batcher.join(seat), batcher.set_active(seat, true);
  std::vector<std::future<bool>> threads;
  for (size_t s = 0; s < seats.size(); ++s)
    threads.push_back(std::async(std::launch::async, [&, s] {
      bool right = true;
      for (int64_t f = 0; f < int64_t(20 + 10 * s); ++f) {
        const int64_t name = int64_t(1000 * s) + f;
        const auto labels = batcher.label(seats[s], frames({name}));
        right = right && labels && (*labels)[0].row == name;
      }
      batcher.set_active(seats[s], false);
      return right;
    }));
  for (auto& thread : threads) EXPECT_TRUE(thread.get());
  size_t all = 0;
  for (const auto& batch : recorder.batches) all += batch.size();
  EXPECT_EQ(all, 20u + 30 + 40 + 50 + 60 + 70);
  EXPECT_EQ(recorder.batches.size(), 70u);  // each run has a frame of every stream that goes on
}

}  // namespace
}  // namespace temper::video
