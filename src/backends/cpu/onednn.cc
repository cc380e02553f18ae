// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/onednn.h"

#include <omp.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>

#include "backends/cpu/onednn_threads.h"
#include "backends/cpu/spelled_out.h"
#include "base/team.h"
#include "base/threads.h"
#include "graph/ops/conv.h"
#include "graph/ops/window.h"

namespace temper {

using dnnl::memory;

dnnl::engine& dnnl_cpu_engine() {
  static dnnl::engine engine = [] {
    // oneDNN keeps the primitives that it made last, with their code, for the whole process: of 1024 by itself, which
    // is more than what sessions keep of shapes that come and go (ShapeLimits). What the user chose stays.
    constexpr int kByItself = 1024, kKept = 256;
    if (dnnl::get_primitive_cache_capacity() == kByItself) dnnl::set_primitive_cache_capacity(kKept);
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

static dnnl::stream& stream_of_thread() {
  // One stream per thread: oneDNN's CPU stream is stateless, but an object must not be shared between threads.
  static thread_local dnnl::stream stream(dnnl_cpu_engine());
  return stream;
}

memory::data_type dnnl_dtype(DType dtype) {
  switch (dtype) {
    case DType::f32: return memory::data_type::f32;
    case DType::bf16: return memory::data_type::bf16;
    case DType::i8: return memory::data_type::s8;
    case DType::u8: return memory::data_type::u8;
    case DType::i32: return memory::data_type::s32;
    default: fail(ErrorKind::unsupported, "oneDNN has no ", dtype);
  }
}

memory::desc dnnl_plain_desc(DType dtype, const Dims& dims) {
  return memory::desc(dims, dnnl_dtype(dtype), row_major_strides(dims));
}
memory::desc dnnl_any_desc(DType dtype, const Dims& dims) {
  return memory::desc(dims, dnnl_dtype(dtype), memory::format_tag::any);
}

void dnnl_pack(const memory::desc& stored, std::span<const std::byte> weights, const memory::desc& packed,
               std::byte* into) {
  memory from(stored, dnnl_cpu_engine(), const_cast<std::byte*>(weights.data()));
  memory to(packed, dnnl_cpu_engine(), into);
  dnnl::reorder(from, to).execute(stream_of_thread(), from, to);
  stream_of_thread().wait();
}

memory::desc dnnl_desc(DType dtype, const Dims& dims, Layout layout) {
  using tag = memory::format_tag;
  static constexpr tag tags[3][3] = {{tag::nwc, tag::nCw8c, tag::nCw16c},
                                     {tag::nhwc, tag::nChw8c, tag::nChw16c},
                                     {tag::ndhwc, tag::nCdhw8c, tag::nCdhw16c}};
  // Where plain and channels_last are the same memory, one descriptor stands for both: oneDNN's primitive cache takes
  // descriptors that differ in the strides of axes of size 1 for equal, but its implementations do not, so what exists
  // would depend on what was asked for before. First layers exist for plain images, 1x1 ones for channels_last.
  if (dims.size() > 2 && block_of(layout) == 1 && same_memory(dims, Layout::plain, Layout::channels_last))
    layout = dims[1] == 1 ? Layout::plain : Layout::channels_last;
  if (layout == Layout::plain) return dnnl_plain_desc(dtype, dims);
  return memory::desc(dims, dnnl_dtype(dtype), tags[dims.size() - 3][int(layout) - 1]);
}

ThreadScope::ThreadScope(int threads, Parts parts, bool holds_signals) : before_(dnnl_work()) {
  reserve_members(threads);
  // Where the regions stay with libgomp, its threads come to be in one of these, and hold signals from then on.
  if (holds_signals || !serve_dnnl_regions()) held_.emplace();
  set_dnnl_work({threads, parts, holds_signals});
  if (serve_dnnl_regions()) return;
  libgomp_before_ = omp_get_max_threads();
  if (threads != libgomp_before_) omp_set_num_threads(threads);
}
ThreadScope::~ThreadScope() {
  set_dnnl_work(before_);
  if (libgomp_before_) omp_set_num_threads(libgomp_before_);
}

// What oneDNN calls the implementation; empty where it does not tell.
static std::string_view implementation_of(const dnnl::primitive& primitive) {
  const_dnnl_primitive_desc_t desc = nullptr;
  const char* name = nullptr;
  if (dnnl_primitive_get_primitive_desc(primitive.get(), &desc) != dnnl_success ||
      dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name) != dnnl_success)
    return {};
  return name;
}

// Forward convolutions of oneDNN 2.6 by its own kernels divide their work among threads and have no barrier (its
// sources: only backward passes, products, batch normalisation and Winograd's convolution have). Of anything else, and
// of other versions, it is not known.
static Parts parts_of(const dnnl::primitive& primitive) {
  const dnnl_version_t* version = dnnl_version();
  if (version->major != 2 || version->minor != 6 || primitive.get_kind() != dnnl::primitive::kind::convolution)
    return Parts::together;
  const std::string_view kernel = implementation_of(primitive);
  for (std::string_view name : {"jit:", "jit_1x1:", "jit_dw:", "jit_bf16:", "jit_bf16_1x1:", "jit_int8:",
                                "jit_int8_1x1:", "jit_uni_int8:", "jit_uni_int8_1x1:", "brgconv:", "brgconv_1x1:"})
    if (kernel.starts_with(name)) return Parts::independent;
  return Parts::together;
}

DnnlCall::DnnlCall(dnnl::primitive primitive)
    : primitive_(std::move(primitive)), threads_(dnnl_work().threads), parts_(parts_of(primitive_)) {
  // "x64:gemm:jit", or by a matmul "gemm:jit"; not "brgemm:..."
  const std::string_view name = implementation_of(primitive_);
  holds_signals_ = name.empty() || name.find("gemm:jit") != name.npos;
}

size_t DnnlCall::add(int argument, const memory::desc& desc) {
  memories_.emplace_back(desc, dnnl_cpu_engine(), static_cast<void*>(nullptr));
  arguments_.push_back({argument, memories_.back().get()});
  return memories_.size() - 1;
}

void DnnlCall::execute() {
  const ThreadScope threads(threads_, parts_, holds_signals_);
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), stream_of_thread().get(), int(arguments_.size()), arguments_.data());
  if (status != dnnl_success)
    fail(ErrorKind::machine, "oneDNN failed to execute a primitive (status ", int(status), ")");
}

ConvGeometry conv_geometry(const Problem& problem) {
  const auto& op = problem.op.get<ops::Conv>();
  const Dims x = problem.inputs[0].dims(), y = problem.outputs[0].dims();
  ConvGeometry result;
  result.weights = problem.inputs[1].dims();
  const ops::Window window = op.window(result.weights);
  if (op.group != 1) {
    result.weights[0] /= op.group;
    result.weights.insert(result.weights.begin(), op.group);
  }
  for (size_t i = 0; i + 2 < x.size(); ++i) {
    const int64_t begin = ops::window_pads(window, int64_t(i), x[i + 2]).first;
    result.begin.push_back(begin);
    result.end.push_back((y[i + 2] - 1) * op.strides[i] + op.dilations[i] * (window.kernel[i] - 1) + 1 - x[i + 2] -
                         begin);
    result.dilates.push_back(op.dilations[i] - 1);
  }
  return result;
}

std::vector<TensorType> extra_types(const Problem& problem, size_t first) {
  std::vector<TensorType> types;
  for (size_t i = first; i < problem.inputs.size(); ++i) types.push_back(problem.inputs[i].type);
  return types;
}

Layout extra_layout(const TensorType& extra, const TensorType& output, Layout layout) {
  return extra.shape == output.shape ? layout : Layout::plain;
}

// True for [C] along `axis` of the output and 1 elsewhere.
static bool is_channel_vector(const Dims& extra, const Dims& output, size_t axis) {
  if (extra.size() > output.size()) return false;
  const size_t skip = output.size() - extra.size();
  for (size_t i = 0; i < extra.size(); ++i)
    if (extra[i] != (i + skip == axis ? output[axis] : 1)) return false;
  return axis >= skip;
}

static dnnl::algorithm algorithm_of(SpelledOut::Kind kind) {
  switch (kind) {
    case SpelledOut::Kind::hard_swish: return dnnl::algorithm::eltwise_hardswish;
    case SpelledOut::Kind::leaky_relu: return dnnl::algorithm::eltwise_relu;
    default: return dnnl::algorithm::eltwise_gelu_erf;
  }
}

AbsorbedEpilogue absorb_epilogue(const Program& epilogue, DType operands, const std::vector<TensorType>& extras,
                                 const TensorType& output, size_t channel_axis, Layout layout, Absorb how) {
  AbsorbedEpilogue result;
  const bool in_place = how == Absorb::in_place;
  if (in_place) how = Absorb::all;
  const Dims out = output.dims();
  const auto& steps = epilogue.steps;
  auto step_of = [&](int value) -> const Step* {
    return value < epilogue.inputs ? nullptr : &steps[size_t(value - epilogue.inputs)];
  };
  constexpr double none = std::numeric_limits<double>::quiet_NaN();  // a NaN constant is not worth absorbing either
  auto constant_of = [&](int value) {
    const Step* step = step_of(value);
    return step && step->op == Scalar::constant ? step->number : none;
  };
  // An extra input, perhaps as the f32 that it is cast to; its index, or 0 for anything else.
  auto extra_of = [&](int value) {
    const Step* step = step_of(value);
    if (step && step->op == Scalar::cast && step->dtype == DType::f32 && step->args[0] > 0 &&
        step->args[0] < epilogue.inputs && extras[size_t(step->args[0] - 1)].dtype == DType::bf16)
      return step->args[0];
    return value > 0 && value < epilogue.inputs && extras[size_t(value - 1)].dtype == DType::f32 ? value : 0;
  };
  // Steps that are no work on the running value.
  auto is_aside = [&](size_t i) { return steps[i].op == Scalar::constant || extra_of(epilogue.inputs + int(i)) > 0; };
  int current = 0;                         // the value that the primitive holds so far
  size_t next = 0;                         // steps before this one are absorbed, or aside
  auto other_of = [&](const Step& step) {  // the argument beside `current` of a two-argument step, -1 if it is not one
    if (step.args[0] == current && step.args[1] != current) return step.args[1];
    if (step.args[1] == current && step.args[0] != current) return step.args[0];
    return -1;
  };
  // False when the algorithm is already in the chain: oneDNN 2.6 then computes one of the two with the constants of the
  // other (seen with linear, tanh, linear on a product).
  std::vector<dnnl::algorithm> used;
  auto eltwise = [&](dnnl::algorithm algorithm, float alpha = 0, float beta = 0) {
    if (std::find(used.begin(), used.end(), algorithm) != used.end()) return false;
    used.push_back(algorithm);
    result.post_ops.append_eltwise(1.f, algorithm, alpha, beta);
    return true;
  };
  bool first = true, relu_taken = false;
  while (next < steps.size()) {
    const Step& step = steps[next];
    const int value = epilogue.inputs + int(next);
    if (is_aside(next)) {
      ++next;
      continue;
    }
    if (step.op == Scalar::cast && step.dtype == DType::bf16 && operands == DType::bf16 && step.args[0] == current &&
        value == epilogue.result()) {
      result.stored = DType::bf16;
      current = value;
      next = steps.size();
      break;
    }
    const auto activation = how == Absorb::all ? spelled_out(epilogue, next, current) : std::nullopt;
    if (!activation && (step.dtype != DType::f32 || step.op == Scalar::cast)) break;
    size_t taken = 1;
    bool ok = false;
    const int other = arity_of(step.op) == 2 ? other_of(step) : -1;
    const int extra = other >= 0 ? extra_of(other) : 0;
    const TensorType* type = extra ? &extras[size_t(extra - 1)] : nullptr;
    const double number = other >= 0 ? constant_of(other) : none;
    if (activation && eltwise(algorithm_of(activation->kind), activation->slope)) {
      ok = true;
      taken = activation->end - next;
    } else if (step.op == Scalar::add && first && extra && type->dtype == DType::f32 &&
               is_channel_vector(type->dims(), out, channel_axis)) {
      result.bias = extra - 1;
      ok = true;
    } else if (how == Absorb::bias_only) {
      break;
    } else if (step.op == Scalar::relu && step.args[0] == current) {
      // relu then min with a constant is a clip
      const Step* after = next + 1 < steps.size() ? &steps[next + 1] : nullptr;
      size_t skip = 1;
      while (after && after->op == Scalar::constant)
        after = next + ++skip < steps.size() ? &steps[next + skip] : nullptr;
      double limit = none;
      if (how == Absorb::all && after && after->op == Scalar::min)
        limit = after->args[0] == value   ? constant_of(after->args[1])
                : after->args[1] == value ? constant_of(after->args[0])
                                          : none;
      if (limit >= 0) {
        ok = eltwise(dnnl::algorithm::eltwise_clip, 0.f, float(limit));
        taken = skip + 1;
      } else {
        ok = eltwise(dnnl::algorithm::eltwise_relu);
      }
      relu_taken = true;
    } else if (how == Absorb::bias_and_relu) {
      break;
    } else if ((step.op == Scalar::add || step.op == Scalar::mul) && extra &&
               (type->dims() == out || is_channel_vector(type->dims(), out, channel_axis) ||
                element_count(type->dims()) == 1)) {
      Dims full(out.size() - type->shape.size(), 1);
      const Dims own = type->dims();
      full.insert(full.end(), own.begin(), own.end());
      const bool whole = own == out;
      if (in_place && whole && step.op == Scalar::add && type->dtype == output.dtype && result.post_ops.len() == 0) {
        result.post_ops.append_sum();
        result.residual = extra - 1;
      } else {
        result.post_ops.append_binary(
            step.op == Scalar::add ? dnnl::algorithm::binary_add : dnnl::algorithm::binary_mul,
            dnnl_desc(type->dtype, full, whole ? layout : Layout::plain));
        result.binary_inputs.push_back(extra - 1);
      }
      ok = true;
    } else if (step.op == Scalar::mul && number == number) {
      ok = eltwise(dnnl::algorithm::eltwise_linear, float(number), 0.f);
    } else if (step.op == Scalar::add && number == number) {
      ok = eltwise(dnnl::algorithm::eltwise_linear, 1.f, float(number));
    } else if (step.op == Scalar::sigmoid && step.args[0] == current) {
      // x * sigmoid(x) is swish
      const Step* after = next + 1 < steps.size() ? &steps[next + 1] : nullptr;
      if (after && after->op == Scalar::mul &&
          ((after->args[0] == current && after->args[1] == value) ||
           (after->args[1] == current && after->args[0] == value))) {
        ok = eltwise(dnnl::algorithm::eltwise_swish, 1.f);
        taken = 2;
      } else {
        ok = eltwise(dnnl::algorithm::eltwise_logistic);
      }
    } else if (step.op == Scalar::tanh && step.args[0] == current) {
      ok = eltwise(dnnl::algorithm::eltwise_tanh);
    }
    if (!ok) break;
    // Later steps must not look at values that exist only inside the primitive.
    const int new_current = epilogue.inputs + int(next + taken) - 1;
    bool escapes = false;
    for (size_t i = next + taken; i < steps.size(); ++i)
      for (int a = 0; a < arity_of(steps[i].op); ++a) {
        const int arg = steps[i].args[size_t(a)];
        if (arg == 0 || (arg >= epilogue.inputs && arg < new_current && !is_aside(size_t(arg - epilogue.inputs))))
          escapes = true;
      }
    if (escapes) {
      // Undo is simpler than foresight: absorb only what is certain not to be needed again.
      return how == Absorb::all
                 ? absorb_epilogue(epilogue, operands, extras, output, channel_axis, layout, Absorb::bias_and_relu)
             : how == Absorb::bias_and_relu
                 ? absorb_epilogue(epilogue, operands, extras, output, channel_axis, layout, Absorb::bias_only)
                 : AbsorbedEpilogue{.rest = epilogue};
    }
    current = new_current;
    next += taken;
    first = false;
    if (relu_taken && how == Absorb::bias_and_relu) how = Absorb::bias_only;  // but for a cast, that was it
  }
  // The rest: the same program with input 0 standing for `current`.
  result.rest.inputs = epilogue.inputs;
  std::vector<int> map(size_t(epilogue.inputs) + steps.size(), -1);
  for (int i = 0; i < epilogue.inputs; ++i) map[size_t(i)] = i;
  map[size_t(current)] = 0;
  bool any = false;
  for (size_t i = next; i < steps.size(); ++i) any |= !is_aside(i);
  if (any)
    for (size_t i = 0; i < steps.size(); ++i) {
      if (i < next && !is_aside(i)) continue;
      Step step = steps[i];
      for (int a = 0; a < arity_of(step.op); ++a) step.args[size_t(a)] = map[size_t(step.args[size_t(a)])];
      map[size_t(epilogue.inputs) + i] = result.rest.push(step);
    }
  // Only the output itself can hold the residual, and a rest might read what is overwritten.
  if (result.residual >= 0 && (any || result.stored != output.dtype))
    return absorb_epilogue(epilogue, operands, extras, output, channel_axis, layout, Absorb::all);
  return result;
}

std::vector<std::pair<size_t, size_t>> add_binary_inputs(DnnlCall& call, const AbsorbedEpilogue& epilogue) {
  std::vector<std::pair<size_t, size_t>> added;
  for (int p = 0; p < epilogue.post_ops.len(); ++p) {
    if (epilogue.post_ops.kind(p) != dnnl::primitive::kind::binary) continue;
    dnnl::algorithm algorithm;
    dnnl::memory::desc desc;
    epilogue.post_ops.get_params_binary(p, algorithm, desc);
    added.push_back({call.add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(p) | DNNL_ARG_SRC_1, desc),
                     size_t(epilogue.binary_inputs[added.size()]) + 2});
  }
  return added;
}

Support dnnl_float_supported(const Problem& problem, const Device& device) {
  const DType dtype = problem.inputs[0].type.dtype;
  if (dtype != DType::f32 && dtype != DType::bf16) return refused("only f32 and bf16, not ", dtype);
  if (dtype == DType::bf16 && !device.avx512) return refused("without AVX-512 oneDNN has no bf16");
  return supported();
}

static std::vector<TensorType> tail_types(const Problem& problem, DType stored) {
  std::vector<TensorType> types{{stored, problem.outputs[0].type.shape}};
  for (const TensorType& type : extra_types(problem, 2)) types.push_back(type);
  return types;
}

Support EpilogueTail::supports(const Problem& problem, DType stored, const Program& rest, Layout layout) {
  if (rest.is_identity()) return supported();
  return pointwise_supported(rest, tail_types(problem, stored), problem.outputs[0].type, layout);
}

EpilogueTail::EpilogueTail(const Problem& problem, DType stored, const Program& rest, Layout layout, int residual)
    : threads_(problem.threads) {
  const TensorType& output = problem.outputs[0].type;
  output_bytes_ = layout_bytes(output.dtype, output.dims(), layout);
  if (residual >= 0) residual_ = residual + 2;
  if (rest.is_identity()) return;
  if (stored != output.dtype) stored_bytes_ = round_up<int64_t>(layout_bytes(stored, output.dims(), layout), 64);
  const std::vector<TensorType> types = tail_types(problem, stored);
  rest_ = make_pointwise_kernel(rest, types, output, layout, problem.threads);
  rest_inputs_.resize(types.size());
}

void EpilogueTail::before(const Buffers& buffers) const {
  if (residual_ < 0) return;
  const auto* from = static_cast<const std::byte*>(buffers.inputs[size_t(residual_)]);
  auto* to = static_cast<std::byte*>(buffers.outputs[0]);
  if (from == to) return;
  constexpr int64_t kBlock = 16384;
  parallel_for_threads(threads_, (output_bytes_ + kBlock - 1) / kBlock, 4, [&](int, int64_t begin, int64_t end) {
    const int64_t first = begin * kBlock;
    std::memcpy(to + first, from + first, size_t(std::min(end * kBlock, output_bytes_) - first));
  });
}

void EpilogueTail::run(const Buffers& buffers) {
  if (!rest_) return;
  rest_inputs_[0] = destination(buffers);
  for (size_t i = 1; i < rest_inputs_.size(); ++i) rest_inputs_[i] = buffers.inputs[i + 1];
  rest_->launch({rest_inputs_, buffers.outputs, scratch(buffers)});
}

}  // namespace temper
