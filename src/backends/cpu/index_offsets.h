// SPDX-License-Identifier: Apache-2.0
// Turns indices into offsets, for gather and scatter. Indices are resolved and checked on the calling thread, since an
// index that does not exist is an error of the run.
#pragma once
#include <span>

#include "base/dtype.h"
#include "graph/tensor.h"

namespace temper {

class IndexOffsets {
 public:
  // For a tensor of `dims` in row-major order and indices (i32 or i64) of `index_dims`. `axis`: of single elements,
  // whose other axes may be longer than those of the indices; -1: the last axis of the indices is a position in the
  // axes from `batch_dims` on, and the first `batch_dims` axes are shared.
  IndexOffsets(Dims dims, Dims index_dims, DType index_dtype, int64_t axis, int64_t batch_dims);
  // One offset in elements for each index or position; the span is the same in each call. Throws Error{usage} for an
  // index that does not exist. Allocates nothing.
  std::span<const int64_t> resolve(const void* indices);
  int64_t count() const { return int64_t(offsets_.size()); }

 private:
  template <class Index>
  void resolve_as(const Index* indices);

  Dims dims_, index_dims_, strides_, at_;
  bool wide_;
  int64_t axis_, batch_dims_;
  std::vector<int64_t> offsets_;
};

}  // namespace temper
