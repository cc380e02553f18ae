// SPDX-License-Identifier: Apache-2.0
// Sample models: well-known topologies with weights from a seed, and one small model that is really trained.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace temper {

struct ZooOptions {
  std::optional<uint64_t> seed;  // of the weights; 1 without. The same seed gives the same bytes on every machine.
  std::optional<int> opset;      // 13 to 22, of gpt2, bert and sd15-unet 17 to 22; 17 without
};

struct ZooEntry {
  std::string_view name;
  std::string_view summary;
};

// All models. Those of pictures have an input `image` f32[batch,...] and an output `logits` f32[batch,classes]; the
// others' inputs and outputs are in zoo/networks.h. The batch is symbolic.
std::span<const ZooEntry> zoo_entries();

// The model as the bytes of an ONNX file. Throws Error{usage} for an unknown name (the message lists the known ones),
// for an opset out of range and for options that a trained model cannot take.
std::string zoo_model(std::string_view name, const ZooOptions& options = {});

}  // namespace temper
