// SPDX-License-Identifier: Apache-2.0
// Op holds one op of any kind. An op is a plain struct held to the concept below, so that a missing member is a compile
// error. THE op list stands in op.cc; this file and graph.h know no op, so that who uses one includes its header alone.
#pragma once
#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "graph/flow.h"
#include "graph/infer.h"
#include "graph/op_kind.h"
#include "graph/program.h"

namespace temper {

class BatchedNode;
class NarrowNode;
struct NarrowForm;
struct OnnxForm;
struct Operations;

namespace ops {
struct Conv;
struct Reduce;
}  // namespace ops

template <class T>
concept OpStruct = std::equality_comparable<T> && std::default_initializable<T> &&
                   requires(const T op, const InferContext& context, std::span<const Tensor> inputs,
                            std::span<const TensorType> types) {
                     { T::name } -> std::convertible_to<std::string_view>;
                     { T::op_kind } -> std::convertible_to<OpKind>;
                     {
                       T::fields(op, [](std::string_view, const auto&) {})
                     };
                     { op.infer(context) } -> std::same_as<std::vector<TensorType>>;
                     { op.reference(inputs, types) } -> std::same_as<std::vector<Tensor>>;
                   };

// The functions of one kind of op. An op that op.cc does not list has none: a program that uses it does not link.
struct OpTable;
template <class T>
const OpTable& op_table();

// A value: copies are deep, equal ops have equal fields. An Op that was made without a struct, or moved from, is empty:
// it is no op of any kind, and the functions below must not be called with it.
class Op {
 public:
  Op() = default;
  template <class T>
    requires requires { T::name; }
  Op(T op) : table_(&op_table<T>()), op_(new T(std::move(op))) {}  // NOLINT: implicit on purpose
  Op(const Op& other);
  Op(Op&& other) noexcept : table_(std::exchange(other.table_, nullptr)), op_(std::exchange(other.op_, nullptr)) {}
  Op& operator=(Op other) noexcept {
    std::swap(table_, other.table_);
    std::swap(op_, other.op_);
    return *this;
  }
  ~Op();
  bool operator==(const Op& other) const;

  // Whether it is one of these; a declaration of T is enough.
  template <class... Ts>
  bool is() const {
    return ((table_ == &op_table<Ts>()) || ...);
  }
  // The struct, null where the op is of another kind.
  template <class T>
  const T* get_if() const {
    return is<T>() ? static_cast<const T*>(op_) : nullptr;
  }
  template <class T>
  T* get_if() {
    return is<T>() ? static_cast<T*>(op_) : nullptr;
  }
  // The struct; throws std::logic_error where the op is of another kind.
  template <class T>
  const T& get() const {
    if (!is<T>()) throw_other_kind();
    return *static_cast<const T*>(op_);
  }
  template <class T>
  T& get() {
    if (!is<T>()) throw_other_kind();
    return *static_cast<T*>(op_);
  }

  const OpTable& table() const;  // throws std::logic_error for an empty op
  const void* data() const { return op_; }
  void* data() { return op_; }

 private:
  const OpTable* table_ = nullptr;
  void* op_ = nullptr;
  [[noreturn]] void throw_other_kind() const;
};

// One of each kind, as it is by default, in the order of the list.
std::vector<Op> all_ops();
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
// Changes the dimensions in the op's fields.
void change_dims(Op& op, const std::function<void(Dim&)>& change);
// Replaces bound symbols in them.
void substitute(Op& op, const Bindings& bindings);
OpKind kind_of(const Op& op);

// ---- traits ----
// Traits: what an op says of itself. One that says nothing gets what is right for any op; a member of such a name
// with another signature does not compile.

// Whether each slice of the batched inputs along axis 0 gives that slice of every output. An op says so with
//   bool sliceable(const BatchedNode&) const;
// without it, the op runs on the whole batch.
bool sliceable(const Op& op, const BatchedNode& node);
// Adapts fields that name the size of the batch, for the op of `samples` samples: void take_slice(int64_t samples).
void take_slice(Op& op, int64_t samples);
// The arithmetic of a problem with these concrete types (graph/operations.h). An op says it with
//   Operations operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
// without it, nothing: as of softmax and the like, which are bound by memory or by exp().
std::optional<Operations> operations_of(const Op& op, std::span<const TensorType> inputs,
                                        std::span<const TensorType> outputs);
// About how many scalar steps its reference takes on these concrete types, for who judges whether a node of constants
// is computed at once. An op whose fields or whose inner axes make that more than its tensors have elements must say
// it:
//   double reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
// without it, it is as many as they have.
double reference_cost(const Op& op, std::span<const TensorType> inputs, std::span<const TensorType> outputs);
// How it takes part where a graph computes in a narrower float (graph/narrow.h). An op says it with
//   NarrowForm narrow_form(const NarrowNode& node) const;
// without it, it computes on f32.
NarrowForm narrow_form(const Op& op, const NarrowNode& node);
// How the elements of its first output depend on those of an input. An op says it with
//   Flow flow(size_t input) const;
// without it, they are computed.
Flow flow_of(const Op& op, size_t input);
// Whether its one output has the elements of input 0, of type x, in the same row-major order. An op says it with
//   bool is_no_op(const TensorType& x, size_t inputs) const;
// of a node with so many inputs; without it, it does not.
bool is_no_op(const Op& op, const TensorType& x, size_t inputs);
// Moves a transpose from before the op to behind it: adapts the fields to an input whose axis perm[i] is axis i of the
// present one, and gives the permutation that makes the present output of the new one. An op does so with
//   std::optional<std::vector<int64_t>> take_untransposed(std::span<const int64_t> perm, size_t inputs);
// where every input whose flow is not computed comes through that transpose and there are so many inputs in all;
// nothing, with the op as it was, where it cannot, and without it.
std::optional<std::vector<int64_t>> take_untransposed(Op& op, std::span<const int64_t> perm, size_t inputs);
// The largest |x| that its output can hold, whatever its inputs are. An op says it with
//   std::optional<double> bound() const;
// without it, there is none.
std::optional<double> bound_of(const Op& op);
// The ONNX node that it is, as data (graph/onnx_form.h). An op says it with
//   OnnxForm onnx_form() const;
// without it, a function in onnx/write_ops.cc must write it.
std::optional<OnnxForm> onnx_form(const Op& op);

// The op's epilogue, null where the op has none. Its extra inputs are the node's last `epilogue->inputs - 1` inputs.
Program* epilogue_of(Op& op);
inline const Program* epilogue_of(const Op& op) { return epilogue_of(const_cast<Op&>(op)); }
// The convolution or reduction that the op is, alone or fused with its neighbours; null where it is none.
const ops::Conv* conv_of(const Op& op);
const ops::Reduce* reduce_of(const Op& op);

}  // namespace temper
