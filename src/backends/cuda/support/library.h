// SPDX-License-Identifier: Apache-2.0
// NVIDIA's libraries are opened at run time, so that one binary serves machines with and without them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace temper::cuda {

// The folders to look in, in this order: each of `folders` (a folder of libraries, a CUDA toolkit, or a Python
// site-packages folder with NVIDIA's wheels), the loader's own path, the usual places of an installation.
struct LibrarySearch {
  std::vector<std::string> folders;
  bool system = true;  // false: `folders` only
};

// Every folder that a search looks into, in order; those that do not exist are left out. The loader's path is not among
// them.
std::vector<std::string> folders_of(const LibrarySearch& search);

// An open library. It stays open until the process ends: NVIDIA's libraries start threads and keep state of their own,
// and closing them under those is not supported.
class Library {
 public:
  // Opens the first of `names` ("libnvrtc.so.13", ...) that is found. Throws Error{unsupported}: what is missing, what
  // for (`purpose`: "compiling kernels"), where it was looked for and what to install (`advice`).
  static Library open(const std::vector<std::string>& names, const LibrarySearch& search, std::string_view purpose,
                      std::string_view advice);
  const std::string& path() const { return path_; }  // as the loader knows it
  void* find(const char* symbol) const;              // null where it has none
  // Throws Error{unsupported} naming the symbol and the library.
  void* need(const char* symbol) const;
  template <class F>
  void bind(F*& function, const char* symbol) const {
    function = reinterpret_cast<F*>(need(symbol));
  }

 private:
  void* handle_ = nullptr;
  std::string path_;
};

}  // namespace temper::cuda
