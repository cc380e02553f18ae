// SPDX-License-Identifier: Apache-2.0
// Chooses the names of TensorRT 8.6: its folder stands in front of that of the headers.
#pragma once
#define TEMPER_NVINFER_API 806
