// SPDX-License-Identifier: Apache-2.0
// A model as a user names it: a file, the bytes of one, or a graph.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "onnx/import.h"
#include "optimize/build_engine.h"

namespace temper {

struct ModelSource {
  std::string path;   // "<bytes>" and "<graph>" of the others
  std::string bytes;  // empty: the path counts
  std::optional<Graph> graph;

  bool is_file() const { return bytes.empty() && !graph; }
  // What only fixed dimensions decide (a squeeze without axes) is decided by those of `shapes` that are fixed.
  ImportedModel import(const ModelLimits& limits = {}, const std::map<std::string, ShapeRange>& shapes = {}) const;
};

// The parts of a model that an engine built from it keeps.
EngineInfo engine_info_of(const ImportedModel& model, const std::string& path);

// As of a path; what is no file has the same notes and hashes in its plans, as far as they are known.
std::shared_ptr<Engine> build_engine(const ModelSource& source, const BuildOptions& options);
// The same of what has been read of the source, for these shapes if it needs them (ImportedModel::needs_shapes).
std::shared_ptr<Engine> build_engine(const ModelSource& source, ImportedModel read, const BuildOptions& options);

}  // namespace temper
