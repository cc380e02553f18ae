// SPDX-License-Identifier: Apache-2.0
// Scores the outputs of an engine: against the truth where there is one, against another engine's outputs always.
#pragma once
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "data/dataset.h"
#include "data/topk.h"

namespace temper {

// How one output differs from the reference's, over all samples. An element that is not finite counts as an infinite
// difference, unless the reference holds the same there.
struct OutputDifference {
  std::string output;
  int64_t samples = 0;
  double signal = 0, noise = 0;  // sums of the squares of the reference, and of the difference
  double max_difference = 0;     // largest absolute one
  int64_t max_sample = 0;        // the sample with it
  double largest = 0;            // magnitude in the reference, of what is finite
  double cosine_sum = 0, least_cosine = 1;
  int64_t least_cosine_sample = 0;

  // One of `samples` (their numbers, to be named by) after the other along the first axis; an output without that axis
  // is one sample. Throws Error{unsupported} where the shapes differ.
  void add(const Tensor& reference, const Tensor& tested, std::span<const int64_t> samples);
  double cosine() const { return samples ? cosine_sum / double(samples) : 1; }  // mean over the samples
  double snr_db() const;            // 10 log10(signal / noise); infinite where nothing differs
  double noise_share() const;       // noise / signal
  double difference_share() const;  // max_difference / largest
};

struct Agreement {
  int64_t n = 0, same = 0;  // answers, and those whose best class is the same
  bool positions = false;   // a sample is a sequence of answers: [batch, positions, classes]
  double rate() const { return n ? double(same) / double(n) : 0; }
  Interval interval() const { return wilson_interval(same, n); }
};

// How well a language model foretells texts: by the probability, softmax of its logits, of each token behind those
// before it.
struct Perplexity {
  int64_t n = 0;   // tokens that were foretold
  double nll = 0;  // sum of -log(probability); infinite where a logit that counts is NaN
  double value() const { return n ? std::exp(nll / double(n)) : 1; }
};

// The outcome of a run over data. Figures that need truth, a reference or a classifier's output are absent without it.
struct Evaluation {
  int64_t samples = 0;
  std::string output;  // the classifier's
  std::optional<Accuracy> accuracy, reference_accuracy;
  std::optional<McNemar> mcnemar;  // the reference first
  std::optional<Agreement> agreement;
  std::optional<Perplexity> perplexity, reference_perplexity;
  std::vector<OutputDifference> differences;  // against the reference, by output
};

// Adds what later samples gave to what earlier ones did. Sums come out the same in any grouping of whole `next`s, as
// long as their order is that of the samples. Throws Error{usage} where the two are not of the same outputs.
void join(Evaluation& all, const Evaluation& next);

class Evaluator {
 public:
  // `classes` is the number of the output that holds the classes, -1 for none; `labelled`: batches bring the truth.
  // `tokens`: the input whose tokens this output foretells, [batch, positions, vocabulary] of what follows each of
  // them; -1: none, and there is no perplexity.
  Evaluator(std::vector<std::string> outputs, int classes, bool labelled, bool with_reference, int tokens = -1);
  // `reference` has no tensors without a reference.
  void add(const Batch& batch, const std::vector<Tensor>& reference, const std::vector<Tensor>& tested);
  const Evaluation& result() const { return result_; }

 private:
  Tensor answers(const Tensor& output, const Batch& batch);

  std::vector<std::string> outputs_;
  int classes_, tokens_;
  bool labelled_;
  Evaluation result_;
};

// The number of the output that holds the classes: that of the given name, or the only one that has a classifier's type
// ([batch, classes] of floats, at least two classes; symbolic dimensions may be). -1 where the name is empty and none
// or several have it. An output of [batch, positions, classes], of text or tokens, has to be named, as features look
// the same; it has no labels. Of a model of text whose data have no labels (`text`) the one that is called `logits`
// needs no name. Throws Error{usage} where the name is no output or its type neither of these.
int classes_output(const std::vector<std::string>& names, const std::vector<TensorType>& types, std::string_view name,
                   bool text = false);

// The metrics that may be asked of a tested engine, and the drop that a budget (--max-drop) bounds: each is a share, 0
// for no loss.
//   top1:      by how much it is right less often than the reference;
//   agreement: the share of samples, or of tokens, with another best class than the reference's;
//   perplexity: by how much it is above the reference's, as a share of that;
//   cosine:    1 - cosine, of the worst output;
//   snr:       noise / signal, of the worst output: 0.5 % is 23 dB;
//   difference: the largest difference of an element by the reference's largest magnitude, of the worst output.
enum class Metric { top1, agreement, perplexity, cosine, snr, difference };
Metric parse_metric(std::string_view text);  // throws Error{usage} with what there is
std::string_view name_of(Metric metric);
// top1 where there is truth, agreement for a classifier without, snr otherwise.
Metric default_metric(const Evaluation& evaluation);
// Throws Error{usage} where the evaluation lacks what the metric needs, saying what.
double drop_of(const Evaluation& evaluation, Metric metric);
// The noise share of the worst output. It tells equal drops apart.
double worst_noise_share(const Evaluation& evaluation);

// A classifier that does no better than guessing shows a broken pipeline rather than a bad model: what to look at, with
// the interval, where that reaches down to 1 / classes; empty otherwise. With so few samples that even a perfect score
// would, the text says that.
std::string chance_warning(const Accuracy& accuracy);
// That it guesses is beyond doubt: the whole interval is below a tenth of the way from 1 / classes to 1.
bool only_guesses(const Accuracy& accuracy);
// Throws Error{usage} where the data's list of classes (its folders, or --class-names) is not as long as the output.
void check_class_count(const Dataset& data, int64_t classes, std::string_view output);
// Throws Error{usage}, naming the sample, where one of the batch has the content (Batch::hashes) of a sample that was
// calibrated on: accuracy on it is not that on new ones.
void check_no_overlap(const std::unordered_set<uint64_t>& calibrated, const Batch& batch);

std::string percent_text(double share);  // "98.66 %"

}  // namespace temper
