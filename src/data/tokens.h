// SPDX-License-Identifier: Apache-2.0
// Token ids as samples: text files of them, which inputs of a model they are for, and the inputs that follow from them.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace temper {

struct InputSpec;
class Dataset;

// One sample a line, ids from 0 on, separated by spaces, tabs or commas. Lines without an id are left out. Throws
// Error{bad_file} that names the line (from 1) for what is no id, and for a file without a sample.
std::vector<std::vector<int64_t>> parse_token_lines(std::string_view text);

// The inputs of a model of text, by their names and types: integers (a mask may be of any type) of the shape [batch,
// positions]. -1: there is none.
struct TextInputs {
  int tokens = -1;     // input_ids, or a name that ends so; tokens, token_ids; or the only input there is
  int mask = -1;       // attention_mask, input_mask: 1 for a token, 0 for padding
  int positions = -1;  // position_ids: 0, 1, 2, ...
  int types = -1;      // token_type_ids, segment_ids: 0
};
TextInputs text_inputs(const std::vector<InputSpec>& inputs);

// Samples of any length as [samples, length] of an integer dtype, filled up with `pad` behind; `length` 0: that of the
// longest. Throws Error{usage} for a sample that is longer and for an id that the dtype does not hold, naming sample
// and position.
Tensor padded_tokens(const std::vector<std::vector<int64_t>>& samples, int64_t length, int64_t pad, DType dtype);

// [samples, length] of `dtype`, for the lengths of the samples.
Tensor mask_of(const std::vector<int64_t>& lengths, int64_t length, DType dtype);
Tensor positions_of(int64_t samples, int64_t length, DType dtype);

// Throws Error{usage}, naming sample and position, for an id among these samples that is outside of the table which the
// imported graph looks up with it: ids are those of another tokenizer then.
void check_vocabulary(const Graph& imported, const Dataset& data, std::span<const int64_t> samples);

}  // namespace temper
