// SPDX-License-Identifier: Apache-2.0
// Measures how much more several devices do than each of them alone, in turns within one run.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "bench/table.h"
#include "data/given_inputs.h"
#include "measure/statistics.h"
#include "runtime/pool.h"

namespace temper {

struct ScalingOptions {
  double seconds = 3;  // of measuring each device alone, and as many of all together; warming up comes on top
  int rounds = 8;      // turns of each, over which medians are taken
  // Where inputs and outputs are. False: in the memory of the device, and nothing is copied; for GPUs alone. True: in
  // the host's, pinned and beside the device, where a run takes them from and brings them to.
  bool transfers = false;
  int streams = 2;  // sessions of each GPU whose runs overlap, where there are transfers
  Progress progress;
};

struct Scaling {
  struct OnDevice {
    std::string device;
    std::vector<double> alone, together;  // items a second, by round
  };
  std::vector<OnDevice> devices;  // in the order given
  std::string inputs;             // "on the device", "in pinned memory of the host", "in the host's memory"
  int streams = 1;                // sessions of each device
  double seconds = 0;             // that each turn was measured
  int64_t items = 1;              // of one run: the batch
  std::vector<std::string> notes;

  // By round: the devices alone, added up, and all of them together.
  std::vector<double> sums() const;
  std::vector<double> together() const;
  // The share of the sum that is left when all run together: 1 where they do not disturb each other. The median over
  // the rounds, each of which has both, and its 95 % interval (absent below six rounds).
  double of_sum() const;
  std::optional<Interval> of_sum_interval() const;
  // How many times as much all do together as one of them does alone, on average.
  double times_one() const { return of_sum() * double(devices.size()); }
};

// Runs each engine on its device (engines_on) on seeded random numbers, or what is given, of these shapes: alone one
// after the other, then all at the same time, and in the next round the other way round. Each device has a thread,
// which stays on the cores beside it; only what every device runs meanwhile is counted. Throws Error{usage} for fewer
// than two engines, for options that are out of range, and without `transfers` for devices that work on the host's
// memory; Error{unsupported}, without them, for a model whose shapes depend on data; what a run throws, with the
// device's name.
Scaling measure_scaling(const Engines& engines, const std::vector<Dims>& shapes, const ScalingOptions& options,
                        const GivenInputs& given = {});
// Whether inputs may stay on all of the devices: they have memory of their own, and one plan is enough.
bool can_stay_on(const Engines& engines, const std::vector<Dims>& shapes);

std::string text_of(const Scaling& scaling);     // the words above the table
Table table_of(const Scaling& scaling);          // a row for each device, then one for all
std::string verdict_of(const Scaling& scaling);  // below it: "together 98.9 % of the sum of singles (...): ..."
nlohmann::ordered_json json_of(const Scaling& scaling);

}  // namespace temper
