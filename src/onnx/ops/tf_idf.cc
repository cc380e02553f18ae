// SPDX-License-Identifier: Apache-2.0
// Imports TfIdfVectorizer on integers or strings: every window of a row is compared with every n-gram of its length,
// and the matches are counted. A weight is that of a place in the output, as ONNX Runtime and ONNX's reference
// evaluator have it; the operator's text speaks of a place in the pool.
#include <algorithm>
#include <set>

#include "base/checked.h"
#include "graph/ops/broadcast.h"
#include "graph/ops/concat.h"
#include "graph/ops/gather.h"
#include "graph/ops/scatter.h"
#include "graph/ops/slice.h"
#include "graph/ops/string_concat.h"
#include "graph/ops/string_lookup.h"
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

namespace {

struct Grams {
  int64_t length = 0;
  std::vector<std::vector<std::string>> words;
  std::vector<int64_t> places;
};

// A byte that is in no word: words that are joined with it are equal only where each is.
char separator_of(const OnnxNode& node, const std::vector<std::string>& pool) {
  for (char c = 31; c > 0; --c)
    if (std::all_of(pool.begin(), pool.end(), [&](const std::string& word) { return word.find(c) == word.npos; }))
      return c;
  node.unsupported("a pool whose words have all control characters");
}

// How often each place's n-grams are in the rows [rows, width] of strings, as f32 [rows, outputs]. No two n-grams are
// equal.
ValueId counted(OnnxNode& node, ValueId rows, const std::vector<Grams>& all, char separator, int64_t skips,
                int64_t outputs) {
  const Shape shape = node.graph().type(rows).shape;
  const std::string between(1, separator);
  const ValueId apart = node.constant(tensor_of_strings({}, std::vector<std::string>{between}));
  // What is no n-gram is counted in one place more.
  ValueId counts = node.add(ops::Broadcast{.shape = {shape[0], Dim(outputs + 1)}}, {node.scalar(DType::f32, 0)});
  const ValueId ones = node.add(ops::Broadcast{.shape = shape}, {node.scalar(DType::f32, 1)});
  for (const Grams& grams : all) {
    ops::StringLookup lookup;
    for (const auto& words : grams.words) {
      std::string key = words[0];
      for (size_t i = 1; i < words.size(); ++i) key += between + words[i];
      lookup.keys.push_back(std::move(key));
    }
    std::vector<int64_t> places = grams.places;
    places.push_back(outputs);  // at -1, counted from the end
    const ValueId table = node.ints(places);
    for (int64_t skip = 0; skip <= (grams.length == 1 ? 0 : skips); ++skip) {
      // Windows that go beyond the row end in words that no n-gram has.
      const int64_t beyond = (grams.length - 1) * (skip + 1);
      ValueId padded = rows, window = rows;
      if (beyond > 0)
        padded = node.add(ops::Concat{.axis = 1},
                          {rows, node.add(ops::Broadcast{.shape = {shape[0], Dim(beyond)}}, {apart})});
      for (int64_t i = 0; i < grams.length && beyond > 0; ++i) {
        ops::Slice slice;
        slice.starts = {Dim(0), Dim(i * (skip + 1))};
        slice.sizes = shape;
        slice.steps = {1, 1};
        const ValueId word = node.add(slice, {padded});
        window = i == 0 ? word : node.add(ops::StringConcat{}, {node.add(ops::StringConcat{}, {window, apart}), word});
      }
      const ValueId place = node.add(ops::Gather{}, {table, node.add(lookup, {window})});
      counts = node.add(ops::Scatter{.axis = 1, .reduction = ops::ScatterReduction::add}, {counts, place, ones});
    }
  }
  ops::Slice slice;
  slice.starts = {Dim(0), Dim(0)};
  slice.sizes = {shape[0], Dim(outputs)};
  slice.steps = {1, 1};
  return node.add(slice, {counts});
}

// The rows by looking up each n-gram of theirs, of any number. Nothing where two n-grams of the pool are equal, or have
// one place.
std::optional<ValueId> by_lookup(OnnxNode& node, ValueId rows, const Tensor& pool, const std::vector<int64_t>& starts,
                                 const std::vector<int64_t>& places, int64_t least, int64_t most, int64_t skips,
                                 int64_t outputs) {
  std::vector<std::string> words;
  if (pool.dtype() == DType::string) words = strings_of(pool);
  else
    for (int64_t number : pool.to_ints()) words.push_back(concat(number));
  std::vector<Grams> all;
  std::set<int64_t> taken;
  size_t gram = 0;
  for (int64_t n = 1; n <= most; ++n) {
    const int64_t begin = starts[size_t(n - 1)];
    const int64_t end = size_t(n) < starts.size() ? starts[size_t(n)] : pool.count();
    if (begin < 0 || end < begin || end > pool.count() || (end - begin) % n != 0)
      node.bad("ngram_counts ", starts, " for a pool of ", pool.count());
    if (gram + size_t((end - begin) / n) > places.size())
      node.bad(places.size(), " places for at least ", gram + size_t((end - begin) / n), " n-grams");
    Grams own{n, {}, {}};
    std::set<std::vector<std::string>> known;
    for (int64_t at = begin; at < end; at += n, ++gram) {
      if (n < least) continue;
      own.words.emplace_back(words.begin() + at, words.begin() + at + n);
      own.places.push_back(places[gram]);
      if (!known.insert(own.words.back()).second || !taken.insert(places[gram]).second) return std::nullopt;
    }
    if (!own.words.empty()) all.push_back(std::move(own));
  }
  if (pool.dtype() != DType::string) rows = node.body("(x) => (y) { y = Cast <to = 8> (x) }", {rows})[0];
  return counted(node, rows, all, separator_of(node, words), skips, outputs);
}

}  // namespace

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
  if (least < 1 || most < least || skips < 0 || int64_t(starts.size()) < most || weights.size() != places.size())
    node.bad("n-grams of ", least, " to ", most, " with ", skips, " skips, ", starts.size(), " counts, ", places.size(),
             " places and ", weights.size(), " weights");
  int64_t outputs = 0;
  for (int64_t place : places) {
    if (place < 0 || place > (1 << 20)) node.bad("an n-gram's place is ", place);
    outputs = std::max(outputs, place + 1);
  }
  if (mode != "TF" && outputs > int64_t(weights.size()))
    node.bad(weights.size(), " weights for ", outputs, " places of the output");
  const ValueId words = x.dtype == DType::string ? node.input(0) : node.cast(node.input(0), DType::i64);
  const ValueId rows = node.reshape(words, {x.rank() == 2 ? x.shape[0] : Dim(1), x.shape.back()});
  // Products of integers in rows of a known length are quick on every device.
  if (x.dtype == DType::string || !x.shape.back().is_constant())
    if (const auto counts = by_lookup(node, rows, pool, starts, places, least, most, skips, outputs)) {
      ValueId y = *counts;
      if (mode == "IDF") {
        ProgramBuilder b({DType::f32});
        y = node.program(b.result(b.cast(b.op(Scalar::less, b.constant(DType::f32, 0), 0), DType::f32)), {y});
      }
      if (mode != "TF") {
        Tensor scale(DType::f32, {outputs});
        for (int64_t i = 0; i < outputs; ++i) scale.data<float>()[i] = float(weights[size_t(i)]);
        y = node.pointwise(Scalar::mul, {y, node.constant(scale)});
      }
      return node.set_output(0, x.rank() == 2 ? y : node.reshape(y, {Dim(outputs)}));
    }
  if (!x.shape.back().is_constant())
    node.refuse("rows of ", x, " for a pool in which n-grams are equal or have one place; give a fixed shape ",
                "with --shapes");
  const int64_t width = x.shape.back().value();
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
