// SPDX-License-Identifier: Apache-2.0
#include "plan/memory.h"

#include <gtest/gtest.h>

#include <random>

namespace temper {
namespace {

// Many arenas of random buffers.
template <class F>
void for_arenas(F&& f) {
  std::mt19937 random(3);
  for (int arena = 0; arena < 300; ++arena) {
    std::vector<Lifetime> buffers(1 + random() % 40);
    for (Lifetime& buffer : buffers) {
      buffer.bytes = int64_t(random() % 5000);
      buffer.first = int(random() % 30);
      buffer.last = buffer.first + int(random() % 6);
    }
    const int64_t total = place_buffers(buffers);
    f(buffers, total);
  }
}

TEST(Memory, BuffersThatLiveTogetherShareNothing) {
  for_arenas([](const std::vector<Lifetime>& buffers, int64_t total) {
    for (const Lifetime& a : buffers) {
      EXPECT_LE(a.offset + a.bytes, total);
      for (const Lifetime& b : buffers)
        if (&a != &b && a.first <= b.last && b.first <= a.last && a.bytes && b.bytes) {
          EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
        }
    }
  });
}

// cuBLASLt refuses a workspace that does not: products failed where buffers lay on 64.
TEST(Memory, EveryBufferLiesOn256Bytes) {
  for_arenas([](const std::vector<Lifetime>& buffers, int64_t) {
    for (const Lifetime& buffer : buffers) EXPECT_EQ(buffer.offset % 256, 0);
  });
}

}  // namespace
}  // namespace temper
