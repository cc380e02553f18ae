// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/support/library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <filesystem>

namespace temper::cuda {

namespace fs = std::filesystem;

namespace {

void add_folder(std::vector<std::string>& out, const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return;
  if (std::find(out.begin(), out.end(), folder.string()) == out.end()) out.push_back(folder.string());
}

// The children of `folder` whose name starts with `prefix`, the highest name first: cuda-13.5 before cuda-13.0.
std::vector<fs::path> children(const fs::path& folder, std::string_view prefix) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().filename().string().starts_with(prefix)) out.push_back(it->path());
  std::sort(out.rbegin(), out.rend());
  return out;
}

void add_wheels(std::vector<std::string>& out, const fs::path& site_packages) {
  for (const fs::path& package : children(site_packages / "nvidia", "")) add_folder(out, package / "lib");
}

void add_toolkit(std::vector<std::string>& out, const fs::path& folder) {
  add_folder(out, folder / "lib64");
  add_folder(out, folder / "lib");
  add_folder(out, folder / "targets/x86_64-linux/lib");
  add_folder(out, folder / "targets/sbsa-linux/lib");
}

}  // namespace

std::vector<std::string> folders_of(const LibrarySearch& search) {
  std::vector<std::string> out;
  for (const std::string& folder : search.folders) {
    // "/lib64" below an empty name would be searched for in whatever folder the process is in.
    if (folder.empty())
      fail(ErrorKind::usage,
           "the folder to look for NVIDIA's libraries in (--cuda-path) is an empty name; name a folder, or leave it "
           "out");
    add_folder(out, folder);
    add_toolkit(out, folder);
    add_wheels(out, folder);
  }
  if (!search.system) return out;
  // Containers mount the driver into /usr/local/nvidia; /usr/lib/wsl is the driver of Windows' Linux.
  for (const char* folder : {"/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/x86_64-linux-gnu",
                             "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib"})
    add_folder(out, folder);
  add_toolkit(out, "/usr/local/cuda");
  for (const fs::path& toolkit : children("/usr/local", "cuda-")) add_toolkit(out, toolkit);
  add_toolkit(out, "/opt/cuda");
  return out;
}

Library Library::open(const std::vector<std::string>& names, const LibrarySearch& search, std::string_view purpose,
                      std::string_view advice) {
  Library library;
  std::string broken;
  auto attempt = [&](const std::string& name) {
    library.handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library.handle_) {
      link_map* map = nullptr;
      library.path_ = dlinfo(library.handle_, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name[0] ? map->l_name : name;
      return true;
    }
    return false;
  };
  const std::vector<std::string> folders = folders_of(search);
  const size_t given = [&] {
    LibrarySearch only = search;
    only.system = false;
    return folders_of(only).size();
  }();
  auto attempt_in = [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i)
      for (const std::string& name : names) {
        const std::string path = folders[i] + "/" + name;
        std::error_code error;
        if (!fs::exists(path, error)) continue;
        if (attempt(path)) return true;
        const char* why = dlerror();  // it is there and cannot be loaded: worth saying
        broken += concat("; '", path, "' cannot be loaded: ", why ? why : "unknown error");
      }
    return false;
  };
  if (attempt_in(0, given)) return library;
  if (search.system) {
    for (const std::string& name : names)
      if (attempt(name)) return library;
    if (attempt_in(given, folders.size())) return library;
  }
  std::string wanted, looked;
  for (const std::string& name : names) wanted += (wanted.empty() ? "" : " or ") + name;
  for (const std::string& folder : folders) looked += (looked.empty() ? "" : ", ") + folder;
  fail(ErrorKind::unsupported, wanted, ", needed for ", purpose, ", was not found (looked in ",
       search.system ? "the loader's path, " : "", looked.empty() ? "no folder" : looked, ")", broken, "; ", advice);
}

void* Library::find(const char* symbol) const { return dlsym(handle_, symbol); }

void* Library::need(const char* symbol) const {
  void* found = find(symbol);
  if (!found)
    fail(ErrorKind::unsupported, "'", path_, "' has no function ", symbol, ": it is too old; install a newer version");
  return found;
}

}  // namespace temper::cuda
