// SPDX-License-Identifier: Apache-2.0
#include "bench/compare_engines.h"

namespace temper {

std::vector<std::string> engine_differences(const Engine& a, const Engine& b) {
  std::vector<std::string> list;
  const EngineInfo &x = a.info(), &y = b.info();
  if (x.device != y.device) list.push_back(concat("device: ", x.device, " and ", y.device));
  if (a.threads() != b.threads()) list.push_back(concat("threads: ", a.threads(), " and ", b.threads()));
  if (x.source_sha256 != y.source_sha256)
    list.push_back(concat("model: ", x.source_path, " (", x.source_sha256.substr(0, 12), ") and ", y.source_path, " (",
                          y.source_sha256.substr(0, 12), ")"));
  return list;
}

void check_same_inputs(const Engine& a, const Engine& b) {
  const std::vector<PortInfo>&x = a.inputs(), &y = b.inputs();
  bool same = x.size() == y.size();
  for (size_t i = 0; same && i < x.size(); ++i) same = x[i].name == y[i].name && x[i].type.dtype == y[i].type.dtype;
  if (!same) fail(ErrorKind::unsupported, "they take different inputs, so their times do not compare");
}

}  // namespace temper
