// SPDX-License-Identifier: Apache-2.0
#include "clients/dependence.h"

#include <cstring>
#include <random>

namespace temper::clients {

namespace {

// Some bits that are numbers of the type, none of them zero everywhere; indices are 0 or 1.
void fill(temper::Tensor& tensor, size_t from, std::mt19937& random) {
  auto* const bytes = static_cast<unsigned char*>(tensor.raw());
  const size_t size = temper_dtype_size(tensor.dtype());
  for (size_t i = from; i < tensor.count(); ++i) {
    const uint32_t r = random();
    const auto put = [&](auto value) { std::memcpy(bytes + i * size, &value, sizeof value); };
    switch (tensor.dtype()) {
      case TEMPER_F32: put(float(r >> 8) / float(1 << 24)); break;
      case TEMPER_F64: put(double(r) / 4294967296.0); break;
      case TEMPER_F16: put(uint16_t(0x3800 | (r & 0x3ff))); break;
      case TEMPER_BF16: put(uint16_t(0x3f00 | (r & 0x7f))); break;
      case TEMPER_U8: put(uint8_t(r)); break;
      default: {
        const int64_t one = r & 1;  // little-endian
        std::memcpy(bytes + i * size, &one, size);
      }
    }
  }
}

}  // namespace

std::string dependence_of(const temper::Engine& engine, const std::vector<std::vector<int64_t>>& dims) {
  try {
    temper::Session session(engine);
    std::vector<temper::Tensor> inputs;
    const auto ports = engine.inputs();
    for (size_t i = 0; i < ports.size(); ++i) inputs.emplace_back(ports[i].dtype, dims[i]);
    std::vector<std::vector<temper::Tensor>> answers;
    for (const uint32_t other : {1u, 2u}) {
      std::mt19937 first(0), rest(other);
      for (temper::Tensor& input : inputs) {
        const size_t row = input.count() / size_t(input.dims()[0]);
        fill(input, 0, first);
        fill(input, row, rest);
      }
      answers.push_back(session.run(inputs));
    }
    const auto outputs = engine.outputs();
    for (size_t o = 0; o < outputs.size(); ++o) {
      const size_t row = answers[0][o].bytes() / size_t(dims[0][0]);
      if (std::memcmp(answers[0][o].raw(), answers[1][o].raw(), row) != 0)
        return "what '" + outputs[o].name + "' is of one request depends on the others of the batch";
    }
    return "";
  } catch (const temper::Error& error) { return std::string("a batch of two failed: ") + error.what(); }
}

}  // namespace temper::clients
