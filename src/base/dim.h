// SPDX-License-Identifier: Apache-2.0
// A dimension: an integer, or an expression over named symbols ("batch", "2*H+1", "floor((H-1)/2)+1").
// One representation for both. Expressions are kept in a canonical form, a sum of products of atoms, so that two
// dimensions that were computed in different ways compare equal whenever the algebra below can show it.
#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace temper {

using Bindings = std::map<std::string, int64_t, std::less<>>;  // symbol -> value

class Dim {
 public:
  Dim(int64_t value = 0) : constant_(value) {}  // NOLINT: implicit on purpose, an integer is a dimension
  static Dim symbol(std::string_view name);     // letters, digits, '_', '.', '$'; not starting with a digit
  static Dim parse(std::string_view text);      // the inverse of text(); throws Error{bad_file}

  bool is_constant() const { return !terms_; }
  int64_t value() const {
    if (terms_) fail(ErrorKind::unsupported, "the dimension '", text(), "' is not known yet");
    return constant_;
  }
  bool is_symbol() const;  // a single name, no expression
  std::string text() const;
  // Replaces bound symbols. Unbound ones stay.
  Dim substitute(const Bindings& bindings) const;
  // Puts `with` in the place of `what`, which is a symbol, or one floor, max or min, as deep as there are such. Where
  // `with` is a sum, it takes the place of whole terms alone: the products that hold `what` stay as they are.
  Dim replace(const Dim& what, const Dim& with) const;
  // Provable for sizes: symbols stand for sizes, which are never negative.
  bool is_non_negative() const;
  void collect_symbols(std::vector<std::string>& out) const;  // each once, in order of appearance

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b) { return a + b * Dim(-1); }
  friend Dim operator*(const Dim& a, const Dim& b);
  friend bool operator==(const Dim& a, const Dim& b);

  // Rounds towards minus infinity. Exact where the division leaves no rest for any value of the symbols.
  friend Dim floor_div(const Dim& a, const Dim& b);
  friend Dim dim_max(const Dim& a, const Dim& b);
  friend Dim dim_min(const Dim& a, const Dim& b);

 private:
  struct Atom;   // a symbol or floor/max/min of two dimensions
  struct Terms;  // sum of coefficient * product of atoms
  int64_t constant_ = 0;
  std::shared_ptr<const Terms> terms_;  // null: a plain integer

  static constexpr size_t kMaxFactors = 16;
  static Dim make(int64_t constant, Terms terms);
  static Dim atom(Atom atom);
  const Atom* only_atom() const;  // null where it is more than one
  template <class F>
  Dim map_atoms(const F& f) const;
  template <class F>
  static Dim map_parts(const Atom& atom, const F& f);
  friend struct DimParser;
};

inline Dim ceil_div(const Dim& a, const Dim& b) { return floor_div(a + b - Dim(1), b); }
inline void append(std::string& out, const Dim& dim) { out += dim.text(); }

using Dims = std::vector<int64_t>;  // concrete
using Shape = std::vector<Dim>;     // concrete or symbolic

}  // namespace temper
