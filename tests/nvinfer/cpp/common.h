// SPDX-License-Identifier: Apache-2.0
// What the client programs of this folder share. They are C++14, as programs for TensorRT are, and know nothing of
// Temper.
#pragma once
#include <NvInfer.h>
#include <NvOnnxParser.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
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

// As most clients write it: `log` is private.
class Logger : public nvinfer1::ILogger {
 public:
  bool said(const std::string& part) const { return text_.find(part) != std::string::npos; }
  void forget() { text_.clear(); }

 private:
  void log(Severity severity, const char* msg) noexcept override {
    if (severity <= Severity::kWARNING) text_ += std::string(msg) + "\n";
  }
  std::string text_;
};

inline std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// An image of the model digits_cnn: [batch, 1, 8, 8], of numbers that the test that starts the program knows, too.
inline std::vector<float> images(int batch) {
  std::vector<float> x(static_cast<std::size_t>(batch) * 64);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 101) / 100.f;
  return x;
}

// What the test compares.
inline void show(const char* what, const std::vector<float>& y) {
  std::printf("%s", what);
  for (float value : y) std::printf(" %.9g", static_cast<double>(value));
  std::printf("\n");
}

// Memory of the device.
struct Buffer {
  void* at = nullptr;
  explicit Buffer(std::size_t floats) { EXPECT(cudaMalloc(&at, floats * sizeof(float)) == cudaSuccess); }
  Buffer(const Buffer&) = delete;
  ~Buffer() { EXPECT(cudaFree(at) == cudaSuccess); }
};
