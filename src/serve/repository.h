// SPDX-License-Identifier: Apache-2.0
// Model repositories of Triton: a folder for each model, with a configuration and a folder for each version, which
// appears whole or not at all.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"

namespace temper {

struct ServedModel {
  std::string name;
  std::vector<std::string> plans;  // files; of several the server takes the one that is for its machine
  int64_t version = 0;             // 0: one more than the latest
  int instances = 0;               // 0: as many as the threads of a run fit into this process's cores; 2 on a GPU
  int64_t max_delay_us = -1;       // that requests wait for others to be joined with; -1: the server's default, 0
  std::string labels;              // file with a line for each class of the only output; "": none
  bool encoded_pictures = false;   // inputs that the plan remembers preprocessing of are JPEG or PNG files, not pixels
};

// Throws Error{usage} for what is no name of a model: the server makes a folder and addresses of it.
void check_model_name(const std::string& name);

// "digits" of "models/digits.plan".
std::string model_name_of(const std::string& plan);

// The contents of config.pbtxt, in the server's own form. `foreign`: plans of other machines are no error.
std::string config_of(const ServedModel& model, bool foreign);

// Adds a version to the repository, which is made where it is missing, and the model's configuration where it has none.
// Plans are hard links where the file system can make them, so that they take no room and stay what they are when
// another one replaces the file; otherwise copies. Whoever reads the repository meanwhile sees the version whole or not
// at all. Returns the version's folder. Throws Error{usage} for a version that is there, and for instances, a delay,
// labels or encoded pictures of a model that has a configuration; Error{bad_file} for what is no plan; Error{machine}.
std::string add_to_repository(const std::string& repository, const ServedModel& model, bool foreign);

}  // namespace temper
