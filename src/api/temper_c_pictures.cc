// SPDX-License-Identifier: Apache-2.0
// The part of the public C API for pictures, files or pixels, and for the classes that a run answers, as the program
// has them; it is in temper_build, with the decoders.
#include <algorithm>
#include <cstring>

#include "api/handle.h"
#include "data/dataset.h"
#include "data/place.h"
#include "data/topk.h"

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

void check_size(int64_t height, int64_t width) {
  if (height < 1 || width < 1) fail(ErrorKind::usage, "a picture of ", height, "x", width, " pixels");
}

// A copy with the channels that the picture has, red first.
Image image_of(const temper_pixels& pixels) {
  expect(pixels.data, "the data of the pixels");
  if (pixels.channels != 1 && pixels.channels != 3)
    fail(ErrorKind::usage, "pixels have ", pixels.channels, " channels; 1 or 3 are taken");
  check_size(pixels.height, pixels.width);
  Image image = make_image(pixels.width, pixels.height, 3);
  const int64_t row = pixels.width * pixels.channels, step = pixels.row_bytes ? pixels.row_bytes : row;
  if (step < row) fail(ErrorKind::usage, "a row of ", row, " bytes is said to have ", step);
  for (int64_t y = 0; y < pixels.height; ++y) {
    const uint8_t* in = static_cast<const uint8_t*>(pixels.data) + y * step;
    uint8_t* out = image.at(0, y);
    if (pixels.channels == 1) {
      for (int64_t x = 0; x < pixels.width; ++x, out += 3) out[0] = out[1] = out[2] = in[x];
    } else if (pixels.bgr) {
      for (int64_t x = 0; x < pixels.width; ++x, out += 3, in += 3) out[0] = in[2], out[1] = in[1], out[2] = in[0];
    } else std::memcpy(out, in, size_t(row));
  }
  return image;
}

}  // namespace
}  // namespace temper::c_api

using temper::ErrorKind;
using temper::fail;
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

extern "C" temper_status temper_picture_prepare(const temper_engine* engine, size_t input,
                                                const temper_preprocessing* preprocessing, const temper_pixels* pixels,
                                                void* data, size_t bytes) {
  return temper::c_api::prepare(
      engine, input, preprocessing, "the picture",
      [&] {
        expect(pixels, "the pixels");
        return temper::c_api::image_of(*pixels);
      },
      data, bytes);
}

extern "C" temper_status temper_picture_placement(const temper_engine* engine, size_t input,
                                                  const temper_preprocessing* preprocessing, int64_t height,
                                                  int64_t width, temper_placement* placement) {
  return guarded([&] {
    expect(placement, "the place for the placement");
    const temper::Preprocess preprocess = temper::c_api::preprocess_of(engine, input, preprocessing);
    temper::c_api::check_size(height, width);
    const temper::Placed placed = temper::place_picture(width, height, preprocess);
    const double scale_x = double(width) / double(placed.width), scale_y = double(height) / double(placed.height);
    *placement = {scale_x, scale_y, double(-placed.left) * scale_x, double(-placed.top) * scale_y};
  });
}

extern "C" temper_status temper_top_classes(const temper_tensor* output, size_t sample, size_t count,
                                            temper_class* classes, size_t* found) {
  return guarded([&] {
    expect(output, "the output");
    expect(found, "the place for the number of classes");
    if (count) expect(classes, "the place for the classes");
    if (output->rank) expect(output->dims, "dims of the output");
    if (output->rank > size_t(temper::kMaxRank) || temper_dtype_size(output->dtype) == 0)
      fail(ErrorKind::usage, "the output has ", output->rank, " dimensions and the dtype ", int(output->dtype));
    temper::Dims dims(output->dims, output->dims + output->rank);
    if (dims.empty() || sample >= size_t(std::max<int64_t>(dims[0], 0)))
      fail(ErrorKind::usage, "the output ", dims, " has no sample ", sample);
    dims[0] = 1;
    const temper::DType dtype{temper::DType(output->dtype)};
    const int64_t bytes = temper::byte_count(dtype, dims);
    if (bytes) expect(output->data, "the data of the output");
    const auto* const from = static_cast<const std::byte*>(output->data) + int64_t(sample) * bytes;
    const temper::Tensor row = temper::class_rows(temper::Tensor::view(dtype, dims, from), "output");
    const size_t all = size_t(row.dims()[1]);
    const auto best = temper::top_k({row.data<float>(), all}, int64_t(std::min(count, all)));
    for (size_t i = 0; i < best.size(); ++i) classes[i] = {best[i].index, best[i].value, best[i].probability};
    *found = best.size();
  });
}
