// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/image_decode.h"

#include <algorithm>

#include "picture/image.h"

namespace temper::ops {

std::vector<TensorType> ImageDecode::infer(const InferContext& context) const {
  context.expect_inputs(1, 1);
  context.expect_rank(0, 1, 1);
  if (context.type(0).dtype != DType::u8)
    fail(ErrorKind::bad_file, "input 0 is ", context.type(0), "; the bytes of a picture's file are u8");
  const Dim channels = format == PixelFormat::grey ? 1 : 3;
  if (const Tensor* file = context.constant(0)) {
    const Image image = picture_size(file->raw());
    return {{DType::u8, {Dim(image.height), Dim(image.width), channels}}};
  }
  return {{DType::u8, {context.unknown(0, 0), context.unknown(0, 1), channels}}};
}

void ImageDecode::decode(std::span<const std::byte> file, const Dims& dims, uint8_t* to) const {
  Image image = decode_image(file);
  if (format == PixelFormat::grey) image = to_grey(image);
  if (dims != Dims{image.height, image.width, image.channels})
    fail(ErrorKind::bad_file, "the picture is ", Dims{image.height, image.width, image.channels}, ", not ", dims);
  if (format != PixelFormat::bgr) {
    std::copy(image.pixels.begin(), image.pixels.end(), to);
    return;
  }
  for (size_t i = 0; i < image.pixels.size(); i += 3)
    for (size_t c = 0; c < 3; ++c) to[i + c] = image.pixels[i + 2 - c];
}

std::vector<Tensor> ImageDecode::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  Tensor pixels(DType::u8, outputs[0].dims());
  decode(inputs[0].raw(), pixels.dims(), pixels.data<uint8_t>());
  return {pixels};
}

OnnxForm ImageDecode::onnx_form() const {
  constexpr std::string_view names[] = {"RGB", "BGR", "Grayscale"};
  return {"ImageDecoder", {{"pixel_format", names[size_t(format)]}}};
}

}  // namespace temper::ops
