// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/activation.h"

#include <cstring>
#include <optional>

#include "backends/cpu/isa.h"

namespace temper {

namespace {

// Post-op `index`, the last one; nothing where that is no activation of these.
std::optional<Activation> activation_of(const AbsorbedEpilogue& epilogue, int index) {
  using Kind = Activation::Kind;
  if (epilogue.post_ops.len() == index) return Activation();
  if (epilogue.post_ops.len() != index + 1 || epilogue.post_ops.kind(index) != dnnl::primitive::kind::eltwise)
    return std::nullopt;
  float scale = 0, alpha = 0, beta = 0;
  dnnl::algorithm algorithm{};
  epilogue.post_ops.get_params_eltwise(index, scale, algorithm, alpha, beta);
  switch (algorithm) {
    case dnnl::algorithm::eltwise_relu: return Activation{Kind::relu, alpha, 0};
    case dnnl::algorithm::eltwise_clip: return Activation{Kind::clip, alpha, beta};
    case dnnl::algorithm::eltwise_hardswish: return Activation{Kind::hard_swish, 0, 0};
    case dnnl::algorithm::eltwise_swish: return Activation{Kind::swish, 0, 0};  // absorbed with a factor of 1 alone
    default: return std::nullopt;
  }
}

// Whether all that is absorbed besides the bias is one residual of f32, and perhaps an activation behind it.
bool is_residual_first(const Problem& problem, const AbsorbedEpilogue& epilogue) {
  if (epilogue.binary_inputs.size() != 1 || epilogue.post_ops.kind(0) != dnnl::primitive::kind::binary) return false;
  dnnl::algorithm algorithm{};
  dnnl::memory::desc desc;
  epilogue.post_ops.get_params_binary(0, algorithm, desc);
  return algorithm == dnnl::algorithm::binary_add &&
         problem.inputs[size_t(epilogue.binary_inputs[0]) + 2].type == problem.outputs[0].type;
}

// With the kind known, so that each has a loop of its own.
template <int w, Activation::Kind kind>
inline void activate_all_by(Activation activation, float* y, int64_t n) {
  using Vector = typename VectorOf<w>::Type;
  activation.kind = kind;
  int64_t i = 0;
  for (; i + w <= n; i += w) {
    Vector value;
    load(y + i, value);
    activate<w>(activation, value);
    store(value, y + i);
  }
  if (i == n) return;
  Vector edge = {};
  std::memcpy(&edge, y + i, size_t(n - i) * sizeof(float));
  activate<w>(activation, edge);
  std::memcpy(y + i, &edge, size_t(n - i) * sizeof(float));
}
template <int w>
inline void activate_all(const Activation& activation, float* y, int64_t n) {
  using Kind = Activation::Kind;
  switch (activation.kind) {
    case Kind::none: return;
    case Kind::relu: return activate_all_by<w, Kind::relu>(activation, y, n);
    case Kind::clip: return activate_all_by<w, Kind::clip>(activation, y, n);
    case Kind::hard_swish: return activate_all_by<w, Kind::hard_swish>(activation, y, n);
    case Kind::swish: return activate_all_by<w, Kind::swish>(activation, y, n);
  }
}

}  // namespace

ActivatedEpilogue activated_epilogue(const Problem& problem, Layout layout, bool adds_residual) {
  const Program& program = *epilogue_of(problem.op);
  ActivatedEpilogue epilogue;
  for (const Absorb how : {Absorb::all, Absorb::bias_and_relu, Absorb::bias_only}) {
    epilogue.absorbed =
        absorb_epilogue(program, DType::f32, extra_types(problem, 2), problem.outputs[0].type, 1, layout, how);
    if (epilogue.absorbed.stored != DType::f32) continue;
    const bool residual = adds_residual && is_residual_first(problem, epilogue.absorbed);
    if (const auto activation = activation_of(epilogue.absorbed, residual)) {
      epilogue.activation = *activation;
      if (residual) epilogue.residual = epilogue.absorbed.binary_inputs[0];
      break;
    }
  }
  return epilogue;
}

void activate_row(const Activation& activation, const float* residual, float* y, int64_t n) {
  if (residual) {
    vectorised([=] {
      TEMPER_NO_ALIAS
      for (int64_t i = 0; i < n; ++i) y[i] += residual[i];
    });
  }
  if (activation.kind == Activation::Kind::none) return;
  vectorised_by_16_or_8([=] { activate_all<16>(activation, y, n); }, [=] { activate_all<kNarrow>(activation, y, n); });
}

}  // namespace temper
