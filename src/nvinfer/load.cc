// SPDX-License-Identifier: Apache-2.0
#include "nvinfer/load.h"

#include <string_view>

#include "nvinfer/refit.h"
#include "runtime/keep_current_gpu.h"

namespace temper::nvinfer {

namespace {

// An engine file of TensorRT, by its first bytes.
bool is_of_tensorrt(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text.starts_with("ftrt") || text.starts_with("ptrt");
}

}  // namespace

std::shared_ptr<const Engine> load(std::span<const std::byte> plan, const DeviceSettings& settings,
                                   const Logger& logger) {
  return or_else(logger, std::shared_ptr<const Engine>(), [&] {
    if (is_of_tensorrt(plan))
      fail(ErrorKind::unsupported,
           "this is an engine of TensorRT, which runs in TensorRT alone: build it again from its ONNX model");
    const KeepCurrentGpu kept;
    DeviceSettings its = settings;
    if (!its.cuda_context) its.cuda_context = kept.own_context();
    const auto parts = parts_of(plan);
    return Engine::from_bytes(parts ? parts->plan : plan, its);
  });
}

std::vector<Profile> profiles_of(const Engine& engine) {
  const EngineInfo& info = engine.info();
  return info.profiles.empty() ? std::vector<Profile>{info.shapes} : info.profiles;
}

}  // namespace temper::nvinfer
