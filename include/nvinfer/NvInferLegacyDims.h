// SPDX-License-Identifier: Apache-2.0
// Dimensions of a fixed number of axes.
#pragma once
#include "NvInferRuntimeBase.h"

namespace nvinfer1 {

class Dims2 : public Dims {
 public:
  Dims2() : Dims2(0, 0) {}
  Dims2(stand_in::Dim d0, stand_in::Dim d1) : Dims{2, {d0, d1}} {}
};

class DimsHW : public Dims2 {
 public:
  DimsHW() = default;
  DimsHW(stand_in::Dim height, stand_in::Dim width) : Dims2(height, width) {}
  stand_in::Dim& h() { return d[0]; }
  stand_in::Dim h() const { return d[0]; }
  stand_in::Dim& w() { return d[1]; }
  stand_in::Dim w() const { return d[1]; }
};

class Dims3 : public Dims {
 public:
  Dims3() : Dims3(0, 0, 0) {}
  Dims3(stand_in::Dim d0, stand_in::Dim d1, stand_in::Dim d2) : Dims{3, {d0, d1, d2}} {}
};

class Dims4 : public Dims {
 public:
  Dims4() : Dims4(0, 0, 0, 0) {}
  Dims4(stand_in::Dim d0, stand_in::Dim d1, stand_in::Dim d2, stand_in::Dim d3) : Dims{4, {d0, d1, d2, d3}} {}
};

}  // namespace nvinfer1
