// SPDX-License-Identifier: Apache-2.0
// One thread computes EACH channels at one position of the grid. Places are computed in f64, as the reference has them:
// their last digit may decide which element is the nearest. Generated before this text: T (an element), Place (one of
// the grid), Index, AXES, TAPS (along an axis: 1 moves elements, 2 is linear, 4 cubic) and ALL_TAPS of them, UNROLL of
// these, PADDING (as in ops::SamplePadding), ALIGN_CORNERS, CHANNELS_LAST (else planes lie apart), EACH.
#include "backends/cuda/support/channel_groups.cuh"

constexpr int kBorder = 1, kReflection = 2;

struct Parameters {
  u64 count;               // threads
  Divisor groups, points;  // of channels; positions of a grid
  i32 channels;
  i32 size[AXES];
  i64 stride[AXES];
  i64 in_batch, in_channel, out_batch, out_channel;
};

DEVICE double between(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

DEVICE double reflected(double at, double low, double high) {
  const double range = high - low;
  if (at >= low && at <= high) return at;
  if (!(range > 0)) return low;
  const double beyond = at < low ? low - at : at - high, turns = ::floor(beyond / range), rest = beyond - turns * range;
  const bool from_low = (at < low) == (::fmod(turns, 2.0) == 0);
  return from_low ? low + rest : high - rest;
}

DEVICE double outer_weight(double x) { return ((-0.75 * x + 3.75) * x - 6.0) * x + 3.0; }
DEVICE double inner_weight(double x) { return (1.25 * x - 2.25) * x * x + 1.0; }

using Sum = Held<T>;  // f32 for 16 bits, too; elements that are moved are not summed

extern "C" __global__ void __launch_bounds__(256)
    grid_sample(const T* in, const Place* grid, T* out, const Parameters p) {
  wait_for_inputs();
  const u64 thread = u64(blockIdx.x) * 256 + threadIdx.x;
  if (thread >= p.count) return;
  const auto [batch, point, channel] = channel_group(thread, p.groups, p.points);

  i32 index[AXES][TAPS];  // -1: outside, which counts as 0
  Sum weight[AXES][TAPS];
#pragma unroll
  for (int k = 0; k < AXES; ++k) {
    const double size = p.size[k], low = ALIGN_CORNERS ? 0.0 : -0.5, high = ALIGN_CORNERS ? size - 1.0 : size - 0.5;
    const double place = double(hold(grid[(batch * p.points.divisor + point) * AXES + (AXES - 1 - k)]));
    double at = ALIGN_CORNERS ? (place + 1.0) / 2.0 * (size - 1.0) : ((place + 1.0) * size - 1.0) / 2.0;
    at = at != at ? -1.0 : between(at, -1e15, 1e15);
    if constexpr (TAPS == 1) at = ::rint(at);
    if (at < low || at > high) {
      if constexpr (PADDING == kBorder) at = between(at, 0.0, size - 1.0);
      if constexpr (PADDING == kReflection) at = reflected(at, low, high);
    }
    double from = TAPS == 1 ? at : ::floor(at);
    const double t = at - from;
    if constexpr (TAPS == 1) weight[k][0] = 1;
    if constexpr (TAPS == 2) weight[k][0] = Sum(1.0 - t), weight[k][1] = Sum(t);
    if constexpr (TAPS == 4) {
      weight[k][0] = Sum(outer_weight(t + 1.0));
      weight[k][1] = Sum(inner_weight(t));
      weight[k][2] = Sum(inner_weight(1.0 - t));
      weight[k][3] = Sum(outer_weight(2.0 - t));
      from -= 1.0;
    }
#pragma unroll
    for (int i = 0; i < TAPS; ++i) {
      double tap = from + double(i);
      if constexpr (PADDING == kBorder) tap = between(tap, 0.0, size - 1.0);
      if constexpr (PADDING == kReflection) tap = between(::trunc(reflected(tap, low, high)), 0.0, size - 1.0);
      index[k][i] = tap >= 0 && tap < size ? i32(tap) : -1;
    }
  }

  const T* const image = in + batch * p.in_batch + i64(channel) * p.in_channel;
  T* const to =
      out + batch * p.out_batch + i64(channel) * p.out_channel + i64(point) * (CHANNELS_LAST ? p.channels : 1);
  Sum sum[EACH] = {};
  Vec<T, EACH> result = {};  // an element that is moved; zeros where it is outside
#pragma unroll UNROLL
  for (int number = 0; number < ALL_TAPS; ++number) {
    bool inside = true;
    i64 offset = 0;
    Sum factor = 1;
    int rest = number;
#pragma unroll
    for (int k = 0; k < AXES; ++k) {
      const i32 i = index[k][rest % TAPS];
      inside = inside && i >= 0;
      offset += i64(i) * p.stride[k];
      factor *= weight[k][rest % TAPS];
      rest /= TAPS;
    }
    if (!inside) continue;
    const Vec<T, EACH> x = load_channels(image + offset, p.in_channel, p.channels - channel);
    if constexpr (TAPS == 1) {
      result = x;
    } else {
#pragma unroll
      for (int e = 0; e < EACH; ++e) sum[e] += factor * Sum(hold(x.at[e]));
    }
  }
  if constexpr (TAPS > 1) {
#pragma unroll
    for (int e = 0; e < EACH; ++e) result.at[e] = store_as<T>(sum[e]);
  }
  store_channels(to, result, p.out_channel, p.channels - channel);
}
