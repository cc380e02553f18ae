// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/attention_on_cpu.h"

namespace temper {

AttentionOnCpu::AttentionOnCpu(const Problem& problem)
    : op_(problem.op.get<ops::Attention>()), threads_(std::max(1, problem.threads)) {
  const auto& in = problem.inputs;
  static_cast<ops::AttentionSizes&>(s_) = ops::sizes_of(op_, in[0].dims(), in[1].dims(), in[2].dims());
  auto pitch = [](const Port& port) { return port.pitch ? port.pitch : port.dims().back(); };
  s_.q_pitch = pitch(in[0]), s_.k_pitch = pitch(in[1]), s_.v_pitch = pitch(in[2]);
  s_.y_pitch = pitch(problem.outputs[0]);
  dtype_ = in[0].type.dtype;
  masked_ = in.size() > 3 && in[3].present;
  bounded_ = in.size() > 4 && in[4].present;
  if (masked_) {
    strides_ = ops::mask_strides(in[3].dims());
    mask_dtype_ = in[3].type.dtype;
  }
}

void AttentionMask::row(int64_t at_query, int64_t at_key, int64_t keys, float* to) const {
  const auto copy = [&]<class T>(const T* from) {
    from += at_query * query + at_key * key;
    for (int64_t j = 0; j < keys; ++j) to[j] = value(from[j * key]);
  };
  switch (dtype) {
    case DType::boolean: return copy(static_cast<const bool*>(data));
    case DType::f16: return copy(static_cast<const Half*>(data));
    case DType::bf16: return copy(static_cast<const BFloat16*>(data));
    case DType::f64: return copy(static_cast<const double*>(data));
    default: return copy(static_cast<const float*>(data));
  }
}

bool attention_takes_parts(const Problem& problem, const Config&) {
  for (size_t i = 0; i < problem.inputs.size(); ++i)
    if (problem.inputs[i].in_place || (i >= 3 && problem.inputs[i].pitch)) return false;
  return true;
}

}  // namespace temper
