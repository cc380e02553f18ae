// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/box_copy.h"

#include <cstring>

#include "base/checked.h"

namespace temper {

namespace {

int64_t spatial_elements(const Dims& dims) {
  int64_t out = 1;
  for (size_t i = 2; i < dims.size(); ++i) out *= dims[i];
  return out;
}

int64_t stored_channels(const Dims& dims, Layout layout) { return round_up(dims[1], block_of(layout)); }

// Strides along [N, C/16, 2, 8, spatial...]: every layout is a strided array over these axes.
Dims split_strides(const Dims& dims, Layout layout) {
  const int64_t s = spatial_elements(dims), block = block_of(layout), c = stored_channels(dims, layout);
  Dims out;
  switch (layout) {
    case Layout::plain: out = {c * s, 16 * s, 8 * s, s}; break;
    case Layout::channels_last: out = {c * s, 16, 8, 1}; break;
    case Layout::blocked8: out = {c * s, 16 * s, 8 * s, 1}; break;
    case Layout::blocked16: out = {c * s, 16 * s, 8, 1}; break;
  }
  int64_t inner = s * (layout == Layout::plain ? 1 : layout == Layout::channels_last ? c : block);
  for (size_t i = 2; i < dims.size(); ++i) {
    inner = dims[i] ? inner / dims[i] : 0;
    out.push_back(inner);
  }
  return out;
}

int64_t channel_offset(const Dims& dims, Layout layout, int64_t channel) {
  const int64_t s = spatial_elements(dims), block = block_of(layout);
  if (layout == Layout::channels_last) return channel;
  return channel / block * s * block + channel % block;
}

int64_t at(const Dims& values, size_t i, int64_t otherwise) { return values.empty() ? otherwise : values[i]; }

// Offset in elements of the box's first element, leaving channels aside where they are split.
int64_t start_offset(const BoxSide& side, const Dims& strides, bool split) {
  int64_t offset = 0;
  for (size_t i = 0; i < side.dims.size(); ++i) {
    if (split && i == 1) continue;
    offset += at(side.start, i, 0) * strides[split && i > 1 ? i + 2 : i];
  }
  return offset;
}

}  // namespace

bool can_copy_box(const Dims& sizes, const BoxSide& side) {
  if (side.repeat) return true;
  if (!layout_fits(side.dims, side.layout)) return false;
  if (side.layout == Layout::plain) return true;
  if (at(side.step, 1, 1) != 1) return false;
  if (block_of(side.layout) == 1) return true;
  return at(side.start, 1, 0) % 16 == 0 || sizes[1] == 0;
}

BoxCopy::BoxCopy(const Dims& sizes, const BoxSide& from_side, const BoxSide& to, int64_t size) {
  if (element_count(sizes) == 0) return;
  // A repeated element is an array whose strides are all 0.
  BoxSide from = from_side;
  if (from.repeat) from = {to.dims, to.layout, Dims(sizes.size(), 0), Dims(sizes.size(), 0), true};
  auto stepped = [&](const BoxSide& side, Dims strides, size_t extra) {
    if (side.repeat) return Dims(strides.size(), 0);
    for (size_t i = 0; i < side.dims.size(); ++i)
      if (i != 1 || extra == 0) strides[i > 1 ? i + extra : i] *= at(side.step, i, 1);
    return strides;
  };
  if (from.layout == Layout::plain && to.layout == Layout::plain) {
    const Dims f = row_major_strides(from.dims), t = row_major_strides(to.dims);
    pieces_.push_back({StridedCopy(sizes, stepped(from, f, 0), stepped(to, t, 0), size),
                       start_offset(from, f, false) * size, start_offset(to, t, false) * size});
    return;
  }
  if (!can_copy_box(sizes, from) || !can_copy_box(sizes, to))
    fail(ErrorKind::unsupported, "a box of channels that does not fit the blocks of its layout");
  const Dims f = split_strides(from.dims, from.layout), t = split_strides(to.dims, to.layout);
  const Dims fs = stepped(from, f, 2), ts = stepped(to, t, 2);
  const int64_t f0 = start_offset(from, f, true), t0 = start_offset(to, t, true);
  const int64_t channels = sizes[1];
  int64_t done = 0;
  auto piece = [&](int64_t sixteens, int64_t eights, int64_t ones) {
    const int64_t count = sixteens * eights * ones;
    if (count == 0) return;
    Dims box{sizes[0], sixteens, eights, ones};
    box.insert(box.end(), sizes.begin() + 2, sizes.end());
    pieces_.push_back(
        {StridedCopy(box, fs, ts, size),
         from.repeat ? 0 : (f0 + channel_offset(from.dims, from.layout, at(from.start, 1, 0) + done)) * size,
         (t0 + channel_offset(to.dims, to.layout, at(to.start, 1, 0) + done)) * size});
    done += count;
  };
  const bool blocked = block_of(from.layout) > 1 || block_of(to.layout) > 1;
  if (!blocked) {  // plain and channels_last have one stride for all channels
    Dims box{sizes[0], channels}, from_strides{fs[0], fs[3]}, to_strides{ts[0], ts[3]};
    box.insert(box.end(), sizes.begin() + 2, sizes.end());
    from_strides.insert(from_strides.end(), fs.begin() + 4, fs.end());
    to_strides.insert(to_strides.end(), ts.begin() + 4, ts.end());
    pieces_.push_back({StridedCopy(box, from_strides, to_strides, size),
                       from.repeat ? 0 : (f0 + channel_offset(from.dims, from.layout, at(from.start, 1, 0))) * size,
                       (t0 + channel_offset(to.dims, to.layout, at(to.start, 1, 0))) * size});
    return;
  }
  piece(channels / 16, 2, 8);
  piece(1, (channels % 16) / 8, 8);
  piece(1, 1, channels % 8);
}

void BoxCopy::run(const void* from, void* to, int threads) const {
  for (const Piece& piece : pieces_)
    piece.copy.run(static_cast<const std::byte*>(from) + piece.from, static_cast<std::byte*>(to) + piece.to, threads);
}

ZeroPadding::ZeroPadding(const Dims& dims, Layout layout, int64_t size) {
  if (block_of(layout) == 1 || dims[1] % block_of(layout) == 0 || element_count(dims) == 0) return;
  const int64_t block = block_of(layout);
  images_ = dims[0];
  positions_ = spatial_elements(dims);
  image_ = stored_channels(dims, layout) * positions_ * size;
  block_ = block * size;
  first_ = channel_offset(dims, layout, dims[1]) * size;
  bytes_ = (stored_channels(dims, layout) - dims[1]) * size;
}

void ZeroPadding::run(void* to) const {
  for (int64_t image = 0; image < images_; ++image) {
    std::byte* at = static_cast<std::byte*>(to) + image * image_ + first_;
    for (int64_t i = 0; i < positions_; ++i) std::memset(at + i * block_, 0, size_t(bytes_));
  }
}

}  // namespace temper
