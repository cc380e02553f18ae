// SPDX-License-Identifier: Apache-2.0
// A program that keeps things in its own hands: weights that it replaces, the memory that contexts work in, a recorder
// of errors, and in 10 and later plans that come from and go to streams.
// usage: ownership MODEL.onnx
#include <algorithm>
#include <cmath>

#include "common.h"

using namespace nvinfer1;

// Memory of its own, all of which comes back.
class Allocator : public IGpuAllocator {
 public:
  bool gives = true;
  int given = 0, live = 0;
  void* allocate(uint64_t const size, uint64_t const alignment, AllocatorFlags const) noexcept override {
    EXPECT(size > 0 && alignment > 0 && (alignment & (alignment - 1)) == 0);
    void* memory = nullptr;
    if (!gives) return nullptr;
    EXPECT(cudaMalloc(&memory, size) == cudaSuccess);
    ++given, ++live;
    return memory;
  }
#if NV_TENSORRT_MAJOR < 10
  void free(void* const memory) noexcept override { deallocate(memory); }
#endif
  bool deallocate(void* const memory) noexcept override {
    --live;
    return cudaFree(memory) == cudaSuccess;
  }
};

#if NV_TENSORRT_MAJOR >= 10
// The same, asked in the order of a stream.
class Async : public IGpuAsyncAllocator {
 public:
  Allocator memory;
  void* allocateAsync(uint64_t const size, uint64_t const alignment, AllocatorFlags const flags,
                      cudaStream_t stream) noexcept override {
    EXPECT(stream == nullptr);
    return memory.allocate(size, alignment, flags);
  }
  bool deallocateAsync(void* const at, cudaStream_t) noexcept override { return memory.deallocate(at); }
};
#endif

class Recorder : public IErrorRecorder {
 public:
  std::vector<std::pair<ErrorCode, std::string>> errors;
  int references = 0;
  int32_t getNbErrors() const noexcept override { return static_cast<int32_t>(errors.size()); }
  ErrorCode getErrorCode(int32_t i) const noexcept override { return errors[static_cast<std::size_t>(i)].first; }
  ErrorDesc getErrorDesc(int32_t i) const noexcept override {
    return errors[static_cast<std::size_t>(i)].second.c_str();
  }
  bool hasOverflowed() const noexcept override { return false; }
  void clear() noexcept override { errors.clear(); }
  bool reportError(ErrorCode val, ErrorDesc desc) noexcept override {
    errors.emplace_back(val, desc);
    return false;
  }
  RefCount incRefCount() noexcept override { return ++references; }
  RefCount decRefCount() noexcept override { return --references; }
  // Whether there is one error, with these words in it; it is forgotten.
  bool was_told(const std::string& words) {
    bool const told = getNbErrors() == 1 && getErrorCode(0) == ErrorCode::kUNSPECIFIED_ERROR &&
                      std::string(getErrorDesc(0)).find(words) != std::string::npos && !hasOverflowed();
    clear();
    return told;
  }
};

#if NV_TENSORRT_MAJOR >= 10
// Of bytes, a part at a time.
class Reader : public IStreamReader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  bool fails = false;
  int64_t read(void* destination, int64_t nbBytes) override {
    if (fails && at_ > 0) return -1;
    std::size_t const some = std::min({static_cast<std::size_t>(nbBytes), std::size_t{1000}, bytes_.size() - at_});
    std::copy_n(bytes_.data() + at_, some, static_cast<char*>(destination));
    at_ += some;
    return static_cast<int64_t>(some);
  }

 private:
  const std::string& bytes_;
  std::size_t at_ = 0;
};
class ReaderV2 : public IStreamReaderV2 {
 public:
  explicit ReaderV2(const std::string& bytes) : reader_(bytes) {}
  int64_t read(void* destination, int64_t nbBytes, cudaStream_t) noexcept override {
    return reader_.read(destination, nbBytes);
  }
  bool seek(int64_t, SeekPosition) noexcept override { return false; }

 private:
  Reader reader_;
};
class Writer : public IStreamWriter {
 public:
  std::string bytes;
  bool takes_all = true;
  int64_t write(void const* data, int64_t nbBytes) override {
    bytes.append(static_cast<char const*>(data), static_cast<std::size_t>(nbBytes));
    return takes_all ? nbBytes : nbBytes / 2;
  }
};
#endif

static std::vector<float> run(IExecutionContext& context) {
  const std::vector<float> x = images(2);
  std::vector<float> y(20);
  Buffer input(x.size()), output(y.size());
  EXPECT(cudaMemcpy(input.at, x.data(), 512, cudaMemcpyHostToDevice) == cudaSuccess);
  EXPECT(context.setInputShape("image", Dims4(2, 1, 8, 8)));
  void* bindings[] = {input.at, output.at};
  EXPECT(context.executeV2(bindings));
  EXPECT(cudaMemcpy(y.data(), output.at, 80, cudaMemcpyDeviceToHost) == cudaSuccess);
  return y;
}

int main(int, char** argv) {
  Logger logger;
  Recorder recorder, another;
  Allocator allocator;
  std::string plan_text;
  {
    auto builder = std::unique_ptr<IBuilder>(createInferBuilder(logger));
    builder->setErrorRecorder(&recorder);
    EXPECT(builder->getErrorRecorder() == &recorder && recorder.references == 1);
    auto network = std::unique_ptr<INetworkDefinition>(builder->createNetworkV2(0));
    auto config = std::unique_ptr<IBuilderConfig>(builder->createBuilderConfig());
    EXPECT(network->getErrorRecorder() == &recorder);
    EXPECT(builder->buildSerializedNetwork(*network, *config) == nullptr && recorder.was_told("at least one output"));
    network->setErrorRecorder(&another);
    EXPECT(another.references == 1 && network->addInput("x", DataType::kFP8, Dims2(1, 1)) == nullptr);
    EXPECT(another.was_told("type 6") && recorder.getNbErrors() == 0 && logger.said("type 6"));
    auto parser = std::unique_ptr<nvonnxparser::IParser>(nvonnxparser::createParser(*network, logger));
    EXPECT(parser->parseFromFile(argv[1], 1));
    IOptimizationProfile* profile = builder->createOptimizationProfile();
    for (auto which : {OptProfileSelector::kMIN, OptProfileSelector::kOPT, OptProfileSelector::kMAX})
      EXPECT(profile->setDimensions("image", which, Dims4(2, 1, 8, 8)));
    EXPECT(config->addOptimizationProfile(profile) == 0);
    auto plain = std::unique_ptr<IHostMemory>(builder->buildSerializedNetwork(*network, *config));
    auto runtime = std::unique_ptr<IRuntime>(createInferRuntime(logger));
    auto engine = std::unique_ptr<ICudaEngine>(runtime->deserializeCudaEngine(plain->data(), plain->size()));
    EXPECT(!engine->isRefittable() && createInferRefitter(*engine, logger) == nullptr);
    EXPECT(logger.said("not built to be refitted"));
    config->setFlag(BuilderFlag::kREFIT);
    auto plan = std::unique_ptr<IHostMemory>(builder->buildSerializedNetwork(*network, *config));
    EXPECT(plan && recorder.getNbErrors() == 0);
    plan_text.assign(static_cast<const char*>(plan->data()), plan->size());
#if NV_TENSORRT_MAJOR >= 10
    Writer writer, small;
    small.takes_all = false;
    EXPECT(builder->buildSerializedNetworkToStream(*network, *config, writer) && writer.bytes.size() > 1000);
    EXPECT(!builder->buildSerializedNetworkToStream(*network, *config, small) && recorder.was_told("every byte"));
#endif
  }
  EXPECT(recorder.references == 0 && another.references == 0);

  auto runtime = std::unique_ptr<IRuntime>(createInferRuntime(logger));
  runtime->setErrorRecorder(&recorder);
  runtime->setGpuAllocator(&allocator);
  EXPECT(runtime->deserializeCudaEngine("no plan", 7) == nullptr && recorder.getNbErrors() == 1);
  recorder.clear();
#if NV_TENSORRT_MAJOR >= 10
  Reader broken(plan_text), reader(plan_text);
  broken.fails = true;
  EXPECT(runtime->deserializeCudaEngine(broken) == nullptr && recorder.was_told("could not read"));
  ReaderV2 second(plan_text);
  EXPECT(std::unique_ptr<ICudaEngine>(runtime->deserializeCudaEngine(second)));
  auto engine = std::unique_ptr<ICudaEngine>(runtime->deserializeCudaEngine(reader));
#else
  auto engine = std::unique_ptr<ICudaEngine>(runtime->deserializeCudaEngine(plan_text.data(), plan_text.size()));
#endif
  EXPECT(engine && engine->isRefittable() && engine->getErrorRecorder() == &recorder);
  auto context = std::unique_ptr<IExecutionContext>(engine->createExecutionContext());
  EXPECT(!context->setInputShape("none", Dims2(1, 1)) && recorder.was_told("no input with the name 'none'"));
  allocator.gives = false;
  EXPECT(context->setInputShape("image", Dims4(2, 1, 8, 8)));
  Buffer room(128);
  void* bindings[] = {room.at, room.at};
  EXPECT(!context->executeV2(bindings) && recorder.was_told("allocator gave no memory"));
  allocator.gives = true;
  show("fp32 2", run(*context));
  EXPECT(allocator.given >= 1 && allocator.live == 1 && allocator.reallocate(nullptr, 1, 1) == nullptr);
#if NV_TENSORRT_MAJOR >= 10
  Async async;
  runtime->setGpuAllocator(&async);
  auto elsewhere = std::unique_ptr<ICudaEngine>(runtime->deserializeCudaEngine(plan_text.data(), plan_text.size()));
  auto there = std::unique_ptr<IExecutionContext>(elsewhere->createExecutionContext());
  runtime->setGpuAllocator(&allocator);
  EXPECT(run(*there) == run(*context) && async.memory.live == 1);
  there.reset();
  elsewhere.reset();
  EXPECT(async.memory.live == 0);
#endif

  // New weights: with the last layer's bias the answers change by as much.
  auto refitter = std::unique_ptr<IRefitter>(createInferRefitter(*engine, logger));
  EXPECT(refitter && refitter->getLogger() == &logger && refitter->setMaxThreads(2) && refitter->getMaxThreads() == 2);
  refitter->setErrorRecorder(&another);
  const int32_t count = refitter->getAllWeights(0, nullptr);
  std::vector<char const*> names(static_cast<std::size_t>(count)), layers(names.size());
  std::vector<WeightsRole> roles(names.size());
  EXPECT(count > 3 && refitter->getAllWeights(count, names.data()) == count);
  EXPECT(refitter->getAll(count, layers.data(), roles.data()) == count);
  EXPECT(refitter->getMissing(0, nullptr, nullptr) == 0 && refitter->getMissingWeights(0, nullptr) == 0);
  const float one = 1;
  EXPECT(!refitter->setNamedWeights("none", Weights{DataType::kFLOAT, &one, 1}) && another.was_told("'none'"));
  EXPECT(!refitter->setNamedWeights(names[0], Weights{DataType::kFLOAT, &one, 1}) &&
         another.was_told("weights, not 1"));
  EXPECT(!refitter->setNamedWeights(names[0], Weights{DataType::kFLOAT, nullptr, 5}) &&
         another.was_told("null address"));
  EXPECT(!refitter->setWeights("none", WeightsRole::kBIAS, Weights{DataType::kFLOAT, &one, 1}) &&
         another.was_told("no such weights"));
  const std::vector<float> before = run(*context);
  std::size_t bias = names.size();
  for (std::size_t i = 0; i < names.size(); ++i)
    if (roles[i] == WeightsRole::kBIAS) bias = i;
  EXPECT(bias < names.size());
  const std::vector<float> hundreds(10, 100);
  EXPECT(refitter->setWeights(layers[bias], WeightsRole::kBIAS, Weights{DataType::kFLOAT, hundreds.data(), 10}));
#if NV_TENSORRT_MAJOR >= 10
  const Weights known = refitter->getWeightsPrototype(names[bias]);
  EXPECT(known.type == DataType::kFLOAT && known.values == nullptr && known.count == 10);
  EXPECT(refitter->getWeightsPrototype("none").count == -1);
  EXPECT(!refitter->setNamedWeights(names[bias], known, TensorLocation::kDEVICE) && another.was_told("to the host"));
  EXPECT(refitter->setNamedWeights(names[bias], Weights{DataType::kFLOAT, hundreds.data(), 10}, TensorLocation::kHOST));
  refitter->setWeightsValidation(false);
  EXPECT(!refitter->getWeightsValidation() && refitter->refitCudaEngineAsync(nullptr));
#else
  EXPECT(refitter->refitCudaEngine());
#endif
  const std::vector<float> after = run(*context);  // the context was made before
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT(after[i] > before[i] + 50 && after[i] < before[i] + 150);
  EXPECT(another.getNbErrors() == 0);
  auto again = std::unique_ptr<IHostMemory>(engine->serialize());
  auto reloaded = std::unique_ptr<ICudaEngine>(runtime->deserializeCudaEngine(again->data(), again->size()));
  auto other = std::unique_ptr<IExecutionContext>(reloaded->createExecutionContext());
  EXPECT(reloaded->isRefittable() && run(*other) == after);

  // In any order.
  engine.reset();
  runtime.reset();
  refitter.reset();
  reloaded.reset();
  EXPECT(run(*context) == after && another.references == 0);
  context.reset();
  other.reset();
  EXPECT(recorder.references == 0 && allocator.live == 0);
  return 0;
}
