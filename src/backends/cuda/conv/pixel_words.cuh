// SPDX-License-Identifier: Apache-2.0
// Pixels of an image as four elements of one or two bytes: CHANNELS of them, and zeros. Of GROUP neighbours at once.
//
// Defined before this text: GROUP, PLANES (whether each channel of the image is a plane of its own, or a pixel's
// channels are neighbours), In, IN_WORDS, A, PROLOGUE, prologue(), AS_FLOATS, PREPARED, Others, CHANNELS, as
// conv_first.cu says it.
static_assert(sizeof(A) <= 2 && CHANNELS <= 4, "a pixel is one word or two");
using Words = Vec<u32, GROUP* int(sizeof(A))>;
// As they lie.
#if IN_WORDS
static_assert(GROUP == 4 && sizeof(In) == 1, "a byte alone would take a register");
struct Pixels {
  Vec<u32, 1> at[CHANNELS];
};
#else
struct Pixels {
  Vec<In, GROUP> at[CHANNELS];
};
#endif
// `plane`: elements of a plane.
DEVICE Pixels load_pixels(const In* from, [[maybe_unused]] i32 plane = 0) {
  Pixels pixels;
#pragma unroll
  for (int i = 0; i < CHANNELS; ++i) {
    const In* at = from + i * (PLANES ? plane : GROUP);
#if IN_WORDS
    pixels.at[i].at[0] = *reinterpret_cast<const u32*>(at);
#else
    pixels.at[i] = load_vector<GROUP>(at);
#endif
  }
  return pixels;
}
#if MATRIX <= 2
DEVICE u32 word_of(float low, float high) { return is_same<A, f16> ? f16x2_bits(low, high) : bf16x2_bits(low, high); }
// Whether one of the elements is infinite or no number.
DEVICE bool has_endless(const Words& words) {
  constexpr u32 EXPONENT = is_same<A, f16> ? 0x7c00 : 0x7f80;
  u32 most = 0;
#pragma unroll
  for (int i = 0; i < GROUP * 2; ++i) {
    const u32 magnitudes = words.at[i] & 0x7fff7fffu;
    most = is_same<A, f16> ? max_nan_f16x2(most, magnitudes) : max_nan_bf16x2(most, magnitudes);
  }
  return (most & 0x7fff) >= EXPONENT || (most >> 16 & 0x7fff) >= EXPONENT;
}
#else
DEVICE u32 saturated_bytes(Finished<A> a, Finished<A> b, Finished<A> c, Finished<A> d) {
  return is_signed<A> ? saturated_i8x4(a, b, c, d) : saturated_u8x4(a, b, c, d);
}
DEVICE bool has_endless(const Words&) { return false; }
#endif
// `pattern` is kept(kByteAsFloat).
DEVICE Words pixel_words(const Pixels& pixels, const Others (&others)[CHANNELS], [[maybe_unused]] u32 pattern) {
  Words words;
  [[maybe_unused]] Finished<A> x[GROUP][4] = {};
#pragma unroll
  for (int k = 0; k < GROUP; ++k) {
    if constexpr (sizeof(A) == 1) words.at[k] = 0;
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) {
      [[maybe_unused]] const int e = k * CHANNELS + c, i = PLANES ? c : e / GROUP, at = PLANES ? k : e % GROUP;
#if AS_FLOATS
      x[k][c] = PREPARED(byte_as_float<In>(pixels.at[i], at, pattern), others[c]);
#else
#if IN_WORDS
      const In element = In(pixels.at[i].at[0] >> (at * 8) & 0xff);
#else
      const In element = pixels.at[i].at[at];
#endif
#if PROLOGUE || MATRIX <= 2
      x[k][c] = PREPARED(hold(element), others[c]);
#else
      words.at[k] |= u32(u8(element)) << (c * 8);
#endif
#endif
    }
  }
#if MATRIX <= 2
#pragma unroll
  for (int k = 0; k < GROUP; ++k)
#pragma unroll
    for (int i = 0; i < 2; ++i) words.at[k * 2 + i] = word_of(x[k][i * 2], x[k][i * 2 + 1]);
#elif PROLOGUE
#pragma unroll
  for (int k = 0; k < GROUP; ++k) words.at[k] = saturated_bytes(x[k][0], x[k][1], x[k][2], x[k][3]);
  if constexpr (CHANNELS == 3 && GROUP % 2 == 0) {
    // Two floats become two bytes in one instruction; a float alone takes two. The third channels of two pixels are
    // two.
#pragma unroll
    for (int k = 0; k < GROUP; k += 2) {
      const u32 third = saturated_bytes(x[k][2], x[k + 1][2], 0, 0);
      words.at[k] = __byte_perm(saturated_bytes(x[k][0], x[k][1], 0, 0), third, 0x2410);
      words.at[k + 1] = __byte_perm(saturated_bytes(x[k + 1][0], x[k + 1][1], 0, 0), third, 0x2510);
    }
  }
#endif
  return words;
}
