// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/string_match.h"

#include <re2/re2.h>

#include "base/quote.h"
#include "base/string_table.h"
#include "graph/strings.h"

namespace temper::ops {

namespace {

std::string shown(std::string_view text) { return printable(cut_in_middle(text, 80)); }

// A match that needs more states than the memory has room for goes on without them, slower.
RE2::Options options(Longest longest) {
  RE2::Options options(RE2::Quiet);  // else it writes to stderr
  options.set_max_mem(kMostMatcherBytes);
  options.set_never_capture(true);  // nobody asks for groups
  options.set_longest_match(longest == Longest::yes);
  return options;
}

}  // namespace

std::shared_ptr<const RE2> compiled(const StringMatch& op) { return compiled(op.pattern, Longest::no); }

std::shared_ptr<const RE2> compiled(const std::string& pattern, Longest longest) {
  if (pattern.size() > kMostPatternBytes)
    fail(ErrorKind::unsupported, "a pattern of ", pattern.size(), " bytes; the limit is ", kMostPatternBytes);
  auto result = std::make_shared<const RE2>(pattern, options(longest));
  if (result->ok()) return result;
  if (result->error_code() == RE2::ErrorPatternTooLarge)
    fail(ErrorKind::unsupported, "the pattern '", shown(pattern), "' needs more than ", kMostMatcherBytes >> 20,
         " MiB when it is compiled");
  fail(ErrorKind::bad_file, "the pattern '", shown(pattern),
       "' is no regular expression of RE2: ", shown(result->error()));
}

void match(const RE2& pattern, std::span<const uint64_t> codes, bool* out) {
  const StringTable& table = current_strings();
  for (uint64_t code : codes) *out++ = RE2::FullMatch(table.at(code), pattern);
}

int64_t pattern_steps(const std::string& pattern) {
  return compiled(pattern, Longest::no)->ProgramSize() + 64 * int64_t(pattern.size());
}

std::vector<TensorType> StringMatch::infer(const InferContext& context) const {
  context.expect_inputs(1, 1);
  expect_strings(context, 0);
  compiled(*this);
  return {{DType::boolean, context.type(0).shape}};
}

std::vector<Tensor> StringMatch::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  Tensor out(DType::boolean, outputs[0].dims());
  match(*compiled(*this), codes_of(inputs[0]), out.data<bool>());
  return {out};
}

}  // namespace temper::ops
