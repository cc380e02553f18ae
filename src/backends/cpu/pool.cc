// SPDX-License-Identifier: Apache-2.0
// Pooling by oneDNN: averages of floats, maxima of 8-bit integers (its averages of those round in another way, and its
// maxima of floats pass no NaN on).
#include "graph/ops/pool.h"

#include "backends/cpu/onednn.h"
#include "graph/ops/window.h"

namespace temper {

namespace {

using Descriptor = dnnl::pooling_forward::primitive_desc;

std::optional<Descriptor> describe(const Problem& problem, Layout layout) {
  const auto& op = problem.op.get<ops::Pool>();
  const Dims x = problem.inputs[0].dims(), y = problem.outputs[0].dims();
  const DType dtype = problem.inputs[0].type.dtype;
  const ops::Window window = op.window();
  Dims begin, end;
  for (size_t i = 0; i + 2 < x.size(); ++i) {
    begin.push_back(ops::window_pads(window, int64_t(i), x[i + 2]).first);
    end.push_back((y[i + 2] - 1) * op.strides[i] + op.kernel[i] - x[i + 2] - begin.back());
  }
  const auto algorithm = op.kind == ops::PoolKind::max ? dnnl::algorithm::pooling_max
                         : op.count_include_pad        ? dnnl::algorithm::pooling_avg_include_padding
                                                       : dnnl::algorithm::pooling_avg_exclude_padding;
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return dnnl_try([&] {
    const dnnl::pooling_forward::desc desc(dnnl::prop_kind::forward_inference, algorithm, dnnl_desc(dtype, x, layout),
                                           dnnl_desc(dtype, y, layout), op.strides, op.kernel, begin, end);
    return Descriptor(desc, attributes, dnnl_cpu_engine());
  });
}

Support supports(const Problem& problem, const Device& device) {
  if (auto s = needs_op<ops::Pool>(problem); !s.yes()) return s;
  const auto& op = problem.op.get<ops::Pool>();
  const Dims x = problem.inputs[0].dims(), y = problem.outputs[0].dims();
  const DType dtype = problem.inputs[0].type.dtype;
  const bool bytes = op.kind == ops::PoolKind::max && (dtype == DType::i8 || dtype == DType::u8);
  if (auto s = dnnl_float_supported(problem, device); !bytes && !s.yes())
    return refused(s.reason, "; of i8 and u8 the largest");
  if (op.kind == ops::PoolKind::max && !bytes) return refused("oneDNN's largest of floats loses NaN");
  if (op.kind == ops::PoolKind::lp || op.with_indices) return refused("lp pools and indices are not oneDNN's");
  if (x.size() > 5 || element_count(x) == 0 || element_count(y) == 0)
    return refused("rank ", x.size(), " or an empty tensor");
  for (int64_t d : op.dilations)
    if (d != 1) return refused("dilation");
  const ops::Window window = op.window();
  for (size_t i = 0; i + 2 < x.size(); ++i) {
    const auto [begin, end] = ops::window_pads(window, int64_t(i), x[i + 2]);
    if (begin >= op.kernel[i] || end >= op.kernel[i]) return refused("padding as large as the kernel");
    // A window that reaches beyond the right padding counts differently in an average.
    if ((y[i + 2] - 1) * op.strides[i] + op.kernel[i] > x[i + 2] + begin + end && op.kind == ops::PoolKind::average)
      return refused("an average whose last window reaches beyond the padding");
  }
  return describe(problem, Layout::plain) ? supported() : refused("oneDNN has no such pool");
}

std::vector<Config> configs(const Problem& problem, const Device& device) {
  const ThreadScope threads(problem.threads);
  std::vector<Config> result;
  for (Layout layout : useful_layouts(problem.inputs[0].dims(), device))
    if (describe(problem, layout)) result.push_back(uniform_config(problem, layout));
  return result;
}

class PoolKernel final : public Kernel {
 public:
  PoolKernel(const Problem& problem, const Config& config) {
    const ThreadScope threads(problem.threads);
    const auto d = describe(problem, config.inputs[0]);
    if (!d)
      fail(ErrorKind::unsupported, "oneDNN on this machine has no pool for ", problem.text(),
           "; build the plan again here");
    call_ = DnnlCall(dnnl::pooling_forward(*d));
    src_ = call_.add(DNNL_ARG_SRC, d->src_desc());
    dst_ = call_.add(DNNL_ARG_DST, d->dst_desc());
    scratch_bytes_ = int64_t(d->scratchpad_desc().get_size());
    scratch_ = call_.add(DNNL_ARG_SCRATCHPAD, d->scratchpad_desc());
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

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView&, const Device&) {
  return std::make_unique<PoolKernel>(problem, config);
}

}  // namespace

extern const Tactic cpu_pool_onednn;
const Tactic cpu_pool_onednn{"cpu.pool.onednn", 2, supports, configs, nullptr, load};

}  // namespace temper
