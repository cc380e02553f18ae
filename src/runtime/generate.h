// SPDX-License-Identifier: Apache-2.0
// Generates tokens with a model that keeps its keys and values in caches (graph/caches.h): reads a prompt in pieces of
// the sizes that the engine has plans for, then one token after the other.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/engine.h"
#include "runtime/sample.h"

namespace temper {

// The rows of tokens of one engine's batch, of different lengths. It belongs to one thread. Where a call throws, the
// rows are as they were before, and can be read on or reset.
class TokenReader {
 public:
  // Throws Error{usage} for an engine without the inputs and outputs of graph/caches.h.
  explicit TokenReader(std::shared_ptr<const Engine> engine);

  int64_t batch() const { return batch_; }
  int64_t positions() const { return positions_; }    // that the caches have
  int64_t vocabulary() const { return vocabulary_; }  // tokens are 0 to vocabulary - 1
  int64_t length(int64_t row) const { return lengths_.at(size_t(row)); }
  int64_t room() const;  // of the longest row
  // The last token of each row that has one counts as not read, and is to be read again before next() is asked for.
  void take_back();
  void reset();  // all rows are empty

  // How next() is chosen from here on; at first it is the largest logit. A row's first number is drawn for the token
  // behind firsts[row] tokens, and for each token behind that there is one. Throws Error{usage} as check() does.
  void sample_by(const SampleOptions& options, const std::vector<int64_t>& firsts);
  std::unique_ptr<TokenReader> fork();

  // Reads `tokens`, by row, behind what was read before; a row without tokens stays as it is. With `wants_logits` false
  // the logits stay where they were made, and only next() can be asked for.
  // With `goes_on` the caller will most likely read next() of each of these rows next, without logits: a GPU begins
  // with that before the host knows what it is. Where other tokens come, or none, what was read so counts for nothing.
  // Throws Error{usage} for another number of rows, tokens outside of the vocabulary, and more than there is room for.
  void read(const std::vector<std::vector<int64_t>>& tokens, bool wants_logits = true, bool goes_on = false);
  // The logits of the row's last token, from the last read() that gave the row tokens. Throws Error{usage} where that
  // did not want them.
  std::span<const float> logits(int64_t row) const;
  // The token to go on with, by the same read(). Throws Error{bad_file} where the logits are NaN or infinite.
  int64_t next(int64_t row) const;

  Session& session() { return *session_; }

 private:
  std::shared_ptr<const Engine> engine_;
  // On a device with memory of its own: tokens, lengths and counts of a run there, settings and draws, what is wrong
  // with logits in two places that take turns, as states do; and on the host tokens and what is wrong. The session and
  // its queue end before them.
  std::shared_ptr<void> given_, sampling_, flaws_, read_;
  size_t turn_ = 0;  // of flaws_
  std::unique_ptr<Session> session_;
  int64_t batch_ = 0, positions_ = 0, vocabulary_ = 0;
  std::vector<int64_t> sizes_;  // numbers of tokens that there are plans for, rising
  size_t tokens_at_ = 0, lengths_at_ = 0, counts_at_ = 0, settings_at_ = 0, draws_at_ = 0, logits_at_ = 0, next_at_ = 0,
         flaw_at_ = 0;
  std::vector<int64_t> lengths_, next_, flaw_;
  std::vector<double> settings_, draws_;
  std::vector<float> logits_;
  std::vector<char> has_logits_;  // by row
  bool has_flaws_ = false;        // some logits were no numbers, and so may what the caches hold be
  std::vector<Tensor> made_;      // outputs of one run, by port
  // On a device with memory of its own, tokens and lengths are state, which a run finds where the one before writes it.
  std::unique_ptr<Queue> reads_;               // tokens, beside the session's queue; null on the host
  size_t next_state_ = 0;                      // of the session's states
  std::optional<std::vector<int64_t>> ahead_;  // counts of a run that was begun on next(), behind what was read

  int64_t row_bytes() const;  // of a number for each row, aligned as inputs are
  std::byte* draws_there() const;
  void copy_sampling();  // to the device
  int64_t size_for(int64_t left) const;
  void run(const std::vector<std::vector<int64_t>>& tokens, const std::vector<size_t>& from, int64_t size,
           const std::vector<int64_t>& lengths, const std::vector<int64_t>& counts, bool wants_logits);
  std::vector<TensorType> prepare(int64_t size);
  void begin(const std::vector<std::vector<int64_t>>& tokens, const std::vector<int64_t>& counts);
  void begin(std::vector<const void*> in);
  std::byte* flaw_there() const;  // of the run put in last
  void begin_behind();
  void begin_to_read_tokens();
  const int64_t* flaws_read() const;
  void note_flaws(const int64_t* flaws);
  void read_one_each(const std::vector<std::vector<int64_t>>& tokens, bool goes_on);
};

struct GenerateOptions {
  SampleOptions sample;
  int64_t most = 128;             // tokens of a row
  std::vector<int64_t> end_with;  // tokens behind which a row ends
};

// Rows of tokens that go on from prompts.
class Generator {
 public:
  // Reads the prompts, behind what `reader` holds. Throws as TokenReader::read, and Error{usage} for an empty prompt
  // and for tokens in `end_with` that are outside of the vocabulary.
  Generator(TokenReader& reader, std::vector<std::vector<int64_t>> prompts, const GenerateOptions& options);

  // The next token of each row, -1 of those that have ended; empty when all have: after `most` tokens, a token of
  // end_with (which is given out), or where the caches are full.
  // Throws Error{bad_file} where a row's logits are NaN or infinite, and again when asked again: no row goes on then.
  std::vector<int64_t> next();
  // The same rows by `reader`, a fork of this one's, which go on by themselves; with a seed the tokens from here on are
  // drawn by that one.
  std::unique_ptr<Generator> fork(TokenReader& reader, std::optional<uint64_t> seed = std::nullopt) const;
  // Why a row has ended; "" while it has not: "end", "most", "room".
  const std::string& why(int64_t row) const { return ended_.at(size_t(row)); }
  void end(int64_t row, const std::string& why) { ended_.at(size_t(row)) = why; }

  // Milliseconds: of reading the prompts and choosing the first tokens; of all calls of next() behind the first.
  double first_ms() const { return first_ms_; }
  double rest_ms() const { return rest_ms_; }
  int64_t tokens() const { return given_; }  // of all rows
  int64_t steps() const { return steps_; }   // calls of next() that gave tokens

 private:
  Generator(TokenReader& reader, const Generator& other);

  TokenReader& reader_;
  std::vector<std::vector<int64_t>> rows_;
  GenerateOptions options_;
  std::vector<std::string> ended_;
  std::vector<int64_t> last_, each_;  // the token to read next, by row, none where all are read; tokens given
  double first_ms_ = 0, rest_ms_ = 0;
  int64_t given_ = 0, steps_ = 0;
};

}  // namespace temper
