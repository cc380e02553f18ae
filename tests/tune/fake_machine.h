// SPDX-License-Identifier: Apache-2.0
// A machine whose clock and load a test decides: no time is real.
#pragma once
#include "measure/instruments.h"

namespace temper {

struct FakeMachine final : Clock, LoadSource {
  double others = 0;    // cores that others use
  double call_ms = 1;   // what every call takes, as the clock says
  double step_ms = 60;  // wall time that passes with each measurement
  int measurements = 0;
  bool runs_bodies = true;

  double now_ms() override { return wall_ms_; }
  double elapsed_ms(const std::function<void()>& body, int calls) override {
    if (runs_bodies) body();
    ++measurements;
    pass(step_ms);
    return call_ms * calls;
  }
  std::optional<double> busy_seconds() override { return busy_; }
  double own_seconds() override { return own_; }
  void wait(double ms) override {
    pass(ms);
    own_ -= ms / 1e3;  // who sleeps uses no core
    busy_ -= ms / 1e3;
  }
  Instruments instruments() { return {this, this}; }

 private:
  double wall_ms_ = 0, busy_ = 0, own_ = 0;
  void pass(double ms) {
    wall_ms_ += ms;
    own_ += ms / 1e3;
    busy_ += (1 + others) * ms / 1e3;
  }
};

}  // namespace temper
