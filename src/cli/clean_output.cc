// SPDX-License-Identifier: Apache-2.0
#include "cli/clean_output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/quote.h"

namespace temper::cli {

std::string TextCleaner::pass(const char* text, size_t size) {
  waiting_.append(text, size);
  // The end may be the beginning of a character: up to three bytes of one that could still become whole.
  size_t whole = waiting_.size();
  for (size_t back = 1; back <= std::min<size_t>(3, waiting_.size()); ++back) {
    const auto byte = static_cast<unsigned char>(waiting_[waiting_.size() - back]);
    if (byte < 0x80) break;
    if (byte < 0xc0) continue;  // it continues one
    const size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    if (length > back) whole = waiting_.size() - back;
    break;
  }
  std::string out = printable_lines(std::string_view(waiting_).substr(0, whole));
  waiting_.erase(0, whole);
  return out;
}

std::string TextCleaner::rest() {
  std::string out = printable_lines(waiting_);
  waiting_.clear();
  return out;
}

namespace {

TextCleaner cleaner;
int write_error = 0;

bool write_all(const std::string& text, int file = STDOUT_FILENO) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = write(file, text.data() + at, text.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      write_error = errno;
      return false;
    }
    at += size_t(written);
  }
  return true;
}

ssize_t print_cleaned(void*, const char* text, size_t size) {
  return write_all(cleaner.pass(text, size)) ? ssize_t(size) : 0;
}

}  // namespace

void clean_standard_output() {
  std::FILE* cleaned = fopencookie(nullptr, "w", {nullptr, print_cleaned, nullptr, nullptr});
  if (!cleaned) return;  // out of memory: the next allocation says so
  std::setvbuf(cleaned, nullptr, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, 1 << 16);
  stdout = cleaned;
}

bool write_cleaned(int file, const std::string& text) {
  TextCleaner whole;
  const std::string begun = whole.pass(text.data(), text.size());
  return write_all(begun + whole.rest(), file);
}

bool finish_standard_output() {
  const bool written = std::fflush(stdout) == 0 && !std::ferror(stdout) && write_all(cleaner.rest());
  if (!written && write_error) errno = write_error;
  return written;
}

}  // namespace temper::cli
