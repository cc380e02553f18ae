// SPDX-License-Identifier: Apache-2.0
#include "runtime/generate.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "backends/backend.h"
#include "base/checked.h"
#include "graph/caches.h"
#include "graph/ops/sample.h"

namespace temper {

namespace {

constexpr int64_t kNumber = sizeof(int64_t);

std::vector<std::string> names_of(const std::vector<PortInfo>& ports) {
  std::vector<std::string> names;
  names.reserve(ports.size());
  for (const PortInfo& port : ports) names.push_back(port.name);
  return names;
}

bool reads_one_each(const std::vector<std::vector<int64_t>>& tokens) {
  const auto one = [](const std::vector<int64_t>& row) { return row.size() == 1; };
  const auto few = [](const std::vector<int64_t>& row) { return row.size() <= 1; };
  return std::all_of(tokens.begin(), tokens.end(), few) && std::any_of(tokens.begin(), tokens.end(), one);
}

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TokenReader::TokenReader(std::shared_ptr<const Engine> engine) : engine_(std::move(engine)) {
  const auto pairs = caches::pairs_by_name(names_of(engine_->inputs()), names_of(engine_->outputs()));
  const auto find = [&](const std::vector<PortInfo>& ports, std::string_view name) {
    for (size_t i = 0; i < ports.size(); ++i)
      if (ports[i].name == name) return i;
    fail(ErrorKind::usage, "the model does not generate: it has no ", &ports == &engine_->inputs() ? "input" : "output",
         " '", name, "'; build it with --cache POSITIONS");
  };
  constexpr std::string_view kInputs[] = {caches::kTokens, caches::kLengths, caches::kCounts, caches::kSettings,
                                          caches::kDraws};
  lengths_at_ = find(engine_->inputs(), caches::kLengths), counts_at_ = find(engine_->inputs(), caches::kCounts);
  tokens_at_ = find(engine_->inputs(), caches::kTokens);
  settings_at_ = find(engine_->inputs(), caches::kSettings), draws_at_ = find(engine_->inputs(), caches::kDraws);
  logits_at_ = find(engine_->outputs(), caches::kLogits), next_at_ = find(engine_->outputs(), caches::kNext);
  flaw_at_ = find(engine_->outputs(), caches::kFlaw);
  std::vector<StateBinding> states;
  states.reserve(pairs.size() + 2);
  for (const auto& [input, output] : pairs) states.push_back({input, output});
  if (engine_->inputs().size() != pairs.size() + std::size(kInputs))
    for (const PortInfo& port : engine_->inputs())
      if (std::find(std::begin(kInputs), std::end(kInputs), port.name) == std::end(kInputs) &&
          std::none_of(pairs.begin(), pairs.end(), [&](const auto& pair) { return pair.first == port.name; }))
        fail(ErrorKind::unsupported, "nobody knows what to give for the input '", port.name, "' ", port.type);
  std::set<int64_t> sizes;
  for (const auto& plan : engine_->plans()) {
    const Dims dims = plan->inputs[tokens_at_].type.dims();
    if (!batch_) batch_ = dims.at(0);
    if (dims.at(0) == batch_) sizes.insert(dims.at(1));
    vocabulary_ = plan->outputs[logits_at_].type.dims().at(1);
    const size_t cache = find(engine_->inputs(), pairs.empty() ? "past_key_values" : pairs[0].first);
    positions_ = plan->inputs[cache].type.dims().at(1);
  }
  if (sizes.empty()) fail(ErrorKind::usage, "the engine has no plans: build it with --cache POSITIONS");
  sizes_.assign(sizes.begin(), sizes.end());
  if (sizes_[0] != 1) fail(ErrorKind::usage, "the engine has no plan for one token; it has one for ", sizes_[0]);
  session_ = std::make_unique<Session>(engine_);
  reads_ = open_queue(engine_->device());
  if (reads_) {
    next_state_ = states.size();
    states.push_back({std::string(caches::kTokens), std::string(caches::kNext)});
    states.push_back({std::string(caches::kLengths), std::string(caches::kNextLengths)});
    given_ = session_->allocate_resident(3 * row_bytes());
    flaws_ = session_->allocate_resident(2 * row_bytes());
    read_ = reads_->allocate_host(2 * row_bytes());
  }
  session_->keep_state(states);
  made_.resize(engine_->outputs().size());
  settings_.assign(size_t(batch_ * ops::sampling::kSettings), 0);
  draws_.assign(size_t(batch_ * positions_), 0);
  sample_by({}, std::vector<int64_t>(size_t(batch_), 0));
  reset();
}

void TokenReader::reset() {
  // What the caches hold is beyond the lengths, and written over; but what is no number passes through weights of 0.
  if (std::exchange(ahead_, std::nullopt)) {
    begin_to_read_tokens();
    reads_->wait();
    note_flaws(flaws_read());
  }
  if (std::exchange(has_flaws_, false)) session_->reset_state();
  lengths_.assign(size_t(batch_), 0);
  next_.assign(size_t(batch_), 0);
  flaw_.assign(size_t(batch_), ops::sampling::kNone);
  has_logits_.assign(size_t(batch_), 0);
}

void TokenReader::sample_by(const SampleOptions& options, const std::vector<int64_t>& firsts) {
  check(options);
  ahead_.reset();  // it was chosen in another way
  for (int64_t row = 0; row < batch_; ++row) {
    const double settings[] = {options.temperature, double(options.top_k), options.top_p, options.repetition_penalty};
    static_assert(std::size(settings) == ops::sampling::kSettings);
    std::copy_n(settings, std::size(settings), settings_.begin() + row * ops::sampling::kSettings);
    if (options.temperature == 0) continue;
    const int64_t first = ops::sampling::draw_at(firsts.at(size_t(row)), positions_);
    fill_draws(options.seed, row,
               std::span(draws_).subspan(size_t(row * positions_ + first), size_t(positions_ - first)));
  }
  copy_sampling();
}

void TokenReader::copy_sampling() {
  if (!reads_) return;
  const auto bytes = [](const std::vector<double>& numbers) { return int64_t(numbers.size() * sizeof(double)); };
  if (!sampling_) sampling_ = session_->allocate_resident(round_up<int64_t>(bytes(settings_), 256) + bytes(draws_));
  session_->copy_to_device(sampling_.get(), settings_.data(), bytes(settings_));
  session_->copy_to_device(draws_there(), draws_.data(), bytes(draws_));
}

std::byte* TokenReader::draws_there() const {
  return static_cast<std::byte*>(sampling_.get()) + round_up<int64_t>(int64_t(settings_.size() * sizeof(double)), 256);
}

int64_t TokenReader::room() const { return positions_ - *std::max_element(lengths_.begin(), lengths_.end()); }

void TokenReader::take_back() {
  ahead_.reset();
  for (int64_t& length : lengths_)
    if (length > 0) --length;
}

std::unique_ptr<TokenReader> TokenReader::fork() {
  auto other = std::make_unique<TokenReader>(engine_);
  other->session_ = session_->fork();
  other->lengths_ = lengths_, other->next_ = next_, other->flaw_ = flaw_;
  other->logits_ = logits_, other->has_logits_ = has_logits_;
  other->settings_ = settings_, other->draws_ = draws_, other->has_flaws_ = has_flaws_;
  other->copy_sampling();
  return other;
}

int64_t TokenReader::next(int64_t row) const {
  const int64_t token = next_.at(size_t(row));
  if (flaw_[size_t(row)] == ops::sampling::kNan)
    fail(ErrorKind::bad_file, "the model's logit of token ", token, " is NaN");
  if (flaw_[size_t(row)] != ops::sampling::kNone)
    fail(ErrorKind::bad_file, "the largest of the model's ", vocabulary_, " logits is infinite");
  return token;
}

std::span<const float> TokenReader::logits(int64_t row) const {
  if (row < 0 || row >= batch_) fail(ErrorKind::usage, "there is no row ", row, " in a batch of ", batch_);
  if (!has_logits_[size_t(row)]) fail(ErrorKind::usage, "the logits of row ", row, " were not asked for");
  return std::span(logits_).subspan(size_t(row * vocabulary_), size_t(vocabulary_));
}

int64_t TokenReader::row_bytes() const { return round_up<int64_t>(batch_ * kNumber, 256); }

// For `left` tokens of the row that has the most left: a plan for some more is better than several.
int64_t TokenReader::size_for(int64_t left) const {
  int64_t below = 1, above = 0;
  for (const int64_t size : sizes_) {
    if (size <= left) below = size;
    else if (!above) above = size;
  }
  return above && above <= 2 * left && below < left ? above : below;
}

void TokenReader::read(const std::vector<std::vector<int64_t>>& tokens, bool wants_logits, bool goes_on) {
  if (int64_t(tokens.size()) != batch_)
    fail(ErrorKind::usage, "there are ", tokens.size(), " rows of tokens; the engine has a batch of ", batch_);
  size_t most = 0;
  for (size_t row = 0; row < tokens.size(); ++row) {
    for (const int64_t token : tokens[row])
      if (token < 0 || token >= vocabulary_)
        fail(ErrorKind::usage, "the token ", token, " is outside of the vocabulary of ", vocabulary_);
    if (lengths_[row] == 0 && int64_t(tokens[row].size()) > positions_)
      fail(ErrorKind::usage, "a prompt of ", tokens[row].size(), " tokens does not fit into a cache of ", positions_,
           " positions; build with a larger --cache, or give less");
    if (int64_t(tokens[row].size()) > positions_ - lengths_[row])
      fail(ErrorKind::usage, "row ", row, " holds ", lengths_[row], " of ", positions_, " positions, and ",
           tokens[row].size(), " tokens more do not fit; build with a larger --cache, or give less");
    most = std::max(most, tokens[row].size());
  }
  if (reads_ && !wants_logits && reads_one_each(tokens)) return read_one_each(tokens, goes_on);
  ahead_.reset();
  // Those that are read only count when all are: where a run fails, what it wrote is beyond the lengths.
  std::vector<int64_t> lengths = lengths_, counts(tokens.size());
  std::vector<size_t> from(tokens.size(), 0);
  for (;;) {
    int64_t left = 0, longest = 0;
    for (size_t row = 0; row < tokens.size(); ++row) {
      left = std::max(left, int64_t(tokens[row].size() - from[row]));
      longest = std::max(longest, lengths[row]);
    }
    if (left == 0) break;
    int64_t size = size_for(left);
    if (longest + size > positions_) size = 1;  // those that do not count must have places, too
    // The longest row may have none at all; then those that read write one place before their end.
    for (size_t row = 0; row < tokens.size(); ++row)
      counts[row] = std::min(size, int64_t(tokens[row].size() - from[row]));
    run(tokens, from, size, lengths, counts, wants_logits);
    for (size_t row = 0; row < tokens.size(); ++row) {
      from[row] += size_t(counts[row]);
      lengths[row] += counts[row];
    }
  }
  lengths_ = lengths;
}

void TokenReader::run(const std::vector<std::vector<int64_t>>& tokens, const std::vector<size_t>& from, int64_t size,
                      const std::vector<int64_t>& lengths, const std::vector<int64_t>& counts, bool wants_logits) {
  std::vector<int64_t> ids(size_t(batch_ * size), 0), places = lengths;
  for (size_t row = 0; row < tokens.size(); ++row) {
    std::copy_n(tokens[row].begin() + ptrdiff_t(from[row]), counts[row], ids.begin() + ptrdiff_t(int64_t(row) * size));
  }
  const std::vector<TensorType> types = prepare(size);
  std::vector<const void*> in(engine_->inputs().size(), nullptr);
  in[tokens_at_] = ids.data(), in[lengths_at_] = places.data(), in[counts_at_] = counts.data();
  in[settings_at_] = settings_.data(), in[draws_at_] = draws_.data();
  std::vector<void*> out(types.size(), nullptr);
  for (size_t o = 0; o < types.size(); ++o) {
    const auto& states = session_->states();
    if (std::any_of(states.begin(), states.end(), [&](const State& state) { return state.output == o; })) continue;
    if (reads_ && o != flaw_at_ && (o != logits_at_ || !wants_logits)) continue;
    if (!made_[o].defined() || made_[o].type() != types[o]) made_[o] = Tensor(types[o].dtype, types[o].dims());
    out[o] = made_[o].raw_mutable();
  }
  session_->run_prepared(in, out);
  std::vector<int64_t> next = next_;
  if (reads_) session_->copy_to_host(next.data(), session_->states()[next_state_].there.get(), batch_ * kNumber);
  else std::copy_n(made_[next_at_].data<int64_t>(), batch_, next.begin());
  note_flaws(made_[flaw_at_].data<int64_t>());
  const Tensor values = wants_logits ? made_[logits_at_].converted(DType::f32) : Tensor();
  if (wants_logits) logits_.resize(size_t(batch_ * vocabulary_));
  for (int64_t row = 0; row < batch_; ++row) {
    if (counts[size_t(row)] == 0) continue;
    next_[size_t(row)] = next[size_t(row)];
    flaw_[size_t(row)] = made_[flaw_at_].data<int64_t>()[row];
    has_logits_[size_t(row)] = wants_logits;
    if (wants_logits)
      std::copy_n(values.data<float>() + row * vocabulary_, vocabulary_,
                  logits_.begin() + ptrdiff_t(row * vocabulary_));
  }
}

std::vector<TensorType> TokenReader::prepare(int64_t size) {
  std::vector<Dims> shapes;
  std::vector<char> given;
  const Plan& first = *engine_->plans().at(0);
  for (size_t i = 0; i < engine_->inputs().size(); ++i) {
    shapes.push_back(i == tokens_at_ ? Dims{batch_, size} : first.inputs[i].type.dims());
    given.push_back(i == tokens_at_ || i == lengths_at_ || i == counts_at_ || i == settings_at_ || i == draws_at_);
  }
  session_->add_state_shapes(given, shapes);
  return session_->prepare(shapes);
}

// Puts in a run on a token of each row that counts, and a copy of what it gives.
void TokenReader::begin(const std::vector<std::vector<int64_t>>& tokens, const std::vector<int64_t>& counts) {
  const int64_t apart = row_bytes() / kNumber;
  std::vector<int64_t> given(size_t(3 * apart), 0);
  for (size_t row = 0; row < tokens.size(); ++row) {
    given[row] = tokens[row].empty() ? 0 : tokens[row][0];
    given[size_t(apart) + row] = lengths_[row];
    given[size_t(2 * apart) + row] = counts[row];
  }
  prepare(1);
  session_->copy_to_device(given_.get(), given.data(), 3 * row_bytes());
  const auto* there = static_cast<const std::byte*>(given_.get());
  std::vector<const void*> in(engine_->inputs().size(), nullptr);
  in[tokens_at_] = there, in[lengths_at_] = there + row_bytes(), in[counts_at_] = there + 2 * row_bytes();
  begin(in);
}

// Puts in the run behind it, which finds tokens and lengths where that one writes them.
void TokenReader::begin_behind() {
  std::vector<const void*> in(engine_->inputs().size(), nullptr);
  in[counts_at_] = static_cast<const std::byte*>(given_.get()) + 2 * row_bytes();
  begin(in);
}

void TokenReader::begin(std::vector<const void*> in) {
  turn_ = 1 - turn_;
  in[settings_at_] = sampling_.get(), in[draws_at_] = draws_there();
  std::vector<void*> out(engine_->outputs().size(), nullptr);
  out[flaw_at_] = flaw_there();
  session_->run_resident(in, out, session_->stream());
}

std::byte* TokenReader::flaw_there() const {
  return static_cast<std::byte*>(flaws_.get()) + int64_t(turn_) * row_bytes();
}

// Of the run put in last.
void TokenReader::begin_to_read_tokens() {
  reads_->wait_for(session_->stream());
  reads_->copy_to_host(read_.get(), session_->states()[next_state_].there.get(), batch_ * kNumber);
  reads_->copy_to_host(static_cast<std::byte*>(read_.get()) + row_bytes(), flaw_there(), batch_ * kNumber);
}

const int64_t* TokenReader::flaws_read() const {
  return static_cast<const int64_t*>(read_.get()) + row_bytes() / kNumber;
}

void TokenReader::note_flaws(const int64_t* flaws) {
  has_flaws_ |= std::any_of(flaws, flaws + batch_, [](int64_t flaw) { return flaw != ops::sampling::kNone; });
}

void TokenReader::read_one_each(const std::vector<std::vector<int64_t>>& tokens, bool goes_on) {
  std::vector<int64_t> counts, lengths = lengths_;
  // Where any of this throws, what was begun counts for nothing.
  const std::optional<std::vector<int64_t>> ahead = std::exchange(ahead_, std::nullopt);
  bool foreseen = ahead.has_value(), room = true;
  for (size_t row = 0; row < tokens.size(); ++row) {
    counts.push_back(int64_t(tokens[row].size()));
    lengths[row] += counts[row];
    room = room && (counts[row] == 0 || lengths[row] < positions_);
    foreseen = foreseen && (*ahead)[row] == counts[row] && (counts[row] == 0 || tokens[row][0] == next_[row]);
  }
  if (!foreseen) begin(tokens, counts);
  begin_to_read_tokens();
  if (goes_on && room) begin_behind();
  reads_->wait();
  const int64_t *made = static_cast<const int64_t*>(read_.get()), *flaws = flaws_read();
  note_flaws(flaws);
  for (size_t row = 0; row < tokens.size(); ++row)
    if (counts[row]) next_[row] = made[row], flaw_[row] = flaws[row], has_logits_[row] = false;
  lengths_ = lengths;
  if (goes_on && room) ahead_ = counts;
}

Generator::Generator(TokenReader& reader, std::vector<std::vector<int64_t>> prompts, const GenerateOptions& options)
    : reader_(reader), rows_(std::move(prompts)), options_(options) {
  const auto start = std::chrono::steady_clock::now();
  if (options.most < 1) fail(ErrorKind::usage, options.most, " tokens are asked for");
  for (const int64_t token : options.end_with)
    if (token < 0 || token >= reader.vocabulary())
      fail(ErrorKind::usage, "the token ", token, " to end with is outside of the vocabulary of ", reader.vocabulary());
  check(options.sample);
  std::vector<int64_t> firsts(size_t(reader.batch()), 0);
  for (size_t row = 0; row < rows_.size(); ++row) {
    if (rows_[row].empty()) fail(ErrorKind::usage, "the prompt ", row, " is empty: it needs a token at least");
    if (row < firsts.size()) firsts[row] = reader.length(int64_t(row)) + int64_t(rows_[row].size());
  }
  reader.sample_by(options.sample, firsts);
  reader.read(rows_, false);
  ended_.resize(rows_.size());
  each_.resize(rows_.size());
  first_ms_ = ms_since(start);
}

Generator::Generator(TokenReader& reader, const Generator& other)
    : reader_(reader),
      rows_(other.rows_),
      options_(other.options_),
      ended_(other.ended_),
      last_(other.last_),
      each_(other.each_),
      first_ms_(other.first_ms_),
      rest_ms_(other.rest_ms_),
      given_(other.given_),
      steps_(other.steps_) {}

std::unique_ptr<Generator> Generator::fork(TokenReader& reader, std::optional<uint64_t> seed) const {
  std::unique_ptr<Generator> other(new Generator(reader, *this));
  if (!seed) return other;
  other->options_.sample.seed = *seed;
  // What comes behind the tokens that were read was drawn when they were: the last of them is read once more.
  if (last_.empty()) {
    reader.take_back();
    for (const std::vector<int64_t>& row : rows_) other->last_.push_back(row.back());
  }
  std::vector<int64_t> firsts;
  for (int64_t row = 0; row < reader.batch(); ++row) firsts.push_back(reader.length(row) + 1);
  reader.sample_by(other->options_.sample, firsts);
  return other;
}

std::vector<int64_t> Generator::next() {
  const auto start = std::chrono::steady_clock::now();
  if (std::none_of(ended_.begin(), ended_.end(), [](const std::string& why) { return why.empty(); })) return {};
  if (!last_.empty()) {
    std::vector<std::vector<int64_t>> tokens(rows_.size());
    bool goes_on = true;
    for (size_t row = 0; row < rows_.size(); ++row) {
      if (!ended_[row].empty()) continue;
      tokens[row] = {last_[row]};
      goes_on = goes_on && each_[row] + 1 < options_.most;
    }
    reader_.read(tokens, false, goes_on);
    last_.clear();
  }
  std::vector<int64_t> chosen(rows_.size(), -1);
  for (size_t row = 0; row < rows_.size(); ++row)
    if (ended_[row].empty()) chosen[row] = reader_.next(int64_t(row));
  for (size_t row = 0; row < rows_.size(); ++row) {
    if (!ended_[row].empty()) continue;
    rows_[row].push_back(chosen[row]);
    ++given_;
    if (std::find(options_.end_with.begin(), options_.end_with.end(), chosen[row]) != options_.end_with.end())
      ended_[row] = "end";
    else if (++each_[row] == options_.most) ended_[row] = "most";
    else if (reader_.length(int64_t(row)) == reader_.positions()) ended_[row] = "room";
  }
  last_ = chosen;
  ++steps_;
  (steps_ == 1 ? first_ms_ : rest_ms_) += ms_since(start);
  return chosen;
}

}  // namespace temper
