// SPDX-License-Identifier: Apache-2.0
// Chooses some of a dataset's samples: the same for the same seed on every machine.
#pragma once
#include <span>
#include <vector>

#include "data/dataset.h"

namespace temper {

class Session;

// `count` of the numbers [0, size) in ascending order, each set equally likely; all of them where count >= size.
std::vector<int64_t> choose_samples(int64_t size, int64_t count, uint64_t seed);

// Does what Dataset::batch does, for samples that need not be neighbours.
Batch gather_batch(const Dataset& data, std::span<const int64_t> samples);

// An input without samples is left as it is, every other one gets `count` samples: the last one is repeated.
void fill_up(const Dataset& data, std::vector<Tensor>& inputs, int64_t count);
void fill_up(const std::vector<bool>& has_samples, std::vector<Tensor>& inputs, int64_t count);

// The first `count` entries along the first axis, in the same memory.
Tensor first_samples(const Tensor& tensor, int64_t count);

// Runs inputs that were filled up to `filled` samples of which `count` are real: outputs with as many samples are cut.
std::vector<Tensor> run_filled(Session& session, const std::vector<Tensor>& inputs, int64_t filled, int64_t count);

// Joins the hashes of another input's samples, which lie along its first axis, to those of the inputs before (see
// Batch::hashes); `first`: there were none.
void add_sample_hashes(std::vector<uint64_t>& hashes, const Tensor& tensor, bool first);

}  // namespace temper
