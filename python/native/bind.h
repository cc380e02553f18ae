// SPDX-License-Identifier: Apache-2.0
// The parts of the module, one file each, and the casters: each file must see all of them, or two definitions meet.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

namespace temper::python {

void bind_bench(nanobind::module_& module);
void bind_calibrate(nanobind::module_& module);
void bind_device_array(nanobind::module_& module);
void bind_engine(nanobind::module_& module);
void bind_evaluate(nanobind::module_& module);
void bind_generate(nanobind::module_& module);
void bind_graph(nanobind::module_& module);
void bind_log(nanobind::module_& module);
void bind_nvinfer(nanobind::module_& module);
void bind_pool(nanobind::module_& module);
void bind_reports(nanobind::module_& module);
void bind_samples(nanobind::module_& module);
void bind_session(nanobind::module_& module);

// A text of Temper's, or bytes, as Python's bytes.
inline nanobind::bytes bytes_of(const std::string& text) { return nanobind::bytes(text.data(), text.size()); }

}  // namespace temper::python
