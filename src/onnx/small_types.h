// SPDX-License-Identifier: Apache-2.0
// Casts to and from types that are stored only (base/dtype.h), as ONNX's Cast defines them: programs over their codes,
// so that every backend has them without a kernel of their own.
#pragma once
#include "onnx/node.h"

namespace temper {

// How a number between two scales of f8e8m0 becomes one. `nearest` takes the upper one of two equally near.
enum class ScaleRounding { up, down, nearest };

struct CastOptions {
  bool saturate = true;  // of 8-bit floats: what is too large becomes the largest number, not infinity or NaN
  ScaleRounding round_mode = ScaleRounding::up;
};

// The node's attributes `saturate` and `round_mode`.
CastOptions cast_options(const OnnxNode& node);

// x as `to`; each may be stored only. What ONNX leaves open:
//   a float as an integer of 4 or 2 bits is cut towards zero, then the low bits are taken, as of any integer;
//   a negative number as f8e8m0 gives the scale of its magnitude;
//   NaN as f4e2m1, which has none, gives -0, and infinity the largest number, as ml_dtypes does.
// A scale below the smallest one is it (saturate) or NaN, also where it is a denormal f32; ONNX's reference evaluator
// takes any denormal for 2^-126 and infinity for NaN there, other than the operator's text.
ValueId converted(OnnxNode& node, ValueId x, DType to, const CastOptions& options = {});

// x as it is, or the numbers of a type that is stored only, exactly: i8 or u8 for integers, f32 for floats.
ValueId computable(OnnxNode& node, ValueId x);

// The bits of x as `to`: whole numbers of i8 or u8 within the range of an integer type of 4 or 2 bits, or the codes of
// strings.
ValueId as_codes(OnnxNode& node, ValueId x, DType to);

// Strings as integers that are equal where the strings are, which any op may move; other values stay as they are. And
// back to what `like` is of.
ValueId movable(OnnxNode& node, ValueId x);
ValueId moved(OnnxNode& node, ValueId x, DType like);

}  // namespace temper
