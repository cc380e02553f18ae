// SPDX-License-Identifier: Apache-2.0
// Calibration fed batch by batch; Python holds the loop, so that what its iterator raises never passes through here.
#include <algorithm>

#include "bind.h"
#include "build/observer.h"
#include "data/sample.h"
#include "engine.h"
#include "guard.h"
#include "quantize/ranges.h"

namespace nb = nanobind;

namespace temper::python {

namespace {

constexpr int64_t kMostSamples = 1 << 16;  // of a batch, where the model leaves it open

class Calibrator {
 public:
  Calibrator(nb::object model, nb::dict options) : options_(options_of(options)) {
    const ModelSource source = source_of(model);
    const WithoutGil released;
    model_ = source.import();
    for (ValueId id : model_.graph.inputs()) ports_.push_back({model_.graph.value(id).name, model_.graph.type(id)});
  }

  // A batch, as Session.run takes its inputs; its first axis is that of the samples. Returns how many it had.
  int64_t observe(nb::object inputs) {
    const std::vector<Array> arrays = arrays_of(inputs, ports_);
    const WithoutGil released;
    std::vector<Tensor> tensors;
    for (const Array& array : arrays) tensors.push_back(array.tensor());
    int64_t count = 1;
    for (const Tensor& tensor : tensors)
      if (tensor.rank() > 0) {
        count = tensor.dims()[0];
        break;
      }
    if (count < 1) fail(ErrorKind::usage, "a batch of calibration data has no samples in it");
    if (!observer_) start(tensors);
    std::vector<std::string> names;
    for (int64_t i = 0; i < count; ++i) names.push_back(concat(observer_->samples() + i));
    observer_->observe(tensors, names);
    std::vector<uint64_t> hashes(static_cast<size_t>(count));
    bool first = true;
    for (const Tensor& tensor : tensors)
      if (tensor.rank() > 0 && tensor.dims()[0] == count) {
        add_sample_hashes(hashes, tensor, first);
        first = false;
      }
    hashes_.insert(hashes_.end(), hashes.begin(), hashes.end());
    return count;
  }

  Ranges finish(const std::string& method) {
    if (!observer_) fail(ErrorKind::usage, "the calibration data are empty: no batch came");
    const Method named = Method::parse(method);
    const WithoutGil released;
    Ranges ranges = make_ranges(observer_->finish(std::move(hashes_)), named);
    observer_.reset();
    ranges.model_sha256 = model_.sha256;
    return ranges;
  }

 private:
  // Dimensions that the model leaves open are those of the first batch, but for the number of samples.
  void start(const std::vector<Tensor>& inputs) {
    for (size_t i = 0; i < ports_.size(); ++i) {
      const Shape& shape = ports_[i].type.shape;
      if (shape.size() != inputs[i].dims().size())
        fail(ErrorKind::usage, "input '", ports_[i].name, "' was given the shape ", inputs[i].dims(), "; expected is ",
             ports_[i].type);
      ShapeRange range{inputs[i].dims(), inputs[i].dims(), inputs[i].dims()};
      if (!shape.empty() && !shape[0].is_constant()) {
        range.min[0] = 1;
        range.max[0] = std::max(kMostSamples, range.opt[0]);
      }
      options_.shapes[ports_[i].name] = std::move(range);
    }
    observer_ = std::make_unique<Observer>(model_.graph, options_);
  }

  BuildOptions options_;
  ImportedModel model_;
  std::vector<PortInfo> ports_;
  std::unique_ptr<Observer> observer_;
  std::vector<uint64_t> hashes_;
};

nb::list values_of(const Ranges& ranges) {
  nb::list list;
  for (const std::string& name : ranges.order) {
    const TensorRange& range = ranges.values.at(name);
    list.append(nb::make_tuple(name, range.min, range.max, range.scale, range.method, range.clipped_share));
  }
  return list;
}

}  // namespace

void bind_calibrate(nb::module_& module) {
  nb::class_<Ranges>(module, "Ranges")
      .def("save", [](const Ranges& self, const std::string& path) { save_ranges(path, self); })
      .def_static("load", [](const std::string& path) { return load_ranges(path); })
      .def_ro("model_sha256", &Ranges::model_sha256)
      .def_ro("method", &Ranges::method)
      .def_ro("samples", &Ranges::samples)
      .def_ro("notes", &Ranges::notes)
      .def("values", values_of);
  nb::class_<Calibrator>(module, "Calibrator")
      .def(nb::init<nb::object, nb::dict>())
      .def("observe", &Calibrator::observe)
      .def("finish", &Calibrator::finish);
}

}  // namespace temper::python
