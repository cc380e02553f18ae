// SPDX-License-Identifier: Apache-2.0
// Work along rows between two programs: THREADS threads, a power of two, share a row. Where HELD, each holds ITEMS
// vectors of V neighbours of it in registers, so that the row crosses the memory once; else V is 1 and each pass reads
// it again. LOOP: blocks go from row to row, and the next row is loaded while this one is computed. FULL: threads have
// all of their vectors. FIXED_HELD: what the epilogue reads that all rows have in common stays in registers; EARLY: it
// is constant, and is loaded while the previous kernel ends. Generated before this text (row_programs.cc): those
// constants, BLOCK, LEAST (blocks of an SM), ALIGNED (rows begin at multiples of V elements), KEPT (axes between rows),
// REDUCED (axes within a row), OPERANDS (tensors that are walked), Index, Value (what is computed with), PARAMETERS and
// ROW_TENSORS; behind it: what is declared below.
#pragma once
#include "backends/cuda/rows/row_sums.cuh"

struct RowParameters {
  u64 rows, n;
  u32 backwards;   // the last row comes first
  double inverse;  // 1 / n
  double number;   // what the op needs beside: epsilon
  float inverse_f32, number_f32;
  Walk<KEPT, OPERANDS> kept;
  Walk<REDUCED, OPERANDS> reduced;
  NUMBERS
};

// How a tensor lies along a row.
constexpr int kRow = 0;      // element after element, as the input of the row does
constexpr int kVector = 1;   // V neighbours lie beside each other
constexpr int kSplat = 2;    // V neighbours are one element
constexpr int kUniform = 3;  // the row is one element
constexpr int kBeside = 4;   // V neighbours lie beside each other, but do not begin where vectors may
constexpr int kEach = 5;     // every element by itself

template <int OPERAND>
DEVICE i64 offset_in_row(const RowParameters& p, i64 j) {
  if constexpr (REDUCED == 0) return 0;
  else if constexpr (REDUCED == 1) return j * p.reduced.strides[OPERAND][0];
  else {
    i64 offsets[OPERANDS];
    walk_offsets<REDUCED, OPERANDS>(p.reduced, Index(j), offsets);
    return offsets[OPERAND];
  }
}

// Elements first..first+V-1 of a row; those that the row does not have are zero. `whole`: it has all of them.
template <int ACCESS, int OPERAND, class T>
DEVICE Vec<T, V> load_of_row(const RowParameters& p, const T* row, i64 first, bool whole) {
  if constexpr (ACCESS == kUniform) return load_splat<V>(row);
  if constexpr (ACCESS == kRow)
    if (whole) return load_vector<V>(row + first);
  if constexpr (ACCESS == kVector)
    if (whole) return load_vector<V>(row + offset_in_row<OPERAND>(p, first));
  if constexpr (ACCESS == kSplat)
    if (whole) return load_splat<V>(row + offset_in_row<OPERAND>(p, first));
  Vec<T, V> r;
#pragma unroll
  for (int k = 0; k < V; ++k) {
    r.at[k] = T{};
    if (whole || u32(first + k) < u32(p.n)) {  // a part of a row has few elements
      if constexpr (ACCESS == kRow || ACCESS == kBeside) r.at[k] = row[first + k];
      else r.at[k] = row[offset_in_row<OPERAND>(p, first + k)];
    }
  }
  return r;
}
template <int ACCESS, int OPERAND, class T>
DEVICE void store_to_row(const RowParameters& p, T* row, i64 first, bool whole, const Vec<T, V>& x) {
  if constexpr (ACCESS == kRow)
    if (whole) {
      if constexpr (sizeof x == 16) {
        const u32* const words = reinterpret_cast<const u32*>(&x);
        return store_words(row + first, words[0], words[1], words[2], words[3]);
      } else {
        return store_vector(row + first, x);
      }
    }
#pragma unroll
  for (int k = 0; k < V; ++k)
    if (whole || u32(first + k) < u32(p.n))
      row[ACCESS == kRow ? first + k : offset_in_row<OPERAND>(p, first + k)] = x.at[k];
}

// Generated: struct RowTensors with a pointer for each tensor; Given, what the prologue reads of V elements; Fixed,
// what the epilogue reads and all rows have in common; and
//   moved(tensors, at, row)                       row number `row`, whose elements begin so far behind the tensors' own
//   read_given(p, row, first, whole, given)
//   take_given(p, given, x)                          V values behind the prologue
//   read_fixed(p, row, first, whole, fixed)
//   write_row(p, row, first, whole, fixed, x, y)  the results of y, which was made of x
struct RowTensors;
struct Given;
struct Fixed;
DEVICE RowTensors moved(const RowTensors& tensors, const i64 (&at)[OPERANDS], Index row);
DEVICE void read_given(const RowParameters& p, const RowTensors& row, i64 first, bool whole, Given& given);
DEVICE void take_given(const RowParameters& p, const Given& given, Value (&x)[V]);
DEVICE void read_fixed(const RowParameters& p, const RowTensors& row, i64 first, bool whole, Fixed& fixed);
DEVICE void write_row(const RowParameters& p, const RowTensors& row, i64 first, bool whole, const Fixed& fixed,
                      const Value (&x)[V], const Value (&y)[V]);
