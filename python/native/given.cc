// SPDX-License-Identifier: Apache-2.0
#include "given.h"

#include "base/log.h"
#include "bind.h"
#include "data/not_finite.h"

namespace nb = nanobind;

namespace temper::python {

Given given_inputs(nb::handle inputs, const Engine& engine) {
  if (inputs.is_none()) return {};
  std::vector<PortInfo> ports = engine.inputs();
  if (nb::isinstance<nb::dict>(inputs)) {
    const auto names = nb::borrow<nb::dict>(inputs);
    const auto left_out = [&](const PortInfo& port) { return !names.contains(port.name.c_str()); };
    std::vector<PortInfo> named = ports;
    std::erase_if(named, left_out);
    if (named.size() == nb::len(names)) ports = std::move(named);  // otherwise a name is wrong, and is told so
  }
  Given given;
  given.arrays = arrays_of(inputs, ports);
  NotFinite broken;
  int64_t samples = 0;
  for (size_t i = 0; i < given.arrays.size(); ++i) {
    const Array& array = given.arrays[i];
    given.tensors.emplace(ports[i].name, array.tensor());
    std::vector<std::string> names;
    for (int64_t s = 0; !array.dims.empty() && s < array.dims[0]; ++s) names.push_back(concat(s));
    samples = std::max(samples, int64_t(names.size()));
    if (!array.on_device) broken.look(concat("the input '", ports[i].name, "'"), array.tensor(), names);
  }
  for (const std::string& warning : broken.warnings(samples)) log(LogLevel::warning, warning);
  return given;
}

}  // namespace temper::python
