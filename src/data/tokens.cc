// SPDX-License-Identifier: Apache-2.0
#include "data/tokens.h"

#include <algorithm>

#include "base/parse.h"
#include "base/quote.h"
#include "data/dataset.h"
#include "graph/ops/gather.h"

namespace temper {

namespace {

bool separates(char c) { return c == ' ' || c == '\t' || c == ',' || c == '\r'; }

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace

std::vector<std::vector<int64_t>> parse_token_lines(std::string_view text) {
  std::vector<std::vector<int64_t>> samples;
  int64_t line = 0;
  for (size_t at = text.starts_with("\xef\xbb\xbf") ? 3 : 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    ++line;
    std::vector<int64_t> ids;
    while (at < end) {
      if (separates(text[at])) {
        ++at;
        continue;
      }
      size_t stop = at;
      while (stop < end && !separates(text[stop])) ++stop;
      const std::string_view word = text.substr(at, stop - at);
      const auto id = parse_number<int64_t>(word);
      if (!id || *id < 0)
        fail(ErrorKind::bad_file, "line ", line, ", position ", ids.size(), ": '", printable(word.substr(0, 80)),
             "' is no token id; a line is one sample, its ids separated by spaces or commas");
      ids.push_back(*id);
      at = stop;
    }
    if (!ids.empty()) samples.push_back(std::move(ids));
    at = end + 1;
  }
  if (samples.empty()) fail(ErrorKind::bad_file, "there is no token id in it; a line is one sample");
  return samples;
}

TextInputs text_inputs(const std::vector<InputSpec>& inputs) {
  TextInputs found;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorType& type = inputs[i].type;
    if (inputs[i].whole || type.rank() != 2) continue;
    const std::string_view name = inputs[i].name;
    const auto take = [&](int& place) {
      if (place < 0) place = int(i);
    };
    if (ends_with_any(name, {"attention_mask", "input_mask"})) take(found.mask);
    else if (!is_int(type.dtype)) continue;
    else if (ends_with_any(name, {"position_ids"})) take(found.positions);
    else if (ends_with_any(name, {"token_type_ids", "segment_ids"})) take(found.types);
    else if (inputs.size() == 1 || ends_with_any(name, {"input_ids", "token_ids", "tokens"})) take(found.tokens);
  }
  return found;
}

Tensor padded_tokens(const std::vector<std::vector<int64_t>>& samples, int64_t length, int64_t pad, DType dtype) {
  if (length == 0)
    for (const auto& sample : samples) length = std::max(length, int64_t(sample.size()));
  Tensor tokens(dtype, {int64_t(samples.size()), length});
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (is_int(dtype_of<T>)) {
      T* to = tokens.data<T>();
      for (size_t s = 0; s < samples.size(); ++s, to += length) {
        const auto size = int64_t(samples[s].size());
        if (size > length) fail(ErrorKind::usage, "sample ", s, " has ", size, " tokens, and the input takes ", length);
        for (int64_t i = 0; i < length; ++i) {
          const int64_t id = i < size ? samples[s][size_t(i)] : pad;
          to[i] = T(id);
          if (int64_t(to[i]) != id)
            fail(ErrorKind::usage, "sample ", s, ", position ", i, ": the token ", id, " is no ", dtype);
        }
      }
    }
  });
  return tokens;
}

Tensor mask_of(const std::vector<int64_t>& lengths, int64_t length, DType dtype) {
  std::vector<int64_t> mask;
  mask.reserve(lengths.size() * size_t(length));
  for (int64_t size : lengths)
    for (int64_t i = 0; i < length; ++i) mask.push_back(i < size);
  return Tensor::of<int64_t>({int64_t(lengths.size()), length}, mask).converted(dtype);
}

Tensor positions_of(int64_t samples, int64_t length, DType dtype) {
  std::vector<int64_t> positions;
  positions.reserve(size_t(samples * length));
  for (int64_t s = 0; s < samples; ++s)
    for (int64_t i = 0; i < length; ++i) positions.push_back(i);
  return Tensor::of<int64_t>({samples, length}, positions).converted(dtype);
}

void check_vocabulary(const Graph& imported, const Dataset& data, std::span<const int64_t> samples) {
  for (size_t i = 0; i < imported.inputs().size(); ++i) {
    const ValueId input = imported.inputs()[i];
    if (!is_int(imported.type(input).dtype) || !data.has_samples(i)) continue;
    for (NodeId user : imported.value(input).users) {
      const Node& node = imported.node(user);
      const auto* gather = node.op.get_if<ops::Gather>();
      if (!gather || gather->kind != ops::GatherKind::axis || node.inputs[1] != input) continue;
      const Dim& size = imported.type(node.inputs[0]).shape[size_t(gather->axis)];
      if (!size.is_constant()) continue;
      for (const int64_t sample : samples) {
        const std::vector<int64_t> ids = data.batch(sample, 1).inputs[i].to_ints();
        for (size_t at = 0; at < ids.size(); ++at)
          if (ids[at] < 0 || ids[at] >= size.value())
            fail(ErrorKind::usage, "sample ", sample, ", position ", at, ": the token ", ids[at],
                 " is outside of the vocabulary of ", size.value(), " of input '", imported.value(input).name, "'");
      }
    }
  }
}

}  // namespace temper
