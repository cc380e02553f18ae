// SPDX-License-Identifier: Apache-2.0
// The release of TensorRT whose names these headers have: 8.6, unless TEMPER_NVINFER_API says 1013 or 1101.
#pragma once
#ifdef __has_include
#if !defined(TEMPER_NVINFER_API) && __has_include(<temper_nvinfer_api.h>)
#include <temper_nvinfer_api.h>
#endif
#endif
#ifndef TEMPER_NVINFER_API
#define TEMPER_NVINFER_API 806
#endif

#define NV_TENSORRT_BUILD 0
#if TEMPER_NVINFER_API == 806
#define NV_TENSORRT_MAJOR 8
#define NV_TENSORRT_MINOR 6
#define NV_TENSORRT_PATCH 1
#define NV_TENSORRT_VERSION 8601
#elif TEMPER_NVINFER_API == 1013
#define NV_TENSORRT_MAJOR 10
#define NV_TENSORRT_MINOR 13
#define NV_TENSORRT_PATCH 3
#define NV_TENSORRT_VERSION 101303
#elif TEMPER_NVINFER_API == 1101
#define NV_TENSORRT_MAJOR 11
#define NV_TENSORRT_MINOR 1
#define NV_TENSORRT_PATCH 0
#define NV_TENSORRT_VERSION 110100
#else
#error "TEMPER_NVINFER_API is 806, 1013 or 1101"
#endif
