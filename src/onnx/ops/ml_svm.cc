// SPDX-License-Identifier: Apache-2.0
// Imports the support vector machines of ai.onnx.ml. All sums are in FP64: distances come from products, which would
// cancel in FP32, and the search for probabilities stops by a threshold, as in libsvm.
#include <algorithm>
#include <numeric>

#include "base/checked.h"
#include "onnx/body_text.h"
#include "onnx/ml.h"

namespace temper::ml {

namespace {

Tensor matrix_of(const std::vector<double>& values, Dims dims) {
  return Tensor::of<double>(std::move(dims), values).converted(DType::f64);
}

int64_t features_of(OnnxNode& node) {
  const TensorType& x = node.type(0);
  if (x.rank() != 2 || !x.shape[1].is_constant()) node.bad("samples of type ", x);
  return x.shape[1].value();
}

// What the kernel gives for each sample with each of `count` vectors: f64 [samples, count].
ValueId kernel_values(OnnxNode& node, const std::vector<double>& vectors, int64_t count, const std::string& kernel) {
  const int64_t features = features_of(node);
  if (int64_t(vectors.size()) != checked_mul(count, features))
    node.bad(vectors.size(), " numbers of ", count, " vectors of ", features, " features");
  const auto params = node.floats_attribute("kernel_params", {0, 0, 0});
  if (params.size() != 3) node.bad(params.size(), " kernel_params");
  std::vector<double> turned(vectors.size()), squares(static_cast<size_t>(count));
  for (size_t i = 0; i < vectors.size(); ++i) {
    const size_t row = i / size_t(features), column = i % size_t(features);
    turned[column * size_t(count) + row] = vectors[i];
    squares[row] += vectors[i] * vectors[i];
  }
  const ValueId x = node.cast(node.input(0), DType::f64), v = node.constant(matrix_of(turned, {features, count}));
  const auto number = [&](double value) { return node.scalar(DType::f64, value); };
  if (kernel == "LINEAR") return node.body("(x, v) => (k) { k = MatMul(x, v) }", {x, v})[0];
  if (kernel == "RBF")
    return node.body(
        "(x, v, squares, minus_gamma, two, zero) => (k) { last = Constant <value_ints = [-1]> () xx = Mul(x, x) "
        "own = ReduceSum(xx, last) dot = MatMul(x, v) twice = Mul(dot, two) rest = Sub(own, twice) "
        "sum = Add(rest, squares) distance = Max(sum, zero) power = Mul(distance, minus_gamma) k = Exp(power) }",
        {x, v, node.constant(matrix_of(squares, {count})), number(-params[0]), number(2), number(0)})[0];
  if (kernel != "POLY" && kernel != "SIGMOID") node.bad("the kernel '", kernel, "'");
  const bool poly = kernel == "POLY";
  // The evaluators of ONNX cut the degree to an integer, or do not.
  if (poly && (params[2] != double(int64_t(params[2])) || params[2] < 0)) node.unsupported("the degree ", params[2]);
  return node.body(concat("(x, v, gamma, coef, degree) => (k) { dot = MatMul(x, v) scaled = Mul(dot, gamma) "
                          "s = Add(scaled, coef) k = ",
                          poly ? "Pow(s, degree)" : "Tanh(s)", " }"),
                   {x, v, number(params[0]), number(params[1]), number(params[2])})[0];
}

// One number for each two classes i < j, in that order: where it is positive, i is preferred.
struct Pairs {
  int64_t classes;
  int64_t count() const { return classes * (classes - 1) / 2; }
  template <class F>
  void each(F&& f) const {  // f(number, i, j)
    int64_t pair = 0;
    for (int64_t i = 0; i < classes; ++i)
      for (int64_t j = i + 1; j < classes; ++j) f(pair++, i, j);
  }
};

// Probabilities of the classes from those of pairs (Wu, Lin and Weng, "Probability estimates for multi-class
// classification by pairwise coupling", 2004, the second approach), by the iterations that libsvm makes, with its
// threshold: f64 [samples, classes]. A sample whose error is below it keeps what it has.
ValueId coupled(OnnxNode& node, ValueId decisions, const Pairs& pairs) {
  const auto a = node.floats_attribute("prob_a", {}), b = node.floats_attribute("prob_b", {});
  const int64_t k = pairs.classes, count = pairs.count();
  if (int64_t(a.size()) != count || int64_t(b.size()) != count)
    node.bad(a.size(), " prob_a and ", b.size(), " prob_b for ", k, " classes");
  if (k > 32) node.unsupported("probabilities of ", k, " classes");
  // The matrix of pairs, r[i,j] = p and r[j,i] = 1 - p, as products with zeros and ones.
  std::vector<double> place(size_t(count * k * k)), base(size_t(k * k)), eye(size_t(k * k));
  pairs.each([&](int64_t pair, int64_t i, int64_t j) {
    place[size_t(pair * k * k + i * k + j)] = 1;
    place[size_t(pair * k * k + j * k + i)] = -1;
    base[size_t(j * k + i)] = 1;
  });
  for (int64_t i = 0; i < k; ++i) eye[size_t(i * k + i)] = 1;
  std::string steps;
  for (int64_t t = 0; t < k; ++t) {
    steps += body_text(R"(
at$t = Constant <value_ints = [$t]> () q$t = Gather <axis = 1> (diagonal, at$t)
qp$t = Gather <axis = 1> (product$before, at$t) row$t = Gather <axis = 1> (rows, at$t) line$t = Squeeze(row$t, one)
less$t = Sub(error$before, qp$t) d$t = Div(less$t, q$t)
unit$t = Gather <axis = 0> (eye, at$t) part$t = Mul(d$t, unit$t) more$t = Add(p$before, part$t)
whole$t = Add(d$t, unity) p$t = Div(more$t, whole$t)
dq$t = Mul(d$t, q$t) two$t = Add(qp$t, qp$t) sum$t = Add(dq$t, two$t) add$t = Mul(d$t, sum$t)
up$t = Add(error$before, add$t) square$t = Mul(whole$t, whole$t) error$t = Div(up$t, square$t)
dline$t = Mul(d$t, line$t) moved$t = Add(product$before, dline$t) product$t = Div(moved$t, whole$t)
)",
                       {{"$t", concat(t)}, {"$before", t ? concat(t - 1) : "_in"}});
  }
  const std::string last = concat(k - 1);
  const std::string text = concat(
      R"((s, a, b, low, high, place, base, eye, eps, begin, unity) => (p) {
    one = Constant <value_ints = [1]> () last = Constant <value_ints = [-1]> () square = Constant <value_ints = [-1, )",
      k, ", ", k, R"(]> ()
    scaled = Mul(s, a) score = Add(scaled, b) minus = Neg(score) free = Sigmoid(minus) above = Max(free, low)
    pair = Min(above, high)
    placed = MatMul(pair, place) flat = Add(placed, base) r = Reshape(flat, square)
    turned = Transpose <perm = [0, 2, 1]> (r) cross = Mul(r, turned) others = Neg(cross)
    rr = Mul(r, r) diagonal = ReduceSum <keepdims = 0> (rr, one) wide = Unsqueeze(diagonal, last)
    spread = Mul(wide, eye)
    rows = Add(others, spread)
    zeros = Sub(diagonal, diagonal) first = Add(zeros, begin)
    most = Constant <value_int = )",
      std::max<int64_t>(100, k), R"(> () yes = Constant <value = bool {1}> ()
    p = Loop (most, yes, first) <body = step (int64 i, bool go, double[N, K] p_in) => (bool on, double[N, K] p_out) {
      column = Unsqueeze(p_in, last) product3 = MatMul(rows, column) product_in = Squeeze(product3, last)
      weighed = Mul(p_in, product_in) error_in = ReduceSum(weighed, last)
      off = Sub(product_in, error_in) size = Abs(off)
      worst = ReduceMax(size, last) done = Less(worst, eps) )",
      steps, "p_out = Where(done, p_in, p", last,
      R"() open = Not(done) number = Cast <to = 6> (open)
      any = ReduceMax <keepdims = 0> (number) on = Cast <to = 9> (any)
    }> })");
  const auto number = [&](double value) { return node.scalar(DType::f64, value); };
  constexpr double kLeast = 1e-7;
  return node.body(text, {decisions, node.constant(matrix_of(a, {count})), node.constant(matrix_of(b, {count})),
                          number(kLeast), number(1 - kLeast), node.constant(matrix_of(place, {count, k * k})),
                          node.constant(matrix_of(base, {k * k})), node.constant(matrix_of(eye, {k, k})),
                          number(0.005 / double(k)), number(1 / double(k)), number(1)})[0];
}

// How often each class was preferred: f64 [samples, classes].
ValueId votes_of(OnnxNode& node, ValueId decisions, const Pairs& pairs) {
  const int64_t k = pairs.classes, count = pairs.count();
  std::vector<double> won(size_t(count * k)), base(static_cast<size_t>(k));
  pairs.each([&](int64_t pair, int64_t i, int64_t j) {
    won[size_t(pair * k + i)] = 1;
    won[size_t(pair * k + j)] = -1;
    base[size_t(j)] += 1;
  });
  return node.body(
      "(s, zero, won, base) => (votes) { positive = Greater(s, zero) number = CastLike(positive, s) "
      "more = MatMul(number, won) votes = Add(more, base) }",
      {decisions, node.scalar(DType::f64, 0), node.constant(matrix_of(won, {count, k})),
       node.constant(matrix_of(base, {k}))})[0];
}

ValueId with_offset(OnnxNode& node, ValueId sums, const std::vector<double>& offsets) {
  return node.pointwise(Scalar::add, {sums, node.constant(matrix_of(offsets, {int64_t(offsets.size())}))});
}

ValueId times(OnnxNode& node, ValueId x, const std::vector<double>& weights, Dims dims) {
  return node.body("(x, w) => (y) { y = MatMul(x, w) }", {x, node.constant(matrix_of(weights, std::move(dims)))})[0];
}

}  // namespace

void import_SVMClassifier(OnnxNode& node) {
  const Tensor labels = class_labels(node, "classlabels_ints");
  const int64_t classes = labels.count();
  const auto coefficients = node.floats_attribute("coefficients", {}), rho = node.floats_attribute("rho", {});
  const auto counts = node.ints_attribute("vectors_per_class", {});
  const std::string post = node.string_attribute("post_transform", "NONE");
  const std::string kernel = node.string_attribute("kernel_type", "LINEAR");
  const bool probabilities = node.has_attribute("prob_a");
  if (classes < 2) node.unsupported("a classifier of one class");
  int64_t vectors = 0;
  for (int64_t count : counts) {
    if (count < 0) node.bad("vectors_per_class is ", counts);
    vectors = checked_add(vectors, count);
  }
  const bool same_sign = std::all_of(coefficients.begin(), coefficients.end(), [](double c) { return c >= 0; });
  if (classes == 2 && same_sign && !probabilities) node.unsupported("two classes and no coefficient below 0");
  if (vectors == 0) {  // a linear model: one row of coefficients for each class
    const int64_t features = features_of(node);
    if (int64_t(coefficients.size()) != checked_mul(classes, features) || rho.empty())
      node.bad(coefficients.size(), " coefficients and ", rho.size(), " rho for ", classes, " classes");
    node.ignore_attribute("prob_a");
    node.ignore_attribute("prob_b");
    node.ignore_attribute("support_vectors");
    const ValueId scores = with_offset(node, kernel_values(node, coefficients, classes, "LINEAR"), {rho[0]});
    return set_classes(node, scores, transformed(node, scores, post), labels);
  }
  const Pairs pairs{classes};
  if (int64_t(counts.size()) != classes || int64_t(rho.size()) != pairs.count() ||
      int64_t(coefficients.size()) != checked_mul(classes - 1, vectors))
    node.bad(coefficients.size(), " coefficients, ", rho.size(), " rho and vectors_per_class ", counts, " for ",
             classes, " classes");
  if (classes > 512) node.unsupported(classes, " classes");
  std::vector<int64_t> begins(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), int64_t(0));
  std::vector<double> weights(size_t(checked_mul(vectors, pairs.count())));
  pairs.each([&](int64_t pair, int64_t i, int64_t j) {
    const auto take = [&](int64_t from, int64_t row) {
      for (int64_t m = begins[size_t(from)]; m < begins[size_t(from)] + counts[size_t(from)]; ++m)
        weights[size_t(m * pairs.count() + pair)] = coefficients[size_t(row * vectors + m)];
    };
    take(i, j - 1);
    take(j, i);
  });
  const ValueId values = kernel_values(node, node.floats_attribute("support_vectors", {}), vectors, kernel);
  const ValueId decisions = with_offset(node, times(node, values, weights, {vectors, pairs.count()}), rho);
  ValueId shown = decisions;
  if (probabilities) shown = coupled(node, decisions, pairs);
  else if (classes == 2)
    shown = node.body("(s) => (y) { other = Neg(s) y = Concat <axis = 1> (other, s) }", {shown})[0];
  set_classes(node, votes_of(node, decisions, pairs), transformed(node, shown, post), labels);
}

void import_SVMRegressor(OnnxNode& node) {
  const auto coefficients = node.floats_attribute("coefficients", {}), rho = node.floats_attribute("rho", {});
  const int64_t vectors = node.int_attribute("n_supports", 0);
  const std::string kernel = node.string_attribute("kernel_type", "LINEAR");
  const std::string post = node.string_attribute("post_transform", "NONE");
  const bool one_class = node.int_attribute("one_class", 0) != 0;
  node.ignore_attribute("n_targets");
  if (post != "NONE") node.unsupported("post_transform ", post);
  if (rho.empty() || vectors < 0 || (vectors > 0 && int64_t(coefficients.size()) != vectors))
    node.bad(coefficients.size(), " coefficients and ", rho.size(), " rho for ", vectors, " vectors");
  ValueId y;
  if (vectors == 0) {
    node.ignore_attribute("support_vectors");
    y = kernel_values(node, coefficients, 1, "LINEAR");
  } else {
    const ValueId values = kernel_values(node, node.floats_attribute("support_vectors", {}), vectors, kernel);
    y = times(node, values, coefficients, {vectors, 1});
  }
  y = with_offset(node, y, {rho[0]});
  if (one_class) {
    ProgramBuilder b({DType::f64});
    const int inside = b.op(Scalar::less, b.constant(DType::f64, 0), 0);
    y = node.program(b.result(b.op(Scalar::where, inside, b.constant(DType::f64, 1), b.constant(DType::f64, -1))), {y});
  }
  node.set_output(0, node.cast(y, DType::f32));
}

}  // namespace temper::ml
