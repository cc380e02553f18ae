// SPDX-License-Identifier: Apache-2.0
// Answers a program for TensorRT that asks about an engine's layers: the steps of its plan, in TensorRT's form of JSON.
#pragma once
#include <string>
#include <vector>

#include "nvinfer/messages.h"
#include "runtime/engine.h"

namespace temper::nvinfer {

enum class InformationFormat { oneline = 0, json = 1 };

// Describes an engine, or an engine as it runs on shapes that are given (in the order of its inputs; none: the first of
// its plans). Nothing is run. Where shapes depend on data there is no one plan, and the logger is told so.
class Inspector {
 public:
  explicit Inspector(std::shared_ptr<const Engine> engine) : engine_(std::move(engine)) {}

  // The most that a plan of the engine has: candidates win by their times, so that plans for other shapes differ, and
  // a program counts to this number whatever shapes it has set. Without a word to a logger.
  int layers() const;
  // Names, kinds, tensors and tactics of all layers. One line: their names, a line each.
  std::string engine_information(const std::vector<Dims>& shapes, InformationFormat format, const Logger& logger) const;
  // The same of one layer; empty where another plan alone has it; empty, with a line of severity error, where no plan
  // has.
  std::string layer_information(int layer, const std::vector<Dims>& shapes, InformationFormat format,
                                const Logger& logger) const;

 private:
  std::shared_ptr<const Engine> engine_;
  std::shared_ptr<const Plan> plan(const std::vector<Dims>& shapes) const;  // null: there is no one plan
};

}  // namespace temper::nvinfer
