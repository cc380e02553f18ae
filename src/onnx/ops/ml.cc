// SPDX-License-Identifier: Apache-2.0
// Imports the smaller ops of ai.onnx.ml: preprocessing, label encoders and linear models.
#include "onnx/ml.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/checked.h"
#include "graph/ops/gather.h"
#include "graph/ops/string_lookup.h"
#include "graph/strings.h"

namespace temper::ml {

namespace {

Tensor floats_of(const std::vector<double>& values, Dims dims) {
  return Tensor::of<double>(std::move(dims), values).converted(DType::f32);
}
ValueId vector_of(OnnxNode& node, const std::vector<double>& values) {
  return node.constant(floats_of(values, {int64_t(values.size())}));
}

// x * coefficients^T + intercepts, [samples, rows] in f32.
ValueId linear(OnnxNode& node, int64_t rows) {
  const TensorType x = node.type(0);
  const auto coefficients = node.floats_attribute("coefficients", {}),
             intercepts = node.floats_attribute("intercepts", {});
  if (x.rank() != 2 || !x.shape[1].is_constant() || rows < 1)
    node.bad("samples of type ", x, " for ", rows, " targets");
  const int64_t features = x.shape[1].value();
  if (int64_t(coefficients.size()) != checked_mul(rows, features) ||
      (!intercepts.empty() && int64_t(intercepts.size()) != rows))
    node.bad(coefficients.size(), " coefficients and ", intercepts.size(), " intercepts for ", rows, " targets of ", x);
  Tensor matrix(DType::f32, {features, rows});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t f = 0; f < features; ++f)
      matrix.data<float>()[f * rows + r] = float(coefficients[size_t(r * features + f)]);
  const ValueId product =
      node.body("(x, w) => (y) { y = MatMul(x, w) }", {node.cast(node.input(0), DType::f32), node.constant(matrix)})[0];
  return intercepts.empty() ? product : node.pointwise(Scalar::add, {product, vector_of(node, intercepts)});
}

Tensor vector_of_strings(const std::vector<std::string>& values) {
  return tensor_of_strings({int64_t(values.size())}, values);
}

// One of two lists, keys or values of a LabelEncoder, as a tensor of the element type that it stands for.
Tensor list_attribute(OnnxNode& node, const std::string& name) {
  if (node.has_attribute((name + "_strings").c_str()))
    return vector_of_strings(node.strings_attribute((name + "_strings").c_str(), {}));
  if (auto tensor = node.tensor_attribute((name + "_tensor").c_str())) return tensor->reshaped({tensor->count()});
  if (node.has_attribute((name + "_floats").c_str())) {
    const auto values = node.floats_attribute((name + "_floats").c_str(), {});
    return floats_of(values, {int64_t(values.size())});
  }
  const auto values = node.ints_attribute((name + "_int64s").c_str(), {});
  return Tensor::of<int64_t>({int64_t(values.size())}, values);
}

}  // namespace

std::vector<double> floats_or_tensor(OnnxNode& node, const std::string& name) {
  if (const auto tensor = node.tensor_attribute((name + "_as_tensor").c_str())) return tensor->to_doubles();
  return node.floats_attribute(name.c_str(), {});
}

Tensor class_labels(OnnxNode& node, const char* ints) {
  if (const auto names = node.strings_attribute("classlabels_strings", {}); !names.empty())
    return vector_of_strings(names);
  const auto labels = node.ints_attribute(ints, {});
  if (labels.empty()) node.bad("there are no class labels");
  return Tensor::of<int64_t>({int64_t(labels.size())}, labels);
}

ValueId transformed(OnnxNode& node, ValueId scores, const std::string& post_transform) {
  if (post_transform == "NONE") return scores;
  if (post_transform == "LOGISTIC") return node.pointwise(Scalar::sigmoid, {scores});
  if (post_transform == "SOFTMAX") return node.body("(x) => (y) { y = Softmax <axis = 1> (x) }", {scores})[0];
  node.unsupported("post_transform ", post_transform);
}

void set_classes(OnnxNode& node, ValueId scores, ValueId shown, const Tensor& labels) {
  node.set_output(
      0, node.body("(x, labels) => (y) { place = ArgMax <axis = 1, keepdims = 0> (x) y = Gather(labels, place) }",
                   {scores, node.constant(labels)})[0]);
  node.set_output(1, node.cast(shown, DType::f32));
}

void import_ArrayFeatureExtractor(OnnxNode& node) {
  const TensorType x = node.type(0), index = node.type(1);
  if (x.rank() < 1) node.bad("an input ", x);
  if (!is_int(index.dtype)) node.bad("indices ", index);
  Dim count = 1;
  for (const Dim& dim : index.shape) count = count * dim;
  const ValueId y = node.body("(x, i) => (y) { y = Gather <axis = -1> (x, i) }",
                              {node.input(0), node.reshape(node.input(1), {count})})[0];
  node.set_output(0, x.rank() == 1 ? node.reshape(y, {Dim(1), count}) : y);
}

void import_Binarizer(OnnxNode& node) {
  const DType dtype = node.type(0).dtype;
  ProgramBuilder b({dtype});
  const DType wide = is_float(dtype) ? dtype : DType::f32;
  const int above = b.op(Scalar::less, b.constant(wide, node.float_attribute("threshold", 0)), b.cast(0, wide));
  node.set_output(0, node.program(b.result(b.cast(above, dtype)), {node.input(0)}));
}

void import_FeatureVectorizer(OnnxNode& node) {
  const auto sizes = node.ints_attribute("inputdimensions", {});
  if (sizes.size() != node.input_count() || sizes.empty())
    node.bad(sizes.size(), " inputdimensions for ", node.input_count(), " inputs");
  std::string names, text;
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const TensorType x = node.type(i);
    const Shape shape = x.rank() == 1 ? Shape{x.shape[0], Dim(1)} : x.shape;
    if (shape.size() != 2 || shape[1] != Dim(sizes[i]))
      node.unsupported("input ", i, " of type ", x, " for ", sizes[i], " of the features");
    inputs.push_back(node.cast(node.reshape(node.input(i), shape), DType::f32));
    names += concat(i ? ", x" : "x", i);
  }
  node.set_output(0, node.body(concat("(", names, ") => (y) { y = Concat <axis = 1> (", names, ") }"), inputs)[0]);
}

void import_Imputer(OnnxNode& node) {
  const TensorType x = node.type(0);
  const bool floats = is_float(x.dtype);
  const auto values = floats ? node.floats_attribute("imputed_value_floats", {}) : [&] {
    const auto ints = node.ints_attribute("imputed_value_int64s", {});
    return std::vector<double>(ints.begin(), ints.end());
  }();
  const double replaced =
      floats ? node.float_attribute("replaced_value_float", 0) : double(node.int_attribute("replaced_value_int64", 0));
  const bool fits = values.size() == 1 || (x.rank() > 0 && x.shape.back() == Dim(int64_t(values.size())));
  if (x.rank() < 1 || !fits) node.bad(values.size(), " values for the features of ", x);
  for (double value : values)
    if (std::fabs(value) > 9007199254740992.0 && !floats) node.unsupported("an imputed value of ", value);
  ProgramBuilder b({x.dtype, x.dtype});
  const int missing =
      std::isnan(replaced) ? b.op(Scalar::is_nan, 0) : b.op(Scalar::equal, 0, b.constant(x.dtype, replaced));
  const ValueId constants = node.constant(Tensor::of<double>({int64_t(values.size())}, values).converted(x.dtype));
  node.set_output(0, node.program(b.result(b.op(Scalar::where, missing, 1, 0)), {node.input(0), constants}));
}

namespace {

// values[i] for each element of x that is keys[i], `standard` for one that is none of them. Of a key that is there
// twice the last one counts, so they stand in reverse order; NaN is a key like any other.
ValueId looked_up(OnnxNode& node, const Tensor& keys, const Tensor& values, const Tensor& standard) {
  const DType dtype = node.type(0).dtype;
  if (keys.count() != values.count() || keys.count() == 0)
    node.bad(keys.count(), " keys for ", values.count(), " values");
  if (keys.dtype() != dtype) node.bad("keys of ", keys.dtype(), " for ", node.type(0));
  if (standard.dtype() != values.dtype())
    node.bad("a default of ", standard.dtype(), " for values of ", values.dtype());
  if (dtype == DType::string) {  // the place -1 is that of the last value
    ops::StringLookup lookup;
    lookup.keys = strings_of(keys);
    Tensor all(values.dtype(), {values.count() + 1});
    std::copy_n(values.raw().data(), values.bytes(), all.raw_mutable());
    std::copy_n(standard.raw().data(), standard.bytes(), all.raw_mutable() + values.bytes());
    return node.add(ops::Gather{}, {node.constant(all), node.add(lookup, {node.input(0)})});
  }
  if (keys.count() > 65536) node.unsupported(keys.count(), " keys");
  std::vector<int64_t> order;
  for (int64_t i = keys.count(); i-- > 0;) order.push_back(i);
  const std::string same =
      is_float(dtype)
          ? "equal = Equal(x_, keys) xn = IsNaN(x_) kn = IsNaN(keys) both = And(xn, kn) same = Or(equal, both)"
          : "same = Equal(x_, keys)";
  return node.body(
      concat(R"((x, given_keys, given_values, order, standard) => (y) {
    last = Constant <value_ints = [-1]> () keys = Gather(given_keys, order) values = Gather(given_values, order)
    x_ = Unsqueeze(x, last) )",
             same, R"( number = Cast <to = 6> (same)
    place = ArgMax <axis = -1, keepdims = 0> (number) some = ReduceMax <keepdims = 0> (number, last)
    found = Cast <to = 9> (some)
    value = Gather(values, place) flat = Constant <value_ints = [0]> () default = Squeeze(standard, flat)
    y = Where(found, value, default)
  })"),
      {node.input(0), node.constant(keys), node.constant(values), node.ints(order), node.constant(standard)})[0];
}

}  // namespace

void import_LabelEncoder(OnnxNode& node) {
  const Tensor keys = list_attribute(node, "keys"), values = list_attribute(node, "values");
  Tensor standard(values.dtype(), {1});
  const std::string default_string = node.string_attribute("default_string", "_Unused");
  const double default_float = node.float_attribute("default_float", -0.0);
  const int64_t default_int = node.int_attribute("default_int64", -1);
  const auto default_tensor = node.tensor_attribute("default_tensor");
  if (default_tensor) standard = default_tensor->reshaped({1});
  else if (values.dtype() == DType::string) standard = vector_of_strings({default_string});
  else if (is_float(values.dtype())) standard = Tensor::of<double>({1}, {default_float}).converted(values.dtype());
  else standard = Tensor::of<int64_t>({1}, {default_int}).converted(values.dtype());
  node.set_output(0, looked_up(node, keys, values, standard));
}

// Strings to their numbers, or numbers to their strings.
void import_CategoryMapper(OnnxNode& node) {
  const auto names = node.strings_attribute("cats_strings", {});
  const auto numbers = node.ints_attribute("cats_int64s", {});
  const Tensor strings = vector_of_strings(names), ints = Tensor::of<int64_t>({int64_t(numbers.size())}, numbers);
  const Tensor no_string = vector_of_strings({node.string_attribute("default_string", "_Unused")});
  const Tensor no_number = Tensor::of<int64_t>({1}, {node.int_attribute("default_int64", -1)});
  const bool of_strings = node.type(0).dtype == DType::string;
  node.set_output(0,
                  of_strings ? looked_up(node, strings, ints, no_number) : looked_up(node, ints, strings, no_string));
}

void import_DictVectorizer(OnnxNode& node) { node.unsupported("a map (make vectors of dictionaries in the program)"); }
void import_CastMap(OnnxNode& node) { node.unsupported("a map (make vectors of dictionaries in the program)"); }

// Of each sample a map from labels to its scores: here the scores, whose columns are the labels in their order. An
// output that is stated to be maps gets a note that names them (onnx/import.cc).
void import_ZipMap(OnnxNode& node) {
  const TensorType x = node.type(0);
  const size_t labels =
      node.ints_attribute("classlabels_int64s", {}).size() + node.strings_attribute("classlabels_strings", {}).size();
  if (x.dtype != DType::f32 || (x.rank() != 1 && x.rank() != 2)) node.bad("scores of type ", x);
  if (labels == 0 || (x.shape.back().is_constant() && x.shape.back() != Dim(int64_t(labels))))
    node.bad(labels, " labels for scores of type ", x);
  node.set_output(0, node.input(0));
}

void import_LinearRegressor(OnnxNode& node) {
  const ValueId y = linear(node, node.int_attribute("targets", 1));
  node.set_output(0, transformed(node, y, node.string_attribute("post_transform", "NONE")));
}

void import_LinearClassifier(OnnxNode& node) {
  node.ignore_attribute("multi_class");  // the scores are the same
  const Tensor labels = class_labels(node, "classlabels_ints");
  const std::string post = node.string_attribute("post_transform", "NONE");
  const TensorType x = node.type(0);
  const auto coefficients = int64_t(node.floats_attribute("coefficients", {}).size());
  const bool one_row = labels.count() == 2 && x.rank() == 2 && x.shape[1] == Dim(coefficients);
  ValueId scores = linear(node, one_row ? 1 : labels.count());
  if (labels.count() < 2) node.unsupported("a classifier of one class");
  if (one_row) {
    if (post != "LOGISTIC") node.unsupported("two classes with one score and post_transform ", post);
    scores = node.body("(s) => (y) { other = Neg(s) y = Concat <axis = 1> (other, s) }", {scores})[0];
  }
  set_classes(node, scores, transformed(node, scores, post), labels);
}

// MAX is refused: ONNX's text divides by the largest element, its evaluator and scikit-learn by the largest magnitude.
void import_Normalizer(OnnxNode& node) {
  const std::string norm = node.string_attribute("norm", "MAX");
  const TensorType x = node.type(0);
  if (norm != "L1" && norm != "L2") node.unsupported("the norm ", norm);
  if (x.rank() < 1 || x.rank() > 2) node.bad("an input ", x);
  node.set_output(
      0, node.body(concat("(x, zero, one) => (y) { axis = Constant <value_ints = [-1]> () size = Reduce", norm,
                          "(x, axis) none = Equal(size, zero) divisor = Where(none, one, size) y = Div(x, divisor) }"),
                   {node.cast(node.input(0), DType::f32), node.scalar(DType::f32, 0), node.scalar(DType::f32, 1)})[0]);
}

// A category that is not in the list is all zeros, or an error: it is looked up where nothing is.
void import_OneHotEncoder(OnnxNode& node) {
  const auto names = node.strings_attribute("cats_strings", {});
  const auto numbers = node.ints_attribute("cats_int64s", {});
  const bool strings = node.type(0).dtype == DType::string;
  if (strings ? !numbers.empty() : !names.empty()) node.bad("categories of another type than ", node.type(0));
  const Tensor categories =
      strings ? vector_of_strings(names) : Tensor::of<int64_t>({int64_t(numbers.size())}, numbers);
  const bool zeros = node.int_attribute("zeros", 1) != 0;
  if (categories.count() == 0 || categories.count() > 65536) node.unsupported(categories.count(), " categories");
  const std::string checked =
      "any = ReduceMax <keepdims = 1> (hot, last) zero = Constant <value_float = 0.0> () gone = Equal(any, zero) "
      "place = Cast <to = 7> (gone) nothing = Constant <value_floats = [0.0]> () add = Gather(nothing, place) "
      "y = Add(hot, add)";
  node.set_output(
      0, node.body(concat("(x, categories) => (y) { last = Constant <value_ints = [-1]> () x_ = Unsqueeze(x, last) "
                          "same = Equal(x_, categories) hot = Cast <to = 1> (same) ",
                          zeros ? "y = Identity(hot)" : checked, " }"),
                   {strings ? node.input(0) : node.cast(node.input(0), DType::i64), node.constant(categories)})[0]);
}

void import_Scaler(OnnxNode& node) {
  const TensorType x = node.type(0);
  auto values = [&](const char* name, double standard) {
    const auto list = node.floats_attribute(name, {standard});
    if (list.empty() || (list.size() != 1 && (x.rank() < 1 || x.shape.back() != Dim(int64_t(list.size())))))
      node.bad(list.size(), " values of ", std::string_view(name), " for the features of ", x);
    return vector_of(node, list);
  };
  ProgramBuilder b({x.dtype, DType::f32, DType::f32});
  const int y = b.op(Scalar::mul, b.op(Scalar::sub, b.cast(0, DType::f32), 1), 2);
  node.set_output(0, node.program(b.result(y), {node.input(0), values("offset", 0), values("scale", 1)}));
}

}  // namespace temper::ml
