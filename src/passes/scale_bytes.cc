// SPDX-License-Identifier: Apache-2.0
// scale_bytes: a program that makes a byte of another one and of constants, by steps in f32 and a rounding at the end,
// becomes one multiplication and addition with that rounding, where all 256 answers for each constant stay what they
// were. So is what prepares pictures for a model in INT8: scale, mean, deviation, and a division by the step of its
// first convolution's input.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/checked.h"
#include "graph/ops/pointwise.h"
#include "passes/pass.h"

namespace temper {

namespace {

constexpr int64_t kBytes = 256, kMostRows = 4096;  // numbers of a byte; sets of constants, such as channels
// Scale and shift as they follow from two answers may be off by some units in the last place.
constexpr int kNudges[] = {0, 1, -1, 2, -2, 4, -4, 8, -8, 16, -16};

// The one input that is no constant, a byte; -1: there is none.
int byte_input(const Graph& graph, const Node& node) {
  int found = -1;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (graph.constant(node.inputs[i])) continue;
    const DType dtype = graph.type(node.inputs[i]).dtype;
    if (found >= 0 || (dtype != DType::u8 && dtype != DType::i8)) return -1;
    found = int(i);
  }
  return found;
}

// Whether the program ends with a rounding and a byte, and would have fewer steps with one fma.
bool may_shrink(const Program& program) {
  if (program.steps.size() < 2) return false;
  const Step &last = program.steps.back(), &round = program.steps[program.steps.size() - 2];
  if (last.op != Scalar::cast || (last.dtype != DType::u8 && last.dtype != DType::i8) || round.op != Scalar::round ||
      round.dtype != DType::f32 || last.args[0] != program.result() - 1 || round.args[0] != program.result() - 2)
    return false;
  const auto is_step = [](const Step& step) { return step.op != Scalar::constant; };
  return std::ranges::count_if(program.steps, is_step) > 4;
}

// All bytes along the first axis, the lowest first, beside constants of `rank` axes.
Tensor all_bytes(DType dtype, size_t rank) {
  Dims dims(rank + 1, 1);
  dims[0] = kBytes;
  std::vector<int64_t> values(kBytes);
  for (int64_t i = 0; i < kBytes; ++i) values[size_t(i)] = i - (dtype == DType::i8 ? 128 : 0);
  return Tensor::of<int64_t>(dims, values).converted(dtype);
}

float moved(float x, int units) {
  for (; units > 0; --units) x = std::nextafter(x, INFINITY);
  for (; units < 0; ++units) x = std::nextafter(x, -INFINITY);
  return x;
}

// Scale and shift with which all answers `wanted` come out; `ends`: those for the lowest and the highest byte before
// they are rounded.
std::optional<std::pair<float, float>> scale_and_shift(const std::vector<int64_t>& wanted, double low, double high,
                                                       DType from, DType to) {
  const int64_t first = from == DType::i8 ? -128 : 0, least = to == DType::i8 ? -128 : 0, most = least + kBytes - 1;
  const double scale = (high - low) / double(kBytes - 1), shift = low - scale * double(first);
  if (!std::isfinite(scale) || !std::isfinite(shift)) return std::nullopt;
  for (const int by : kNudges)
    for (const int also : kNudges) {
      const float a = moved(float(scale), by), b = moved(float(shift), also);
      bool same = true;
      for (int64_t i = 0; i < kBytes && same; ++i) {
        const float rounded = std::nearbyint(std::fma(float(first + i), a, b));
        same = int64_t(std::clamp(rounded, float(least), float(most))) == wanted[size_t(i)];
      }
      if (same) return std::pair(a, b);
    }
  return std::nullopt;
}

bool shrink(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  const Program& program = node.op.get<ops::Pointwise>().program;
  const int at = byte_input(graph, node);
  if (at < 0 || !may_shrink(program)) return false;
  Shape shape;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (int(i) != at) shape = broadcast_shapes(shape, graph.type(node.inputs[i]).shape);
  Dims rows;
  for (const Dim& dim : shape) rows.push_back(dim.value());
  const int64_t count = element_count(rows);
  if (count < 1 || count > kMostRows) return false;
  // One number for all goes into the program, and gives the result no shape.
  if (count == 1 && graph.type(node.outputs[0]).shape != graph.type(node.inputs[size_t(at)]).shape) return false;

  std::vector<Tensor> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    inputs.push_back(int(i) == at ? all_bytes(graph.type(node.inputs[i]).dtype, rows.size())
                                  : *graph.constant(node.inputs[i]));
  Dims dims{kBytes};
  dims.insert(dims.end(), rows.begin(), rows.end());
  const DType from = inputs[size_t(at)].dtype(), to = program.steps.back().dtype;
  const Tensor answers = run_program(program, inputs, dims), wanted = answers.converted(DType::i64);
  Program before = program;  // the rounding
  before.steps.resize(program.steps.size() - 2);
  const Tensor exact = run_program(before, inputs, dims);

  std::vector<float> scales, shifts;
  for (int64_t row = 0; row < count; ++row) {
    std::vector<int64_t> of_row;
    for (int64_t i = 0; i < kBytes; ++i) of_row.push_back(wanted.data<int64_t>()[i * count + row]);
    const auto found =
        scale_and_shift(of_row, exact.data<float>()[row], exact.data<float>()[(kBytes - 1) * count + row], from, to);
    if (!found) return false;
    scales.push_back(found->first);
    shifts.push_back(found->second);
  }
  Program shorter;
  shorter.inputs = count == 1 ? 1 : 3;
  const int x = shorter.push({Scalar::cast, DType::f32, {0, -1, -1}});
  const int a = count == 1 ? shorter.push(constant_step(DType::f32, scales[0])) : 1,
            b = count == 1 ? shorter.push(constant_step(DType::f32, shifts[0])) : 2;
  const int sum = shorter.push({Scalar::fma, DType::f32, {x, a, b}}),
            round = shorter.push({Scalar::round, DType::f32, {sum, -1, -1}});
  shorter.push({Scalar::cast, to, {round, -1, -1}});
  std::vector<Tensor> fewer{inputs[size_t(at)]};
  std::vector<ValueId> values{node.inputs[size_t(at)]};
  if (count > 1) {
    fewer.push_back(Tensor::of<float>(rows, scales));
    fewer.push_back(Tensor::of<float>(rows, shifts));
  }
  if (!run_program(shorter, fewer, dims).same_bits(answers)) return false;
  for (size_t i = 1; i < fewer.size(); ++i)
    values.push_back(graph.add_constant(concat(node.name, i == 1 ? "/scale" : "/shift"), fewer[i]));
  graph.rewrite(node.outputs[0], ops::Pointwise{shorter}, values, std::string(node.name));
  return true;
}

}  // namespace

bool scale_bytes(Graph& graph, const PassOptions& options) {
  bool changed = false;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    options.time.check_at(n);
    if (graph.node({n}).op.is<ops::Pointwise>()) changed |= shrink(graph, {n});
  }
  return changed;
}

}  // namespace temper
