// SPDX-License-Identifier: Apache-2.0
#include "data/batches.h"

#include <algorithm>

#include "base/log.h"
#include "data/sample.h"

namespace temper {

std::vector<InputSpec> input_specs(const Graph& imported) {
  std::vector<InputSpec> specs;
  for (ValueId id : imported.inputs()) specs.push_back({imported.value(id).name, imported.type(id), false, "", ""});
  return specs;
}

std::vector<int64_t> samples_of(const Dataset& data, const std::string& path, int64_t asked, uint64_t seed,
                                int64_t standard) {
  if (data.size() == 0) fail(ErrorKind::usage, "'", path, "' holds no samples");
  if (asked > data.size())
    log(LogLevel::warning, "--samples ", asked, ": '", path, "' holds ", data.size(), ", and all of them are taken");
  const int64_t count = asked ? asked : standard;
  return choose_samples(data.size(), count ? count : data.size(), seed);
}

std::vector<int64_t> share_of(std::span<const int64_t> samples, int64_t batch, const BatchShare& share) {
  std::vector<int64_t> own;
  for (size_t i = 0; i < samples.size(); ++i)
    if (int64_t(i) / batch % share.of == share.number) own.push_back(samples[i]);
  return own;
}

std::vector<Unreadable> find_unreadable(const Dataset& data, std::span<const int64_t> samples,
                                        const Progress& progress) {
  constexpr size_t kAtOnce = 512;  // between two steps of the progress
  std::vector<Unreadable> left_out;
  for (size_t first = 0; first < samples.size(); first += kAtOnce) {
    if (first) tell(progress, {"looking at the pictures", double(first), double(samples.size())});
    for (Unreadable& one : data.unreadable(samples.subspan(first, std::min(kAtOnce, samples.size() - first))))
      left_out.push_back(std::move(one));
  }
  return left_out;
}

namespace {
std::vector<Unreadable> take_out(std::vector<Unreadable> left_out, const std::string& path,
                                 std::vector<int64_t>& samples) {
  if (left_out.empty()) return left_out;
  if (samples.size() == 1) throw left_out[0].error;
  if (left_out.size() == samples.size())
    fail(ErrorKind::bad_file, "none of the ", samples.size(), " pictures of '", path,
         "' can be read; the first: ", std::string_view(left_out[0].error.what()));
  std::vector<std::string> texts;
  texts.reserve(left_out.size());
  for (const Unreadable& one : left_out) texts.emplace_back(one.error.what());
  log(LogLevel::warning, left_out.size(), " of ", samples.size(), " pictures of '", path, "' cannot be read and ",
      left_out.size() == 1 ? "is" : "are", " left out: ", first_of(texts), "; with --strict this is an error");
  std::erase_if(samples, [&](int64_t sample) {
    return std::any_of(left_out.begin(), left_out.end(), [&](const Unreadable& one) { return one.sample == sample; });
  });
  return left_out;
}
}  // namespace

std::vector<Unreadable> leave_out(const Dataset& data, const std::string& path, std::vector<int64_t>& samples,
                                  bool strict, const Progress& progress) {
  if (strict) return {};
  return take_out(find_unreadable(data, samples, progress), path, samples);
}

void for_each_batch(const Dataset& data, std::span<const int64_t> samples, const BatchSizes& sizes,
                    const std::string& what, const Progress& progress, const std::function<void(const Batch&)>& use) {
  for (size_t first = 0; first < samples.size(); first += size_t(sizes.size)) {
    tell(progress, {what, double(first), double(samples.size()), "samples"});
    use(gather_batch(data, samples.subspan(first, std::min(size_t(sizes.size), samples.size() - first))));
  }
}

std::vector<Tensor> run_batch(Session& session, const Dataset& data, const Batch& batch, const BatchSizes& sizes) {
  if (batch.count >= sizes.min) return session.run(batch.inputs);
  std::vector<Tensor> inputs = batch.inputs;
  fill_up(data, inputs, sizes.min);
  return run_filled(session, inputs, sizes.min, batch.count);
}

void OutputCollector::add(const Batch& batch, const std::vector<Tensor>& outputs) {
  counts_.push_back(batch.count);
  for (size_t i = 0; i < outputs.size(); ++i) pieces_[i].push_back(outputs[i]);
}

std::vector<Tensor> OutputCollector::finish() {
  std::vector<Tensor> joined;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const auto& pieces = pieces_[i];
    if (pieces.size() == 1 || !pieces[0].defined()) {
      joined.push_back(pieces[0]);
      continue;
    }
    int64_t total = 0;
    for (size_t b = 0; b < pieces.size(); ++b) {
      const Dims &dims = pieces[b].dims(), &first = pieces[0].dims();
      if (dims.empty() || dims[0] != counts_[b] || dims.size() != first.size() ||
          !std::equal(dims.begin() + 1, dims.end(), first.begin() + 1))
        fail(ErrorKind::unsupported, "output '", names_[i], "' ", pieces[b].type(), " for a batch of ", counts_[b],
             " cannot be joined over batches; give fewer samples, or run them in one batch (--batch)");
      total += dims[0];
    }
    Dims dims = pieces[0].dims();
    dims[0] = total;
    Tensor all(pieces[0].dtype(), dims);
    std::byte* to = all.raw_mutable();
    for (const Tensor& piece : pieces) to = std::copy(piece.raw().begin(), piece.raw().end(), to);
    joined.push_back(std::move(all));
  }
  return joined;
}

Dataset DataRequest::open(const std::vector<InputSpec>& inputs) const {
  return path.empty() ? open_arrays(arrays, inputs, options) : open_dataset(path, inputs, options);
}

std::vector<int64_t> samples_of(const Dataset& data, const DataRequest& request, int64_t standard) {
  return samples_of(data, request.name(), request.samples, request.seed, standard);
}

std::vector<Unreadable> leave_out(const Dataset& data, const DataRequest& request, std::vector<int64_t>& samples,
                                  const Progress& progress) {
  if (request.unreadable && !request.strict) return take_out(*request.unreadable, request.name(), samples);
  return leave_out(data, request.name(), samples, request.strict, progress);
}

}  // namespace temper
