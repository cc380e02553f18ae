// SPDX-License-Identifier: Apache-2.0
#include "plan/container.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "base/file_kind.h"
#include "base/hash.h"
#include "base/threads.h"

namespace temper {

namespace {

static_assert(std::endian::native == std::endian::little, "integers in a plan file are little-endian");

// The last two bytes and the first one are mangled by transfers that take the file for text.
constexpr const auto& kMagic = kPlanMagic;

// The first 32 bytes and the text behind the header keep their meaning in every format version.
struct Header {
  unsigned char magic[8];
  uint32_t format;
  uint32_t text_bytes;
  uint64_t file_bytes;
  uint64_t text_hash;  // of the bytes before this field, and of the text
  uint64_t manifest_bytes;
  uint32_t section_count;
  uint32_t zero;
  uint64_t hash;  // of everything before the first section but this field
  uint64_t zero2;
};
static_assert(sizeof(Header) == 64 && offsetof(Header, text_hash) == 24 && offsetof(Header, hash) == 48);

struct TableEntry {
  char name[16];
  uint64_t offset, bytes;
  uint64_t hash;
  uint32_t flags;  // 1: required
  uint32_t zero;
};
static_assert(sizeof(TableEntry) == 48);

constexpr uint64_t kTextLimit = 1 << 16;
constexpr uint32_t kMaxSections = 64;
// Pieces are hashed side by side; the hash of a section is the hash of its pieces' hashes.
constexpr size_t kPiece = size_t(4) << 20;

uint64_t combine(const std::vector<uint64_t>& hashes) { return xxh3(hashes.data(), hashes.size() * sizeof(uint64_t)); }

uint64_t text_hash(const std::byte* file, uint32_t text_bytes) {
  return combine({xxh3(file, offsetof(Header, text_hash)), xxh3(file + sizeof(Header), text_bytes)});
}
uint64_t head_hash(const std::byte* file, size_t head_bytes) {
  constexpr size_t at = offsetof(Header, hash);
  return combine({xxh3(file, at), xxh3(file + at + 8, head_bytes - at - 8)});
}

std::vector<uint64_t> hash_sections(const std::vector<std::span<const std::byte>>& sections) {
  std::vector<std::span<const std::byte>> pieces;
  for (const auto& section : sections)
    for (size_t at = 0; at < section.size(); at += kPiece)
      pieces.push_back(section.subspan(at, std::min(kPiece, section.size() - at)));
  const std::vector<uint64_t> hashes = xxh3_of_each(pieces);
  std::vector<uint64_t> result;
  auto from = hashes.begin();
  for (const auto& section : sections) {
    const auto to = from + int64_t((section.size() + kPiece - 1) / kPiece);
    result.push_back(combine({from, to}));
    from = to;
  }
  return result;
}

// Terminals obey control characters; the text of a file must not.
std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return out;
}

// The bytes before the first section, and where the table starts.
struct Head {
  uint64_t manifest_at, table_at, end;
};
Head head_of(const Header& header) {
  Head head;
  head.manifest_at = round_up<uint64_t>(sizeof(Header) + header.text_bytes, 8);
  head.table_at = round_up<uint64_t>(checked_add(head.manifest_at, header.manifest_bytes), 8);
  head.end = head.table_at + uint64_t(header.section_count) * sizeof(TableEntry);
  return head;
}

void check_zero(std::span<const std::byte> file, uint64_t from, uint64_t to) {
  for (uint64_t i = from; i < to; ++i)
    if (file[i] != std::byte{0}) plan_damaged("byte ", int64_t(i), " is padding and not zero");
}

}  // namespace

std::string rebuild_hint(std::string_view command) {
  return command.empty() ? "; build it again from the model" : concat("; build it again: ", command);
}

std::vector<int64_t> part_offsets(const SectionToWrite& section) {
  std::vector<int64_t> offsets;
  int64_t at = 0;
  for (const auto& part : section.parts) {
    offsets.push_back(at);
    at = round_up(at + int64_t(part.size()), kSectionAlignment);
  }
  return offsets;
}

void write_container(const Preamble& preamble, std::string_view manifest, const std::vector<SectionToWrite>& sections,
                     const ByteSink& sink) {
  if (int64_t(manifest.size()) > kMaxManifestBytes)
    fail(ErrorKind::unsupported, "the plan's manifest has ", manifest.size(), " bytes; the limit is ",
         kMaxManifestBytes);
  const std::string text =
      concat(printable(preamble.program), '\n', printable(preamble.command.substr(0, kTextLimit / 2)));
  Header header{};
  std::memcpy(header.magic, kMagic.data(), kMagic.size());
  header.format = kPlanFormat;
  header.text_bytes = uint32_t(text.size());
  header.manifest_bytes = manifest.size();
  header.section_count = uint32_t(sections.size());
  const Head head = head_of(header);

  // A section whose parts have gaps between them is hashed as it will stand in the file: piece by piece.
  static constexpr std::array<std::byte, size_t(kSectionAlignment)> zeros{};
  auto for_each_span = [&](const SectionToWrite& section, auto&& f) {
    int64_t at = 0;
    const auto offsets = part_offsets(section);
    for (size_t i = 0; i < offsets.size(); ++i) {
      if (offsets[i] > at) f(std::span(zeros).first(size_t(offsets[i] - at)));
      f(section.parts[i]);
      at = offsets[i] + int64_t(section.parts[i].size());
    }
  };
  std::vector<TableEntry> table;
  uint64_t at = head.end;
  for (const SectionToWrite& section : sections) {
    at = round_up<uint64_t>(at, kSectionAlignment);
    TableEntry entry{};
    std::memcpy(entry.name, section.name.data(), std::min(section.name.size(), sizeof entry.name - 1));
    entry.offset = at;
    entry.flags = section.required ? 1 : 0;
    std::vector<std::vector<std::span<const std::byte>>> pieces;  // of kPiece bytes together, but for the last
    size_t room = 0;                                              // in the last
    for_each_span(section, [&](std::span<const std::byte> span) {
      entry.bytes += span.size();
      while (!span.empty()) {
        if (room == 0) pieces.emplace_back(), room = kPiece;
        const size_t take = std::min(span.size(), room);
        pieces.back().push_back(span.first(take));
        span = span.subspan(take);
        room -= take;
      }
    });
    std::vector<uint64_t> hashes(pieces.size());
    parallel_for(int64_t(pieces.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) hashes[size_t(i)] = xxh3(pieces[size_t(i)]);
    });
    entry.hash = combine(hashes);
    at += entry.bytes;
    table.push_back(entry);
  }
  header.file_bytes = at;

  std::vector<std::byte> start(head.end);
  auto put = [&](uint64_t offset, const void* data, size_t bytes) {
    if (bytes) std::memcpy(start.data() + offset, data, bytes);
  };
  put(0, &header, sizeof header);
  put(sizeof header, text.data(), text.size());
  put(head.manifest_at, manifest.data(), manifest.size());
  put(head.table_at, table.data(), table.size() * sizeof(TableEntry));
  header.text_hash = text_hash(start.data(), header.text_bytes);
  put(0, &header, sizeof header);
  header.hash = head_hash(start.data(), start.size());
  put(0, &header, sizeof header);

  sink(start);
  uint64_t written = start.size();
  for (size_t i = 0; i < sections.size(); ++i) {
    sink(std::span(zeros).first(size_t(table[i].offset - written)));
    for_each_span(sections[i], sink);
    written = table[i].offset + table[i].bytes;
  }
}

const Section* Container::find(std::string_view name) const {
  for (const Section& section : sections)
    if (section.name == name) return &section;
  return nullptr;
}

bool looks_like_plan(std::span<const std::byte> file) {
  return file.size() >= kMagic.size() && std::memcmp(file.data(), kMagic.data(), kMagic.size()) == 0;
}

Container read_container(std::span<const std::byte> file) {
  Header header;
  if (file.empty()) fail(ErrorKind::bad_file, "the file is empty");
  if (std::memcmp(file.data(), kMagic.data(), std::min(file.size(), kMagic.size())) != 0)
    fail(ErrorKind::bad_file, "this is not a plan of Temper");
  if (file.size() < sizeof header) plan_damaged("it ends after ", file.size(), " bytes, inside its header");
  std::memcpy(&header, file.data(), sizeof header);
  if (header.text_bytes > kTextLimit || header.text_bytes > file.size() - sizeof header)
    plan_damaged("its header gives a text of ", header.text_bytes, " bytes");
  if (text_hash(file.data(), header.text_bytes) != header.text_hash)
    plan_damaged("its header has another hash than when it was written");
  Container container;
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + sizeof header, header.text_bytes);
  const auto line = std::min(text.find('\n'), text.size());
  container.preamble = {printable(text.substr(0, line)), printable(text.substr(std::min(line + 1, text.size())))};
  if (header.format != kPlanFormat)
    fail(ErrorKind::unsupported, "the plan has the format ", header.format, " (written by ", container.preamble.program,
         "); this program reads the format ", kPlanFormat, rebuild_hint(container.preamble.command));
  if (header.file_bytes != file.size()) plan_damaged("it has ", file.size(), " bytes of ", header.file_bytes);

  if (header.zero || header.zero2) plan_damaged("a reserved field is not zero");
  if (header.manifest_bytes > uint64_t(kMaxManifestBytes))
    plan_damaged("its manifest has ", header.manifest_bytes, " bytes; the limit is ", kMaxManifestBytes);
  if (header.section_count > kMaxSections)
    plan_damaged("it has ", header.section_count, " sections; the limit is ", kMaxSections);
  const Head head = head_of(header);
  if (head.end > file.size()) plan_damaged("its manifest and table reach beyond its end");
  if (head_hash(file.data(), head.end) != header.hash)
    plan_damaged("its manifest has another hash than when it was written");
  check_zero(file, sizeof header + header.text_bytes, head.manifest_at);
  check_zero(file, head.manifest_at + header.manifest_bytes, head.table_at);
  container.manifest = {reinterpret_cast<const char*>(file.data()) + head.manifest_at, size_t(header.manifest_bytes)};

  std::vector<TableEntry> table(header.section_count);
  if (!table.empty()) std::memcpy(table.data(), file.data() + head.table_at, table.size() * sizeof(TableEntry));
  std::vector<std::span<const std::byte>> spans;
  uint64_t at = head.end;
  for (const TableEntry& entry : table) {
    const auto name_end = std::find(std::begin(entry.name), std::end(entry.name), '\0');
    const std::string name = printable({entry.name, size_t(name_end - entry.name)});
    if (name.empty() || name_end == std::end(entry.name) ||
        std::any_of(name_end, std::end(entry.name), [](char c) { return c != 0; }))
      plan_damaged("a section has no proper name");
    if (container.find(name)) plan_damaged("the section '", name, "' is there twice");
    if (entry.zero || entry.flags > 1) plan_damaged("the section '", name, "' has unknown flags");
    // Each section starts at the first aligned byte after the one before: there is one way to write a file.
    const uint64_t start = round_up<uint64_t>(at, kSectionAlignment);
    if (entry.offset != start || start > file.size() || entry.bytes > file.size() - start)
      plan_damaged("the section '", name, "' is not inside the file");
    check_zero(file, at, start);
    at = start + entry.bytes;
    spans.push_back(file.subspan(start, entry.bytes));
    container.sections.push_back({name, entry.flags == 1, int64_t(start), spans.back()});
  }
  if (at != file.size()) plan_damaged("bytes follow its last section");
  const std::vector<uint64_t> hashes = hash_sections(spans);
  for (size_t i = 0; i < table.size(); ++i)
    if (hashes[i] != table[i].hash)
      plan_damaged("the section '", container.sections[i].name, "' has another hash than when it was written");
  return container;
}

void seal_container(std::span<std::byte> file) {
  Header header;
  if (file.size() < sizeof header) return;
  std::memcpy(&header, file.data(), sizeof header);
  header.file_bytes = file.size();
  std::memcpy(file.data(), &header, sizeof header);
  if (header.text_bytes <= kTextLimit && header.text_bytes <= file.size() - sizeof header)
    header.text_hash = text_hash(file.data(), header.text_bytes);
  std::memcpy(file.data(), &header, sizeof header);
  if (header.manifest_bytes > uint64_t(kMaxManifestBytes) || header.section_count > kMaxSections) return;
  const Head head = head_of(header);
  if (head.end > file.size()) return;
  for (uint32_t i = 0; i < header.section_count; ++i) {
    TableEntry entry;
    std::byte* const place = file.data() + head.table_at + i * sizeof entry;
    std::memcpy(&entry, place, sizeof entry);
    if (entry.offset > file.size() || entry.bytes > file.size() - entry.offset) continue;
    entry.hash = hash_sections({file.subspan(entry.offset, entry.bytes)})[0];
    std::memcpy(place, &entry, sizeof entry);
  }
  header.hash = head_hash(file.data(), head.end);
  std::memcpy(file.data(), &header, sizeof header);
}

}  // namespace temper
