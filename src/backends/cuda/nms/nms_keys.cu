// SPDX-License-Identifier: Apache-2.0
// Of scores as numbers that are smallest for the best. NaN comes last, both zeros are equal. Generated before this
// text: HAS_LEAST, whether there is a least score.
#include "backends/cuda/nms/nms.cuh"

extern "C" __global__ void __launch_bounds__(256)
    nms_keys(const float* scores, const float* least, u32* keys, const Parameters p) {
  wait_for_inputs();
  const u32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= p.entries) return;
  const float score = scores[i];
  const u32 bits = __float_as_uint(score + 0.0f);
  const u32 ascending = bits ^ ((0u - (bits >> 31)) | 0x80000000u);
  u32 key = score != score ? kNone : ~ascending;
  if constexpr (HAS_LEAST)
    if (!(score > *least)) key = kNone;
  keys[i] = key;
}
