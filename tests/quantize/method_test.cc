// SPDX-License-Identifier: Apache-2.0
// The methods against slow, direct forms of their definitions.
#include "quantize/method.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "../data/helpers.h"
#include "quantize/ranges.h"

namespace temper {
namespace {

struct Sample {
  const char* name;
  std::vector<float> values;
};

std::vector<Sample> samples() {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 1);
  std::exponential_distribution<float> exponential(1);
  std::vector<Sample> all(4);
  all[0].name = "normal";
  all[1].name = "relu";
  all[2].name = "exponential";
  all[3].name = "outliers";
  for (int i = 0; i < 20000; ++i) {
    all[0].values.push_back(normal(random));
    all[1].values.push_back(std::max(0.0f, normal(random)));
    all[2].values.push_back(exponential(random));
    all[3].values.push_back(i % 5000 == 0 ? 60.0f : normal(random));
  }
  return all;
}

Observed observe(const std::vector<float>& values) {
  Observed observed;
  observed.histogram.add(values);
  for (float v : values) {
    observed.min = std::min(observed.min, v);
    observed.max = std::max(observed.max, v);
  }
  return observed;
}

// The literal steps: build P, build Q, without the first bin, normalise both, sum; where no more than 1 % lies beyond.
double slow_entropy(const Observed& observed) {
  const auto& counts = observed.histogram.counts;
  const int used = observed.histogram.used();
  double least = INFINITY;
  int best = used;
  for (int width = 128; width <= used; ++width) {
    std::vector<double> p(counts.begin(), counts.begin() + width), q(size_t(width), 0.0);
    p[0] = 0;
    double beyond = 0, all = 0;
    for (int i = width; i < used; ++i) beyond += double(counts[size_t(i)]);
    p.back() += beyond;
    for (double mass : p) all += mass;
    if (beyond > 0.01 * all) continue;
    std::vector<double> level_mass(128, 0.0), level_bins(128, 0.0);
    // Bin i belongs to the level whose interval [l, l + 1) * width / 128, cut down to whole bins, holds it.
    std::vector<int> level_of(static_cast<size_t>(width));
    for (int i = 1; i < width; ++i) {
      int level = 0;
      while ((level + 1) * width / 128 <= i) ++level;
      level_of[size_t(i)] = level;
      level_mass[size_t(level)] += double(counts[size_t(i)]);
      level_bins[size_t(level)] += counts[size_t(i)] > 0;
    }
    for (int i = 1; i < width; ++i)
      if (counts[size_t(i)])
        q[size_t(i)] = level_mass[size_t(level_of[size_t(i)])] / level_bins[size_t(level_of[size_t(i)])];
    double p_sum = 0, q_sum = 0, divergence = 0;
    for (int i = 0; i < width; ++i) p_sum += p[size_t(i)], q_sum += q[size_t(i)];
    for (int i = 0; i < width; ++i)
      if (p[size_t(i)] > 0)
        divergence += p[size_t(i)] / p_sum * std::log(p[size_t(i)] / p_sum / (q[size_t(i)] / q_sum));
    if (std::isfinite(divergence) && divergence <= least + 1e-15) least = divergence, best = width;
  }
  return std::min(best * observed.histogram.bin_width(), double(observed.amax()));
}

TEST(CalibrationMethod, EntropyIsTheDefinitionComputedSlowly) {
  for (const Sample& s : samples()) {
    const Observed observed = observe(s.values);
    EXPECT_EQ(choose_amax({Method::Kind::entropy}, observed), slow_entropy(observed)) << s.name;
  }
}

TEST(CalibrationMethod, PercentileIsWithinOneBinAboveTheSortedOne) {
  for (const Sample& s : samples())
    for (double percent : {50.0, 90.0, 99.9, 99.99, 100.0}) {
      const Observed observed = observe(s.values);
      std::vector<double> sorted;
      for (float v : s.values) sorted.push_back(std::fabs(double(v)));
      std::sort(sorted.begin(), sorted.end());
      const double exact = sorted[size_t(std::ceil(double(sorted.size()) * percent / 100)) - 1];
      const double got = choose_amax({Method::Kind::percentile, percent}, observed);
      if (exact == 0) {  // half of the values after a relu
        EXPECT_EQ(got, observed.amax());
        continue;
      }
      EXPECT_GE(got, exact) << s.name << percent;
      EXPECT_LE(got, exact + observed.histogram.bin_width()) << s.name << percent;
    }
}

double mean_squared_error(const std::vector<float>& values, double amax) {
  const double scale = amax / 127;
  double error = 0;
  for (float v : values) {
    const double q = std::clamp(std::nearbyint(v / scale), -127.0, 127.0) * scale;
    error += (v - q) * (v - q);
  }
  return error / double(values.size());
}

TEST(CalibrationMethod, MseIsAsGoodAsTheBestRangeFoundOnTheValuesThemselves) {
  for (const Sample& s : samples()) {
    const Observed observed = observe(s.values);
    double least = INFINITY;
    for (int i = 1; i <= 500; ++i) least = std::min(least, mean_squared_error(s.values, observed.amax() * i / 500));
    const double chosen = choose_amax({Method::Kind::mse}, observed);
    EXPECT_LE(mean_squared_error(s.values, chosen), 1.02 * least) << s.name;
    EXPECT_LE(mean_squared_error(s.values, chosen), mean_squared_error(s.values, observed.amax())) << s.name;
  }
}

TEST(CalibrationMethod, MinMaxIsTheExtremeOfEitherSign) {
  EXPECT_EQ(choose_amax({Method::Kind::minmax}, observe({-3.5f, 2})), 3.5);
  EXPECT_EQ(choose_amax({Method::Kind::minmax}, observe({-1, 2})), 2);
}

TEST(CalibrationMethod, OneValueIsItsOwnRangeForEveryMethod) {
  for (const char* method : {"minmax", "percentile", "mse", "entropy"})
    for (float value : {1.0f, -3.7f, 1e-30f, 1e30f})
      EXPECT_EQ(choose_amax(Method::parse(method), observe({value, value, 0})), std::fabs(value)) << method << value;
}

TEST(CalibrationMethod, RareOutliersAreClippedByPercentileAndEntropy) {
  const Observed observed = observe(samples()[3].values);
  for (const char* method : {"percentile:99.9", "entropy"}) {
    const double amax = choose_amax(Method::parse(method), observed);
    EXPECT_LT(amax, 30) << method;
    EXPECT_GE(clipped_share(observed, amax), 4.0 / 20000) << method;
    EXPECT_LT(clipped_share(observed, amax), 0.01) << method;
  }
  EXPECT_EQ(clipped_share(observed, 60), 0);
}

// What is seen behind a relu: most values are zero, many nearly so; and channels that are dead give one value each.
TEST(CalibrationMethod, EntropyKeepsAReluTensorWhateverSpikesItHas) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> sparse, dead;
  for (int i = 0; i < 40000; ++i) {
    const float x = normal(random);
    sparse.push_back(i % 10 ? 0.0f : i % 20 ? 1e-5f * std::fabs(x) : std::fabs(x));
    // Three channels of four are constant: 0.07, 0.2 and 0.3.
    dead.push_back(i % 4 == 0 ? 0.1f * std::fabs(x) : i % 4 == 1 ? 0.07f : i % 4 == 2 ? 0.2f : 0.3f);
  }
  for (const auto* values : {&sparse, &dead}) {
    const Observed observed = observe(*values);
    const double amax = choose_amax({Method::Kind::entropy}, observed);
    EXPECT_LE(clipped_share(observed, amax), 0.01);
    EXPECT_LE(mean_squared_error(*values, amax),
              10 * mean_squared_error(*values, choose_amax({Method::Kind::mse}, observed)));
    EXPECT_EQ(amax, slow_entropy(observed));
  }
}

TEST(CalibrationMethod, ClippingMoreThanAHundredthIsToldWithWhatTheOtherMethodsKeep) {
  const Observed observed = observe(samples()[0].values);
  std::vector<std::string> warnings;
  const Method narrow{Method::Kind::percentile, 60};
  const TensorRange range = make_range("relu_1", narrow, observed, warnings);
  EXPECT_GT(range.clipped_share, 0.3);
  ASSERT_EQ(warnings.size(), 1u);
  for (const char* part : {"the tensor 'relu_1': percentile:60 clips ", " % of its values, those beyond ",
                           "minmax would keep ", "mse would keep ", "entropy would keep ", "and clip 0 %"})
    EXPECT_CONTAINS(warnings[0], part);
  make_range("relu_1", Method::parse("percentile:99.5"), observed, warnings);
  EXPECT_EQ(warnings.size(), 1u);
}

// Attention masks are zero or the least float, and a method may choose a bin just below that.
TEST(CalibrationMethod, ValuesWithinHalfAStepOfTheRangeAreNotClipped) {
  std::vector<float> mask(1000, 0.0f);
  for (size_t i = 0; i < mask.size(); i += 2) mask[i] = std::numeric_limits<float>::lowest();
  const Observed observed = observe(mask);
  const double below = observed.amax() * (1 - 0.001);
  EXPECT_EQ(clipped_share(observed, below), 0.5);
  EXPECT_EQ(clipping_text("mask", {Method::Kind::mse}, observed, below), "");
  EXPECT_CONTAINS(clipping_text("mask", {Method::Kind::mse}, observed, 0.98 * observed.amax()), "clips 50 %");
}

TEST(CalibrationMethod, TheScaleIsTheRangeOver127InFloat) {
  EXPECT_EQ(scale_of(1), 1.0f / 127.0f);
  EXPECT_EQ(scale_of(0), 1.0f / 127.0f);
  EXPECT_EQ(scale_of(145.0647), 145.0647f / 127.0f);
  EXPECT_EQ(scale_of(1e-44), std::numeric_limits<float>::min());
}

TEST(CalibrationMethod, NamesReadBackAndOthersAreRefusedWithTheList) {
  for (const char* text : {"minmax", "percentile:99.99", "percentile:99.999", "mse", "entropy"})
    EXPECT_EQ(Method::parse(text).text(), text);
  EXPECT_EQ(Method::parse("percentile").text(), "percentile:99.99");
  for (const char* text : {"percentile:", "percentile:0", "percentile:101", "percentile:9x", "percentile:nan"})
    EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { Method::parse(text); }), "percentage");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [] { Method::parse("kl"); }), "minmax, percentile[:99.99], mse, entropy");
}

}  // namespace
}  // namespace temper
