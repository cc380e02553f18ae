// SPDX-License-Identifier: Apache-2.0
// TensorType: what is known of a value. Tensor: a concrete array in row-major order. The graph knows no other layout.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dim.h"
#include "base/dtype.h"

namespace temper {

constexpr int64_t kMaxRank = 64;  // of a value in a graph

struct TensorType {
  DType dtype = DType::f32;
  Shape shape;

  int64_t rank() const { return int64_t(shape.size()); }
  bool is_concrete() const;
  Dims dims() const;                               // throws Error{unsupported} where a dimension is still symbolic
  std::string text() const;                        // "f32[batch,3,224,224]"
  static TensorType parse(std::string_view text);  // throws Error{bad_file}
  bool operator==(const TensorType&) const = default;
};
inline void append(std::string& out, const TensorType& type) { out += type.text(); }

// Number of elements / bytes; throws Error{bad_file} on overflow, on a negative dimension and above kMaxTensorBytes.
constexpr int64_t kMaxTensorBytes = int64_t(1) << 40;
int64_t element_count(const Dims& dims);
inline int64_t element_count(const TensorType& type) { return element_count(type.dims()); }
int64_t byte_count(DType dtype, const Dims& dims);
Dims row_major_strides(const Dims& dims);  // in elements
TensorType type_of(DType dtype, const Dims& dims);

// A copy shares its storage with the original. A default-constructed Tensor stands for an absent optional input.
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, Dims dims);  // 64-byte aligned, zero-filled
  // Looks at memory that `owner` keeps alive (null: the caller does). Never writes to it unless the caller does.
  static Tensor view(DType dtype, Dims dims, const void* data, std::shared_ptr<const void> owner = nullptr);
  template <class T>
  static Tensor of(Dims dims, const std::vector<T>& values) {
    Tensor tensor(dtype_of<T>, std::move(dims));
    if (int64_t(values.size()) != tensor.count()) fail(ErrorKind::bad_file, "Tensor::of: wrong number of values");
    for (size_t i = 0; i < values.size(); ++i) tensor.data<T>()[i] = values[i];
    return tensor;
  }

  bool defined() const { return data_ != nullptr; }
  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  int64_t rank() const { return int64_t(dims_.size()); }
  int64_t count() const { return count_; }
  int64_t bytes() const { return count_ * size_of(dtype_); }
  TensorType type() const { return type_of(dtype_, dims_); }
  std::span<const std::byte> raw() const { return {data_, size_t(bytes())}; }
  std::byte* raw_mutable() { return data_; }

  template <class T>
  T* data() {
    check(dtype_of<T>);
    return reinterpret_cast<T*>(data_);
  }
  template <class T>
  const T* data() const {
    check(dtype_of<T>);
    return reinterpret_cast<const T*>(data_);
  }

  Tensor reshaped(Dims dims) const;  // shares storage; the element count must agree
  // Shares storage: the same bytes as elements of another type of that size.
  Tensor with_bits_as(DType dtype) const;
  // Converts each element with static_cast through Wide<T>; bool becomes 0/1, non-zero becomes true. Not to types that
  // are stored only.
  Tensor converted(DType dtype) const;
  std::vector<int64_t> to_ints() const;    // any integer or bool dtype, stored ones too; throws otherwise
  std::vector<double> to_doubles() const;  // any dtype
  bool same_bits(const Tensor& other) const;

 private:
  void check(DType wanted) const {
    if (dtype_ != wanted) fail(ErrorKind::usage, "a tensor of ", dtype_, " was read as ", wanted);
  }
  DType dtype_ = DType::f32;
  Dims dims_;
  int64_t count_ = 0;
  std::byte* data_ = nullptr;
  std::shared_ptr<const void> owner_;
};

// Calls f(multi_index, linear_index) for each element in row-major order.
template <class F>
void for_each_index(const Dims& dims, F&& f) {
  const int64_t count = element_count(dims);
  Dims index(dims.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    f(static_cast<const Dims&>(index), i);
    for (size_t axis = dims.size(); axis-- > 0;) {
      if (++index[axis] < dims[axis]) break;
      index[axis] = 0;
    }
  }
}

// numpy broadcasting of symbolic shapes; throws Error{bad_file} where they contradict.
Shape broadcast_shapes(const Shape& a, const Shape& b);
// Strides (elements) that read `from` as if it had the shape `to`; 0 on broadcast axes.
Dims broadcast_strides(const Dims& from, const Dims& to);
// -rank <= axis < rank, or Error{bad_file}; returns 0 <= axis < rank.
int64_t normalize_axis(int64_t axis, int64_t rank);

}  // namespace temper
