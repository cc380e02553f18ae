// SPDX-License-Identifier: Apache-2.0
#include "passes/support/view.h"

#include <algorithm>
#include <cmath>

#include "graph/ops/broadcast.h"
#include "graph/ops/gather.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reshape.h"
#include "graph/ops/slice.h"
#include "graph/ops/transpose.h"

namespace temper {

namespace {

constexpr int kDeepest = 32;  // of what is walked back

// The number that a program of one input multiplies with; nothing where it does something else. Casts between floats
// may stand around the product: what they round is then not rounded.
std::optional<double> factor_of(const Node& node) {
  const auto* op = node.op.get_if<ops::Pointwise>();
  if (!op || node.inputs.size() != 1 || op->program.inputs != 1) return std::nullopt;
  const std::vector<Step>& steps = op->program.steps;
  double factor = 1;
  int value = 0;  // what is the input times the factor
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    if (!is_float(step.dtype)) return std::nullopt;
    if (step.op == Scalar::constant) continue;
    if (step.op == Scalar::mul && (step.args[0] == value || step.args[1] == value)) {
      const int other = step.args[0] == value ? step.args[1] : step.args[0];
      if (other < 1 || steps[size_t(other - 1)].op != Scalar::constant) return std::nullopt;
      factor *= steps[size_t(other - 1)].number;
    } else if (step.op != Scalar::cast || step.args[0] != value) {
      return std::nullopt;
    }
    value = int(i) + 1;
  }
  const bool is_result = value == int(steps.size());
  return is_result && std::isfinite(factor) && factor != 0 ? std::optional(factor) : std::nullopt;
}

// The one element of an axis that a gather with a constant index takes, without the axis.
std::optional<int64_t> picked(const Graph& graph, const Node& node) {
  const auto* op = node.op.get_if<ops::Gather>();
  if (!op || op->kind != ops::GatherKind::axis || node.inputs.size() != 2) return std::nullopt;
  const Tensor* index = graph.constant(node.inputs[1]);
  const Dim& size = graph.type(node.inputs[0]).shape[size_t(op->axis)];
  if (!index || index->rank() != 0 || !size.is_constant()) return std::nullopt;
  const int64_t at = index->to_ints()[0];
  if (at < -size.value() || at >= size.value()) return std::nullopt;  // an error of the run
  return ops::resolve_index(at, size.value());
}

}  // namespace

View::View(const Graph& graph, ValueId value, double* factor) { walk(graph, value, factor, 0); }

void View::begin(const Graph& graph, ValueId value) {
  base_ = value;
  of_base_.reset();
  atoms_.clear(), base_axes_.clear();
  for (const Dim& size : graph.type(value).shape) {
    base_axes_.push_back({int(atoms_.size())});
    atoms_.push_back({size, 0, size});
  }
  axes_ = base_axes_;
}

void View::walk(const Graph& graph, ValueId value, double* factor, int depth) {
  const Node* node = graph.producer(value);
  if (!node || depth == kDeepest) return begin(graph, value);
  const ValueId from = node->inputs[0];
  if (const auto index = picked(graph, *node)) {
    walk(graph, from, factor, depth + 1);
    Shape starts(axes_.size(), Dim(0)), sizes = shape();
    const size_t axis = size_t(node->op.get<ops::Gather>().axis);
    starts[axis] = *index, sizes[axis] = 1;
    if (!slice(starts, sizes) || !reshape(graph.type(value).shape)) begin(graph, value);
    return;
  }
  if (node->inputs.size() != 1) return begin(graph, value);
  if (const auto* moved = node->op.get_if<ops::Transpose>()) {
    walk(graph, from, factor, depth + 1);
    transpose(moved->perm);
  } else if (node->op.is<ops::Reshape>()) {
    walk(graph, from, factor, depth + 1);
    if (!reshape(graph.type(value).shape)) begin(graph, value);
  } else if (const auto* cut = node->op.get_if<ops::Slice>()) {
    walk(graph, from, factor, depth + 1);
    const bool forward = std::ranges::all_of(cut->steps, [](int64_t step) { return step == 1; });
    if (!forward || !slice(cut->starts, cut->sizes)) begin(graph, value);
  } else if (const auto number = factor ? factor_of(*node) : std::nullopt;
             number && graph.type(from) == graph.type(value)) {
    *factor *= *number;
    walk(graph, from, factor, depth + 1);
  } else if (number && graph.type(from).shape == graph.type(value).shape) {
    // Into another dtype: the base is what is multiplied and rounded, as it was, if all of it is shown.
    walk(graph, from, nullptr, depth + 1);
    const auto whole = [](const Atom& atom) { return atom.taken == atom.size; };
    if (std::ranges::all_of(atoms_, whole)) of_base_ = node->op.get<ops::Pointwise>().program;
    else begin(graph, value);
  } else {
    begin(graph, value);
  }
}

Shape View::shape() const {
  Shape shape;
  for (const auto& axis : axes_) {
    Dim size = 1;
    for (int atom : axis) size = size * atoms_[size_t(atom)].taken;
    shape.push_back(size);
  }
  return shape;
}

void View::transpose(const std::vector<int64_t>& perm) {
  std::vector<std::vector<int>> moved;
  for (int64_t axis : perm) moved.push_back(axes_[size_t(axis)]);
  axes_ = std::move(moved);
}

bool View::slice(const std::vector<Dim>& starts, const std::vector<Dim>& sizes) {
  const Shape before = shape();
  if (starts.size() != before.size() || sizes.size() != before.size()) return false;
  for (size_t i = 0; i < before.size(); ++i) {
    if (sizes[i] == before[i]) continue;
    std::vector<int> larger;
    for (int atom : axes_[i])
      if (!is_one(atom)) larger.push_back(atom);
    if (larger.empty()) return false;
    // Whole pieces of the outermost atom.
    Atom& outer = atoms_[size_t(larger[0])];
    Dim rest = 1;
    for (size_t k = 1; k < larger.size(); ++k) rest = rest * atoms_[size_t(larger[k])].taken;
    if (outer.taken != outer.size || !starts[i].is_constant() || !sizes[i].is_constant() || !rest.is_constant() ||
        rest.value() < 1 || starts[i].value() % rest.value() != 0 || sizes[i].value() % rest.value() != 0)
      return false;
    outer.start = starts[i].value() / rest.value();
    outer.taken = sizes[i].value() / rest.value();
  }
  return true;
}

bool View::reshape(const Shape& to) {
  std::vector<int> left;  // the last is the next
  for (const auto& axis : axes_) left.insert(left.end(), axis.begin(), axis.end());
  std::ranges::reverse(left);
  std::vector<std::vector<int>> result;
  for (const Dim& want : to) {
    std::vector<int> axis;
    Dim have = 1;
    while (have != want) {
      if (left.empty()) return false;
      const int id = left.back();
      left.pop_back();
      const Atom atom = atoms_[size_t(id)];
      if (want.is_constant() && have.is_constant() && atom.taken.is_constant()) {
        if (have.value() < 1 || want.value() % have.value() != 0) return false;
        const int64_t missing = want.value() / have.value(), size = atom.taken.value();
        if (size > missing) {
          if (missing < 1 || size % missing != 0 || !atom.size.is_constant() || !atom.start.is_constant()) return false;
          // The outer part here, the inner one later. What was cut off is whole inner parts.
          const int inner = int(atoms_.size());
          const int64_t each = size / missing;
          if (atom.size.value() % each != 0 || atom.start.value() % each != 0) return false;
          atoms_[size_t(id)] = {atom.size.value() / each, atom.start.value() / each, missing};
          atoms_.push_back({each, 0, each});
          for (auto& base : base_axes_)
            if (const auto at = std::ranges::find(base, id); at != base.end()) {
              base.insert(at + 1, inner);
              break;
            }
          left.push_back(inner);
        }
      }
      axis.push_back(id);
      have = have * atoms_[size_t(id)].taken;
    }
    result.push_back(std::move(axis));
  }
  for (; !left.empty(); left.pop_back()) {
    if (!is_one(left.back())) return false;
    if (!result.empty()) result.back().push_back(left.back());
  }
  axes_ = std::move(result);
  return true;
}

std::vector<int> View::order_of(const std::vector<std::vector<int>>& axes) const {
  std::vector<int> order;
  for (const auto& axis : axes)
    for (int atom : axis)
      if (!is_one(atom)) order.push_back(atom);
  return order;
}

std::vector<Dim> View::behind_positions() const {
  const std::vector<int> order = order_of(base_axes_);
  auto place = [&](int atom) { return std::ranges::find(order, atom) - order.begin(); };
  std::ptrdiff_t positions = -1;
  for (int atom : axes_[axes_.size() - 2])
    if (!is_one(atom)) positions = std::max(positions, place(atom));
  std::vector<Dim> sizes;
  for (size_t axis = axes_.size() - 2; axis-- > 0;)
    for (size_t i = axes_[axis].size(); i-- > 0;) {
      const int atom = axes_[axis][i];
      if (is_one(atom)) continue;
      if (place(atom) < positions) return sizes;
      sizes.insert(sizes.begin(), atoms_[size_t(atom)].taken);
    }
  return sizes;
}

bool View::drop_repeats(const Graph& graph) {
  const Node* node = graph.producer(base_);
  if (!node || !node->op.is<ops::Broadcast>() || node->inputs.size() != 1) return false;
  const Shape &from = graph.type(node->inputs[0]).shape, &to = graph.type(base_).shape;
  if (from.size() != to.size()) return false;
  std::optional<size_t> repeated;
  for (size_t i = 0; i < to.size(); ++i)
    if (from[i] != to[i]) {
      if (repeated || from[i] != Dim(1)) return false;
      repeated = i;
    }
  if (!repeated || base_axes_[*repeated].size() != 1) return false;
  const int atom = base_axes_[*repeated][0];
  const std::vector<int> lead = order_of({axes_.begin(), axes_.end() - 2});
  if (lead.empty() || lead.back() != atom || atoms_[size_t(atom)].taken != atoms_[size_t(atom)].size) return false;
  // What is broadcast may be a view itself: cut as this one's base is, its axes take the place of the atoms.
  View source(graph, node->inputs[0]);
  Shape cut;
  std::vector<int> place(atoms_.size());
  for (const auto& axis : base_axes_)
    for (int id : axis) {
      const Atom& each = atoms_[size_t(id)];
      if (each.taken != each.size) return false;
      place[size_t(id)] = int(cut.size());
      cut.push_back(id == atom ? Dim(1) : each.size);
    }
  if (!source.reshape(cut)) return false;
  std::vector<std::vector<int>> axes;
  for (const auto& axis : axes_) {
    std::vector<int>& joined = axes.emplace_back();
    for (int id : axis)
      joined.insert(joined.end(), source.axes_[size_t(place[size_t(id)])].begin(),
                    source.axes_[size_t(place[size_t(id)])].end());
  }
  *this = std::move(source);
  axes_ = std::move(axes);
  return true;
}

ValueId View::write(Graph& graph, const std::string& name) const {
  ValueId x = base_;
  const auto add = [&](Op op) { return graph.add_single(std::move(op), {x}, name); };
  if (of_base_) x = add(ops::Pointwise{*of_base_});
  const auto reshaped = [&](Shape to) {
    if (graph.type(x).shape != to) x = add(ops::Reshape{std::move(to)});
  };
  // Slices: along an axis of the base where the atom is its outermost one, else along an axis of its own.
  bool inner = false;
  ops::Slice cut = ops::slice_all(graph.type(base_).shape);
  for (size_t axis = 0; axis < base_axes_.size(); ++axis)
    for (size_t i = 0; i < base_axes_[axis].size(); ++i) {
      const Atom& atom = atoms_[size_t(base_axes_[axis][i])];
      if (atom.taken == atom.size) continue;
      inner |= i > 0;
      Dim rest = 1;
      for (size_t k = i + 1; k < base_axes_[axis].size(); ++k) rest = rest * atoms_[size_t(base_axes_[axis][k])].size;
      cut.starts[axis] = atom.start * rest;
      cut.sizes[axis] = atom.taken * rest;
    }
  if (inner) {
    Shape all;
    for (const auto& axis : base_axes_)
      for (int atom : axis) all.push_back(atoms_[size_t(atom)].size);
    reshaped(all);
    cut = ops::slice_all(all);
    size_t at = 0;
    for (const auto& axis : base_axes_)
      for (int id : axis) {
        cut.starts[at] = atoms_[size_t(id)].start;
        cut.sizes[at++] = atoms_[size_t(id)].taken;
      }
  }
  if (cut.sizes != graph.type(x).shape) x = add(cut);
  const std::vector<int> from = order_of(base_axes_), to = order_of(axes_);
  if (from != to) {
    Shape atoms;
    ops::Transpose transpose;
    for (int atom : from) atoms.push_back(atoms_[size_t(atom)].taken);
    for (int atom : to) transpose.perm.push_back(std::ranges::find(from, atom) - from.begin());
    // Atoms that stay together are one axis.
    for (size_t i = 0; i + 1 < transpose.perm.size();) {
      const int64_t at = transpose.perm[i];
      if (transpose.perm[i + 1] != at + 1) {
        ++i;
        continue;
      }
      atoms[size_t(at)] = atoms[size_t(at)] * atoms[size_t(at) + 1];
      atoms.erase(atoms.begin() + at + 1);
      transpose.perm.erase(transpose.perm.begin() + ptrdiff_t(i) + 1);
      for (int64_t& axis : transpose.perm)
        if (axis > at) --axis;
    }
    reshaped(atoms);
    x = add(transpose);
  }
  reshaped(shape());
  return x;
}

}  // namespace temper
