// SPDX-License-Identifier: Apache-2.0
// Says how an op takes part in a graph that computes in a narrower float, bf16 or f16 (passes/lower_precision.h).
#pragma once
#include <string>

#include "base/concat.h"
#include "base/dtype.h"

namespace temper {

enum class NarrowRole : uint8_t {
  f32,      // it computes on f32 alone
  product,  // inputs 0 and 1 may be narrow; it sums in f32, where its epilogue starts
  carrier,  // one dtype in and out, and the narrower is as good: it moves elements, takes the largest or an average
};

struct NarrowForm {
  NarrowRole role = NarrowRole::f32;
  size_t carried = 1;         // of a carrier: so many of its first inputs have that dtype; those behind, as a mask, any
  std::string reason;         // f32: why, as people read it; they see the node's name before it
  bool reads_narrow = false;  // f32: its kernels may cast input 0 as they read it (LoweringOptions::narrow_rows)

  NarrowForm(NarrowRole its_role) : role(its_role) {}  // NOLINT: implicit on purpose
  static NarrowForm carries(size_t inputs) {
    NarrowForm form(NarrowRole::carrier);
    form.carried = inputs;
    return form;
  }
  static NarrowForm stays_f32(std::string reason, bool reads_narrow = false) {
    NarrowForm form(NarrowRole::f32);
    form.reason = std::move(reason);
    form.reads_narrow = reads_narrow;
    return form;
  }
  // The form of an op that says nothing.
  static NarrowForm none(DType dtype) { return stays_f32(concat("there is no ", dtype, " form of it")); }
};

// The facts about its node by which an op says so. Its first input and output are f32.
class NarrowNode {
 public:
  virtual DType dtype() const = 0;  // the narrower one
  virtual size_t inputs() const = 0;
  virtual bool has(size_t input) const = 0;          // false for an input that is left out
  virtual bool is_constant(size_t input) const = 0;  // known before the model runs
  virtual bool survives(size_t input) const = 0;     // a constant, and the narrower dtype holds each of its numbers

 protected:
  ~NarrowNode() = default;
};

}  // namespace temper
