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

void bind_device_array(nanobind::module_& module);

}  // namespace temper::python
