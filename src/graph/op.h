// SPDX-License-Identifier: Apache-2.0
// THE op list. An op is a plain struct held to the concept below, so that a missing member is a compile error here.
// Functions with an overload for each op visit it: those of op.cc, onnx/write_ops.cc and plan/batch.cc.
#pragma once
#include <concepts>
#include <optional>
#include <variant>

#include "graph/ops/arg_reduce.h"
#include "graph/ops/bit_cast.h"
#include "graph/ops/broadcast.h"
#include "graph/ops/concat.h"
#include "graph/ops/conv.h"
#include "graph/ops/conv_transpose.h"
#include "graph/ops/cumulative.h"
#include "graph/ops/dequantize.h"
#include "graph/ops/fused.h"
#include "graph/ops/gather.h"
#include "graph/ops/grid_sample.h"
#include "graph/ops/lrn.h"
#include "graph/ops/matmul.h"
#include "graph/ops/nms.h"
#include "graph/ops/nonzero.h"
#include "graph/ops/normalize.h"
#include "graph/ops/pad.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/pool.h"
#include "graph/ops/quantize.h"
#include "graph/ops/range.h"
#include "graph/ops/recurrent.h"
#include "graph/ops/reduce.h"
#include "graph/ops/reshape.h"
#include "graph/ops/resize.h"
#include "graph/ops/roi_align.h"
#include "graph/ops/scatter.h"
#include "graph/ops/shape.h"
#include "graph/ops/slice.h"
#include "graph/ops/softmax.h"
#include "graph/ops/topk.h"
#include "graph/ops/transpose.h"
#include "graph/ops/unique.h"

namespace temper {

// One a line, in alphabetical order.
using Op = std::variant<ops::ArgReduce, ops::BitCast, ops::Broadcast, ops::Concat, ops::Conv, ops::ConvChain,
                        ops::ConvTranspose, ops::Cumulative, ops::Dequantize, ops::FusedConv, ops::FusedReduce,
                        ops::Gather, ops::GridSample, ops::Lrn, ops::MatMul, ops::Nms, ops::NonZero, ops::Normalize,
                        ops::Pad, ops::Pointwise, ops::Pool, ops::Quantize, ops::Range, ops::Recurrent, ops::Reduce,
                        ops::Reshape, ops::Resize, ops::RoiAlign, ops::Scatter, ops::ShapeOf, ops::Slice, ops::Softmax,
                        ops::TopK, ops::Transpose, ops::Unique>;

template <class T>
concept OpStruct = std::equality_comparable<T> && std::default_initializable<T> &&
                   requires(const T op, const InferContext& context, std::span<const Tensor> inputs,
                            std::span<const TensorType> types) {
                     { T::name } -> std::convertible_to<std::string_view>;
                     {
                       T::fields(op, [](std::string_view, const auto&) {})
                     };
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
// Inputs that only carry sizes (a reshape's target, a slice's bounds) become fields as soon as their contents are
// known; returns how many inputs are left, nothing where the op has no such inputs or they are not known yet. An op
// does so with
//   static constexpr size_t data_inputs = 1;  bool absorb(const InferContext&);
// `infer` does so by itself; `reference` and backends see such ops without those inputs.
std::optional<size_t> absorb(Op& op, const InferContext& context);
bool is_concrete(const Op& op);  // no field holds a symbol
// Replaces bound symbols in the op's fields.
void substitute(Op& op, const Bindings& bindings);
// The op's epilogue, null where the op has none. Its extra inputs are the node's last `epilogue->inputs - 1` inputs.
Program* epilogue_of(Op& op);
inline const Program* epilogue_of(const Op& op) { return epilogue_of(const_cast<Op&>(op)); }
// The convolution or reduction that the op is, alone or fused with its neighbours; null where it is none.
const ops::Conv* conv_of(const Op& op);
const ops::Reduce* reduce_of(const Op& op);

}  // namespace temper
