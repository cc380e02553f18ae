// SPDX-License-Identifier: Apache-2.0
#include "cli/profiled.h"

#include "bench/bench_engine.h"
#include "plan/file.h"

namespace temper::cli {

void add_profile_flags(CLI::App& verb, ProfileFlags& flags) {
  verb.add_option("--batch", flags.batch, "what the plan is tuned for, unless given")->check(CLI::PositiveNumber);
  verb.add_option("--duration", flags.duration, "time of running, after the warm-up")->capture_default_str();
  verb.add_option("--timing-cache", flags.timing_cache,
                  "file that keeps the machine's peaks; the default is in the cache folder");
}

ProfiledPlan profile_plan(const std::string& path, const ProfileFlags& flags, Progress& progress) {
  ProfiledPlan done;
  done.engine = std::make_shared<const Engine>(read_plan_file(path, {.candidates = true}));
  done.shapes = shapes_for_batch(*done.engine, flags.batch);
  TimingCache cache(flags.timing_cache.empty() ? default_timing_cache() : flags.timing_cache);
  progress.show("peaks of this machine");
  done.peaks = known_peaks(done.engine->device(), done.engine->threads(), cache);
  cache.save();
  progress.show(concat(path, ": running step by step"));
  done.profile = profile_engine(done.engine, done.shapes, done.peaks, seconds_of(flags.duration));
  return done;
}

}  // namespace temper::cli
