// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/support/elf.h"

#include <elf.h>

#include <cstring>
#include <optional>
#include <vector>

#include "base/concat.h"

namespace temper::cuda {

namespace {

class Elf {
 public:
  explicit Elf(std::span<const std::byte> file) : file_(file) {}

  std::string problem() {
    if (file_.size() < sizeof header_) return "it ends inside of its header";
    std::memcpy(&header_, file_.data(), sizeof header_);
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0) return "it is no ELF file";
    if (header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB)
      return "it is no ELF file of 64 bits, little-endian";
    if (header_.e_ehsize != sizeof header_) return concat("its header says that it has ", header_.e_ehsize, " bytes");
    const auto sections = table<Elf64_Shdr>(header_.e_shoff, header_.e_shnum, header_.e_shentsize);
    if (!sections)
      return concat("its table of ", header_.e_shnum, " sections at byte ", header_.e_shoff, " is not inside of its ",
                    file_.size(), " bytes");
    const auto segments = table<Elf64_Phdr>(header_.e_phoff, header_.e_phnum, header_.e_phentsize);
    if (!segments)
      return concat("its table of ", header_.e_phnum, " segments at byte ", header_.e_phoff, " is not inside of its ",
                    file_.size(), " bytes");
    for (size_t i = 0; i < segments->size(); ++i)
      if (const Elf64_Phdr& segment = (*segments)[i]; !inside(segment.p_offset, segment.p_filesz))
        return concat("its segment ", i, " is not inside of its bytes");
    sections_ = *sections;
    if (!sections_.empty() && header_.e_shstrndx >= sections_.size()) return "it has no names of sections";
    for (size_t i = 0; i < sections_.size(); ++i) {
      const Elf64_Shdr& section = sections_[i];
      if (section.sh_type == SHT_NULL || section.sh_type == SHT_NOBITS) continue;
      if (!inside(section.sh_offset, section.sh_size)) return concat("its section ", i, " is not inside of its bytes");
      if (section.sh_link >= sections_.size())
        return concat("its section ", i, " belongs to one that it does not have");
    }
    for (size_t i = 0; i < sections_.size(); ++i) {
      if (!names(header_.e_shstrndx, sections_[i].sh_name)) return concat("the name of its section ", i, " has no end");
      if (sections_[i].sh_type != SHT_SYMTAB && sections_[i].sh_type != SHT_DYNSYM) continue;
      const auto symbols =
          table<Elf64_Sym>(sections_[i].sh_offset, sections_[i].sh_size / sizeof(Elf64_Sym), sections_[i].sh_entsize);
      if (!symbols || sections_[i].sh_size % sizeof(Elf64_Sym))
        return concat("its symbols in section ", i, " are no table of symbols");
      for (size_t s = 0; s < symbols->size(); ++s)
        if (!names(sections_[i].sh_link, (*symbols)[s].st_name))
          return concat("the name of its symbol ", s, " has no end");
    }
    return "";
  }

 private:
  std::span<const std::byte> file_;
  Elf64_Ehdr header_;
  std::vector<Elf64_Shdr> sections_;

  bool inside(uint64_t offset, uint64_t bytes) const {
    return offset <= file_.size() && bytes <= file_.size() - offset;
  }

  // Copies: entries need not be aligned.
  template <class Entry>
  std::optional<std::vector<Entry>> table(uint64_t offset, uint64_t count, uint64_t entry_bytes) const {
    if (count == 0) return std::vector<Entry>();
    if (entry_bytes != sizeof(Entry) || offset > file_.size() || count > (file_.size() - offset) / sizeof(Entry))
      return std::nullopt;
    std::vector<Entry> entries(count);
    std::memcpy(entries.data(), file_.data() + offset, count * sizeof(Entry));
    return entries;
  }
  // A text at `at` that ends inside of the section.
  bool names(size_t section, uint64_t at) const {
    const Elf64_Shdr& texts = sections_[section];
    if (texts.sh_type != SHT_STRTAB || at >= texts.sh_size) return at == 0 && texts.sh_size == 0;
    return std::memchr(file_.data() + texts.sh_offset + at, 0, texts.sh_size - at) != nullptr;
  }
};

}  // namespace

std::string outside_of_elf(std::span<const std::byte> file) { return Elf(file).problem(); }

}  // namespace temper::cuda
