// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <numeric>

#include "base/hash.h"
#include "base/threads.h"
#include "data/sample.h"
#include "graph/random.h"

namespace temper {
namespace {

int64_t sample_bytes(const Tensor& batch) { return batch.dims()[0] ? batch.bytes() / batch.dims()[0] : 0; }

}  // namespace

std::string list_inputs(const std::vector<InputSpec>& inputs) {
  std::string out;
  for (const InputSpec& input : inputs) out += concat(out.empty() ? "" : ", ", input.name, " ", input.type);
  return out;
}

std::string first_of(std::span<const std::string> names) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += concat(i ? ", " : "", names[i]);
  return names.size() > kShown ? concat(text, " and ", names.size() - kShown, " more") : text;
}

std::map<std::string, std::string> Dataset::preprocess() const {
  std::map<std::string, std::string> said;
  for (const Column& column : columns_)
    if (!column.pictures.empty()) said[column.spec.name] = text_of(column.preprocess.options());
  return said;
}

void Dataset::fill(const Column& column, int64_t first, int64_t count, Batch& out) const {
  if (!column.per_sample) {
    out.inputs.push_back(column.array);
    return;
  }
  Dims dims;
  if (column.array.defined()) dims = Dims(column.array.dims().begin() + 1, column.array.dims().end());
  else if (column.random)
    dims = TensorType{column.spec.type.dtype, Shape(column.spec.type.shape.begin() + 1, column.spec.type.shape.end())}
               .dims();
  else dims = column.preprocess.sample_dims();
  dims.insert(dims.begin(), count);
  Tensor tensor(column.spec.type.dtype, dims);
  const int64_t bytes = sample_bytes(tensor);
  if (column.array.defined()) {
    if (tensor.bytes() > 0)
      std::memcpy(tensor.raw_mutable(), column.array.raw().data() + first * bytes, size_t(tensor.bytes()));
  } else if (column.random) {
    for (int64_t i = 0; i < count; ++i) {  // per sample, so that the values do not depend on how samples are batched
      Tensor sample = Tensor::view(tensor.dtype(), Dims(dims.begin() + 1, dims.end()), tensor.raw().data() + i * bytes);
      fill_random(sample, seed_ ^ xxh3(column.spec.name) ^ (uint64_t(first + i) << 32));
    }
  } else {
    std::vector<std::exception_ptr> errors(static_cast<size_t>(count));  // no exception may leave a parallel region
    parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) try {
          const std::string& path = column.pictures[size_t(first + i)];
          const Image image = read_image(path);
          with_context([&] { return concat("'", path, "'"); },
                       [&] { preprocess_image(image, column.preprocess, tensor.raw_mutable() + i * bytes); });
        } catch (...) { errors[size_t(i)] = std::current_exception(); }
    });
    for (const auto& error : errors)
      if (error) std::rethrow_exception(error);
  }
  if (!column.random) add_sample_hashes(out.hashes, tensor, out.inputs.empty());
  out.inputs.push_back(std::move(tensor));
}

std::vector<Unreadable> Dataset::unreadable(std::span<const int64_t> samples) const {
  std::vector<std::exception_ptr> errors(samples.size());
  for (const Column& column : columns_) {
    if (column.pictures.empty()) continue;
    parallel_for(int64_t(samples.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) try {
          if (!errors[size_t(i)]) read_image(column.pictures[size_t(samples[size_t(i)])]);
        } catch (...) { errors[size_t(i)] = std::current_exception(); }
    });
  }
  std::vector<Unreadable> found;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!errors[i]) continue;
    try {
      std::rethrow_exception(errors[i]);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::bad_file && error.kind() != ErrorKind::unsupported) throw;  // the machine's fault
      found.push_back({samples[i], names_.empty() ? concat(samples[i]) : names_[size_t(samples[i])], error});
    }
  }
  return found;
}

Batch Dataset::batch(int64_t first, int64_t count) const {
  if (first < 0 || count < 0 || first > size_ || count > size_ - first)
    fail(ErrorKind::usage, "samples ", first, " to ", first + count, " of a data set of ", size_);
  Batch out;
  out.count = count;
  out.samples.resize(size_t(count));
  std::iota(out.samples.begin(), out.samples.end(), first);
  out.hashes.resize(size_t(count));
  for (const Column& column : columns_) fill(column, first, count, out);
  if (has_labels()) out.labels.assign(labels_.begin() + first, labels_.begin() + first + count);
  if (const int64_t positions = size_ ? int64_t(is_token_.size()) / size_ : 0)
    out.is_token.assign(is_token_.begin() + first * positions, is_token_.begin() + (first + count) * positions);
  for (int64_t i = first; i < first + count; ++i) out.names.push_back(names_.empty() ? concat(i) : names_[size_t(i)]);
  return out;
}

}  // namespace temper
