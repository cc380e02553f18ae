// SPDX-License-Identifier: Apache-2.0
#include "data/npz.h"

#include "base/checked.h"
#include "base/file.h"
#include "base/memory.h"
#include "data/npy.h"
#include "data/zip.h"

namespace temper {

std::map<std::string, Tensor> parse_npz(std::span<const std::byte> archive, int64_t limit) {
  const std::vector<ZipEntry> entries = zip_directory(archive, kMaxNpzArrays);
  uint64_t total = 0;
  for (const ZipEntry& entry : entries) total = checked_add(total, entry.size);
  const bool by_size = limit < 0;
  if (by_size) limit = kNpzPerByte * int64_t(archive.size()) + kNpzBeside;
  if (total > uint64_t(limit))
    fail(ErrorKind::bad_file, "unpacks to ", total, " bytes; the limit is ", limit,
         by_size ? concat(" (", kNpzPerByte, " times the file and ", readable_bytes(kNpzBeside), ")") : "",
         ". --memory-limit SIZE sets another; arrays saved as .npy are read in place");
  check_free_memory(int64_t(total), "unpacking it needs");
  std::map<std::string, Tensor> arrays;
  for (const ZipEntry& entry : entries)
    with_context([&] { return concat("array '", entry.name.substr(0, 200), "'"); },
                 [&] {
                   if (!entry.name.ends_with(".npy"))
                     fail(ErrorKind::bad_file, "is not an .npy file; an .npz archive holds nothing else");
                   const std::string name(entry.name.substr(0, entry.name.size() - 4));
                   const auto bytes = unzip(entry);
                   if (!arrays.emplace(name, parse_npy(*bytes, bytes)).second)
                     fail(ErrorKind::bad_file, "is there twice");
                 });
  return arrays;
}

std::map<std::string, Tensor> read_npz(const std::string& path, int64_t limit) {
  MappedFile file(path);
  return with_context([&] { return concat("'", path, "'"); }, [&] { return parse_npz(file.bytes(), limit); });
}

}  // namespace temper
