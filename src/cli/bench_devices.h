// SPDX-License-Identifier: Apache-2.0
// `temper bench` with a list of devices: each alone beside all of them together.
#pragma once
#include <string>
#include <vector>

#include "cli/model.h"
#include "cli/verb.h"
#include "data/given_inputs.h"

namespace temper::cli {

struct DevicesBench {
  std::vector<std::string> paths, devices;  // plans or models; the list (parse_devices)
  ModelFlags flags;                         // `device` is the first of the list
  std::vector<int64_t> batches;
  InputRequest inputs;
  double seconds = 3;           // for each device alone, and for all
  int streams = 2;              // of each GPU, with transfers
  bool transfers_only = false;  // false: also with inputs on the device, where they can stay there
  std::string json_file;        // "-": standard output, instead of the table
  bool force = false;
};
void bench_devices(const DevicesBench& options, const Context& context);

}  // namespace temper::cli
