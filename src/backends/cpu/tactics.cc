// SPDX-License-Identifier: Apache-2.0
// THE list of the CPU's tactics, the likeliest first: that is the order used when nothing may be measured.
#include "backends/cpu/cpu.h"

namespace temper {

extern const Tactic cpu_conv_onednn, cpu_conv_depthwise, cpu_conv_depthwise_int8, cpu_conv_few, cpu_conv_int8,
    cpu_conv_int8_panels, cpu_conv_panels, cpu_conv_transpose, cpu_matmul_bf16, cpu_matmul_int8_panels,
    cpu_matmul_onednn, cpu_matmul_panels, cpu_matmul_int8, cpu_matmul_int8_tiles, cpu_pool_onednn;
extern const Tactic cpu_matmul_blocks, cpu_matmul_f64, cpu_matmul_floats;
extern const Tactic cpu_broadcast, cpu_concat, cpu_gather, cpu_pad, cpu_resize, cpu_slice;
extern const Tactic cpu_arg_reduce, cpu_fused_normalize, cpu_normalize, cpu_pointwise, cpu_pool, cpu_reduce,
    cpu_softmax, cpu_transpose;
extern const Tactic cpu_attention, cpu_attention_bf16, cpu_append, cpu_recurrent, cpu_cumulative, cpu_scatter, cpu_topk;
extern const Tactic cpu_grid_sample, cpu_lrn, cpu_roi_align, cpu_sample, cpu_string, cpu_image_decode;
extern const Tactic reference_tactic;

static const Tactic* const cpu_tactics[] = {
    &cpu_conv_depthwise,
    &cpu_conv_onednn,
    &cpu_conv_panels,
    &cpu_conv_few,
    &cpu_conv_int8,
    &cpu_conv_depthwise_int8,
    &cpu_conv_int8_panels,
    &cpu_conv_transpose,
    &cpu_matmul_blocks,
    &cpu_matmul_floats,
    &cpu_matmul_bf16,
    &cpu_matmul_f64,
    &cpu_matmul_onednn,
    &cpu_matmul_panels,
    &cpu_matmul_int8_tiles,
    &cpu_matmul_int8,
    &cpu_matmul_int8_panels,
    &cpu_pool_onednn,
    &cpu_pool,
    &cpu_pointwise,
    &cpu_reduce,
    &cpu_softmax,
    &cpu_fused_normalize,
    &cpu_normalize,
    &cpu_arg_reduce,
    &cpu_transpose,
    &cpu_concat,
    &cpu_slice,
    &cpu_pad,
    &cpu_broadcast,
    &cpu_gather,
    &cpu_resize,
    &cpu_scatter,
    &cpu_topk,
    &cpu_sample,
    &cpu_cumulative,
    &cpu_grid_sample,
    &cpu_roi_align,
    &cpu_lrn,
    &cpu_attention_bf16,
    &cpu_attention,
    &cpu_append,
    &cpu_recurrent,
    &cpu_string,
    &cpu_image_decode,
    &reference_tactic,
};

extern const Backend cpu_backend;
const Backend cpu_backend{"cpu",
                          [](int, const DeviceSettings&) { return cpu_device(); },
                          [] { return std::span<const Tactic* const>(cpu_tactics); },
                          nullptr,
                          [](const Reorder& reorder, std::span<const std::byte>, const Device&) {
                            return make_cpu_reorder(reorder.type, reorder.from, reorder.to, reorder.threads);
                          },
                          nullptr};

}  // namespace temper
