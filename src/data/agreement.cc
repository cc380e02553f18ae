// SPDX-License-Identifier: Apache-2.0
#include "data/agreement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace temper {

namespace {

constexpr const char* kNoNextTokens =
    "the metric perplexity needs texts of token ids, and a language model: an output [batch, positions, vocabulary] "
    "(--output-name, if it is not called logits) of what follows each token, which later tokens do not change";
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Whatever the dtype, as doubles; f32, the usual one, without a copy.
template <class Use>
void with_values(const Tensor& a, const Tensor& b, Use&& use) {
  if (a.dtype() == DType::f32 && b.dtype() == DType::f32) return use(a.data<float>(), b.data<float>());
  if (a.dtype() == DType::string && b.dtype() == DType::string)  // equal where the codes are
    return with_values(a.with_bits_as(DType::u64), b.with_bits_as(DType::u64), use);
  const std::vector<double> x = a.to_doubles(), y = b.to_doubles();
  use(x.data(), y.data());
}

int64_t best_class(const float* row, int64_t classes) { return top_k({row, size_t(classes)}, 1).at(0).index; }

}  // namespace

std::string percent_text(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %%", 100 * share);
  return text;
}

void OutputDifference::add(const Tensor& reference, const Tensor& tested, std::span<const int64_t> numbers) {
  if (reference.dims() != tested.dims())
    fail(ErrorKind::unsupported, "output '", output, "' is ", tested.type(), " for sample ", numbers.front(), " and ",
         reference.type(), " in the reference; answers of different shapes are not compared");
  const int64_t count = int64_t(numbers.size());
  const bool rows = reference.rank() > 0 && reference.dims()[0] == count;
  const int64_t n = rows ? count : 1, size = reference.count() / n;
  with_values(reference, tested, [&](const auto* want, const auto* got) {
    for (int64_t s = 0; s < n; ++s, want += size, got += size) {
      double dot = 0, want2 = 0, got2 = 0, error2 = 0, worst = 0, most = 0;
      for (int64_t i = 0; i < size; ++i) {
        const double x = double(want[i]), y = double(got[i]);
        if (x == y || (std::isnan(x) && std::isnan(y))) {  // the same, also where it is not finite
          if (std::isfinite(x)) dot += x * x, want2 += x * x, got2 += x * x, most = std::max(most, std::fabs(x));
          continue;
        }
        const double d = std::isfinite(x) && std::isfinite(y) ? std::fabs(x - y) : kInfinity;
        if (std::isfinite(x)) want2 += x * x, most = std::max(most, std::fabs(x));
        if (std::isfinite(y)) got2 += y * y;
        if (d < kInfinity) dot += x * y;
        error2 += d * d;
        worst = std::max(worst, d);
      }
      if (worst > max_difference) max_difference = worst, max_sample = numbers[size_t(s)];
      largest = std::max(largest, most);
      signal += want2;
      noise += error2;
      const double product = std::sqrt(want2 * got2);
      const double angle = error2 == kInfinity ? 0
                           : product > 0       ? std::clamp(dot / product, -1.0, 1.0)
                           : want2 == got2     ? 1
                                               : 0;
      cosine_sum += angle;
      if (angle < least_cosine) least_cosine = angle, least_cosine_sample = numbers[size_t(s)];
      ++samples;
    }
  });
}

double OutputDifference::noise_share() const { return noise == 0 ? 0 : signal == 0 ? kInfinity : noise / signal; }
double OutputDifference::difference_share() const {
  return max_difference == 0 ? 0 : largest == 0 ? kInfinity : max_difference / largest;
}
double OutputDifference::snr_db() const { return -10 * std::log10(noise_share()); }

void join(Evaluation& all, const Evaluation& next) {
  if (all.samples == 0) {
    all = next;
    return;
  }
  const auto kinds = [](const Evaluation& e) {
    return std::tuple(e.output, e.accuracy.has_value(), e.mcnemar.has_value(), e.agreement.has_value(),
                      e.perplexity.has_value(), e.differences.size(), e.accuracy ? e.accuracy->classes : 0);
  };
  if (kinds(all) != kinds(next))
    fail(ErrorKind::usage, "these evaluations cannot be joined: they are of other outputs, or of another reference");
  all.samples += next.samples;
  for (auto accuracy : {&Evaluation::accuracy, &Evaluation::reference_accuracy})
    if (all.*accuracy) {
      (all.*accuracy)->n += (next.*accuracy)->n;
      (all.*accuracy)->top1 += (next.*accuracy)->top1;
      (all.*accuracy)->top5 += (next.*accuracy)->top5;
    }
  if (all.mcnemar) {
    all.mcnemar->n += next.mcnemar->n;
    all.mcnemar->lost += next.mcnemar->lost;
    all.mcnemar->won += next.mcnemar->won;
  }
  if (all.agreement) {
    all.agreement->n += next.agreement->n;
    all.agreement->same += next.agreement->same;
    all.agreement->positions |= next.agreement->positions;
  }
  for (auto perplexity : {&Evaluation::perplexity, &Evaluation::reference_perplexity})
    if (all.*perplexity) {
      (all.*perplexity)->n += (next.*perplexity)->n;
      (all.*perplexity)->nll += (next.*perplexity)->nll;
    }
  for (size_t i = 0; i < all.differences.size(); ++i) {
    OutputDifference& sum = all.differences[i];
    const OutputDifference& more = next.differences[i];
    sum.samples += more.samples;
    sum.signal += more.signal;
    sum.noise += more.noise;
    if (more.max_difference > sum.max_difference)
      sum.max_difference = more.max_difference, sum.max_sample = more.max_sample;
    sum.largest = std::max(sum.largest, more.largest);
    sum.cosine_sum += more.cosine_sum;
    if (more.least_cosine < sum.least_cosine)
      sum.least_cosine = more.least_cosine, sum.least_cosine_sample = more.least_cosine_sample;
  }
}

Evaluator::Evaluator(std::vector<std::string> outputs, int classes, bool labelled, bool with_reference, int tokens)
    : outputs_(std::move(outputs)), classes_(classes), tokens_(tokens), labelled_(labelled && classes >= 0) {
  if (classes >= 0) result_.output = outputs_.at(size_t(classes));
  if (labelled_) result_.accuracy.emplace();
  if (classes >= 0 && tokens >= 0) {
    result_.perplexity.emplace();
    if (with_reference) result_.reference_perplexity.emplace();
  }
  if (!with_reference) return;
  if (labelled_) result_.reference_accuracy.emplace(), result_.mcnemar.emplace();
  if (classes >= 0) result_.agreement.emplace();
  for (const std::string& output : outputs_) result_.differences.emplace_back().output = output;
}

namespace {

// The rows [n, classes] of the positions that hold a token.
Tensor rows_of_tokens(const Tensor& rows, const std::vector<char>& is_token) {
  const int64_t classes = rows.dims()[1], count = std::count(is_token.begin(), is_token.end(), char(1));
  if (count == rows.dims()[0]) return rows;
  Tensor kept(DType::f32, {count, classes});
  float* to = kept.data<float>();
  for (size_t i = 0; i < is_token.size(); ++i)
    if (is_token[i]) to = std::copy_n(rows.data<float>() + int64_t(i) * classes, classes, to);
  return kept;
}

// Logits [batch, positions, vocabulary] against the tokens that follow.
void foretell(Perplexity& sum, const Tensor& logits, const Batch& batch, const Tensor& tokens) {
  const std::vector<int64_t> ids = tokens.to_ints();
  const Tensor floats = logits.converted(DType::f32);
  const int64_t positions = logits.dims()[1], classes = logits.dims()[2];
  if (int64_t(ids.size()) != batch.count * positions)
    fail(ErrorKind::usage, "an output ", logits.type(), " foretells no tokens ", tokens.type());
  for (int64_t s = 0; s < batch.count; ++s)
    for (int64_t p = 0; p + 1 < positions; ++p) {
      const size_t at = size_t(s * positions + p);
      if (!batch.is_token.empty() && !(batch.is_token[at] && batch.is_token[at + 1])) continue;
      const int64_t next = ids[at + 1];
      if (next < 0 || next >= classes)
        fail(ErrorKind::usage, "sample ", batch.samples[size_t(s)], ", position ", p + 1, ": the token ", next,
             " is outside of the ", classes, " that the output foretells");
      const float* row = floats.data<float>() + int64_t(at) * classes;
      const double most = *std::max_element(row, row + classes);
      double all = 0;
      for (int64_t c = 0; c < classes; ++c) all += std::exp(double(row[c]) - most);
      const double nll = std::log(all) + most - double(row[next]);
      sum.nll += std::isnan(nll) ? kInfinity : nll;
      ++sum.n;
    }
}

}  // namespace

// A row for each answer.
Tensor Evaluator::answers(const Tensor& output, const Batch& batch) {
  if (output.rank() != 3 || output.dims()[2] == 1) return class_rows(output, result_.output);
  if (labelled_)
    fail(ErrorKind::usage, "output '", result_.output, "' ", output.type(),
         " holds an answer for each position, which the labels of the data do not; leave the labels out");
  if (result_.agreement) result_.agreement->positions = true;
  const Dims& dims = output.dims();
  const Tensor rows = class_rows(output.reshaped({dims[0] * dims[1], dims[2]}), result_.output);
  return int64_t(batch.is_token.size()) == rows.dims()[0] ? rows_of_tokens(rows, batch.is_token) : rows;
}

void Evaluator::add(const Batch& batch, const std::vector<Tensor>& reference, const std::vector<Tensor>& tested) {
  result_.samples += batch.count;
  for (size_t i = 0; i < result_.differences.size(); ++i)
    result_.differences[i].add(reference.at(i), tested.at(i), batch.samples);
  if (classes_ < 0) return;
  if (tokens_ >= 0) {
    const Tensor& tokens = batch.inputs.at(size_t(tokens_));
    foretell(*result_.perplexity, tested.at(size_t(classes_)), batch, tokens);
    if (result_.reference_perplexity)
      foretell(*result_.reference_perplexity, reference.at(size_t(classes_)), batch, tokens);
  }
  const Tensor rows = answers(tested.at(size_t(classes_)), batch);
  std::vector<bool> right;
  if (labelled_) right = result_.accuracy->add(rows, batch.labels, batch.samples);
  if (!result_.agreement) return;
  const Tensor other = answers(reference.at(size_t(classes_)), batch);
  if (labelled_) {
    const std::vector<bool> before = result_.reference_accuracy->add(other, batch.labels, batch.samples);
    McNemar& pairs = *result_.mcnemar;
    pairs.n += int64_t(right.size());
    for (size_t i = 0; i < right.size(); ++i) {
      pairs.lost += before[i] && !right[i];
      pairs.won += right[i] && !before[i];
    }
  }
  const int64_t classes = rows.dims()[1];
  for (int64_t i = 0; i < rows.dims()[0]; ++i) {
    const float *a = other.data<float>() + i * classes, *b = rows.data<float>() + i * classes;
    ++result_.agreement->n;
    // An answer of NaN is none, and agrees with nothing but another one.
    const auto is_broken = [&](const float* row) {
      return std::any_of(row, row + classes, [](float x) { return std::isnan(x); });
    };
    result_.agreement->same += is_broken(a) == is_broken(b) && best_class(a, classes) == best_class(b, classes);
  }
}

int classes_output(const std::vector<std::string>& names, const std::vector<TensorType>& types, std::string_view name,
                   bool text) {
  const auto classifies = [](const TensorType& type) {
    const Shape& shape = type.shape;
    bool good = is_float(type.dtype) && shape.size() >= 2 && (!shape[1].is_constant() || shape[1].value() > 1);
    for (size_t axis = 2; good && axis < shape.size(); ++axis)
      good = shape[axis].is_constant() && shape[axis].value() == 1;
    return good;
  };
  int found = -1;
  std::string list;
  for (size_t i = 0; i < names.size(); ++i) {
    list += concat(i ? ", " : "", names[i]);
    if (!name.empty() && names[i] == name) {
      const bool sequence = is_float(types[i].dtype) && types[i].shape.size() == 3;
      if (!classifies(types[i]) && !sequence)
        fail(ErrorKind::usage, "output '", name, "' ", types[i],
             " holds no classes: [batch, classes] or [batch, positions, classes] of floats is needed");
      return int(i);
    }
    if (name.empty() && classifies(types[i])) found = found == -1 ? int(i) : -2;
  }
  if (name.empty() && text && found == -1)
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] == "logits" && is_float(types[i].dtype) && types[i].shape.size() == 3) return int(i);
  if (!name.empty()) fail(ErrorKind::usage, "the model has no output '", name, "'; it has: ", list);
  return std::max(found, -1);
}

Metric parse_metric(std::string_view text) {
  for (Metric metric :
       {Metric::top1, Metric::agreement, Metric::perplexity, Metric::cosine, Metric::snr, Metric::difference})
    if (text == name_of(metric)) return metric;
  fail(ErrorKind::usage, "there is no metric '", text,
       "'; there are top1, agreement, perplexity, cosine, snr and difference");
}

std::string_view name_of(Metric metric) {
  switch (metric) {
    case Metric::top1: return "top1";
    case Metric::agreement: return "agreement";
    case Metric::perplexity: return "perplexity";
    case Metric::cosine: return "cosine";
    case Metric::snr: return "snr";
    case Metric::difference: return "difference";
  }
  return "";
}

Metric default_metric(const Evaluation& evaluation) {
  return evaluation.accuracy ? Metric::top1 : evaluation.agreement ? Metric::agreement : Metric::snr;
}

double worst_noise_share(const Evaluation& evaluation) {
  double worst = 0;
  for (const OutputDifference& d : evaluation.differences) worst = std::max(worst, d.noise_share());
  return worst;
}

double drop_of(const Evaluation& evaluation, Metric metric) {
  if (evaluation.differences.empty()) fail(ErrorKind::usage, "a drop needs a reference to compare with");
  if (metric == Metric::top1) {
    if (!evaluation.mcnemar)
      fail(ErrorKind::usage,
           "the metric top1 needs data with right answers and an output that holds classes (--output-name); agreement, "
           "cosine, snr and difference need none");
    return evaluation.mcnemar->drop();
  }
  if (metric == Metric::agreement) {
    if (!evaluation.agreement)
      fail(ErrorKind::usage,
           "the metric agreement needs an output that holds classes (--output-name); cosine, snr and difference "
           "compare outputs of any kind");
    return 1 - evaluation.agreement->rate();
  }
  if (metric == Metric::perplexity) {
    if (!evaluation.reference_perplexity) fail(ErrorKind::usage, kNoNextTokens);
    const double rise = (evaluation.perplexity->nll - evaluation.reference_perplexity->nll) /
                        double(std::max<int64_t>(1, evaluation.perplexity->n));
    return std::isnan(rise) ? kInfinity : std::expm1(rise);
  }
  if (metric == Metric::snr) return worst_noise_share(evaluation);
  double worst = 0;
  for (const OutputDifference& d : evaluation.differences)
    worst = std::max(worst, metric == Metric::difference ? d.difference_share() : 1 - d.cosine());
  return worst;
}

bool only_guesses(const Accuracy& accuracy) {
  const double chance = 1.0 / double(accuracy.classes);
  const Interval interval = accuracy.top1_interval();
  return accuracy.n > 0 && interval.low <= chance && interval.high < chance + 0.1 * (1 - chance);
}

std::string chance_warning(const Accuracy& accuracy) {
  const double chance = 1.0 / double(accuracy.classes);
  const Interval interval = accuracy.top1_interval();
  if (accuracy.n == 0 || interval.low > chance) return "";
  if (wilson_interval(accuracy.n, accuracy.n).low <= chance)
    return concat(accuracy.n, " samples are too few to tell ", accuracy.classes,
                  " classes from guessing, even if all were right");
  const bool certain = only_guesses(accuracy);
  return concat(accuracy.top1, " of ", accuracy.n, " right is ", percent_text(accuracy.top1_rate()), " (95 % interval ",
                percent_text(interval.low), " to ", percent_text(interval.high), "), which ",
                certain ? "is no better than" : "may be no better than", " guessing among ", accuracy.classes,
                " classes (", percent_text(chance),
                "): look at the preprocessing (--mean, --std, --scale, --bgr), at the order of the classes "
                "(--class-names) and at the labels",
                certain ? "" : ", or give more samples");
}

void check_class_count(const Dataset& data, int64_t classes, std::string_view output) {
  const int64_t names = int64_t(data.class_names().size());
  if (names && names != classes)
    fail(ErrorKind::usage, "the data has ", names, " classes and the output '", output, "' ", classes,
         "; which number each class has is told by --class-names with ", classes, " lines");
}

void check_no_overlap(const std::unordered_set<uint64_t>& calibrated, const Batch& batch) {
  if (calibrated.empty()) return;
  for (size_t i = 0; i < batch.hashes.size(); ++i)
    if (calibrated.contains(batch.hashes[i]))
      fail(ErrorKind::usage, "sample '", batch.names.at(i),
           "' has the same content as one that the ranges were calibrated on; evaluate on other data (temper study "
           "splits one set in two)");
}

}  // namespace temper
