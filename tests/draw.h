// SPDX-License-Identifier: Apache-2.0
// Random choices of tests, the same on every machine for a seed.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>

namespace temper::testing {

struct Draw {
  std::mt19937_64 random;
  // low to high, both included.
  int64_t operator()(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); }
  bool chance(int percent) { return (*this)(1, 100) <= percent; }
};

// How many random shapes TEMPER_RANDOM_SHAPES asks for; where it does not, each test has a number of its own.
inline std::optional<int> shapes_asked_for() {
  const char* asked = std::getenv("TEMPER_RANDOM_SHAPES");
  return asked ? std::optional(std::atoi(asked)) : std::nullopt;
}

}  // namespace temper::testing
