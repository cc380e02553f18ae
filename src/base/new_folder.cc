// SPDX-License-Identifier: Apache-2.0
#include "base/new_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "base/error.h"

namespace temper {

namespace fs = std::filesystem;

NewFolder::NewFolder(const fs::path& beside) {
  std::string pattern = (beside / ".temper-new-XXXXXX").string();
  if (!mkdtemp(pattern.data()))
    fail(ErrorKind::machine, "no folder can be made in '", beside.string(), "': ", std::strerror(errno));
  path_ = pattern;
  std::error_code ignored;
  fs::permissions(path_, fs::perms(0755), ignored);
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

void NewFolder::become(const fs::path& name) {
  if (::rename(path_.c_str(), name.c_str()) != 0) {
    const int why = errno;
    fail(why == ENOTEMPTY || why == EEXIST || why == ENOTDIR ? ErrorKind::usage : ErrorKind::machine, "'",
         name.string(), "' cannot be made: ", std::strerror(why));
  }
  path_.clear();
}

void NewFolder::replace(const fs::path& name) {
  // The two change places; what is under the passing name goes with this object.
  if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, name.c_str(), RENAME_EXCHANGE) != 0)
    fail(ErrorKind::machine, "'", name.string(), "' cannot be replaced: ", std::strerror(errno),
         "; remove it, or give another name");
}

}  // namespace temper
