// SPDX-License-Identifier: Apache-2.0
// The objects behind the handles of the C API, and the way an exception becomes a status and a message of the calling
// thread.
#pragma once
#include <new>
#include <string_view>

#include "runtime/engine.h"
#include "runtime/keep_current_gpu.h"
#include "temper/temper_c.h"

namespace temper::c_api {

// Keeps a copy for temper_last_error() of this thread.
void remember_error(const char* message) noexcept;

// Thrown where the caller's callback asks for the end.
struct Cancelled : std::exception {};

template <class Body>
temper_status guarded(Body&& body) noexcept {
  try {
    body();
    return TEMPER_OK;
  } catch (const Error& error) {
    remember_error(error.what());
    return temper_status(error.kind());
  } catch (const Cancelled&) {
    remember_error("it was ended by the caller's function");
    return TEMPER_CANCELLED;
  } catch (const std::bad_alloc&) {
    remember_error("out of memory");
    return TEMPER_MACHINE;
  } catch (const std::exception& error) {  // of a library underneath, with no kind of its own
    remember_error(error.what());
    return TEMPER_MACHINE;
  }
}

// One run's inputs, in the engine's order, where they lie; the engine checks their shapes. Throws Error{usage}.
std::vector<Tensor> tensors_of(const Engine& engine, const temper_tensor* inputs);

// Whether work on a device of this name may change the current GPU of the thread.
inline bool is_gpu(std::string_view device) { return device.starts_with("cuda"); }

inline void expect(const void* pointer, std::string_view what) {
  if (!pointer) fail(ErrorKind::usage, what, " is NULL");
}

struct Port {
  std::string name;
  temper_dtype dtype;
  Dims dims;  // -1: open
};

}  // namespace temper::c_api

struct temper_engine {
  explicit temper_engine(std::shared_ptr<const temper::Engine> built);
  std::shared_ptr<const temper::Engine> engine;
  std::vector<temper::c_api::Port> inputs, outputs;
  std::vector<std::vector<temper::ShapeRange>> profiles;  // by input
  std::vector<std::vector<temper::c_api::Port>> buckets;  // the same, of the plans that it was made of
  bool of_gpu() const { return temper::c_api::is_gpu(engine->info().device); }
};

struct temper_bytes {
  std::string bytes;
};
