// SPDX-License-Identifier: Apache-2.0
#include "optimize/model_source.h"

namespace temper {

ImportedModel ModelSource::import(int64_t memory_limit) const {
  if (graph) return {*graph, "", "", "", {}, {}};
  const ImportOptions options{{}, memory_limit};
  return bytes.empty() ? import_onnx(path, options) : import_onnx_bytes(bytes, "", options);
}

std::shared_ptr<Engine> build_engine(const ModelSource& source, const BuildOptions& options) {
  if (source.bytes.empty() && !source.graph) return build_engine(source.path, options);
  ImportedModel imported = source.import(options.memory_limit);
  EngineInfo info;
  info.model_name = imported.graph.name;
  info.model_sha256 = imported.sha256;
  info.source_sha256 = imported.source_sha256;
  info.source_path = source.path;
  info.producer = imported.producer;
  info.notes = imported.notes;
  return build_engine(std::move(imported.graph), std::move(info), options);
}

}  // namespace temper
