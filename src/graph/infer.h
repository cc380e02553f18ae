// SPDX-License-Identifier: Apache-2.0
// The context of inference: what an op may know when it infers its output types.
#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/tensor.h"

namespace temper {

// The elements of a small integer or bool tensor in row-major order, as far as they follow from shapes: constants and
// shape arithmetic.
using Contents = std::vector<Dim>;
constexpr int64_t kMaxContents = 64;  // elements; longer integer tensors are data, not shapes

struct Operand {
  const TensorType* type = nullptr;    // null: an optional input that is absent
  const Tensor* constant = nullptr;    // null: not a constant
  const Contents* contents = nullptr;  // null: not known
};

class InferContext {
 public:
  InferContext(std::span<const Operand> operands, std::string_view node_name) : operands_(operands), name_(node_name) {}

  InferContext first(size_t count) const { return {operands_.first(count), name_}; }
  size_t size() const { return operands_.size(); }
  bool has(size_t i) const { return i < operands_.size() && operands_[i].type; }
  // The type of input i; throws Error{bad_file} when it is absent.
  const TensorType& type(size_t i) const {
    if (!has(i)) fail(ErrorKind::bad_file, "input ", i, " is missing");
    return *operands_[i].type;
  }
  const Tensor* constant(size_t i) const { return i < operands_.size() ? operands_[i].constant : nullptr; }
  // Elements of an integer input, null when they depend on data.
  const Contents* contents(size_t i) const { return i < operands_.size() ? operands_[i].contents : nullptr; }
  // A new symbol for a dimension that only the data decides. When shapes are concrete, such a value ends a stage.
  Dim unknown(int output, int64_t axis) const;
  bool has_unknown() const { return has_unknown_; }  // unknown() was called

  // Checks used by many ops; they throw Error{bad_file} with the input's number and type.
  void expect_inputs(size_t least, size_t most) const;
  void expect_rank(size_t i, int64_t least, int64_t most = kMaxRank) const;
  void expect_same_dtype(size_t i, size_t j) const;

 private:
  std::span<const Operand> operands_;
  std::string_view name_;
  mutable bool has_unknown_ = false;
};

// Operands of concrete tensors (an undefined tensor is an absent input); small integer ones have contents.
class TensorOperands {
 public:
  explicit TensorOperands(std::span<const Tensor> tensors);
  operator std::span<const Operand>() const { return operands_; }  // NOLINT: implicit on purpose

 private:
  std::vector<TensorType> types_;
  std::vector<Contents> contents_;
  std::vector<Operand> operands_;
};

// The dtypes whose small tensors have contents.
constexpr bool has_contents(DType dtype) {
  return dtype == DType::i64 || dtype == DType::i32 || dtype == DType::boolean;
}

// A node's name in the symbols of its unknown dimensions.
std::string symbol_of(std::string_view node_name);
// Dimensions that only the data decided are known once the real tensor is there: binds the symbols of its type.
void bind_unknown(const TensorType& type, const Dims& dims, Bindings& bindings);

}  // namespace temper
