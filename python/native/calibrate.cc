// SPDX-License-Identifier: Apache-2.0
// Calibration fed batch by batch; Python holds the loop, so that what its iterator raises never passes through here.
#include "bind.h"
#include "calibrate/stream.h"
#include "engine.h"
#include "guard.h"
#include "quantize/ranges.h"

namespace nb = nanobind;

namespace temper::python {

namespace {

class Calibrator {
 public:
  Calibrator(nb::object model, nb::dict options, const std::string& method, uint64_t seed) {
    const BuildOptions build = options_of(options);
    const ModelSource source = source_of(model);
    const WithoutGil released;
    stream_ = std::make_unique<StreamCalibration>(source.import(build.memory_limit), build, method, seed);
  }

  // A batch, as Session.run takes its inputs. Returns how many samples it had.
  int64_t observe(nb::object inputs) {
    const std::vector<Array> arrays = arrays_of(inputs, stream_->inputs());
    const WithoutGil released;
    std::vector<Tensor> tensors;
    for (const Array& array : arrays) tensors.push_back(array.tensor());
    return stream_->observe(tensors);
  }
  bool try_methods() {
    const WithoutGil released;
    return stream_->try_methods();
  }
  // `preprocess`: by input, how its pictures were prepared.
  Ranges finish(nb::dict preprocess) {
    std::map<std::string, std::string> said;
    for (auto [input, words] : preprocess) said[nb::cast<std::string>(input)] = nb::cast<std::string>(words);
    const WithoutGil released;
    Ranges ranges = stream_->finish();
    ranges.preprocess = std::move(said);
    return ranges;
  }
  nb::list trials() const {
    nb::list list;
    for (const MethodTrial& t : stream_->trials())
      list.append(nb::make_tuple(t.method, t.agreement ? std::optional(t.agreement->rate()) : std::nullopt, t.cosine,
                                 t.snr_db, t.chosen));
    return list;
  }

 private:
  std::unique_ptr<StreamCalibration> stream_;
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
      .def(
          "save", [](const Ranges& self, const std::string& path, bool force) { save_ranges(path, self, force); },
          nb::arg("path"), nb::arg("force") = false)
      .def_static("load", [](const std::string& path) { return load_ranges(path); })
      .def_ro("model_sha256", &Ranges::model_sha256)
      .def_ro("method", &Ranges::method)
      .def_ro("samples", &Ranges::samples)
      .def_ro("notes", &Ranges::notes)
      .def_prop_ro("preprocess",
                   [](const Ranges& self) {
                     nb::dict said;
                     for (const auto& [input, words] : self.preprocess) said[input.c_str()] = words;
                     return said;
                   })
      .def("values", values_of);
  nb::class_<Calibrator>(module, "Calibrator")
      .def(nb::init<nb::object, nb::dict, const std::string&, uint64_t>())
      .def("observe", &Calibrator::observe)
      .def("try_methods", &Calibrator::try_methods)
      .def("finish", &Calibrator::finish)
      .def("trials", &Calibrator::trials);
}

}  // namespace temper::python
