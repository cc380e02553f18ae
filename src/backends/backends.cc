// SPDX-License-Identifier: Apache-2.0
// THE backend list.
#include "backends/backend.h"

namespace temper {

extern const Backend reference_backend, cpu_backend;

static const Backend* const backends[] = {&cpu_backend, &reference_backend};

std::span<const Backend* const> all_backends() { return backends; }

const Backend& find_backend(std::string_view name) {
  for (const Backend* backend : backends)
    if (backend->name == name) return *backend;
  std::string known;
  for (const Backend* backend : backends) known += concat(known.empty() ? "" : ", ", backend->name);
  fail(ErrorKind::usage, "there is no device '", name, "'; this build has: ", known);
}

const Tactic* find_tactic(std::string_view name) {
  for (const Backend* backend : backends)
    for (const Tactic* tactic : backend->tactics())
      if (tactic->name == name) return tactic;
  return nullptr;
}

std::string timing_group(const Device& device, const Problem& problem, int chains) {
  return concat(device.fingerprint, " | ", problem.text(), " chains=", chains);
}

std::string timing_key(const std::string& group, const Tactic& tactic, const Config& config) {
  std::string key = concat(group, " | ", tactic.name, " v", tactic.version, ' ', config.text);
  for (Layout layout : config.inputs) key += concat(' ', layout);
  key += " ->";
  for (Layout layout : config.outputs) key += concat(' ', layout);
  return key;
}

std::string Problem::text() const {
  std::string out = concat(name_of(op), '(');
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i) out += ", ";
    out += inputs[i].present ? concat(inputs[i].type, inputs[i].is_constant ? "*" : inputs[i].no_negatives ? "+" : "") : "_";
  }
  out += ')';
  if (const std::string fields = fields_text(op); !fields.empty()) out += ' ' + fields;
  out += " ->";
  for (const Port& output : outputs) out += concat(' ', output.type);
  return out + concat(" threads=", threads, cold_constants ? " cold" : "");
}

}  // namespace temper
