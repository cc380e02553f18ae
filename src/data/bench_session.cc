// SPDX-License-Identifier: Apache-2.0
#include "data/bench_session.h"

#include "data/dataset.h"
#include "data/tokens.h"
#include "graph/random.h"

namespace temper {

std::vector<Tensor> random_inputs(const Engine& engine, const std::vector<Dims>& shapes, uint64_t seed) {
  std::vector<InputSpec> specs;
  for (const auto& input : engine.inputs()) specs.push_back({input.name, input.type});
  const int mask = text_inputs(specs).mask;
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const DType dtype = specs.at(i).type.dtype;
    const bool may_be_positions = !is_float(dtype) && size_of(dtype) > 1;
    if (int(i) == mask && may_be_positions)
      inputs.push_back(mask_of(std::vector<int64_t>(size_t(shapes[i][0]), shapes[i][1]), shapes[i][1], dtype));
    else inputs.push_back(may_be_positions ? Tensor(dtype, shapes[i]) : random_tensor(dtype, shapes[i], seed + i));
  }
  return inputs;
}

BenchSession::BenchSession(std::shared_ptr<const Engine> engine, const std::vector<Dims>& shapes, uint64_t seed)
    : BenchSession(engine, random_inputs(*engine, shapes, seed)) {}

BenchSession::BenchSession(std::shared_ptr<const Engine> engine, std::vector<Tensor> inputs,
                           const std::vector<StateBinding>& states)
    : session_(std::move(engine)), inputs_(std::move(inputs)), begins_(!states.empty()) {
  session_.keep_state(states);
  std::vector<Dims> shapes;
  for (const Tensor& input : inputs_) shapes.push_back(input.dims());
  const std::vector<TensorType> types = session_.prepare(shapes);
  if (session_.is_partitioned()) return;
  for (const TensorType& type : types) outputs_.emplace_back(type.dtype, type.dims());
  for (const Tensor& input : inputs_) in_.push_back(input.raw().data());
  for (Tensor& output : outputs_) out_.push_back(output.raw_mutable());
  for (const State& state : session_.states()) out_[state.output] = nullptr;
}

// From what the run before left.
void BenchSession::go_on() {
  for (const State& state : session_.states()) {
    inputs_[state.input] = {};
    if (!in_.empty()) in_[state.input] = nullptr;
  }
  begins_ = false;
}

void BenchSession::sample_steps(std::vector<std::vector<std::vector<double>>>& samples) {
  std::vector<std::vector<double>> ms;
  session_.run_timed(in_, out_, ms);
  samples.resize(ms.size());
  for (size_t s = 0; s < ms.size(); ++s) {
    samples[s].resize(ms[s].size());
    for (size_t i = 0; i < ms[s].size(); ++i) samples[s][i].push_back(ms[s][i]);
  }
}

}  // namespace temper
