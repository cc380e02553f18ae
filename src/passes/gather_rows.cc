// SPDX-License-Identifier: Apache-2.0
// gather_rows: concats of slices of one value, as exporters write torch.roll and the merging of patches in Swin, with
// the reshapes and transposes around them, only bring rows into another order. They become one gather of rows by
// constant indices, between two reshapes.
//
// A row is what lies along the last axis of the value. The nodes treat each sample (along the first axis) by itself and
// alike, so that what they do to the rows of one sample says all, also where the batch is a symbol.
#include <algorithm>
#include <map>
#include <set>

#include "graph/ops/concat.h"
#include "graph/ops/gather.h"
#include "graph/ops/reshape.h"
#include "graph/ops/slice.h"
#include "graph/ops/transpose.h"
#include "passes/pass.h"

namespace temper {

namespace {

// The rows that the values of a chain hold, by the numbers that they have in the root. `dims` are the axes of a sample;
// the last counts rows, too: a concat may put some beside each other.
struct Rows {
  Dims dims;
  std::vector<int64_t> rows;
};

class Chain {
 public:
  explicit Chain(const Graph& graph) : graph_(graph) {}

  // The nodes before `id`, the result of a concat or transpose. False where they do more than move rows.
  bool read(ValueId id) {
    batch_ = graph_.type(id).shape[0];
    result_ = rows_of(id);
    return result_ && concats_ > 0 && keeps_to_itself(id);
  }

  // Put in the place of `output`, which shows the value that was read.
  void write(Graph& graph, ValueId output) const {
    const std::string name = graph.producer(output)->name;
    const Dim count = int64_t(rows_);
    ops::Reshape flat, shaped;
    flat.shape = {batch_, count, Dim(width_)};
    shaped.shape = graph.type(output).shape;
    const ValueId x = graph.add_single(std::move(flat), {root_}, concat(name, ".rows"));
    const ValueId indices =
        graph.add_constant(concat(name, ".order"), Tensor::of<int64_t>({int64_t(result_->rows.size())}, result_->rows));
    ops::Gather gather;
    gather.axis = 1;
    const ValueId moved = graph.add_single(std::move(gather), {x, indices}, name);
    graph.rewrite(output, std::move(shaped), {moved}, concat(name, ".shaped"));
  }

 private:
  const Graph& graph_;
  Dim batch_;
  ValueId root_;
  int64_t rows_ = 0, width_ = 0;  // of the root: rows of a sample, elements of a row
  int concats_ = 0;
  std::set<int32_t> nodes_;
  std::map<int32_t, std::optional<Rows>> known_;  // by value
  std::optional<Rows> result_;

  // The axes of a sample but the batch, in elements.
  std::optional<Dims> sample(ValueId id) const {
    const Shape& shape = graph_.type(id).shape;
    if (shape.size() < 2 || shape[0] != batch_) return std::nullopt;
    Dims dims;
    for (size_t axis = 1; axis < shape.size(); ++axis) {
      if (!shape[axis].is_constant() || shape[axis].value() < 1) return std::nullopt;
      dims.push_back(shape[axis].value());
    }
    return dims;
  }

  std::optional<Rows> rows_of(ValueId id) {
    if (const auto it = known_.find(id.index); it != known_.end()) return it->second;
    auto rows = moved(id);
    known_.emplace(id.index, rows);
    return rows;
  }

  // The value that all of them come from, as a sample of these axes.
  std::optional<Rows> begin_at(ValueId id, Dims dims) {
    const Shape& shape = graph_.type(id).shape;
    if (root_.valid() && root_ != id) return std::nullopt;
    if (shape.empty() || !shape.back().is_constant()) return std::nullopt;
    root_ = id;
    width_ = shape.back().value();
    if (width_ < 1 || dims.back() % width_) return std::nullopt;
    dims.back() /= width_;
    rows_ = 1;
    for (int64_t size : dims) rows_ *= size;
    constexpr int64_t kMost = 1 << 20;
    if (rows_ > kMost) return std::nullopt;
    Rows out{std::move(dims), {}};
    for (int64_t i = 0; i < rows_; ++i) out.rows.push_back(i);
    return out;
  }

  std::optional<Rows> moved(ValueId id) {
    const auto dims = sample(id);
    if (!dims) return std::nullopt;
    const NodeId producer = graph_.value(id).producer;
    if (!producer.valid()) return begin_at(id, *dims);
    const Node& node = graph_.node(producer);
    if (const auto* op = node.op.get_if<ops::Transpose>()) {
      const auto& perm = op->perm;
      if (perm[0] != 0 || perm.back() != int64_t(perm.size()) - 1) return begin_at(id, *dims);
      return of_input(node, producer, 0, [&](const Rows& x) {
        Rows out;
        for (size_t axis = 1; axis < perm.size(); ++axis) out.dims.push_back(x.dims[size_t(perm[axis]) - 1]);
        const Dims strides = row_major_strides(x.dims);
        for_each_index(out.dims, [&](const Dims& at, int64_t) {
          int64_t from = 0;
          for (size_t axis = 0; axis < at.size(); ++axis) from += at[axis] * strides[size_t(perm[axis + 1]) - 1];
          out.rows.push_back(x.rows[size_t(from)]);
        });
        return out;
      });
    }
    if (const auto* op = node.op.get_if<ops::Slice>(); op && node.inputs.size() == 1) {
      const Shape& from = graph_.type(node.inputs[0]).shape;
      const size_t last = from.size() - 1;
      for (size_t axis : {size_t(0), last})
        if (op->starts[axis] != Dim(0) || op->sizes[axis] != from[axis] || op->steps[axis] != 1)
          return begin_at(id, *dims);
      for (const Dim& start : op->starts)
        if (!start.is_constant()) return begin_at(id, *dims);
      return of_input(node, producer, 0, [&](const Rows& x) {
        Rows out{x.dims, {}};
        for (size_t axis = 0; axis + 1 < out.dims.size(); ++axis) out.dims[axis] = op->sizes[axis + 1].value();
        const Dims strides = row_major_strides(x.dims);
        for_each_index(out.dims, [&](const Dims& at, int64_t) {
          int64_t from_row = 0;
          for (size_t axis = 0; axis < at.size(); ++axis) {
            const bool along_rows = axis + 1 == at.size();
            from_row +=
                (along_rows ? at[axis] : op->starts[axis + 1].value() + at[axis] * op->steps[axis + 1]) * strides[axis];
          }
          out.rows.push_back(x.rows[size_t(from_row)]);
        });
        return out;
      });
    }
    if (const auto* op = node.op.get_if<ops::Concat>(); op && op->axis > 0) {
      std::vector<Rows> parts;
      for (ValueId input : node.inputs) {
        auto part = rows_of(input);
        if (!part) return std::nullopt;
        parts.push_back(std::move(*part));
      }
      nodes_.insert(producer.index);
      ++concats_;
      const size_t axis = size_t(op->axis) - 1;
      Rows out{parts[0].dims, {}};
      out.dims[axis] = 0;
      for (const Rows& part : parts) out.dims[axis] += part.dims[axis];
      int64_t outer = 1;
      for (size_t i = 0; i < axis; ++i) outer *= out.dims[i];
      for (int64_t o = 0; o < outer; ++o)
        for (const Rows& part : parts) {
          const int64_t count = int64_t(part.rows.size()) / outer;
          out.rows.insert(out.rows.end(), part.rows.begin() + o * count, part.rows.begin() + (o + 1) * count);
        }
      return out;
    }
    if (node.op.is<ops::Reshape>() && node.inputs.size() == 1) {
      const ValueId x = node.inputs[0];
      if (!sample(x) || !moves(x)) {  // also of samples that are cut into windows
        nodes_.insert(producer.index);
        return begin_at(x, *dims);
      }
      return of_input(node, producer, 0, [&](const Rows& rows) {
        Rows out{*dims, rows.rows};
        if (out.dims.back() % width_) return Rows{};
        out.dims.back() /= width_;
        return out;
      });
    }
    return begin_at(id, *dims);
  }

  // Whether the value may be the result of moving rows.
  bool moves(ValueId id) const {
    const Node* node = graph_.producer(id);
    return node && (node->op.is<ops::Transpose>() || node->op.is<ops::Slice>() || node->op.is<ops::Concat>() ||
                    node->op.is<ops::Reshape>());
  }

  template <class F>
  std::optional<Rows> of_input(const Node& node, NodeId id, size_t input, F&& f) {
    const auto x = rows_of(node.inputs[input]);
    if (!x) return std::nullopt;
    Rows out = f(*x);
    if (out.dims.empty()) return std::nullopt;
    nodes_.insert(id.index);
    return out;
  }

  // Nothing else reads what lies between: it would have to be made in any case.
  bool keeps_to_itself(ValueId end) const {
    for (int32_t n : nodes_)
      for (ValueId output : graph_.node({n}).outputs) {
        if (output == end) continue;
        if (graph_.is_output(output)) return false;
        for (NodeId user : graph_.value(output).users)
          if (!nodes_.contains(user.index)) return false;
      }
    return true;
  }
};

}  // namespace

bool gather_rows(Graph& graph, const PassOptions& options) {
  bool changed = false;
  // The last node of a chain first: what is before it goes with it.
  for (int32_t n = graph.node_count(); n-- > 0;) {
    options.time.check_at(n);
    const Node& node = graph.node({n});
    if (!node.op.is<ops::Concat>() && !node.op.is<ops::Transpose>()) continue;
    const ValueId output = node.outputs[0];
    const Value& value = graph.value(output);
    if ((value.users.empty() && !graph.is_output(output)) || graph.type(output).rank() < 3) continue;
    Chain chain(graph);
    if (!chain.read(output)) continue;
    chain.write(graph, output);
    changed = true;
  }
  return changed;
}

}  // namespace temper
