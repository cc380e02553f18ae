// SPDX-License-Identifier: Apache-2.0
// THE op list, and what can be done with an op of any kind.
#include "graph/op.h"

#include <algorithm>
#include <stdexcept>

#include "graph/batched_node.h"
#include "graph/fields.h"
#include "graph/narrow.h"
#include "graph/onnx_form.h"
#include "graph/operations.h"
#include "graph/ops/append.h"
#include "graph/ops/arg_reduce.h"
#include "graph/ops/attention.h"
#include "graph/ops/bit_cast.h"
#include "graph/ops/blocked_matmul.h"
#include "graph/ops/broadcast.h"
#include "graph/ops/choose.h"
#include "graph/ops/concat.h"
#include "graph/ops/constant_strings.h"
#include "graph/ops/conv.h"
#include "graph/ops/conv_transpose.h"
#include "graph/ops/cumulative.h"
#include "graph/ops/dequantize.h"
#include "graph/ops/dequantize_blocks.h"
#include "graph/ops/fused.h"
#include "graph/ops/fused_decode.h"
#include "graph/ops/gather.h"
#include "graph/ops/grid_sample.h"
#include "graph/ops/image_decode.h"
#include "graph/ops/loop.h"
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
#include "graph/ops/sample.h"
#include "graph/ops/scatter.h"
#include "graph/ops/shape.h"
#include "graph/ops/slice.h"
#include "graph/ops/softmax.h"
#include "graph/ops/string_cast.h"
#include "graph/ops/string_concat.h"
#include "graph/ops/string_lookup.h"
#include "graph/ops/string_match.h"
#include "graph/ops/string_normalize.h"
#include "graph/ops/string_split.h"
#include "graph/ops/string_tokenize.h"
#include "graph/ops/topk.h"
#include "graph/ops/transpose.h"
#include "graph/ops/unique.h"

namespace temper {

// clang-format off: one a line, in alphabetical order
#define TEMPER_OPS(OP)   \
  OP(Append)             \
  OP(AppendingAttention) \
  OP(ArgReduce)          \
  OP(Attention)          \
  OP(BitCast)            \
  OP(BlockedMatMul)      \
  OP(Broadcast)          \
  OP(Choose)             \
  OP(ComputedGather)     \
  OP(Concat)             \
  OP(ConstantStrings)    \
  OP(Conv)               \
  OP(ConvChain)          \
  OP(ConvTranspose)      \
  OP(Cumulative)         \
  OP(Dequantize)         \
  OP(DequantizeBlocks)   \
  OP(FusedConv)          \
  OP(FusedNormalize)     \
  OP(FusedReduce)        \
  OP(FusedSoftmax)       \
  OP(GatedMatMul)        \
  OP(Gather)             \
  OP(GatheredNormalize)  \
  OP(GridSample)         \
  OP(ImageDecode)        \
  OP(LoopBegin)          \
  OP(LoopEnd)            \
  OP(Lrn)                \
  OP(MatMul)             \
  OP(Nms)                \
  OP(NonZero)            \
  OP(Normalize)          \
  OP(NormalizedMatMul)   \
  OP(Pad)                \
  OP(Pointwise)          \
  OP(Pool)               \
  OP(Quantize)           \
  OP(Range)              \
  OP(Recurrent)          \
  OP(Reduce)             \
  OP(Reshape)            \
  OP(Resize)             \
  OP(RoiAlign)           \
  OP(Sample)             \
  OP(Scatter)            \
  OP(ShapeOf)            \
  OP(ShortcutConv)       \
  OP(Slice)              \
  OP(Softmax)            \
  OP(StringCast)         \
  OP(StringConcat)       \
  OP(StringLookup)       \
  OP(StringMatch)        \
  OP(StringNormalize)    \
  OP(StringSplit)        \
  OP(StringTokenize)     \
  OP(TopK)               \
  OP(Transpose)          \
  OP(Unique)
// clang-format on

struct OpTable {
  std::string_view name;
  Op (*make)();
  void* (*copy)(const void* op);
  void (*destroy)(void* op);
  bool (*equal)(const void* a, const void* b);
  std::string (*fields_text)(const void* op);
  bool (*parse_field)(void* op, std::string_view field, std::string_view text);  // false: there is no such field
  std::vector<TensorType> (*infer)(const void* op, const InferContext& context);
  std::vector<Tensor> (*reference)(const void* op, std::span<const Tensor> inputs, std::span<const TensorType> outputs);
  std::optional<size_t> (*absorb)(void* op, const InferContext& context);
  bool (*is_concrete)(const void* op);
  void (*change_dims)(void* op, const std::function<void(Dim&)>& change);
  OpKind kind;
  bool (*sliceable)(const void* op, const BatchedNode& node);
  void (*take_slice)(void* op, int64_t samples);
  std::optional<Operations> (*operations)(const void* op, std::span<const TensorType> inputs,
                                          std::span<const TensorType> outputs);
  double (*reference_cost)(const void* op, std::span<const TensorType> inputs, std::span<const TensorType> outputs);
  NarrowForm (*narrow_form)(const void* op, const NarrowNode& node);
  std::optional<OnnxForm> (*onnx_form)(const void* op);
  Flow (*flow)(const void* op, size_t input);
  bool (*is_no_op)(const void* op, const TensorType& x, size_t inputs);
  std::optional<std::vector<int64_t>> (*take_untransposed)(void* op, std::span<const int64_t> perm, size_t inputs);
  std::optional<double> (*bound)(const void* op);
  Program* (*epilogue)(void* op);
};

namespace {

template <class T>
const T& as(const void* op) {
  return *static_cast<const T*>(op);
}
template <class T>
T& as(void* op) {
  return *static_cast<T*>(op);
}

template <class T>
std::string fields_text_of(const T& op) {
  const T standard{};
  std::vector<std::string> defaults;
  T::fields(standard, [&](std::string_view, const auto& value) { print_field(defaults.emplace_back(), value); });
  std::string out;
  size_t i = 0;
  T::fields(op, [&](std::string_view field, const auto& value) {
    std::string text;
    print_field(text, value);
    if (text != defaults[i++]) out += concat(out.empty() ? "" : " ", field, '=', text);
  });
  return out;
}

template <class T>
bool parse_field_of(T& op, std::string_view field, std::string_view text) {
  bool found = false;
  T::fields(op, [&](std::string_view candidate, auto& value) {
    if (candidate != field) return;
    found = true;
    with_context([&] { return concat(T::name, '.', field); }, [&] { parse_field(text, value); });
  });
  return found;
}

template <class T>
std::vector<TensorType> infer_of(const T& op, const InferContext& context) {
  if constexpr (requires(T copy) { copy.absorb(context); }) {
    if (T known = op; context.size() > T::data_inputs && known.absorb(context))
      return known.infer(context.first(T::data_inputs));
  }
  return op.infer(context);
}

// A member that has a trait's name and cannot be called as op.h writes it would be taken for no trait at all.
#define TEMPER_NO_OTHER(TRAIT) \
  static_assert(!requires { &T::TRAIT; }, "the op's " #TRAIT " has another signature than graph/op.h gives")

template <class T>
std::optional<size_t> absorb_of(T& op, const InferContext& context) {
  if constexpr (requires { op.absorb(context); }) {
    if (context.size() > T::data_inputs && op.absorb(context)) return T::data_inputs;
  } else {
    TEMPER_NO_OTHER(absorb);
  }
  return std::nullopt;
}

template <class T>
bool is_concrete_of(const T& op) {
  bool concrete = true;
  T::fields(op, [&](std::string_view, const auto& value) { concrete &= is_concrete_field(value); });
  return concrete;
}

template <class T>
bool sliceable_of(const T& op, const BatchedNode& node) {
  if constexpr (requires { op.sliceable(node); }) {
    return op.sliceable(node);
  } else {
    TEMPER_NO_OTHER(sliceable);
    return false;
  }
}

template <class T>
void take_slice_of(T& op, int64_t samples) {
  if constexpr (requires { op.take_slice(samples); }) op.take_slice(samples);
  else TEMPER_NO_OTHER(take_slice);
}

template <class T>
std::optional<Operations> operations_of_struct(const T& op, std::span<const TensorType> inputs,
                                               std::span<const TensorType> outputs) {
  if constexpr (requires { op.operations(inputs, outputs); }) {
    return op.operations(inputs, outputs);
  } else {
    TEMPER_NO_OTHER(operations);
    return std::nullopt;
  }
}

template <class T>
double reference_cost_of(const T& op, std::span<const TensorType> inputs, std::span<const TensorType> outputs) {
  if constexpr (requires { op.reference_cost(inputs, outputs); }) {
    return op.reference_cost(inputs, outputs);
  } else {
    TEMPER_NO_OTHER(reference_cost);
    double elements = 0;
    for (const TensorType& type : inputs) elements += double(element_count(type));
    for (const TensorType& type : outputs) elements += double(element_count(type));
    return elements;
  }
}

template <class T>
NarrowForm narrow_form_of(const T& op, const NarrowNode& node) {
  if constexpr (requires { op.narrow_form(node); }) {
    return op.narrow_form(node);
  } else {
    TEMPER_NO_OTHER(narrow_form);
    return NarrowForm::none(node.dtype());
  }
}

template <class T>
std::optional<OnnxForm> onnx_form_of(const T& op) {
  if constexpr (requires { op.onnx_form(); }) {
    return op.onnx_form();
  } else {
    TEMPER_NO_OTHER(onnx_form);
    return std::nullopt;
  }
}

template <class T>
Flow flow_of_struct(const T& op, size_t input) {
  if constexpr (requires { op.flow(input); }) {
    return op.flow(input);
  } else {
    TEMPER_NO_OTHER(flow);
    return Flow::computed;
  }
}

template <class T>
bool is_no_op_of(const T& op, const TensorType& x, size_t inputs) {
  if constexpr (requires { op.is_no_op(x, inputs); }) {
    return op.is_no_op(x, inputs);
  } else {
    TEMPER_NO_OTHER(is_no_op);
    return false;
  }
}

template <class T>
std::optional<std::vector<int64_t>> take_untransposed_of(T& op, std::span<const int64_t> perm, size_t inputs) {
  if constexpr (requires { op.take_untransposed(perm, inputs); }) {
    return op.take_untransposed(perm, inputs);
  } else {
    TEMPER_NO_OTHER(take_untransposed);
    return std::nullopt;
  }
}

template <class T>
std::optional<double> bound_of_struct(const T& op) {
  if constexpr (requires { op.bound(); }) {
    return op.bound();
  } else {
    TEMPER_NO_OTHER(bound);
    return std::nullopt;
  }
}
#undef TEMPER_NO_OTHER

template <class T>
Program* epilogue_of_struct(T& op) {
  if constexpr (requires { op.epilogue; }) return &op.epilogue;
  else if constexpr (requires { op.conv.epilogue; }) return &op.conv.epilogue;
  else return nullptr;
}

template <OpStruct T>
constexpr OpTable table_of{
    .name = T::name,
    .make = [] { return Op(T{}); },
    .copy = [](const void* op) -> void* { return new T(as<T>(op)); },
    .destroy = [](void* op) { delete static_cast<T*>(op); },
    .equal = [](const void* a, const void* b) { return as<T>(a) == as<T>(b); },
    .fields_text = [](const void* op) { return fields_text_of(as<T>(op)); },
    .parse_field = [](void* op, std::string_view field,
                      std::string_view text) { return parse_field_of(as<T>(op), field, text); },
    .infer = [](const void* op, const InferContext& context) { return infer_of(as<T>(op), context); },
    .reference = [](const void* op, std::span<const Tensor> inputs,
                    std::span<const TensorType> outputs) { return as<T>(op).reference(inputs, outputs); },
    .absorb = [](void* op, const InferContext& context) { return absorb_of(as<T>(op), context); },
    .is_concrete = [](const void* op) { return is_concrete_of(as<T>(op)); },
    .change_dims =
        [](void* op, const std::function<void(Dim&)>& change) {
          T::fields(as<T>(op), [&](std::string_view, auto& value) { each_dim(value, change); });
        },
    .kind = T::op_kind,
    .sliceable = [](const void* op, const BatchedNode& node) { return sliceable_of(as<T>(op), node); },
    .take_slice = [](void* op, int64_t samples) { take_slice_of(as<T>(op), samples); },
    .operations = [](const void* op, std::span<const TensorType> inputs,
                     std::span<const TensorType> outputs) { return operations_of_struct(as<T>(op), inputs, outputs); },
    .reference_cost = [](const void* op, std::span<const TensorType> inputs,
                         std::span<const TensorType> outputs) { return reference_cost_of(as<T>(op), inputs, outputs); },
    .narrow_form = [](const void* op, const NarrowNode& node) { return narrow_form_of(as<T>(op), node); },
    .onnx_form = [](const void* op) { return onnx_form_of(as<T>(op)); },
    .flow = [](const void* op, size_t input) { return flow_of_struct(as<T>(op), input); },
    .is_no_op = [](const void* op, const TensorType& x, size_t inputs) { return is_no_op_of(as<T>(op), x, inputs); },
    .take_untransposed = [](void* op, std::span<const int64_t> perm,
                            size_t inputs) { return take_untransposed_of(as<T>(op), perm, inputs); },
    .bound = [](const void* op) { return bound_of_struct(as<T>(op)); },
    .epilogue = [](void* op) { return epilogue_of_struct(as<T>(op)); },
};

#define TEMPER_TABLE(T) &table_of<ops::T>,
constexpr const OpTable* tables[] = {TEMPER_OPS(TEMPER_TABLE)};
#undef TEMPER_TABLE

}  // namespace

template <class T>
const OpTable& op_table() {
  return table_of<T>;
}
#define TEMPER_TABLE(T) template const OpTable& op_table<ops::T>();
TEMPER_OPS(TEMPER_TABLE)
#undef TEMPER_TABLE

Op::Op(const Op& other) : table_(other.table_), op_(table_ ? table_->copy(other.op_) : nullptr) {}

Op::~Op() {
  if (table_) table_->destroy(op_);
}

bool Op::operator==(const Op& other) const {
  return table_ == other.table_ && (!table_ || table_->equal(op_, other.op_));
}

const OpTable& Op::table() const {
  if (!table_) throw std::logic_error("an empty op was asked for what it does");
  return *table_;
}

void Op::throw_other_kind() const {
  throw std::logic_error(concat("the op is ", table_ ? table_->name : "empty", ", not of the kind that was asked for"));
}

std::vector<Op> all_ops() {
  std::vector<Op> result;
  for (const OpTable* table : tables) result.push_back(table->make());
  return result;
}

std::string_view name_of(const Op& op) { return op.table().name; }

std::string fields_text(const Op& op) { return op.table().fields_text(op.data()); }

Op parse_op(std::string_view name, std::string_view fields) {
  const auto* table =
      std::find_if(std::begin(tables), std::end(tables), [&](auto* each) { return each->name == name; });
  if (table == std::end(tables)) fail(ErrorKind::bad_file, "there is no op '", name, "'");
  Op op = (*table)->make();
  while (!fields.empty()) {
    const auto equals = fields.find('=');
    if (equals == fields.npos) fail(ErrorKind::bad_file, name, ": '", fields.substr(0, 80), "' is not field=value");
    const std::string_view field = fields.substr(0, equals);
    fields.remove_prefix(equals + 1);
    size_t end = 0;
    bool quoted = false;
    while (end < fields.size() && (quoted || fields[end] != ' ')) quoted ^= fields[end++] == '"';
    const std::string_view text = fields.substr(0, end);
    fields.remove_prefix(std::min(end + 1, fields.size()));
    if (!op.table().parse_field(op.data(), field, text))
      fail(ErrorKind::bad_file, "the op '", name, "' has no field '", field.substr(0, 80), "'");
  }
  return op;
}

namespace {

// Ops that pass values on, whatever their type is; those that move elements say so by their flow.
bool takes_any_type(const Op& op) {
  return op.is<ops::BitCast, ops::Choose, ops::LoopBegin, ops::LoopEnd, ops::ShapeOf>();
}

// Products of matrices read f8e4m3fn, and programs do, wherever they stand.
bool computes_in_float8(const Op& op) {
  return op.is<ops::Pointwise, ops::Quantize, ops::Dequantize, ops::ConvChain, ops::GatedMatMul, ops::NormalizedMatMul,
               ops::ShortcutConv>() ||
         epilogue_of(op);
}

void refuse_stored_only(const Op& op, DType dtype) {
  if (dtype == DType::string && (kind_of(op) == OpKind::string || op.is<ops::Unique>())) return;
  if (dtype == DType::string) fail(ErrorKind::unsupported, "there is no ", name_of(op), " of strings");
  if (is_stored_only(dtype) && !(dtype == DType::f8e4m3fn && computes_in_float8(op)))
    fail(ErrorKind::unsupported, name_of(op), " on ", dtype,
         ", a type that is only stored; cast it to a type that is computed with");
}

}  // namespace

std::vector<TensorType> infer(const Op& op, const InferContext& context) {
  const bool any = takes_any_type(op);
  bool moves = any;
  for (size_t i = 0; i < context.size(); ++i) {
    const bool moved = flow_of(op, i) == Flow::moved;
    if (context.has(i) && !any && !moved) refuse_stored_only(op, context.type(i).dtype);
    moves |= moved;
  }
  std::vector<TensorType> types = op.table().infer(op.data(), context);
  if (!moves)
    for (const TensorType& type : types) refuse_stored_only(op, type.dtype);
  return types;
}

std::vector<Tensor> reference(const Op& op, std::span<const Tensor> inputs, std::span<const TensorType> outputs) {
  return op.table().reference(op.data(), inputs, outputs);
}

std::optional<size_t> absorb(Op& op, const InferContext& context) { return op.table().absorb(op.data(), context); }

bool is_concrete(const Op& op) { return op.table().is_concrete(op.data()); }

void change_dims(Op& op, const std::function<void(Dim&)>& change) { op.table().change_dims(op.data(), change); }

void substitute(Op& op, const Bindings& bindings) {
  change_dims(op, [&](Dim& dim) { dim = dim.substitute(bindings); });
}

OpKind kind_of(const Op& op) { return op.table().kind; }

bool sliceable(const Op& op, const BatchedNode& node) { return op.table().sliceable(op.data(), node); }

void take_slice(Op& op, int64_t samples) { op.table().take_slice(op.data(), samples); }

std::optional<Operations> operations_of(const Op& op, std::span<const TensorType> inputs,
                                        std::span<const TensorType> outputs) {
  return op.table().operations(op.data(), inputs, outputs);
}

double reference_cost(const Op& op, std::span<const TensorType> inputs, std::span<const TensorType> outputs) {
  return op.table().reference_cost(op.data(), inputs, outputs);
}

NarrowForm narrow_form(const Op& op, const NarrowNode& node) { return op.table().narrow_form(op.data(), node); }

std::optional<OnnxForm> onnx_form(const Op& op) { return op.table().onnx_form(op.data()); }

Flow flow_of(const Op& op, size_t input) { return op.table().flow(op.data(), input); }

bool is_no_op(const Op& op, const TensorType& x, size_t inputs) { return op.table().is_no_op(op.data(), x, inputs); }

std::optional<std::vector<int64_t>> take_untransposed(Op& op, std::span<const int64_t> perm, size_t inputs) {
  return op.table().take_untransposed(op.data(), perm, inputs);
}

std::optional<double> bound_of(const Op& op) { return op.table().bound(op.data()); }

Program* epilogue_of(Op& op) { return op.table().epilogue(op.data()); }

const ops::Conv* conv_of(const Op& op) {
  if (const auto* fused = op.get_if<ops::FusedConv>()) return &fused->conv;
  return op.get_if<ops::Conv>();
}

const ops::Reduce* reduce_of(const Op& op) {
  if (const auto* fused = op.get_if<ops::FusedReduce>()) return &fused->reduce;
  return op.get_if<ops::Reduce>();
}

}  // namespace temper
