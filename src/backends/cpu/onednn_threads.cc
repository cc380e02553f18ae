// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/onednn_threads.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <elf.h>
#include <link.h>
#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/signals.h"
#include "base/team.h"

extern "C" void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
extern "C" void GOMP_barrier();

namespace temper {

namespace {

thread_local DnnlWork work_of_call;

bool is_ours() { return work_of_call.threads > 0 || in_region(); }

struct Region {
  void (*body)(void*);
  void* data;
  bool holds_signals;
};

void parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags) {
  if (!is_ours()) return GOMP_parallel(body, data, threads, flags);
  Region region{body, data, work_of_call.holds_signals};
  run_parts(
      threads ? int(threads) : work_of_call.threads, work_of_call.parts,
      [](void* whole, int) {
        const Region& shared = *static_cast<const Region*>(whole);
        std::optional<SignalsHeld> held;  // the caller holds them already
        if (shared.holds_signals && !work_of_call.holds_signals) held.emplace();
        shared.body(shared.data);
      },
      &region);
}
void barrier() { is_ours() ? wait_for_members() : GOMP_barrier(); }
int thread_num() { return is_ours() ? this_member() : omp_get_thread_num(); }
int num_threads() { return is_ours() ? member_count() : omp_get_num_threads(); }
int in_parallel() { return is_ours() ? in_region() && member_count() > 1 : omp_in_parallel(); }
int most_threads() { return !is_ours() ? omp_get_max_threads() : in_region() ? 1 : work_of_call.threads; }

struct Import {
  std::string_view name;
  void* ours;
};
template <class F>
void* address(F* function) {
  return reinterpret_cast<void*>(function);
}

const Import imports[] = {
    {"GOMP_parallel", address(parallel)},        {"GOMP_barrier", address(barrier)},
    {"omp_get_thread_num", address(thread_num)}, {"omp_get_num_threads", address(num_threads)},
    {"omp_in_parallel", address(in_parallel)},   {"omp_get_max_threads", address(most_threads)},
};

#if defined(__x86_64__)
constexpr bool is_import(uint32_t type) { return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT; }
#elif defined(__aarch64__)
constexpr bool is_import(uint32_t type) { return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT; }
#else
constexpr bool is_import(uint32_t) { return false; }
#endif

// NOLINTBEGIN(performance-no-int-to-ptr): a loader has addresses as integers

// Where a library keeps the addresses of the functions that it imports (System V gABI, "Dynamic Linking").
struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Rela) * relocations[2] = {};
  size_t bytes[2] = {};
};
Tables tables_of(const link_map& library) {
  Tables t;
  for (const ElfW(Dyn)* entry = library.l_ld; entry->d_tag != DT_NULL; ++entry) {
    const auto at = entry->d_un.d_ptr;  // the loader has made it an address
    switch (entry->d_tag) {
      case DT_SYMTAB: t.symbols = reinterpret_cast<const ElfW(Sym)*>(at); break;
      case DT_STRTAB: t.names = reinterpret_cast<const char*>(at); break;
      case DT_JMPREL: t.relocations[0] = reinterpret_cast<const ElfW(Rela)*>(at); break;
      case DT_PLTRELSZ: t.bytes[0] = size_t(entry->d_un.d_val); break;
      case DT_RELA: t.relocations[1] = reinterpret_cast<const ElfW(Rela)*>(at); break;
      case DT_RELASZ: t.bytes[1] = size_t(entry->d_un.d_val); break;
      default: break;
    }
  }
  return t;
}

struct Entry {
  void** place;
  void* ours;
};

// Empty where the library imports anything else of OpenMP, or lacks one of the six: then it works in another way.
std::vector<Entry> find_entries(const link_map& library) {
  const Tables t = tables_of(library);
  if (!t.symbols || !t.names) return {};
  std::vector<Entry> entries;
  size_t seen[std::size(imports)] = {};
  for (int table : {0, 1})
    for (size_t i = 0; t.relocations[table] && i < t.bytes[table] / sizeof(ElfW(Rela)); ++i) {
      const ElfW(Rela) & relocation = t.relocations[table][i];
      if (!is_import(uint32_t(ELF64_R_TYPE(relocation.r_info)))) continue;
      const std::string_view name = t.names + t.symbols[ELF64_R_SYM(relocation.r_info)].st_name;
      if (!name.starts_with("GOMP_") && !name.starts_with("omp_") && !name.starts_with("__kmpc_")) continue;
      size_t which = 0;
      while (which < std::size(imports) && imports[which].name != name) ++which;
      if (which == std::size(imports)) return {};
      ++seen[which];
      entries.push_back({reinterpret_cast<void**>(library.l_addr + relocation.r_offset), imports[which].ours});
    }
  for (size_t count : seen)
    if (count == 0) return {};
  return entries;
}

// Whether the loader has made the table read-only behind itself.
bool is_read_only(const void* place) {
  struct Search {
    uintptr_t at;
    bool found = false;
  } search{reinterpret_cast<uintptr_t>(place)};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        Search& wanted = *static_cast<Search*>(data);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr) & header = info->dlpi_phdr[i];
          const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
          if (header.p_type == PT_GNU_RELRO && wanted.at >= begin && wanted.at < begin + header.p_memsz)
            wanted.found = true;
        }
        return 0;
      },
      &search);
  return search.found;
}

bool protect(const Entry& entry, int rights) {
  const auto page = uintptr_t(sysconf(_SC_PAGESIZE));
  return mprotect(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(entry.place) / page * page), page, rights) == 0;
}

// NOLINTEND(performance-no-int-to-ptr)

bool serve() {
  // The library whose functions this one calls: a process may hold another oneDNN of the same names.
  Dl_info info;
  link_map *library = nullptr, *own = nullptr;
  const auto object_of = [&](const void* function, link_map*& object) {
    return dladdr1(function, &info, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) && object;
  };
  if (!object_of(address(dnnl_primitive_execute), library) || !object_of(address(parallel), own) || library == own)
    return false;
  const std::vector<Entry> entries = find_entries(*library);
  if (entries.empty()) return false;
  std::vector<Entry> read_only;
  for (const Entry& entry : entries)
    if (is_read_only(entry.place)) read_only.push_back(entry);
  bool all = true;
  for (const Entry& entry : read_only) all &= protect(entry, PROT_READ | PROT_WRITE);
  // Another thread of the application's may be in oneDNN: whichever of both functions it finds, Temper is not the
  // caller.
  if (all)
    for (const Entry& entry : entries) __atomic_store_n(entry.place, entry.ours, __ATOMIC_RELEASE);
  for (const Entry& entry : read_only) protect(entry, PROT_READ);
  return all;
}

}  // namespace

bool serve_dnnl_regions() {
  static const bool served = serve();
  return served;
}

DnnlWork dnnl_work() { return work_of_call; }
void set_dnnl_work(const DnnlWork& work) { work_of_call = work; }

}  // namespace temper
