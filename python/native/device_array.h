// SPDX-License-Identifier: Apache-2.0
// An output in the memory of a GPU, which others take by DLPack.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>

#include "arrays.h"

namespace temper::python {

// Written already: it may be read on any stream at once.
struct DeviceArray {
  DType dtype = DType::f32;
  Dims dims;
  std::shared_ptr<void> memory;
  Place place;
};

// A thread has a current GPU, by which PyTorch and others go; work on another one changes that. While this lives it
// may: afterwards the thread has the one it had before.
class KeepCurrentGpu {
 public:
  explicit KeepCurrentGpu(bool of_gpu = true);  // false: nothing is done
  ~KeepCurrentGpu();
  KeepCurrentGpu(const KeepCurrentGpu&) = delete;

 private:
  bool keeps_;
  void* before_ = nullptr;  // its context
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
