// SPDX-License-Identifier: Apache-2.0
// Pools over two axes in channels_last: a thread computes V neighbouring channels of one position. Generated before
// this text (pool.cc): KIND (as in ops::PoolKind; max or average), INCLUDE_PADDING, KERNEL_H, KERNEL_W, V, Input,
// Output (the same), INPUT (1: f16, 2: bf16, 3: f32, 4: i8, 5: u8, 0: others), and what rows.cuh wants.
#include "backends/cuda/rows/rows.cuh"

constexpr int kMax = 0, kAverage = 1;

struct Parameters {
  u32 count, in_ld, out_ld;       // leading dimensions of pixels: the number of channels, or more in a strided view
  Divisor vectors, out_w, out_h;  // position = ((n * out_h + h) * out_w + w) * vectors + vector
  i32 size[2], stride[2], dilation[2], pad_begin[2], pad_end[2];
};

// Small numbers are compared as whole words.
#if INPUT == 0
using Piece = Held<Input>;
constexpr int PIECES = V;
#elif INPUT == 3
using Piece = float;
constexpr int PIECES = V;
#else
using Piece = u32;
constexpr int PIECES = V * sizeof(Input) / 4;
#endif

// The larger one, and NaN where one is NaN.
DEVICE Piece larger(Piece a, Piece b) {
#if INPUT == 1
  return max_nan_f16x2(a, b);
#elif INPUT == 2
  return max_nan_bf16x2(a, b);
#elif INPUT == 3
  return max_nan(a, b);
#elif INPUT == 4
  return __vmaxs4(a, b);
#elif INPUT == 5
  return __vmaxu4(a, b);
#else
  return op::max(a, b);
#endif
}
DEVICE Piece lowest() {
#if INPUT == 1
  return 0xfc00fc00u;
#elif INPUT == 2
  return 0xff80ff80u;
#elif INPUT == 4
  return 0x80808080u;
#elif INPUT == 5
  return 0;
#else
  if constexpr (is_float<Piece>) return Piece(-__longlong_as_double(0x7ff0000000000000ll));
  else return is_signed<Piece> ? Piece(u64(1) << (sizeof(Piece) * 8 - 1)) : Piece(0);
#endif
}

extern "C" __global__ void __launch_bounds__(256) pool_channels(const Input* in, Output* out, const Parameters p) {
  wait_for_inputs();
  const u32 thread = blockIdx.x * 256 + threadIdx.x;
  if (thread >= p.count) return;
  const u32 pixel = divide(thread, p.vectors), channel = (thread - pixel * p.vectors.divisor) * V;
  const u32 row = divide(pixel, p.out_w), n = divide(row, p.out_h);
  const i32 h0 = i32(row - n * p.out_h.divisor) * p.stride[0] - p.pad_begin[0],
            w0 = i32(pixel - row * p.out_w.divisor) * p.stride[1] - p.pad_begin[1];
  const Input* x = in + i64(n) * p.size[0] * p.size[1] * p.in_ld + channel;
  constexpr int UNROLL_W = KERNEL_W <= 16 ? KERNEL_W : 1, UNROLL_H = KERNEL_H * KERNEL_W <= 16 ? KERNEL_H : 1;
  i32 valid_h = 0, valid_w = 0, counted_h = 0, counted_w = 0;
  // With ceil_mode a window may reach beyond the padding: that does not count.
  for (int kh = 0; kh < KERNEL_H; ++kh) {
    const i32 h = h0 + kh * p.dilation[0];
    valid_h += u32(h) < u32(p.size[0]);
    counted_h += h < p.size[0] + p.pad_end[0];
  }
  for (int kw = 0; kw < KERNEL_W; ++kw) {
    const i32 w = w0 + kw * p.dilation[1];
    valid_w += u32(w) < u32(p.size[1]);
    counted_w += w < p.size[1] + p.pad_end[1];
  }
  // f(16 bytes or less of each tap that lies inside, in the order of taps).
  auto each_tap = [&](auto&& f) {
#pragma unroll(UNROLL_H)
    for (int kh = 0; kh < KERNEL_H; ++kh) {
      const i32 h = h0 + kh * p.dilation[0];
      const Input* line = x + i64(h) * p.size[1] * p.in_ld;
#pragma unroll(UNROLL_W)
      for (int kw = 0; kw < KERNEL_W; ++kw) {
        const i32 w = w0 + kw * p.dilation[1];
        f(line + i64(w) * p.in_ld, u32(h) < u32(p.size[0]) && u32(w) < u32(p.size[1]));
      }
    }
  };
  Output* to = out + i64(pixel) * p.out_ld + channel;
  if constexpr (KIND == kMax) {
    Vec<Piece, PIECES> best;
#pragma unroll
    for (int v = 0; v < PIECES; ++v) best.at[v] = lowest();
    each_tap([&](const Input* at, bool inside) {
      Vec<Piece, PIECES> some;
#pragma unroll
      for (int v = 0; v < PIECES; ++v) some.at[v] = lowest();
      if (inside) some = load_vector<PIECES>(reinterpret_cast<const Piece*>(at));
#pragma unroll
      for (int v = 0; v < PIECES; ++v) best.at[v] = larger(best.at[v], some.at[v]);
    });
    if ((INPUT == 0 || INPUT > 3) && !is_float<Piece> && valid_h * valid_w == 0)
#pragma unroll
      for (int v = 0; v < PIECES; ++v) best.at[v] = 0;
    store_vector(reinterpret_cast<Piece*>(to), best);
  } else {
    using F = decltype([] {
      if constexpr (is_float<Held<Input>>) return Held<Input>();
      else return float();
    }());
    // A sum of a few fp16 or bf16 numbers loses nothing in a float that would show in the result.
    using Sum = decltype([] {
      if constexpr (sizeof(Input) == 2 && KERNEL_H * KERNEL_W <= 64) return PlainSum<F>();
      else return typename SumOf<F>::type();
    }());
    Sum sums[V];
    each_tap([&](const Input* at, bool inside) {
      if (!inside) return;
      const auto some = load_vector<V>(at);
#pragma unroll
      for (int v = 0; v < V; ++v) sums[v].add(F(hold(some.at[v])));
    });
    const F count = F(INCLUDE_PADDING ? counted_h * counted_w : valid_h * valid_w);
    Vec<Output, V> means;
#pragma unroll
    for (int v = 0; v < V; ++v) means.at[v] = store_as<Output>(Held<Output>(F(sums[v].value()) / count));
    store_vector(to, means);
  }
}
