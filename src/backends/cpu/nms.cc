// SPDX-License-Identifier: Apache-2.0
// The arithmetic of an overlap is that of the reference, operation for operation, and this file is compiled without
// fused multiply-adds: thresholds may lie on a quotient of box sizes. A candidate is compared with many boxes at once,
// and candidates are sorted as far as they are needed.
#include "backends/cpu/nms.h"

#include <algorithm>
#include <bit>

#include "backends/cpu/isa.h"
#include "base/aligned.h"
#include "base/threads.h"

namespace temper {

namespace {

constexpr int64_t kParallel = 1 << 15;  // scores worth a thread
constexpr size_t kBlock = 64;           // boxes that a candidate is compared with before one is asked for

// Boxes side by side, filled up to whole blocks by ones without an area, which overlap nothing.
struct Boxes {
  AlignedBytes bytes;
  size_t room = 0, count = 0;

  void reserve(size_t most) {
    room = (most + kBlock - 1) / kBlock * kBlock;
    bytes.resize(room * 5 * sizeof(float));
  }
  float* part(size_t k) { return reinterpret_cast<float*>(bytes.data()) + k * room; }
  const float* part(size_t k) const { return reinterpret_cast<const float*>(bytes.data()) + k * room; }
  void add(const float (&box)[5]) {
    if (count % kBlock == 0)
      for (size_t k = 0; k < 5; ++k) std::fill_n(part(k) + count, kBlock, 0.f);
    for (size_t k = 0; k < 5; ++k) part(k)[count] = box[k];
    ++count;
  }
};

// x0, y0, x1, y1 and the area.
void read_box(const float* p, bool center, float (&box)[5]) {
  if (center) {
    box[0] = p[0] - p[2] / 2, box[1] = p[1] - p[3] / 2, box[2] = p[0] + p[2] / 2, box[3] = p[1] + p[3] / 2;
  } else {
    box[0] = std::min(p[1], p[3]), box[1] = std::min(p[0], p[2]);
    box[2] = std::max(p[1], p[3]), box[3] = std::max(p[0], p[2]);
  }
  box[4] = (box[2] - box[0]) * (box[3] - box[1]);
}

bool overlaps_any(const Boxes& kept, const float (&box)[5], float threshold) {
  if (!(box[4] > 0)) return false;
  int found = 0;
  int* into = &found;
  const float *x0 = kept.part(0), *y0 = kept.part(1), *x1 = kept.part(2), *y1 = kept.part(3), *areas = kept.part(4);
  const float left = box[0], top = box[1], right = box[2], bottom = box[3], area = box[4];
  const size_t count = kept.count;
  vectorised([=] {
    int any = 0;
    for (size_t begin = 0; begin < count && !any; begin += kBlock)
      for (size_t k = begin; k < begin + kBlock; ++k) {
        const float width = std::min(right, x1[k]) - std::max(left, x0[k]),
                    height = std::min(bottom, y1[k]) - std::max(top, y0[k]), both = width * height,
                    either = area + areas[k] - both;
        any |= int(width > 0) & int(height > 0) & int(areas[k] > 0) & int(either > 0) & int(both / either > threshold);
      }
    *into = any;
  });
  return found;
}

// Descending; NaN comes last, and both zeros are equal. The place stands behind the score, so that the first of equal
// ones comes first.
uint64_t entry_of(float score, int64_t place) {
  const uint32_t bits = std::bit_cast<uint32_t>(score + 0.f);
  const uint32_t ascending = bits ^ ((0u - (bits >> 31)) | 0x80000000u);
  return uint64_t(score != score ? ~0u : ~ascending) << 32 | uint64_t(place);
}

}  // namespace

Tensor run_nms(const ops::Nms& op, const std::vector<Tensor>& inputs, int threads) {
  const Tensor &boxes = inputs[0], &scores = inputs[1];
  auto has = [&](size_t i) { return i < inputs.size() && inputs[i].defined(); };
  const int64_t batches = boxes.dims()[0], count = boxes.dims()[1], classes = scores.dims()[1];
  const int64_t most = std::min(has(2) ? inputs[2].data<int64_t>()[0] : 0, count);
  const float iou = has(3) ? inputs[3].data<float>()[0] : 0;
  const bool limited = has(4);
  const float least = limited ? inputs[4].data<float>()[0] : 0;
  std::vector<std::vector<int64_t>> chosen(most > 0 ? size_t(batches * classes) : 0);
  parallel_for_threads(threads, int64_t(chosen.size()), std::max<int64_t>(1, kParallel / std::max<int64_t>(1, count)),
                       [&](int, int64_t begin, int64_t end) {
                         std::vector<uint64_t> entries(static_cast<size_t>(count) + 1);
                         Boxes kept;
                         kept.reserve(size_t(most));
                         for (int64_t i = begin; i < end; ++i) {
                           const float *score = scores.data<float>() + i * count,
                                       *box = boxes.data<float>() + i / classes * count * 4;
                           size_t candidates = 0;
                           for (int64_t k = 0; k < count; ++k) {
                             entries[candidates] = entry_of(score[k], k);
                             candidates += !limited || score[k] > least;
                           }
                           kept.count = 0;
                           size_t sorted = 0;
                           for (size_t e = 0; e < candidates && int64_t(kept.count) < most; ++e) {
                             if (e == sorted) {
                               const auto at = [&](size_t k) { return entries.begin() + ptrdiff_t(k); };
                               sorted = std::min(candidates, sorted + std::max<size_t>(sorted, 2 * size_t(most)));
                               if (sorted < candidates) std::nth_element(at(e), at(sorted), at(candidates));
                               std::sort(at(e), at(sorted));
                             }
                             const int64_t place = int64_t(entries[e] & 0xffffffff);
                             float candidate[5];
                             read_box(box + place * 4, op.center, candidate);
                             if (overlaps_any(kept, candidate, iou)) continue;
                             kept.add(candidate);
                             chosen[size_t(i)].push_back(place);
                           }
                         }
                       });
  int64_t all = 0;
  for (const auto& of_class : chosen) all += int64_t(of_class.size());
  Tensor out(DType::i64, {all, 3});
  int64_t* to = out.data<int64_t>();
  for (size_t i = 0; i < chosen.size(); ++i)
    for (int64_t place : chosen[i]) {
      *to++ = int64_t(i) / classes;
      *to++ = int64_t(i) % classes;
      *to++ = place;
    }
  return out;
}

}  // namespace temper
