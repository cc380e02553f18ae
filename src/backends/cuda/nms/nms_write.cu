// SPDX-License-Identifier: Apache-2.0
// What all rows have chosen, behind each other. `before`: what the rows before each have chosen; `total`: what all
// have.
#include "backends/cuda/nms/nms.cuh"

extern "C" __global__ void __launch_bounds__(256)
    nms_write(const u32* chosen, const u32* before, const i64* total, i64* out, const Parameters p) {
  wait_for_inputs();
  const u32 i = blockIdx.x * 256 + threadIdx.x;
  const u32 row = divide(i, p.row), k = i - row * p.most, rows = p.entries / p.count;
  if (row >= rows) return;
  const u32 first = before[row], end = row + 1 < rows ? before[row + 1] : u32(*total);
  if (k >= end - first) return;
  const u32 image = divide(row, p.classes_by);
  i64* to = out + u64(first + k) * 3;
  to[0] = image;
  to[1] = row - image * p.classes;
  to[2] = chosen[i];
}
