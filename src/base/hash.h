// SPDX-License-Identifier: Apache-2.0
// Hashes: XXH3 for keys inside of Temper, SHA-256 for files.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace temper {

uint64_t xxh3(const void* data, size_t bytes);
uint64_t xxh3(std::span<const std::span<const std::byte>> parts);  // as if they stood one behind the other
std::vector<uint64_t> xxh3_of_each(std::span<const std::span<const std::byte>> pieces);  // on all threads
inline uint64_t xxh3(std::string_view text) { return xxh3(text.data(), text.size()); }
std::string hex(uint64_t value);  // 16 lower-case digits
std::string sha256_hex(std::span<const std::byte> data);
bool is_sha256_hex(std::string_view text);            // 64 hexadecimal digits, lower case
std::string sha256_of_file(const std::string& path);  // throws Error{bad_file}

}  // namespace temper
