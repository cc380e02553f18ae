// SPDX-License-Identifier: Apache-2.0
// A vector of small plain elements of which the first few need no allocation: graphs have millions of lists of one or
// two.
#pragma once
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace temper {

template <class T, uint32_t kInside>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  using value_type = T;

  InlineVector() = default;
  InlineVector(std::initializer_list<T> from) { assign(from.begin(), from.end()); }
  InlineVector(const std::vector<T>& from) { assign(from.begin(), from.end()); }  // NOLINT: implicit on purpose
  InlineVector(const InlineVector& from) { assign(from.begin(), from.end()); }
  InlineVector(InlineVector&& from) noexcept { swap(from); }
  InlineVector& operator=(InlineVector from) noexcept {
    swap(from);
    return *this;
  }
  ~InlineVector() {
    if (capacity_ > kInside) delete[] elements_.outside;
  }
  operator std::vector<T>() const {
    return {begin(), end()};
  }  // NOLINT: implicit on purpose, what edits a list has one

  const T* begin() const { return capacity_ > kInside ? elements_.outside : elements_.inside; }
  const T* end() const { return begin() + size_; }
  T* begin() { return capacity_ > kInside ? elements_.outside : elements_.inside; }
  T* end() { return begin() + size_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T& operator[](size_t i) const { return begin()[i]; }
  T& operator[](size_t i) { return begin()[i]; }
  const T& at(size_t i) const {
    if (i >= size_) throw std::out_of_range("InlineVector");
    return begin()[i];
  }
  const T& front() const { return *begin(); }
  const T& back() const { return end()[-1]; }

  void push_back(T element) {
    if (size_ == capacity_) reserve(2 * size_t(size_));
    begin()[size_++] = element;
  }
  // Erases the elements from `first` to before `last`.
  void erase(T* first, T* last) { size_ = uint32_t(std::copy(last, end(), first) - begin()); }
  void clear() { size_ = 0; }

  bool operator==(const InlineVector& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

 private:
  uint32_t size_ = 0, capacity_ = kInside;
  union Elements {
    Elements() : outside(nullptr) {}
    T inside[kInside];
    T* outside;
  } elements_;

  void swap(InlineVector& other) noexcept {
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    std::swap(elements_, other.elements_);
  }
  void reserve(size_t capacity) {
    if (capacity <= capacity_) return;
    if (capacity > UINT32_MAX) throw std::length_error("InlineVector");
    T* const larger = new T[capacity];
    std::copy(begin(), end(), larger);
    if (capacity_ > kInside) delete[] elements_.outside;
    elements_.outside = larger;
    capacity_ = uint32_t(capacity);
  }
  template <class Iterator>
  void assign(Iterator first, Iterator last) {
    reserve(size_t(last - first));
    std::copy(first, last, begin());
    size_ = uint32_t(last - first);
  }
};

}  // namespace temper
