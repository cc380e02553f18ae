// SPDX-License-Identifier: Apache-2.0
// Physical layouts of a logical tensor. The batch is always the outermost axis, so a slice of the batch is contiguous.
#pragma once
#include <array>
#include <string_view>

#include "graph/tensor.h"

namespace temper {

enum class Layout : uint8_t {
  plain,          // row-major, any rank
  channels_last,  // [N,C,spatial...] stored as [N,spatial...,C]
  blocked8,       // [N,C/8,spatial...,8], channels padded with zeros to a multiple of 8
  blocked16,      // the same with 16
};
constexpr int kLayoutCount = 4;
constexpr std::array<std::string_view, kLayoutCount> enum_names(Layout) {
  return {"plain", "channels_last", "blocked8", "blocked16"};
}
inline std::string_view name_of(Layout layout) { return enum_names(layout)[size_t(layout)]; }
inline void append(std::string& out, Layout layout) { out += name_of(layout); }

constexpr int64_t block_of(Layout layout) {
  return layout == Layout::blocked16 ? 16 : layout == Layout::blocked8 ? 8 : 1;
}
// Layouts other than plain need [N,C,spatial...] with 1 to 3 spatial axes.
inline bool layout_fits(const Dims& dims, Layout layout) {
  return layout == Layout::plain || (dims.size() >= 3 && dims.size() <= 5);
}
int64_t layout_elements(const Dims& dims, Layout layout);  // padding included
inline int64_t layout_bytes(DType dtype, const Dims& dims, Layout layout) {
  return layout_elements(dims, layout) * size_of(dtype);
}
// A tensor can be a strided view of a larger one: its rows, along the last axis in the plain layout and along channels
// in channels_last, are then `pitch` elements apart, the leading dimension. 0: the tensor is contiguous.
bool pitch_fits(const Dims& dims, Layout layout, int64_t pitch);
// Bytes from the first element of such a view to its last.
int64_t layout_bytes(DType dtype, const Dims& dims, Layout layout, int64_t pitch);
// Views begin at multiples of so many bytes, and their rows are multiples of it apart. GPUs read and write memory in
// such pieces: two views share none, and vectors are as wide as they are elsewhere.
constexpr int64_t kPartAlignment = 32;
// Whether the bytes are the same in both layouts, so that no reorder is needed.
bool same_memory(const Dims& dims, Layout a, Layout b);

}  // namespace temper
