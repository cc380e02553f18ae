// SPDX-License-Identifier: Apache-2.0
// Imports TfIdfVectorizer on integers or strings: every window of a row is compared with every n-gram of its length,
// and the matches are counted. A weight is that of a place in the output, as ONNX Runtime and ONNX's reference
// evaluator have it; the operator's text speaks of a place in the pool.
#include <algorithm>

#include "base/checked.h"
#include "graph/ops/gather.h"
#include "graph/strings.h"
#include "onnx/node.h"

namespace temper {

// i64 or strings.
static Tensor pool_of(OnnxNode& node) {
  const auto numbers = node.ints_attribute("pool_int64s", {});
  const auto strings = node.strings_attribute("pool_strings", {});
  if (!strings.empty() && !numbers.empty()) node.bad("pool_int64s and pool_strings");
  return strings.empty() ? Tensor::of<int64_t>({int64_t(numbers.size())}, numbers)
                         : tensor_of_strings({int64_t(strings.size())}, strings);
}

void import_TfIdfVectorizer(OnnxNode& node) {
  const TensorType x = node.type(0);
  const Tensor pool = pool_of(node);
  const auto starts = node.ints_attribute("ngram_counts", {}), places = node.ints_attribute("ngram_indexes", {});
  const auto weights = node.floats_attribute("weights", std::vector<double>(places.size(), 1));
  const int64_t least = node.int_attribute("min_gram_length"), most = node.int_attribute("max_gram_length"),
                skips = node.int_attribute("max_skip_count");
  const std::string mode = node.string_attribute("mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") node.bad("mode is '", mode, "'; it is TF, IDF or TFIDF");
  if ((pool.dtype() == DType::string ? x.dtype != DType::string : !is_int(x.dtype)) || x.rank() < 1 || x.rank() > 2)
    node.bad("an input ", x);
  if (!x.shape.back().is_constant()) node.refuse("rows of ", x, "; give a fixed shape with --shapes");
  if (least < 1 || most < least || skips < 0 || int64_t(starts.size()) < most || weights.size() != places.size())
    node.bad("n-grams of ", least, " to ", most, " with ", skips, " skips, ", starts.size(), " counts, ", places.size(),
             " places and ", weights.size(), " weights");
  const int64_t width = x.shape.back().value();
  int64_t outputs = 0;
  for (int64_t place : places) {
    if (place < 0 || place > (1 << 20)) node.bad("an n-gram's place is ", place);
    outputs = std::max(outputs, place + 1);
  }
  if (mode != "TF" && outputs > int64_t(weights.size()))
    node.bad(weights.size(), " weights for ", outputs, " places of the output");
  const ValueId words = x.dtype == DType::string ? node.input(0) : node.cast(node.input(0), DType::i64);
  const ValueId rows = node.reshape(words, {x.rank() == 2 ? x.shape[0] : Dim(1), Dim(width)});
  ValueId sum;
  size_t gram = 0;  // of the pool, in order
  for (int64_t n = 1; n <= most; ++n) {
    const int64_t begin = starts[size_t(n - 1)];
    const int64_t end = size_t(n) < starts.size() ? starts[size_t(n)] : pool.count();
    if (begin < 0 || end < begin || end > pool.count() || (end - begin) % n != 0)
      node.bad("ngram_counts ", starts, " for a pool of ", pool.count());
    const int64_t grams = (end - begin) / n;
    const size_t first = gram;
    gram += size_t(grams);
    if (gram > places.size()) node.bad(places.size(), " places for at least ", gram, " n-grams");
    if (n < least || grams == 0) continue;
    // [grams, n], and a matrix that puts each n-gram's count to its place, with its weight.
    Tensor wanted(pool.dtype(), {grams, n}), place(DType::f32, {grams, outputs});
    std::copy_n(pool.raw().data() + begin * size_of(pool.dtype()), wanted.bytes(), wanted.raw_mutable());
    for (int64_t g = 0; g < grams; ++g)
      place.data<float>()[g * outputs + places[first + size_t(g)]] =
          mode == "TF" ? 1.0f : float(weights[size_t(places[first + size_t(g)])]);
    ValueId count;
    for (int64_t skip = 0; skip <= (n == 1 ? 0 : skips); ++skip) {
      const int64_t windows = width - (n - 1) * (skip + 1);
      if (windows <= 0) break;
      if (checked_mul(checked_mul(windows, grams), n) > (int64_t(1) << 26))
        node.unsupported(grams, " n-grams in rows of ", width);
      Tensor at(DType::i64, {windows, 1, n});
      for (int64_t i = 0; i < windows * n; ++i) at.data<int64_t>()[i] = i / n + i % n * (skip + 1);
      ops::Gather pick;
      pick.axis = 1;
      const ValueId matches = node.body(
          R"((x, wanted) => (y) { last = Constant <value_ints = [-1]> () windows = Constant <value_ints = [1]> ()
        same = Equal(x, wanted) number = Cast <to = 6> (same) all = ReduceMin <keepdims = 0> (number, last)
        found = ReduceSum <keepdims = 0> (all, windows) y = Cast <to = 1> (found) })",
          {node.add(pick, {rows, node.constant(at)}), node.constant(wanted)})[0];
      count = count.valid() ? node.pointwise(Scalar::add, {count, matches}) : matches;
    }
    if (!count.valid()) continue;
    if (mode == "IDF") {
      ProgramBuilder b({DType::f32});
      count = node.program(b.result(b.cast(b.op(Scalar::less, b.constant(DType::f32, 0), 0), DType::f32)), {count});
    }
    const ValueId part =
        node.body("(count, place) => (y) { y = MatMul(count, place) }", {count, node.constant(place)})[0];
    sum = sum.valid() ? node.pointwise(Scalar::add, {sum, part}) : part;
  }
  if (!sum.valid())
    sum = node.body(
        "(x, zero, width) => (y) { n = Shape <end = 1> (x) shape = Concat <axis = 0> (n, width) y = Expand(zero, "
        "shape) }",
        {rows, node.scalar(DType::f32, 0), node.ints({outputs})})[0];
  node.set_output(0, x.rank() == 2 ? sum : node.reshape(sum, {Dim(outputs)}));
}

}  // namespace temper
