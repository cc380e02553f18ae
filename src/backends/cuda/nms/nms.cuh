// SPDX-License-Identifier: Apache-2.0
// What the kernels of nms share. A row is a class of an image.
#pragma once
#include "backends/cuda/support/memory.cuh"

struct Parameters {
  u32 entries;              // scores in all
  u32 count, classes;       // boxes of an image, classes
  u32 most;                 // boxes of a class at most, for which there is room
  Divisor classes_by, row;  // to divide by: classes, and most
};

constexpr u32 kNone = ~0u;  // behind all candidates; with a least score no candidate has it
