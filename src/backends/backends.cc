// SPDX-License-Identifier: Apache-2.0
// THE list of backends.
#include <algorithm>

#include "backends/backend.h"
#include "backends/timing_text.h"
#include "base/hash.h"
#include "base/parse.h"

namespace temper {

extern const Backend reference_backend, cpu_backend, cuda_backend;

static const Backend* const backends[] = {&cpu_backend, &cuda_backend, &reference_backend};

std::span<const Backend* const> all_backends() { return backends; }

// "cuda:1" is the backend "cuda" and the ordinal 1; without a number it is the first.
static const Backend& find_backend(std::string_view device, int& ordinal) {
  const size_t colon = device.find(':');
  ordinal = 0;
  for (const Backend* backend : backends) {
    if (backend->name != device.substr(0, colon)) continue;
    if (colon == device.npos) return *backend;
    const auto number = parse_number<int>(device.substr(colon + 1));
    ordinal = number.value_or(0);
    if (backend->queue && number && *number >= 0) return *backend;
  }
  std::string known;
  for (const Backend* backend : backends)
    known += concat(known.empty() ? "" : ", ", backend->name, backend->queue ? ":N" : "");
  const bool several = device.find_first_of(",*") != device.npos;
  fail(ErrorKind::usage, "there is no device '", device, "'; this build has: ", known,
       several ? "; here one device is named: lists are for run, bench, evaluate and study" : "");
}

const Backend& find_backend(std::string_view device) {
  int ordinal;
  return find_backend(device, ordinal);
}

Device open_device(std::string_view device, const DeviceSettings& settings) {
  int ordinal;
  const Backend& backend = find_backend(device, ordinal);
  return backend.device(ordinal, settings);
}

void preload(std::string_view device, std::string_view manifest, const DeviceSettings& settings) {
  int ordinal;
  const Backend& backend = find_backend(device, ordinal);
  if (backend.preload) backend.preload(manifest, ordinal, settings);
}

std::unique_ptr<Queue> open_queue(const Device& device) {
  const Backend& backend = find_backend(device.backend);
  return backend.queue ? backend.queue(device) : nullptr;
}

const Tactic* find_tactic(std::string_view name) {
  for (const Backend* backend : backends)
    for (const Tactic* tactic : backend->tactics())
      if (tactic->name == name) return tactic;
  return nullptr;
}

std::string exact_group(std::string_view fingerprint, const Problem& problem, int chains) {
  return concat(fingerprint, " | ", problem.text(), " chains=", chains);
}

std::string timing_group(std::string_view fingerprint, const Problem& problem, int chains) {
  return without_numbers(exact_group(fingerprint, problem, chains));
}

std::string without_numbers(std::string_view text) {
  constexpr std::string_view kConstant = "=constant.";
  std::string out;
  while (true) {
    const size_t constant = text.find(kConstant), open = text.find('[', constant), close = text.find(']', open);
    if (close == text.npos) return out.append(text);
    out.append(text.substr(0, open + 1)).append("#");
    text.remove_prefix(close);
  }
}

std::string timing_key(const std::string& group, const Tactic& tactic, const Config& config) {
  std::string key = concat(group, " | ", tactic.name, " v", tactic.version, ' ', config.text);
  for (Layout layout : config.inputs) key += concat(' ', layout);
  key += " ->";
  for (Layout layout : config.outputs) key += concat(' ', layout);
  return key;
}

std::pair<const Tactic*, Config> candidate_of_key(std::string_view rest, size_t inputs, size_t outputs) {
  std::pair<const Tactic*, Config> result;
  auto take_layouts = [&](std::vector<Layout>& layouts, size_t count) {
    layouts.resize(count);
    for (size_t i = count; i-- > 0;) {
      const size_t space = rest.rfind(' ');
      if (space == rest.npos) return false;
      const auto names = enum_names(Layout{});
      const auto found = std::find(names.begin(), names.end(), rest.substr(space + 1));
      if (found == names.end()) return false;
      layouts[i] = Layout(found - names.begin());
      rest = rest.substr(0, space);
    }
    return true;
  };
  if (!take_layouts(result.second.outputs, outputs) || !rest.ends_with(" ->")) return result;
  rest.remove_suffix(3);
  if (!take_layouts(result.second.inputs, inputs)) return result;
  const size_t version = rest.find(" v"), text = version == rest.npos ? version : rest.find(' ', version + 2);
  if (text == rest.npos) return result;
  const Tactic* tactic = find_tactic(rest.substr(0, version));
  if (tactic && rest.substr(version + 2, text - version - 2) == concat(tactic->version)) result.first = tactic;
  result.second.text = rest.substr(text + 1);
  return result;
}

// Longer ones are a model's strings: it is a key, and read by people.
constexpr size_t kMostFields = 4096;

std::string Problem::text() const {
  std::string out = concat(name_of(op), '(');
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i) out += ", ";
    out += inputs[i].present ? concat(inputs[i].type, inputs[i].is_constant    ? "*"
                                                      : inputs[i].no_negatives ? "+"
                                                                               : "")
                             : "_";
  }
  out += ')';
  std::string fields = fields_text(op);
  if (fields.size() > kMostFields) fields = concat("fields=#", hex(xxh3(fields)));
  if (!fields.empty()) out += ' ' + fields;
  out += " ->";
  for (const Port& output : outputs) out += concat(' ', output.type);
  return out + concat(" threads=", threads, cold_constants ? " cold" : "");
}

}  // namespace temper
