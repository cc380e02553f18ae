// SPDX-License-Identifier: Apache-2.0
#include "base/dim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>

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

TEST(Dim, ReplacesTermsByASum) {
  const Dim n = Dim::symbol("n"), sum = Dim::parse("p+s");
  const auto replaced = [&](std::string_view text) { return Dim::parse(text).replace(n, sum).text(); };
  EXPECT_EQ(replaced("n"), "p+s");
  EXPECT_EQ(replaced("a+n+nn+1"), "a+nn+p+s+1");
  EXPECT_EQ(replaced("n-p"), "s");
  EXPECT_EQ(replaced("floor(n+1,2)"), "floor(p+s+1,2)");
  EXPECT_EQ(replaced("4*max(n,a)"), "4*max(p+s,a)");
  EXPECT_EQ(replaced("min(max(n-1,a),a*n)"), "min(max(p+s-1,a),a*n)");
  for (const char* stays : {"2*n", "a-n", "a*n", "a*n*n+2", "max(a-n,0)", "nn"}) EXPECT_EQ(replaced(stays), stays);
}

TEST(Dim, ReplacesAMaximumBySymbolInProductsToo) {
  const Dim what = Dim::parse("max(n-p,0)"), s = Dim::symbol("s");
  const auto replaced = [&](std::string_view text) { return Dim::parse(text).replace(what, s).text(); };
  EXPECT_EQ(replaced("p+max(n-p,0)"), "p+s");
  EXPECT_EQ(replaced("2*b*max(n-p,0)+n"), "2*b*s+n");
  EXPECT_EQ(replaced("floor(max(n-p,0)+1,2)"), "floor(s+1,2)");
  EXPECT_EQ(replaced("max(n-p,1)"), "max(n-p,1)");
  EXPECT_THROW(s.replace(what + s, s), std::logic_error);
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
