// SPDX-License-Identifier: Apache-2.0
// A program whose own classes are called: output allocators, a profiler, a progress monitor; and the inspector.
// usage: callbacks MODEL.onnx NONZERO.onnx     the latter's input x is [6] and its output where [1, n]
#include "common.h"

using namespace nvinfer1;

class Allocator : public IOutputAllocator {
 public:
  explicit Allocator(bool gives = true) : gives_(gives) {}
  Allocator(const Allocator&) = delete;
  ~Allocator() override { EXPECT(cudaFree(memory) == cudaSuccess); }
  void* memory = nullptr;
  Dims dims{};
  int calls = 0;
  void* reallocateOutput(const char*, void* currentMemory, uint64_t size, uint64_t) noexcept override {
    ++calls;
    EXPECT(currentMemory == memory || currentMemory == nullptr);
    if (!gives_) return nullptr;
    EXPECT(cudaFree(memory) == cudaSuccess && cudaMalloc(&memory, size) == cudaSuccess);
    return memory;
  }
  void notifyShape(const char*, const Dims& told) noexcept override { dims = told; }

 private:
  bool gives_;
};

#if NV_TENSORRT_MAJOR >= 10
// It is asked in the order of the stream.
class Async : public Allocator {
 public:
  int in_order = 0;
  void* reallocateOutputAsync(const char* name, void* current, uint64_t size, uint64_t alignment,
                              cudaStream_t) override {
    ++in_order;
    return reallocateOutput(name, current, size, alignment);
  }
};
#endif

class Profiler : public IProfiler {
 public:
  std::vector<std::string> layers;
  void reportLayerTime(const char* layerName, float ms) noexcept override {
    EXPECT(ms >= 0);
    layers.emplace_back(layerName);
  }
};

// Ends the build at a step, or not.
class Monitor : public IProgressMonitor {
 public:
  explicit Monitor(int steps) : steps_(steps) {}
  int open = 0, started = 0, outermost = 0;
  void phaseStart(const char* phaseName, const char* parentPhase, int32_t nbSteps) noexcept override {
    EXPECT(phaseName[0] && nbSteps > 0);
    ++open;
    ++started;
    outermost += parentPhase == nullptr;
  }
  bool stepComplete(const char*, int32_t) noexcept override { return --steps_ != 0; }
  void phaseFinish(const char*) noexcept override { --open; }

 private:
  int steps_;
};

static std::unique_ptr<ICudaEngine> build(Logger& logger, const char* model, IProgressMonitor* monitor) {
  auto builder = std::unique_ptr<IBuilder>(createInferBuilder(logger));
  auto network = std::unique_ptr<INetworkDefinition>(builder->createNetworkV2(0));
  auto parser = std::unique_ptr<nvonnxparser::IParser>(nvonnxparser::createParser(*network, logger));
  EXPECT(parser->parseFromFile(model, 1));
  auto config = std::unique_ptr<IBuilderConfig>(builder->createBuilderConfig());
  config->setProgressMonitor(monitor);
  EXPECT(config->getProgressMonitor() == monitor);
  IOptimizationProfile* profile = builder->createOptimizationProfile();
  if (network->getInput(0)->getDimensions().d[0] == -1) {
    for (auto which : {OptProfileSelector::kMIN, OptProfileSelector::kOPT, OptProfileSelector::kMAX})
      EXPECT(profile->setDimensions("image", which, Dims4(which == OptProfileSelector::kMIN ? 1 : 2, 1, 8, 8)));
    EXPECT(config->addOptimizationProfile(profile) == 0);
  }
  auto plan = std::unique_ptr<IHostMemory>(builder->buildSerializedNetwork(*network, *config));
  if (!plan) return nullptr;
  auto runtime = std::unique_ptr<IRuntime>(createInferRuntime(logger));
  return std::unique_ptr<ICudaEngine>(runtime->deserializeCudaEngine(plan->data(), plan->size()));
}

int main(int, char** argv) {
  Logger logger;
  Monitor patient(0), impatient(2);
  EXPECT(build(logger, argv[1], &impatient) == nullptr && logger.said("progress monitor"));
  auto engine = build(logger, argv[1], &patient);
  EXPECT(engine && patient.started > 1 && patient.open == 0 && patient.outermost == 1);

  auto context = std::unique_ptr<IExecutionContext>(engine->createExecutionContext());
  EXPECT(context->getMaxOutputSize("logits") == 80 && context->getMaxOutputSize("image") == -1);
  const std::vector<float> x = images(2);
  Buffer input(x.size());
  EXPECT(cudaMemcpy(input.at, x.data(), 512, cudaMemcpyHostToDevice) == cudaSuccess);
  EXPECT(context->setInputShape("image", Dims4(2, 1, 8, 8)) && context->setTensorAddress("image", input.at));
  Allocator none(false), allocator;
  EXPECT(!context->setOutputAllocator("image", &allocator) && context->getOutputAllocator("image") == nullptr);
  EXPECT(context->setOutputAllocator("logits", &none) && !context->enqueueV3(nullptr) && none.calls == 1);
  EXPECT(context->setOutputAllocator("logits", &allocator) && context->getOutputAllocator("logits") == &allocator);
  EXPECT(context->enqueueV3(nullptr) && allocator.dims.nbDims == 2 && allocator.dims.d[0] == 2);
  std::vector<float> y(20);
  EXPECT(cudaMemcpy(y.data(), allocator.memory, 80, cudaMemcpyDeviceToHost) == cudaSuccess);
  show("fp32 2", y);
#if NV_TENSORRT_MAJOR >= 10
  Async async;
  auto other = std::unique_ptr<IExecutionContext>(engine->createExecutionContext());
  EXPECT(other->setInputShape("image", Dims4(2, 1, 8, 8)) && other->setTensorAddress("image", input.at));
  EXPECT(other->setOutputAllocator("logits", &async) && other->enqueueV3(nullptr) && async.in_order == 1);
  std::vector<float> again(20);
  EXPECT(cudaMemcpy(again.data(), async.memory, 80, cudaMemcpyDeviceToHost) == cudaSuccess && again == y);
#endif

  Profiler profiler;
  EXPECT(!context->reportToProfiler());
  context->setProfiler(&profiler);
  EXPECT(context->getProfiler() == &profiler && context->getEnqueueEmitsProfile());
  EXPECT(context->enqueueV3(nullptr) && !profiler.layers.empty());
  const std::size_t layers = profiler.layers.size();
  context->setEnqueueEmitsProfile(false);
  EXPECT(context->enqueueV3(nullptr) && profiler.layers.size() == layers);
  EXPECT(context->reportToProfiler() && profiler.layers.size() == 2 * layers);
  context->setProfiler(nullptr);
  EXPECT(context->enqueueV3(nullptr) && profiler.layers.size() == 2 * layers);

  auto inspector = std::unique_ptr<IEngineInspector>(engine->createEngineInspector());
  EXPECT(inspector->setExecutionContext(context.get()) && inspector->getExecutionContext() == context.get());
  const std::string all = inspector->getEngineInformation(LayerInformationFormat::kJSON);
  EXPECT(all.find("\"Layers\"") != all.npos && all.find("\"Bindings\"") != all.npos);
  EXPECT(std::string(inspector->getLayerInformation(0, LayerInformationFormat::kONELINE)).size() > 2);
  logger.forget();
  EXPECT(inspector->getLayerInformation(engine->getNbLayers(), LayerInformationFormat::kJSON)[0] == '\0');
  EXPECT(inspector->getLayerInformation(-1, LayerInformationFormat::kJSON)[0] == '\0' && logger.said("layer"));

  // An output whose shape depends on data.
  auto nonzero = build(logger, argv[2], nullptr);
  EXPECT(nonzero && nonzero->getTensorShape("where").d[1] == -1);
#if NV_TENSORRT_MAJOR >= 10
  using Index = int64_t;
  EXPECT(nonzero->getTensorDataType("where") == DataType::kINT64);
#else  // which has no other integers
  using Index = int32_t;
  EXPECT(nonzero->getTensorDataType("where") == DataType::kINT32);
#endif
  context.reset(nonzero->createExecutionContext());
  const float values[6] = {0, 1, 0, 0, 2, 3};
  EXPECT(cudaMemcpy(input.at, values, sizeof values, cudaMemcpyHostToDevice) == cudaSuccess);
  Allocator where;
  EXPECT(context->getMaxOutputSize("where") == -1);
  EXPECT(context->setTensorAddress("x", input.at) && context->setOutputAllocator("where", &where));
  EXPECT(context->enqueueV3(nullptr) && where.dims.nbDims == 2 && where.dims.d[1] == 3);
  Index places[3];
  EXPECT(cudaMemcpy(places, where.memory, sizeof places, cudaMemcpyDeviceToHost) == cudaSuccess);
  EXPECT(places[0] == 1 && places[1] == 4 && places[2] == 5);
  return 0;
}
