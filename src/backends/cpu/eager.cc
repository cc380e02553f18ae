// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/eager.h"

#include <algorithm>

#include "backends/cpu/cpu.h"
#include "backends/cpu/nms.h"
#include "backends/cpu/nonzero.h"
#include "graph/infer.h"
#include "graph/ops/nonzero.h"
#include "graph/ops/string_normalize.h"
#include "graph/ops/string_split.h"
#include "graph/ops/string_tokenize.h"
#include "graph/ops/unique.h"

namespace temper {

namespace {

// The inputs' types alone: with their contents, inference would run the op once only to know how large its result is.
void check_types(const Op& op, const std::vector<Tensor>& inputs, std::string_view name) {
  std::vector<TensorType> types;
  std::vector<Operand> operands(inputs.size());
  types.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined()) operands[i].type = &types.emplace_back(inputs[i].type());
  infer(op, InferContext(operands, name));
}

std::vector<Tensor> run(const Op& given, const std::vector<Tensor>& inputs, std::string_view name, int threads) {
  if (given.is<ops::Nms, ops::NonZero>()) {
    check_types(given, inputs, name);
    return {given.is<ops::NonZero>() ? run_nonzero(inputs[0]) : run_nms(given.get<ops::Nms>(), inputs, threads)};
  }
  if (given.is<ops::StringNormalize, ops::StringSplit, ops::Unique>()) {
    check_types(given, inputs, name);
    return reference(given, inputs, {});
  }
  Op op = given;
  const TensorOperands operands(inputs);
  const InferContext context(operands, name);
  const size_t data = absorb(op, context).value_or(inputs.size());
  const std::vector<TensorType> types = infer(op, context.first(data));
  Problem problem{op, {}, {}, threads};
  std::vector<const void*> in;
  for (size_t i = 0; i < data; ++i) {
    const bool present = inputs[i].defined();
    problem.inputs.push_back({present ? inputs[i].type() : TensorType{}, nullptr, false, present});
    in.push_back(present ? inputs[i].raw().data() : nullptr);
  }
  std::vector<Tensor> outputs;
  std::vector<void*> out;
  for (const TensorType& type : types) {
    problem.outputs.push_back({type});
    outputs.emplace_back(type.dtype, type.dims());
    out.push_back(outputs.back().raw_mutable());
  }
  static const Device cpu = cpu_device();
  const PlainWay way = plain_way(problem, cpu);
  if (!way.tactic || way.tactic->build) return reference(op, std::span(inputs).first(data), types);
  const std::unique_ptr<Kernel> kernel = way.tactic->load(problem, way.config, {}, cpu);
  kernel->prepare();
  AlignedBytes workspace(size_t(kernel->workspace()));
  kernel->launch({in, out, workspace.data(), nullptr});
  return outputs;
}

}  // namespace

PlainWay plain_way(const Problem& problem, const Device& cpu) {
  auto plain = [](const std::vector<Layout>& layouts) {
    return std::all_of(layouts.begin(), layouts.end(), [](Layout layout) { return layout == Layout::plain; });
  };
  for (const Tactic* tactic : find_backend("cpu").tactics()) {
    if (!tactic->supports(problem, cpu).yes()) continue;
    for (const Config& config : tactic->configs(problem, cpu))
      if (plain(config.inputs) && plain(config.outputs)) return {tactic, config};
  }
  return {};
}

RunEager prepare_eager(const Op& op, std::string name, int threads) {
  std::shared_ptr<const ops::Tokenizer> tokenizer;
  if (const auto* tokenize = op.get_if<ops::StringTokenize>()) tokenizer = ops::tokenizer_of(*tokenize);
  return [=](const std::vector<Tensor>& inputs) {
    return with_context([&] { return concat(name_of(op), " '", name, "'"); },
                        [&] {
                          return tokenizer ? std::vector<Tensor>{ops::tokenize(*tokenizer, inputs[0])}
                                           : run(op, inputs, name, threads);
                        });
  };
}

}  // namespace temper
