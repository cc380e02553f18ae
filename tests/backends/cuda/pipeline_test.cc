// SPDX-License-Identifier: Apache-2.0
// Random convolutions and products on the kernel for Hopper: integers bit for bit, halves within their rounding. On the
// emulator a few; on a GPU 60 with every configuration, or as many as TEMPER_RANDOM_SHAPES says with one of them each.
#include <algorithm>

#include "../../draw.h"
#include "check_cases.h"
#include "cuda_test_helpers.h"
#include "emulated_gpu.h"

namespace temper {
namespace {

using testing::Draw;

// A line of tests/cases. `largest`: about how many rows and columns. `patch`: a convolution whose taps overlap.
std::string random_line(uint64_t seed, int64_t largest, bool patch = false) {
  Draw draw{std::mt19937_64(seed)};
  const char* const kinds[] = {"f16", "bf16", "i8", "u8", "f32"};
  const std::string x = kinds[draw(0, 4)], w = x == "u8" ? "i8" : x;
  const bool integers = w == "i8", residual = draw.chance(40), product = !patch && draw.chance(25);
  const int64_t unit = integers ? 16 : x == "f32" ? 4 : 8;
  const std::string result = !integers         ? (draw.chance(80) ? x : "f32")
                             : draw.chance(70) ? "i8"
                             : draw.chance(50) ? "u8"
                                               : "f32";
  // One in three has rows that begin anywhere, and then no residual.
  const int64_t out_unit = !residual && draw.chance(33) ? 1 : result == "f32" ? 4 : unit;
  const int64_t channels = unit * draw(1, draw.chance(50) ? 3 : 20),
                columns = out_unit * draw(1, std::max<int64_t>(1, largest / out_unit));
  std::string x_range = integers ? (x == "u8" ? "{0..256}" : "{-128..128}") : "",
              w_range = integers ? "{-128..128}" : "",
              r_range = !integers || result == "f32" ? ""
                        : result == "u8"             ? "{0..256}"
                                                     : "{-128..128}";
  std::string line, out, bias, attributes;
  bool per_image = false;
  if (product && (x == "f16" || x == "bf16") && draw.chance(50)) {  // of computed matrices
    const int64_t rows = draw(1, largest), matrices = draw(1, 3), wide = 8 * draw(1, std::max<int64_t>(1, largest / 8));
    const bool transposed = draw.chance(40), shared = draw.chance(50), of_rows = draw.chance(50);
    const int64_t k = shared && !transposed ? std::max<int64_t>(1, channels - draw(0, 7)) : channels;
    line = concat("matmul(", x, '[', shared ? "" : concat(matrices, ','), rows, ',', k, shared ? "]*, " : "], ", x, '[',
                  matrices, ',', transposed ? concat(wide, ',', k) : concat(k, ',', wide), ']');
    out = concat('[', matrices, ',', rows, ',', wide, ']');
    bias = of_rows ? concat('[', rows, ",1]") : concat('[', wide, ']');
    attributes = transposed ? " transpose_b=true" : "";
  } else if (product) {
    const int64_t rows = draw(1, 3 * largest);
    const bool transposed = draw.chance(50);
    line = concat("matmul(", x, '[', rows, ',', channels, ']', x_range, ", ", w,
                  transposed ? concat('[', columns, ',', channels, ']') : concat('[', channels, ',', columns, ']'), '*',
                  w_range);
    out = concat('[', rows, ',', columns, ']');
    bias = concat('[', columns, ']');
    attributes = transposed ? " transpose_b=true" : "";
  } else {
    const int64_t images = draw(1, 3), kh = !patch && draw.chance(40) ? 1 : draw(1, 4),
                  kw = draw.chance(70) ? kh : draw(1, 5), sh = patch ? 1 : draw(1, 3),
                  sw = draw.chance(80) ? sh
                       : patch         ? 1
                                       : draw(1, 4),
                  dh = draw.chance(80) ? 1 : 2, dw = dh, top = draw(0, 3), left = draw(0, 3), bottom = draw(0, 2),
                  right = draw(0, 2);
    const int64_t h = std::max<int64_t>(draw(1, largest / 6), (kh - 1) * dh + 1 - top - bottom),
                  wide = std::max<int64_t>(draw(1, largest / 6), (kw - 1) * dw + 1 - left - right);
    const int64_t oh = (h + top + bottom - (kh - 1) * dh - 1) / sh + 1,
                  ow = (wide + left + right - (kw - 1) * dw - 1) / sw + 1;
    line = concat("conv(", x, '[', images, ',', channels, ',', h, ',', wide, ']', x_range, ", ", w, '[', columns, ',',
                  channels, ',', kh, ',', kw, "]*", w_range);
    out = concat('[', images, ',', columns, ',', oh, ',', ow, ']');
    per_image = out_unit > 1 && draw.chance(30);
    bias = per_image ? concat('[', images, ',', columns, ",1,1]") : concat('[', columns, ",1,1]");
    attributes = concat(" strides=[", sh, ',', sw, "] pads=[", top, ',', left, ',', bottom, ',', right, "] dilations=[",
                        dh, ',', dw, ']');
  }
  line += concat(", f32", bias, per_image ? "" : "*", integers ? "{-5000..5000}" : "");
  if (residual) line += concat(", ", result, out, r_range);
  line += ")" + attributes + (x == "f32" ? " tf32=true" : "");
  if (!integers) {
    line +=
        residual
            ? concat(" epilogue=\"(3) 3=cast.f32(0) 4=add.f32(3,1) 5=cast.f32(2) 6=add.f32(4,5) 7=relu.f32(6) 8=cast.",
                     result, "(7)\"")
            : concat(" epilogue=\"(2) 2=cast.f32(0) 3=add.f32(2,1) 4=cast.", result, "(3)\"");
  } else {
    const std::string relu = draw.chance(60) ? "relu.f32" : "neg.f32", end = result == "f32" ? "" : "end";
    line += residual ? " epilogue=\"(3) 3=cast.f32(0) 4=add.f32(3,1) 5=constant.f32[0.00037] 6=mul.f32(4,5) "
                       "7=cast.f32(2) 8=constant.f32[0.731] 9=fma.f32(7,8,6) 10=" +
                           relu + "(9)"
                     : " epilogue=\"(2) 2=cast.f32(0) 3=add.f32(2,1) 4=constant.f32[0.00037] 5=mul.f32(3,4) 6=" + relu +
                           "(5)";
    const int last = residual ? 10 : 6;
    if (result != "f32")
      line += concat(' ', last + 1, "=round.f32(", last, ") ", last + 2, "=cast.", result, '(', last + 1, ')');
    line += '"';
  }
  return line;
}

// Which numbers a tensor of the dtype has.
std::string range(const std::string& dtype) { return dtype == "u8" ? "{0..256}" : dtype == "i8" ? "{-128..128}" : ""; }

// A program behind a product: a bias, what is added if there is a `residual`, and a rounding to `result`.
std::string random_epilogue(Draw& draw, const std::string& result, bool integers, bool residual) {
  const bool bytes = result == "i8" || result == "u8";
  std::string text = concat('(', residual ? 3 : 2, ')');
  int last = residual ? 2 : 1;
  auto step = [&](const auto&... parts) {
    text += concat(' ', ++last, '=', parts...);
    return last;
  };
  int sum = step("cast.f32(0)");
  sum = step("add.f32(", sum, ",1)");
  if (integers) {
    const int scale = step("constant.f32[", bytes ? "0.00037" : "0.01", ']');
    sum = step("mul.f32(", sum, ',', scale, ')');
  }
  if (residual) {
    const int more = step("cast.f32(2)");
    sum = step("add.f32(", sum, ',', more, ')');
  }
  if (draw.chance(60)) sum = step("relu.f32(", sum, ')');
  if (bytes) sum = step("round.f32(", sum, ')');
  step("cast.", result, '(', sum, ')');
  return text;
}

// Two or three convolutions in a chain; `largest`: about how many rows and columns. `patch`: the first one's taps
// overlap. `shortcut`: the second one's epilogue reads the result of a further one.
std::string random_chain(uint64_t seed, int64_t largest, bool patch = false, bool shortcut = false) {
  Draw draw{std::mt19937_64(seed)};
  const char* const kinds[] = {"f16", "bf16", "i8", "u8"};
  const std::string x = kinds[draw(0, 3)], w = x == "u8" ? "i8" : x;
  const bool integers = w == "i8", residual = draw.chance(50) && !shortcut;
  const int64_t unit = integers ? 16 : 8;
  const bool three = draw.chance(40);
  const std::string result = three ? x : draw.chance(20) ? "f32" : integers && draw.chance(30) ? "u8" : w;
  const int64_t images = draw(1, 3), kh = !patch && draw.chance(40) ? 1 : draw(1, 3),
                kw = draw.chance(70) ? kh : draw(1, 4), sh = patch ? 1 : draw(1, 2), sw = patch ? 1 : draw(1, 2),
                pad_h = draw(0, 2), pad_w = draw(0, 2), channels = unit * draw(1, 6),
                between = unit * draw(1, integers ? 8 : 16),
                columns = (result == "f32" ? 4 : unit) * draw(1, std::max<int64_t>(1, largest / unit));
  const int64_t h = std::max(draw(1, largest / 6), kh), wide = std::max(draw(1, largest / 6), kw),
                oh = (h + 2 * pad_h - kh) / sh + 1, ow = (wide + 2 * pad_w - kw) / sw + 1;
  const std::string bias = integers ? "{-5000..5000}" : "";
  std::string line =
      concat("conv_chain(", x, '[', images, ',', channels, ',', h, ',', wide, ']', range(x), ", ", w, '[', between, ',',
             channels, ',', kh, ',', kw, "]*", range(w), ", f32[", between, ",1,1]*", bias, ", ", w, '[', columns, ',',
             between, ",1,1]*", range(w), ", f32[", columns, ",1,1]*", bias);
  if (residual) line += concat(", ", result, '[', images, ',', columns, ',', oh, ',', ow, ']', range(result));
  // Of floats 16 bits: where sums in another order round what the third reads the other way, more digits show it.
  const std::string last = integers && draw.chance(30) ? "f32" : w;
  if (three) {
    const int64_t wide_third = (last == "f32" ? 4 : unit) * draw(1, 128 / unit);
    line += concat(", ", w, '[', wide_third, ',', columns, ",1,1]*", range(w), ", f32[", wide_third, ",1,1]*", bias);
  }
  const std::string joined = integers ? (draw.chance(70) ? "i8" : "f16") : draw.chance(70) ? x : "f32";
  if (shortcut) {
    const int64_t theirs = unit * draw(1, 6);
    line += concat(", ", x, '[', images, ',', theirs, ',', oh, ',', ow, ']', range(x), ", ", w, '[', columns, ',',
                   theirs, ",1,1]*", range(w), ", f32[", columns, ",1,1]*", bias);
  }
  line +=
      concat(") strides=[", sh, ',', sw, "] pads=[", pad_h, ',', pad_w, ',', pad_h, ',', pad_w, "] dilations=[1,1]");
  line += concat(" epilogue=\"", random_epilogue(draw, x, integers, false), "\" first_inputs=3 then=\"",
                 random_epilogue(draw, result, integers, residual || shortcut), '"');
  if (three)
    line += concat(" then_inputs=", residual ? 3 : 2, " third=\"", random_epilogue(draw, last, integers, false), '"');
  if (shortcut)
    line += concat(
        " shortcut_inputs=3 shortcut_at=3 shortcut_strides=[1,1] shortcut_pads=[0,0,0,0] "
        "shortcut_dilations=[1,1] shortcut_epilogue=\"",
        random_epilogue(draw, joined, integers, false), '"');
  return line;
}

// A convolution and a shortcut of the same size; `largest`: about how many rows and columns.
std::string random_shortcut(uint64_t seed, int64_t largest) {
  Draw draw{std::mt19937_64(seed)};
  const char* const kinds[] = {"f16", "bf16", "i8", "u8", "f32"};
  const std::string x = kinds[draw(0, 4)], w = x == "u8" ? "i8" : x;
  const bool integers = w == "i8";
  const int64_t unit = integers ? 16 : x == "f32" ? 4 : 8;
  const std::string result = draw.chance(70) ? (integers ? (draw.chance(50) ? "u8" : "i8") : x) : "f32",
                    joined = draw.chance(70)               ? (integers ? "i8" : x)
                             : integers && draw.chance(50) ? "f16"
                                                           : "f32";
  const int64_t images = draw(1, 3), columns = unit * draw(1, std::max<int64_t>(1, largest / unit)),
                oh = draw(1, largest / 6), ow = draw(1, largest / 6);
  const std::string bias = concat(", f32[", columns, ",1,1]*", integers ? "{-5000..5000}" : "");
  std::string inputs[2], attributes[2];
  for (int i = 0; i < 2; ++i) {
    const int64_t channels = unit * draw(1, draw.chance(50) ? 3 : 20), kh = draw.chance(60) ? 1 : draw(1, 3),
                  kw = draw.chance(70) ? kh : draw(1, 3), sh = draw(1, 2), sw = draw.chance(80) ? sh : draw(1, 3);
    // As much padding in front as the kernel can have, less where an image of one element needs none.
    const int64_t top = draw(0, kh - 1), left = draw(0, kw - 1), h = std::max<int64_t>(1, (oh - 1) * sh + kh - top),
                  wide = std::max<int64_t>(1, (ow - 1) * sw + kw - left);
    inputs[i] = concat(x, '[', images, ',', channels, ',', h, ',', wide, ']', range(x), ", ", w, '[', columns, ',',
                       channels, ',', kh, ',', kw, "]*", range(w), bias);
    attributes[i] = concat("strides=[", sh, ',', sw, "] ", i ? "shortcut_" : "", "pads=[", top, ',', left, ",0,0] ",
                           i ? "shortcut_" : "", "dilations=[1,1]");
  }
  const std::string tf32 = x == "f32" ? " tf32=true shortcut_tf32=true" : "";
  return concat("shortcut_conv(", inputs[0], ", ", inputs[1], ") ", attributes[0], " epilogue=\"",
                random_epilogue(draw, result, integers, true), "\" conv_inputs=3 shortcut_at=3 shortcut_",
                attributes[1], " shortcut_epilogue=\"", random_epilogue(draw, joined, integers, false), '"', tf32);
}

std::string random_lines(uint64_t seed, int count, int64_t largest, bool patch = false) {
  std::string text;
  for (int i = 0; i < count; ++i) text += random_line(seed + uint64_t(i), largest, patch) + "\n";
  return text;
}
std::string random_chains(uint64_t seed, int count, int64_t largest, bool patch = false, bool shortcut = false) {
  std::string text;
  for (int i = 0; i < count; ++i) text += random_chain(seed + uint64_t(i), largest, patch, shortcut) + "\n";
  return text;
}

std::string random_shortcuts(uint64_t seed, int count, int64_t largest) {
  std::string text;
  for (int i = 0; i < count; ++i) text += random_shortcut(seed + uint64_t(i), largest) + "\n";
  return text;
}

// First convolutions in bytes or 16-bit floats with a pool, of images about `largest` high and wide.
std::string random_first(uint64_t first_seed, int count, int64_t largest) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    Draw draw{std::mt19937_64(first_seed + uint64_t(i))};
    const std::string kinds[] = {"u8", "i8", "f32", "f16"}, x = kinds[draw(0, 3)],
                      results[] = {"i8", "u8", "f16", "f32"}, result = results[draw.chance(60) ? 0 : draw(1, 3)];
    const int64_t images = draw(1, 3), channels = draw(1, 4), outputs = 16 * draw(1, draw.chance(50) ? 4 : 9),
                  kh = draw(1, 7), kw = draw(1, 7), height = draw(kh, largest), width = 16 * draw(1, largest / 16 + 1),
                  top = draw(0, kh - 1), left = draw(0, kw - 1), bottom = draw(0, kh - 1), right = draw(0, kw - 1);
    if (width + left + right < kw || (height + top + bottom - kh) / 2 < 1 || (width + left + right - kw) / 2 < 1)
      continue;
    if (draw.chance(50)) {
      const std::string halves = draw.chance(70) ? "f16" : "bf16";
      lines +=
          concat("fused_conv(", x, '[', images, ',', channels, ',', height, ',', width, "], ", halves, '[', outputs,
                 ',', channels, ',', kh, ',', kw, "]*, f32[", outputs, ",1,1]*{1..9}, f32[", outputs, ",1,1]*) ");
      if (x == halves) lines += "prologue=\"(1)\"";
      else if (draw.chance(50)) lines += concat("prologue=\"(1) 1=cast.", halves, "(0)\"");
      else lines += concat("prologue=\"(1) 1=cast.f32(0) 2=constant.f32[0.9] 3=mul.f32(1,2) 4=cast.", halves, "(3)\"");
      lines += concat(" strides=[2,2] pads=[", top, ',', left, ',', bottom, ',', right,
                      "] dilations=[1,1] epilogue=\"(3) 3=fma.f32(0,1,2)",
                      draw.chance(50) ? " 4=relu.f32(3)" : " 4=add.f32(3,2)",
                      draw.chance(30) ? "" : concat(" 5=cast.", halves, "(4)"),
                      "\" pool_kernel=[3,3] pool_strides=[2,2] pool_pads=[1,1,", draw(0, 1), ',', draw(0, 1), "]\n");
      continue;
    }
    const bool apart = draw.chance(60), scaled = x != "i8" || apart;
    lines += concat("fused_conv(", x, '[', images, ',', channels, ',', height, ',', width, ']',
                    x == "u8"   ? "{0..256}"
                    : x == "i8" ? "{-128..128}"
                                : "",
                    ", i8[", outputs, ',', channels, ',', kh, ',', kw, "]*{-128..128}, f32[", outputs,
                    ",1,1]*{1..9}, f32[", outputs, ",1,1]*",
                    apart ? concat(", f32[", channels, ",1,1]*, f32[", channels, ",1,1]*") : std::string());
    const std::string_view scale = x == "u8" || x == "i8" ? "0.9" : "0.01";
    if (apart)
      lines += concat(") prologue=\"(3) 3=cast.f32(0) 4=fma.f32(3,1,2) 5=constant.f32[", scale,
                      "] 6=div.f32(4,5) 7=round.f32(6) 8=cast.i8(7)\"");
    else if (scaled)
      lines += concat(") prologue=\"(1) 1=cast.f32(0) 2=constant.f32[", scale,
                      "] 3=div.f32(1,2) 4=round.f32(3) 5=cast.i8(4)\"");
    else lines += ") prologue=\"(1)\"";
    lines += concat(" strides=[2,2] pads=[", top, ',', left, ',', bottom, ',', right,
                    "] dilations=[1,1] epilogue=\"(3) 3=cast.f32(0) 4=constant.f32[0.0002] 5=mul.f32(3,4) "
                    "6=fma.f32(5,1,2)",
                    draw.chance(50) ? " 7=relu.f32(6)" : " 7=add.f32(6,2)",
                    result == "f32"   ? ""
                    : result == "f16" ? " 8=cast.f16(7)"
                                      : concat(" 8=round.f32(7) 9=cast.", result, "(8)"),
                    "\" pool_kernel=[3,3] pool_strides=[2,2] pool_pads=[1,1,", draw(0, 1), ',', draw(0, 1), "]\n");
  }
  return lines;
}
// Convolutions of single taps behind a program, of images with about `largest` rows of the GEMM.
std::string random_prepared(uint64_t first_seed, int count, int64_t largest) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    Draw draw{std::mt19937_64(first_seed + uint64_t(i))};
    const std::string kinds[] = {"f16", "bf16", "i8", "u8"}, x = kinds[draw(0, 3)];
    const bool integers = x == "i8" || x == "u8", residual = draw.chance(40);
    const int64_t unit = integers ? 16 : 8, channels = unit * draw(1, draw.chance(50) ? 4 : 30),
                  outputs = unit * draw(1, 16), high = draw(8, 24), wide = draw(16, 20),
                  images = draw(1, std::max<int64_t>(1, largest / (high * wide)));
    const std::string operand = integers ? "i8" : x,
                      range = x == "u8"  ? "{0..256}"
                              : integers ? "{-128..128}"
                                         : "",
                      weights = integers ? "{-128..128}" : "",
                      image = concat('[', images, ',', outputs, ',', high, ',', wide, ']');
    lines += concat("fused_conv(", x, '[', images, ',', channels, ',', high, ',', wide, ']', range, ", ", operand, '[',
                    outputs, ',', channels, ",1,1]*", weights, residual ? concat(", f16", image) : std::string());
    std::string program = "3=cast.f32(0) ";
    const int kind = int(draw(0, 2));
    if (kind == 0) {  // by channels of each image
      lines += concat(", f32[", images, ',', channels, ",1,1], f16[", channels, ",1,1]");
      program += "4=mul.f32(3,1) 5=cast.f32(2) 6=add.f32(4,5) ";
    } else if (kind == 1) {  // a batch norm and its relu
      lines += concat(", f32[", channels, ",1,1]*, f32[", channels, ",1,1]*");
      program += "4=fma.f32(3,1,2) 5=constant.f32[0.5] 6=max.f32(4,5) ";
    } else {
      lines += concat(", f16[], f16[", images, ',', channels, ",1,1]");
      program += "4=cast.f32(1) 5=cast.f32(2) 6=fma.f32(3,4,5) ";
    }
    program += integers ? "7=round.f32(6) 8=cast.i8(7)" : concat("7=cast.", operand, "(6)");
    const std::string sum = integers ? "cast.f32(0)" : "neg.f32(0)";
    lines +=
        concat(") prologue=\"(3) ", program, "\" strides=[1,1] pads=[0,0,0,0] dilations=[1,1] epilogue=\"",
               residual ? concat("(2) 2=", sum, " 3=constant.f32[0.01] 4=cast.f32(1) 5=fma.f32(2,3,4) 6=cast.f16(5)")
                        : concat("(1) 1=", sum, " 2=constant.f32[0.01] 3=mul.f32(1,2) 4=cast.f16(3)"),
               "\"\n");
  }
  return lines;
}
testing::CaseChoice of_first_columns(int sms) {
  return {.recipes = "conv.first_columns", .properties = testing::with_sms(sms)};
}

// Few SMs, so that blocks have several tiles: without, nobody reads taps from patches.
testing::CaseChoice of_patches(std::string_view recipes, int sms) {
  return {.recipes = recipes, .with = " patch", .properties = testing::with_sms(sms)};
}
// Padding that is wider behind than in front and the other way round, none at all, a tap alone in a row, more channels
// than a slice has, a tile of more than one image and one that ends in the last image's last row.
constexpr const char* kPatchLines =
    "conv(i8[2,64,13,9]{-128..128}, i8[64,64,3,3]*{-128..128}) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] "
    "epilogue=\"(1) 1=cast.f32(0)\"\n"
    "conv(f16[3,64,11,7], f16[32,64,3,3]*) strides=[1,1] pads=[0,2,2,0] dilations=[1,1] epilogue=\"(1)\"\n"
    "conv(f16[2,80,16,14], f16[40,80,2,3]*) strides=[1,1] pads=[2,0,0,1] dilations=[1,2] epilogue=\"(1)\"\n"
    "conv(i8[1,32,20,21]{-128..128}, i8[80,32,5,1]*{-128..128}) strides=[1,1] pads=[0,0,0,0] dilations=[2,1] "
    "epilogue=\"(1) 1=cast.f32(0)\"\n"
    "conv(u8[5,16,6,6]{0..256}, i8[33,16,3,3]*{-128..128}) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] "
    "epilogue=\"(1) 1=cast.f32(0)\"\n";

TEST(EmulatedPipeline, GivesTheReferencesResultsForRandomShapes) {
  const testing::EmulatedGpu emulated;
  const auto asked = testing::shapes_asked_for();
  // Few blocks: each walks over many tiles, and its ring of buffers goes round.
  for (uint32_t blocks : {1, 3})
    testing::check_lines("random", random_lines(1000 * blocks, asked.value_or(4), 150), emulated.compiler(),
                         emulated.gpu(), {SIZE_MAX, "pipeline", blocks});
}

TEST(EmulatedChain, GivesTheReferencesResultsForRandomShapes) {
  const testing::EmulatedGpu emulated;
  const auto asked = testing::shapes_asked_for();
  for (uint32_t blocks : {1, 3})
    testing::check_lines("random", random_chains(1000 * blocks, asked.value_or(3), 150), emulated.compiler(),
                         emulated.gpu(), {SIZE_MAX, "chain", blocks});
}

// The numbers of its columns are copied to shared memory, which is waited for though no other epilogue has any.
TEST(EmulatedChain, AThirdEpilogueAloneReadsNumbersOfItsColumns) {
  const testing::EmulatedGpu emulated;
  testing::check_lines(
      "numbers",
      "conv_chain(f16[2,32,9,7], f16[32,32,1,1]*, f16[64,32,1,1]*, f16[32,64,1,1]*, f32[32,1,1]*) strides=[1,1] "
      "pads=[0,0,0,0] dilations=[1,1] epilogue=\"(1) 1=cast.f16(0)\" first_inputs=2 then=\"(1) 1=cast.f16(0)\" "
      "then_inputs=1 third=\"(2) 2=add.f32(0,1) 3=cast.f16(2)\"\n",
      emulated.compiler(), emulated.gpu(), {SIZE_MAX, "chain", 1});
}

// On one block consumers have groups of tiles, of which the last is not whole; on many some have none.
TEST(EmulatedShortcut, GivesTheReferencesResultsForRandomShapes) {
  const testing::EmulatedGpu emulated;
  const auto asked = testing::shapes_asked_for();
  for (uint32_t blocks : {1, 3})
    testing::check_lines("random", random_shortcuts(1000 * blocks, asked.value_or(3), 150), emulated.compiler(),
                         emulated.gpu(), {SIZE_MAX, "shortcut", blocks});
}

// Chains whose taps read a patch, with a shortcut of the same pixels, of fewer channels than a slice has.
constexpr const char* kPatchShortcuts =
    "conv_chain(i8[2,32,13,11]{-128..128}, i8[64,32,3,3]*{-128..128}, i8[128,64,1,1]*{-128..128}, "
    "i8[2,16,13,11]{-128..128}, i8[128,16,1,1]*{-128..128}) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] "
    "epilogue=\"(1) 1=cast.f32(0) 2=constant.f32[0.0009] 3=mul.f32(1,2) 4=round.f32(3) 5=cast.i8(4)\" first_inputs=2 "
    "then=\"(2) 2=cast.f32(0) 3=constant.f32[0.0009] 4=cast.f32(1) 5=fma.f32(2,3,4) 6=round.f32(5) 7=cast.i8(6)\" "
    "shortcut_inputs=2 shortcut_at=2 shortcut_strides=[1,1] shortcut_pads=[0,0,0,0] shortcut_dilations=[1,1] "
    "shortcut_epilogue=\"(1) 1=cast.f32(0) 2=constant.f32[0.0009] 3=mul.f32(1,2) 4=round.f32(3) 5=cast.i8(4)\"\n"
    "conv_chain(f16[3,16,9,15], f16[40,16,3,3]*, f16[72,40,1,1]*, f16[3,24,9,15], f16[72,24,1,1]*) strides=[1,1] "
    "pads=[1,1,1,1] dilations=[1,1] epilogue=\"(1) 1=cast.f16(0)\" first_inputs=2 then=\"(2) 2=cast.f32(1) "
    "3=add.f32(0,2) 4=cast.f16(3)\" shortcut_inputs=2 shortcut_at=2 shortcut_strides=[1,1] shortcut_pads=[0,0,0,0] "
    "shortcut_dilations=[1,1] shortcut_epilogue=\"(1) 1=cast.f16(0)\"\n";

TEST(EmulatedShortcut, InAChainGivesTheReferencesResultsForRandomShapes) {
  const testing::EmulatedGpu emulated;
  const auto asked = testing::shapes_asked_for();
  for (uint32_t blocks : {1, 3})
    testing::check_lines("random", random_chains(1000 * blocks, asked.value_or(2), 150, false, true),
                         emulated.compiler(), emulated.gpu(), {SIZE_MAX, "chain", blocks});
  for (int sms : {1, 2})
    testing::check_lines("patches",
                         kPatchShortcuts + random_chains(uint64_t(100 * sms), asked.value_or(0), 150, true, true),
                         emulated.compiler(), emulated.gpu(), of_patches("conv.chain", sms));
}

// Residuals of positions that are no results are zeros.
constexpr const char* kPatchChains =
    "conv_chain(i8[2,32,13,11]{-128..128}, i8[64,32,3,3]*{-128..128}, i8[128,64,1,1]*{-128..128}, "
    "i8[2,128,13,11]{-128..128}) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] epilogue=\"(1) 1=cast.f32(0) "
    "2=constant.f32[0.0009] 3=mul.f32(1,2) 4=round.f32(3) 5=cast.i8(4)\" first_inputs=2 then=\"(2) 2=cast.f32(0) "
    "3=constant.f32[0.0009] 4=cast.f32(1) 5=fma.f32(2,3,4) 6=round.f32(5) 7=cast.i8(6)\"\n"
    "conv_chain(f16[3,16,9,15], f16[40,16,3,3]*, f16[72,40,1,1]*, f16[3,72,9,15]) strides=[1,1] pads=[1,1,1,1] "
    "dilations=[1,1] epilogue=\"(1) 1=cast.f16(0)\" first_inputs=2 then=\"(2) 2=cast.f32(1) 3=add.f32(0,2) "
    "4=cast.f16(3)\"\n";

TEST(EmulatedPipeline, TapsThatReadAPatchGiveTheReferencesResults) {
  const testing::EmulatedGpu emulated;
  testing::check_lines("patches", kPatchLines, emulated.compiler(), emulated.gpu(), of_patches("conv.pipeline", 2));
  const auto asked = testing::shapes_asked_for();
  testing::check_lines("random", random_lines(1, asked.value_or(12), 150, true), emulated.compiler(), emulated.gpu(),
                       of_patches("conv.pipeline", 3));
}
TEST(EmulatedChain, TapsThatReadAPatchGiveTheReferencesResults) {
  const testing::EmulatedGpu emulated;
  const auto asked = testing::shapes_asked_for();
  for (int sms : {1, 2}) {
    const std::string random = random_chains(uint64_t(100 * sms), asked.value_or(6), 150, true);
    testing::check_lines("chains", kPatchChains + random, emulated.compiler(), emulated.gpu(),
                         of_patches("conv.chain", sms));
  }
}

// On one SM a block walks down images; on many it has one tile, and the one above that.
// Of numbers up to 65530 some are infinite in f16: 65520 and more.
constexpr const char* kEndless =
    "fused_conv(f32[2,3,33,32]{-65530..65531}, f16[64,3,7,7]*, f32[64,1,1]*) prologue=\"(1) 1=cast.f16(0)\" "
    "strides=[2,2] pads=[3,3,3,3] dilations=[1,1] epilogue=\"(2) 2=constant.f32[0.00001] 3=fma.f32(0,2,1)\" "
    "pool_kernel=[3,3] pool_strides=[2,2] pool_pads=[1,1,1,1]\n"
    "fused_conv(f32[3,1,40,48]{-65530..65531}, f16[16,1,4,6]*) prologue=\"(1) 1=cast.f16(0)\" strides=[2,2] "
    "pads=[0,1,1,0] dilations=[1,1] epilogue=\"(1) 1=constant.f32[0.00001] 2=mul.f32(0,1)\" pool_kernel=[3,3] "
    "pool_strides=[2,2] pool_pads=[1,1,0,0]\n";

TEST(EmulatedFirst, WithAPoolGivesTheReferencesResults) {
  const testing::EmulatedGpu emulated;
  const auto asked = testing::shapes_asked_for();
  for (int sms : {1, 132})
    testing::check_lines("endless", kEndless, emulated.compiler(), emulated.gpu(), of_first_columns(sms));
  for (int sms : {1, 132})
    testing::check_lines("first", random_first(uint64_t(100 * sms), asked.value_or(8), 50), emulated.compiler(),
                         emulated.gpu(), of_first_columns(sms));
}

// On few SMs, where weights stay in shared memory, and on many.
TEST(EmulatedPipeline, APrologueGivesTheReferencesResults) {
  const testing::EmulatedGpu emulated;
  const auto asked = testing::shapes_asked_for();
  for (uint32_t blocks : {1, 3})
    testing::check_lines("prepared", random_prepared(1000 * blocks, asked.value_or(2), 700), emulated.compiler(),
                         emulated.gpu(), {SIZE_MAX, "conv.pipeline", blocks});
}

// So many tiles that part of b stays in shared memory; its columns have two tiles there, each with a block of its own.
TEST(EmulatedPipeline, KeepsWeightsFromTileToTile) {
  const testing::EmulatedGpu emulated;
  testing::check_lines(
      "many tiles",
      "conv(i8[1,32,47,43]{-128..128}, i8[80,32,1,1]*{-128..128}, f32[80,1,1]*{-500..500}, i8[1,80,47,43]{-128..128}) "
      "strides=[1,1] pads=[0,0,0,0] dilations=[1,1] epilogue=\"(3) 3=cast.f32(0) 4=add.f32(3,1) "
      "5=constant.f32[0.001] 6=mul.f32(4,5) 7=cast.f32(2) 8=constant.f32[0.73] 9=fma.f32(7,8,6) 10=relu.f32(9) "
      "11=round.f32(10) 12=cast.i8(11)\"\n"
      "conv(f16[2,16,35,33], f16[16,16,3,3]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] epilogue=\"(1) "
      "1=cast.f16(0)\"\n",
      emulated.compiler(), emulated.gpu(), {SIZE_MAX, "pipeline", 4});
}

// Two blocks of a cluster with the same columns, which is offered where there are more tiles than a test can have: an
// odd number of rows of tiles, residuals, rows of the result that begin anywhere, many and few slices.
TEST(EmulatedPipeline, BlocksWithTheSameColumnsLoadThemTogether) {
  const testing::EmulatedGpu emulated;
  const std::string lines =
      "matmul(f16[700,96], f16[96,272]*, f32[272]*) epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2) 4=cast.f16(3)\"\n"
      "matmul(bf16[390,448], bf16[448,264]*, bf16[390,264]) epilogue=\"(2) 2=cast.f32(1) 3=add.f32(0,2) "
      "4=cast.bf16(3)\"\n"
      "matmul(i8[300,160]{-128..128}, i8[160,272]*{-128..128}) epilogue=\"(1) 1=cast.f32(0)\"\n";
  const std::string ragged = "matmul(f16[600,64], f16[131,64]*) transpose_b=true epilogue=\"(1)\"\n";
  for (const std::string_view config : {"tile=128x128 shared", "tile=128x160 shared"})
    for (uint32_t blocks : {2, 4})
      testing::check_lines(std::string(config), config.find("x160") == std::string_view::npos ? lines + ragged : lines,
                           emulated.compiler(), emulated.gpu(),
                           {.recipes = "matmul.pipeline", .blocks = blocks, .config = config});
}

// 96 and 160 columns of a tile are one and a half and two and a half of the pieces that TMA swizzles: residuals, values
// for each image of two in one tile, bytes.
TEST(EmulatedPipeline, TilesOf96And160ColumnsGiveTheReferencesResults) {
  const testing::EmulatedGpu emulated;
  constexpr const char* kConvolutions =
      "conv(f16[3,16,9,7], f16[320,16,3,3]*, f32[320,1,1]*, f16[3,320,1,1], f16[3,320,9,7]) strides=[1,1] "
      "pads=[1,1,1,1] dilations=[1,1] epilogue=\"(4) 4=add.f32(0,1) 5=cast.f32(2) 6=add.f32(4,5) 7=cast.f32(3) "
      "8=add.f32(6,7) 9=cast.f16(8)\"\n"
      "conv(i8[2,128,5,9]{-128..128}, i8[176,128,1,1]*{-128..128}, f32[2,176,5,9]) strides=[1,1] pads=[0,0,0,0] "
      "dilations=[1,1] epilogue=\"(2) 2=cast.f32(0) 3=constant.f32[0.0009] 4=fma.f32(2,3,1)\"\n";
  constexpr const char* kPlainProducts =
      "matmul(f16[200,1000], f16[1000,160]*, f16[200,160]) epilogue=\"(2) 2=cast.f32(1) 3=add.f32(0,2) "
      "4=cast.f16(3)\"\n"
      "matmul(bf16[140,968], bf16[968,328]*) epilogue=\"(1)\"\n";
  for (const std::string_view config : {"tile=128x96", "tile=128x96 together", "tile=128x160", "tile=128x160 together"})
    testing::check_lines(std::string(config), concat(kConvolutions, kPlainProducts), emulated.compiler(),
                         emulated.gpu(), {.recipes = "pipeline", .blocks = 3, .config = config});
  // What blocks of a cluster sum, and all of them run at once.
  for (const std::string_view config : {"tile=128x160 splits=2", "tile=128x160 splits=4", "tile=64x160 splits=8"})
    testing::check_lines(std::string(config), kPlainProducts, emulated.compiler(), emulated.gpu(),
                         {.recipes = "pipeline", .config = config});
}

// Every tile whose columns are whole pairs of groups, rows that end within one, and weights in both orders.
TEST(EmulatedPipeline, AGatedProductGivesTheReferencesResultsWithEveryTile) {
  const testing::EmulatedGpu emulated;
  constexpr const char* kShapes =
      "gated_matmul(f16[150,136], f16[136,320]*, f32[320]*) epilogue=\"(2) 2=add.f32(0,1) 3=cast.f16(2)\" gate=\"(2) "
      "2=cast.f32(0) 3=cast.f32(1) 4=sigmoid.f32(3) 5=mul.f32(3,4) 6=mul.f32(2,5) 7=cast.f16(6)\"\n"
      "gated_matmul(bf16[2,65,64], bf16[448,64]*, f32[448]*, bf16[448]*) transpose_b=true epilogue=\"(3) "
      "3=mul.f32(0,1) 4=cast.f32(2) 5=add.f32(3,4)\" gate=\"(2) 2=relu.f32(0) 3=mul.f32(2,1) 4=cast.bf16(3)\"\n";
  for (const std::string_view config :
       {"tile=128x128", "tile=64x64", "tile=64x256", "tile=256x128 together", "tile=64x128 groups=3",
        "tile=128x64 groups=3", "tile=64x64 groups=1", "tile=64x128 groups=1"})
    testing::check_lines(std::string(config), kShapes, emulated.compiler(), emulated.gpu(),
                         {.recipes = "matmul.gated", .blocks = 3, .config = config});
  testing::check_lines("tile=128x128 shared", kShapes, emulated.compiler(), emulated.gpu(),
                       {.recipes = "matmul.gated", .blocks = 4, .config = "tile=128x128 shared"});
}

constexpr const char* kTuringLines =
    "matmul(f16[70,200], f16[200,136]*, f32[136]*, f16[70,136]) epilogue=\"(3) 3=add.f32(0,1) 4=cast.f32(2) "
    "5=add.f32(3,4) 6=relu.f32(5) 7=cast.f16(6)\"\n"
    "matmul(f16[2,33,72], f16[2,72,40]) epilogue=\"(1)\"\n"
    "matmul(bf16[33,72], bf16[72,40]*, f32[40]*) epilogue=\"(2) 2=add.f32(0,1) 3=cast.bf16(2)\"\n"
    "matmul(bf16[3,17,24], bf16[3,24,16]) epilogue=\"(1)\"\n"
    "matmul(i8[70,160]{-128..128}, i8[160,72]*{-128..128}) epilogue=\"(1) 1=cast.f32(0)\"\n"
    "matmul(u8[9,64], i8[64,24]*, f32[24]*) epilogue=\"(2) 2=cast.f32(0) 3=mul.f32(2,1) 4=round.f32(3) 5=cast.i8(4)\"\n"
    "matmul(f32[70,100], f32[100,36]*, f32[36]*) tf32=true epilogue=\"(2) 2=add.f32(0,1)\"\n"
    "conv(f16[2,32,9,9], f16[40,32,3,3]*, f32[40,1,1]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] "
    "epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2) 4=cast.f16(3)\"\n"
    "conv(i8[1,32,9,9]{-128..128}, i8[40,32,3,3]*{-128..128}) strides=[2,2] pads=[1,1,1,1] dilations=[1,1] "
    "epilogue=\"(1) 1=cast.f32(0)\"\n"
    "conv(bf16[1,16,9,9], bf16[24,16,3,3]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] epilogue=\"(1) "
    "1=cast.bf16(0)\"\n"
    "conv(f16[1,3,32,32], f16[16,3,7,7]*, f32[16,1,1]*) strides=[2,2] pads=[3,3,3,3] dilations=[1,1] "
    "epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2) 4=cast.f16(3)\"\n"
    "attention(f16[2,70,64], f16[2,70,64], f16[2,70,64], f32[2,1,1,70]) heads=2 kv_heads=2 scale=0.1767\n"
    "attention(bf16[1,40,64], bf16[1,40,64], bf16[1,40,64]) heads=2 kv_heads=2 scale=0.1767\n"
    "pointwise(bf16[2,16,5,5], f32[16,1,1]) program=\"(2) 2=cast.f32(0) 3=mul.f32(2,1) 4=cast.bf16(3)\"\n"
    "pointwise(f16[4,64]) program=\"(1) 1=relu.f16(0)\"\n"
    "pool(f16[2,16,9,9]) kernel=[3,3] strides=[2,2] dilations=[1,1] pads=[1,1,1,1]\n";
// Both kernels: images by their taps and matrices, with whole chunks of what is summed and (the second) without.
constexpr const char* kTf32Lines =
    "conv(f32[2,36,9,7], f32[20,36,3,3]*, f32[20,1,1]*, f32[2,20,5,4]) strides=[2,2] pads=[1,1,1,1] dilations=[1,1] "
    "tf32=true epilogue=\"(3) 3=add.f32(0,1) 4=add.f32(3,2) 5=relu.f32(4)\"\n"
    "matmul(f32[70,100], f32[100,36]*, f32[36]*) tf32=true epilogue=\"(2) 2=add.f32(0,1)\"\n";
constexpr const char* kUnevenTf32Lines =
    "matmul(f32[2,33,65], f32[2,65,17]) tf32=true epilogue=\"(1)\"\n"
    "conv(f32[1,6,9,9], f32[8,3,3,3]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] group=2 tf32=true "
    "epilogue=\"(1)\"\n";

void check_tf32(const std::string& lines, std::string_view recipes, const cuda::Compiler& compiler,
                const cuda::GpuRef& gpu, bool one_config) {
  testing::check_lines("tf32", lines, compiler, gpu, {.recipes = recipes, .one_config = one_config, .tf32 = true});
}

TEST(EmulatedPipeline, RoundsF32ToTheNearestTf32) {
  const testing::EmulatedGpu emulated;
  check_tf32(kTf32Lines, "pipeline", emulated.compiler(), emulated.gpu(), true);
}
TEST(EmulatedGemm, RoundsF32ToTheNearestTf32) {
  const testing::EmulatedGpu emulated;
  for (const char* recipe : {"conv.gemm", "matmul.mma"})
    check_tf32(concat(kTf32Lines, kUnevenTf32Lines), recipe, emulated.compiler(), emulated.gpu(), true);
}
// Warps multiply by themselves there, and one block sums what the blocks of a cluster would share.
TEST(EmulatedGemm, GivesTheReferencesResultsBeforeHopper) {
  const testing::EmulatedGpu emulated(80);
  testing::check_lines("before Hopper",
                       "matmul(f16[70,196]*, f16[2,196,136], f16[70,1]) epilogue=\"(2) 2=cast.f32(1) "
                       "3=add.f32(0,2) 4=cast.f16(3)\"",
                       emulated.compiler(), emulated.gpu(), {.recipes = "matmul.mma"});
}

// Its matrix units take half the depth, copies to shared memory go through registers, and bf16 is multiplied as f32.
TEST(EmulatedGemm, GivesTheReferencesResultsOnTuring) {
  const testing::EmulatedGpu emulated(75);
  testing::CaseChoice choice{.one_config = true};
  for (const char* recipes : {"matmul.mma", "conv.gemm", "conv.first", "attention.mma", "pointwise", "pool"}) {
    choice.recipes = recipes;
    testing::check_lines("Turing", kTuringLines, emulated.compiler(), emulated.gpu(), choice);
  }
}
TEST(CudaPipeline, RoundsF32ToTheNearestTf32) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  if (gpu->info().architecture() != "sm_90a") GTEST_SKIP() << "no Hopper";
  check_tf32(kTf32Lines, "pipeline", *compiler, gpu, false);
}
TEST(CudaGemm, RoundsF32ToTheNearestTf32) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  for (const char* recipe : {"conv.gemm", "matmul.mma"})
    check_tf32(concat(kTf32Lines, kUnevenTf32Lines), recipe, *compiler, gpu, false);
}

TEST(CudaRecipes, ConvGemmIsNotOfferedWhereThePipelineTakesAConvolution) {
  const cuda::Recipe& conv_gemm = testing::recipe_named("cuda.conv.gemm");
  auto refusal = [&](int outputs, int channels, const char* architecture) {
    const KernelCase line = parse_cases(concat("conv(f16[1,", channels, ",9,9], f16[", outputs, ',', channels,
                                               ",1,1]*) strides=[1,1] pads=[0,0,0,0] dilations=[1,1] epilogue=\"(1)\""))
                                .at(0);
    const std::vector<Tensor> inputs = make_case_inputs(line, 1);
    const Problem problem = make_case_problem(line, inputs, 1);
    EXPECT_TRUE(recipe_supports(conv_gemm, problem, architecture).yes()) << "it could";
    return recipe_offered(conv_gemm, problem, architecture).reason;
  };
  EXPECT_EQ(refusal(64, 32, "sm_90a"), "cuda.conv.pipeline takes it, and is faster on sm_90a");
  EXPECT_EQ(refusal(64, 32, "sm_86"), "");
  EXPECT_EQ(refusal(32, 32, "sm_90a"), "") << "half of most tiles would be empty";
  EXPECT_EQ(refusal(64, 20, "sm_90a"), "") << "the pipeline does not take 40 bytes of channels";
}

TEST(CudaRecipes, WhatWinsNowhereIsNotOfferedAndStillComputes) {
  const auto offered = [](const char* recipe_name, const std::string& text, const cuda::GpuProperties& gpu) {
    const KernelCase line = parse_cases(text).at(0);
    const std::vector<Tensor> inputs = make_case_inputs(line, 1);
    const Problem problem = make_case_problem(line, inputs, 1);
    const cuda::Recipe& recipe = testing::recipe_named(recipe_name);
    std::vector<std::string> texts;
    for (const Config& config : offered_configs(recipe, problem, gpu))
      if (config.outputs[0] == Layout::channels_last) texts.push_back(config.text);
    const std::vector<Config> all = recipe.configs(problem, gpu);
    EXPECT_FALSE(recipe.work(problem, all.back(), gpu).jobs.empty());
    return texts;
  };
  const cuda::GpuProperties &hopper = testing::kH100, &ampere = testing::kA100;
  const auto product = [](int channels) {
    return concat("conv(f16[1,", channels, ",40,40], f16[24,", channels,
                  ",3,3]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] epilogue=\"(1)\"");
  };
  EXPECT_EQ(offered("cuda.conv.gemm", product(64), hopper).size(), 2U);
  EXPECT_EQ(offered("cuda.conv.gemm", product(64), ampere).size(), 6U);
  const auto each_channel = [](int channels, int size) {
    return concat("conv(f16[1,", channels, ',', size, ',', size, "], f16[", channels,
                  ",1,3,3]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] group=", channels,
                  " epilogue=\"(1) 1=cast.f16(0)\"");
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(offered("cuda.conv.depthwise", each_channel(60, 14), hopper), Texts{"pixels=1"});
  EXPECT_EQ(offered("cuda.conv.depthwise", each_channel(60, 40), hopper), (Texts{"pixels=1", "pixels=2"}));
  EXPECT_EQ(offered("cuda.conv.depthwise", each_channel(64, 64), hopper), (Texts{"pixels=1", "pixels=2"}));
  EXPECT_EQ(offered("cuda.conv.depthwise_matrix", each_channel(64, 64), hopper),
            (Texts{"flow=1x1x8", "flow=2x1x4", "flow=1x1x4", "flow=2x2x4"}));
  EXPECT_EQ(offered("cuda.conv.depthwise_matrix", each_channel(72, 56), hopper),
            (Texts{"groups=1", "groups=2", "flow=1x1x9", "flow=1x2x9"}));
  EXPECT_EQ(offered("cuda.conv.depthwise_matrix", each_channel(16, 64), hopper), (Texts{"groups=1", "groups=2"}));
  EXPECT_EQ(offered("cuda.conv.depthwise_matrix", each_channel(64, 64), ampere), (Texts{"groups=1", "groups=2"}));
}

TEST(CudaRecipes, SumsAreOnlyPlainWhereTheyAreShortAndBecomeSixteenBits) {
  const auto text = [](const std::string& line) {
    const KernelCase parsed = parse_cases(line).at(0);
    const cuda::Recipe& reduce = testing::recipe_named("cuda.reduce");
    KernelCase without = parsed;
    for (CaseInput& input : without.inputs) input.present &= input.constant;
    const Problem problem = make_case_problem(parsed, make_case_inputs(without, 1), 1);
    return reduce.work(problem, reduce.configs(problem, testing::kH100).at(0), testing::kH100).jobs.at(0).source.text;
  };
  const auto exact = [&](const std::string& line) { return text(line).find("EXACT = true") != std::string::npos; };
  EXPECT_FALSE(exact("reduce(f16[2,3136,64]) kind=mean axes=[1]"));
  EXPECT_TRUE(exact("reduce(f16[1,4000000,64]) kind=mean axes=[1]"));
  EXPECT_TRUE(exact("reduce(f32[2,3136,64]) kind=mean axes=[1]"));
}

TEST(EmulatedChain, StoresTilesOfSeveralPiecesFromWhereTheResidualWas) {
  const testing::EmulatedGpu emulated;
  testing::check_lines(
      "pieces",
      "conv_chain(i8[1,32,30,30]{-128..128}, i8[32,32,1,1]*{-128..128}, i8[256,32,1,1]*{-128..128}, "
      "i8[1,256,30,30]{-128..128}) strides=[1,1] pads=[0,0,0,0] dilations=[1,1] epilogue=\"(1) 1=cast.f32(0) "
      "2=constant.f32[0.002] 3=mul.f32(1,2) 4=round.f32(3) 5=cast.i8(4)\" first_inputs=2 then=\"(2) 2=cast.f32(0) "
      "3=constant.f32[0.0009] 4=cast.f32(1) 5=fma.f32(2,3,4) 6=round.f32(5) 7=cast.i8(6)\"",
      emulated.compiler(), emulated.gpu(), {SIZE_MAX, "chain", 1});
}

// Tokens that are quantized by scales of their own: as many as there are rows of all matrices.
TEST(EmulatedPipeline, ProductsWithConstantWeightsReadAScaleOfEachRow) {
  const testing::EmulatedGpu emulated;
  const std::string text =
      "matmul(i8[2,45,64]{-128..128}, i8[64,48]*{-128..128}, f32[48]*, f32[2,45,1], f32[48]*) epilogue=\"(4) "
      "4=cast.f32(0) 5=mul.f32(4,1) 6=mul.f32(5,2) 7=add.f32(6,3) 8=relu.f32(7)\"\n"
      "matmul(i8[70,64]{-128..128}, i8[64,77]*{-128..128}, f32[77]*, f32[70,1]) epilogue=\"(3) 3=cast.f32(0) "
      "4=mul.f32(3,1) 5=mul.f32(4,2)\"\n"
      "matmul(i8[2,40,64]{-128..128}, i8[64,48]*{-128..128}, f32[48]*, f32[2,40,1], f32[2,40,48]) epilogue=\"(4) "
      "4=cast.f32(0) 5=mul.f32(4,1) 6=mul.f32(5,2) 7=add.f32(6,3)\"\n";
  const cuda::Recipe& pipeline = testing::recipe_named("cuda.matmul.pipeline");
  for (const KernelCase& line : parse_cases(text)) {
    const std::vector<Tensor> inputs = make_case_inputs(line, 1);
    EXPECT_EQ(recipe_supports(pipeline, make_case_problem(line, inputs, 1), "sm_90a").reason, "");
  }
  testing::check_lines("rows", text, emulated.compiler(), emulated.gpu(),
                       {.recipes = "cuda.matmul", .one_config = true});
  // Where blocks share a tile, each finishes a part of it.
  testing::check_lines("rows of shared tiles",
                       "matmul(i8[9,1024]{-128..128}, i8[1024,77]*{-128..128}, f32[77]*, f32[9,1]) epilogue=\"(3) "
                       "3=cast.f32(0) 4=mul.f32(3,1) 5=mul.f32(4,2)\"\n"
                       "matmul(f16[2,5,512], f16[512,48]*, f16[2,5,1], f16[2,5,48]) epilogue=\"(3) 3=cast.f32(1) "
                       "4=mul.f32(0,3) 5=cast.f32(2) 6=add.f32(4,5)\"\n",
                       emulated.compiler(), emulated.gpu(), {.recipes = "cuda.matmul.pipeline", .with = "splits"});
}

TEST(CudaRecipes, PersistentKernelsHaveAsManyBlocksAsTheGpuHasRoomFor) {
  const KernelCase line = parse_cases("matmul(f16[20000,64], f16[64,128]*) epilogue=\"(1)\"").at(0);
  const std::vector<Tensor> inputs = make_case_inputs(line, 1);
  const Problem problem = make_case_problem(line, inputs, 1);
  const cuda::Recipe& pipeline = testing::recipe_named("cuda.matmul.pipeline");
  for (const int sms : {78, 114, 132}) {
    const cuda::GpuProperties gpu = testing::with_sms(sms);
    for (Config config : pipeline.configs(problem, gpu)) {
      SCOPED_TRACE(concat(sms, " SMs, ", config.text));
      const int64_t blocks = sms * (config.text.ends_with("groups=1") ? 2 : 1);
      EXPECT_LE(int64_t(pipeline.work(problem, config, gpu).jobs.at(0).shape.grid[0]), blocks);
      config.text = "tile=128x128";
      EXPECT_EQ(int64_t(pipeline.work(problem, config, gpu).jobs.at(0).shape.grid[0]), sms);
    }
  }
}

TEST(CudaRecipes, AFirstConvolutionIsOfferedToOneOfItsTwoKernels) {
  const auto offered = [](int outputs, const char* architecture) {
    const KernelCase line = parse_cases(concat("conv(f16[1,3,20,20], f16[", outputs,
                                               ",3,3,3]*) strides=[1,1] pads=[1,1,1,1] "
                                               "dilations=[1,1] epilogue=\"(1)\""))
                                .at(0);
    const std::vector<Tensor> inputs = make_case_inputs(line, 1);
    const Problem problem = make_case_problem(line, inputs, 1);
    std::vector<std::string_view> names;
    for (const cuda::Recipe* recipe : cuda::recipes())
      if (recipe->name.starts_with("cuda.conv.first") && recipe_offered(*recipe, problem, architecture).yes())
        names.push_back(recipe->name);
    return names;
  };
  using Names = std::vector<std::string_view>;
  EXPECT_EQ(offered(64, "sm_90a"), Names{"cuda.conv.first_wgmma"});
  EXPECT_EQ(offered(16, "sm_90a"), Names{"cuda.conv.first"}) << "wgmma has 32 columns at least";
  EXPECT_EQ(offered(64, "sm_86"), Names{"cuda.conv.first"});
}

TEST(CudaRecipes, AProgramIsTakenBeforeAConvolutionOfOneTapThatReadsItOnce) {
  const auto reason = [](const char* of, const char* channels, int outputs, const char* taps = "1,1",
                         const char* pads = "0,0,0,0", int high = 20) {
    const KernelCase line =
        parse_cases(concat("fused_conv(", of, "[2,64,", high, ",20], ", of, '[', outputs, ",64,", taps, "]*, ", of,
                           channels, ") prologue=\"(2) 2=mul.", of, "(0,1)\" strides=[1,1] pads=[", pads,
                           "] dilations=[1,1] tf32=true epilogue=\"(1)\""))
            .at(0);
    const std::vector<Tensor> inputs = make_case_inputs(line, 1);
    return testing::recipe_named("cuda.conv.pipeline").supports(make_case_problem(line, inputs, 1)).reason;
  };
  EXPECT_EQ(reason("f16", "[2,64,1,1]", 24), "");
  EXPECT_EQ(reason("bf16", "[64,1,1]", 24), "");
  EXPECT_EQ(reason("f16", "[]", 256), "");
  EXPECT_EQ(reason("f16", "[]", 264), "a prologue before 264 columns");
  EXPECT_EQ(reason("f16", "[2,64,1,1]", 24, "3,3", "1,1,1,1"),
            "a prologue before a convolution of several taps, strides or padding");
  EXPECT_EQ(reason("f16", "[2,64,1,1]", 24, "1,1", "0,0,0,0", 6),
            "a prologue that differs from image to image of 120 positions");
  EXPECT_EQ(reason("f16", "[64,1,1]", 24, "1,1", "0,0,0,0", 6), "");
  EXPECT_EQ(reason("f16", "[20,20]", 24), "a prologue along other axes than images and channels");
  EXPECT_EQ(reason("f16", "[2,1,1,1]", 24), "a prologue with one number for each image");
  EXPECT_EQ(reason("f32", "[64,1,1]", 24), "a prologue before operands that are rounded to TF32");
}
TEST(CudaRecipes, RoundF32ToTf32OnlyWhereTheyMay) {
  for (const bool tf32 : {false, true})
    for (const char* text : {"matmul(f32[70,100], f32[100,36]*) ",
                             "conv(f32[2,36,9,7], f32[20,36,3,3]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] "}) {
      const KernelCase line = parse_cases(concat(text, tf32 ? "tf32=true " : "", "epilogue=\"(1)\"")).at(0);
      SCOPED_TRACE(line.text);
      const std::vector<Tensor> inputs = make_case_inputs(line, 1);
      const Problem problem = make_case_problem(line, inputs, 1);
      int seen = 0;
      for (const cuda::Recipe* recipe : cuda::recipes()) {
        const bool pipeline = recipe->name.ends_with(".pipeline");
        if (!pipeline && recipe->name != "cuda.conv.gemm" && recipe->name != "cuda.matmul.mma") continue;
        const Support support = recipe->supports(problem);
        if (support.reason.starts_with("not a ")) continue;
        ++seen;
        if (pipeline && !tf32) {
          EXPECT_EQ(support.reason, "a product of f32 and f32, which may not be rounded to TF32");
          continue;
        }
        EXPECT_EQ(support.reason, "");
        for (const Config& config : recipe->configs(problem, testing::kH100)) {
          const std::string source = recipe->work(problem, config, testing::kH100).jobs.at(0).source.text;
          EXPECT_NE(source.find(tf32 ? "#define MATRIX 5\n" : "#define MATRIX 0\n"), std::string::npos) << source;
        }
      }
      EXPECT_EQ(seen, 2);
    }
}

TEST(CudaPipeline, GivesTheReferencesResultsForRandomShapes) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  if (gpu->info().architecture() != "sm_90a") GTEST_SKIP() << "no Hopper";
  const auto asked = testing::shapes_asked_for();
  testing::check_lines("random", asked ? random_lines(testing::first_seed(), *asked, 200) : random_lines(1, 60, 600),
                       *compiler, gpu, {SIZE_MAX, "pipeline", UINT32_MAX, asked.has_value()});
}
TEST(CudaPipeline, APrologueGivesTheReferencesResults) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  if (gpu->info().architecture() != "sm_90a") GTEST_SKIP() << "no Hopper";
  const int count = testing::shapes_asked_for().value_or(15);
  testing::check_lines("prepared", random_prepared(1, count, 6000), *compiler, gpu, {SIZE_MAX, "conv.pipeline"});
  testing::check_lines("of few blocks", random_prepared(1000, count, 3000), *compiler, gpu,
                       {SIZE_MAX, "conv.pipeline", 5});
}
TEST(CudaPipeline, TapsThatReadAPatchGiveTheReferencesResults) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  if (gpu->info().architecture() != "sm_90a") GTEST_SKIP() << "no Hopper";
  const int count = testing::shapes_asked_for().value_or(30);
  testing::check_lines("patches", kPatchLines, *compiler, gpu, of_patches("conv.pipeline", 2));
  testing::check_lines("chains", kPatchChains, *compiler, gpu, of_patches("conv.chain", 2));
  testing::check_lines("random", random_lines(1, count, 400, true), *compiler, gpu, of_patches("conv.pipeline", 5));
  testing::check_lines("random", random_chains(1, count, 400, true), *compiler, gpu, of_patches("conv.chain", 5));
}
TEST(CudaFirst, WithAPoolGivesTheReferencesResults) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  if (gpu->info().architecture() != "sm_90a") GTEST_SKIP() << "no Hopper";
  testing::check_lines("endless", kEndless, *compiler, gpu, of_first_columns(132));
  for (int sms : {1, 4, 132})
    testing::check_lines("first", random_first(uint64_t(1000 * sms), testing::shapes_asked_for().value_or(20), 300),
                         *compiler, gpu, of_first_columns(sms));
}
TEST(CudaChain, GivesTheReferencesResultsForRandomShapes) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  if (gpu->info().architecture() != "sm_90a") GTEST_SKIP() << "no Hopper";
  const auto asked = testing::shapes_asked_for();
  testing::check_lines("random", random_chains(1, asked.value_or(60), 400), *compiler, gpu,
                       {SIZE_MAX, "chain", UINT32_MAX, asked.has_value()});
}

TEST(CudaShortcut, GivesTheReferencesResultsForRandomShapes) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  if (gpu->info().architecture() != "sm_90a") GTEST_SKIP() << "no Hopper";
  const auto asked = testing::shapes_asked_for();
  testing::check_lines("random", random_shortcuts(1, asked.value_or(60), 400), *compiler, gpu,
                       {SIZE_MAX, "shortcut", UINT32_MAX, asked.has_value()});
  for (const bool patch : {false, true})
    testing::check_lines("chains", random_chains(1, asked.value_or(30), 400, patch, true), *compiler, gpu,
                         {SIZE_MAX, "chain", UINT32_MAX, asked.has_value()});
}

}  // namespace
}  // namespace temper
