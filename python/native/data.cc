// SPDX-License-Identifier: Apache-2.0
#include "data.h"

#include "bind.h"
#include "data/carried.h"
#include "data/labels.h"
#include "engine.h"
#include "guard.h"
#include "plan/file.h"

namespace nb = nanobind;

namespace temper::python {

PyData data_of(const nb::dict& given) {
  PyData data;
  DataRequest& request = data.request;
  read(given, "path", request.path);
  if (given.contains("arrays"))
    for (auto [name, array] : nb::cast<nb::dict>(given["arrays"])) {
      const std::string key = nb::cast<std::string>(name);
      data.arrays.push_back(array_of(array, {"data", key}));
      request.arrays[key] = data.arrays.back().tensor();
    }
  read(given, "samples", request.samples);
  read(given, "seed", request.seed);
  read(given, "strict", request.strict);
  if (given.contains("unreadable")) {  // (sample, name, kind of the error, its words) each
    request.unreadable.emplace();
    for (nb::handle one : nb::cast<nb::list>(given["unreadable"]))
      request.unreadable->push_back({nb::cast<int64_t>(one[0]),
                                     nb::cast<std::string>(one[1]),
                                     {ErrorKind(nb::cast<int>(one[2])), nb::cast<std::string>(one[3])}});
  }
  read(given, "memory_limit", request.options.memory_limit);
  read(given, "label_column", request.options.label_column);
  PreprocessOptions& pictures = request.options.preprocess;
  read(given, "resize", pictures.resize);
  read(given, "crop_height", pictures.crop_height);
  read(given, "crop_width", pictures.crop_width);
  read(given, "mean", pictures.mean);
  read(given, "std", pictures.std);
  if (given.contains("scale") && !given["scale"].is_none()) pictures.scale = nb::cast<double>(given["scale"]);
  std::string preprocess, fit;
  read(given, "fit", fit);
  if (!fit.empty())
    pictures.fit = fit == "crop" ? PictureFit::crop : fit == "stretch" ? PictureFit::stretch : PictureFit::letterbox;
  read(given, "pad", pictures.pad);
  bool bgr = false;
  read(given, "bgr", bgr);
  if (bgr) pictures.channels = ChannelOrder::bgr;
  std::string layout, filter, class_names;
  read(given, "layout", layout);
  if (!layout.empty()) pictures.layout = layout == "nchw" ? PixelLayout::nchw : PixelLayout::nhwc;
  read(given, "filter", filter);
  if (!filter.empty()) pictures.filter = filter == "bicubic" ? ResizeFilter::bicubic : ResizeFilter::bilinear;
  read(given, "preprocess", preprocess);
  if (!preprocess.empty()) pictures = over(named_preprocess(preprocess), pictures);
  read(given, "class_names", class_names);
  if (!class_names.empty()) request.options.class_names = read_class_names(class_names);
  return data;
}

DataModel data_model_of(nb::handle given, const BuildOptions& build) {
  if (nb::isinstance<PyEngine>(given)) return DataModel(nb::cast<const PyEngine&>(given).get());
  const ModelSource source = source_of(given);
  const WithoutGil released;
  if (source.bytes.empty() && !source.graph && is_plan(source.path))
    return DataModel(Engine::load(source.path, {.settings = build.device_settings}), source.path);
  return DataModel(source, build);
}

}  // namespace temper::python
