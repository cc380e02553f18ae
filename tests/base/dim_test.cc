// SPDX-License-Identifier: Apache-2.0
#include "base/dim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace temper {
namespace {

TEST(Dim, TheLargerOfASizeAndWhatIsAtMostThatIsTheSize) {
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  const Dim part = dim_min(n, 512);  // a slice of a table, broadcast with what has n positions
  EXPECT_EQ(dim_max(n, part), n);
  EXPECT_EQ(dim_max(part, n), n);
  EXPECT_EQ(dim_max(n, dim_max(part, n)), n);
  EXPECT_EQ(dim_min(n, dim_max(n, m)), n);
  EXPECT_EQ(dim_min(part, n), part);
  EXPECT_EQ(dim_max(n, m).text(), "max(n,m)");
  EXPECT_EQ(dim_min(n, 512).text(), "min(n,512)");
}

// Expressions with the numbers that they have for some values of the symbols.
TEST(Dim, WhatIsSimplifiedHasTheSameValues) {
  std::mt19937 random(3);
  const Bindings bindings[] = {{{"a", 0}, {"b", 7}}, {{"a", 5}, {"b", 5}}, {{"a", 9}, {"b", 2}}};
  for (int round = 0; round < 500; ++round) {
    struct Term {
      Dim dim;
      int64_t values[3];
    };
    std::vector<Term> terms{{Dim::symbol("a"), {0, 5, 9}}, {Dim::symbol("b"), {7, 5, 2}}, {4, {4, 4, 4}}};
    for (int step = 0; step < 8; ++step) {
      const Term x = terms[random() % terms.size()], y = terms[random() % terms.size()];
      Term made;
      const uint32_t kind = random() % 3;
      made.dim = kind == 0 ? x.dim + y.dim : kind == 1 ? dim_max(x.dim, y.dim) : dim_min(x.dim, y.dim);
      for (int i = 0; i < 3; ++i) {
        const int64_t u = x.values[i], v = y.values[i];
        made.values[i] = kind == 0 ? u + v : kind == 1 ? std::max(u, v) : std::min(u, v);
        ASSERT_EQ(made.dim.substitute(bindings[i]).value(), made.values[i]) << made.dim.text();
      }
      terms.push_back(made);
    }
  }
}

}  // namespace
}  // namespace temper
