// SPDX-License-Identifier: Apache-2.0
// Engines whose weights a program replaces. A plan has its weights packed for its kernels, so that an engine that is to
// be refitted brings along what it was built from, and is built again.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nvinfer/build.h"

namespace temper::nvinfer {

// The contents of a refittable engine's bytes: the plan, the network, and how it is built again.
struct RefittableParts {
  std::span<const std::byte> plan, network;  // into the bytes
  std::string recipe;                        // JSON
};
// Nothing for bytes of another kind, which may be a plan alone. Throws Error{bad_file} for damaged ones.
std::optional<RefittableParts> parts_of(std::span<const std::byte> bytes);

// The bytes of a plan of the network that can be refitted; as build_serialized otherwise. A calibrator is refused: its
// ranges are those of the old weights.
std::string build_refittable(const Network& network, const Config& config, const Logger& logger);

// Weights by their own name (that of the model's file; of layers that a program added LAYER.SETTING), and by the layer
// that has them and what they are to it.
struct RefitWeights {
  std::string name, layer;
  int role = 0;  // a number of WeightsRole
  DType dtype = DType::f32;
  int64_t count = 0;
};

// Replaces weights of one refittable engine.
class Refitter {
 public:
  // Throws Error{usage} for bytes of an engine that was not built for it.
  explicit Refitter(std::span<const std::byte> bytes);
  const std::vector<RefitWeights>& all() const { return all_; }
  // Throws Error{usage} for a name that there is not, and for another number of elements. Other floats are converted.
  void set(const std::string& name, const Tensor& weights);
  // The bytes of an engine with the weights as they are now. Empty, with a line of severity error, where it cannot be
  // built.
  std::string build(const Logger& logger) const;

 private:
  std::string network_, recipe_;
  std::vector<RefitWeights> all_;
  std::map<std::string, Tensor> replaced_;
};

}  // namespace temper::nvinfer
