// SPDX-License-Identifier: Apache-2.0
// Samples as Python gives them: a path or arrays, and how pictures become inputs.
#pragma once
#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "arrays.h"
#include "evaluate/data_model.h"

namespace temper::python {

// Reads what a dict holds; what it lacks, or holds None for, stays.
template <class T>
void read(const nanobind::dict& options, const char* name, T& value) {
  if (options.contains(name) && !options[name].is_none()) value = nanobind::cast<T>(options[name]);
}

// The samples that are asked for. Arrays stay where they are, and are kept alive here.
struct PyData {
  DataRequest request;
  std::vector<Array> arrays;
};
PyData data_of(const nanobind::dict& given);

// An engine, the path of a plan, or a model that is built as these options say.

DataModel data_model_of(nanobind::handle given, const BuildOptions& build);

}  // namespace temper::python
