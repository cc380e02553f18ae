// SPDX-License-Identifier: Apache-2.0
// Says what the numbers of a trtexec run mean: the same line means different things by version and flag.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "interop/trtexec_log.h"

namespace temper {

inline constexpr const char* kSilent = "the log does not say";  // a note

// Absent: not known; `notes` then says why, under the names of the result's fields.
struct TrtexecSemantics {
  std::optional<std::string> version, model, model_sha256, device_name, precision;
  std::string device = "cuda:0";
  std::optional<int64_t> batch;           // items a query
  std::optional<int64_t> implicit_batch;  // where the batch is no dimension of the shapes and the log counts items
  std::map<std::string, std::vector<int64_t>> shapes;
  std::optional<std::string> transfers;  // "included", "excluded"
  std::optional<bool> cuda_graph, spin_wait;
  std::optional<int64_t> streams;
  std::map<std::string, std::string> notes;
  std::vector<std::string> contradictions;
};

// `known` as in trtexec_import.h. Throws Error{usage}.
TrtexecSemantics semantics_of(const TrtexecRun& log, const std::map<std::string, std::string>& known);

bool version_below(const std::string& version, int major, int minor);

}  // namespace temper
