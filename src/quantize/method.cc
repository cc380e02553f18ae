// SPDX-License-Identifier: Apache-2.0
#include "quantize/method.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/error.h"
#include "base/parse.h"

namespace temper {

namespace {

constexpr int kLevels = 128;  // of |x| in s8
constexpr double kInfinity = std::numeric_limits<double>::infinity();

int percentile_bins(const Histogram& histogram, double percent) {
  const double total = double(histogram.total());
  // Nearest rank: the least rank that `percent` of the values do not exceed.
  const double rank = std::ceil(total * percent / 100);
  double seen = double(histogram.zeros);
  if (seen >= rank) return histogram.used();
  for (int i = 0; i < Histogram::kBins; ++i) {
    seen += double(histogram.counts[size_t(i)]);
    if (seen >= rank) return i + 1;
  }
  return histogram.used();
}

double mse_at(const Histogram& histogram, int used, int bins) {
  const double step = double(bins) / 127;  // in bins
  double error = 0;
  for (int i = 0; i < used; ++i) {
    const double count = double(histogram.counts[size_t(i)]), x = i + 0.5;
    if (count == 0) continue;
    const double q = std::min(std::nearbyint(x / step), 127.0) * step;
    error += count * (x - q) * (x - q);
  }
  return error;
}

// KL(P || Q) without P's and Q's own normalisation, which are known: sum p log(p/q) with p = P/sum(P), q = Q/sum(Q).
double divergence_at(const Histogram& histogram, int used, int bins) {
  double inside = 0, beyond = 0;
  for (int i = 1; i < bins; ++i) inside += double(histogram.counts[size_t(i)]);
  for (int i = bins; i < used; ++i) beyond += double(histogram.counts[size_t(i)]);
  if (inside == 0 || beyond > kMostClipped * (inside + beyond)) return kInfinity;
  const double p_total = inside + beyond, q_total = inside;
  double divergence = 0;
  int begin = 1;  // without the first bin
  for (int level = 0; level < kLevels; ++level) {
    const int end = int(int64_t(level + 1) * bins / kLevels);
    double mass = 0;
    int filled = 0;
    for (int i = begin; i < end; ++i) {
      mass += double(histogram.counts[size_t(i)]);
      filled += histogram.counts[size_t(i)] != 0;
    }
    for (int i = begin; i < end; ++i) {
      const double own = double(histogram.counts[size_t(i)]), p = own + (i == bins - 1 ? beyond : 0);
      if (p == 0) continue;
      if (own == 0) return kInfinity;
      divergence += p / p_total * std::log((p / p_total) / (mass / filled / q_total));
    }
    begin = end;
  }
  return divergence;
}

template <class Cost>
int cheapest(int used, Cost&& cost) {
  int best = used;
  double least = kInfinity;
  for (int bins = kLevels; bins <= used; ++bins)
    if (const double c = cost(bins); c <= least) {  // "<=": the widest of equals
      if (c == kInfinity) continue;
      least = c;
      best = bins;
    }
  return best;
}

}  // namespace

std::string Method::text() const {
  switch (kind) {
    case Kind::minmax: return "minmax";
    case Kind::percentile: return concat("percentile:", percent);
    case Kind::mse: return "mse";
    case Kind::entropy: return "entropy";
  }
  return "";
}

Method Method::parse(std::string_view text) {
  if (text == "minmax") return {Kind::minmax};
  if (text == "mse") return {Kind::mse};
  if (text == "entropy") return {Kind::entropy};
  if (text == "percentile") return {Kind::percentile};
  if (text.starts_with("percentile:")) {
    const auto percent = parse_number<double>(text.substr(11));
    if (percent && *percent > 0 && *percent <= 100) return {Kind::percentile, *percent};
    fail(ErrorKind::usage, "'", text, "' needs a percentage above 0 and up to 100, e.g. percentile:99.99");
  }
  fail(ErrorKind::usage, "there is no calibration method '", text,
       "'; there are minmax, percentile[:99.99], mse, entropy");
}

double choose_amax(const Method& method, const Observed& observed) {
  const double amax = observed.amax();
  const Histogram& histogram = observed.histogram;
  const int used = histogram.used();
  if (method.kind == Method::Kind::minmax || used < kLevels) return amax;
  int bins = used;
  switch (method.kind) {
    case Method::Kind::minmax: break;
    case Method::Kind::percentile: bins = percentile_bins(histogram, method.percent); break;
    case Method::Kind::mse: bins = cheapest(used, [&](int b) { return mse_at(histogram, used, b); }); break;
    case Method::Kind::entropy: bins = cheapest(used, [&](int b) { return divergence_at(histogram, used, b); }); break;
  }
  return std::min(bins * histogram.bin_width(), amax);
}

float scale_of(double amax) {
  if (amax == 0) return 1.0f / 127.0f;
  return std::max(float(amax) / 127.0f, std::numeric_limits<float>::min());
}

std::string clipping_text(const std::string& name, const Method& method, const Observed& observed, double amax) {
  // A value within half a step beyond the range is rounded, as all are: it loses nothing by the range.
  const auto share_beyond = [&](double range) { return clipped_share(observed, range * (1 + 0.5 / 127)); };
  const double share = share_beyond(amax);
  if (!(share > kMostClipped)) return "";
  const auto number = [](double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", value);
    return std::string(text);
  };
  std::string text = concat("the tensor '", name, "': ", method.text(), " clips ", number(100 * share),
                            " % of its values, those beyond ", number(amax));
  for (const char* other : {"percentile:99.99", "mse", "entropy", "minmax"})
    if (method.text() != other) {
      const double kept = choose_amax(Method::parse(other), observed);
      text += concat("; ", other, " would keep ", number(kept), " and clip ", number(100 * share_beyond(kept)), " %");
    }
  return text;
}

double clipped_share(const Observed& observed, double amax) {
  const Histogram& histogram = observed.histogram;
  const uint64_t total = histogram.total();
  if (total == 0 || histogram.counts.empty() || amax >= observed.amax()) return 0;
  uint64_t beyond = 0;
  for (int i = 0; i < Histogram::kBins; ++i)
    if (i * histogram.bin_width() >= amax) beyond += histogram.counts[size_t(i)];
  return double(beyond) / double(total);
}

}  // namespace temper
