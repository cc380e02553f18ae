// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/index_offsets.h"

#include <algorithm>

#include "backends/cpu/isa.h"
#include "graph/ops/gather.h"

namespace temper {

namespace {
// ops::resolve_index, in line where the index exists.
int64_t resolved(int64_t index, int64_t size) {
  const int64_t at = index < 0 ? index + size : index;
  return at >= 0 && at < size ? at : ops::resolve_index(index, size);
}
}  // namespace

IndexOffsets::IndexOffsets(Dims dims, Dims index_dims, DType index_dtype, int64_t axis, int64_t batch_dims)
    : dims_(std::move(dims)),
      index_dims_(std::move(index_dims)),
      strides_(row_major_strides(dims_)),
      at_(index_dims_.size(), 0),
      wide_(index_dtype == DType::i64),
      axis_(axis),
      batch_dims_(batch_dims) {
  offsets_.resize(size_t(element_count(index_dims_) / (axis_ < 0 ? std::max<int64_t>(1, index_dims_.back()) : 1)));
}

std::span<const int64_t> IndexOffsets::resolve(const void* indices) {
  if (wide_) resolve_as(static_cast<const int64_t*>(indices));
  else resolve_as(static_cast<const int32_t*>(indices));
  return offsets_;
}

template <class Index>
void IndexOffsets::resolve_as(const Index* indices) {
  const int64_t n = count();
  if (axis_ >= 0) {
    const int64_t least = -dims_[size_t(axis_)], most = dims_[size_t(axis_)] - 1;
    bool wrong = false;
    bool* const found = &wrong;
    vectorised([=] {
      int64_t beyond = 0;
      for (int64_t k = 0; k < n; ++k) beyond |= int64_t(indices[k] < least) | int64_t(indices[k] > most);
      *found = beyond != 0;
    });
    for (int64_t k = 0; k < n && wrong; ++k) ops::resolve_index(indices[k], dims_[size_t(axis_)]);  // says which
    std::fill(at_.begin(), at_.end(), 0);
    const size_t axis = size_t(axis_), last = at_.size() - 1;
    const int64_t row = index_dims_[last], size = dims_[axis], by_index = strides_[axis],
                  step = axis == last ? 0 : strides_[last];
    int64_t base = 0;
    for (int64_t begin = 0; begin < n; begin += row) {
      const Index* const from = indices + begin;
      int64_t* const to = offsets_.data() + begin;
      vectorised([=] {
        for (int64_t k = 0; k < row; ++k) {
          const int64_t index = from[k];
          to[k] = base + k * step + (index < 0 ? index + size : index) * by_index;
        }
      });
      for (size_t k = last; k-- > 0;) {
        const int64_t outer = k == axis ? 0 : strides_[k];
        base += outer;
        if (++at_[k] < index_dims_[k]) break;
        base -= outer * index_dims_[k];
        at_[k] = 0;
      }
    }
    return;
  }
  const int64_t length = index_dims_.back();
  int64_t batches = 1;
  for (int64_t k = 0; k < batch_dims_; ++k) batches *= index_dims_[size_t(k)];
  const int64_t batch_stride = batch_dims_ ? strides_[size_t(batch_dims_ - 1)] : 0;
  for (int64_t i = 0; i < n; ++i) {
    int64_t offset = batch_dims_ ? i / (n / batches) * batch_stride : 0;
    for (int64_t k = 0; k < length; ++k)
      offset += resolved(indices[i * length + k], dims_[size_t(batch_dims_ + k)]) * strides_[size_t(batch_dims_ + k)];
    offsets_[size_t(i)] = offset;
  }
}

}  // namespace temper
