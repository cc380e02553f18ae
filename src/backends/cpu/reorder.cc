// SPDX-License-Identifier: Apache-2.0
// Copies between layouts, for elements of any size. Measured on f32 against oneDNN 2.6's reorder: as fast or faster,
// and without the milliseconds that some of its plain to blocked copies take.
#include "backends/cpu/box_copy.h"
#include "backends/cpu/cpu.h"

namespace temper {

namespace {

class ReorderKernel final : public Kernel {
 public:
  ReorderKernel(const TensorType& type, Layout from, Layout to, int threads) : threads_(threads) {
    const Dims dims = type.dims();
    const int64_t size = size_of(type.dtype);
    if (same_memory(dims, from, to)) {
      const int64_t count = layout_elements(dims, from);
      copy_ = BoxCopy({count}, {{count}}, {{count}}, size);
    } else {
      if (!layout_fits(dims, from) || !layout_fits(dims, to))
        fail(ErrorKind::unsupported, "a reorder of ", type, " from ", from, " to ", to);
      copy_ = BoxCopy(dims, {dims, from}, {dims, to}, size);
      padding_ = ZeroPadding(dims, to, size);
    }
  }
  void launch(const Buffers& buffers) override {
    copy_.run(buffers.inputs[0], buffers.outputs[0], threads_);
    padding_.run(buffers.outputs[0]);
  }

 private:
  BoxCopy copy_;
  ZeroPadding padding_;
  int threads_;
};

}  // namespace

std::unique_ptr<Kernel> make_cpu_reorder(const TensorType& type, Layout from, Layout to, int threads) {
  return std::make_unique<ReorderKernel>(type, from, to, threads);
}

}  // namespace temper
