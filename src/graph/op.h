// SPDX-License-Identifier: Apache-2.0
// THE op list. An op is a plain struct held to the concept below, so that a missing member is a compile error here.
// All std::visit on ops lives in op.cc.
#pragma once
#include <concepts>
#include <variant>

#include "graph/ops/arg_reduce.h"
#include "graph/ops/bit_cast.h"
#include "graph/ops/conv.h"
#include "graph/ops/cumulative.h"
#include "graph/ops/dequantize.h"
#include "graph/ops/lrn.h"
#include "graph/ops/matmul.h"
#include "graph/ops/normalize.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/pool.h"
#include "graph/ops/quantize.h"
#include "graph/ops/reduce.h"
#include "graph/ops/reshape.h"
#include "graph/ops/shape.h"
#include "graph/ops/softmax.h"
#include "graph/ops/transpose.h"

namespace temper {

// One a line, in alphabetical order.
using Op = std::variant<
    ops::ArgReduce,
    ops::BitCast,
    ops::Conv,
    ops::Cumulative,
    ops::Dequantize,
    ops::Lrn,
    ops::MatMul,
    ops::Normalize,
    ops::Pointwise,
    ops::Pool,
    ops::Quantize,
    ops::Reduce,
    ops::Reshape,
    ops::ShapeOf,
    ops::Softmax,
    ops::Transpose>;

template <class T>
concept OpStruct = std::equality_comparable<T> && std::default_initializable<T> &&
    requires(const T op, const InferContext& context, std::span<const Tensor> inputs, std::span<const TensorType> types) {
      { T::name } -> std::convertible_to<std::string_view>;
      { T::fields(op, [](std::string_view, const auto&) {}) };
      { op.infer(context) } -> std::same_as<std::vector<TensorType>>;
      { op.reference(inputs, types) } -> std::same_as<std::vector<Tensor>>;
    };

std::string_view name_of(const Op& op);
// "strides=[2,2] pads=[1,1,1,1]": the fields that differ from the op's defaults.
std::string fields_text(const Op& op);
// The inverse; throws Error{bad_file} for an unknown op or field.
Op parse_op(std::string_view name, std::string_view fields);
std::vector<TensorType> infer(const Op& op, const InferContext& context);
// Runs the op's scalar reference. `outputs` are the concrete types that infer gave.
std::vector<Tensor> reference(const Op& op, std::span<const Tensor> inputs, std::span<const TensorType> outputs);
// Replaces bound symbols in the op's fields.
void substitute(Op& op, const Bindings& bindings);
// The op's epilogue, null where the op has none. Its extra inputs are the node's last `epilogue->inputs - 1` inputs.
Program* epilogue_of(Op& op);
inline const Program* epilogue_of(const Op& op) { return epilogue_of(const_cast<Op&>(op)); }

}  // namespace temper
