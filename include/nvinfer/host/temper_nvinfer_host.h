// SPDX-License-Identifier: Apache-2.0
// Says that the stand-in for the CUDA runtime was asked for: its folder is searched. NvInfer.h then takes it wherever
// the CUDA runtime's own headers lie.
#pragma once
#if defined(__CUDA_RUNTIME_API_H__) && !defined(TEMPER_HOST_CUDA)
#error "CUDA's own cuda_runtime_api.h came before NvInfer.h: without a GPU leave its folder out (-I), or --device cpu"
#endif
#include "cuda_runtime.h"
