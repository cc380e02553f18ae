// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#define XXH_INLINE_ALL
#define OPENSSL_SUPPRESS_DEPRECATED  // the functions that bring nothing else of libcrypto along
#include <openssl/sha.h>
#include <xxhash.h>

#include "base/error.h"
#include "base/file.h"
#include "base/threads.h"

namespace temper {

uint64_t xxh3(const void* data, size_t bytes) { return XXH3_64bits(data, bytes); }

uint64_t xxh3(std::span<const std::span<const std::byte>> parts) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (const auto& part : parts) XXH3_64bits_update(&state, part.data(), part.size());
  return XXH3_64bits_digest(&state);
}

std::vector<uint64_t> xxh3_of_each(std::span<const std::span<const std::byte>> pieces) {
  const int64_t count = int64_t(pieces.size());
  int64_t bytes = 1;
  for (const auto& piece : pieces) bytes += int64_t(piece.size());
  std::vector<uint64_t> hashes(pieces.size());
  constexpr int64_t kWorthAThread = int64_t(1) << 20;
  parallel_for(count, std::max<int64_t>(1, kWorthAThread * count / bytes), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) hashes[size_t(i)] = xxh3(pieces[size_t(i)].data(), pieces[size_t(i)].size());
  });
  return hashes;
}

static std::string hex_of(const unsigned char* bytes, size_t count) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < count; ++i) out += {digits[bytes[i] >> 4], digits[bytes[i] & 15]};
  return out;
}

std::string hex(uint64_t value) {
  unsigned char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<unsigned char>(value >> (56 - 8 * i));
  return hex_of(bytes, 8);
}

std::string sha256_hex(std::span<const std::byte> data) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256_CTX state;
  SHA256_Init(&state);
  SHA256_Update(&state, data.data(), data.size());
  SHA256_Final(digest, &state);
  return hex_of(digest, sizeof digest);
}

bool is_sha256_hex(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string sha256_of_file(const std::string& path) { return sha256_hex(MappedFile(path).bytes()); }

}  // namespace temper
