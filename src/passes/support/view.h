// SPDX-License-Identifier: Apache-2.0
// A value as what it shows of another one, through transposes, reshapes and slices: the axes of that base are cut into
// atoms, and each axis of the view is a list of atoms, outermost first. So the transposes between two values are known
// however exporters wrote them, and what is left of them is written anew.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace temper {

class View {
 public:
  // Walks back from `value` as long as what makes it only moves elements. Where `factor` is given, products with a
  // number are passed, too, and the number is multiplied into it; one that also changes the dtype is written anew, on
  // the base.
  View(const Graph& graph, ValueId value, double* factor = nullptr);

  ValueId base() const { return base_; }
  Shape shape() const;
  void transpose(const std::vector<int64_t>& perm);
  // The same elements in another shape; false, and the view may be spoiled, where an axis would cut an atom that is not
  // known to divide.
  bool reshape(const Shape& to);
  // How many of the axes before the last two, taken from the right, lie behind the last but one in the base: what is
  // in front of positions in the view, and behind them in memory, as heads are. In atoms of more than one element.
  std::vector<Dim> behind_positions() const;
  // Where the base is a broadcast along one axis, which the view shows whole as the innermost of the axes before the
  // last two: the view of what is broadcast, without those repeats. False: it is not, and the view is as it was.
  bool drop_repeats(const Graph& graph);
  // Writes the view: at most a slice, a reshape, a transpose and a reshape, and the base itself where it is that.
  ValueId write(Graph& graph, const std::string& name) const;

 private:
  struct Atom {
    Dim size, start, taken;  // of `size` elements the view shows `taken` from `start` on
  };
  ValueId base_;
  std::optional<Program> of_base_;  // what the view shows of each element of the base, where that is not the element
  std::vector<Atom> atoms_;
  std::vector<std::vector<int>> base_axes_, axes_;

  void begin(const Graph& graph, ValueId value);
  void walk(const Graph& graph, ValueId value, double* factor, int depth);
  bool slice(const std::vector<Dim>& starts, const std::vector<Dim>& sizes);
  bool is_one(int atom) const { return atoms_[size_t(atom)].taken == Dim(1); }
  std::vector<int> order_of(const std::vector<std::vector<int>>& axes) const;  // without those of one element
};

}  // namespace temper
