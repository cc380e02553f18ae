// SPDX-License-Identifier: Apache-2.0
// The tile registers of AMX: what their shapes are set by. Who may use them: may_use_tiles() in bf16_blocks.h.
#pragma once
#include <cstdint>

namespace temper {

// What the eight tiles hold (Intel's manual, "AMX", palette 1): rows of 64 bytes, 16 of them unless that is changed.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// GCC does not know that tiles and their shapes are loaded from memory: nothing that was written there waits behind
// this.
inline void written(const void* there) { asm volatile("" : : "r"(there) : "memory"); }

}  // namespace temper
