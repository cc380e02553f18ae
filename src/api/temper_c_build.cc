// SPDX-License-Identifier: Apache-2.0
// The part of the public C API that builds plans; it is in temper_build, with the importer.
#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>

#include "api/handle.h"
#include "base/log.h"
#include "optimize/build_engine.h"

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
  if (from->memory_limit > 0) options.memory_limit = from->memory_limit;
  if (from->shape_count) expect(from->shapes, "the list of shapes");
  for (size_t i = 0; i < from->shape_count; ++i) {
    const temper_shape_range& range = from->shapes[i];
    expect(range.input, concat("the input of shape range ", i));
    if (range.rank > size_t(kMaxRank))
      fail(ErrorKind::usage, "the shape range of '", range.input, "' has ", range.rank, " dimensions");
    const auto dims = [&](const int64_t* list, std::string_view which) {
      if (range.rank) expect(list, concat(which, " of the shape range of '", range.input, "'"));
      return Dims(list, list + range.rank);
    };
    options.shapes[range.input] = {dims(range.min, "min"), dims(range.opt, "opt"), dims(range.max, "max")};
  }
  return options;
}

}  // namespace
}  // namespace temper::c_api

extern "C" temper_status temper_engine_build(const char* onnx_path, const temper_build_options* options,
                                             temper_engine** engine) {
  using namespace temper;
  return c_api::guarded([&] {
    c_api::expect(onnx_path, "the path of the model");
    c_api::expect(engine, "the place for the engine");
    BuildOptions build = c_api::build_options(options);
    build.command = concat("temper_engine_build(\"", onnx_path, "\")");
    std::shared_ptr<const Engine> built = build_engine(onnx_path, build);
    for (const std::string& note : built->info().notes) log(LogLevel::warning, onnx_path, ": ", note);
    *engine = new temper_engine(std::move(built));
  });
}
