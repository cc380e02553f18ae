// SPDX-License-Identifier: Apache-2.0
// One form for the layers of any engine: steps of Temper's plans, and layers of TensorRT.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tune/peaks.h"

namespace temper {

struct EngineInfo;
struct Profile;

// quantize, dequantize: between floats and 8 bits or less. reformat: any other change of layout or type. movement: what
// the model itself asks for (transpose, concat, slice, ...). nothing: takes no time by design.
enum class LayerKind : uint8_t {
  convolution,
  matmul,
  attention,
  recurrent,
  pooling,
  reduction,
  pointwise,
  softmax,
  normalization,
  movement,
  quantize,
  dequantize,
  reformat,
  nothing,
  other
};
constexpr std::array<std::string_view, 15> enum_names(LayerKind) {
  return {"convolution",   "matmul",   "attention", "recurrent",  "pooling",  "reduction", "pointwise", "softmax",
          "normalization", "movement", "quantize",  "dequantize", "reformat", "nothing",   "other"};
}
inline std::string_view name_of(LayerKind kind) { return enum_names(kind)[size_t(kind)]; }
bool is_product(LayerKind kind);     // convolution, matmul
bool is_conversion(LayerKind kind);  // quantize, dequantize, reformat

// "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8", "uint8", "int4", "int32", "int64", "bool", ...; "" is not
// known.
int bits_of(std::string_view precision);        // 0: not known
bool is_float(std::string_view precision);      // of 16 bits and more
bool is_low(std::string_view precision);        // 8 bits or less of numbers: what quantization gives
std::string upper(std::string_view precision);  // as prose has it: "INT8"

struct LayerTensor {
  std::string name;  // what writes it and what reads it share the name
  std::string precision, format;
  std::vector<int64_t> dims;
  std::optional<int64_t> bytes;  // nothing where a dimension or the precision is open
};

struct EngineLayer {
  std::string name;
  LayerKind kind = LayerKind::other;
  std::string op;                            // as its source calls it
  std::vector<LayerTensor> inputs, outputs;  // no constants
  std::string from, to;                      // precision of what it works on and of what it writes
  std::optional<double> ms;
  std::optional<int64_t> bytes, operations;  // moved at least, constants included; a product and its sum are two
  std::string tactic;
  std::vector<std::string> merged;          // names of the model's own layers in it, where more than one
  int addend = -1;                          // which input is added to the products: a residual
  bool average = false;                     // pooling or reduction: a mean
  double of_arithmetic = 0, of_memory = 0;  // time at the machine's peaks over the time taken; 0: not known
  bool reference = false;                   // the scalar reference, for want of a kernel
  bool second_step = false;                 // its epilogue is a pass of its own
};

struct EngineLayers {
  std::string name;
  bool is_plan = false;                      // of ours; otherwise TensorRT's
  std::string asked;                         // precision that the build was asked for; "" is not known
  std::string command;                       // that builds it, of a plan
  std::vector<EngineLayer> layers;           // in the order in which they run
  std::vector<std::string> inputs, outputs;  // tensors of the engine; empty where its source does not say
  std::optional<double> run_ms, enqueue_ms;  // medians: of whole runs, of the host's time to launch one
  int64_t runs = 0;
  std::optional<Peaks> peaks;
  std::vector<std::string> kept;  // why layers are not in the precision asked: "name (op): reason"
  bool disturbed = false;         // its times say that other work ran beside it; a note says how
  std::vector<std::string> notes;
};

// The layers of a plan, timed.
EngineLayers layers_of(const Profile& profile, const EngineInfo& info, const Peaks& peaks, std::string name);

}  // namespace temper
