// SPDX-License-Identifier: Apache-2.0
// Copies between layouts, by oneDNN's reorder; any dtype of 1, 2, 4 or 8 bytes by moving bits.
#include <cstring>

#include "backends/cpu/onednn.h"
#include "base/threads.h"

namespace temper {

namespace {

class CopyKernel final : public Kernel {
 public:
  explicit CopyKernel(int64_t bytes) : bytes_(bytes) {}
  void launch(const Buffers& buffers) override {
    parallel_for(bytes_, 1 << 20, [&](int64_t begin, int64_t end) {
      std::memcpy(static_cast<std::byte*>(buffers.outputs[0]) + begin, static_cast<const std::byte*>(buffers.inputs[0]) + begin, size_t(end - begin));
    });
  }

 private:
  int64_t bytes_;
};

class ReorderKernel final : public Kernel {
 public:
  ReorderKernel(const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc d(dnnl_cpu_engine(), from, dnnl_cpu_engine(), to, attributes);
    call_ = DnnlCall(dnnl::reorder(d));
    src_ = call_.add(DNNL_ARG_FROM, from);
    dst_ = call_.add(DNNL_ARG_TO, to);
    scratch_bytes_ = int64_t(d.scratchpad_desc().get_size());
    scratch_ = call_.add(DNNL_ARG_SCRATCHPAD, d.scratchpad_desc());
  }
  int64_t workspace() const override { return scratch_bytes_; }
  void launch(const Buffers& buffers) override {
    call_.set(src_, buffers.inputs[0]);
    call_.set(dst_, buffers.outputs[0]);
    call_.set(scratch_, buffers.workspace);
    call_.execute();
  }

 private:
  DnnlCall call_;
  size_t src_ = 0, dst_ = 0, scratch_ = 0;
  int64_t scratch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_cpu_reorder(const TensorType& type, Layout from, Layout to, int threads) {
  const Dims dims = type.dims();
  if (same_memory(dims, from, to)) return std::make_unique<CopyKernel>(layout_bytes(type.dtype, dims, from));
  if (size_of(type.dtype) != 4 && size_of(type.dtype) != 1) fail(ErrorKind::unsupported, "a reorder of ", type);
  // f32 and i32 alike: only bits move.
  const DType carrier = size_of(type.dtype) == 4 ? DType::f32 : DType::i8;
  const ThreadScope scope(threads);
  return std::make_unique<ReorderKernel>(dnnl_desc(carrier, dims, from), dnnl_desc(carrier, dims, to));
}

}  // namespace temper
