// SPDX-License-Identifier: Apache-2.0
// Samples of a CSV file by bindings of 8.x, 32 at a time through pinned memory. It takes the id in front for a pixel,
// as the program that it acts as does, so that the last sample ends 128 bytes beyond the buffer.
#include "cifar.h"

int main() {
  int devices = 0;
  cudaDeviceProp about;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices || cudaGetDeviceProperties(&about, 0) != cudaSuccess)
    return 1;
  std::printf("%s\n", about.name);
  Logger logger;
  const std::vector<char> plan = bytes_of("model_trt8x.trt");
  nvinfer1::IRuntime* runtime = nvinfer1::createInferRuntime(logger);
  nvinfer1::ICudaEngine* engine = runtime->deserializeCudaEngine(plan.data(), plan.size(), nullptr);
  delete runtime;  // before the engine
  if (!engine || engine->hasImplicitBatchDimension()) return 1;
  nvinfer1::IExecutionContext* context = engine->createExecutionContext();
  const int in = engine->getBindingIndex("input_1"), out = engine->getBindingIndex("dense_1");
  constexpr int kBatch = 32;
  nvinfer1::Dims dims = engine->getBindingDimensions(in);
  dims.d[0] = kBatch;
  if (!context->setBindingDimensions(in, dims)) return 1;
  float *pixels = nullptr, *scores = nullptr;
  void* bindings[2];
  constexpr std::size_t kBytes = std::size_t{kBatch} * kPixels * sizeof(float);
  cudaMallocHost(reinterpret_cast<void**>(&pixels), kBytes);
  cudaMallocHost(reinterpret_cast<void**>(&scores), kBatch * 10 * sizeof(float));
  cudaMalloc(&bindings[in], kBytes);
  cudaMalloc(&bindings[out], kBatch * 10 * sizeof(float));
  const std::vector<std::vector<float>> samples = samples_of_csv("test_samples.csv");
  for (int i = 0; i < kBatch; ++i) {
    float* const at = pixels + static_cast<std::size_t>(i) * (kPixels + 1);
    at[0] = static_cast<float>(i);
    std::copy(samples[static_cast<std::size_t>(i)].begin(), samples[static_cast<std::size_t>(i)].end(), at + 1);
  }
  cudaMemcpy(bindings[in], pixels, kBytes, cudaMemcpyHostToDevice);
  if (!context->executeV2(bindings)) return 1;
  cudaMemcpy(scores, bindings[out], kBatch * 10 * sizeof(float), cudaMemcpyDeviceToHost);
  for (int i = 0; i < 3; ++i) std::printf("%s\n", kClasses[best_of(scores + i * 10)]);
  if (cudaFreeHost(pixels) != cudaSuccess) std::printf("%s\n", cudaGetErrorString(cudaGetLastError()));
  cudaFreeHost(scores);
  cudaFree(bindings[in]);
  cudaFree(bindings[out]);
  delete context;
  delete engine;
  std::printf("verification completed\n");
  return 0;
}
