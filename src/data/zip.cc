// SPDX-License-Identifier: Apache-2.0
#include "data/zip.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "base/checked.h"

namespace temper {
namespace {

using Bytes = std::span<const std::byte>;

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr uint16_t kZip64Field = 1, kEncrypted = 1;
constexpr uint16_t kStored = 0, kDeflated = 8;
constexpr size_t kStep = size_t(1) << 20;

Bytes part(Bytes bytes, uint64_t offset, uint64_t size, const char* what) {
  if (offset > bytes.size() || size > bytes.size() - offset)
    fail(ErrorKind::bad_file, what, " lies beyond the end of the archive");
  return bytes.subspan(offset, size);
}

// A field of a record that is there in full.
template <class T>
T field(Bytes record, size_t offset) {
  static_assert(std::endian::native == std::endian::little, "zip files are little-endian");
  T value;
  std::memcpy(&value, record.data() + offset, sizeof value);
  return value;
}

struct Directory {
  uint64_t entries = 0, size = 0, offset = 0;
};

Directory find_directory(Bytes archive) {
  // The record that ends the archive is the last one whose comment reaches exactly to the end.
  std::optional<size_t> end;
  for (size_t back = kEndBytes; back <= std::min(archive.size(), kEndBytes + 0xffff) && !end; ++back) {
    const Bytes record = archive.last(back);
    if (field<uint32_t>(record, 0) == kEnd && field<uint16_t>(record, 20) == back - kEndBytes)
      end = archive.size() - back;
  }
  if (!end) fail(ErrorKind::bad_file, "not a zip archive (.npz), or a damaged one: it has no directory");
  const Bytes record = archive.subspan(*end, kEndBytes);
  if (field<uint16_t>(record, 4) != 0 || field<uint16_t>(record, 6) != 0 ||
      field<uint16_t>(record, 8) != field<uint16_t>(record, 10))
    fail(ErrorKind::unsupported, "is one part of an archive of several files");
  Directory directory{field<uint16_t>(record, 10), field<uint32_t>(record, 12), field<uint32_t>(record, 16)};
  size_t limit = *end;
  if (*end >= kLocator64Bytes && field<uint32_t>(archive.subspan(*end - kLocator64Bytes), 0) == kLocator64) {
    const Bytes locator = archive.subspan(*end - kLocator64Bytes, kLocator64Bytes);
    limit = field<uint64_t>(locator, 8);
    const Bytes wide = part(archive.first(*end - kLocator64Bytes), limit, kEnd64Bytes, "the directory");
    if (field<uint32_t>(wide, 0) != kEnd64) fail(ErrorKind::bad_file, "the directory's zip64 record is damaged");
    const Directory narrow = directory;
    directory = {field<uint64_t>(wide, 32), field<uint64_t>(wide, 40), field<uint64_t>(wide, 48)};
    // Each narrow field says the same, or that it is too narrow.
    if ((narrow.entries != 0xffff && narrow.entries != directory.entries) ||
        (narrow.size != 0xffffffff && narrow.size != directory.size) ||
        (narrow.offset != 0xffffffff && narrow.offset != directory.offset))
      fail(ErrorKind::bad_file, "the directory's two records say different things");
  }
  if (checked_add(directory.offset, directory.size) != limit)
    fail(ErrorKind::bad_file, "the directory does not lie where the archive says, or is damaged");
  return directory;
}

// The fields that are too wide for the record itself follow in this order in an extra field.
void widen(Bytes extra, uint64_t& size, uint64_t& packed, uint64_t& offset) {
  uint64_t* wanted[] = {size == 0xffffffff ? &size : nullptr, packed == 0xffffffff ? &packed : nullptr,
                        offset == 0xffffffff ? &offset : nullptr};
  if (std::all_of(std::begin(wanted), std::end(wanted), [](auto* value) { return value == nullptr; })) return;
  while (extra.size() >= 4) {
    const uint16_t id = field<uint16_t>(extra, 0), bytes = field<uint16_t>(extra, 2);
    Bytes data = part(extra, 4, bytes, "an extra field");
    if (id == kZip64Field) {
      for (uint64_t* value : wanted)
        if (value) {
          *value = field<uint64_t>(part(data, 0, 8, "a zip64 size"), 0);
          data = data.subspan(8);
        }
      return;
    }
    extra = extra.subspan(4 + size_t(bytes));
  }
  fail(ErrorKind::bad_file, "a zip64 size is missing");
}

std::string_view text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// The entry whose record is the first of `directory`, which is left without it. `before`: the archive without
// directory.
ZipEntry next_entry(Bytes before, Bytes& directory) {
  const Bytes record = part(directory, 0, kCentralBytes, "an entry of the directory");
  if (field<uint32_t>(record, 0) != kCentral) fail(ErrorKind::bad_file, "an entry of the directory is damaged");
  const size_t name_bytes = field<uint16_t>(record, 28), extra_bytes = field<uint16_t>(record, 30);
  const size_t all = kCentralBytes + name_bytes + extra_bytes + field<uint16_t>(record, 32);
  part(directory, 0, all, "an entry of the directory");
  ZipEntry entry;
  entry.name = text(directory.subspan(kCentralBytes, name_bytes));
  entry.encrypted = field<uint16_t>(record, 8) & kEncrypted;
  entry.method = field<uint16_t>(record, 10);
  entry.crc = field<uint32_t>(record, 16);
  entry.size = field<uint32_t>(record, 24);
  uint64_t packed = field<uint32_t>(record, 20), offset = field<uint32_t>(record, 42);
  widen(directory.subspan(kCentralBytes + name_bytes, extra_bytes), entry.size, packed, offset);
  directory = directory.subspan(all);

  const Bytes local = part(before, offset, kLocalBytes, "an entry");
  const size_t local_name = field<uint16_t>(local, 26), local_extra = field<uint16_t>(local, 28);
  const uint64_t start = offset + kLocalBytes + local_name + local_extra;
  entry.packed = part(before, start, packed, "an entry");
  if (field<uint32_t>(local, 0) != kLocal || field<uint16_t>(local, 8) != entry.method ||
      text(before.subspan(offset + kLocalBytes, local_name)) != entry.name)
    fail(ErrorKind::bad_file, "an entry is not what the directory says");
  return entry;
}

struct Inflater {
  z_stream stream{};
  Inflater() {
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) fail(ErrorKind::machine, "zlib has no memory");
  }
  ~Inflater() { inflateEnd(&stream); }
};

// Grows as the data really comes: what the directory claims is an upper bound, never a reason to allocate.
std::vector<std::byte> inflated(Bytes packed, uint64_t size) {
  std::vector<std::byte> out;
  Inflater inflater;
  z_stream& stream = inflater.stream;
  size_t read = 0, written = 0;
  for (;;) {
    out.resize(written + kStep);
    const size_t given = std::min(packed.size() - read, kStep);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + read));
    stream.avail_in = uInt(given);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + written);
    stream.avail_out = uInt(kStep);
    const int result = inflate(&stream, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) fail(ErrorKind::machine, "zlib has no memory");
    const size_t consumed = given - stream.avail_in, produced = kStep - stream.avail_out;
    read += consumed;
    written += produced;
    if ((result != Z_OK && result != Z_STREAM_END) || written > size ||
        (result == Z_OK && consumed == 0 && produced == 0))
      fail(ErrorKind::bad_file, "is damaged: it cannot be unpacked to the ", size, " bytes that the archive says");
    if (result == Z_STREAM_END) break;
  }
  if (read != packed.size()) fail(ErrorKind::bad_file, "is damaged: bytes are left over");
  out.resize(written);
  return out;
}

}  // namespace

std::vector<ZipEntry> zip_directory(std::span<const std::byte> archive, uint64_t limit) {
  const Directory found = find_directory(archive);
  if (found.entries > limit) fail(ErrorKind::bad_file, found.entries, " entries; the limit is ", limit);
  Bytes directory = part(archive, found.offset, found.size, "the directory");
  std::vector<ZipEntry> entries;
  for (uint64_t i = 0; i < found.entries; ++i) entries.push_back(next_entry(archive.first(found.offset), directory));
  if (!directory.empty()) fail(ErrorKind::bad_file, "the directory holds more than the archive says");
  return entries;
}

std::shared_ptr<std::vector<std::byte>> unzip(const ZipEntry& entry) {
  if (entry.encrypted) fail(ErrorKind::unsupported, "is encrypted");
  if (entry.method != kStored && entry.method != kDeflated)
    fail(ErrorKind::unsupported,
         "is compressed by a method other than deflate; write it with numpy.savez or savez_compressed");
  const bool stored = entry.method == kStored;
  if (stored && entry.packed.size() != entry.size)
    fail(ErrorKind::bad_file, "is damaged: it has two sizes, ", entry.packed.size(), " and ", entry.size, " bytes");
  auto bytes = std::make_shared<std::vector<std::byte>>(
      stored ? std::vector<std::byte>(entry.packed.begin(), entry.packed.end()) : inflated(entry.packed, entry.size));
  if (bytes->size() != entry.size)
    fail(ErrorKind::bad_file, "is damaged: it unpacks to another size than the archive says (", entry.size, " bytes)");
  if (crc32_z(0, reinterpret_cast<const Bytef*>(bytes->data()), bytes->size()) != entry.crc)
    fail(ErrorKind::bad_file, "is damaged: its checksum is another");
  return bytes;
}

}  // namespace temper
