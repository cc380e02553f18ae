// SPDX-License-Identifier: Apache-2.0
// Counts the memory that plans take of the host.
#pragma once
#include <unordered_map>
#include <unordered_set>

#include "plan/plan.h"

namespace temper {

// The addresses of tensors that are there whether or not a plan uses them.
using KnownConstants = std::unordered_set<const std::byte*>;

// A sum over plans: the tables of each, and every constant once, but for those that are known.
class PlanBytes {
 public:
  explicit PlanBytes(const KnownConstants& known) : known_(known) {}
  void add(const Plan& plan);
  void remove(const Plan& plan);
  int64_t total() const { return total_; }

 private:
  const KnownConstants& known_;
  std::unordered_map<const std::byte*, int64_t> users_;
  int64_t total_ = 0;
};

// The memory of the kernels that a session makes for a plan: an estimate, as libraries do not tell what they take.
int64_t kernel_bytes(const Plan& plan);

}  // namespace temper
