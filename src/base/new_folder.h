// SPDX-License-Identifier: Apache-2.0
// Folders that appear whole: filled under another name, and then given theirs.
#pragma once
#include <filesystem>

namespace temper {

// A folder of a passing name in `beside` that goes, with all that is in it, unless it is given a name.
class NewFolder {
 public:
  explicit NewFolder(const std::filesystem::path& beside);  // throws Error{machine}
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  // Throws Error{usage} where there is something of that name, unless it is an empty folder, and Error{machine}.
  void become(const std::filesystem::path& name);
  // In the place of the folder of that name, which goes, in one step. Throws Error{machine}; the old one stays then.
  void replace(const std::filesystem::path& name);

 private:
  std::filesystem::path path_;
};

}  // namespace temper
