// SPDX-License-Identifier: Apache-2.0
// What the networks of this folder that are built layer by layer share: weights from a text file, as tools of that kind
// write them ("COUNT", then lines of a name, how many numbers, and their bits in hexadecimal), and one run.
#pragma once
#include <NvInfer.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#define EXPECT(fact)                                                                      \
  do {                                                                                    \
    if (!(fact)) {                                                                        \
      std::fprintf(stderr, "%s:%d: this does not hold: %s\n", __FILE__, __LINE__, #fact); \
      std::exit(1);                                                                       \
    }                                                                                     \
  } while (0)

class Logger : public nvinfer1::ILogger {
  void log(Severity severity, const char* msg) noexcept override {
    if (severity <= Severity::kERROR) std::fprintf(stderr, "%s\n", msg);
  }
};

class WeightsFile {
 public:
  explicit WeightsFile(const std::string& path) {
    std::ifstream file(path);
    int32_t count = 0;
    EXPECT(file >> count);
    while (count--) {
      std::string name;
      std::size_t size = 0;
      EXPECT(file >> name >> std::dec >> size);
      std::vector<float>& values = values_[name];
      values.resize(size);
      for (float& value : values) {
        uint32_t bits = 0;
        EXPECT(file >> std::hex >> bits);
        std::memcpy(&value, &bits, sizeof bits);
      }
    }
  }
  const std::vector<float>& operator[](const std::string& name) const {
    const auto it = values_.find(name);
    EXPECT(it != values_.end());
    return it->second;
  }
  nvinfer1::Weights weights(const std::string& name) const { return of((*this)[name]); }
  static nvinfer1::Weights of(const std::vector<float>& values) {
    return {nvinfer1::DataType::kFLOAT, values.data(), static_cast<int64_t>(values.size())};
  }

 private:
  std::map<std::string, std::vector<float>> values_;
};

// Builds an engine of the network, runs it on `in` and prints its output.
inline void build_and_run(nvinfer1::IBuilder& builder, nvinfer1::INetworkDefinition& network, nvinfer1::ILogger& logger,
                          const std::vector<float>& in, std::size_t out_count) {
  using namespace nvinfer1;
  auto config = std::unique_ptr<IBuilderConfig>(builder.createBuilderConfig());
  config->clearFlag(BuilderFlag::kTF32);
  config->setMemoryPoolLimit(MemoryPoolType::kWORKSPACE, std::size_t{1} << 28);
  auto plan = std::unique_ptr<IHostMemory>(builder.buildSerializedNetwork(network, *config));
  EXPECT(plan);
  auto runtime = std::unique_ptr<IRuntime>(createInferRuntime(logger));
  auto engine = std::unique_ptr<ICudaEngine>(runtime->deserializeCudaEngine(plan->data(), plan->size()));
  EXPECT(engine && engine->getNbIOTensors() == 2);
  auto context = std::unique_ptr<IExecutionContext>(engine->createExecutionContext());
  std::vector<float> out(out_count);
  void *input = nullptr, *output = nullptr;
  EXPECT(cudaMalloc(&input, in.size() * sizeof(float)) == cudaSuccess);
  EXPECT(cudaMalloc(&output, out.size() * sizeof(float)) == cudaSuccess);
  cudaStream_t stream;
  EXPECT(cudaStreamCreate(&stream) == cudaSuccess);
  EXPECT(cudaMemcpyAsync(input, in.data(), in.size() * sizeof(float), cudaMemcpyHostToDevice, stream) == cudaSuccess);
  EXPECT(context->setTensorAddress(engine->getIOTensorName(0), input));
  EXPECT(context->setTensorAddress(engine->getIOTensorName(1), output));
  EXPECT(context->enqueueV3(stream));
  EXPECT(cudaMemcpyAsync(out.data(), output, out.size() * sizeof(float), cudaMemcpyDeviceToHost, stream) ==
         cudaSuccess);
  EXPECT(cudaStreamSynchronize(stream) == cudaSuccess && cudaStreamDestroy(stream) == cudaSuccess);
  EXPECT(cudaFree(input) == cudaSuccess && cudaFree(output) == cudaSuccess);
  for (float value : out) std::printf("%.9g\n", static_cast<double>(value));
}
