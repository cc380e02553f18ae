// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/int8_epilogue.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/threads.h"

namespace temper {

namespace {

bool is_channel_constant(const Port& port, const Dims& output, size_t axis) {
  if (!port.is_constant || port.type.dtype != DType::f32) return false;
  const Dims dims = port.dims();
  if (element_count(dims) == 1) return true;
  if (dims.size() > output.size()) return false;
  const size_t skip = output.size() - dims.size();
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != (i + skip == axis ? output[axis] : 1)) return false;
  return axis >= skip;
}

// The program after value `current`, which becomes input 0; nothing where it reads more of what was absorbed than that.
std::optional<Program> rest_of(const Program& program, int current, const std::vector<bool>& keep) {
  Program rest;
  rest.inputs = program.inputs;
  std::vector<int> map(size_t(program.inputs) + program.steps.size(), -1);
  for (int i = 1; i < program.inputs; ++i) map[size_t(i)] = i;
  map[size_t(current)] = 0;
  if (current == program.result()) return rest;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const int v = program.inputs + int(i);
    if (v <= current && !keep[i]) continue;
    Step step = program.steps[i];
    for (int a = 0; a < arity_of(step.op); ++a) {
      int& arg = step.args[size_t(a)];
      arg = map[size_t(arg)];
      if (arg < 0) return std::nullopt;
    }
    map[size_t(v)] = rest.push(step);
  }
  return rest;
}

}  // namespace

DType integer_input_dtype(const Problem& problem) {
  return problem.inputs[0].no_negatives ? DType::u8 : problem.inputs[0].type.dtype;
}

std::optional<IntegerEpilogue> absorb_integer_epilogue(const Problem& problem, const Program& epilogue,
                                                       size_t channel_axis, IntegerAbsorb how) {
  IntegerEpilogue result;
  if (how == IntegerAbsorb::nothing) {
    result.rest = epilogue;
    return result;
  }
  struct Side {  // cast(input) - zero
    int input = -1;
    int32_t zero = 0;
  };
  const Dims out = problem.outputs[0].dims();
  const auto& steps = epilogue.steps;
  std::vector<Side> sides(size_t(epilogue.inputs) + steps.size());
  std::vector<bool> keep(steps.size(), false);     // steps that are no part of the chain from the accumulator
  std::vector<bool> of_sums(sides.size(), false);  // values that are made of the accumulator
  of_sums[0] = true;
  const auto number_of = [&](int value) {
    const Step* step = value < epilogue.inputs ? nullptr : &steps[size_t(value - epilogue.inputs)];
    return step && step->op == Scalar::constant && step->dtype == DType::f32 ? step->number
                                                                             : std::numeric_limits<double>::quiet_NaN();
  };
  const auto port_of = [&](int input) -> const Port& { return problem.inputs[size_t(input) + 1]; };
  // The argument beside the running value, as a channel constant or a number.
  const auto take = [&](const Step& step, int current, int& input, double& number) {
    const int other = step.args[0] == current ? step.args[1] : step.args[1] == current ? step.args[0] : current;
    if (other == current) return false;
    if (other > 0 && other < epilogue.inputs) {
      if (!is_channel_constant(port_of(other), out, channel_axis)) return false;
      input = other - 1;
      return true;
    }
    const double found = number_of(other);
    if (found != found) return false;
    number = found;
    return true;
  };
  enum Stage { start, cast, biased, scaled, summed, active, rounded, shifted, done } stage = start;
  int current = 0;
  for (size_t i = 0; i < steps.size() && stage != done; ++i) {
    const Step& step = steps[i];
    const int value = epilogue.inputs + int(i);
    if (step.op == Scalar::constant) {
      keep[i] = true;
      continue;
    }
    // A residual is read before the running value comes to it.
    if (step.op == Scalar::cast && step.dtype == DType::f32 && step.args[0] > 0 && step.args[0] < epilogue.inputs) {
      const Port& port = port_of(step.args[0]);
      if (!port.is_constant && port.dims() == out && (port.type.dtype == DType::i8 || port.type.dtype == DType::u8))
        sides[size_t(value)].input = step.args[0];
      keep[i] = true;
      continue;
    }
    if (step.op == Scalar::add && sides[size_t(step.args[0])].input > 0 &&
        number_of(step.args[1]) == std::nearbyint(number_of(step.args[1])) &&
        std::fabs(number_of(step.args[1])) <= 255) {
      sides[size_t(value)] = {sides[size_t(step.args[0])].input, -int32_t(number_of(step.args[1]))};
      keep[i] = true;
      continue;
    }
    for (int a = 0; a < arity_of(step.op); ++a)
      if (of_sums[size_t(step.args[size_t(a)])]) of_sums[size_t(value)] = true;
    if (!of_sums[size_t(value)]) {
      keep[i] = true;
      continue;
    }
    bool ok = false;
    if (step.op == Scalar::cast && stage == start && step.args[0] == 0 && step.dtype == DType::f32) {
      stage = cast;
      ok = true;
    } else if (step.op == Scalar::add && stage == cast && take(step, current, result.bias, result.bias_number)) {
      stage = biased;
      ok = true;
    } else if (step.op == Scalar::mul && (stage == cast || stage == biased) &&
               take(step, current, result.scale, result.scale_number)) {
      stage = scaled;
      ok = true;
    } else if (how == IntegerAbsorb::scale) {
      break;
    } else if (step.op == Scalar::fma && stage >= cast && stage <= scaled && step.args[2] == current &&
               sides[size_t(step.args[0])].input > 0 && number_of(step.args[1]) > 0) {
      const Side& side = sides[size_t(step.args[0])];
      result.residual = side.input - 1;
      result.residual_zero = side.zero;
      result.residual_scale = number_of(step.args[1]);
      result.residual_dtype = port_of(side.input).type.dtype;
      stage = summed;
      ok = true;
    } else if (step.op == Scalar::relu && stage >= cast && stage <= summed && step.args[0] == current) {
      result.relu = true;
      stage = active;
      ok = true;
    } else if (step.op == Scalar::min && stage == active && result.limit < 0 && step.args[0] == current &&
               number_of(step.args[1]) >= 0) {
      result.limit = number_of(step.args[1]);
      ok = true;
    } else if (step.op == Scalar::round && stage >= cast && stage <= active && step.args[0] == current) {
      stage = rounded;
      ok = true;
    } else if (step.op == Scalar::add && stage == rounded && step.args[0] == current &&
               std::fabs(number_of(step.args[1])) <= 255 &&
               number_of(step.args[1]) == std::nearbyint(number_of(step.args[1]))) {
      result.zero_point = int32_t(number_of(step.args[1]));
      stage = shifted;
      ok = true;
    } else if (step.op == Scalar::cast && (stage == rounded || stage == shifted) && step.args[0] == current &&
               (step.dtype == DType::i8 || step.dtype == DType::u8) && value == epilogue.result()) {
      result.stored = step.dtype;
      stage = done;
      ok = true;
    }
    if (!ok) break;
    current = value;
  }
  if (how == IntegerAbsorb::all && stage != done) return std::nullopt;
  if (how == IntegerAbsorb::scale) {
    if (stage < cast) return std::nullopt;
    result.stored = DType::f32;
  }
  auto rest = rest_of(epilogue, current, keep);
  if (!rest) return std::nullopt;
  result.rest = std::move(*rest);
  return result;
}

std::vector<float> bias_of(const Problem& problem, const IntegerEpilogue& epilogue, int64_t channels) {
  if (epilogue.bias < 0) return std::vector<float>(size_t(channels), float(epilogue.bias_number));
  const Tensor* constant = problem.inputs[size_t(epilogue.bias) + 2].constant;
  if (!constant) fail(ErrorKind::bad_file, "the bias is not there");
  if (constant->count() == 1) return std::vector<float>(size_t(channels), *constant->data<float>());
  return {constant->data<float>(), constant->data<float>() + constant->count()};
}

std::vector<float> scales_of(const Problem& problem, const IntegerEpilogue& epilogue) {
  if (epilogue.scale < 0) return {float(epilogue.scale_number)};
  const Tensor* constant = problem.inputs[size_t(epilogue.scale) + 2].constant;
  if (!constant) fail(ErrorKind::bad_file, "the scale is not there");
  return {constant->data<float>(), constant->data<float>() + constant->count()};
}

dnnl::primitive_attr int8_attributes(const IntegerEpilogue& epilogue, int scale_mask,
                                     const std::vector<float>& scales) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (epilogue.stored != DType::i32 && (scales.size() > 1 || scales[0] != 1))
    attributes.set_output_scales(scales.size() > 1 ? scale_mask : 0, scales);
  dnnl::post_ops post_ops;
  if (epilogue.residual >= 0)
    post_ops.append_sum(float(epilogue.residual_scale), epilogue.residual_zero, dnnl_dtype(epilogue.residual_dtype));
  // Saturation to u8 is relu already.
  if (epilogue.limit >= 0) post_ops.append_eltwise(1.f, dnnl::algorithm::eltwise_clip, 0.f, float(epilogue.limit));
  else if (epilogue.relu && !(epilogue.stored == DType::u8 && epilogue.zero_point == 0))
    post_ops.append_eltwise(1.f, dnnl::algorithm::eltwise_relu, 0.f, 0.f);
  // oneDNN rounds behind the zero point, which changes nothing any more where the value is whole.
  if (epilogue.zero_point != 0) post_ops.append_eltwise(1.f, dnnl::algorithm::eltwise_round, 0.f, 0.f);
  attributes.set_post_ops(post_ops);
  if (epilogue.zero_point != 0) attributes.set_zero_points(DNNL_ARG_DST, 0, {epilogue.zero_point});
  return attributes;
}

bool sums_fit_f32(const Problem& problem, int64_t channels, bool channels_outermost) {
  const Tensor* w = problem.inputs[1].constant;
  if (!w) return true;
  const int64_t inner = channels_outermost ? w->count() / std::max<int64_t>(1, channels) : 1;
  std::vector<int64_t> sums(static_cast<size_t>(channels), 0);
  for (int64_t i = 0; i < w->count(); ++i)
    sums[size_t(i / inner % channels)] += std::abs(int64_t(w->data<int8_t>()[i]));
  const int64_t most = problem.inputs[0].type.dtype == DType::u8 ? 255 : 128;
  return std::all_of(sums.begin(), sums.end(), [&](int64_t sum) { return sum * most < (int64_t(1) << 24); });
}

}  // namespace temper
