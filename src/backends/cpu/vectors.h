// SPDX-License-Identifier: Apache-2.0
// Vectors of a given width, for kernels that are written in them once for each instruction set, and how they come from
// memory and go there.
#pragma once
#include <cstdint>
#include <cstring>

namespace temper {

// w elements, for variables and for memory that lies on a multiple of the vector's size, whatever its type. Memory that
// may lie anywhere is read and written with load() and store(): a type that says aligned(4) is none for variables, of
// which GCC knows that it placed them well only while they are in registers.
template <int64_t w, class E = float>
struct VectorOf {
  typedef E Type __attribute__((vector_size(w * sizeof(E)), may_alias));
};

// At any address. Vectors go by reference: as arguments they have another ABI on each instruction set.
template <class Vector>
inline void load(const void* from, Vector& to) {
  std::memcpy(&to, from, sizeof to);
}
template <class Vector>
inline void store(const Vector& from, void* to) {
  std::memcpy(to, &from, sizeof from);
}

}  // namespace temper
