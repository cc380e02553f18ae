// SPDX-License-Identifier: Apache-2.0
// An output in the memory of a GPU, which others take by DLPack.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>

#include "arrays.h"
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

// What goes, with its last owner, in such a way.
template <class T>
std::shared_ptr<T> keeping_current_gpu(std::shared_ptr<T> owned) {
  T* const address = owned.get();
  return std::shared_ptr<T>(address, [owned = std::move(owned)](T*) mutable {
    const KeepCurrentGpu kept;
    owned.reset();
  });
}

void bind_device_array(nanobind::module_& module);

}  // namespace temper::python
