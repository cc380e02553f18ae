// SPDX-License-Identifier: Apache-2.0
#include "cli/profile_flags.h"

#include "cli/data_flags.h"

namespace temper::cli {

void ProfileFlags::add_to(Command& verb) {
  add_input_flag(verb, inputs, "; random numbers for the others");
  verb.add_option("--batch", batch, "batch size to run; by default the one that the plan is tuned for")
      .check(whole_number(1));
  verb.add_option("--duration", duration, "time to run the plan for, after the warm-up").capture_default_str();
  add_cuda_path(verb, cuda_path);
  add_isa_flag(verb);
  verb.add_option("--timing-cache", timing_cache,
                  "file that keeps the measured peaks of the machine; by default one in the cache folder");
}

ProfileSettings ProfileFlags::settings(ProgressLine& progress) const {
  return {batch, seconds_of(duration), timing_cache, cuda_path, progress.callback(), {inputs}};
}

}  // namespace temper::cli
