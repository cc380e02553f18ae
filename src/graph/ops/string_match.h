// SPDX-License-Identifier: Apache-2.0
// string_match(x string) -> bool like x: whether all of a string is what `pattern` says, a regular expression of RE2.
#pragma once
#include <memory>

#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace re2 {
class RE2;
}

namespace temper::ops {

// Both bound what a pattern may ask for. Memory grows with the length before the other is looked at: 4 KiB of classes
// of letters are 50 MB for a quarter of a second.
constexpr size_t kMostPatternBytes = 4096;
constexpr int64_t kMostMatcherBytes = int64_t(8) << 20;  // of the compiled pattern and of the states that it was in

struct StringMatch {
  static constexpr std::string_view name = "string_match";
  static constexpr OpKind op_kind = OpKind::string;
  std::string pattern;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("pattern", op.pattern);
  }
  bool operator==(const StringMatch&) const = default;
  // Throws Error{bad_file} for a pattern that RE2 refuses, Error{unsupported} for one that is too large.
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return {"RegexFullMatch", {{"pattern", pattern}}}; }
};

// The pattern, compiled. Throws as infer does.
std::shared_ptr<const re2::RE2> compiled(const StringMatch& op);
// Of several matches that begin at one place the longest, or the one that Perl would take.
enum class Longest { no, yes };
std::shared_ptr<const re2::RE2> compiled(const std::string& pattern, Longest longest);
void match(const re2::RE2& pattern, std::span<const uint64_t> codes, bool* out);

// The cost of compiling: the steps of the compiled pattern (seven bytes may ask for a thousand) and 64 for each byte,
// as classes of letters take time that are no step at the end. Throws as infer does.
int64_t pattern_steps(const std::string& pattern);

}  // namespace temper::ops
