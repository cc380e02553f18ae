// SPDX-License-Identifier: Apache-2.0
// Caffe's models are not read. Programs of 8.6 that could read some of them compile, and are given no parser.
#pragma once
#include "NvInfer.h"

#if TEMPER_NVINFER_API < 1000
namespace nvcaffeparser1 {

class ICaffeParser {
 public:
  ICaffeParser(ICaffeParser const&) = delete;
  ICaffeParser& operator=(ICaffeParser const&) = delete;
  virtual ~ICaffeParser() noexcept = default;
};
// Null.
inline ICaffeParser* createCaffeParser() noexcept { return nullptr; }
inline void shutdownProtobufLibrary() noexcept {}

}  // namespace nvcaffeparser1
#endif
