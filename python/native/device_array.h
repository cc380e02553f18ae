// SPDX-License-Identifier: Apache-2.0
// An output in the memory of a GPU, which others take by DLPack.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>

#include "arrays.h"
#include "guard.h"
#include "runtime/keep_current_gpu.h"

namespace temper::python {

// Written already: it may be read on any stream at once.
struct DeviceArray {
  DType dtype = DType::f32;
  Dims dims;
  std::shared_ptr<void> memory;
  Place place;
  std::shared_ptr<const Engine> engine;  // that wrote it
};

// Lets go of what lies on a GPU; the thread's current GPU stays. Where the interpreter ends, all of it is left to the
// end of the process: the program's own CUDA context, in which it may lie, may be gone by then. pycuda.autoinit
// destroys its context at exit, before modules let go of what they hold, and freeing anything of it then breaks the
// driver's heap.
//
// What is let go may itself own such objects: a session is often an engine's last owner. Only the outermost call puts
// the current context back, as in an inner one that is the GPU's own, which ends with the engine.
inline thread_local int letting_go = 0;
template <class Owner>
void let_go_on_gpu(Owner& owner) {
  if (is_ending()) {
    new Owner(std::move(owner));
    return;
  }
  const KeepCurrentGpu kept(letting_go == 0);
  ++letting_go;
  owner.reset();
  --letting_go;
}

// What goes, with its last owner, in such a way.
template <class T>
std::shared_ptr<T> keeping_current_gpu(std::shared_ptr<T> owned) {
  T* const address = owned.get();
  return std::shared_ptr<T>(address, [owned = std::move(owned)](T*) mutable { let_go_on_gpu(owned); });
}

void bind_device_array(nanobind::module_& module);

}  // namespace temper::python
