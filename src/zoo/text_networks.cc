// SPDX-License-Identifier: Apache-2.0
// GPT-2 and BERT.
#include <cmath>

#include "base/concat.h"
#include "zoo/networks.h"

namespace temper::zoo {
namespace {

using Ints = std::vector<int64_t>;
constexpr float kNotSeen = -3.4028234663852886e38f;  // the lowest f32: no key behind it counts
constexpr auto kInt64 = onnx::TensorProto::INT64, kFloat = onnx::TensorProto::FLOAT;

// [B,S,H*D] -> [B,H,S,D]
std::string split_heads(Builder& b, const std::string& name, const std::string& x, int64_t heads, int64_t head) {
  const std::string parts = b.op("Reshape", concat(name, ".parts"), {x, b.integers({0, 0, heads, head})});
  return b.op("Transpose", concat(name, ".heads"), {parts}, {{"perm", Ints{0, 2, 1, 3}}});
}

// q k v [B,H,S,D] -> [B,Sq,H*D]; `seen` makes of scores [B,H,Sq,Sk] those that count.
template <typename Seen>
std::string attend(Builder& b, const std::string& name, const std::string& q, const std::string& k,
                   const std::string& v, int64_t heads, int64_t head, const Seen& seen) {
  const std::string turned = b.op("Transpose", concat(name, ".keys"), {k}, {{"perm", Ints{0, 1, 3, 2}}});
  const std::string products = b.op("MatMul", concat(name, ".products"), {q, turned});
  const std::string scores =
      b.op("Mul", concat(name, ".scores"), {products, b.number(float(1 / std::sqrt(double(head))))});
  const std::string shares = b.op("Softmax", concat(name, ".shares"), {seen(scores)}, {{"axis", int64_t(-1)}});
  const std::string sums = b.op("MatMul", concat(name, ".sums"), {shares, v});
  const std::string rows = b.op("Transpose", concat(name, ".rows"), {sums}, {{"perm", Ints{0, 2, 1, 3}}});
  return b.op("Reshape", concat(name, ".joined"), {rows, b.integers({0, 0, heads * head})});
}

// x [B,S,in] @ weight [in,out]: transformers keeps GPT-2's products this way round.
std::string conv1d(Builder& b, const std::string& name, const std::string& x, int64_t in, int64_t out, double gain) {
  const std::string weight = b.weights(concat(name, ".weight"), {in, out}, 0, gain / std::sqrt(double(in)));
  const std::string product = b.op("MatMul", concat(name, ".product"), {x, weight});
  return b.op("Add", name, {product, b.weights(concat(name, ".bias"), {out}, 0, 0.02)});
}

// The approximation by tanh that GPT-2 was trained with.
std::string gelu_by_tanh(Builder& b, const std::string& name, const std::string& x) {
  const std::string square = b.op("Mul", concat(name, ".square"), {x, x});
  const std::string cube = b.op("Mul", concat(name, ".cube"), {square, x});
  const std::string part = b.op("Mul", concat(name, ".part"), {cube, b.number(0.044715f)});
  const std::string sum = b.op("Add", concat(name, ".sum"), {x, part});
  const std::string inner = b.op("Mul", concat(name, ".inner"), {sum, b.number(0.7978845608028654f)});  // sqrt(2 / pi)
  const std::string share =
      b.op("Add", concat(name, ".share"), {b.op("Tanh", concat(name, ".tanh"), {inner}), b.number(1)});
  return b.op("Mul", name, {b.op("Mul", concat(name, ".half"), {x, b.number(0.5f)}), share});
}

std::string gelu(Builder& b, const std::string& name, const std::string& x) {
  const std::string scaled = b.op("Mul", concat(name, ".scaled"), {x, b.number(0.7071067811865476f)});
  const std::string share =
      b.op("Add", concat(name, ".share"), {b.op("Erf", concat(name, ".erf"), {scaled}), b.number(1)});
  return b.op("Mul", name, {b.op("Mul", concat(name, ".half"), {x, b.number(0.5f)}), share});
}

std::string size_of_axis(Builder& b, const std::string& name, const std::string& x, int64_t axis) {
  const std::string all = b.op("Shape", concat(name, ".shape"), {x});
  return b.op("Gather", name, {all, b.integer(axis)});
}

}  // namespace

std::string gpt2(Builder& b, const Gpt2Sizes& sizes) {
  const int64_t width = sizes.heads * sizes.head;
  // Branches into the residual sum are small, as training starts them: the sum stays in range over many layers.
  const double gain = 1 / std::sqrt(2.0 * double(sizes.layers));
  b.input("input_ids", kInt64, {"batch", "sequence"});
  b.input("attention_mask", kInt64, {"batch", "past + sequence"});
  b.input("position_ids", kInt64, {"batch", "sequence"});
  for (int64_t i = 0; i < sizes.layers; ++i)
    for (const char* what : {"key", "value"})
      b.input(concat("past_key_values.", i, '.', what), kFloat, {"batch", sizes.heads, "past", sizes.head});

  // Keys up to the query's own position, of those that attention_mask has.
  const std::string past = size_of_axis(b, "past_length", "past_key_values.0.key", 2);
  const std::string all = b.op("Add", "length", {past, size_of_axis(b, "new_length", "input_ids", 1)});
  const std::string keys = b.op("Range", "keys", {b.integer(0), all, b.integer(1)});
  const std::string queries = b.op("Range", "queries", {past, all, b.integer(1)});
  const std::string column = b.op("Unsqueeze", "queries.column", {queries, b.integers({1})});
  const std::string before = b.op("LessOrEqual", "before", {keys, column});
  const std::string there = b.op("Cast", "there", {"attention_mask"}, {{"to", int64_t(onnx::TensorProto::BOOL)}});
  const std::string row = b.op("Unsqueeze", "there.row", {there, b.integers({1, 2})});
  const std::string counts = b.op("And", "counts", {before, row});

  const std::string words = b.weights("transformer.wte.weight", {sizes.words, width}, 0, 0.05);
  const std::string places = b.weights("transformer.wpe.weight", {sizes.positions, width}, 0, 0.02);
  std::string x =
      b.op("Add", "embedded",
           {b.op("Gather", "words", {words, "input_ids"}), b.op("Gather", "places", {places, "position_ids"})});
  for (int64_t i = 0; i < sizes.layers; ++i) {
    const std::string layer = concat("transformer.h.", i), attn = concat(layer, ".attn");
    std::string y = b.layer_norm(concat(layer, ".ln_1"), x, width, 1e-5f);
    y = conv1d(b, concat(attn, ".c_attn"), y, width, 3 * width, 1);
    b.op("Split", concat(attn, ".q"), {y, b.integers({width, width, width})}, {{"axis", int64_t(2)}},
         {concat(attn, ".k"), concat(attn, ".v")});
    const std::string q = split_heads(b, concat(attn, ".q"), concat(attn, ".q"), sizes.heads, sizes.head);
    auto longer = [&](const char* what, const std::string& rows) {
      return b.op("Concat", concat("present.", i, '.', what), {concat("past_key_values.", i, '.', what), rows},
                  {{"axis", int64_t(2)}});
    };
    const std::string k =
        longer("key", split_heads(b, concat(attn, ".k"), concat(attn, ".k"), sizes.heads, sizes.head));
    const std::string v =
        longer("value", split_heads(b, concat(attn, ".v"), concat(attn, ".v"), sizes.heads, sizes.head));
    y = attend(b, attn, q, k, v, sizes.heads, sizes.head, [&](const std::string& scores) {
      return b.op("Where", concat(attn, ".seen"), {counts, scores, b.number(kNotSeen)});
    });
    x = b.op("Add", concat(layer, ".sum_1"), {x, conv1d(b, concat(attn, ".c_proj"), y, width, width, gain)});
    y = b.layer_norm(concat(layer, ".ln_2"), x, width, 1e-5f);
    y = gelu_by_tanh(b, concat(layer, ".mlp.act"), conv1d(b, concat(layer, ".mlp.c_fc"), y, width, 4 * width, 1));
    x = b.op("Add", concat(layer, ".sum_2"), {x, conv1d(b, concat(layer, ".mlp.c_proj"), y, 4 * width, width, gain)});
  }
  x = b.layer_norm("transformer.ln_f", x, width, 1e-5f);
  const std::string turned = b.op("Transpose", "lm_head.weight", {words}, {{"perm", Ints{1, 0}}});
  b.op("MatMul", "logits", {x, turned});
  b.output("logits", {"batch", "sequence", sizes.words});
  for (int64_t i = 0; i < sizes.layers; ++i)
    for (const char* what : {"key", "value"})
      b.output(concat("present.", i, '.', what), {"batch", sizes.heads, "past + sequence", sizes.head});
  return b.finish();
}

std::string bert(Builder& b, const BertSizes& sizes) {
  const int64_t width = sizes.heads * sizes.head;
  constexpr float epsilon = 1e-12f;
  for (const char* name : {"input_ids", "attention_mask", "token_type_ids"})
    b.input(name, kInt64, {"batch", "sequence"});
  const std::string ones = b.op("Cast", "mask", {"attention_mask"}, {{"to", int64_t(kFloat)}});
  const std::string zeros = b.op("Sub", "mask.zeros", {b.number(1), ones});
  const std::string low = b.op("Mul", "mask.low", {zeros, b.number(kNotSeen)});
  const std::string mask = b.op("Unsqueeze", "mask.row", {low, b.integers({1, 2})});

  auto table = [&](const char* name, int64_t rows) {
    return b.weights(concat("embeddings.", name, ".weight"), {rows, width}, 0, 0.05);
  };
  const std::string length =
      b.op("Unsqueeze", "length", {size_of_axis(b, "length.size", "input_ids", 1), b.integers({0})});
  const std::string places = b.op(
      "Slice", "places", {table("position_embeddings", sizes.positions), b.integers({0}), length, b.integers({0})});
  const std::string words = b.op("Gather", "words", {table("word_embeddings", sizes.words), "input_ids"});
  const std::string kinds = b.op("Gather", "kinds", {table("token_type_embeddings", 2), "token_type_ids"});
  std::string x = b.op("Add", "embedded", {b.op("Add", "words_and_kinds", {words, kinds}), places});
  x = b.layer_norm("embeddings.LayerNorm", x, width, epsilon);
  for (int64_t i = 0; i < sizes.layers; ++i) {
    const bool last = i + 1 == sizes.layers;
    const std::string layer = concat("encoder.layer.", i), self = concat(layer, ".attention.self"),
                      out = concat(layer, ".attention.output");
    auto part = [&](const char* name) {
      const std::string whole = self + '.' + name;
      return split_heads(b, whole, b.dense(whole, x, width, width), sizes.heads, sizes.head);
    };
    const std::string q = part("query"), k = part("key"), v = part("value");
    std::string y = attend(b, self, q, k, v, sizes.heads, sizes.head, [&](const std::string& scores) {
      return b.op("Add", concat(self, ".seen"), {scores, mask});
    });
    y = b.op("Add", concat(out, ".sum"), {b.dense(concat(out, ".dense"), y, width, width), x});
    x = b.layer_norm(concat(out, ".LayerNorm"), y, width, epsilon);
    y = gelu(b, concat(layer, ".intermediate.act"), b.dense(concat(layer, ".intermediate.dense"), x, width, 4 * width));
    y = b.op("Add", concat(layer, ".output.sum"), {b.dense(concat(layer, ".output.dense"), y, 4 * width, width), x});
    x = b.layer_norm(concat(layer, ".output.LayerNorm"), y, width, epsilon);
    if (last) x = b.op("Identity", "last_hidden_state", {x});
  }
  b.output("last_hidden_state", {"batch", "sequence", width});
  const std::string first = b.op("Gather", "first", {x, b.integer(0)}, {{"axis", int64_t(1)}});
  b.op("Tanh", "pooler_output", {b.dense("pooler.dense", first, width, width)});
  b.output("pooler_output", {"batch", width});
  return b.finish();
}

}  // namespace temper::zoo
