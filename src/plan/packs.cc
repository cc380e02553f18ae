// SPDX-License-Identifier: Apache-2.0
#include "plan/packs.h"

#include <atomic>
#include <cstring>
#include <optional>

#include "base/hash.h"
#include "base/threads.h"

namespace temper {

void PackCache::know(std::shared_ptr<const Tensor> constant) {
  // Constants that were not packed share the model's memory already.
  if (constant->dtype() != DType::u8 || constant->rank() != 1) return;
  const std::lock_guard lock(mutex_);
  not_hashed_.push_back(std::move(constant));
}

PackCache::Hashed::Hashed(AlignedBytes b) : bytes(std::move(b)), hash(xxh3(bytes.data(), bytes.size())) {}

PackCache::Made::Made(Packed built)
    : packed(std::move(built.bytes)), code(std::move(built.code)), consumed(std::move(built.consumed)) {}

std::shared_ptr<const Tensor> PackCache::shared(Hashed hashed) {
  auto& [bytes, key] = hashed;
  if (bytes.empty()) return nullptr;
  for (auto& constant : not_hashed_) {
    const uint64_t known = xxh3(constant->raw().data(), constant->raw().size());
    by_content_.emplace(known, std::move(constant));
  }
  not_hashed_.clear();
  for (auto [it, end] = by_content_.equal_range(key); it != end; ++it)
    if (it->second->raw().size() == bytes.size() &&
        std::memcmp(it->second->raw().data(), bytes.data(), bytes.size()) == 0)
      return it->second;
  const auto owner = std::make_shared<const AlignedBytes>(std::move(bytes));
  auto tensor = std::make_shared<const Tensor>(Tensor::view(DType::u8, {int64_t(owner->size())}, owner->data(), owner));
  return by_content_.emplace(key, std::move(tensor))->second;
}

namespace {

std::string key_of(const Problem& problem, const Tactic& tactic, const Config& config) {
  std::string key = concat(tactic.name, '|', config.text, '|', problem.text());
  for (Layout layout : config.inputs) key += concat(' ', layout);
  for (Layout layout : config.outputs) key += concat(' ', layout);
  for (const auto* ports : {&problem.inputs, &problem.outputs})
    for (const Port& port : *ports) key += concat(' ', port.pitch, port.in_place ? "=" : "");
  for (const Port& port : problem.inputs)
    key += concat(' ', reinterpret_cast<uintptr_t>(port.constant ? port.constant->raw().data() : nullptr));
  return key;
}

}  // namespace

PackCache::Entry PackCache::store(std::string key, Made made, const Problem& problem) {
  Stored stored{{shared(std::move(made.packed)), shared(std::move(made.code)), std::move(made.consumed)}, {}};
  for (const Port& port : problem.inputs)
    if (port.constant) stored.sources.push_back(*port.constant);
  return by_problem_.emplace(std::move(key), std::move(stored)).first->second.entry;
}

PackCache::Entry PackCache::get(const Problem& problem, const Tactic& tactic, const Config& config,
                                const Device& device) {
  std::string key = key_of(problem, tactic, config);
  {
    const std::lock_guard lock(mutex_);
    if (auto it = by_problem_.find(key); it != by_problem_.end()) return it->second.entry;
  }
  Made made(tactic.build(problem, config, device));
  const std::lock_guard lock(mutex_);
  return store(std::move(key), std::move(made), problem);  // where another thread was faster, what that one made
}

void PackCache::prepare(const std::vector<Wanted>& wanted, const Device& device) {
  std::map<std::string, std::pair<Wanted, std::optional<Made>>> missing;
  for (const Wanted& w : wanted) {
    if (!w.tactic->build || !w.tactic->compile) continue;
    std::string key = key_of(*w.problem, *w.tactic, *w.config);
    const std::lock_guard lock(mutex_);
    if (!by_problem_.contains(key)) missing.try_emplace(std::move(key), w, std::nullopt);
  }
  std::vector<std::pair<Wanted, std::optional<Made>>*> list;
  for (auto& [key, entry] : missing) list.push_back(&entry);
  std::atomic<size_t> next{0};  // some take far longer than others
  parallel_for(int64_t(list.size()), 1, [&](int64_t, int64_t) {
    for (size_t i; (i = next++) < list.size();) try {
        auto& [w, made] = *list[i];
        made.emplace(w.tactic->build(*w.problem, *w.config, device));
      } catch (const Error&) {  // get() meets it again, and reports it
      }
  });
  const std::lock_guard lock(mutex_);
  for (auto& [key, entry] : missing)
    if (entry.second) store(key, std::move(*entry.second), *entry.first.problem);
}

std::shared_ptr<const Tensor> PackCache::reorder_code(const Reorder& reorder, const Backend& backend,
                                                      const Device& device) {
  if (!backend.compile_reorder) return nullptr;
  const std::string key = concat(reorder.type, ' ', reorder.from, ' ', reorder.to);
  {
    const std::lock_guard lock(mutex_);
    if (auto it = reorders_.find(key); it != reorders_.end()) return it->second;
  }
  Hashed made(backend.compile_reorder(reorder, device));
  const std::lock_guard lock(mutex_);
  auto [it, fresh] = reorders_.try_emplace(key);
  if (fresh) it->second = shared(std::move(made));
  return it->second;
}

void PackCache::forget_unused() {
  const std::lock_guard lock(mutex_);
  by_problem_.clear();
  reorders_.clear();
  std::erase_if(by_content_, [](const auto& item) { return item.second.use_count() == 1; });
}

}  // namespace temper
