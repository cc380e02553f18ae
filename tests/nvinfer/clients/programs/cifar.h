// SPDX-License-Identifier: Apache-2.0
// What the C++ programs of rows 7 and 8 share: samples of 32x32x3 floats, and names of classes.
#pragma once
#include <NvInfer.h>  // before CUDA's own headers
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

static const char* const kClasses[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                       "dog",      "frog",       "horse", "ship", "truck"};
constexpr int kPixels = 32 * 32 * 3;

class Logger : public nvinfer1::ILogger {
  void log(Severity severity, const char* msg) noexcept override {
    if (severity <= Severity::kWARNING) std::printf("%s\n", msg);
  }
};

inline std::vector<char> bytes_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}
// A row each: an id, then pixels.
inline std::vector<std::vector<float>> samples_of_csv(const char* path) {
  std::ifstream file(path);
  std::vector<std::vector<float>> samples;
  std::string line, cell;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::getline(cells, cell, ',');
    samples.emplace_back();
    while (std::getline(cells, cell, ',')) samples.back().push_back(std::stof(cell));
  }
  return samples;
}
// Floats behind a header that is taken to have 128 bytes.
inline std::vector<std::vector<float>> samples_of_npy(const char* path, int count) {
  const std::vector<char> bytes = bytes_of(path);
  std::vector<std::vector<float>> samples(static_cast<std::size_t>(count), std::vector<float>(kPixels));
  for (int i = 0; i < count; ++i) {
    const char* const from = bytes.data() + 128 + static_cast<std::size_t>(i) * kPixels * sizeof(float);
    std::copy_n(from, kPixels * sizeof(float), reinterpret_cast<char*>(samples[static_cast<std::size_t>(i)].data()));
  }
  return samples;
}
inline int best_of(const float* scores) { return static_cast<int>(std::max_element(scores, scores + 10) - scores); }

// Runs one sample after the other with named tensors; says how many answered.
inline int run_named(const std::vector<std::vector<float>>& samples, bool shows) {
  Logger logger;
  const std::vector<char> plan = bytes_of("model.trt");
  nvinfer1::IRuntime* runtime = nvinfer1::createInferRuntime(logger);
  nvinfer1::ICudaEngine* engine = runtime->deserializeCudaEngine(plan.data(), plan.size());
  if (!engine) return 1;
  nvinfer1::IExecutionContext* context = engine->createExecutionContext();
  std::string in, out;
  for (int i = 0; i < engine->getNbIOTensors(); ++i) {
    const char* const name = engine->getIOTensorName(i);
    (engine->getTensorIOMode(name) == nvinfer1::TensorIOMode::kINPUT ? in : out) = name;
  }
  std::size_t done = 0;
  for (const std::vector<float>& sample : samples) {
    void *x = nullptr, *y = nullptr;
    float scores[10];
    if (!context->setInputShape(in.c_str(), nvinfer1::Dims4{1, 32, 32, 3})) break;
    cudaMalloc(&x, kPixels * sizeof(float));
    cudaMalloc(&y, sizeof scores);
    cudaMemcpy(x, sample.data(), kPixels * sizeof(float), cudaMemcpyHostToDevice);
    context->setTensorAddress(in.c_str(), x);
    context->setTensorAddress(out.c_str(), y);
    if (context->enqueueV3(0) && cudaDeviceSynchronize() == cudaSuccess) ++done;
    cudaMemcpy(scores, y, sizeof scores, cudaMemcpyDeviceToHost);
    const int best = best_of(scores);
    if (shows) std::printf("Predicted: %s (confidence %.3f)\n", kClasses[best], static_cast<double>(scores[best]));
    cudaFree(x);
    cudaFree(y);
  }
  std::printf("Successful inferences: %zu/%zu\n", done, samples.size());
  delete context;
  delete engine;
  delete runtime;
  return done == samples.size() ? 0 : 1;
}
