// SPDX-License-Identifier: Apache-2.0
// Says how the elements of an op's first output depend on those of one of its inputs, where several files need it.
#pragma once
#include <cstdint>

namespace temper {

enum class Flow : uint8_t {
  computed,  // nothing more is known
  moved,     // each is an element of it, or of another input of which the same is said
  filled,    // each is an element of it, or the number that the op fills in
  chosen,    // each is the largest or the smallest of several
  averaged,  // each is the mean of several, weighted perhaps
  summed,    // each is the sum of several
};

}  // namespace temper
