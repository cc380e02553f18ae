// SPDX-License-Identifier: Apache-2.0
// What the random lines of attentions share, for the tests of its kernels.
#pragma once
#include <array>
#include <string>

#include "../draw.h"
#include "base/concat.h"

namespace temper::testing {

struct DrawnMasks {
  std::string text;  // behind the operands of a line of tests/cases: ", f32[...], i64[...]=[...]"
  bool of_bool = false, lengths = false;
};
// A mask of one of these types, each of whose axes may repeat, and lengths of the keys: both, one or none of them.
inline DrawnMasks draw_masks(Draw& draw, const std::array<const char*, 3>& types, int64_t batch, int64_t heads,
                             int64_t queries, int64_t keys) {
  DrawnMasks drawn;
  const bool masked = draw.chance(50);
  drawn.lengths = draw.chance(25);
  if (masked) {
    const std::string type = types[size_t(draw(0, 2))];
    drawn.of_bool = type == "bool";
    drawn.text += ", " + type + '[';
    const int64_t sizes[] = {batch, heads, queries, keys};
    for (int64_t axis = draw(0, 3); axis < 4; ++axis)
      drawn.text += concat(draw.chance(70) ? sizes[axis] : 1, axis < 3 ? "," : "]");
  } else if (drawn.lengths) {
    drawn.text += ", _";
  }
  if (drawn.lengths) {
    drawn.text += concat(", i64[", batch, "]=[");
    for (int64_t b = 0; b < batch; ++b) drawn.text += concat(b ? "," : "", draw(0, keys));
    drawn.text += "]";
  }
  return drawn;
}

}  // namespace temper::testing
