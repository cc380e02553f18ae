// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/sample.h"

#include <algorithm>

namespace temper::ops {

std::vector<TensorType> Sample::infer(const InferContext& context) const {
  context.expect_inputs(5, 5);
  context.expect_rank(0, 2, 2);
  context.expect_rank(1, 3, 3);
  context.expect_rank(2, 1, 1);
  context.expect_rank(3, 2, 2);
  context.expect_rank(4, 2, 2);
  const TensorType &logits = context.type(0), &tokens = context.type(1), &lengths = context.type(2),
                   &settings = context.type(3), &draws = context.type(4);
  if (logits.dtype != DType::f32 || tokens.dtype != DType::i64 || lengths.dtype != DType::i64 ||
      settings.dtype != DType::f64 || draws.dtype != DType::f64)
    fail(ErrorKind::bad_file, "sample of ", logits, ", ", tokens, ", ", lengths, ", ", settings, " and ", draws);
  const auto agree = [](const Dim& a, const Dim& b) { return !a.is_constant() || !b.is_constant() || a == b; };
  const Dim& batch = logits.shape[0];
  if (!agree(batch, tokens.shape[0]) || !agree(batch, lengths.shape[0]) || !agree(batch, settings.shape[0]) ||
      !agree(batch, draws.shape[0]) || !agree(tokens.shape[1], draws.shape[1]) || !agree(tokens.shape[2], 1) ||
      !agree(settings.shape[1], sampling::kSettings))
    fail(ErrorKind::bad_file, "tokens ", tokens, ", lengths ", lengths, ", settings ", settings, " and draws ", draws,
         " do not fit ", logits);
  if (draws.shape[1] == Dim(0)) fail(ErrorKind::bad_file, "draws ", draws, " are none");
  const Dim& vocabulary = logits.shape[1];
  if (vocabulary.is_constant() && (vocabulary.value() < 1 || vocabulary.value() > sampling::kMostTokens))
    fail(ErrorKind::unsupported, "a token of ", vocabulary, " is drawn; 1 to ", sampling::kMostTokens, " are known");
  const TensorType out{DType::i64, {batch, 1}};
  return {out, out};
}

namespace {

struct Chosen {
  int64_t token;
  sampling::Flaw flaw;
};

// All tokens are sorted, and weights summed up one by one.
Chosen choose(const std::vector<float>& x, double temperature, double top_k, double top_p, double draw) {
  const auto vocabulary = int64_t(x.size());
  std::vector<uint64_t> ranks;
  for (int64_t i = 0; i < vocabulary; ++i) ranks.push_back(sampling::rank_of(x[size_t(i)], i));
  std::sort(ranks.begin(), ranks.end(), std::greater<>());
  const int64_t best = sampling::token_of(ranks[0]), kept = sampling::kept_of(top_k, vocabulary);
  const float most = x[size_t(best)];
  if (std::isnan(most)) return {best, sampling::kNan};
  if (std::isinf(most)) return {best, sampling::kInfinite};
  if (!(temperature > 0) || kept == 1) return {best, sampling::kNone};

  std::vector<int64_t> order;
  order.reserve(ranks.size());
  for (const uint64_t rank : ranks) order.push_back(sampling::token_of(rank));
  if (kept == vocabulary && !(top_p < 1)) std::sort(order.begin(), order.end());
  order.resize(size_t(kept));
  const double scale = sampling::scale_of(temperature);
  const int bits = sampling::weight_bits(vocabulary);
  std::vector<uint64_t> sums;
  sums.reserve(order.size());
  uint64_t sum = 0;
  for (const int64_t token : order)
    sums.push_back(sum += sampling::weight_of((double(x[size_t(token)]) - double(most)) * scale, bits));
  if (top_p < 1)
    sum = *std::find_if(sums.begin(), sums.end(),
                        [&](uint64_t so_far) { return so_far > 0 && double(so_far) >= top_p * double(sum); });
  const double drawn = sampling::draw_of(draw) * double(sum);
  const auto at = std::find_if(sums.begin(), sums.end(), [&](uint64_t so_far) { return double(so_far) > drawn; });
  return {at == sums.end() ? best : order[size_t(at - sums.begin())], sampling::kNone};
}

}  // namespace

std::vector<Tensor> Sample::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  Tensor tokens(DType::i64, outputs[0].dims()), flaws(DType::i64, outputs[1].dims());
  const int64_t vocabulary = inputs[0].dims()[1], positions = inputs[1].dims()[1];
  for (int64_t b = 0; b < inputs[0].dims()[0]; ++b) {
    const float* logits = inputs[0].data<float>() + b * vocabulary;
    std::vector<float> x(logits, logits + vocabulary);
    const int64_t* seen = inputs[1].data<int64_t>() + b * positions;
    const int64_t length = inputs[2].data<int64_t>()[b];
    const double* settings = inputs[3].data<double>() + b * sampling::kSettings;
    for (int64_t i = 0; sampling::penalises(settings[3]) && i < std::min(length, positions); ++i)
      if (seen[i] >= 0 && seen[i] < vocabulary) x[size_t(seen[i])] = sampling::penalised(logits[seen[i]], settings[3]);
    const double draw = inputs[4].data<double>()[b * positions + sampling::draw_at(length, positions)];
    const Chosen chosen = choose(x, settings[0], settings[1], settings[2], draw);
    tokens.data<int64_t>()[b] = chosen.token, flaws.data<int64_t>()[b] = chosen.flaw;
  }
  return {tokens, flaws};
}

bool Sample::sliceable(const BatchedNode& node) const {
  for (size_t i = 0; i < 5; ++i)
    if (!node.is_batched(i)) return false;
  return true;
}

}  // namespace temper::ops
