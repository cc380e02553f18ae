// SPDX-License-Identifier: Apache-2.0
// A program that uses the API wrongly: every call fails as TensorRT's does, says why, and nothing crashes.
// usage: wrong_use MODEL.onnx STALE.plan
#include "common.h"

using namespace nvinfer1;

// It has nothing to give; or what is no device memory.
class Calibrator : public IInt8EntropyCalibrator2 {
 public:
  explicit Calibrator(void* memory) : memory_(memory) {}
  int32_t getBatchSize() const noexcept override { return 1; }
  bool getBatch(void* bindings[], const char*[], int32_t) noexcept override {
    bindings[0] = memory_;
    return memory_ != nullptr;
  }
  const void* readCalibrationCache(std::size_t& length) noexcept override {
    length = 0;
    return nullptr;
  }
  void writeCalibrationCache(const void*, std::size_t) noexcept override {}

 private:
  void* memory_;
};

int main(int, char** argv) {
  Logger logger;
  auto builder = std::unique_ptr<IBuilder>(createInferBuilder(logger));
  auto network = std::unique_ptr<INetworkDefinition>(builder->createNetworkV2(0));
  auto parser = std::unique_ptr<nvonnxparser::IParser>(nvonnxparser::createParser(*network, logger));
  auto config = std::unique_ptr<IBuilderConfig>(builder->createBuilderConfig());

  // Models.
  EXPECT(!parser->parse("no model", 8) && parser->getNbErrors() == 1);
  EXPECT(std::string(parser->getError(0)->desc()).size() > 10 && parser->getError(1) == nullptr);
  EXPECT(parser->getError(0)->code() != nvonnxparser::ErrorCode::kSUCCESS);
  parser->clearErrors();
  EXPECT(!parser->parseFromFile("no_such.onnx", 1) && parser->getNbErrors() == 1);
  EXPECT(builder->buildSerializedNetwork(*network, *config) == nullptr && logger.said("at least one output"));
  parser->clearErrors();
#if NV_TENSORRT_MAJOR >= 10
  EXPECT(!parser->supportsModelV2("no model", 8) && parser->getNbSubgraphs() == 0 && parser->getNbErrors() == 1);
#else
  SubGraphCollection_t parts;
  EXPECT(!parser->supportsModel("no model", 8, parts) && parts.empty() && parser->getNbErrors() == 1);
#endif
  parser->clearErrors();
  EXPECT(parser->parseFromFile(argv[1], 1));

  // Builds.
  EXPECT(builder->buildSerializedNetwork(*network, *config) == nullptr && logger.said("no optimization profile"));
  IOptimizationProfile* profile = builder->createOptimizationProfile();
  EXPECT(!profile->setDimensions("image", OptProfileSelector::kMIN, Dims4(-1, 1, 8, 8)));
  EXPECT(profile->setDimensions("image", OptProfileSelector::kMIN, Dims4(1, 1, 8, 8)));
  EXPECT(config->addOptimizationProfile(profile) == -1);
  EXPECT(profile->setDimensions("image", OptProfileSelector::kOPT, Dims4(2, 1, 8, 8)));
  EXPECT(profile->setDimensions("image", OptProfileSelector::kMAX, Dims4(2, 1, 8, 8)));
  EXPECT(config->addOptimizationProfile(profile) == 0);
  for (BuilderFlag refused : {BuilderFlag::kSAFETY_SCOPE, BuilderFlag::kVERSION_COMPATIBLE}) {
    logger.forget();
    config->setFlag(refused);
    EXPECT(builder->buildSerializedNetwork(*network, *config) == nullptr && logger.said("not in Temper"));
    config->clearFlag(refused);
  }
  config->setDefaultDeviceType(DeviceType::kDLA);
  EXPECT(builder->buildSerializedNetwork(*network, *config) == nullptr && logger.said("DLA: not in Temper"));
  config->setDefaultDeviceType(DeviceType::kGPU);
  config->setFlag(BuilderFlag::kINT8);
  EXPECT(std::unique_ptr<IHostMemory>(builder->buildSerializedNetwork(*network, *config)) &&
         logger.said("Calibrator is not being used"));
  Calibrator empty(nullptr), astray(reinterpret_cast<void*>(64));
  config->setInt8Calibrator(&empty);
  EXPECT(builder->buildSerializedNetwork(*network, *config) == nullptr && logger.said("calibrated from nothing"));
  config->setInt8Calibrator(&astray);
  EXPECT(builder->buildSerializedNetwork(*network, *config) == nullptr && logger.said("no device memory"));
  config->clearFlag(BuilderFlag::kINT8);
  logger.forget();
  auto plan = std::unique_ptr<IHostMemory>(builder->buildSerializedNetwork(*network, *config));
  EXPECT(plan && !logger.said("not in Temper"));

  // Engine files.
  auto runtime = std::unique_ptr<IRuntime>(createInferRuntime(logger));
  const std::string good(static_cast<const char*>(plan->data()), plan->size());
  EXPECT(runtime->deserializeCudaEngine(nullptr, 0) == nullptr);
  EXPECT(runtime->deserializeCudaEngine(good.data(), good.size() / 2) == nullptr);
  std::string damaged = good;
  damaged[damaged.size() / 2] ^= 1;
  EXPECT(runtime->deserializeCudaEngine(damaged.data(), damaged.size()) == nullptr);
  const std::string theirs = "ftrt" + std::string(100, '\0');
  logger.forget();
  EXPECT(runtime->deserializeCudaEngine(theirs.data(), theirs.size()) == nullptr &&
         logger.said("build it again from its ONNX"));

  const std::string stale = bytes_of(argv[2]);  // of another machine
  logger.forget();
  EXPECT(stale.size() > 1000 && runtime->deserializeCudaEngine(stale.data(), stale.size()) == nullptr &&
         logger.said("build it again"));

  // Shapes and addresses.
  auto engine = std::unique_ptr<ICudaEngine>(runtime->deserializeCudaEngine(good.data(), good.size()));
  auto context = std::unique_ptr<IExecutionContext>(engine->createExecutionContext());
  EXPECT(engine->getTensorIOMode("none") == TensorIOMode::kNONE && logger.said("no tensor with the name 'none'"));
  EXPECT(engine->getTensorShape("none").nbDims == -1 && engine->getIOTensorName(7) == nullptr);
  EXPECT(!context->enqueueV3(nullptr) && logger.said("shape of the input 'image' is not set"));
  const char* missing = nullptr;
  EXPECT(context->inferShapes(1, &missing) == 1 && missing == std::string("image"));
  EXPECT(!context->setInputShape("image", Dims4(3, 1, 8, 8)) && !context->setInputShape("none", Dims4(1, 1, 8, 8)));
  EXPECT(!context->setInputShape("image", Dims{9, {}}) && !context->setInputShape("logits", Dims2(1, 10)));
  EXPECT(context->setInputShape("image", Dims4(2, 1, 8, 8)));
  logger.forget();
  EXPECT(!context->enqueueV3(nullptr) && logger.said("address of 'image' is not set"));
  Buffer input(128), output(20);
  void* without[] = {input.at, nullptr};
  EXPECT(!context->executeV2(without) && logger.said("address of 'logits' is null"));
  void* bindings[] = {input.at, output.at};
  EXPECT(context->executeV2(bindings));
  std::vector<float> mine(128);
  void* of_the_host[] = {mine.data(), output.at};
  EXPECT(!context->executeV2(of_the_host) && logger.said("no device memory"));
  void* astray_bindings[] = {input.at, reinterpret_cast<void*>(64)};
  EXPECT(!context->executeV2(astray_bindings));

  // The CUDA runtime.
  EXPECT(cudaMemcpy(mine.data(), input.at, 512, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  EXPECT(cudaGetLastError() == cudaErrorInvalidValue && cudaGetLastError() == cudaSuccess);
  EXPECT(cudaMemcpy(input.at, mine.data(), 1 << 20, cudaMemcpyHostToDevice) != cudaSuccess);
  EXPECT(cudaFree(mine.data()) != cudaSuccess && cudaSetDevice(1) == cudaErrorInvalidDevice);
  for (cudaMemcpyKind kind : {cudaMemcpyHostToDevice, cudaMemcpyDefault}) {
    EXPECT(cudaMemcpy(input.at, mine.data(), 512, kind) == cudaSuccess);
    EXPECT(cudaMemcpy(input.at, mine.data(), 516, kind) == cudaErrorInvalidValue);  // one more than it has
    EXPECT(cudaMemcpy(reinterpret_cast<void*>(64), mine.data(), 64, kind) == cudaErrorInvalidValue);
    EXPECT(cudaMemcpy(nullptr, mine.data(), 64, kind) == cudaErrorInvalidValue);
    EXPECT(cudaMemcpyAsync(input.at, reinterpret_cast<void*>(64), 64, kind, nullptr) == cudaErrorInvalidValue);
    for (std::size_t size : {std::size_t{512}, std::size_t{1} << 24}) {
      void* gone = nullptr;
      EXPECT(cudaMalloc(&gone, size) == cudaSuccess && cudaFree(gone) == cudaSuccess);
      EXPECT(cudaMemcpy(gone, mine.data(), 512, kind) == cudaErrorInvalidValue);
      EXPECT(cudaMemcpy(mine.data(), gone, 512, kind == cudaMemcpyDefault ? kind : cudaMemcpyDeviceToHost) ==
             cudaErrorInvalidValue);
      EXPECT(cudaMemcpy(mine.data(), gone, 512, cudaMemcpyHostToHost) == cudaErrorInvalidValue);
      EXPECT(cudaMemsetAsync(gone, 0, 512, nullptr) == cudaErrorInvalidValue);
      EXPECT(cudaFree(gone) == cudaErrorInvalidValue);
      void* freed[] = {gone, output.at};
      EXPECT(!context->executeV2(freed) && logger.said("no device memory"));
    }
  }
  EXPECT(cudaMemset(input.at, 0, 513) == cudaErrorInvalidValue && cudaMemset(input.at, 0, 512) == cudaSuccess);
  EXPECT(cudaMemset(mine.data(), 0, 4) == cudaErrorInvalidValue);
  EXPECT(cudaMemcpy(input.at, mine.data(), 4, static_cast<cudaMemcpyKind>(7)) == cudaErrorInvalidMemcpyDirection);
  EXPECT(cudaMemcpy(reinterpret_cast<void*>(64), mine.data(), 0, cudaMemcpyHostToDevice) == cudaSuccess);
  EXPECT(cudaFree(reinterpret_cast<void*>(64)) == cudaErrorInvalidValue);
  EXPECT(cudaFree(static_cast<char*>(input.at) + 64) == cudaErrorInvalidValue);
  cudaStream_t stream = nullptr;
  EXPECT(cudaStreamCreate(&stream) == cudaSuccess && cudaStreamDestroy(stream) == cudaSuccess);
  EXPECT(cudaStreamDestroy(stream) == cudaErrorInvalidResourceHandle);
  EXPECT(cudaGetDeviceCount(nullptr) == cudaErrorInvalidValue && cudaGetDevice(nullptr) == cudaErrorInvalidValue);
  EXPECT(cudaGetDeviceProperties(nullptr, 0) == cudaErrorInvalidValue);
  void* pinned = nullptr;
  EXPECT(cudaMallocHost(&pinned, 100) == cudaSuccess && cudaFree(pinned) != cudaSuccess);
  static_cast<char*>(pinned)[127] = 0;  // the test looks for the warning of 28 bytes
  EXPECT(cudaFreeHost(pinned) == cudaSuccess && cudaFreeHost(pinned) != cudaSuccess);

  // In any order.
  plan.reset();
  engine.reset();
  runtime.reset();
  EXPECT(context->executeV2(bindings));
  std::printf("every wrong use failed\n");
  return 0;
}
