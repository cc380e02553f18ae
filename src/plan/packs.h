// SPDX-License-Identifier: Apache-2.0
// Packed constants, kept so that several plans of one model pack nothing twice and hold equal bytes once. Threads may
// use it at the same time; nobody waits while another one packs.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/backend.h"

namespace temper {

class PackCache {
 public:
  struct Entry {
    std::shared_ptr<const Tensor> packed, code;  // u8; null where there is nothing
    std::vector<bool> consumed;                  // as in Packed
  };
  struct Wanted {
    const Problem* problem;
    const Tactic* tactic;
    const Config* config;
  };
  // Does side by side what get() would do for each of them one after the other, for tactics whose build bears that
  // (those with a `compile`). What fails is left to get().
  void prepare(const std::vector<Wanted>& wanted, const Device& device);
  // Calls the tactic's build where problem, tactic, configuration or constants are new. The tactic has a build.
  Entry get(const Problem& problem, const Tactic& tactic, const Config& config, const Device& device);
  // A constant of a plan that exists already: what is packed to the same bytes is not held a second time.
  void know(std::shared_ptr<const Tensor> constant);
  // The code of a reorder's kernel; null where the backend compiles none.
  std::shared_ptr<const Tensor> reorder_code(const Reorder& reorder, const Backend& backend, const Device& device);
  // Keeps what some plan holds, to be found again by its bytes, and forgets what was packed for which problem.
  void forget_unused();

 private:
  struct Stored {
    Entry entry;
    std::vector<Tensor> sources;  // keeps their addresses, which are in the key, from being used again
  };
  mutable std::mutex mutex_;  // of what follows
  std::map<std::string, Stored> by_problem_;
  std::map<std::string, std::shared_ptr<const Tensor>> reorders_;
  std::unordered_multimap<uint64_t, std::shared_ptr<const Tensor>> by_content_;
  std::vector<std::shared_ptr<const Tensor>> not_hashed_;  // hashing waits until something is packed

  struct Hashed {
    AlignedBytes bytes;
    uint64_t hash;
    explicit Hashed(AlignedBytes b);
  };
  struct Made {
    Hashed packed, code;
    std::vector<bool> consumed;
    explicit Made(Packed built);
  };
  // With the mutex held.
  std::shared_ptr<const Tensor> shared(Hashed hashed);
  Entry store(std::string key, Made made, const Problem& problem);
};

}  // namespace temper
