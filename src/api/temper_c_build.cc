// SPDX-License-Identifier: Apache-2.0
// The part of the public C API that builds plans; it is in temper_build, with the importer.
#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <tuple>

#include "api/handle.h"
#include "base/log.h"
#include "optimize/model_source.h"
#include "tune/cache.h"

struct temper_timings {
  std::shared_ptr<temper::SharedTimingCache> cache;
};

namespace temper::c_api {
namespace {

// The program that lies where libtemper was installed with it, or beside this one; nothing elsewhere. What answers
// there says of itself which version it is.
std::vector<std::string> timing_helper() {
  Dl_info here{};
  if (!dladdr(reinterpret_cast<const void*>(&temper_engine_build), &here) || !here.dli_fname) return {};
  std::error_code error;
  const auto folder = std::filesystem::canonical(here.dli_fname, error).parent_path();
  if (error) return {};
  for (const auto& path : {folder / "temper", folder.parent_path() / "bin" / "temper"})
    if (std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0)
      return {path.string(), kServeTimings};
  return {};
}

std::map<std::string, ShapeRange> ranges_of(const temper_shape_range* list, size_t count, std::string_view of) {
  std::map<std::string, ShapeRange> ranges;
  if (count) expect(list, concat("the list of ", of));
  for (size_t i = 0; i < count; ++i) {
    const temper_shape_range& range = list[i];
    expect(range.input, concat("the input of shape range ", i));
    if (range.rank > size_t(kMaxRank))
      fail(ErrorKind::usage, "the shape range of '", range.input, "' has ", range.rank, " dimensions");
    const auto dims = [&](const int64_t* from, std::string_view which) {
      if (range.rank) expect(from, concat(which, " of the shape range of '", range.input, "'"));
      return Dims(from, from + range.rank);
    };
    ranges[range.input] = {dims(range.min, "min"), dims(range.opt, "opt"), dims(range.max, "max")};
  }
  return ranges;
}

BuildOptions build_options(const temper_build_options* from) {
  BuildOptions options;
  options.timing_helper = timing_helper();
  if (!from) return options;
  if (from->device) options.device = from->device;
  if (from->precision) options.precision = from->precision;
  if (from->calibration) options.calibration = from->calibration;
  if (from->timing_cache) options.timing_cache = from->timing_cache;
  if (from->threads < 0) fail(ErrorKind::usage, "threads is ", from->threads, "; 0 means all that the process may use");
  options.threads = from->threads;
  if (from->memory_limit < 0)
    fail(ErrorKind::usage, "memory_limit is ", from->memory_limit, "; 0 means by the model's size");
  if (from->memory_limit > 0) options.limits.memory = from->memory_limit;
  for (const auto& [name, given, limit] : {std::tuple{"node_limit", from->node_limit, &options.limits.nodes},
                                           {"depth_limit", from->depth_limit, &options.limits.depth},
                                           {"loop_limit", from->loop_limit, &options.limits.iterations}}) {
    if (given < 0) fail(ErrorKind::usage, name, " is ", given, "; 0 means ", *limit);
    if (given > 0) *limit = given;
  }
  if (!(from->time_limit >= 0)) fail(ErrorKind::usage, "time_limit is ", from->time_limit, "; 0 means 120 seconds");
  if (from->time_limit > 0) options.time_limit = from->time_limit;
  if (!(from->build_limit >= 0))
    fail(ErrorKind::usage, "build_limit is ", from->build_limit, "; 0 means as long as it takes");
  if (from->build_limit > 0) options.limits.time = BuildTime(from->build_limit);
  options.shapes = ranges_of(from->shapes, from->shape_count, "shapes");
  if (from->profile_count) expect(from->profiles, "the list of profiles");
  for (size_t i = 0; i < from->profile_count; ++i)
    options.profiles.push_back(
        ranges_of(from->profiles[i].shapes, from->profiles[i].shape_count, concat("shapes of profile ", i)));
  if (from->timings && from->timing_cache)
    fail(ErrorKind::usage, "timing_cache and timings are given: give one of them");
  if (from->timings) options.timings = from->timings->cache;
  options.device_settings.cuda_context = from->cuda_context;
  options.measure = !from->no_measure;
  if (from->preprocess) options.preprocess[""] = from->preprocess;
  if (from->input_pictures) options.input_pictures = {""};
  if (from->progress)
    options.progress = [tell = from->progress, context = from->progress_context](const ProgressStep& step) {
      if (tell(text_of(step).c_str(), context)) throw Cancelled();
    };
  return options;
}

// `name`: of the model, for messages and the command that the plan keeps.
std::shared_ptr<const Engine> build(const ModelSource& model, const std::string& name,
                                    const temper_build_options* options) {
  BuildOptions build = build_options(options);
  build.command = concat("temper_engine_build(\"", name, "\")");
  const KeepCurrentGpu kept(is_gpu(build.device));
  std::shared_ptr<const Engine> built = build_engine(model, build);
  for (const std::string& note : built->info().notes) log(LogLevel::warning, name, ": ", note);
  return built;
}

}  // namespace
}  // namespace temper::c_api

extern "C" {

using temper::ErrorKind;
using temper::c_api::expect;
using temper::c_api::guarded;

temper_status temper_engine_build(const char* onnx_path, const temper_build_options* options, temper_engine** engine) {
  return guarded([&] {
    expect(onnx_path, "the path of the model");
    expect(engine, "the place for the engine");
    *engine = new temper_engine(temper::c_api::build({onnx_path, "", {}}, onnx_path, options));
  });
}

temper_status temper_engine_build_bytes(const void* onnx, size_t size, const temper_build_options* options,
                                        temper_engine** engine) {
  return guarded([&] {
    expect(onnx, "the model");
    expect(engine, "the place for the engine");
    if (!size) fail(ErrorKind::bad_file, "the model has no bytes");
    *engine = new temper_engine(
        temper::c_api::build({"<bytes>", {static_cast<const char*>(onnx), size}, {}}, "<bytes>", options));
  });
}

temper_status temper_timings_create(const void* bytes, size_t size, temper_timings** timings) {
  return guarded([&] {
    expect(timings, "the place for the timings");
    if (size) expect(bytes, "the bytes of the timings");
    temper::TimingCache cache;
    if (size) cache = temper::TimingCache::of_text({static_cast<const char*>(bytes), size});
    *timings = new temper_timings{std::make_shared<temper::SharedTimingCache>(std::move(cache))};
  });
}

void temper_timings_free(temper_timings* timings) { delete timings; }

temper_status temper_timings_add(temper_timings* timings, const temper_timings* other) {
  return guarded([&] {
    expect(timings, "the timings");
    expect(other, "the other timings");
    timings->cache->add_all(other->cache->now());
  });
}

temper_status temper_timings_save_bytes(const temper_timings* timings, temper_bytes** bytes) {
  return guarded([&] {
    expect(timings, "the timings");
    expect(bytes, "the place for the bytes");
    *bytes = new temper_bytes{timings->cache->now().text()};
  });
}

}  // extern "C"
