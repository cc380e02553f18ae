// SPDX-License-Identifier: Apache-2.0
// Inputs of a case with some elements replaced, for tests of NaN and infinity.
#pragma once
#include <cstring>

#include "bench/cases.h"

namespace temper::testing {

// One element for each of `values`, at places that differ between inputs; constants and integers stay.
inline std::vector<Tensor> put_values(const std::vector<Tensor>& inputs, const KernelCase& kernel_case,
                                      const std::vector<double>& values) {
  std::vector<Tensor> changed = inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !is_float(inputs[i].dtype()) || kernel_case.inputs[i].constant ||
        inputs[i].count() == 0)
      continue;
    Tensor own(inputs[i].dtype(), inputs[i].dims());
    std::memcpy(own.raw_mutable(), inputs[i].raw().data(), size_t(own.bytes()));
    visit_dtype(own.dtype(), [&]<class T>() {
      if constexpr (is_float(dtype_of<T>))
        for (size_t v = 0; v < values.size(); ++v)
          own.data<T>()[(int64_t(v) * 2654435761 + int64_t(i) * 977 + own.count() / 3) % own.count()] = T(values[v]);
    });
    changed[i] = own;
  }
  return changed;
}

}  // namespace temper::testing
