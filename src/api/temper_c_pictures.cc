// SPDX-License-Identifier: Apache-2.0
// The part of the public C API that reads pictures, as the program does; it is in temper_build, with the decoders.
#include <cstring>

#include "api/handle.h"
#include "data/dataset.h"

namespace temper::c_api {
namespace {

std::vector<double> three(const double* values) {
  return values ? std::vector<double>(values, values + 3) : std::vector<double>();
}

Preprocess preprocess_of(const temper_engine* engine, size_t input, const temper_preprocessing* from) {
  expect(engine, "the engine");
  const std::vector<PortInfo>& inputs = engine->engine->inputs();
  if (input >= inputs.size()) fail(ErrorKind::usage, "there is no input ", input, "; the engine has ", inputs.size());
  PreprocessOptions options;
  if (from) {
    if (from->crop_height < 0 || from->crop_width < 0)
      fail(ErrorKind::usage, "a crop of ", from->crop_height, 'x', from->crop_width, " pixels");
    // Here zero is the default.
    options.resize = from->resize == 0 ? -1 : from->resize == TEMPER_STRETCH ? 0 : from->resize;
    if (options.resize < -1) fail(ErrorKind::usage, "resize is ", from->resize, "; pixels, 0 or TEMPER_STRETCH");
    options.crop_height = from->crop_height;
    options.crop_width = from->crop_width;
    options.mean = three(from->mean);
    options.std = three(from->std);
    if (from->scale != 0) options.scale = from->scale;
    if (from->bgr) options.channels = ChannelOrder::bgr;
    if (from->bicubic) options.filter = ResizeFilter::bicubic;
  }
  InputSpec spec{inputs[input].name, inputs[input].type, false, "", "the plan"};
  const auto& remembered = engine->engine->info().preprocess;
  if (const auto its = remembered.find(spec.name); its != remembered.end()) spec.preprocess = its->second;
  return complete_remembered(options, spec);
}

// `decoded`: makes the picture, once there is known to be room for it. `name` is what errors call it.
template <class Decode>
temper_status prepare(const temper_engine* engine, size_t input, const temper_preprocessing* preprocessing,
                      std::string_view name, Decode&& decoded, void* data, size_t bytes) {
  return guarded([&] {
    expect(data, "the place for the picture");
    const Preprocess preprocess = preprocess_of(engine, input, preprocessing);
    const int64_t needed = byte_count(preprocess.dtype, preprocess.sample_dims());
    if (int64_t(bytes) != needed)
      fail(ErrorKind::usage, "a picture of ", preprocess.sample_dims(), " has ", needed, " bytes; there is room for ",
           bytes);
    const Image image = decoded();
    with_context([&] { return std::string(name); },
                 [&] { preprocess_image(image, preprocess, static_cast<std::byte*>(data)); });
  });
}

}  // namespace
}  // namespace temper::c_api

using temper::c_api::expect;
using temper::c_api::guarded;

extern "C" temper_status temper_picture_dims(const temper_engine* engine, size_t input,
                                             const temper_preprocessing* preprocessing, int64_t dims[3]) {
  return guarded([&] {
    expect(dims, "the place for the dimensions");
    const temper::Dims sample = temper::c_api::preprocess_of(engine, input, preprocessing).sample_dims();
    std::copy(sample.begin(), sample.end(), dims);
  });
}

extern "C" temper_status temper_picture_read(const temper_engine* engine, size_t input,
                                             const temper_preprocessing* preprocessing, const char* path, void* data,
                                             size_t bytes) {
  const std::string_view name = path ? path : "";
  return temper::c_api::prepare(
      engine, input, preprocessing, name,
      [&] {
        expect(path, "the path of the picture");
        return temper::read_image(path);
      },
      data, bytes);
}

extern "C" temper_status temper_picture_decode(const temper_engine* engine, size_t input,
                                               const temper_preprocessing* preprocessing, const void* picture,
                                               size_t picture_bytes, void* data, size_t bytes) {
  return temper::c_api::prepare(
      engine, input, preprocessing, "the picture",
      [&] {
        expect(picture, "the picture");
        return temper::decode_image({static_cast<const std::byte*>(picture), picture_bytes});
      },
      data, bytes);
}
