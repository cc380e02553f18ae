// SPDX-License-Identifier: Apache-2.0
// Imports Einsum, lowered: diagonals are masked and summed, axes that one operand has alone are summed, and pairs of
// operands become matrix products with the shared, kept labels as batch.
#include <algorithm>
#include <map>

#include "graph/ops/matmul.h"
#include "graph/ops/reduce.h"
#include "graph/ops/transpose.h"
#include "onnx/node.h"

namespace temper {

namespace {

using Labels = std::vector<int>;  // a letter, or kEllipsis + position for an axis that "..." stands for
constexpr int kEllipsis = 1000;

bool contains(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

struct Term {
  std::string letters;    // without "..."
  int64_t ellipsis = -1;  // how many letters stand before "..."; -1: there is none
};

struct Equation {
  std::vector<Term> inputs;
  std::optional<Term> output;
};

Equation parse_equation(const OnnxNode& node, std::string text) {
  std::erase(text, ' ');
  auto parse_term = [&](std::string_view part) {
    Term term;
    for (size_t i = 0; i < part.size(); ++i) {
      if (part.substr(i, 3) == "..." && term.ellipsis < 0) {
        term.ellipsis = int64_t(term.letters.size());
        i += 2;
      } else if (std::isalpha(static_cast<unsigned char>(part[i]))) {
        term.letters += part[i];
      } else {
        node.bad("the equation '", text, "' is not letters, ',', '...' and '->'");
      }
    }
    return term;
  };
  Equation equation;
  std::string_view inputs = text;
  if (const auto arrow = inputs.find("->"); arrow != inputs.npos) {
    equation.output = parse_term(inputs.substr(arrow + 2));
    inputs = inputs.substr(0, arrow);
  }
  for (size_t start = 0; start <= inputs.size();) {
    const size_t end = std::min(inputs.find(',', start), inputs.size());
    equation.inputs.push_back(parse_term(inputs.substr(start, end - start)));
    start = end + 1;
  }
  return equation;
}

struct Operand {
  ValueId value;
  Labels labels;
};

class Lowering {
 public:
  explicit Lowering(OnnxNode& node) : node_(node) {}

  void run() {
    const Equation equation = parse_equation(node_, node_.string_attribute("equation", ""));
    if (equation.inputs.size() != node_.input_count())
      node_.bad("an equation of ", equation.inputs.size(), " terms for ", node_.input_count(), " inputs");
    int64_t broadcast_rank = 0;
    for (size_t i = 0; i < equation.inputs.size(); ++i) {
      const Term& term = equation.inputs[i];
      const int64_t rest = node_.type(i).rank() - int64_t(term.letters.size());
      if (rest < 0 || (rest > 0 && term.ellipsis < 0))
        node_.bad("the term '", term.letters, "' for an input ", node_.type(i));
      broadcast_rank = std::max(broadcast_rank, rest);
    }
    std::vector<Operand> operands;
    for (size_t i = 0; i < equation.inputs.size(); ++i)
      operands.push_back({node_.input(i), labels_of(equation.inputs[i],
                                                    node_.type(i).rank() - int64_t(equation.inputs[i].letters.size()),
                                                    broadcast_rank)});
    const Labels output = output_labels(equation, broadcast_rank);
    for (Operand& operand : operands) check_sizes(operand);
    for (Operand& operand : operands) take_diagonals(operand);
    Operand result = operands[0];
    for (size_t i = 1; i < operands.size(); ++i) {
      Labels keep = output;
      for (size_t j = i + 1; j < operands.size(); ++j)
        keep.insert(keep.end(), operands[j].labels.begin(), operands[j].labels.end());
      result = contract(result, operands[i], keep);
    }
    sum_all_but(result, output);
    for (int label : output)
      if (!contains(result.labels, label)) node_.bad("the output label '", char(label), "' is in no input");
    node_.set_output(0, transpose(result, output).value);
  }

 private:
  OnnxNode& node_;
  std::map<int, Dim> sizes_;

  const Shape& shape(const Operand& operand) { return node_.graph().type(operand.value).shape; }

  static Labels labels_of(const Term& term, int64_t rank, int64_t broadcast_rank) {
    Labels labels;
    for (size_t i = 0; i <= term.letters.size(); ++i) {
      if (int64_t(i) == term.ellipsis)
        for (int64_t k = broadcast_rank - rank; k < broadcast_rank; ++k) labels.push_back(kEllipsis + int(k));
      if (i < term.letters.size()) labels.push_back(term.letters[i]);
    }
    return labels;
  }

  // Without "->" the output has the broadcast axes, then the letters that occur once, in alphabetical order.
  Labels output_labels(const Equation& equation, int64_t broadcast_rank) {
    if (equation.output) {
      if (broadcast_rank > 0 && equation.output->ellipsis < 0) node_.bad("the output of the equation lacks '...'");
      const Labels labels = labels_of(*equation.output, broadcast_rank, broadcast_rank);
      for (int label : labels)
        if (std::count(labels.begin(), labels.end(), label) > 1)
          node_.bad("the output has the label '", char(label), "' twice");
      return labels;
    }
    std::map<char, int> counts;
    for (const Term& term : equation.inputs)
      for (char letter : term.letters) ++counts[letter];
    Term term;
    term.ellipsis = 0;
    for (const auto& [letter, count] : counts)
      if (count == 1) term.letters += letter;
    return labels_of(term, broadcast_rank, broadcast_rank);
  }

  void check_sizes(const Operand& operand) {
    const Shape dims = shape(operand);
    for (size_t i = 0; i < dims.size(); ++i) {
      auto [it, fresh] = sizes_.emplace(operand.labels[i], dims[i]);
      if (fresh || it->second == dims[i]) continue;
      const bool stretches = operand.labels[i] >= kEllipsis && (it->second == Dim(1) || dims[i] == Dim(1));
      if (!stretches && it->second.is_constant() && dims[i].is_constant())
        node_.bad("one label stands for the sizes ", it->second, " and ", dims[i]);
      if (it->second == Dim(1)) it->second = dims[i];
    }
  }

  // "ii": everything off the diagonal becomes zero, then one of the two axes is summed.
  void take_diagonals(Operand& operand) {
    for (size_t i = 0; i < operand.labels.size(); ++i)
      for (size_t j = i + 1; j < operand.labels.size();) {
        if (operand.labels[i] != operand.labels[j]) {
          ++j;
          continue;
        }
        const Dim n = shape(operand)[i];
        if (!n.is_constant())
          node_.refuse("a diagonal of the unknown size '", n, "'; give a fixed shape with --shapes");
        if (n.value() > 4096)
          node_.refuse("a diagonal of ", n, " elements; the limit is 4096");  // its mask is a constant
        Dims dims(operand.labels.size(), 1);
        dims[i] = dims[j] = n.value();
        Tensor mask(DType::boolean, dims);
        for (int64_t k = 0; k < n.value(); ++k) mask.data<bool>()[k * n.value() + k] = true;
        const DType dtype = node_.graph().type(operand.value).dtype;
        ProgramBuilder b({DType::boolean, dtype});
        const Program program = b.result(b.op(Scalar::where, 0, 1, b.constant(dtype, 0)));
        operand.value = node_.program(program, {node_.constant(std::move(mask)), operand.value});
        sum_axes(operand, {int64_t(j)});
      }
  }

  void sum_axes(Operand& operand, const std::vector<int64_t>& axes) {
    if (axes.empty()) return;
    ops::Reduce op;
    op.axes = axes;
    op.keepdims = false;
    operand.value = node_.add(op, {operand.value});
    for (size_t i = axes.size(); i-- > 0;) operand.labels.erase(operand.labels.begin() + axes[i]);
  }

  void sum_all_but(Operand& operand, const Labels& keep) {
    std::vector<int64_t> axes;
    for (size_t i = 0; i < operand.labels.size(); ++i)
      if (!contains(keep, operand.labels[i])) axes.push_back(int64_t(i));
    sum_axes(operand, axes);
  }

  Operand transpose(const Operand& operand, const Labels& order) {
    ops::Transpose op;
    for (int label : order)
      op.perm.push_back(std::find(operand.labels.begin(), operand.labels.end(), label) - operand.labels.begin());
    if (std::is_sorted(op.perm.begin(), op.perm.end())) return {operand.value, order};
    return {node_.add(op, {operand.value}), order};
  }

  Operand contract(Operand a, Operand b, const Labels& keep) {
    Labels batch, summed, free_a, free_b, wanted_a = keep, wanted_b = keep;
    wanted_a.insert(wanted_a.end(), b.labels.begin(), b.labels.end());
    wanted_b.insert(wanted_b.end(), a.labels.begin(), a.labels.end());
    sum_all_but(a, wanted_a);
    sum_all_but(b, wanted_b);
    for (int label : a.labels)
      (!contains(b.labels, label) ? free_a : contains(keep, label) ? batch : summed).push_back(label);
    for (int label : b.labels)
      if (!contains(a.labels, label)) free_b.push_back(label);
    auto join = [](Labels first, const Labels& second, const Labels& third) {
      first.insert(first.end(), second.begin(), second.end());
      first.insert(first.end(), third.begin(), third.end());
      return first;
    };
    a = transpose(a, join(batch, free_a, summed));
    b = transpose(b, join(batch, summed, free_b));
    auto matrix = [&](const Operand& operand, const Dim& rows, const Dim& columns) {
      Shape dims(shape(operand).begin(),
                 shape(operand).begin() + int64_t(batch.size()));  // batch axes may be 1 and broadcast
      dims.push_back(rows);
      dims.push_back(columns);
      return node_.reshape(operand.value, dims);
    };
    // Sizes of this operand's own axes: an axis of "..." may still be 1 here.
    const Shape own_a(shape(a).begin() + int64_t(batch.size()),
                      shape(a).begin() + int64_t(batch.size() + free_a.size()));
    const Shape own_b(shape(b).end() - int64_t(free_b.size()), shape(b).end());
    Dim rows = 1, inner = 1, columns = 1;
    for (const Dim& dim : own_a) rows = rows * dim;
    for (const Dim& dim : own_b) columns = columns * dim;
    for (int label : summed) inner = inner * sizes_.at(label);
    const ValueId left = matrix(a, rows, inner), right = matrix(b, inner, columns);
    // Of 8-bit integers the second operand of a product is i8. The sum wraps around in u8 as it does in i32.
    const DType dtype = node_.graph().type(left).dtype, wide = dtype == DType::u8 ? DType::i32 : dtype;
    const ValueId product =
        summed.empty()
            ? node_.pointwise(Scalar::mul, {left, right})
            : node_.cast(node_.product(ops::MatMul{}, {node_.cast(left, wide), node_.cast(right, wide)}), dtype);
    Shape dims = node_.graph().type(product).shape;
    dims.resize(batch.size());
    dims.insert(dims.end(), own_a.begin(), own_a.end());
    dims.insert(dims.end(), own_b.begin(), own_b.end());
    return {node_.reshape(product, dims), join(batch, free_a, free_b)};
  }
};

}  // namespace

void import_Einsum(OnnxNode& node) { Lowering(node).run(); }

}  // namespace temper
