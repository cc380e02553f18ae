// SPDX-License-Identifier: Apache-2.0
// Networks of text and of diffusion as ONNX graphs with seeded weights, in the sizes of their published forms or in
// smaller ones; each returns the file's bytes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "zoo/builder.h"

namespace temper::zoo {

// Radford et al. 2019, with the parameter names of transformers' GPT2LMHeadModel. Inputs input_ids i64
// [batch,sequence], attention_mask i64 [batch,past + sequence], position_ids i64 [batch,sequence] and
// past_key_values.N.key and .value f32 [batch,heads,past,64]; outputs logits f32 [batch,sequence,words] and
// present.N.key and .value, of which `build --cache` makes caches.
struct Gpt2Sizes {
  int64_t layers = 12, heads = 12, head = 64, words = 50257, positions = 1024;
};
std::string gpt2(Builder& b, const Gpt2Sizes& sizes = {});

// Devlin et al. 2018, with the names of transformers' BertModel. Inputs input_ids, attention_mask and token_type_ids
// i64 [batch,sequence]; outputs last_hidden_state f32 [batch,sequence,width] and pooler_output f32 [batch,width].
struct BertSizes {
  int64_t layers = 12, heads = 12, head = 64, words = 30522, positions = 512;
};
std::string bert(Builder& b, const BertSizes& sizes = {});

// The noise predictor of Stable Diffusion 1.5 (Rombach et al. 2022), with the names of diffusers' UNet2DConditionModel.
// Inputs sample f32 [batch,4,height,width], whose sides are multiples of 8, timestep f32 [batch] and
// encoder_hidden_states f32 [batch,sequence,context]; output noise f32 like sample.
struct UnetSizes {
  std::vector<int64_t> channels{320, 640, 1280, 1280};  // of each level; multiples of the groups and of the heads
  int64_t heads = 8, groups = 32, context = 768, layers = 2;
};
std::string sd15_unet(Builder& b, const UnetSizes& sizes = {});

}  // namespace temper::zoo
