// SPDX-License-Identifier: Apache-2.0
// Reads what trtexec writes about the layers of an engine, 8.2 to 11.x: --exportLayerInfo and --exportProfile.
// (--exportTimes: trtexec_times.h.) Their fields beyond those that are needed may be anything; nothing is invented
// where they are absent.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/layers.h"

namespace temper {

enum class LayerFileKind { layers, profile, times };
// By what is in it; nothing for any other file.
std::optional<LayerFileKind> layer_file_kind(std::string_view text);

// Layers without times. Without --profilingVerbosity=detailed they have names alone (`detailed` is false, a note says
// so). Throws Error{bad_file}: no such file, wrong types, a size beyond 64 bits.
struct LayerInfo {
  EngineLayers engine;
  bool detailed = false;
};
LayerInfo read_layer_info(std::string_view text);

struct LayerTime {
  std::string name;
  double ms = 0;  // the median, or the mean where the release gives no median
};
struct LayerProfile {
  int64_t runs = 0;  // 0: the file does not say
  std::vector<LayerTime> layers;
};
LayerProfile read_layer_profile(std::string_view text);  // throws Error{bad_file}

// A layer of which nothing is known but its name.
EngineLayer layer_of_name(const std::string& name);
// "fp32" for "Row major linear FP32", "Float(...)", "kFLOAT"; "" where it says none.
std::string precision_in(std::string_view format);

}  // namespace temper
