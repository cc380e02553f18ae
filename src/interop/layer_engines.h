// SPDX-License-Identifier: Apache-2.0
// Joins files about the layers of TensorRT engines: which describe one engine, and what each layer of it took.
#pragma once
#include <string>
#include <vector>

#include "bench/layers.h"

namespace temper {

struct LayerFile {
  std::string path, text;
};

// In the order given. A file of --exportLayerInfo begins an engine; files of --exportProfile and --exportTimes belong
// to the one before them (with a single engine they may stand anywhere). Without any layer information each profile is
// an engine of which the layers' names and times are known. An engine is called by its first file, without folder and
// endings. Throws Error{bad_file} for a file that is none of the three or is damaged, and for a profile of which no
// name is a layer of its engine; Error{usage} for two profiles or two files of times of one engine, and for one that
// belongs to none.
std::vector<EngineLayers> engines_of(const std::vector<LayerFile>& files);

}  // namespace temper
