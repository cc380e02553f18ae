// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/string_lookup.h"

#include "base/string_table.h"
#include "graph/strings.h"

namespace temper::ops {

std::vector<TensorType> StringLookup::infer(const InferContext& context) const {
  context.expect_inputs(1, 1);
  expect_strings(context, 0);
  return {{DType::i64, context.type(0).shape}};
}

StringPlaces places_of(const StringLookup& op) {
  StringPlaces places;
  places.reserve(op.keys.size());
  for (size_t i = 0; i < op.keys.size(); ++i) places.insert_or_assign(op.keys[i], int64_t(i));
  return places;
}

void look_up(const StringPlaces& places, std::span<const uint64_t> codes, int64_t* out) {
  const StringTable& table = current_strings();
  for (uint64_t code : codes) {
    const auto found = places.find(table.at(code));
    *out++ = found == places.end() ? -1 : found->second;
  }
}

std::vector<Tensor> StringLookup::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  Tensor out(DType::i64, outputs[0].dims());
  look_up(places_of(*this), codes_of(inputs[0]), out.data<int64_t>());
  return {out};
}

}  // namespace temper::ops
