// SPDX-License-Identifier: Apache-2.0
// A program in the style of TensorRT 10: named tensors, smart pointers, memory pools, a timing cache, several profiles.
// usage: client_10 MODEL.onnx
#include "common.h"

using namespace nvinfer1;

// One batch, and no cache.
class Calibrator : public IInt8MinMaxCalibrator {
 public:
  int batches = 0;
  int32_t getBatchSize() const noexcept override { return 8; }
  bool getBatch(void* bindings[], const char*[], int32_t) noexcept override {
    const std::vector<float> x = images(8);
    EXPECT(cudaMemcpy(memory_.at, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice) == cudaSuccess);
    bindings[0] = memory_.at;
    return batches++ == 0;
  }
  const void* readCalibrationCache(std::size_t&) noexcept override { return nullptr; }
  void writeCalibrationCache(const void*, std::size_t) noexcept override {}

 private:
  Buffer memory_{512};
};

static void set(IOptimizationProfile& profile, int32_t low, int32_t best, int32_t high) {
  EXPECT(profile.setDimensions("image", OptProfileSelector::kMIN, Dims{4, {low, 1, 8, 8}}));
  EXPECT(profile.setDimensions("image", OptProfileSelector::kOPT, Dims{4, {best, 1, 8, 8}}));
  EXPECT(profile.setDimensions("image", OptProfileSelector::kMAX, Dims4(high, 1, 8, 8)));
}

static std::vector<float> run(IExecutionContext& context, int batch) {
  const ICudaEngine& engine = context.getEngine();
  std::string in, out;
  for (int32_t i = 0; i < engine.getNbIOTensors(); ++i) {
    const char* name = engine.getIOTensorName(i);
    EXPECT(engine.getTensorDataType(name) == DataType::kFLOAT);
    EXPECT(engine.getTensorLocation(name) == TensorLocation::kDEVICE);
    (engine.getTensorIOMode(name) == TensorIOMode::kINPUT ? in : out) = name;
  }
  Dims shape = engine.getTensorShape(in.c_str());
  EXPECT(shape.d[0] == -1);
  shape.d[0] = batch;
  EXPECT(context.setInputShape(in.c_str(), shape));
  EXPECT(context.getTensorShape(out.c_str()).d[0] == batch);
  EXPECT(context.inferShapes(0, nullptr) == 0);
  const std::vector<float> x = images(batch);
  std::vector<float> y(static_cast<std::size_t>(batch) * 10);
  Buffer input(x.size()), output(y.size());
  EXPECT(context.setInputTensorAddress(in.c_str(), input.at) && context.setTensorAddress(out.c_str(), output.at));
  EXPECT(context.getTensorAddress(out.c_str()) == output.at);
  cudaStream_t stream;
  EXPECT(cudaStreamCreate(&stream) == cudaSuccess);
  EXPECT(cudaMemcpyAsync(input.at, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice, stream) == cudaSuccess);
  EXPECT(context.enqueueV3(stream));
  EXPECT(cudaMemcpyAsync(y.data(), output.at, y.size() * sizeof(float), cudaMemcpyDeviceToHost, stream) == cudaSuccess);
  EXPECT(cudaStreamSynchronize(stream) == cudaSuccess && cudaStreamDestroy(stream) == cudaSuccess);
  return y;
}

int main(int, char** argv) {
  Logger logger;
  auto builder = std::unique_ptr<IBuilder>(createInferBuilder(logger));
  auto network = std::unique_ptr<INetworkDefinition>(builder->createNetworkV2(0));
  auto parser = std::unique_ptr<nvonnxparser::IParser>(nvonnxparser::createParser(*network, logger));
  EXPECT(parser->parseFromFile(argv[1], static_cast<int>(ILogger::Severity::kWARNING)));
  auto config = std::unique_ptr<IBuilderConfig>(builder->createBuilderConfig());
  config->setMemoryPoolLimit(MemoryPoolType::kWORKSPACE, std::size_t{1} << 30);
  config->setBuilderOptimizationLevel(3);
  IOptimizationProfile* small = builder->createOptimizationProfile();
  IOptimizationProfile* large = builder->createOptimizationProfile();
  set(*small, 1, 1, 1);
  set(*large, 4, 8, 8);
  EXPECT(config->addOptimizationProfile(small) == 0 && config->addOptimizationProfile(large) == 1);
  auto timings = std::unique_ptr<ITimingCache>(config->createTimingCache(nullptr, 0));
  EXPECT(config->setTimingCache(*timings, false));
  auto plan = std::unique_ptr<IHostMemory>(builder->buildSerializedNetwork(*network, *config));
  EXPECT(plan && plan->size() > 0 && plan->type() == DataType::kINT8);
  auto times = std::unique_ptr<IHostMemory>(config->getTimingCache()->serialize());
  EXPECT(times->size() > 100);
  auto again = std::unique_ptr<ITimingCache>(config->createTimingCache(times->data(), times->size()));
  EXPECT(again->combine(*timings, true));

  auto runtime = std::unique_ptr<IRuntime>(createInferRuntime(logger));
  auto engine = std::shared_ptr<ICudaEngine>(runtime->deserializeCudaEngine(plan->data(), plan->size()));
  EXPECT(engine && engine->getNbOptimizationProfiles() == 2);
  EXPECT(engine->getProfileShape("image", 1, OptProfileSelector::kOPT).d[0] == 8);
  EXPECT(engine->getProfileShape("image", 2, OptProfileSelector::kOPT).nbDims == -1);
  {
    auto context = std::unique_ptr<IExecutionContext>(engine->createExecutionContext());
    auto other = std::unique_ptr<IExecutionContext>(engine->createExecutionContext());
    show("fp32 1", run(*context, 1));
    cudaStream_t stream;
    EXPECT(cudaStreamCreate(&stream) == cudaSuccess && other->setOptimizationProfileAsync(1, stream));
    EXPECT(other->getOptimizationProfile() == 1 && cudaStreamDestroy(stream) == cudaSuccess);
    show("fp32 4", run(*other, 4));
#if NV_TENSORRT_MAJOR < 10
    // Each profile has bindings of its own; those of the active one are taken.
    EXPECT(engine->getNbBindings() == 4 && engine->getBindingName(2) == std::string("image [profile 1]"));
    EXPECT(engine->getBindingIndex("logits [profile 1]") == 3 && engine->getBindingIndex("logits [profile 2]") == -1);
    EXPECT(engine->bindingIsInput(2) && !engine->bindingIsInput(3) && !engine->bindingIsInput(4));
    EXPECT(!engine->getBindingName(4) && !engine->getBindingName(-1));
    EXPECT(engine->getProfileDimensions(2, 1, OptProfileSelector::kMAX).d[0] == 8);
    EXPECT(!other->setBindingDimensions(0, Dims4(4, 1, 8, 8)) && other->setBindingDimensions(2, Dims4(4, 1, 8, 8)));
    EXPECT(other->getBindingDimensions(3).d[0] == 4 && other->getBindingDimensions(4).nbDims == -1);
    const std::vector<float> x = images(4);
    std::vector<float> y(40);
    Buffer input(x.size()), output(y.size());
    EXPECT(cudaMemcpy(input.at, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice) == cudaSuccess);
    void* bindings[] = {nullptr, nullptr, input.at, output.at};
    EXPECT(other->executeV2(bindings));
    EXPECT(cudaMemcpy(y.data(), output.at, y.size() * sizeof(float), cudaMemcpyDeviceToHost) == cudaSuccess);
    show("fp32 4", y);
#endif
    EXPECT(!context->setInputShape("image", Dims4(2, 1, 8, 8)));  // between the profiles
    EXPECT(!context->setInputShape("image", Dims4(4, 1, 8, 8)) && !logger.said("in optimization profile 1"));
    EXPECT(!other->setInputShape("image", Dims4(1, 1, 8, 8)) && logger.said("in optimization profile 1"));
    EXPECT(context->setOptimizationProfileAsync(1, nullptr) && context->inferShapes(0, nullptr) == 1);
    EXPECT(!logger.said("is not set") && context->setInputShape("image", Dims4(4, 1, 8, 8)));
  }

  // INT8 in the shape of a profile of its own.
  Calibrator calibrator;
  auto int8 = std::unique_ptr<IBuilderConfig>(builder->createBuilderConfig());
  int8->setFlag(BuilderFlag::kINT8);
  int8->setInt8Calibrator(&calibrator);
  IOptimizationProfile* eight = builder->createOptimizationProfile();
  set(*eight, 8, 8, 8);
  IOptimizationProfile* two = builder->createOptimizationProfile();
  set(*two, 1, 1, 2);
  EXPECT(int8->addOptimizationProfile(two) == 0 && int8->setCalibrationProfile(eight));
  auto smaller = std::unique_ptr<IHostMemory>(builder->buildSerializedNetwork(*network, *int8));
  EXPECT(smaller && calibrator.batches == 2);
  engine.reset(runtime->deserializeCudaEngine(smaller->data(), smaller->size()));
  auto context = std::unique_ptr<IExecutionContext>(engine->createExecutionContext());
  show("int8 1", run(*context, 1));
  return 0;
}
