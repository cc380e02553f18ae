// SPDX-License-Identifier: Apache-2.0
// image_decode(x u8 [n]) -> u8 [height, width, channels]: the pixels of the picture whose file x holds (picture/image.h
// says which kinds are read). Only the file says how large it is.
#pragma once
#include <limits>

#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

enum class PixelFormat { rgb, bgr, grey };
constexpr std::array<std::string_view, 3> enum_names(PixelFormat) { return {"rgb", "bgr", "grey"}; }

struct ImageDecode {
  static constexpr std::string_view name = "image_decode";
  static constexpr OpKind op_kind = OpKind::other;
  PixelFormat format = PixelFormat::rgb;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("format", op.format);
  }
  bool operator==(const ImageDecode&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  // A small file may unpack to gigabytes: that is for a run, and not for who only reads the model.
  double reference_cost(std::span<const TensorType>, std::span<const TensorType>) const {
    return std::numeric_limits<double>::infinity();
  }
  OnnxForm onnx_form() const;

  // The pixels of a file, to memory for a picture of `dims`. Throws Error{bad_file} where it is one of other dims.
  void decode(std::span<const std::byte> file, const Dims& dims, uint8_t* to) const;
};

}  // namespace temper::ops
