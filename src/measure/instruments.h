// SPDX-License-Identifier: Apache-2.0
// The clock and the load source that a measurement uses; tests pass their own.
#pragma once
#include "measure/clock.h"
#include "measure/load_watch.h"

namespace temper {

// The instruments that times are taken with. Tests pass their own clock and load.
struct Instruments {
  Clock* clock = &host_clock();
  LoadSource* load = &host_load();
};

}  // namespace temper
