// SPDX-License-Identifier: Apache-2.0
// The outside of a plan file: header, manifest, section table, sections. What the bytes mean is not known here; that
// they are whole is. docs/plan-file.md has the picture.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace temper {

// Throws Error{bad_file}.
[[noreturn]] void plan_damaged(const auto&... why) {
  fail(ErrorKind::bad_file, "the plan is damaged: ", why..., "; build it again");
}

constexpr uint32_t kPlanFormat = 3;
constexpr int64_t kSectionAlignment = 256;
constexpr int64_t kMaxManifestBytes = int64_t(64) << 20;

struct SectionToWrite {
  std::string name;                               // at most 15 bytes
  bool required = true;                           // a reader that does not know it must refuse the file
  std::vector<std::span<const std::byte>> parts;  // each starts at a multiple of kSectionAlignment, in this order
};
// The offset of each part of a section from the section's start.
std::vector<int64_t> part_offsets(const SectionToWrite& section);

// Tells who wrote the file and how to make it again. It is readable in files of every format version.
struct Preamble {
  std::string program;  // "temper 0.1.0 (revision)"
  std::string command;
};

using ByteSink = std::function<void(std::span<const std::byte>)>;
void write_container(const Preamble& preamble, std::string_view manifest, const std::vector<SectionToWrite>& sections,
                     const ByteSink& sink);

struct Section {
  std::string name;
  bool required = false;
  int64_t offset = 0;
  std::span<const std::byte> bytes;
};
struct Container {
  Preamble preamble;
  std::string_view manifest;
  std::vector<Section> sections;

  const Section* find(std::string_view name) const;
};
// Whether the bytes begin as a plan does: what tells MODEL from PLAN. As many are looked at as kPlanMagic has.
bool looks_like_plan(std::span<const std::byte> file);

// Views into `file`. Everything is checked: magic, lengths, all hashes, order of sections, zero padding. Throws
// Error{bad_file} for damage and Error{unsupported}, with the command that builds the plan again, for another format.
Container read_container(std::span<const std::byte> file);

// Writes all hashes again, so that bytes that were changed on purpose get as far as the checks behind them (tests,
// fuzzing). Does nothing where the lengths do not allow it.
void seal_container(std::span<std::byte> file);

// "; build it again: COMMAND"
std::string rebuild_hint(std::string_view command);

}  // namespace temper
