// SPDX-License-Identifier: Apache-2.0
// Convolutions as products: a row of the left matrix for each pixel of the output, whose columns are the taps and
// channels that meet it. A product of matrices is a convolution of one row of pixels.
#pragma once
#include <algorithm>
#include <cstdint>

#include "backends/cpu/onednn.h"
#include "graph/ops/conv.h"
#include "graph/ops/matmul.h"

namespace temper {

struct PictureAxis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, begin = 0;
};
struct Picture {
  int64_t images = 1, channels = 0, columns = 0;  // columns: of the result
  int64_t groups = 1, shared = 1;                 // how many groups, each of `shared` groups of the model
  PictureAxis height, width;
  int64_t taps() const { return height.kernel * width.kernel; }
  int64_t pixels() const { return images * height.out * width.out; }
  int64_t group_channels() const { return channels / groups; }
  int64_t group_columns() const { return columns / groups; }
  int64_t depth() const { return taps() * group_channels(); }
};
// The picture of a conv or a matmul with one matrix of weights. Groups with less than `panel` columns are taken
// together as far as these fill it: weights are then zero where a column meets another group's channels.
Picture picture_of(const Problem& problem, int64_t panel);

// Calls to(k, column, element) for every weight: k counts the depth of the column's group, `element` the tensor of
// weights.
template <class To>
void each_weight(const Problem& problem, const Picture& picture, To&& to) {
  const bool product = problem.op.is<ops::MatMul>(), turned = product && problem.op.get<ops::MatMul>().transpose_b;
  const int64_t depth = picture.depth(), columns = picture.group_columns(), channels = picture.group_channels();
  // Channels and columns of a group of the model.
  const int64_t own_channels = channels / picture.shared, own_columns = columns / picture.shared;
  for (int64_t column = 0; column < picture.columns; ++column)
    for (int64_t k = 0; k < depth; ++k) {
      // In a convolution k counts [tap][channel], and its weights lie [column][channel of its group][tap].
      const int64_t channel = k % channels, tap = k / channels, within = column % columns;
      if (channel / own_channels != within / own_columns) continue;
      to(k, column,
         !product ? (column * own_channels + channel % own_channels) * picture.taps() + tap
         : turned ? column * depth + k
                  : k * picture.columns + column);
    }
}

// Row `row` of a group's left matrix, from a picture whose channels lie side by side. copy(from, count, to) brings
// elements of x to `to`; `zero` stands for what lies outside.
template <class From, class To, class Copy>
inline void gather_row(const Picture& picture, const From* x, int64_t row, int64_t group, To* to, To zero,
                       Copy&& copy) {
  const int64_t all = picture.channels, channels = picture.group_channels();
  const PictureAxis &height = picture.height, &width = picture.width;
  const int64_t column = row % width.out, line = row / width.out % height.out, image = row / width.out / height.out;
  const From* const from_image = x + image * height.in * width.in * all + group * channels;
  const int64_t left = column * width.stride - width.begin;
  // The taps within the picture; a run of them lies together where all channels are wanted.
  const int64_t from = std::min(ceil_div<int64_t>(std::max<int64_t>(-left, 0), width.dilation), width.kernel),
                until = std::clamp(ceil_div<int64_t>(std::max<int64_t>(width.in - left, 0), width.dilation), from,
                                   width.kernel);
  const bool together = width.dilation == 1 && channels == all;
  for (int64_t i = 0; i < height.kernel; ++i, to += width.kernel * channels) {
    const int64_t top = line * height.stride - height.begin + i * height.dilation;
    if (top < 0 || top >= height.in) {
      std::fill_n(to, width.kernel * channels, zero);
      continue;
    }
    const From* const pixels = from_image + top * width.in * all;
    std::fill_n(to, from * channels, zero);
    if (together) copy(pixels + (left + from) * all, (until - from) * channels, to + from * channels);
    else
      for (int64_t j = from; j < until; ++j)
        copy(pixels + (left + j * width.dilation) * all, channels, to + j * channels);
    std::fill_n(to + until * channels, (width.kernel - until) * channels, zero);
  }
}

}  // namespace temper
