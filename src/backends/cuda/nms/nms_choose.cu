// SPDX-License-Identifier: Apache-2.0
// Chooses boxes, best first, where no better one that was chosen overlaps them. The arithmetic of an overlap is that of
// the reference, operation for operation: thresholds may lie on a quotient of box sizes. Generated before this text:
// CENTER, whether boxes are a centre and a size; HAS_IOU and HAS_LEAST, whether there are such thresholds.
#include "backends/cuda/nms/nms.cuh"

struct Box {
  float x0, y0, x1, y1, area;
};

// As std::min and std::max: the first where one is NaN.
DEVICE float smaller(float a, float b) { return b < a ? b : a; }
DEVICE float larger(float a, float b) { return a < b ? b : a; }

DEVICE Box box_at(const float* p) {
  Box box;
  if constexpr (CENTER) {
    box.x0 = p[0] - p[2] / 2, box.y0 = p[1] - p[3] / 2, box.x1 = p[0] + p[2] / 2, box.y1 = p[1] + p[3] / 2;
  } else {
    box.x0 = smaller(p[1], p[3]), box.y0 = smaller(p[0], p[2]);
    box.x1 = larger(p[1], p[3]), box.y1 = larger(p[0], p[2]);
  }
  box.area = (box.x1 - box.x0) * (box.y1 - box.y0);
  return box;
}

DEVICE bool overlap(const Box& candidate, const Box& kept, float threshold) {
  const float width = smaller(candidate.x1, kept.x1) - larger(candidate.x0, kept.x0),
              height = smaller(candidate.y1, kept.y1) - larger(candidate.y0, kept.y0), both = width * height,
              either = candidate.area + kept.area - both;
  return width > 0 && height > 0 && candidate.area > 0 && kept.area > 0 && either > 0 && both / either > threshold;
}

// A block has a row, and takes its candidates in tiles: a thread compares one with all that were chosen before the
// tile, and then with those of the tile, one after the other.
extern "C" __global__ void __launch_bounds__(256)
    nms_choose(const float* boxes, const i64* limit, const float* iou, const u32* keys, const i64* places, u32* chosen,
               u32* counts, const Parameters p) {
  wait_for_inputs();
  __shared__ Box shared_boxes[256];
  __shared__ u32 is_left[256];
  const u32 row = blockIdx.x, me = threadIdx.x;
  const float* of_image = boxes + u64(divide(row, p.classes_by)) * p.count * 4;
  const u32* keys_of = keys + u64(row) * p.count;
  const i64* places_of = places + u64(row) * p.count;
  u32* into = chosen + u64(row) * p.most;
  const i64 wanted = *limit;
  const u32 most = wanted < 0 ? 0 : wanted < i64(p.most) ? u32(wanted) : p.most;
  const float threshold = HAS_IOU ? *iou : 0.0f;
  u32 found = 0;
  for (u32 tile = 0; tile < p.count && found < most; tile += 256) {
    if (HAS_LEAST && keys_of[tile] == kNone) break;
    const u32 at = tile + me;
    bool left = at < p.count && !(HAS_LEAST && keys_of[at] == kNone);
    const u32 place = left ? u32(places_of[at]) : 0;
    const Box box = box_at(of_image + u64(place) * 4);
    for (u32 first = 0; first < found; first += 256) {
      const u32 here = found - first < 256 ? found - first : 256;
      __syncthreads();  // the last use of them is over, and what was chosen is there
      if (me < here) shared_boxes[me] = box_at(of_image + u64(into[first + me]) * 4);
      __syncthreads();
      for (u32 k = 0; k < here && left; ++k) left = !overlap(box, shared_boxes[k], threshold);
    }
    __syncthreads();
    shared_boxes[me] = box;
    is_left[me] = left;
    __syncthreads();
    for (u32 k = 0; k < 256; ++k) {
      if (!is_left[k]) continue;
      if (me == k) into[found] = place;
      if (++found == most) break;
      if (me > k && left && overlap(box, shared_boxes[k], threshold)) is_left[me] = left = false;
      __syncthreads();
    }
    __syncthreads();  // all have read what is left
  }
  if (me == 0) counts[row] = found;
}
