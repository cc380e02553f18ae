// SPDX-License-Identifier: Apache-2.0
#include "plan/packs.h"

#include <cstring>

#include "base/hash.h"

namespace temper {

void PackCache::know(std::shared_ptr<const Tensor> constant) {
  // Constants that were not packed share the model's memory already.
  if (constant->dtype() == DType::u8 && constant->rank() == 1) not_hashed_.push_back(std::move(constant));
}

std::shared_ptr<const Tensor> PackCache::shared(AlignedBytes bytes) {
  if (bytes.empty()) return nullptr;
  for (auto& constant : not_hashed_) {
    const uint64_t key = xxh3(constant->raw().data(), constant->raw().size());
    by_content_.emplace(key, std::move(constant));
  }
  not_hashed_.clear();
  const uint64_t key = xxh3(bytes.data(), bytes.size());
  for (auto [it, end] = by_content_.equal_range(key); it != end; ++it)
    if (it->second->raw().size() == bytes.size() && std::memcmp(it->second->raw().data(), bytes.data(), bytes.size()) == 0) return it->second;
  const auto owner = std::make_shared<const AlignedBytes>(std::move(bytes));
  auto tensor = std::make_shared<const Tensor>(Tensor::view(DType::u8, {int64_t(owner->size())}, owner->data(), owner));
  return by_content_.emplace(key, std::move(tensor))->second;
}

const PackCache::Entry& PackCache::get(const Problem& problem, const Tactic& tactic, const Config& config, const Device& device) {
  std::string key = concat(tactic.name, '|', config.text, '|', problem.text());
  for (Layout layout : config.inputs) key += concat(' ', layout);
  for (Layout layout : config.outputs) key += concat(' ', layout);
  for (const Port& port : problem.inputs) key += concat(' ', reinterpret_cast<uintptr_t>(port.constant ? port.constant->raw().data() : nullptr));
  auto it = by_problem_.find(key);
  if (it == by_problem_.end()) {
    Packed packed = tactic.build(problem, config, device);
    Stored stored{{shared(std::move(packed.bytes)), shared(std::move(packed.code)), std::move(packed.consumed)}, {}};
    for (const Port& port : problem.inputs)
      if (port.constant) stored.sources.push_back(*port.constant);
    it = by_problem_.emplace(std::move(key), std::move(stored)).first;
  }
  return it->second.entry;
}

std::shared_ptr<const Tensor> PackCache::reorder_code(const Reorder& reorder, const Backend& backend, const Device& device) {
  if (!backend.compile_reorder) return nullptr;
  auto [it, fresh] = reorders_.try_emplace(concat(reorder.type, ' ', reorder.from, ' ', reorder.to));
  if (fresh) it->second = shared(backend.compile_reorder(reorder, device));
  return it->second;
}

}  // namespace temper
