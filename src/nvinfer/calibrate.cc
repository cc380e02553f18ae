// SPDX-License-Identifier: Apache-2.0
#include "nvinfer/calibrate.h"

#include <cstring>

#include "calibrate/stream.h"
#include "nvinfer/address.h"
#include "quantize/cache.h"

namespace temper::nvinfer {

namespace {

Dims dims_of(const PortInfo& input, const std::map<std::string, ShapeRange>& shapes) {
  Dims dims;
  for (size_t axis = 0; axis < input.type.shape.size(); ++axis) {
    const Dim& dim = input.type.shape[axis];
    dims.push_back(dim.is_constant() ? dim.value() : shapes.at(input.name).opt.at(axis));
  }
  return dims;
}

// A batch where the program has it, on the host.
class Reader {
 public:
  Reader(const std::string& device, void* context) {
    DeviceSettings settings;
    settings.cuda_context = context;
    if (device.starts_with("cuda")) queue_ = open_queue(open_device(device, settings));
  }
  void copy(Tensor& to, uintptr_t from, const std::string& input) const {
    if (!from) fail(ErrorKind::usage, "the calibrator gave a null address");
    const void* const at = at_address(from);
    if (!queue_) {
      check_mapped(from, to.bytes(), input);
      std::memcpy(to.raw_mutable(), at, size_t(to.bytes()));
      return;
    }
    queue_->wait_for(nullptr);  // what the program copied there on its default stream
    queue_->copy_to_host(to.raw_mutable(), at, to.bytes());
    queue_->wait();
  }

 private:
  std::unique_ptr<Queue> queue_;  // null: the host's memory
};

// Of a cache; nothing where it has none of the model.
std::optional<Ranges> ranges_in(const std::string& cache, const ImportedModel& model, const Logger& logger) {
  const auto warn = [&](std::string_view text) { logger(Severity::warning, concat("calibration cache: ", text)); };
  try {
    std::vector<std::string> notes;
    Ranges ranges = ranges_of(parse_cache(cache, &notes), model.sha256);
    notes.insert(notes.end(), ranges.notes.begin(), ranges.notes.end());
    for (const std::string& note : notes) warn(note);
    for (int32_t v = 0; v < model.graph.value_count(); ++v)
      if (ranges.values.contains(model.graph.value({v}).name)) return ranges;
    warn(concat("no value of the model has one of its ", int64_t(ranges.values.size()), " names"));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_file) throw;
    warn(error.what());
  }
  return std::nullopt;
}

}  // namespace

std::optional<Ranges> calibrate(const Network& network, const std::map<std::string, ShapeRange>& shapes,
                                const std::string& device, const Calibrator& calibrator, const KeepCurrentGpu& callers,
                                const Logger& logger) {
  const ImportedModel model = network.source().import();
  callers.put_back();
  if (const std::string cache = calibrator.read_cache(); !cache.empty()) return ranges_in(cache, model, logger);
  std::vector<std::string> names;
  for (const PortInfo& input : network.inputs()) names.push_back(input.name);
  const Reader reader(device, callers.own_context());
  StreamCalibration stream(model, BuildOptions(), calibrator.method, 0);
  int64_t samples = 0;
  const auto next = [&] {
    callers.put_back();  // the calibrator copies to the GPU
    return calibrator.next(names);
  };
  while (const auto addresses = next()) {
    if (addresses->size() < names.size())
      fail(ErrorKind::usage, "the calibrator gave ", addresses->size(), " addresses for ", names.size(), " inputs");
    std::vector<Tensor> batch;
    for (size_t i = 0; i < names.size(); ++i) {
      const PortInfo& input = network.inputs()[i];
      Tensor& tensor = batch.emplace_back(input.type.dtype, dims_of(input, shapes));
      const uintptr_t from = (*addresses)[i];
      if (from && calibrator.check) calibrator.check(at_address(from), tensor.bytes(), input.name);
      reader.copy(tensor, from, input.name);
    }
    samples += stream.observe(batch);
    logger(Severity::verbose, concat("calibrated on ", samples, " samples"));
  }
  if (!samples)
    fail(ErrorKind::usage, "the calibrator gave no batch, and has no cache: nothing is calibrated from nothing");
  Ranges ranges = stream.finish();
  for (const std::string& note : ranges.notes) logger(Severity::warning, note);
  callers.put_back();
  calibrator.write_cache(to_text(cache_of(ranges)));
  return ranges;
}

}  // namespace temper::nvinfer
