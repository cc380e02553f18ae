// SPDX-License-Identifier: Apache-2.0
#include "graph/tensor.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/memory.h"
#include "base/small_types.h"
#include "base/threads.h"

namespace temper {

bool TensorType::is_concrete() const {
  for (const Dim& dim : shape)
    if (!dim.is_constant()) return false;
  return true;
}

Dims TensorType::dims() const {
  Dims dims;
  for (const Dim& dim : shape) dims.push_back(dim.value());
  return dims;
}

std::string TensorType::text() const { return concat(dtype, shape); }

TensorType TensorType::parse(std::string_view text) {
  const auto open = text.find('[');
  auto dtype = dtype_from_name(text.substr(0, open));
  if (open == text.npos || text.back() != ']' || !dtype)
    fail(ErrorKind::bad_file, "not a tensor type: '", text.substr(0, 80), "'");
  TensorType type{*dtype, {}};
  text = text.substr(open + 1, text.size() - open - 2);
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= text.size() && !text.empty(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      type.shape.push_back(Dim::parse(text.substr(start, i - start)));
      start = i + 1;
    } else if (text[i] == '(') ++depth;
    else if (text[i] == ')') --depth;
  }
  return type;
}

int64_t element_count(const Dims& dims) {
  int64_t count = 1;
  bool empty = false;
  for (int64_t dim : dims) {
    if (dim < 0) fail(ErrorKind::bad_file, "a negative dimension in ", dims);
    if (dim == 0) empty = true;
    else count = checked_mul(count, dim);
  }
  return empty ? 0 : count;
}

int64_t byte_count(DType dtype, const Dims& dims) {
  const int64_t bytes = checked_mul(element_count(dims), size_of(dtype));
  if (bytes > kMaxTensorBytes)
    fail(ErrorKind::machine, "a tensor ", dtype, dims, " of ", format_bytes(double(bytes)), "; the limit is ",
         format_bytes(double(kMaxTensorBytes)));
  return bytes;
}

Dims row_major_strides(const Dims& dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

TensorType type_of(DType dtype, const Dims& dims) { return {dtype, Shape(dims.begin(), dims.end())}; }

Tensor::Tensor(DType dtype, Dims dims) : dtype_(dtype), dims_(std::move(dims)), count_(element_count(dims_)) {
  const size_t size = size_t(round_up<int64_t>(std::max<int64_t>(byte_count(dtype, dims_), 1), 64));
  check_free_memory(int64_t(size), "a tensor needs");
  // Zeros that come from the system as such are not written once more.
  void* memory = std::calloc(size + 64, 1);
  if (!memory) fail(ErrorKind::machine, "out of memory: ", format_bytes(double(size)), " for a tensor ", dtype, dims_);
  owner_ = std::shared_ptr<const void>(memory, [](const void* p) { std::free(const_cast<void*>(p)); });
  data_ = static_cast<std::byte*>(memory) + (64 - reinterpret_cast<uintptr_t>(memory) % 64);
}

Tensor Tensor::view(DType dtype, Dims dims, const void* data, std::shared_ptr<const void> owner) {
  static std::byte empty;  // a zero-element tensor is still defined
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.dims_ = std::move(dims);
  byte_count(dtype, tensor.dims_);
  tensor.count_ = element_count(tensor.dims_);
  tensor.data_ = data ? static_cast<std::byte*>(const_cast<void*>(data)) : &empty;
  tensor.owner_ = std::move(owner);
  return tensor;
}

Tensor Tensor::reshaped(Dims dims) const {
  if (element_count(dims) != count_) fail(ErrorKind::bad_file, "a tensor ", dims_, " cannot be reshaped to ", dims);
  Tensor result = *this;
  result.dims_ = std::move(dims);
  return result;
}

Tensor Tensor::with_bits_as(DType dtype) const {
  if (size_of(dtype) != size_of(dtype_)) fail(ErrorKind::usage, "a tensor of ", dtype_, " has no bits of ", dtype);
  Tensor result = *this;
  result.dtype_ = dtype;
  return result;
}

// to[0..n) of the dtype To.
template <class W, class To>
static void narrow_all(const W* from, std::byte* to, int64_t n) {
  To* const out = reinterpret_cast<To*>(to);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<To, bool>) out[i] = from[i] != 0;
    else out[i] = static_cast<To>(from[i]);
  }
}

Tensor Tensor::converted(DType dtype) const {
  if (dtype == dtype_) return *this;
  if (dtype_ == DType::string) fail(ErrorKind::unsupported, "numbers are needed where strings were given");
  if (is_stored_only(dtype_)) {
    Tensor values(DType::f32, dims_);
    const auto* codes = reinterpret_cast<const uint8_t*>(data_);
    for (int64_t i = 0; i < count_; ++i) values.data<float>()[i] = value_of_code(dtype_, codes[i]);
    return values.converted(dtype);
  }
  Tensor result(dtype, dims_);
  // By way of the widest type of the kind, some elements at a time: a loop for each dtype and one for each that such a
  // type becomes, not one for each pair of dtypes.
  constexpr int64_t kBlock = 512;
  const int64_t size = size_of(dtype);
  visit_dtype(dtype_, [&]<class From>() {
    using W = Wide<From>;
    void (*narrow)(const W*, std::byte*, int64_t) = nullptr;
    visit_dtype(dtype, [&]<class To>() { narrow = &narrow_all<W, To>; });
    const From* from = data<From>();
    parallel_for(count_, int64_t(1) << 16, [&](int64_t begin, int64_t end) {
      W wide[kBlock];
      for (int64_t first = begin; first < end; first += kBlock) {
        const int64_t n = std::min(kBlock, end - first);
        for (int64_t i = 0; i < n; ++i) wide[i] = static_cast<W>(from[first + i]);
        narrow(wide, result.data_ + first * size, n);
      }
    });
  });
  return result;
}

std::vector<int64_t> Tensor::to_ints() const {
  if (is_small_int(dtype_)) return converted(DType::i8).to_ints();
  if (is_float(dtype_) || is_stored_only(dtype_))
    fail(ErrorKind::bad_file, "integers are needed where a tensor of ", dtype_, " was given");
  std::vector<int64_t> values(static_cast<size_t>(count_));
  visit_dtype(dtype_, [&]<class T>() {
    for (int64_t i = 0; i < count_; ++i) values[size_t(i)] = static_cast<int64_t>(data<T>()[i]);
  });
  return values;
}

std::vector<double> Tensor::to_doubles() const {
  if (is_stored_only(dtype_)) return converted(DType::f64).to_doubles();
  std::vector<double> values(static_cast<size_t>(count_));
  visit_dtype(dtype_, [&]<class T>() {
    for (int64_t i = 0; i < count_; ++i) values[size_t(i)] = static_cast<double>(data<T>()[i]);
  });
  return values;
}

bool Tensor::same_bits(const Tensor& other) const {
  return dtype_ == other.dtype_ && dims_ == other.dims_ && std::memcmp(data_, other.data_, size_t(bytes())) == 0;
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  const Shape &longer = a.size() >= b.size() ? a : b, &shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  const size_t skip = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    const Dim &x = longer[skip + i], &y = shorter[i];
    Dim& out = result[skip + i];
    if (x == y || y == Dim(1)) continue;
    if (x == Dim(1)) out = y;
    else if (x.is_constant() && y.is_constant())
      fail(ErrorKind::bad_file, "shapes ", a, " and ", b, " cannot be broadcast together");
    else if (x.is_constant() || y.is_constant()) out = x.is_constant() ? x : y;  // the other one is it or 1
    else out = dim_max(x, y);
  }
  return result;
}

Dims broadcast_strides(const Dims& from, const Dims& to) {
  if (from.size() > to.size()) fail(ErrorKind::bad_file, "a tensor ", from, " cannot be broadcast to ", to);
  Dims strides(to.size(), 0);
  const Dims own = row_major_strides(from);
  for (size_t i = 0; i < from.size(); ++i) {
    const size_t axis = to.size() - from.size() + i;
    if (from[i] == to[axis]) strides[axis] = from[i] == 1 ? 0 : own[i];
    else if (from[i] != 1) fail(ErrorKind::bad_file, "a tensor ", from, " cannot be broadcast to ", to);
  }
  return strides;
}

int64_t normalize_axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    fail(ErrorKind::bad_file, "axis ", axis, " does not exist in a tensor of rank ", rank);
  return axis < 0 ? axis + rank : axis;
}

}  // namespace temper
