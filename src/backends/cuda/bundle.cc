// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/bundle.h"

#include <algorithm>
#include <map>

#include "backends/cuda/support/elf.h"
#include "base/checked.h"
#include "base/hash.h"

namespace temper::cuda {

namespace {

// The bytes: a head, an entry for each job, then cubins, each on 256 bytes.
struct Head {
  char magic[8];
  uint64_t jobs;
  char architecture[32];
};
struct Entry {
  uint64_t text_hash, at, bytes;
};
constexpr char kMagic[8] = {'c', 'u', 'b', 'i', 'n', 's', '0', '2'};
constexpr uint64_t kAlignment = 256;

// Options decide what a text compiles to as much as the text does.
uint64_t hash_of(const KernelSource& source) {
  std::string all = source.text;
  for (const std::string& option : source.options) all += concat('\n', option);
  return xxh3(all);
}

}  // namespace

AlignedBytes make_bundle(const std::vector<Job>& jobs, const Compiler& compiler, const std::string& architecture) {
  Head head{};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  if (architecture.size() >= sizeof head.architecture)
    fail(ErrorKind::usage, "'", architecture, "' is no architecture");
  std::memcpy(head.architecture, architecture.data(), architecture.size());
  head.jobs = jobs.size();
  std::vector<Entry> entries;
  std::map<uint64_t, Entry> known;
  AlignedBytes body;
  const uint64_t start = round_up(sizeof(Head) + jobs.size() * sizeof(Entry), kAlignment);
  auto place = [&](std::span<const std::byte> bytes) {
    const uint64_t at = start + body.size();
    body.insert(body.end(), bytes.begin(), bytes.end());
    body.resize(round_up(body.size(), size_t(kAlignment)));
    return at;
  };
  for (const Job& job : jobs) {
    const uint64_t hash = hash_of(job.source);
    auto [it, is_new] = known.try_emplace(hash);
    if (is_new) {
      const Cubin cubin = compiler.compile(job.source, architecture);
      it->second = {hash, place(cubin.bytes), cubin.bytes.size()};
    }
    entries.push_back(it->second);
  }
  AlignedBytes out(start);
  std::memcpy(out.data(), &head, sizeof head);
  if (!entries.empty()) std::memcpy(out.data() + sizeof head, entries.data(), entries.size() * sizeof(Entry));
  out.insert(out.end(), body.begin(), body.end());
  return out;
}

Bundle::Bundle(std::span<const std::byte> bytes, const std::vector<Job>& jobs, const std::string& architecture) {
  auto bad = [](std::string_view why) {
    fail(ErrorKind::bad_file, "the compiled kernels of a step are damaged: ", why);
  };
  Head head;
  if (bytes.size() < sizeof head) bad("they are too short");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) bad("they do not begin as such");
  if (head.architecture[sizeof head.architecture - 1] != 0) bad("their architecture is no text");
  if (architecture != head.architecture)
    fail(ErrorKind::unsupported, "the kernels were compiled for ", std::string(head.architecture), "; this GPU needs ",
         architecture, ": build the plan again here");
  if (head.jobs != jobs.size()) bad("their number is not what the step needs");
  if (jobs.size() > (bytes.size() - sizeof head) / sizeof(Entry)) bad("they are too short");
  auto part = [&](uint64_t at, uint64_t size) {
    if (at % kAlignment || at > bytes.size() || size > bytes.size() - at) bad("a part lies outside");
    return bytes.subspan(at, size);
  };
  for (size_t i = 0; i < jobs.size(); ++i) {
    Entry entry;
    std::memcpy(&entry, bytes.data() + sizeof head + i * sizeof entry, sizeof entry);
    if (entry.text_hash != hash_of(jobs[i].source)) bad("they were compiled from another text");
    cubins_.push_back(part(entry.at, entry.bytes));
    if (const std::string why = outside_of_elf(cubins_.back()); !why.empty())
      bad(concat("of the kernel ", i, ", ", why));
  }
}

LoadedWork::LoadedWork(const GpuRef& gpu, Recipe::Work work, const Bundle& bundle) : work_(std::move(work)) {
  for (size_t i = 0; i < work_.jobs.size(); ++i) {
    modules_.push_back(gpu->module(bundle.cubin(i)));
    functions_.push_back(modules_.back()->function(work_.jobs[i].entry));
    constexpr uint32_t kWithoutAsking = 48 << 10;
    if (work_.jobs[i].shape.shared_bytes > kWithoutAsking)
      functions_.back().allow_shared(work_.jobs[i].shape.shared_bytes);
  }
}

void LoadedWork::launch(const Stream& stream, const DeviceBuffers& buffers) const {
  for (size_t j = 0; j < work_.jobs.size(); ++j) {
    const Job& job = work_.jobs[j];
    // Small and on the stack: a launch allocates nothing.
    constexpr size_t kMost = 64, kMostMaps = 6;
    std::array<DevicePointer, kMost> pointers;
    std::array<TensorMap, kMostMaps> maps;
    std::array<void*, kMost + kMostMaps + 1> arguments;
    auto address_of = [&](const Slot& slot) {
      return DevicePointer(slot.offset) + (slot.kind == Slot::Kind::input    ? buffers.inputs[size_t(slot.index)]
                                           : slot.kind == Slot::Kind::output ? buffers.outputs[size_t(slot.index)]
                                           : slot.kind == Slot::Kind::packed ? buffers.packed
                                           : slot.kind == Slot::Kind::fault  ? buffers.fault
                                                                             : buffers.workspace);
    };
    if (job.slots.size() > kMost)
      fail(ErrorKind::unsupported, "a kernel of ", job.slots.size(), " buffers; at most ", kMost, " are passed");
    for (size_t s = 0; s < job.slots.size(); ++s) {
      pointers[s] = address_of(job.slots[s]);
      arguments[s] = &pointers[s];
    }
    size_t count = job.slots.size();
    if (job.maps.size() > kMostMaps)
      fail(ErrorKind::unsupported, "a kernel of ", job.maps.size(), " tensor maps; at most ", kMostMaps, " are passed");
    for (size_t m = 0; m < job.maps.size(); ++m) {
      maps[m] = make_tensor_map(*stream.gpu(), job.maps[m].spec, address_of(job.maps[m].slot));
      arguments[count++] = &maps[m];
    }
    if (!job.parameters.empty()) arguments[count++] = const_cast<std::byte*>(job.parameters.data());
    functions_[j].launch(stream, job.shape, std::span<void* const>(arguments.data(), count), job.overlap);
  }
}

bool go_backwards(Recipe::Work& work) {
  bool any = false;
  for (Job& job : work.jobs) {
    if (job.backwards_at < 0) continue;
    const uint32_t yes = UINT32_MAX;
    std::memcpy(job.parameters.data() + job.backwards_at, &yes, sizeof yes);
    any = true;
  }
  return any;
}

bool reads(const Recipe::Work& work, int input) {
  auto is_input = [&](const Slot& slot) { return slot.kind == Slot::Kind::input && slot.index == input; };
  for (const Job& job : work.jobs)
    if (std::any_of(job.slots.begin(), job.slots.end(), is_input) ||
        std::any_of(job.maps.begin(), job.maps.end(), [&](const Job::Map& map) { return is_input(map.slot); }))
      return true;
  return false;
}

}  // namespace temper::cuda
