// SPDX-License-Identifier: Apache-2.0
// The properties of GPUs that tests choose and compile kernels for where none is open.
#pragma once
#include <type_traits>

#include "backends/cuda/recipe.h"

namespace temper::testing {

static_assert(!std::is_default_constructible_v<cuda::GpuProperties>, "the caller says which GPU it is");

// Of an H100 SXM, and of an H200.
inline const cuda::GpuProperties kH100(
    {.major = 9, .minor = 0, .sms = 132, .l2_bytes = 50 << 20, .shared_per_block = 227 << 10});
inline const cuda::GpuProperties kA100(
    {.major = 8, .minor = 0, .sms = 108, .l2_bytes = 40 << 20, .shared_per_block = 163 << 10});
// Of a T4.
inline const cuda::GpuProperties kTuring(
    {.major = 7, .minor = 5, .sms = 40, .l2_bytes = 4 << 20, .shared_per_block = 64 << 10});

// As `gpu`, with another number of SMs.
inline cuda::GpuProperties with_sms(int sms, cuda::GpuProperties gpu = kH100) {
  gpu.sms = sms;
  return gpu;
}

}  // namespace temper::testing
