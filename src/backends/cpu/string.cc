// SPDX-License-Identifier: Apache-2.0
// cpu.string: the ops on strings, as their references compute them. What takes their time are the strings; but a
// model's own, constants and keys, are many, and the same in every run.
#include <cstring>

#include "backends/cpu/cpu.h"
#include "base/string_table.h"
#include "graph/ops/constant_strings.h"
#include "graph/ops/string_lookup.h"
#include "graph/ops/string_match.h"

namespace temper {

extern const Tactic reference_tactic;

namespace {

class ConstantStringsKernel final : public Kernel {
 public:
  explicit ConstantStringsKernel(const Problem& problem) : op_(problem.op.get<ops::ConstantStrings>()) {}
  void launch(const Buffers& buffers) override {
    if (StringTable& table = current_strings(); table.id() != table_) {
      codes_.clear();
      for (const std::string& value : op_.values) codes_.push_back(table.kept_code_of(value));
      table_ = table.id();
    }
    if (!codes_.empty()) std::memcpy(buffers.outputs[0], codes_.data(), codes_.size() * sizeof(uint64_t));
  }

 private:
  ops::ConstantStrings op_;
  std::vector<uint64_t> codes_;
  uint64_t table_ = 0;  // that they are of; 0: none
};

// The pattern stays compiled, and what RE2 has found of it in earlier runs.
class StringMatchKernel final : public Kernel {
 public:
  explicit StringMatchKernel(const Problem& problem)
      : pattern_(compiled(problem.op.get<ops::StringMatch>())),
        count_(size_t(element_count(problem.outputs[0].dims()))) {}
  void launch(const Buffers& buffers) override {
    ops::match(*pattern_, {static_cast<const uint64_t*>(buffers.inputs[0]), count_},
               static_cast<bool*>(buffers.outputs[0]));
  }

 private:
  std::shared_ptr<const re2::RE2> pattern_;
  size_t count_;
};

class StringLookupKernel final : public Kernel {
 public:
  explicit StringLookupKernel(const Problem& problem)
      : op_(problem.op.get<ops::StringLookup>()),
        places_(places_of(op_)),
        count_(size_t(element_count(problem.outputs[0].dims()))) {}
  void launch(const Buffers& buffers) override {
    ops::look_up(places_, {static_cast<const uint64_t*>(buffers.inputs[0]), count_},
                 static_cast<int64_t*>(buffers.outputs[0]));
  }

 private:
  ops::StringLookup op_;
  ops::StringPlaces places_;
  size_t count_;
};

Support supports(const Problem& problem, const Device&) {
  return kind_of(problem.op) == OpKind::string ? supported() : refused("it works on strings only");
}
std::vector<Config> configs(const Problem& problem, const Device& device) {
  return reference_tactic.configs(problem, device);
}
std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView& packed,
                             const Device& device) {
  if (problem.op.is<ops::ConstantStrings>()) return std::make_unique<ConstantStringsKernel>(problem);
  if (problem.op.is<ops::StringMatch>()) return std::make_unique<StringMatchKernel>(problem);
  if (problem.op.is<ops::StringLookup>()) return std::make_unique<StringLookupKernel>(problem);
  return reference_tactic.load(problem, config, packed, device);
}

}  // namespace

extern const Tactic cpu_string;
const Tactic cpu_string{"cpu.string", 1, supports, configs, nullptr, load};

}  // namespace temper
