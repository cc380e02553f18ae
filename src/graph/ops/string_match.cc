// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/string_match.h"

#include <re2/re2.h>

#include "base/quote.h"
#include "base/string_table.h"
#include "graph/ops/string_concat.h"

namespace temper::ops {

namespace {

std::string shown(std::string_view text) { return printable(cut_in_middle(text, 80)); }

// A match that needs more states than the memory has room for goes on without them, slower.
RE2::Options options() {
  RE2::Options options(RE2::Quiet);  // else it writes to stderr
  options.set_max_mem(kMostMatcherBytes);
  options.set_never_capture(true);  // nobody asks for groups
  return options;
}

void check(const RE2& compiled, const std::string& pattern) {
  if (compiled.ok()) return;
  if (compiled.error_code() == RE2::ErrorPatternTooLarge)
    fail(ErrorKind::unsupported, "the pattern '", shown(pattern), "' needs more than ", kMostMatcherBytes >> 20,
         " MiB when it is compiled");
  fail(ErrorKind::bad_file, "the pattern '", shown(pattern),
       "' is no regular expression of RE2: ", shown(compiled.error()));
}

}  // namespace

int64_t pattern_steps(const std::string& pattern) {
  if (pattern.size() > kMostPatternBytes)
    fail(ErrorKind::unsupported, "a pattern of ", pattern.size(), " bytes; the limit is ", kMostPatternBytes);
  const RE2 compiled(pattern, options());
  check(compiled, pattern);
  return compiled.ProgramSize() + 64 * int64_t(pattern.size());
}

std::vector<TensorType> StringMatch::infer(const InferContext& context) const {
  context.expect_inputs(1, 1);
  expect_strings(context, 0);
  pattern_steps(pattern);
  return {{DType::boolean, context.type(0).shape}};
}

std::vector<Tensor> StringMatch::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const RE2 compiled(pattern, options());
  check(compiled, pattern);
  const StringTable& table = current_strings();
  const Tensor codes = inputs[0].with_bits_as(DType::u64);
  Tensor out(DType::boolean, outputs[0].dims());
  for (int64_t i = 0; i < codes.count(); ++i)
    out.data<bool>()[i] = RE2::FullMatch(table.at(codes.data<uint64_t>()[i]), compiled);
  return {out};
}

}  // namespace temper::ops
