// SPDX-License-Identifier: Apache-2.0
#include "optimize/caches_in.h"

#include <algorithm>
#include <set>

#include "base/bytes.h"
#include "graph/caches.h"
#include "optimize/precision.h"
#include "passes/keep_caches.h"

namespace temper {

Graph take_caches(const Graph& graph, EngineInfo& info, BuildOptions& options) {
  if (!options.profiles.empty())
    fail(ErrorKind::usage, "profiles are given together with a cache: give shapes of input_ids");
  if (options.precision == kBestPrecision)
    fail(ErrorKind::unsupported, "--precision best together with --cache: name a precision, which the cache has, too");
  const auto parts = parts_of(options.precision);
  if (!parts) fail(ErrorKind::unsupported, "there is no precision '", options.precision, "'");
  if (parts->bytes && (options.is_calibrated() || options.placement.activation_scales != ActivationScales::token))
    fail(ErrorKind::unsupported, "--precision ", options.precision,
         " with ranges together with --cache: ranges are of a model without caches; int8 goes with it by "
         "--activation-scales token alone, which needs none");
  CacheOptions cache{options.cache, parts->half.value_or(DType::f32), {}};
  Graph made = keep_caches(graph, cache, options.passes.dumped_into("caches"));

  ShapeRange tokens{{1, 1}, {1, 1}, {1, std::min<int64_t>(512, options.cache)}};
  std::set<int64_t> sizes{1};
  for (const auto& [name, range] : options.shapes) {
    if (name != caches::kTokens && !name.empty())
      fail(ErrorKind::usage, "--shapes ", name, " together with --cache: only those of ", caches::kTokens,
           " are said, as --shapes ", caches::kTokens, "=1x1:1x32:1x512");
    if (range.opt.size() != 2 || range.min[0] != range.max[0] || range.max[1] > options.cache || range.min[1] < 1)
      fail(ErrorKind::usage, "--shapes ", caches::kTokens, "=", range.min, ":", range.opt, ":", range.max,
           " together with a cache of ", options.cache, ": it is BATCHxTOKENS, of one batch and 1 to ", options.cache,
           " tokens");
    tokens = range;
    tokens.min[1] = 1;
    sizes.insert({range.opt[1], range.max[1]});
  }
  if (options.shapes.empty())
    for (const int64_t size : {8, 32, 128, 512}) sizes.insert(std::min<int64_t>(size, options.cache));
  options.shapes.clear();
  int64_t bytes = 0;
  for (const int64_t size : sizes) {
    auto& profile = options.profiles.emplace_back();
    const Shape shape = [&] {
      for (const ValueId id : made.inputs())
        if (made.value(id).name == caches::kTokens) return made.type(id).shape;
      return Shape{};
    }();
    const auto at = [&](const TensorType& type, int64_t count) {
      const Bindings sizes_of{{shape.at(0).text(), tokens.opt[0]}, {shape.at(1).text(), count}};
      Dims dims;
      for (const Dim& dim : type.shape) dims.push_back(dim.substitute(sizes_of).value());
      return dims;
    };
    for (const ValueId id : made.inputs()) {
      const TensorType& type = made.type(id);
      profile[made.value(id).name] = {at(type, tokens.min[1]), at(type, size), at(type, tokens.max[1])};
      if (size == 1 && type.dtype == cache.dtype) bytes += byte_count(type.dtype, at(type, 1));
    }
  }
  info.notes.push_back(concat("keeps keys and values in caches of ", options.cache, " positions in ", cache.dtype, ": ",
                              format_bytes(bytes), " for each session"));
  return made;
}

}  // namespace temper
