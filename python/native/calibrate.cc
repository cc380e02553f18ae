// SPDX-License-Identifier: Apache-2.0
// Calibration fed batch by batch; Python holds the loop, so that what its iterator raises never passes through here.
#include "bind.h"
#include "calibrate/dataset.h"
#include "calibrate/stream.h"
#include "data.h"
#include "data/carried.h"
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
    stream_ = std::make_unique<StreamCalibration>(source.import(build.limits), build, method, seed);
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

// One share of the samples, whose batches are those of `temper calibrate`. A share without a batch gives ranges of no
// samples.
Ranges calibrate_share(nb::object model, nb::dict options, nb::dict data, nb::dict how, nb::object progress) {
  const PyData given = data_of(data);
  const BuildOptions build = options_of(options);
  const ModelSource source = source_of(model);
  DatasetCalibration settings;
  read(how, "method", settings.method);
  read(how, "batch", settings.batch);
  read(how, "number", settings.share.number);
  read(how, "of", settings.share.of);
  settings.seed = given.request.seed;
  settings.progress = progress_of(std::move(progress));
  const WithoutGil released;
  const ImportedModel imported = source.import(build.limits);
  const Dataset samples = given.request.open(input_specs(imported, source.path));
  std::vector<int64_t> chosen = samples_of(samples, given.request);
  leave_out(samples, given.request, chosen, settings.progress);
  return calibrate_on(imported, samples, chosen, settings, build);
}

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
      .def("to_bytes",
           [](const Ranges& self) {
             std::string text;
             {
               const WithoutGil released;
               text = to_json(self);
             }
             return bytes_of(text);
           })
      .def_static("of_bytes",
                  [](const nb::bytes& text) { return ranges_from_json(std::string_view(text.c_str(), text.size())); })
      .def_static("of_shares", [](const std::vector<Ranges>& parts) { return merge(parts, true); })
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
  module.def("calibrate_share", calibrate_share, nb::arg("model"), nb::arg("options"), nb::arg("data"), nb::arg("how"),
             nb::arg("progress").none());
  nb::class_<Calibrator>(module, "Calibrator")
      .def(nb::init<nb::object, nb::dict, const std::string&, uint64_t>())
      .def("observe", &Calibrator::observe)
      .def("try_methods", &Calibrator::try_methods)
      .def("finish", &Calibrator::finish)
      .def("trials", &Calibrator::trials);
}

}  // namespace temper::python
