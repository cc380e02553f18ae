// SPDX-License-Identifier: Apache-2.0
// Engines and sessions as Python holds them, with their state of being open or closed.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include "arrays.h"
#include "optimize/model_source.h"
#include "runtime/engine.h"
#include "tune/cache.h"

namespace temper::python {

// An engine that can be closed: sessions share this, so that they know.
struct OpenEngine {
  std::shared_ptr<const Engine> engine;               // null: closed
  const std::shared_ptr<const Engine>& get() const {  // throws Error{usage} where it is closed
    if (!engine) fail(ErrorKind::usage, "the engine is closed");
    return engine;
  }
};
struct PyEngine {
  std::shared_ptr<OpenEngine> open;
  const std::shared_ptr<const Engine>& get() const { return open->get(); }
};

// Measured times in memory, as Python holds them.
struct Timings {
  std::shared_ptr<SharedTimingCache> cache;
};

// What Python gets of an engine. The GIL need not be held.
PyEngine opened(std::shared_ptr<const Engine> engine);

// A path, the bytes of an ONNX model, or a graph.
ModelSource source_of(nanobind::handle model);

// The fields of `options`, a dict with the names of temper.build's arguments; what it lacks keeps its default.
BuildOptions options_of(nanobind::dict options);

}  // namespace temper::python
