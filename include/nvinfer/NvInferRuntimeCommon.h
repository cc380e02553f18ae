// SPDX-License-Identifier: Apache-2.0
// The name by which programs of 8.x include what the headers share.
#pragma once
#include "NvInferRuntimeBase.h"
