// SPDX-License-Identifier: Apache-2.0
// Convolutions of images with few channels on the tensor cores, from [N, C, H, W] to channels_last. A block copies the
// input patch under a tile of TILE_H by TILE_W outputs to shared memory once, and reads matrix fragments from there
// without rearranging the patch. K is laid out as k = (kh * C + c) * WIDTH + kw. WIDTH taps are the kernel's own and
// some of weight zero: LEFT of them before the kernel's, so that words of the input are whole, and the others behind.
// Row kh * C + c of the kernel lies that many rows further in the patch, whose rows alternate between channels. A
// lane's word has E neighbouring taps. Where E pixels do not start on a word, there are COPIES of the patch, each
// shifted by SHIFT elements. N is permuted so that a lane ends with V neighbouring channels.
//
// With POOL, the kernel also takes a 3 by 3 max pool of stride 2 and padding 1. It pools the sums, before the epilogue,
// which must not change their order. A lane's sums of a column belong to two by two neighbouring pixels. A window also
// needs pixels to the left, which come from the lane that has them, and pixels above, which come from the warp that has
// those rows. For the first warp that is the last warp of the tile above: a block walks down the image. The first two
// columns of a tile only serve their neighbours. If blocks have few tiles each, they are ALONE: the first two rows of a
// tile only serve their neighbours as well, so that no tile needs the one above it, and a block has one tile.
//
// With PIXEL_WORDS, the input is channels_last and bytes are multiplied. A word of the patch is then a pixel: its
// CHANNELS, and zeros up to four. C and E are 1, rows of the patch are rows of the image, and GROUP pixels are read at
// once. Where a row of the kernel is one step (PAIRS), lanes take neighbouring words for its halves: the weights are
// packed so.
//
// With WGMMA, a warpgroup multiplies fragments in the registers of its four warps by weights that wgmma reads from
// shared memory, and reads the next fragments meanwhile.
//
// Generated before this text (conv_first.cc): WGMMA, In (elements of the input), IN_WORDS (whether pixels are read as
// words of four bytes), A (elements that are multiplied), PROLOGUE (whether these differ), prologue() (from In to A),
// AS_FLOATS (whether it gets bytes as floats), PREPARED (prologue() of an element and of the other inputs that it
// reads), Others (those of a channel), LOAD_OTHERS, OTHER_INPUTS (parameters), MATRIX (as in mma.cuh), C, KERNEL_H,
// KERNEL_W, STRIDE_H, STRIDE_W, LEFT, WIDTH, TILE_H, TILE_W, WARPS, TILE_N, V, STEPS, E, SHIFT, COPIES, ROW_WORDS
// (words of a row that are filled), PITCH (words from row to row), PATCH_ROWS (rows that are filled), COPY (words of a
// copy), PATCH_BYTES (of all copies), PIXEL_WORDS, CHANNELS, PAIRS, WHOLE_WORDS (rows of the input are whole words),
// POOL, ALONE, and the text of the epilogue (image_epilogue.h).
#include "backends/cuda/conv/conv_first.cuh"

#if MATRIX <= 2
using Sum = float;
#else
using Sum = i32;
#endif
#include "backends/cuda/support/wgmma.cuh"

constexpr int IN_WORD = 4 / int(sizeof(A));
union Word {
  u32 bits;
  A at[IN_WORD];
};
// Elements as they come from prologue() in a word.
DEVICE Word word_of(const Finished<A> (&x)[IN_WORD]) {
  Word word;
  store_results<A, IN_WORD>(word.at, x);
  return word;
}

constexpr int THREADS = WARPS * 32, PIXELS = TILE_H * TILE_W, FRAGMENTS_M = PIXELS / 16 / WARPS,
              FRAGMENTS_N = TILE_N / 8;
constexpr int KERNEL_ROWS = KERNEL_H * C;
static_assert(!POOL || FRAGMENTS_M == 2, "the rows of a window's own pixels are of one warp");
static_assert(!WGMMA || (WARPS % 4 == 0 && TILE_N >= 32), "whole warpgroups, and as many columns as wgmma has");
static_assert(TILE_W == 16 && FRAGMENTS_M * WARPS * 16 == PIXELS, "16 rows of a product are a row of the tile");
constexpr int WEIGHTS = STEPS * (TILE_N / 16) * 32;  // quads

DEVICE TilePlace place_of(u32 tile, const Parameters& p) {
  if constexpr (POOL) {
    const u32 rest = divide(tile, p.tiles_down), n = divide(rest, p.tiles_across);
    const i32 down = i32(tile - rest * p.tiles_down.divisor);
    return {n, ALONE ? down * (TILE_H - 2) - 2 : down * TILE_H,
            i32(rest - n * p.tiles_across.divisor) * (TILE_W - 2) - 2};
  }
  const u32 rest = divide(tile, p.tiles_across), n = divide(rest, p.tiles_down);
  return {n, i32(rest - n * p.tiles_down.divisor) * TILE_H, i32(tile - rest * p.tiles_across.divisor) * TILE_W};
}

// What the prologue reads beside the image, of channel c; it is in registers.
DEVICE Others of_channel(const Others (&others)[CHANNELS], int c) {
  Others of = others[0];
#if OTHERS
#pragma unroll
  for (int i = 1; i < CHANNELS; ++i)
    if (c == i) of = others[i];
#endif
  return of;
}

#if PIXEL_WORDS
static_assert(C == 1 && E == 1 && COPIES == 1, "a word is a pixel");
constexpr int GROUP = WHOLE_WORDS ? 4 : 1;
constexpr bool PLANES = false;
#include "backends/cuda/conv/pixel_words.cuh"
DEVICE Words words_of(const Pixels& pixels, const Others (&others)[CHANNELS], int) {
  return pixel_words(pixels, others, kept(kByteAsFloat));
}
#else
constexpr int GROUP = E;
// The pixels of the input in one word of the patch, and the word that they become.
using Pixels = Vec<In, E>;
using Words = Word;
DEVICE Pixels load_pixels(const In* from) { return load_vector<E>(from); }
// Of channel c.
DEVICE Words words_of(const Pixels& pixels, const Others (&others)[CHANNELS], int c) {
  [[maybe_unused]] const Others of = of_channel(others, c);
  Finished<A> x[E];
#pragma unroll
  for (int e = 0; e < E; ++e) x[e] = PREPARED(hold(pixels.at[e]), of);
  return word_of(x);
}
#endif
// Where pixel w of row h of channel c lies; an image has fewer than 2^31 elements.
DEVICE i32 place_in(const Parameters& p, i32 c, i32 h, i32 w) {
  return PIXEL_WORDS ? (h * p.width + w) * CHANNELS : (c * p.height + h) * p.width + w;
}

// The words of a patch, or groups of pixels, that a thread copies. Those of the next tile are prefetched to registers
// while one is computed, if they are few, whole, and come from memory (planes without a prologue were just written by
// another kernel, and are in L2).
constexpr int IN_ROW = PIXEL_WORDS ? ROW_WORDS / GROUP : ROW_WORDS;
constexpr int COUNT = PATCH_ROWS * IN_ROW, LOADS = (COUNT + THREADS - 1) / THREADS;
constexpr bool AHEAD = (PROLOGUE || PIXEL_WORDS) && WHOLE_WORDS && LOADS <= 32 && LOADS * int(sizeof(Pixels)) <= 96;
// With 16-bit elements the prefetch needs registers, and so does a pool; with bytes both together do so on GPUs after
// Hopper. Fewer threads share an SM then. With wgmma no weights are in registers.
constexpr bool MANY = !WGMMA && (sizeof(A) == 2 ? AHEAD || POOL : AHEAD && POOL && __CUDA_ARCH__ >= 1000);
constexpr int SHARING = MANY ? 384 : 512, MIN_BLOCKS = SHARING > THREADS ? SHARING / THREADS : 1;
struct Fetched {
  Pixels words[AHEAD ? LOADS : 1];
  u32 inside;  // a bit for each: the others are zero
};
DEVICE void fetch(Fetched& fetched, const In* in, const Parameters& p, u32 tile) {
  const TilePlace at = place_of(tile, p);
  const In* image = in + i64(at.n) * CHANNELS * p.height * p.width;
  const i32 from_h = at.h * STRIDE_H - p.pad_h, from_w = at.w * STRIDE_W - p.pad_w - LEFT;
  fetched.inside = 0;
  const int thread = int(renewed(threadIdx.x));
#pragma unroll
  for (int i = 0; i < LOADS; ++i) {
    const int word = i * THREADS + thread, row = word / IN_ROW;
    const i32 h = from_h + row / C, w = from_w + word % IN_ROW * GROUP;
    if (word >= COUNT || u32(h) >= u32(p.height) || u32(w) >= u32(p.width)) continue;
    fetched.words[i] = load_pixels(image + place_in(p, row % C, h, w));
    fetched.inside |= 1u << i;
  }
}

// Word or group `word` of row `row` of the patch.
DEVICE Words load_word(const In* image, const Parameters& p, const Others (&others)[CHANNELS], i32 row, i32 word,
                       i32 h0, i32 w0) {
  Words out{};
  const i32 h = h0 + row / C, w = w0 + word * GROUP;
  const In* from = image + place_in(p, row % C, h, w);
  if (u32(h) < u32(p.height)) {
#if PIXEL_WORDS
    if (u32(w) < u32(p.width)) out = words_of(load_pixels(from), others, 0);
#else
    if constexpr (WHOLE_WORDS) {
      if (u32(w) < u32(p.width)) {
        if constexpr (PROLOGUE) out = words_of(load_pixels(from), others, row % C);
        else out.bits = *reinterpret_cast<const u32*>(from);
      }
    } else {
      [[maybe_unused]] const Others of = of_channel(others, row % C);
      Finished<A> x[E];
#pragma unroll
      for (int e = 0; e < E; ++e) x[e] = u32(w + e) < u32(p.width) ? PREPARED(hold(from[e]), of) : Finished<A>(0);
      out = word_of(x);
    }
#endif
  }
  return out;
}

#if PIXEL_WORDS
DEVICE void store_word(u32* patch, i32 row, i32 word, const Words& x) {
  store_vector(patch + row * PITCH + word * GROUP, x);
}
#else
DEVICE void store_word(u32* patch, i32 row, i32 word, Word x) {
  patch[row * PITCH + word] = x.bits;
#pragma unroll
  for (int copy = 1; copy < COPIES; ++copy) {
    A* to = reinterpret_cast<A*>(patch + copy * COPY + row * PITCH) + word * E - copy * SHIFT;
#pragma unroll
    for (int e = 0; e < E; e += SHIFT) {
      if (e < copy * SHIFT && word == 0) continue;
      if constexpr (sizeof(A) * SHIFT == 2) *reinterpret_cast<u16*>(to + e) = u16(x.bits >> (e * sizeof(A) * 8));
      else to[e] = x.at[e];
    }
  }
}
#endif

// The bits of word `word` of a row of WIDTH that are taps of the kernel (where a number may be infinite, zero is not
// enough of a weight).
DEVICE u32 taps_of(int word) {
  u32 mask = 0;
#pragma unroll
  for (int e = 0; e < E; ++e) {
    const int tap = word * E + e - LEFT;
    if (tap >= 0 && tap < KERNEL_W) mask |= (sizeof(A) == 2 ? 0xffffu : 0xffu) << (e * sizeof(A) * 8);
  }
  return mask;
}

// A block's tiles.
#define STEP (POOL ? 1 : gridDim.x)
DEVICE u32 first_tile(const Parameters& p) { return POOL ? renewed(blockIdx.x) * p.block_tiles : blockIdx.x; }
DEVICE u32 tiles_end(const Parameters& p) {
  const u32 end = first_tile(p) + p.block_tiles;
  return POOL && end < p.tiles ? end : p.tiles;
}

// The larger, NaN where one is.
DEVICE Sum larger(Sum a, Sum b) {
  if constexpr (is_float<Sum>) return max_nan(a, b);
  else return a > b ? a : b;
}
DEVICE Sum lowest() {
  if constexpr (is_float<Sum>) return __uint_as_float(0xff800000u);
  else return i32(0x80000000u);
}

// Pools two columns: upper[0] and upper[1] become the largest sum of a window over this warp's rows, upper[2] and
// upper[3] what the window below needs of these rows.
DEVICE void pool_own(Sum (&upper)[4], const Sum (&lower)[4]) {
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const Sum first = larger(larger(upper[e], upper[e + 2]), __shfl_up_sync(0xffffffffu, upper[e + 2], 4)),
              second = larger(larger(lower[e], lower[e + 2]), __shfl_up_sync(0xffffffffu, lower[e + 2], 4));
    upper[e] = larger(first, second);
    upper[e + 2] = second;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    conv_first(const In* in, const Quad* weights, OTHER_INPUTS EXTRAS Output* out, const Parameters p) {
  u8* const shared = dynamic_shared();
  Quad* b = reinterpret_cast<Quad*>(shared);
  u32* patch = reinterpret_cast<u32*>(shared + WEIGHTS * 16);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  for (int i = threadIdx.x; i < WEIGHTS; i += THREADS) b[i] = weights[blockIdx.y * WEIGHTS + i];
#if WGMMA
  publish_shared();
#endif
  wait_for_inputs();
  Others others[CHANNELS];
#pragma unroll
  for (int c = 0; c < CHANNELS; ++c) { LOAD_OTHERS(others[c], c) }

  // Half a step is 4 words of K for the four lanes that share a pixel. A longer row of the kernel continues in further
  // halves of steps.
  constexpr int ROW_HALVES = WIDTH / E >= 4 ? WIDTH / E / 4 : 1, HALF_ROWS = WIDTH / E >= 4 ? 1 : 4 / (WIDTH / E);
  const int my_row = HALF_ROWS == 1 ? 0 : t / (WIDTH / E), my_word = PAIRS            ? 2 * t
                                                                     : HALF_ROWS == 1 ? t
                                                                                      : t % (WIDTH / E);
  const u32* mine[2];  // of pixel g and pixel g + 8 of the first row
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int at = (POOL ? g * 2 + half : g + half * 8) * STRIDE_W;
    mine[half] = patch + (COPIES > 1 ? at % E / SHIFT * COPY : 0) + at / E +
                 (warp * FRAGMENTS_M * STRIDE_H * C + my_row) * PITCH + my_word;
  }

  u32 tile = first_tile(p);
  if (POOL && !ALONE && place_of(tile, p).h > 0) --tile;  // whose last rows are above the first
  [[maybe_unused]] Fetched fetched;
  if constexpr (AHEAD) fetch(fetched, in, p, tile);
#pragma unroll 1
  for (; tile < tiles_end(p); tile += STEP) {
    const int thread = int(renewed(threadIdx.x));  // what follows from it is not kept: registers are for sums
    if constexpr (AHEAD) {
#pragma unroll
      for (int i = 0; i < LOADS; ++i) {
        const int at = i * THREADS + thread;
        Words word{};
        if (fetched.inside >> i & 1) word = words_of(fetched.words[i], others, at / IN_ROW % C);
        if (at < COUNT) store_word(patch, at / IN_ROW, at % IN_ROW, word);
      }
      if (!ALONE && tile + STEP < tiles_end(p)) fetch(fetched, in, p, tile + STEP);
    } else {
      const TilePlace place = place_of(tile, p);
      const In* image = in + i64(place.n) * CHANNELS * p.height * p.width;
      const i32 from_h = place.h * STRIDE_H - p.pad_h, from_w = place.w * STRIDE_W - p.pad_w - LEFT;
      constexpr int AT_ONCE = LOADS < 12 ? LOADS : 12;
#pragma unroll 1
      for (int first = 0; first < LOADS; first += AT_ONCE) {
        Words words[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
          const int at = (first + i) * THREADS + thread;
          if (at < COUNT) words[i] = load_word(image, p, others, at / IN_ROW, at % IN_ROW, from_h, from_w);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
          const int at = (first + i) * THREADS + thread;
          if (at < COUNT) store_word(patch, at / IN_ROW, at % IN_ROW, words[i]);
        }
      }
    }
    __syncthreads();

#if WGMMA
    Sum sums[FRAGMENTS_M][FRAGMENTS_N][4];
    auto& groups = reinterpret_cast<Sum(&)[FRAGMENTS_M][FRAGMENTS_N * 4]>(sums);
    u32 fragments[2][FRAGMENTS_M][4];
#else
    Sum sums[FRAGMENTS_M][FRAGMENTS_N][4] = {};
    u32 fragments[1][FRAGMENTS_M][4];
#endif
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      u32(&a)[FRAGMENTS_M][4] = fragments[WGMMA ? step % 2 : 0];
#if PAIRS
#pragma unroll
      for (int m = 0; m < FRAGMENTS_M; ++m)
#pragma unroll
        for (int pixel = 0; pixel < 2; ++pixel) {
          const auto x = load_vector<2>(mine[pixel] + (m * STRIDE_H + step) * PITCH);
          a[m][pixel] = x.at[0];
          a[m][2 + pixel] = x.at[1];
        }
#else
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int half = step * 2 + k, row = half / ROW_HALVES * HALF_ROWS, word = half % ROW_HALVES * 4;
#pragma unroll
        for (int m = 0; m < FRAGMENTS_M; ++m)
#pragma unroll
          for (int pixel = 0; pixel < 2; ++pixel) {
            u32 x = 0;
            if (row < KERNEL_ROWS) {
              x = mine[pixel][(m * STRIDE_H * C + row) * PITCH + word];
              if (sizeof(A) == 2) x &= taps_of(my_word + word);
              if (HALF_ROWS > 1 && row + HALF_ROWS > KERNEL_ROWS && row + my_row >= KERNEL_ROWS) x = 0;
            }
            a[m][k * 2 + pixel] = x;
          }
      }
#endif
#if WGMMA
      begin_products();
#pragma unroll
      for (int m = 0; m < FRAGMENTS_M; ++m)
        multiply_group(groups[m], a[m], descriptor<32>(shared_address(shared) + step * (TILE_N * 32)), step > 0);
      commit_products();
      wait_for_products<1>();  // those of the step before have read their fragments
#else
#pragma unroll
      for (int n = 0; n < FRAGMENTS_N; n += 2) {
        const Quad factors = b[(step * (TILE_N / 16) + n / 2) * 32 + lane];
#pragma unroll
        for (int m = 0; m < FRAGMENTS_M; ++m) {
          multiply(sums[m][n], a[m], factors.at[0], factors.at[1]);
          multiply(sums[m][n + 1], a[m], factors.at[2], factors.at[3]);
        }
      }
#endif
    }
#if WGMMA
    wait_for_products<0>();
    renew(groups);
#endif
    constexpr int SHARE = FRAGMENTS_N * 2 * 32;  // what a warp gives to the one below: [column][lane]
    [[maybe_unused]] Sum* const above = reinterpret_cast<Sum*>(shared + WEIGHTS * 16 + PATCH_BYTES);
    if constexpr (POOL) {
      const TilePlace here = place_of(renewed(tile), p);
      const int warp = thread / 32, lane = thread % 32;
      const i32 h = here.h + warp * 2, w = here.w + lane / 4 * 2;
      // Of the pixels that reach into an output, only the second row and column may lie outside of the convolution's.
      const bool row = h + 1 < p.conv_height, column = u32(w + 1) < u32(p.conv_width);
      if (!row || !column) {
#pragma unroll
        for (int n = 0; n < FRAGMENTS_N; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if (i >= 2 && !column) sums[0][n][i] = lowest();
            if (!row || (i >= 2 && !column)) sums[1][n][i] = lowest();
          }
      }
      Sum* const to = above + (warp + 1 < WARPS ? warp : WARPS - 1 + (tile & 1)) * SHARE + lane;
#pragma unroll
      for (int n = 0; n < FRAGMENTS_N; ++n) {
        pool_own(sums[0][n], sums[1][n]);
        to[n * 64] = sums[0][n][2];
        to[n * 64 + 32] = sums[0][n][3];
      }
    }
    __syncthreads();  // the patch is free for the next
    const TilePlace done = place_of(renewed(tile), p);
    if constexpr (POOL) {
      const int warp = thread / 32, lane = thread % 32;
      const Sum* const from = above + (warp > 0 ? warp - 1 : WARPS - (tile & 1)) * SHARE + lane;
      if (tile < first_tile(p) || (ALONE && warp == 0)) continue;
      if (ALONE ? warp > (done.h < 0) : warp > 0 || done.h > 0) {
#pragma unroll
        for (int n = 0; n < FRAGMENTS_N; ++n)
#pragma unroll
          for (int e = 0; e < 2; ++e) sums[0][n][e] = larger(sums[0][n][e], from[n * 64 + e * 32]);
      }
    }

#pragma unroll
    for (int group = 0; group < TILE_N / (4 * V); ++group) {
      const u32 c = renewed(blockIdx.y * TILE_N + group * 4 * V + thread % 4 * V);
      if (c >= p.outputs) continue;
      [[maybe_unused]] ColumnExtras columns;
      COLUMN_EXTRAS(columns, c)
#pragma unroll
      for (int m = 0; m < (POOL ? 1 : FRAGMENTS_M); ++m)
#pragma unroll
        for (int pixel = 0; pixel < (POOL ? 1 : 2); ++pixel) {
          const i32 h = POOL ? done.h / 2 + thread / 32 : done.h + thread / 32 * FRAGMENTS_M + m;
          const i32 w = POOL ? done.w / 2 + thread % 32 / 4 : done.w + thread % 32 / 4 + pixel * 8;
          if (h >= p.out_height || w >= p.out_width || (POOL && thread % 32 < 4)) continue;
          const i64 at = ((i64(done.n) * p.out_height + h) * p.out_width + w) * p.outputs + c;
          [[maybe_unused]] RowExtras row;
          ROW_EXTRAS(row, at)
          Finished<Output> results[V];
#pragma unroll
          for (int v = 0; v < V; ++v)
            results[v] = EPILOGUE(Acc(sums[m][group * (V / 2) + v / 2][pixel * 2 + v % 2]), columns, row, 0, v);
          store_results<Output, V>(out + at, results);
        }
    }
  }
}
