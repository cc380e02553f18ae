// SPDX-License-Identifier: Apache-2.0
// The inside of a plan file as JSON text: everything but tensors and the graph's text.
#pragma once
#include "plan/info.h"

namespace temper {

// A tensor of the file, found by its place.
struct StoredTensor {
  TensorType type;
  bool in_plans = true;  // in the section of the plans' constants, otherwise in that of the graph alone
  int64_t offset = 0;    // in its section
};

struct Manifest {
  std::vector<StoredTensor> tensors;
  std::vector<std::vector<int>> plan_constants;  // by plan: Plan::constants as indices of tensors
  std::vector<int> graph_constants;              // the blobs of the graph's text, likewise
};

std::string write_manifest(const PlanFile& file, const Manifest& manifest);

class ManifestReader {
 public:
  explicit ManifestReader(std::string_view text);  // throws Error{bad_file}, as all of it does
  ~ManifestReader();
  void read_info(PlanFile& file) const;  // info, threads, inputs, outputs
  bool has_graph() const;                // constants for the graph are stored: plans for other shapes can be made
  Manifest read_tables() const;
  // Ops, types and numbers are well-formed; whether they fit together is check_plan's question. `tensors` are those of
  // the manifest; constants of problems point to them.
  std::vector<Plan> read_plans(const Manifest& manifest,
                               const std::vector<std::shared_ptr<const Tensor>>& tensors) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The candidates that were not chosen, a section of their own: running needs none of it.
std::string write_candidates(const std::vector<std::shared_ptr<const Plan>>& plans);
void read_candidates(std::string_view text, std::vector<Plan>& plans);

std::string write_timings(const std::map<std::string, double>& timings);
std::map<std::string, double> read_timings(std::string_view text);

}  // namespace temper
