// SPDX-License-Identifier: Apache-2.0
// A program in the style of TensorRT 8: bindings, max workspace, destroy(), a calibrator.
// usage: client_8 MODEL.onnx FOLDER
#include "common.h"

using namespace nvinfer1;

// Two batches of noise, and a cache that is kept.
class Calibrator : public IInt8EntropyCalibrator2 {
 public:
  int batches = 0;
  std::string cache;
  int32_t getBatchSize() const noexcept override { return 16; }  // more than a batch of the network: never read past it
  bool getBatch(void* bindings[], const char* names[], int32_t nbBindings) noexcept override {
    EXPECT(nbBindings == 1 && names[0] == std::string("image"));
    if (batches == 2) return false;
    ++batches;
    const std::vector<float> x = images(4);
    EXPECT(cudaMemcpy(memory_.at, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice) == cudaSuccess);
    bindings[0] = memory_.at;
    return true;
  }
  const void* readCalibrationCache(std::size_t& length) noexcept override {
    length = cache.size();
    return cache.empty() ? nullptr : cache.data();
  }
  void writeCalibrationCache(const void* ptr, std::size_t length) noexcept override {
    cache.assign(static_cast<const char*>(ptr), length);
  }

 private:
  Buffer memory_{256};
};

static ICudaEngine* build(Logger& logger, const std::string& model, bool fp16, Calibrator* calibrator) {
  IBuilder* builder = createInferBuilder(logger);
  const auto flag = 1U << static_cast<uint32_t>(NetworkDefinitionCreationFlag::kEXPLICIT_BATCH);
  INetworkDefinition* network = builder->createNetworkV2(flag);
  nvonnxparser::IParser* parser = nvonnxparser::createParser(*network, logger);
  const std::string onnx = bytes_of(model);
  EXPECT(parser->parse(onnx.data(), onnx.size()));
  EXPECT(parser->getNbErrors() == 0);
  EXPECT(network->getNbInputs() == 1 && network->getNbOutputs() == 1 && network->getNbLayers() > 0);
  EXPECT(network->getInput(0)->getName() == std::string("image") && network->getInput(1) == nullptr);
  EXPECT(network->getInput(0)->getDimensions().nbDims == 4 && network->getInput(0)->getDimensions().d[0] == -1);
  EXPECT(network->getInput(0)->getType() == DataType::kFLOAT && network->getInput(0)->isNetworkInput());

  builder->setMaxBatchSize(1);
  IBuilderConfig* config = builder->createBuilderConfig();
  config->setMaxWorkspaceSize(std::size_t{1} << 28);
  EXPECT(config->getMemoryPoolLimit(MemoryPoolType::kWORKSPACE) == std::size_t{1} << 28);
  if (fp16) config->setFlag(BuilderFlag::kFP16);
  EXPECT(config->getFlag(BuilderFlag::kTF32) && config->getFlag(BuilderFlag::kFP16) == fp16);
  if (calibrator) {
    config->setFlag(BuilderFlag::kINT8);
    config->setInt8Calibrator(calibrator);
  }
  IOptimizationProfile* profile = builder->createOptimizationProfile();
  EXPECT(profile->setDimensions("image", OptProfileSelector::kMIN, Dims4(1, 1, 8, 8)));
  EXPECT(profile->setDimensions("image", OptProfileSelector::kOPT, Dims4(4, 1, 8, 8)));
  EXPECT(!profile->isValid());
  EXPECT(!profile->setDimensions("image", OptProfileSelector::kMAX, Dims4(3, 1, 8, 8)));
  EXPECT(profile->setDimensions("image", OptProfileSelector::kMAX, Dims4(4, 1, 8, 8)));
  EXPECT(profile->isValid() && config->addOptimizationProfile(profile) == 0);
  ICudaEngine* engine = builder->buildEngineWithConfig(*network, *config);
  parser->destroy();
  network->destroy();
  config->destroy();
  builder->destroy();
  return engine;
}

static std::vector<float> run(ICudaEngine& engine, int batch, bool waits) {
  IExecutionContext* context = engine.createExecutionContext();
  const int in = engine.getBindingIndex("image"), out = engine.getBindingIndex("logits");
  EXPECT(engine.bindingIsInput(in) && !engine.bindingIsInput(out) && engine.getNbBindings() == 2);
  EXPECT(engine.getBindingIndex("none") == -1 && engine.getBindingName(out) == std::string("logits"));
  Dims dims = engine.getBindingDimensions(in);
  EXPECT(dims.d[0] == -1 && !context->allInputDimensionsSpecified());
  dims.d[0] = batch;
  EXPECT(context->setBindingDimensions(in, dims) && context->allInputDimensionsSpecified());
  EXPECT(context->getBindingDimensions(out).nbDims == 2 && context->getBindingDimensions(out).d[0] == batch);
  const std::vector<float> x = images(batch);
  std::vector<float> y(static_cast<std::size_t>(batch) * 10);
  Buffer input(x.size()), output(y.size());
  void* bindings[2];
  bindings[in] = input.at;
  bindings[out] = output.at;
  cudaStream_t stream;
  EXPECT(cudaStreamCreate(&stream) == cudaSuccess);
  EXPECT(cudaMemcpyAsync(input.at, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice, stream) == cudaSuccess);
  if (waits) EXPECT(cudaStreamSynchronize(stream) == cudaSuccess && context->executeV2(bindings));
  else EXPECT(context->enqueueV2(bindings, stream, nullptr));
  EXPECT(cudaMemcpyAsync(y.data(), output.at, y.size() * sizeof(float), cudaMemcpyDeviceToHost, stream) == cudaSuccess);
  EXPECT(cudaStreamSynchronize(stream) == cudaSuccess && cudaStreamDestroy(stream) == cudaSuccess);
  context->destroy();
  return y;
}

int main(int, char** argv) {
  int devices = 0;
  EXPECT(cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0 && cudaSetDevice(0) == cudaSuccess);
  Logger logger;
  ICudaEngine* built = build(logger, argv[1], true, nullptr);
  EXPECT(built && built->getMaxBatchSize() == 1 && !built->hasImplicitBatchDimension());
  show("fp16 4", run(*built, 4, false));
  IHostMemory* plan = built->serialize();
  built->destroy();
  std::ofstream(argv[2] + std::string("/client_8.plan"), std::ios::binary)
      .write(static_cast<char*>(plan->data()), static_cast<std::streamsize>(plan->size()));
  plan->destroy();

  // The runtime goes before the engine.
  IRuntime* runtime = createInferRuntime(logger);
  const std::string bytes = bytes_of(argv[2] + std::string("/client_8.plan"));
  ICudaEngine* engine = runtime->deserializeCudaEngine(bytes.data(), bytes.size(), nullptr);
  runtime->destroy();
  EXPECT(engine && engine->getNbOptimizationProfiles() == 1);
  EXPECT(engine->getProfileDimensions(0, 0, OptProfileSelector::kMAX).d[0] == 4);
  show("fp32 1", run(*engine, 1, true));
  engine->destroy();

  Calibrator calibrator;
  ICudaEngine* int8 = build(logger, argv[1], false, &calibrator);
  EXPECT(int8 && calibrator.batches == 2 && calibrator.cache.compare(0, 4, "TRT-") == 0);
  show("int8 4", run(*int8, 4, true));
  int8->destroy();
  int8 = build(logger, argv[1], false, &calibrator);
  EXPECT(int8 && calibrator.batches == 2);  // the cache was enough
  show("int8 4", run(*int8, 4, true));
  int8->destroy();
  return 0;
}
