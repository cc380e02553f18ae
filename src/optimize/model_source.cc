// SPDX-License-Identifier: Apache-2.0
#include "optimize/model_source.h"

#include <utility>

#include "data/carried.h"

namespace temper {

ImportedModel ModelSource::import(const ModelLimits& limits, const std::map<std::string, ShapeRange>& shapes) const {
  if (graph) return {*graph, "", "", "", {}, {}, {}, false};
  ImportOptions options{{}, limits, {}};
  const auto read = [&] { return bytes.empty() ? import_onnx(path, options) : import_onnx_bytes(bytes, "", options); };
  // Open dimensions stay open where they may, so that a plan can have ranges of them.
  for (const auto& [name, range] : shapes)
    if (!name.empty()) {
      options.expected[name] = range.opt;
      if (range.min == range.max) options.shapes[name] = range.opt;
    }
  if (options.shapes.empty()) return read();
  const auto fixed = std::exchange(options.shapes, {});
  try {
    return read();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
  }
  options.shapes = fixed;
  ImportedModel model = read();
  model.needs_shapes = true;
  return model;
}

EngineInfo engine_info_of(const ImportedModel& model, const std::string& path) {
  EngineInfo info;
  info.model_name = model.graph.name;
  info.model_sha256 = model.sha256;
  info.source_sha256 = model.source_sha256;
  info.source_path = path;
  info.producer = model.producer;
  info.notes = model.notes;
  info.preprocess = carried_preprocess(model, path);
  return info;
}

static std::shared_ptr<Engine> build_in_memory(const ModelSource& source, ImportedModel read,
                                               const BuildOptions& options) {
  EngineInfo info = engine_info_of(read, source.path);
  return build_engine(std::move(read.graph), std::move(info), options);
}

std::shared_ptr<Engine> build_engine(const ModelSource& source, const BuildOptions& asked) {
  if (source.is_file()) return build_engine(source.path, asked);
  const BuildOptions options = begun(asked);
  return build_in_memory(source, source.import(options.limits, options.shapes), options);
}

std::shared_ptr<Engine> build_engine(const ModelSource& source, ImportedModel read, const BuildOptions& asked) {
  if (source.is_file()) return build_engine(std::move(read), source.path, asked);
  return build_in_memory(source, std::move(read), begun(asked));
}

}  // namespace temper
