// SPDX-License-Identifier: Apache-2.0
#include "data/not_finite.h"

#include <algorithm>
#include <cmath>

namespace temper {
namespace {

// x - x is 0 for every finite x and NaN otherwise: one pass that vectorises, for what nearly always is in order.
template <class T>
bool all_finite(std::span<const T> values) {
  float broken = 0;
  for (T value : values) broken += float(value) - float(value);
  return broken == 0;
}
bool all_finite(std::span<const double> values) {
  double broken = 0;
  for (double value : values) broken += value - value;
  return broken == 0;
}

Dims index_of(int64_t at, std::span<const int64_t> dims) {
  Dims index(dims.size());
  for (size_t axis = dims.size(); axis-- > 0; at /= dims[axis]) index[axis] = at % dims[axis];
  return index;
}

}  // namespace

void NotFinite::look(const std::string& what, const Tensor& tensor, std::span<const std::string> samples) {
  if (!is_float(tensor.dtype()) || tensor.count() == 0) return;
  const bool rows = tensor.rank() > 0 && tensor.dims()[0] == int64_t(samples.size());
  const size_t parts = rows ? samples.size() : 1, size = size_t(tensor.count()) / parts;
  visit_dtype(tensor.dtype(), [&]<class T>() {
    if constexpr (is_float(dtype_of<T>))
      for (size_t s = 0; s < parts; ++s) {
        const std::span<const T> values(tensor.data<T>() + s * size, size);
        if (all_finite(values)) continue;
        const auto broken = [](T value) { return !std::isfinite(double(value)); };
        const auto first = std::find_if(values.begin(), values.end(), broken);
        Found& found = found_[what];
        if (++found.samples == 1) {
          found.sample = rows ? samples[s] : "";
          found.value = std::isnan(double(*first)) ? "NaN" : "infinity";
          found.index = index_of(first - values.begin(), std::span(tensor.dims()).subspan(rows ? 1 : 0));
        }
        found.values += std::count_if(first, values.end(), broken);
      }
  });
}

void NotFinite::join(const std::map<std::string, Found>& next) {
  for (const auto& [what, more] : next) {
    const auto [it, is_new] = found_.emplace(what, more);
    if (is_new) continue;
    it->second.values += more.values;
    it->second.samples += more.samples;
  }
}

std::vector<std::string> NotFinite::warnings(int64_t samples) const {
  std::vector<std::string> texts;
  for (const auto& [what, found] : found_)
    texts.push_back(concat(
        what, " holds ", found.values, found.values == 1 ? " value that is" : " values that are", " NaN or infinite",
        found.sample.empty() ? ""
                             : concat(", in ", found.samples, " of ", samples, samples == 1 ? " sample" : " samples"),
        ", first ", found.value, " at ", found.index,
        found.sample.empty() ? "" : concat(" of sample '", found.sample, "'")));
  return texts;
}

}  // namespace temper
