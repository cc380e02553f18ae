// SPDX-License-Identifier: Apache-2.0
// One thread computes EACH channels of one bin. Places are computed in f64, as the reference has them: their last digit
// may decide how many samples a bin has, and which of them lie in the picture. Generated before this text: T, Batch (an
// index of a picture), Index, EACH, MAXIMUM (else the mean), HALF_PIXEL, CHANNELS_LAST (else planes lie apart).
#include "backends/cuda/support/channel_groups.cuh"

struct Parameters {
  u64 count;                     // threads
  double scale, per_bin[2];      // per_bin: 1 / bins along h and w, rounded
  Divisor groups, bins, across;  // of channels; of a region; of them along w
  i32 ratio, channels;
  i32 grid[2], size[2];  // bins and elements along h and w
  i64 in[4], out_region, out_channel, out_bin;
  i64 pictures;
};

using Sum = Held<T>;  // f32 for 16 bits, too

DEVICE float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
DEVICE double multiply_add(double a, double b, double c) { return __fma_rn(a, b, c); }

// n / by as a division gives it, without its subroutine: with `per`, which is 1 / by rounded to nearest, the second
// correction is exact (Markstein 1990). Of infinities it has nothing to correct.
template <class F>
DEVICE F quotient(F n, F by, F per) {
  const F estimate = n * per;
  F q = estimate;
#pragma unroll
  for (int i = 0; i < 2; ++i) q = multiply_add(multiply_add(-q, by, n), per, q);
  return q == q ? q : estimate;
}

// 1 / count, rounded to nearest, of an integer below 2^20: of an estimate that is 2^-23 off, two steps make one that is
// at most an ulp off, and the third rounds right (the same).
DEVICE double reciprocal_of(double count) {
  double r = double(reciprocal_fast(float(count)));
#pragma unroll
  for (int i = 0; i < 3; ++i) r = multiply_add(multiply_add(-r, count, 1.0), r, r);
  return r;
}

// The samples of a bin along an axis.
struct Samples {
  double start, bin, count, per_count;  // per_count is 1 / count, rounded
  double first, last;                   // from the one to before the other at least are those that lie in the picture
  // start + (i + 0.5) * bin / count.
  DEVICE_MEMBER double place(double i) const { return start + quotient((i + 0.5) * bin, count, per_count); }
};

// What a sample is made of along an axis.
struct Neighbours {
  i32 low, high;
  double weight;  // of the high one
};
DEVICE Neighbours neighbours(double at, i32 size) {
  const double place = at < 0 ? 0.0 : at;
  const i32 low = place < double(size - 1) ? i32(place) : size - 1;
  return {low, low < size - 1 ? low + 1 : size - 1, low == size - 1 ? 0.0 : place - double(low)};
}

extern "C" __global__ void __launch_bounds__(256)
    roi_align(const T* in, const T* regions, const Batch* batches, T* out, Fault* fault, const Parameters p) {
  wait_for_inputs();
  const u64 thread = u64(blockIdx.x) * 256 + threadIdx.x;
  if (thread >= p.count) return;
  const auto [region, bin, channel] = channel_group(thread, p.groups, p.bins);
  i64 batch = i64(batches[region]);
  if (!resolve_index(batch, p.pictures, fault)) return;
  const u32 bin_h = divide(bin, p.across), place_of_bin[2] = {bin_h, bin - bin_h * p.across.divisor};
  Samples samples[2];  // along h, then w
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const double shift = HALF_PIXEL ? 0.5 : 0.0;
    const double start = double(hold(regions[region * 4 + (1 - i)])) * p.scale - shift;
    double extent = double(hold(regions[region * 4 + (3 - i)])) * p.scale - shift - start;
    if (!HALF_PIXEL && extent < 1.0) extent = 1.0;
    const double size = quotient(extent, double(p.grid[i]), p.per_bin[i]);
    if (!(size < 1e6)) {
      fault->index = region;
      fault->raised = kRegionTooLarge;
      return;
    }
    Samples& s = samples[i];
    s.count = p.ratio > 0 ? double(p.ratio) : ::ceil(size) > 0 ? ::ceil(size) : 0.0;
    s.per_count = s.count > 0 ? reciprocal_of(s.count) : 0.0;
    s.start = start + double(place_of_bin[i]) * size;
    s.bin = size;
    s.first = 0;
    s.last = s.count;
    // Most of a region may lie far outside: of these samples none is looked at. The margin of two is for rounding:
    // there are fewer than 2^20 samples, so those of f32 are a quarter of one off at most.
    if (size > 0) {
      const double per_element = s.count * double(reciprocal_fast(float(size)));
      const double low = ::floor((-1.0 - s.start) * per_element) - 2.0,
                   high = ::ceil((double(p.size[i]) - s.start) * per_element) + 2.0;
      s.first = low > 0 ? low : 0.0;
      s.last = high < s.count ? high : s.count;
    }
  }

  const T* const image = in + batch * p.in[0] + i64(channel) * p.in[1];
  Sum sum[EACH], best[EACH];
#pragma unroll
  for (int e = 0; e < EACH; ++e) sum[e] = 0, best[e] = 0;
  double taken = 0;
  // Samples outside are zeros.
  bool begun = !(samples[0].place(0) >= -1.0 && samples[0].place(0) <= double(p.size[0]) &&
                 samples[1].place(0) >= -1.0 && samples[1].place(0) <= double(p.size[1]));
  const double all = samples[0].count * samples[1].count;
  for (double y = samples[0].first; y < samples[0].last; y += 1.0) {
    const double at_h = samples[0].place(y);
    if (!(at_h >= -1.0 && at_h <= double(p.size[0]))) continue;
    const Neighbours h = neighbours(at_h, p.size[0]);
    for (double x = samples[1].first; x < samples[1].last; x += 1.0) {
      const double at_w = samples[1].place(x);
      if (!(at_w >= -1.0 && at_w <= double(p.size[1]))) continue;
      const Neighbours w = neighbours(at_w, p.size[1]);
      const i64 corner[4] = {h.low * p.in[2] + w.low * p.in[3], h.low * p.in[2] + w.high * p.in[3],
                             h.high * p.in[2] + w.low * p.in[3], h.high * p.in[2] + w.high * p.in[3]};
      const Sum weight[4] = {Sum((1.0 - h.weight) * (1.0 - w.weight)), Sum((1.0 - h.weight) * w.weight),
                             Sum(h.weight * (1.0 - w.weight)), Sum(h.weight * w.weight)};
      Sum part[4][EACH];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const Vec<T, EACH> v = load_channels(image + corner[k], p.in[1], p.channels - channel);
#pragma unroll
        for (int e = 0; e < EACH; ++e) part[k][e] = weight[k] * Sum(hold(v.at[e]));
      }
#pragma unroll
      for (int e = 0; e < EACH; ++e) {
        sum[e] += part[0][e] + part[1][e] + part[2][e] + part[3][e];
        Sum peak = part[0][e];
#pragma unroll
        for (int k = 1; k < 4; ++k) peak = peak < part[k][e] ? part[k][e] : peak;
        best[e] = !begun || best[e] < peak ? peak : best[e];
      }
      begun = true;
      taken += 1.0;
    }
  }

  Vec<T, EACH> result;
  const Sum samples_of_bin = Sum(all > 1.0 ? all : 1.0), per_sample = Sum(1) / samples_of_bin;
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    if constexpr (MAXIMUM) {
      result.at[e] = store_as<T>(taken < all && best[e] < 0 ? Sum(0) : best[e]);
    } else {
      result.at[e] = store_as<T>(Held<T>(quotient(sum[e], samples_of_bin, per_sample)));
    }
  }
  T* const to = out + region * p.out_region + i64(channel) * p.out_channel + i64(bin) * p.out_bin;
  store_channels(to, result, p.out_channel, p.channels - channel);
}
