// SPDX-License-Identifier: Apache-2.0
// temper.toml: the models of a project with their shapes, data and budgets, so that study and gate run without flags.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"

namespace temper::cli {

struct ConfiguredGate {
  std::string baseline, result, max_slowdown;  // empty: what the flag says
  bool strict = false;
};
// One table [models.NAME], with what [defaults] says of all. Texts are as the flags of study take them; paths are made
// relative to the file's folder. Empty and 0: not said.
struct ConfiguredModel {
  std::string name;
  std::string model, data, output, precision, max_drop, metric, method, raise_to, device, duration, preprocess,
      class_names, output_name;
  std::vector<std::string> shapes;  // "image=1x3x224x224"
  int64_t threads = 0, batch = 0, samples = 0, calibration_samples = 0;
  std::optional<ConfiguredGate> gate;
};

constexpr const char* kConfigFile = "temper.toml";

// The models in the file's order. Throws Error{bad_file} with file, line and column for what is no TOML, for a key that
// is not known, with the nearest one that is, and for a value of another kind.
std::vector<ConfiguredModel> read_config(const std::string& path);

// --config and --only of the verbs that go by it.
struct ConfigFlags {
  std::string path = kConfigFile;
  std::vector<std::string> only;

  void add_to(Command& verb);
  // Those models that are asked for. Throws Error{usage} where there is no such file, saying what `verb` needs without
  // it, and for a name that the file has not.
  std::vector<ConfiguredModel> models(const std::string& verb, const std::string& needs) const;
};

}  // namespace temper::cli
