// SPDX-License-Identifier: Apache-2.0
// Calls an engine of digits_cnn, over and over, by TensorRT's names (behind temper as-tensorrt --device cpu), or, with
// TEMPER_OWN, by Temper's. For each line of its input it prints the microseconds of a call, a number for each way:
// Session::run; or setTensorAddress of both and enqueueV3, enqueueV3 alone, executeV2.
// usage: drop_in PLAN CALLS
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>
#ifdef TEMPER_OWN
#include "temper/temper.h"
#else
#include <NvInfer.h>
#include <cuda_runtime_api.h>
#endif

static double microseconds(const std::function<bool()>& call, int calls) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i)
    if (!call()) std::exit(1);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / calls;
}

static void take_turns(const std::vector<std::function<bool()>>& ways, int calls) {
  for (std::string line; std::getline(std::cin, line);) {
    for (const auto& way : ways) std::printf("%.4f ", microseconds(way, calls));
    std::printf("\n");
    std::fflush(stdout);
  }
}

#ifdef TEMPER_OWN
int main(int argc, char** argv) {
  if (argc != 3) return 2;
  temper::Engine engine = temper::Engine::load(argv[1]);
  temper::Session session(engine);
  const std::vector<temper::Tensor> inputs = {temper::Tensor(TEMPER_F32, {1, 1, 8, 8})};
  take_turns({[&] { return session.run(inputs).size() == 1; }}, std::atoi(argv[2]));
  return 0;
}
#else
class Logger : public nvinfer1::ILogger {
  void log(Severity severity, const char* text) noexcept override {
    if (severity <= Severity::kERROR) std::fprintf(stderr, "%s\n", text);
  }
};

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  Logger logger;
  std::ifstream file(argv[1], std::ios::binary);
  const std::string plan{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::unique_ptr<nvinfer1::IRuntime> runtime(nvinfer1::createInferRuntime(logger));
  const std::unique_ptr<nvinfer1::ICudaEngine> engine(runtime->deserializeCudaEngine(plan.data(), plan.size()));
  const std::unique_ptr<nvinfer1::IExecutionContext> context(engine->createExecutionContext());
  void *x = nullptr, *y = nullptr;
  if (cudaMalloc(&x, 256) != cudaSuccess || cudaMalloc(&y, 40) != cudaSuccess) return 1;
  if (cudaMemset(x, 0, 256) != cudaSuccess) return 1;
  void* const bindings[] = {x, y};
  const auto named = [&] {
    return context->setTensorAddress("image", x) && context->setTensorAddress("logits", y) &&
           context->enqueueV3(nullptr);
  };
  take_turns({named, [&] { return context->enqueueV3(nullptr); }, [&] { return context->executeV2(bindings); }},
             std::atoi(argv[2]));
  return 0;
}
#endif
