// SPDX-License-Identifier: Apache-2.0
// The user's own inputs of runs that are timed: what steers branches and loops must be what it is in use.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "graph/graph.h"
#include "runtime/engine.h"

namespace temper {

// By the name of the input; those that are not in it get random numbers.
using GivenInputs = std::map<std::string, Tensor>;

// The form that is read, as by every --input: "NAME=FILE" or "FILE".
struct InputRequest {
  std::vector<std::string> arguments;
  int64_t memory_limit = -1;  // see DatasetOptions
  // Warnings that were given: a request is read for the build and for the runs, and again for each precision.
  std::shared_ptr<std::set<std::string>> warned = std::make_shared<std::set<std::string>>();
};

// One run's inputs. An input whose first axis is the batch gets `batch` samples: the first of its file, and where there
// are fewer, the last one again; batch 0: all of them, within `tuned` and up to 32. Another input gets its whole file,
// where the model does not say how many samples it takes. NaN and infinity in them are a warning, once a request.
// Throws as open_input_files does.
GivenInputs read_given(const InputRequest& request, const std::vector<InputSpec>& inputs, int64_t batch,
                       const std::map<std::string, ShapeRange>& tuned = {});
GivenInputs read_given(const InputRequest& request, const Engine& engine, int64_t batch);

struct BatchRange {
  int64_t min = 1, opt = 1, max = 1;
};

// The first open dimension that begins an input: what a number of samples stands for. Empty where there is none.
std::string batch_symbol(const std::vector<InputSpec>& inputs);
// The range of it that --shapes says, which may name no input where there is only one; nothing where it says none.
std::optional<BatchRange> batches_said(const std::vector<InputSpec>& inputs,
                                       const std::map<std::string, ShapeRange>& shapes);
// Refuses a batch of --batch that --shapes contradicts. Throws Error{usage}.
void check_batch(const std::vector<InputSpec>& inputs, const std::map<std::string, ShapeRange>& shapes, int64_t batch);
// Values of symbols, from the shapes of given inputs.
Bindings bindings_of(const GivenInputs& given, const std::vector<InputSpec>& inputs);

std::vector<InputSpec> input_specs(const Engine& engine);

// All inputs of these shapes: those given, and random_inputs (bench_session.h).
std::vector<Tensor> with_random(const Engine& engine, const std::vector<Dims>& shapes, const GivenInputs& given);
// The same with zeros for states that were not given, as where they begin.
std::vector<Tensor> first_inputs(const Engine& engine, const std::vector<Dims>& shapes, const GivenInputs& given,
                                 const std::vector<StateBinding>& states);
// "inputs were given: sr; the others are seeded random numbers, and integers wider than a byte 0, of an attention mask
// 1"
std::string text_of(const Engine& engine, const GivenInputs& given);

}  // namespace temper
