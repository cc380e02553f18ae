// SPDX-License-Identifier: Apache-2.0
// image_decode on CPUs, by the libraries that read pictures. Where the file is an input it runs between plans
// (eager.h).
#include "graph/ops/image_decode.h"

#include "backends/cpu/cpu.h"

namespace temper {

namespace {

class ImageDecodeKernel final : public Kernel {
 public:
  explicit ImageDecodeKernel(const Problem& problem)
      : op_(problem.op.get<ops::ImageDecode>()),
        bytes_(size_t(problem.inputs[0].dims()[0])),
        dims_(problem.outputs[0].type.dims()) {}
  void launch(const Buffers& buffers) override {
    op_.decode({static_cast<const std::byte*>(buffers.inputs[0]), bytes_}, dims_,
               static_cast<uint8_t*>(buffers.outputs[0]));
  }

 private:
  const ops::ImageDecode op_;
  const size_t bytes_;
  const Dims dims_;
};

Support supports(const Problem& problem, const Device&) {
  return problem.op.is<ops::ImageDecode>() ? supported() : refused("not an image_decode");
}
std::vector<Config> configs(const Problem&, const Device&) { return {{"", {Layout::plain}, {Layout::plain}}}; }
std::unique_ptr<Kernel> load(const Problem& problem, const Config&, const PackedView&, const Device&) {
  return std::make_unique<ImageDecodeKernel>(problem);
}

}  // namespace

extern const Tactic cpu_image_decode;
const Tactic cpu_image_decode{"cpu.image_decode", 1, supports, configs, nullptr, load};

}  // namespace temper
