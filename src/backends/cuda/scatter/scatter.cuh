// SPDX-License-Identifier: Apache-2.0
// Shared by the kernels that scatter.
#pragma once
#include "backends/cuda/support/memory.cuh"

// Of a position whose index does not exist. There are fewer targets.
constexpr u32 kNoTarget = 0xffffffff;
