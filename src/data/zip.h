// SPDX-License-Identifier: Apache-2.0
// Zip archives in memory, as PKWARE's APPNOTE 6.3 defines them, read by their central directory: stored and deflated
// entries, zip64.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace temper {

struct ZipEntry {
  std::string_view name;              // of the archive's bytes
  uint64_t size = 0;                  // bytes, unpacked, as the directory claims; only unzip() finds out
  std::span<const std::byte> packed;  // of the archive's bytes
  uint16_t method = 0;                // 0 stored, 8 deflated
  uint32_t crc = 0;
  bool encrypted = false;
};

// The entries in the directory's order; each lies before the directory, and the header in front of it has its name and
// method. Throws Error{bad_file} for what is no archive, is cut off or contradicts itself, or names more than `limit`
// entries; Error{unsupported} for an archive of several files.
std::vector<ZipEntry> zip_directory(std::span<const std::byte> archive, uint64_t limit);

// The bytes of an entry, allocated as they come, not as the directory claims. Throws Error{bad_file} where they are
// damaged: another size or checksum; Error{unsupported} for encryption and methods other than the two.
std::shared_ptr<std::vector<std::byte>> unzip(const ZipEntry& entry);

}  // namespace temper
