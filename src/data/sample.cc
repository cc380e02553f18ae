// SPDX-License-Identifier: Apache-2.0
#include "data/sample.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "base/hash.h"
#include "runtime/engine.h"

namespace temper {

std::vector<int64_t> choose_samples(int64_t size, int64_t count, uint64_t seed) {
  std::vector<int64_t> all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), int64_t(0));
  if (count >= size) return all;
  // The first `count` steps of a Fisher-Yates shuffle. The engine's numbers are fixed by the standard; a distribution's
  // are not. The remainder's bias is below size / 2^64.
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < count; ++i) std::swap(all[size_t(i)], all[size_t(i) + random() % uint64_t(size - i)]);
  all.resize(size_t(count));
  std::sort(all.begin(), all.end());
  return all;
}

Batch gather_batch(const Dataset& data, std::span<const int64_t> samples) {
  Batch all;
  std::vector<std::vector<Tensor>> pieces;
  for (size_t i = 0; i < samples.size();) {
    size_t end = i + 1;
    while (end < samples.size() && samples[end] == samples[end - 1] + 1) ++end;
    Batch part = data.batch(samples[i], int64_t(end - i));
    if (i == 0 && end == samples.size()) return part;
    all.samples.insert(all.samples.end(), part.samples.begin(), part.samples.end());
    all.count += part.count;
    all.labels.insert(all.labels.end(), part.labels.begin(), part.labels.end());
    all.names.insert(all.names.end(), part.names.begin(), part.names.end());
    all.hashes.insert(all.hashes.end(), part.hashes.begin(), part.hashes.end());
    pieces.push_back(std::move(part.inputs));
    i = end;
  }
  for (size_t input = 0; !pieces.empty() && input < pieces[0].size(); ++input) {
    const Tensor& first = pieces[0][input];
    if (!data.has_samples(input)) {
      all.inputs.push_back(first);
      continue;
    }
    Dims dims = first.dims();
    dims[0] = all.count;
    Tensor joined(first.dtype(), dims);
    std::byte* to = joined.raw_mutable();
    for (const auto& piece : pieces) {
      const Tensor& part = piece[input];
      if (!std::equal(part.dims().begin() + 1, part.dims().end(), dims.begin() + 1, dims.end()))
        fail(ErrorKind::usage, "samples of different shapes (", first.type(), ", ", part.type(),
             ") do not go into one batch; use --batch 1");
      to = std::copy(part.raw().begin(), part.raw().end(), to);
    }
    all.inputs.push_back(std::move(joined));
  }
  return all;
}

void fill_up(const Dataset& data, std::vector<Tensor>& inputs, int64_t count) {
  std::vector<bool> has_samples;
  for (size_t i = 0; i < inputs.size(); ++i) has_samples.push_back(data.has_samples(i));
  fill_up(has_samples, inputs, count);
}

void fill_up(const std::vector<bool>& has_samples, std::vector<Tensor>& inputs, int64_t count) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!has_samples[i] || inputs[i].dims()[0] >= count) continue;
    const Tensor& tensor = inputs[i];
    Dims dims = tensor.dims();
    const int64_t own = dims[0], entry = own ? tensor.bytes() / own : 0;
    dims[0] = count;
    Tensor filled(tensor.dtype(), dims);
    for (int64_t s = 0; s < count; ++s)
      std::memcpy(filled.raw_mutable() + s * entry, tensor.raw().data() + std::min(s, own - 1) * entry, size_t(entry));
    inputs[i] = std::move(filled);
  }
}

Tensor first_samples(const Tensor& tensor, int64_t count) {
  Dims dims = tensor.dims();
  dims[0] = count;
  return Tensor::view(tensor.dtype(), dims, tensor.raw().data(), std::make_shared<const Tensor>(tensor));
}

std::vector<Tensor> run_filled(Session& session, const std::vector<Tensor>& inputs, int64_t filled, int64_t count) {
  std::vector<Tensor> outputs = session.run(inputs);
  if (count < filled)
    for (Tensor& output : outputs)
      if (output.rank() > 0 && output.dims()[0] == filled) output = first_samples(output, count);
  return outputs;
}

void add_sample_hashes(std::vector<uint64_t>& hashes, const Tensor& tensor, bool first) {
  const size_t bytes = hashes.empty() ? 0 : size_t(tensor.bytes()) / hashes.size();
  for (size_t i = 0; i < hashes.size(); ++i) {
    const uint64_t own = xxh3(tensor.raw().data() + i * bytes, bytes), both[2] = {hashes[i], own};
    hashes[i] = first ? own : xxh3(both, sizeof both);
  }
}

}  // namespace temper
